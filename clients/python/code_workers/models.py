"""What the coordinator answers, as types. Fields that a newer coordinator adds are ignored."""

from __future__ import annotations

import dataclasses
import types
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")


def decode(kind: type[T], data: Any) -> T:
    """Makes one of the types below from an answer."""
    hints = _hints(kind)  # type: ignore[arg-type]
    fields = (one.name for one in dataclasses.fields(kind) if one.name in data)  # type: ignore[arg-type]
    return kind(**{name: _value(hints[name], data[name]) for name in fields})


@cache
def _hints(kind: type[Any]) -> dict[str, Any]:
    return get_type_hints(kind)


def _value(hint: Any, data: Any) -> Any:
    if data is None:
        return None
    if get_origin(hint) in (Union, types.UnionType):
        hint = next(kind for kind in get_args(hint) if kind is not type(None))
    if get_origin(hint) is list:
        return [_value(get_args(hint)[0], item) for item in data]
    return decode(hint, data) if dataclasses.is_dataclass(hint) and isinstance(hint, type) else data


@dataclass(frozen=True)
class StreamBytes:
    """Bytes of a task's two streams."""

    stdout: int = 0
    stderr: int = 0


@dataclass(frozen=True)
class Usage:
    """What an attempt used."""

    wall_ms: int
    source: str
    cpu_ms: int | None = None
    peak_memory_bytes: int | None = None


@dataclass(frozen=True)
class Artifact:
    """One file of a result."""

    path: str
    size: int
    sha256: str
    media_type: str
    kind: str
    stored: bool = True


@dataclass(frozen=True)
class Skipped:
    """A file that is not among the artifacts, and why."""

    path: str
    why: str


@dataclass(frozen=True)
class Published:
    """What a task changed in its session; with `conflicts` nothing was, and `snapshot` keeps it."""

    version: int | None
    added: int
    changed: int
    deleted: int
    bytes: int
    conflicts: list[str] = field(default_factory=list)
    snapshot: str | None = None
    used_bytes: int | None = None
    allowed_bytes: int | None = None


@dataclass(frozen=True)
class Result:
    """What came of a task. `stdout` and `stderr` may be their ends alone: `dropped_bytes` says."""

    exit_code: int | None
    signal: int | None
    stdout: str
    stderr: str
    dropped_bytes: StreamBytes
    written_bytes: StreamBytes = StreamBytes()
    return_value: Any = None
    artifacts: list[Artifact] = field(default_factory=list)
    usage: Usage | None = None
    confinement: str | None = None
    published: Published | None = None
    detail: str | None = None
    skipped: list[Skipped] = field(default_factory=list)


@dataclass(frozen=True)
class Task:
    """A task as it stands; `spec` and `result` are left out of lists."""

    id: str
    repo: str
    state: str
    reason: str | None
    priority: str
    attempt: int
    max_attempts: int
    created_at: str
    session: str | None = None
    labels: dict[str, str] = field(default_factory=dict)
    worker: str | None = None
    started_at: str | None = None
    finished_at: str | None = None
    cancel_requested_at: str | None = None
    spec: dict[str, Any] | None = None
    result: Result | None = None

    @property
    def is_done(self) -> bool:
        """Whether it will never change again."""
        return self.state not in ("queued", "running")


@dataclass(frozen=True)
class Event:
    """One event of a stream: `type` is state, output, progress, tool, message, usage or error."""

    number: int
    type: str
    data: dict[str, Any]


@dataclass(frozen=True)
class Why:
    """Why a task is where it is."""

    state: str
    code: str
    summary: str
    next: str | None = None
    ahead: int | None = None


@dataclass(frozen=True)
class Entry:
    """A file, directory or symlink of a session. `path` is relative to its root."""

    name: str
    path: str
    kind: str
    size: int
    modified_at: str
    mode: int
    etag: str | None = None
    target: str | None = None
    read_only: bool = False

    @property
    def is_dir(self) -> bool:
        """Whether it is a directory."""
        return self.kind == "directory"


@dataclass(frozen=True)
class FileContent:
    """Lines of a text file."""

    path: str
    name: str
    content: str
    size: int
    language: str
    mime_type: str
    etag: str
    offset: int
    total_lines: int
    truncated: bool


@dataclass(frozen=True)
class Written:
    """A file that was written."""

    written: bool
    path: str
    size_bytes: int
    etag: str
    version: int


@dataclass(frozen=True)
class Edited:
    """A file whose text was replaced."""

    path: str
    replaced: int
    size_bytes: int
    etag: str
    version: int


@dataclass(frozen=True)
class GlobMatches:
    """What a pattern found."""

    pattern: str
    entries: list[Entry]
    total: int
    truncated: bool


@dataclass(frozen=True)
class Line:
    """A line that matched, counted from 1."""

    file: str
    line: int
    content: str


@dataclass(frozen=True)
class GrepMatches:
    """The lines that a search found."""

    pattern: str
    matches: list[Line]
    total: int
    truncated: bool


@dataclass(frozen=True)
class SessionInfo:
    """A session; `holder` is the task that writes it now."""

    session: str
    repo: str | None
    version: int
    labels: dict[str, str]
    used_bytes: int
    allowed_bytes: int
    entries: int
    created_at: str
    used_at: str
    holder: str | None = None


@dataclass(frozen=True)
class SessionUsage:
    """How full a session is."""

    session: str
    version: int
    used_bytes: int
    allowed_bytes: int
    entries: int


@dataclass(frozen=True)
class Snapshot:
    """A version of a session that is kept under a name."""

    name: str
    version: int
    used_bytes: int
    entries: int
    created_at: str


@dataclass(frozen=True)
class ExecDone:
    """What came of a command that was run and waited for."""

    task: str
    reason: str | None
    exit_code: int | None
    stdout: str
    stderr: str
    duration_ms: int
    truncated: bool
    timed_out: bool
    detail: str | None = None


@dataclass(frozen=True)
class Key:
    """A key; `key` is its secret, and is there only in the answer that made it."""

    id: str
    role: str
    repos: list[str]
    created_at: str
    name: str | None = None
    expires_at: str | None = None
    revoked_at: str | None = None
    key: str | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Worker:
    """A worker as the coordinator last heard of it."""

    id: str
    repos: list[str]
    version: str
    slots: int
    running: int
    runs: list[str]
    confinement: list[str]
    last_seen_at: str
    state: str
    why: str | None = None


@dataclass(frozen=True)
class Repo:
    """A queue and its settings."""

    repo: str
    agent: str | None
    max_running: int | None
    paused: bool
    queued: int
    running: int


@dataclass(frozen=True)
class Version:
    """What the coordinator is, and the generations of the protocol that it speaks."""

    version: str
    protocol: int
    oldest_protocol: int
