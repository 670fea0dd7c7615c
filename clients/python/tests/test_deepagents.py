"""The sandbox beyond the standard suite. Names are claims."""

from __future__ import annotations

import pytest

from code_workers import Client, Session
from code_workers.deepagents import CodeWorkersSandbox


@pytest.fixture
def sandbox(client: Client, session: Session) -> CodeWorkersSandbox:
    return CodeWorkersSandbox(client, session.name)


def test_write_replaces_what_was_there(sandbox: CodeWorkersSandbox) -> None:
    for text in ("one", "two"):
        assert sandbox.write("/workspace/a", text).error is None
    assert sandbox.execute("cat /workspace/a").output == "two"


def test_glob_finds_files_alone_by_absolute_paths(sandbox: CodeWorkersSandbox) -> None:
    for path in ("top.py", "src/a.py", "src/.hidden/b.py", "src/.c.py", "dir.py/x"):
        sandbox.write(f"/workspace/{path}", "")

    def found(pattern: str, path: str | None = None) -> set[str]:
        return {one["path"] for one in sandbox.glob(pattern, path).matches or []}

    inside = {"/workspace/top.py", "/workspace/src/a.py", "/workspace/src/.hidden/b.py"}
    assert found("*.py") == inside | {"/workspace/utils/greet.py"}
    assert found("/*.py") == {"/workspace/top.py"}
    assert found("**/*.py") == {"/workspace/top.py", "/workspace/src/a.py", "/workspace/utils/greet.py"}
    assert found("*.{py,txt}", "/workspace/src") == inside - {"/workspace/top.py"}
    assert found(".*.py") == {"/workspace/src/.c.py"}
    assert sandbox.glob("../*").error is not None


def test_tmp_stays_and_is_one_for_commands_and_files(sandbox: CodeWorkersSandbox) -> None:
    assert sandbox.execute("mkdir -p /tmp/d && echo 1 > /tmp/d/a && echo 2 > '/tmp/.b c'").exit_code == 0
    assert sandbox.read("/tmp/d/a").file_data == {"content": "1", "encoding": "utf-8"}
    assert sandbox.execute("cat /tmp/d/a '/tmp/.b c' /workspace/tmp/d/a").output == "1\n2\n1\n"
    assert {entry["path"] for entry in sandbox.ls("/tmp").entries or []} == {"/tmp/d", "/tmp/.b c"}
    assert sandbox.execute("rm -r /tmp/d; echo 3 > x; mv x '/tmp/.b c'").exit_code == 0
    assert [entry["path"] for entry in sandbox.ls("/tmp").entries or []] == ["/tmp/.b c"]
    assert sandbox.download_files(["/tmp/.b c"])[0].content == b"3\n"


def test_paths_elsewhere_are_refused_in_plain_words(sandbox: CodeWorkersSandbox) -> None:
    assert sandbox.upload_files([("/etc/x", b"")])[0].error == "invalid_path"
    assert "invalid_path: '/notes.txt' is outside /workspace and /tmp" in str(sandbox.write("/notes.txt", "x").error)
    assert sandbox.download_files(["/workspace/../etc/passwd"])[0].error == "invalid_path"
    assert sandbox.read("/workspace").error == "File '/workspace': is_directory"
    assert sandbox.upload_files([("/workspace/utils/x", b"")])[0].error == "permission_denied"
    assert [entry["path"] for entry in sandbox.ls("/").entries or []] == ["/tmp", "/workspace"]


def test_session_that_is_not_there_yet_looks_empty(sandbox: CodeWorkersSandbox) -> None:
    assert sandbox.ls("/workspace").entries == []
    assert sandbox.grep("x").matches == []
    assert sandbox.glob("*").matches == []


def test_commands_say_how_they_ended(sandbox: CodeWorkersSandbox) -> None:
    assert sandbox.execute("echo out; echo err >&2; exit 3").output == "out\nerr\n"
    assert sandbox.execute("exit 3").exit_code == 3
    late = sandbox.execute("echo begun; sleep 60", timeout=1)
    assert (late.exit_code, late.output) == (124, "begun\n\n[timeout]")
    assert sandbox.execute("kill -9 $$").exit_code == 128 + 9


def test_command_is_run_as_it_is_written(sandbox: CodeWorkersSandbox) -> None:
    command = "cat <<'EOF'\n$HOME `id` @END@ \\\nEOF\necho \"${BASH_VERSION:+bash}\" \"$PWD\""
    assert sandbox.execute(command).output == "$HOME `id` @END@ \\\nbash /workspace\n"


def test_output_beyond_what_is_kept_is_said_to_be_cut(sandbox: CodeWorkersSandbox) -> None:
    done = sandbox.execute("head -c 3000000 /dev/zero | tr '\\0' x")
    assert (len(done.output), done.truncated) == (3_000_000, False)
    assert sandbox.execute("head -c 30000000 /dev/zero | tr '\\0' x").truncated


def test_command_that_nobody_runs_is_an_error(client: Client, session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    nowhere = CodeWorkersSandbox(client, session.name, repo="nobody")
    get = client.tasks.get
    monkeypatch.setattr(client.tasks, "get", lambda task, wait_s=0: get(task, wait_s=1))
    done = nowhere.execute("true")
    assert done.exit_code is None
    assert "no_worker" in done.output
    assert [task.state for task in client.tasks.list(repo="nobody")] == ["cancelled"]


def test_pages_lead_to_each_other(sandbox: CodeWorkersSandbox) -> None:
    sandbox.write("/workspace/a", "1\r\n2\n3\n")
    first = sandbox.read("/workspace/a", limit=2)
    assert (first.start_line, first.end_line, first.next_offset) == (1, 2, 2)
    assert first.file_data and first.file_data["content"] == "1\n2"
    last = sandbox.read("/workspace/a", offset=2)
    assert (last.total_lines, last.next_offset) == (3, None)


def test_delete_takes_what_is_below(sandbox: CodeWorkersSandbox) -> None:
    sandbox.write("/workspace/d/a", "1")
    assert sandbox.delete("/workspace/d").error is None
    assert sandbox.delete("/workspace/d").error == "Error: '/workspace/d' not found"


def test_grep_passes_over_git_and_stops_at_its_count(sandbox: CodeWorkersSandbox) -> None:
    sandbox.write("/workspace/.git/x", "needle")
    sandbox.write("/workspace/a", "needle\n" * 5)
    assert [one["line"] for one in sandbox.grep("needle").matches or []] == [1, 2, 3, 4, 5]
    few = sandbox.grep("needle", "/workspace/a", max_count=2)
    assert (len(few.matches or []), few.truncated) == (2, True)
