"""What can go wrong, as exceptions. Each refusal carries the coordinator's code, detail and request id.

Where Python has an exception of its own for a case, the class is one of that too: `except PermissionError` catches
a write to `utils/`, `except FileNotFoundError` a file that is not there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class CodeWorkersError(Exception):
    """Everything that this package raises on its own account."""


class Unreachable(CodeWorkersError, ConnectionError):
    """No answer came, after every try that could be made without doing something twice."""


class TaskNotRun(CodeWorkersError):
    """A task ended without an exit code: it never ran, was cancelled, or its worker was lost."""

    def __init__(self, task: str, state: str, reason: str | None, detail: str | None) -> None:
        super().__init__(f"task {task} {state}: {reason}" + (f" ({detail})" if detail else ""))
        self.task = task
        self.state = state
        self.reason = reason
        self.detail = detail


class WaitRanOut(CodeWorkersError, TimeoutError):
    """A task was not done when the caller's patience was over. It goes on."""

    def __init__(self, task: str, waited_s: float) -> None:
        super().__init__(f"task {task} is not done after {waited_s:g} s; it goes on")
        self.task = task


class Refused(CodeWorkersError):
    """The coordinator refused a request. A refused request changed nothing."""

    def __init__(self, status: int, problem: Mapping[str, Any]) -> None:
        self.status = status
        self.problem = problem
        self.code = str(problem.get("code", "unknown"))
        self.detail = str(problem.get("detail", problem.get("title", "no detail")))
        self.request_id = str(problem.get("request_id", ""))
        super().__init__(f"{self.code}: {self.detail}" + (f" (request {self.request_id})" if self.request_id else ""))

    def __str__(self) -> str:
        # An OSError would show its arguments in its own way.
        return str(Exception.__getattribute__(self, "args")[0])


class Unauthorized(Refused):
    """The key is missing, unknown, expired or revoked."""


class Forbidden(Refused, PermissionError):
    """The key has the wrong role or repo, or the path is not one that may be touched."""


class ReadOnly(Forbidden):
    """A change below a directory that everyone shares, such as `utils/`."""


class NotFound(Refused, LookupError):
    """There is no such task, session, snapshot, key or file."""


class NoSuchFile(NotFound, FileNotFoundError):
    """There is no such file or directory in the session."""


class Conflict(Refused):
    """It does not fit what is there: already done, busy, changed meanwhile."""


class SessionBusy(Conflict):
    """Another task writes the session; `holder` is its id."""

    @property
    def holder(self) -> str | None:
        """The id of the task that has the session."""
        holder = self.problem.get("holder")
        return None if holder is None else str(holder)


class IsADirectory(Conflict, IsADirectoryError):
    """A directory where a file was wanted."""


class NotADirectory(Conflict, NotADirectoryError):
    """A file where a directory was wanted."""


class PreconditionFailed(Refused):
    """The file is not as `if_match` says, or is there although it must not be."""


class TooLarge(Refused):
    """More than a request, an answer or a file may have."""


class QuotaExceeded(TooLarge):
    """The session has no room."""

    @property
    def used_bytes(self) -> int:
        """Bytes that the session has or would have."""
        return int(self.problem.get("used_bytes", 0))

    @property
    def allowed_bytes(self) -> int:
        """Bytes that it may have."""
        return int(self.problem.get("allowed_bytes", 0))


class Invalid(Refused, ValueError):
    """A request that makes no sense as it is; `fields` says which parts."""

    @property
    def fields(self) -> dict[str, str]:
        """What is wrong, by the name of the field."""
        return {str(error["field"]): str(error["message"]) for error in self.problem.get("errors", [])}


class Unavailable(Refused):
    """The coordinator is there and cannot do it now."""


_BY_CODE: dict[str, type[Refused]] = {
    "read_only": ReadOnly,
    "session_busy": SessionBusy,
    "is_a_directory": IsADirectory,
    "not_a_directory": NotADirectory,
    "quota_exceeded": QuotaExceeded,
}

_BY_STATUS: dict[int, type[Refused]] = {
    400: Invalid,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    412: PreconditionFailed,
    413: TooLarge,
    422: Invalid,
}


def refusal(status: int, problem: Mapping[str, Any], *, about_files: bool) -> Refused:
    """The exception for an answer; a 404 of a file route is about a file."""
    kind = _BY_CODE.get(str(problem.get("code"))) or _BY_STATUS.get(status)
    if kind is None:
        kind = Unavailable if status in (502, 503, 504) else Refused
    if kind is NotFound and about_files:
        kind = NoSuchFile
    return kind(status, problem)
