"""A sandbox for deepagents: its files are those of a session, its commands are tasks of that session.

File calls go to the coordinator's file API and need no worker. A command waits for its turn: one writes at a time.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import mimetypes
import re

from deepagents.backends.protocol import (
    DeleteResult,
    EditResult,
    ExecuteResponse,
    FileData,
    FileDownloadResponse,
    FileInfo,
    FileUploadResponse,
    GlobResult,
    GrepResult,
    LsResult,
    ReadResult,
    WriteResult,
)
from deepagents.backends.sandbox import MAX_BINARY_BYTES, MAX_OUTPUT_BYTES, TRUNCATION_MSG, BaseSandbox

from . import errors
from .client import Client, exit_code
from .models import Entry, Task
from .paths import OutsideSandbox, Place, place, search_place
from .script import around
from .window import is_text, lines, window

TIMEOUT_S = 1800
LONGEST_TIMEOUT_S = 3600
PREFIX_BYTES = 8192
MOST_MATCHES = 200
NOT_KEPT = ("conflict", "quota")
NOBODY = ("no_worker", "no_fitting_worker")


class CodeWorkersSandbox(BaseSandbox):
    """A session as a sandbox.

    `classic` is for callers that expect what sandboxes did before deepagents 0.7, as the suite of `langchain-tests`
    does: `write` refuses a file that exists, `glob` finds directories too and answers with relative paths.
    """

    def __init__(
        self, client: Client, session: str, *, repo: str | None = None, timeout_s: int = TIMEOUT_S, classic: bool = False
    ) -> None:
        wanted = repo or client.default_repo
        if wanted is None:
            raise ValueError("which repo? name it here, or as the client's `repo`")
        self._client = client
        self._repo: str = wanted
        self._session = session
        self._files = client.session(session).files
        self._timeout_s = timeout_s
        self._is_classic = classic

    @property
    def id(self) -> str:
        """The session's name."""
        return self._session

    # --- commands ---

    def execute(self, command: str, *, timeout: int | None = None) -> ExecuteResponse:
        """Runs a command in `/workspace`; `timeout` 0 is the longest there is, an hour."""
        seconds = self._timeout_s if timeout is None else min(timeout or LONGEST_TIMEOUT_S, LONGEST_TIMEOUT_S)
        run = {"kind": "shell", "code": around(command)}
        try:
            task = self._client.tasks.submit(self._repo, run, session=self._session, timeout_s=seconds)
            return self._answer(self._done(task))
        except errors.CodeWorkersError as error:
            return ExecuteResponse(output=f"Error: {error}", exit_code=None)

    def _done(self, task: Task) -> Task:
        """Waits for a command, and cancels it when the caller goes away or nobody would ever run it."""
        try:
            for look in itertools.count():
                task = self._client.tasks.get(task.id, wait_s=30)
                if task.is_done:
                    return task
                if look and task.state == "queued" and (why := self._client.tasks.why(task.id)).code in NOBODY:
                    raise errors.TaskNotRun(task.id, task.state, why.code, why.summary)
        except BaseException:
            with contextlib.suppress(errors.CodeWorkersError):
                self._client.tasks.cancel(task.id)
            raise
        raise AssertionError("it looks until the task is done")

    def _answer(self, task: Task) -> ExecuteResponse:
        result = task.result
        if result is None:
            return ExecuteResponse(output=f"[the command did not run: {task.reason}]", exit_code=None)
        output, is_cut = result.stdout, False
        if result.dropped_bytes.stdout:
            raw = self._client.tasks.output(task.id)
            output, is_cut = raw.decode(errors="replace"), len(raw) < result.written_bytes.stdout
        code = exit_code(task)
        if task.reason in NOT_KEPT:
            conflicts = result.published.conflicts if result.published else []
            output += f"\n[its changes to files were not kept: {task.reason} {' '.join(conflicts)}]"
            code = code or 1
        elif task.reason not in ("ok", "exit_nonzero"):
            output += f"\n[{task.reason}{f': {result.detail}' if result.detail else ''}]"
        return ExecuteResponse(output=output, exit_code=code, truncated=is_cut)

    # --- files ---

    def ls(self, path: str) -> LsResult:
        """Lists a directory; `/` has `/tmp` and `/workspace`."""
        if path and path.strip("/") == "":
            return LsResult(entries=[FileInfo(path=top, is_dir=True) for top in ("/tmp", "/workspace")])
        try:
            where = place(path)
            found = list(self._files.list(where.inside))
        except (errors.CodeWorkersError, OutsideSandbox) as error:
            if _is_no_root(error, path):
                return LsResult(entries=[])
            return LsResult(error=f"Path '{path}': {_said(error)}")
        return LsResult(entries=[_info(entry, where.spell(entry.path)) for entry in found])

    def read(self, file_path: str, offset: int = 0, limit: int = 2000) -> ReadResult:
        """Reads lines of a text, or the whole of a small binary file as base64."""
        try:
            where = place(file_path)
            entry = self._readable(where)
            if entry.size == 0:
                return _text("System reminder: File exists but has empty contents")
            return self._read(where, entry, max(0, offset), limit)
        except (errors.CodeWorkersError, OSError, OutsideSandbox) as error:
            return ReadResult(error=f"File '{file_path}': {_said(error)}")

    def _read(self, where: Place, entry: Entry, offset: int, limit: int) -> ReadResult:
        chunks = self._files.stream(where.inside)
        first = next(chunks, b"")
        rest = itertools.chain([first], chunks)
        if _is_media(where.inside) or not is_text(first[:PREFIX_BYTES]):
            if entry.size > MAX_BINARY_BYTES:
                chunks.close()
                limit_text = f"Binary file exceeds maximum preview size of {MAX_BINARY_BYTES} bytes"
                return ReadResult(error=f"File '{where.spelled}': {limit_text}")
            content = base64.b64encode(b"".join(rest)).decode()
            return ReadResult(file_data=FileData(content=content, encoding="base64"))
        if limit <= 0:
            chunks.close()
            return ReadResult(file_data=FileData(content="", encoding="utf-8"), no_lines_requested=True)
        room = MAX_OUTPUT_BYTES - len(TRUNCATION_MSG.encode())
        found = window(lines(rest, MAX_OUTPUT_BYTES), offset, limit, room)
        chunks.close()
        if not found.returned and not found.is_cut:
            problem = f"Line offset {offset} exceeds file length ({found.seen} lines)"
            return ReadResult(error=f"File '{where.spelled}': {problem}")
        end = offset + max(1, found.returned)
        return ReadResult(
            file_data=FileData(content=found.text + TRUNCATION_MSG * found.is_cut, encoding="utf-8"),
            total_lines=found.total,
            start_line=offset + 1,
            end_line=end,
            next_offset=end if found.total is None else None,
        )

    def _readable(self, where: Place) -> Entry:
        """The entry of a file that a command of this sandbox could read too."""
        entry = self._files.stat(where.inside) if where.inside else None
        if entry is None or entry.is_dir:
            raise IsADirectoryError("is_directory")
        if entry.kind == "file" and not entry.mode & 0o444:
            raise PermissionError("permission_denied")
        return entry

    def write(self, file_path: str, content: str) -> WriteResult:
        """Writes a whole file with the directories above it."""
        try:
            self._files.write(place(file_path).inside, content, if_absent=self._is_classic)
        except errors.PreconditionFailed:
            return WriteResult(error=f"Error: File '{file_path}' already exists")
        except (errors.CodeWorkersError, OutsideSandbox) as error:
            return WriteResult(error=f"Failed to write file '{file_path}': {_said(error)}")
        return WriteResult(path=file_path)

    def edit(self, file_path: str, old_string: str, new_string: str, replace_all: bool = False) -> EditResult:
        """Replaces a text that must be there once, unless `replace_all`."""
        try:
            done = self._files.edit(place(file_path).inside, old_string, new_string, replace_all=replace_all)
        except (errors.CodeWorkersError, OutsideSandbox) as error:
            return EditResult(error=_edit_problem(error, file_path, old_string))
        return EditResult(path=file_path, occurrences=done.replaced)

    def delete(self, file_path: str) -> DeleteResult:
        """Deletes a file, or a directory with all that is below."""
        try:
            self._files.delete(place(file_path).inside)
        except errors.NotFound:
            return DeleteResult(error=f"Error: '{file_path}' not found")
        except (errors.CodeWorkersError, OutsideSandbox) as error:
            return DeleteResult(error=f"Error deleting file '{file_path}': {_said(error)}")
        return DeleteResult(path=file_path)

    def grep(
        self, pattern: str, path: str | None = None, glob: str | None = None, *, max_count: int | None = None
    ) -> GrepResult:
        """Finds a literal text; directories in `grep_exclude_dirs` are passed over."""
        most = MOST_MATCHES if max_count is None else max(1, min(max_count, MOST_MATCHES))
        try:
            where = search_place(path)
            found = self._files.grep(pattern, where.inside, include=glob, literal=True, max_results=most)
        except (errors.CodeWorkersError, OutsideSandbox) as error:
            return GrepResult(matches=[]) if _is_no_root(error, path) else GrepResult(error=f"Error: grep: {_said(error)}")
        passed_over = {name for name in self.grep_exclude_dirs if name not in where.inside.split("/")}
        matches = [line for line in found.matches if not passed_over.intersection(line.file.split("/")[:-1])]
        return GrepResult(
            matches=[{"path": where.spell(line.file), "line": line.line, "text": line.content} for line in matches],
            truncated=found.truncated,
        )

    def glob(self, pattern: str, path: str | None = None) -> GlobResult:
        """Finds files by name. A pattern without a slash is for names at any depth."""
        if ".." in pattern.split("/"):
            return GlobResult(error=f"Error: glob: '..' may not stand in {pattern!r}")
        try:
            where = search_place(path)
            found = self._files.glob(pattern.lstrip("/") if "/" in pattern else f"**/{pattern}", where.inside)
        except (errors.CodeWorkersError, OutsideSandbox) as error:
            return GlobResult(matches=[]) if _is_no_root(error, path) else GlobResult(error=f"Error: glob: {_said(error)}")
        entries = [entry for entry in found.entries if _shows(where.relative(entry.path), pattern)]
        if self._is_classic:
            matches = [_info(entry, where.relative(entry.path)) for entry in entries]
        else:
            matches = [_info(entry, where.spell(entry.path)) for entry in entries if entry.kind == "file"]
        return GlobResult(
            matches=matches, truncated=found.truncated, truncation_reason="budget" if found.truncated else None
        )

    def upload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        """Writes files as they are."""
        return [FileUploadResponse(path=path, error=self._upload(path, content)) for path, content in files]

    def _upload(self, path: str, content: bytes) -> str | None:
        try:
            self._files.write(place(path).inside, content)
        except (errors.CodeWorkersError, OutsideSandbox) as error:
            return _why(error)
        return None

    def download_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        """Reads whole files."""
        return [self._download(path) for path in paths]

    def _download(self, path: str) -> FileDownloadResponse:
        try:
            where = place(path)
            self._readable(where)
            return FileDownloadResponse(path=path, content=self._files.read_bytes(where.inside))
        except (errors.CodeWorkersError, OSError, OutsideSandbox) as error:
            return FileDownloadResponse(path=path, error=_why(error))

    # --- the same without blocking the caller's loop ---

    async def als(self, path: str) -> LsResult:
        """As `ls`."""
        return await asyncio.to_thread(self.ls, path)

    async def aread(self, file_path: str, offset: int = 0, limit: int = 2000) -> ReadResult:
        """As `read`."""
        return await asyncio.to_thread(self.read, file_path, offset, limit)

    async def awrite(self, file_path: str, content: str) -> WriteResult:
        """As `write`."""
        return await asyncio.to_thread(self.write, file_path, content)

    async def aedit(self, file_path: str, old_string: str, new_string: str, replace_all: bool = False) -> EditResult:
        """As `edit`."""
        return await asyncio.to_thread(self.edit, file_path, old_string, new_string, replace_all)

    async def agrep(
        self, pattern: str, path: str | None = None, glob: str | None = None, *, max_count: int | None = None
    ) -> GrepResult:
        """As `grep`."""
        return await asyncio.to_thread(self.grep, pattern, path, glob, max_count=max_count)

    async def aglob(self, pattern: str, path: str | None = None) -> GlobResult:
        """As `glob`."""
        return await asyncio.to_thread(self.glob, pattern, path)


