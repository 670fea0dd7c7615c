"""Sessions: named trees of files that several tasks share."""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from urllib.parse import quote

from .files import Files
from .models import ExecDone, SessionInfo, SessionUsage, Snapshot, decode
from .transport import Query, Transport

# A worker has a minute to take the command.
TAKEN_S = 60


class Session:
    """One session by its name. It need not be there yet: its first write or task makes it."""

    def __init__(self, transport: Transport, name: str) -> None:
        self._transport = transport
        self._base = f"/v1/workspaces/{quote(name, safe='')}"
        self.name = name
        self.files = Files(transport, name)

    def info(self) -> SessionInfo:
        """What it is and how full."""
        return decode(SessionInfo, self._transport.json("GET", self._base))

    def usage(self) -> SessionUsage:
        """How full it is."""
        return decode(SessionUsage, self._transport.json("GET", f"{self._base}/usage"))

    def delete(self) -> None:
        """Deletes it with its files and snapshots."""
        self._transport.call("DELETE", self._base)

    def snapshot(self, name: str) -> Snapshot:
        """Keeps it as it is now under a name."""
        return decode(Snapshot, self._transport.json("POST", f"{self._base}/snapshots", body={"name": name}))

    def snapshots(self) -> Iterator[Snapshot]:
        """Its snapshots."""
        return (decode(Snapshot, item) for item in self._transport.pages(f"{self._base}/snapshots"))

    def delete_snapshot(self, name: str) -> None:
        """Forgets a snapshot."""
        self._transport.call("DELETE", f"{self._base}/snapshots/{quote(name, safe='')}")

    def restore(self, snapshot: str) -> int:
        """Makes its files those of a snapshot again; says how many entries changed."""
        answer = self._transport.json("POST", f"{self._base}/restore", body={"snapshot": snapshot})
        return int(answer["changed"])

    def fork(self, name: str, *, snapshot: str | None = None, labels: dict[str, str] | None = None) -> Session:
        """Makes another session that begins with these files."""
        body = {"session": name, "snapshot": snapshot, "labels": labels}
        given = {field: value for field, value in body.items() if value is not None}
        self._transport.call("POST", f"{self._base}/fork", body=given)
        return Session(self._transport, name)

    def exec(
        self,
        command: str | builtins.list[str],
        *,
        cwd: str | None = None,
        timeout_s: int = 120,
        repo: str | None = None,
    ) -> ExecDone:
        """Runs a shell command or an argument list among the files and waits (1–300 s). `SessionBusy` when a task has it."""
        what = {"command": command} if isinstance(command, str) else {"argv": command}
        body = {**what, "cwd": cwd, "timeout_s": timeout_s, "repo": repo}
        given = {field: value for field, value in body.items() if value is not None}
        answer_s = float(timeout_s + TAKEN_S + 30)
        return decode(ExecDone, self._transport.json("POST", f"{self._base}/exec", body=given, answer_s=answer_s))


class Sessions:
    """`client.sessions`."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def __getitem__(self, name: str) -> Session:
        return Session(self._transport, name)

    def create(
        self,
        name: str,
        *,
        repo: str | None = None,
        labels: dict[str, str] | None = None,
        quota_bytes: int | None = None,
    ) -> Session:
        """Makes a session with its settings."""
        body = {"session": name, "repo": repo, "labels": labels, "quota_bytes": quota_bytes}
        given = {field: value for field, value in body.items() if value is not None}
        self._transport.call("POST", "/v1/workspaces", body=given)
        return self[name]

    def list(self, *, repo: str | None = None, label: str | None = None) -> Iterator[SessionInfo]:
        """The sessions that fit, by name. `label` is `name=value`."""
        query: Query = {"repo": repo, "label": label}
        return (decode(SessionInfo, item) for item in self._transport.pages("/v1/workspaces", query))
