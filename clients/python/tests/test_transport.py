"""Lost connections, by a server that loses them. Names are claims."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from code_workers import Client, Unavailable, Unreachable

LOST = b""


class Served:
    """Answers connection after connection with what it was given, and keeps what was asked."""

    def __init__(self, answers: list[bytes]) -> None:
        self.asked: list[str] = []
        self._answers = answers
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        for answer in self._answers:
            connection, _ = self._socket.accept()
            with connection:
                self.asked.append(_request(connection))
                connection.sendall(answer)
        self._socket.close()


def _request(connection: socket.socket) -> str:
    seen = b""
    while b"\r\n\r\n" not in seen:
        seen += connection.recv(65536)
    head, _, body = seen.partition(b"\r\n\r\n")
    wanted = next((int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), 0)
    while len(body) < wanted:
        body += connection.recv(65536)
    return head.decode()


def answer(body: object, status: str = "200 OK", kind: str = "application/json") -> bytes:
    raw = body.encode() if isinstance(body, str) else json.dumps(body).encode()
    head = f"HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {len(raw)}\r\nconnection: close\r\n\r\n"
    return head.encode() + raw


@contextmanager
def served(*answers: bytes, tries: int = 3) -> Iterator[tuple[Client, Served]]:
    server = Served(list(answers))
    with Client(server.address, "cwk_x", tries=tries) as client:
        yield client, server


VERSION = {"version": "1", "protocol": 1, "oldest_protocol": 1}
TASK = {
    "id": "task_1", "repo": "r", "state": "queued", "reason": None, "priority": "normal",
    "attempt": 0, "max_attempts": 3, "created_at": "now", "something_new": {"a": 1},
}  # fmt: skip


def test_read_whose_answer_was_lost_is_sent_again() -> None:
    with served(LOST, LOST, answer(VERSION)) as (client, server):
        assert client.version().protocol == 1
        assert len(server.asked) == 3


def test_submission_is_sent_again_under_the_same_key() -> None:
    with served(LOST, answer(TASK, "201 Created")) as (client, server):
        assert client.tasks.submit("r", {"kind": "shell", "code": "true"}).id == "task_1"
        keys = [line for head in server.asked for line in head.lower().split("\r\n") if line.startswith("idempotency")]
        assert len(keys) == 2 and len(set(keys)) == 1


def test_change_that_may_have_happened_is_not_sent_again() -> None:
    with served(LOST, answer({"deleted": 1})) as (client, server):
        with pytest.raises(ConnectionError):
            client.session("s").files.delete("a")
        assert len(server.asked) == 1


def test_tries_are_bounded() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    with Client(f"http://127.0.0.1:{port}", "cwk_x", tries=2) as client, pytest.raises(Unreachable):
        client.session("s").files.delete("a")


def test_answer_that_is_no_problem_is_still_a_refusal() -> None:
    with served(*[answer("bad gateway", "502 Bad Gateway", "text/plain")]) as (client, _):
        with pytest.raises(Unavailable, match="bad gateway") as refused:
            client.version()
        assert refused.value.status == 502


def test_broken_event_stream_goes_on_where_it_ended() -> None:
    def event(number: int) -> str:
        return f": alive\n\nid: {number}\nevent: output\ndata: {{\"text\": \"{number}\"}}\n\n"

    whole = answer(event(1) + event(2) + "id: 3\ndata: {", kind="text/event-stream")
    broken = whole.replace(b"content-length: ", b"content-length: 9")
    with served(broken, answer(event(3), kind="text/event-stream")) as (client, server):
        assert [one.number for one in client.tasks.events("task_1")] == [1, 2, 3]
        assert "after=0" in server.asked[0] and "after=2" in server.asked[1]