def _text(content: str) -> ReadResult:
    return ReadResult(file_data=FileData(content=content, encoding="utf-8"))


def _info(entry: Entry, path: str) -> FileInfo:
    return FileInfo(path=path, is_dir=entry.is_dir, size=entry.size, modified_at=entry.modified_at)


def _is_media(path: str) -> bool:
    kind = mimetypes.guess_type(path)[0] or ""
    return kind.split("/")[0] in ("image", "audio", "video") and not kind.endswith("+xml") or kind == "application/pdf"


def _shows(relative: str, pattern: str) -> bool:
    """Names that begin with a dot are found only by patterns that write the dot."""
    names = relative.split("/") if "/" in pattern else relative.split("/")[-1:]
    return sum(name.startswith(".") for name in names) <= len(re.findall(r"(?:^|[/{,])\.", pattern))


def _is_no_root(error: Exception, path: str | None) -> bool:
    """Whether the session is not there yet: it looks empty then."""
    return isinstance(error, errors.NotFound) and (path or "/").strip("/") in ("", "workspace", "tmp")


def _why(error: Exception) -> str:
    """The words that deepagents has for a problem, else the coordinator's."""
    if isinstance(error, OutsideSandbox):
        return "invalid_path"
    if isinstance(error, errors.NotFound):
        return "file_not_found"
    if isinstance(error, IsADirectoryError):
        return "is_directory"
    if isinstance(error, errors.Refused) and error.code in ("unsafe_path", "not_a_directory"):
        return "invalid_path"
    return "permission_denied" if isinstance(error, PermissionError) else str(error)


def _said(error: Exception) -> str:
    """The same for a reader who can do something about it."""
    return f"invalid_path: {error}" if isinstance(error, OutsideSandbox) else _why(error)


def _edit_problem(error: Exception, path: str, old: str) -> str:
    code = error.code if isinstance(error, errors.Refused) else ""
    if code == "no_match":
        return f"Error: String not found in file: '{old}'"
    if code == "ambiguous_match":
        return f"Error: String '{old}' appears multiple times. Use replace_all=True to replace all occurrences."
    if code == "not_found":
        return f"Error: File '{path}' not found"
    return f"Error editing file '{path}': {_said(error)}"
