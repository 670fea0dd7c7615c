"""One pool of connections, one key, and the manners of the protocol: problems, retries, pages. It knows no route."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self, TypeAlias

import httpx

from . import errors

PROTOCOL = "1"
TRIES = 5
ANSWER_S = 30.0

Query: TypeAlias = Mapping[str, str | int | None]
Headers: TypeAlias = Mapping[str, str]


class Transport:
    """Sends requests to one coordinator with one key. Safe to use from several threads."""

    def __init__(self, coordinator: str, key: str, *, tries: int = TRIES) -> None:
        if coordinator.startswith("unix:"):
            base, way = "http://localhost", httpx.HTTPTransport(uds=coordinator.removeprefix("unix:"))
        else:
            base, way = coordinator.rstrip("/"), httpx.HTTPTransport()
        self._tries = tries
        self._http = httpx.Client(
            base_url=base,
            transport=way,
            headers={"authorization": f"Bearer {key}", "cw-protocol": PROTOCOL},
            timeout=httpx.Timeout(ANSWER_S, connect=5.0),
            trust_env=False,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections."""
        self._http.close()

    def call(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: object = None,
        content: bytes | None = None,
        headers: Headers | None = None,
        answer_s: float = ANSWER_S,
        repeatable: bool | None = None,
    ) -> httpx.Response:
        """Sends a request and reads the whole answer; a refusal is raised.

        A request that reached nobody is sent again. One whose answer was lost is sent again only when that does
        nothing twice: reads are `repeatable`, the rest when the caller says so.
        """
        may_repeat = method == "GET" if repeatable is None else repeatable
        sent = dict(headers or {})
        if body is not None:
            content = json.dumps(body).encode()
            sent["content-type"] = "application/json"
        for left in reversed(range(self._tries)):
            try:
                response = self._http.request(
                    method,
                    path,
                    params=_given(query),
                    content=content,
                    headers=sent,
                    timeout=httpx.Timeout(answer_s, connect=5.0),
                )
            except httpx.TransportError as error:
                if left == 0 or not (may_repeat or isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout))):
                    raise errors.Unreachable(f"{method} {path}: {error or type(error).__name__}") from error
            else:
                if response.status_code != 503 or not may_repeat or left == 0:
                    return _checked(response)
            _pause(self._tries - left)
        raise AssertionError("the last try either answers or raises")

    def json(self, method: str, path: str, **options: Any) -> Any:
        """The same for an answer that is JSON."""
        return self.call(method, path, **options).json()

    @contextmanager
    def stream(
        self, path: str, *, query: Query | None = None, headers: Headers | None = None, answer_s: float = ANSWER_S
    ) -> Iterator[httpx.Response]:
        """Opens an answer that is read piece by piece."""
        timeout = httpx.Timeout(answer_s, connect=5.0)
        try:
            with self._http.stream("GET", path, params=_given(query), headers=headers, timeout=timeout) as response:
                if response.is_error:
                    response.read()
                yield _checked(response)
        except httpx.TransportError as error:
            raise errors.Unreachable(f"GET {path}: {error or type(error).__name__}") from error

    def pages(self, path: str, query: Query | None = None, *, items: str = "items") -> Iterator[Any]:
        """The items of a list, page after page."""
        cursor: str | None = None
        while True:
            page = self.json("GET", path, query={**(query or {}), "cursor": cursor})
            yield from page[items]
            cursor = page.get("next_cursor")
            if cursor is None:
                return


def _given(query: Query | None) -> dict[str, str | int]:
    return {name: value for name, value in (query or {}).items() if value is not None}


def _pause(tries: int) -> None:
    time.sleep(min(2.0, 0.1 * 2**tries) * random.uniform(0.5, 1.0))


def _checked(response: httpx.Response) -> httpx.Response:
    if not response.is_error:
        return response
    try:
        problem = response.json()
    except ValueError:
        problem = None
    if not isinstance(problem, dict):
        problem = {"code": "not_a_problem", "detail": response.text[:200] or response.reason_phrase}
    about_files = "/files" in response.request.url.path or "/artifacts/" in response.request.url.path
    raise errors.refusal(response.status_code, problem, about_files=about_files)
