"""The tasks of a coordinator: submit, read, wait, follow, cancel."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import httpx

from . import errors
from .models import Event, Task, Why, decode
from .transport import Query, Transport

HELD_S = 30
QUIET_S = 60.0
FOLLOW_TRIES = 10


class Tasks:
    """`client.tasks`."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def submit(self, repo: str, run: dict[str, Any], *, idempotency_key: str | None = None, **spec: Any) -> Task:
        """Submits a spec: `run` says what, the named arguments are the other fields of the spec.

        A submission whose answer was lost is sent again under its idempotency key, so it is queued once.
        """
        given = {name: value for name, value in spec.items() if value is not None}
        headers = {"idempotency-key": idempotency_key or str(uuid.uuid4())}
        body = {"repo": repo, "run": run, **given}
        return decode(Task, self._transport.json("POST", "/v1/tasks", body=body, headers=headers, repeatable=True))

    def get(self, task: str, *, wait_s: int | None = None) -> Task:
        """Reads a task; with `wait_s` (up to 60) the answer is held until it is done or the wait is over."""
        answer_s = 30.0 + (wait_s or 0)
        return decode(Task, self._transport.json("GET", _path(task), query={"wait_s": wait_s}, answer_s=answer_s))

    def wait(self, task: str, *, timeout_s: float | None = None) -> Task:
        """Waits until a task is done. Raises `WaitRanOut` after `timeout_s`; the task goes on then."""
        began = time.monotonic()
        while True:
            left = HELD_S if timeout_s is None else timeout_s - (time.monotonic() - began)
            found = self.get(task, wait_s=max(0, min(HELD_S, round(left))))
            if found.is_done:
                return found
            if timeout_s is not None and time.monotonic() - began >= timeout_s:
                raise errors.WaitRanOut(task, timeout_s)

    def list(
        self,
        *,
        repo: str | None = None,
        state: str | None = None,
        session: str | None = None,
        label: str | None = None,
        worker: str | None = None,
    ) -> Iterator[Task]:
        """The tasks that fit, newest first. `label` is `name=value`."""
        query: Query = {"repo": repo, "state": state, "session": session, "label": label, "worker": worker}
        return (decode(Task, item) for item in self._transport.pages("/v1/tasks", query))

    def cancel(self, task: str) -> Task:
        """Cancels a task. One that runs is asked to stop; one that is done is a `Conflict`."""
        return decode(Task, self._transport.json("POST", f"{_path(task)}/cancel", repeatable=True))

    def why(self, task: str) -> Why:
        """Says why a task is where it is."""
        return decode(Why, self._transport.json("GET", f"{_path(task)}/why"))

    def output(self, task: str, stream: str = "stdout") -> bytes:
        """The bytes that the newest attempt wrote so far."""
        return self._transport.call("GET", f"{_path(task)}/output", query={"stream": stream}).content

    def artifact(self, task: str, path: str) -> bytes:
        """A file that came of the task."""
        return self._transport.call("GET", f"{_path(task)}/artifacts/{quote(path)}").content

    def events(self, task: str, *, after: int = 0) -> Iterator[Event]:
        """Follows a task until its last state. A stream that breaks is taken up where it ended."""
        return follow(self._transport, f"{_path(task)}/events", {}, after)

    def feed(self, *, repo: str | None = None, after: int | None = None) -> Iterator[Event]:
        """Follows the state changes of all tasks, for ever."""
        return follow(self._transport, "/v1/events", {"repo": repo}, after)


def _path(task: str) -> str:
    return f"/v1/tasks/{quote(task, safe='')}"


def follow(transport: Transport, path: str, query: Query, after: int | None) -> Iterator[Event]:
    """Reads server-sent events, and connects again within bounds when the stream breaks before its end."""
    tries = 0
    while True:
        try:
            with transport.stream(path, query={**query, "after": after}, answer_s=QUIET_S) as response:
                for event in _parse(response):
                    after, tries = event.number, 0
                    yield event
                return
        except errors.Unreachable:
            tries += 1
            if tries >= FOLLOW_TRIES:
                raise
            time.sleep(min(2.0, 0.1 * 2**tries))


def _parse(response: httpx.Response) -> Iterator[Event]:
    fields: dict[str, str] = {}
    for line in response.iter_lines():
        if line.startswith(":"):
            continue
        if not line:
            if "id" in fields and "data" in fields:
                yield Event(int(fields["id"]), fields.get("event", "message"), json.loads(fields["data"]))
            fields = {}
            continue
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        fields[name] = f"{fields[name]}\n{value}" if name == "data" and name in fields else value
