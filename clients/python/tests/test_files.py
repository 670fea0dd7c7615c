"""Files of sessions by the real coordinator. Names are claims."""

from __future__ import annotations

import io
import tarfile

import pytest

from code_workers import (
    Client,
    Forbidden,
    IsADirectory,
    NoSuchFile,
    PreconditionFailed,
    QuotaExceeded,
    ReadOnly,
    Session,
)


def test_all_spellings_are_one_file(session: Session) -> None:
    session.files.write("/workspace/a.txt", "1")
    assert session.files.read_text("a.txt") == session.files.read_text("/a.txt") == "1"


def test_files_are_written_read_edited_moved_and_deleted(session: Session) -> None:
    files = session.files
    files.write("src/a.py", "one\ntwo\nthree\n", mode=0o755)
    assert files.stat("src/a.py").mode & 0o777 == 0o755
    assert files.read("src/a.py", offset=1, limit=1).content.strip() == "two"
    assert files.edit("src/a.py", "two", "2").replaced == 1
    assert files.edit_several("src/a.py", [("one", "1"), ("three", "3")]).replaced == 2
    assert files.move("src/a.py", "src/b.py") == 1
    assert files.read_bytes("src/b.py") == b"1\n2\n3\n"
    assert files.mkdir("empty") and not files.mkdir("empty")
    assert [entry.name for entry in files.list("/") if not entry.read_only] == ["empty", "src"]
    assert [entry.path for entry in files.glob("**/*.py", "src").entries] == ["src/b.py"]
    assert [(line.file, line.line) for line in files.grep("^2$").matches] == [("src/b.py", 2)]
    assert files.delete("src") == 2
    with pytest.raises(FileNotFoundError):
        files.read_bytes("src/b.py")


def test_read_only_is_a_permission_error(session: Session) -> None:
    for path in ("utils/forbidden.py", "/workspace/utils/forbidden.py", "skills/x"):
        with pytest.raises(PermissionError) as refused:
            session.files.write(path, "x")
        assert isinstance(refused.value, ReadOnly)
        assert refused.value.code == "read_only"
    session.files.write("a", "1")
    assert "def greet" in session.files.read_text("utils/greet.py")


def test_paths_that_may_not_be_are_permission_errors(session: Session) -> None:
    for path, code in (("../x", "unsafe_path"), (".ssh/id", "sensitive_path")):
        with pytest.raises(Forbidden) as refused:
            session.files.write(path, "x")
        assert refused.value.code == code


def test_missing_files_and_directories_are_pythons_own_errors(session: Session) -> None:
    session.files.mkdir("d")
    with pytest.raises(IsADirectory):
        session.files.read_bytes("d")
    for look in (session.files.stat, session.files.read, session.files.read_bytes, session.files.delete):
        with pytest.raises(NoSuchFile):
            look("nothing")


def test_two_writers_of_one_file_notice_each_other(session: Session) -> None:
    first = session.files.write("a", "1", if_absent=True)
    session.files.write("a", "2", if_match=first.etag)
    with pytest.raises(PreconditionFailed):
        session.files.write("a", "3", if_match=first.etag)
    with pytest.raises(PreconditionFailed):
        session.files.write("a", "3", if_absent=True)
    assert session.files.read_text("a") == "2"


def test_quota_says_used_and_allowed(client: Client, session: Session) -> None:
    small = client.sessions.create(session.name, quota_bytes=1000, labels={"size": session.name})
    with pytest.raises(QuotaExceeded) as refused:
        small.files.write("a", b"x" * 2000)
    assert refused.value.allowed_bytes == 1000
    assert refused.value.used_bytes >= 2000
    assert [one.session for one in client.sessions.list(label=f"size={session.name}")] == [session.name]


def test_snapshots_and_forks_keep_what_was(session: Session) -> None:
    session.files.write("a", "1")
    assert session.snapshot("before").entries == 1
    session.files.write("a", "2")
    assert session.files.read_text("a", snapshot="before") == "1"
    assert session.fork(f"{session.name}-2", snapshot="before").files.read_text("a") == "1"
    assert session.restore("before") == 1
    assert session.files.read_text("a") == "1"
    assert [one.name for one in session.snapshots()] == ["before"]
    session.delete_snapshot("before")
    assert list(session.snapshots()) == []
    assert session.usage().used_bytes == session.info().used_bytes == 1


def test_archive_has_the_tree(session: Session) -> None:
    session.files.write("d/a", "1")
    archive = io.BytesIO(b"".join(session.files.archive()))
    with tarfile.open(fileobj=archive) as tree:
        assert "d/a" in [name.removeprefix("./") for name in tree.getnames()]


def test_task_and_client_share_the_files(client: Client, session: Session) -> None:
    session.files.write("in.txt", "hello")
    code = "from pathlib import Path; Path('out.txt').write_text(Path('/workspace/in.txt').read_text().upper())"
    assert client.run_python(code, session=session.name).exit_code == 0
    assert session.files.read_text("/out.txt") == "HELLO"
    session.delete()
    with pytest.raises(NoSuchFile):
        list(session.files.list())
