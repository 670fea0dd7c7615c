"""What operators do: keys, workers, repos. Needs an admin's key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import quote

from .models import Key, Repo, Worker, decode
from .transport import Transport


class Admin:
    """`client.admin`."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def create_key(
        self, role: str, *, repos: Sequence[str] = (), name: str | None = None, ttl_s: int | None = None
    ) -> Key:
        """Makes a key. Its secret is in this answer alone."""
        body = {"role": role, "repos": list(repos) or None, "name": name, "ttl_s": ttl_s}
        given = {field: value for field, value in body.items() if value is not None}
        return decode(Key, self._transport.json("POST", "/v1/keys", body=given))

    def keys(self) -> Iterator[Key]:
        """All keys, without secrets."""
        return (decode(Key, item) for item in self._transport.pages("/v1/keys"))

    def revoke_key(self, key: str) -> Key:
        """Ends a key at once."""
        return decode(Key, self._transport.json("DELETE", f"/v1/keys/{quote(key, safe='')}", repeatable=True))

    def workers(self) -> Iterator[Worker]:
        """The workers that were seen."""
        return (decode(Worker, item) for item in self._transport.pages("/v1/workers"))

    def repos(self) -> Iterator[Repo]:
        """The repos."""
        return (decode(Repo, item) for item in self._transport.pages("/v1/repos"))

    def repo(self, name: str) -> Repo:
        """One repo."""
        return decode(Repo, self._transport.json("GET", _repo(name)))

    def change_repo(self, name: str, **settings: Any) -> Repo:
        """Sets `agent`, `max_running` or `paused`; None sets one back."""
        return decode(Repo, self._transport.json("PATCH", _repo(name), body=settings, repeatable=True))


def _repo(name: str) -> str:
    return f"/v1/repos/{quote(name, safe='')}"
