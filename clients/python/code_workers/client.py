"""The way in: a client of one coordinator, and `run_python` for those who want no more."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from . import errors
from .admin import Admin
from .models import Task, Version, decode
from .sessions import Session, Sessions
from .tasks import Tasks
from .transport import TRIES, Transport

LOCAL = "http://127.0.0.1:7222"
# What a shell says of a command that `timeout` ended, and the base that it adds a signal's number to.
TIMED_OUT = 124
SIGNALLED = 128


class Ran(NamedTuple):
    """What a program wrote, and its exit code: 124 after a timeout, 128 + N after signal N."""

    stdout: str
    stderr: str
    exit_code: int


class Client:
    """A coordinator with one key. Safe to use from several threads; close it, or use it in a `with`."""

    def __init__(self, coordinator: str, key: str, *, repo: str | None = None, tries: int = TRIES) -> None:
        """`coordinator` is `http://host:port` or `unix:/path`, `repo` that of tasks which name none."""
        self._transport = Transport(coordinator, key, tries=tries)
        self.default_repo = repo
        self.tasks = Tasks(self._transport)
        self.sessions = Sessions(self._transport)
        self.admin = Admin(self._transport)

    @classmethod
    def from_environment(cls, *, repo: str | None = None) -> Self:
        """As `cw` finds it: `CW_COORDINATOR`, `CW_KEY_FILE` (else `admin.key` of the local coordinator), `CW_REPO`."""
        home = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local/state")
        state_dir = Path(os.environ.get("CW_STATE_DIR") or f"{home}/code-workers")
        key_file = Path(os.environ.get("CW_KEY_FILE") or state_dir / "admin.key")
        coordinator = os.environ.get("CW_COORDINATOR") or LOCAL
        return cls(coordinator, key_file.read_text().strip(), repo=repo or os.environ.get("CW_REPO") or None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections. Tasks go on."""
        self._transport.close()

    def session(self, name: str) -> Session:
        """A session by its name; its first write or task makes it."""
        return self.sessions[name]

    def version(self) -> Version:
        """What the coordinator is."""
        return decode(Version, self._transport.json("GET", "/version"))

    def run_python(self, code: str, env: Mapping[str, str] | None = None, **spec: Any) -> Ran:
        """Runs Python and waits for its end; `spec` takes `repo`, `session`, `timeout_s` and the other fields.

        Raises `TaskNotRun` when there is no exit code to give, because the program never ran or was cancelled.
        """
        return self.run({"kind": "python", "code": code}, env=env, **spec)

    def run_shell(self, code: str, env: Mapping[str, str] | None = None, **spec: Any) -> Ran:
        """The same for shell code."""
        return self.run({"kind": "shell", "code": code}, env=env, **spec)

    def run(self, run: dict[str, Any], env: Mapping[str, str] | None = None, **spec: Any) -> Ran:
        """The same for anything that a spec can run."""
        repo = spec.pop("repo", None) or self.default_repo
        if repo is None:
            raise ValueError("which repo? name it in the call, or as the client's `repo`")
        task = self.tasks.submit(repo, run, env=None if env is None else dict(env), **spec)
        return self.ran(self.tasks.wait(task.id))

    def ran(self, task: Task) -> Ran:
        """What a done task wrote, whole, and how it ended."""
        result = task.result
        code = None if result is None else exit_code(task)
        if result is None or code is None:
            raise errors.TaskNotRun(task.id, task.state, task.reason, None if result is None else result.detail)
        dropped = result.dropped_bytes
        stdout = self._whole(task, "stdout") if dropped.stdout else result.stdout
        stderr = self._whole(task, "stderr") if dropped.stderr else result.stderr
        return Ran(stdout, stderr, code)

    def _whole(self, task: Task, stream: str) -> str:
        return self.tasks.output(task.id, stream).decode(errors="replace")


def exit_code(task: Task) -> int | None:
    """A done task's end as a shell would say it; None when there is nothing to say."""
    result = task.result
    if result is None:
        return None
    if result.exit_code is not None:
        return result.exit_code
    if task.state == "timed_out":
        return TIMED_OUT
    return None if result.signal is None else SIGNALLED + result.signal
