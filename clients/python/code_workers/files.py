"""The files of one session. `x`, `/x` and `/workspace/x` are the same file; the root is `/`."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import Any
from urllib.parse import quote

from .models import Edited, Entry, FileContent, GlobMatches, GrepMatches, Written, decode
from .transport import Query, Transport

TRANSFER_S = 600.0
CHUNK_BYTES = 256 * 1024


class Files:
    """`session.files`. Reads take `snapshot=` to see the session as it was then."""

    def __init__(self, transport: Transport, session: str) -> None:
        self._transport = transport
        self._base = f"/v1/workspaces/{quote(session, safe='')}"

    def list(self, path: str = "/", *, snapshot: str | None = None) -> Iterator[Entry]:
        """What is directly in a directory, directories first."""
        query: Query = {"path": path, "snapshot": snapshot, "limit": 500}
        return (decode(Entry, item) for item in self._transport.pages(f"{self._base}/files", query, items="entries"))

    def stat(self, path: str, *, snapshot: str | None = None) -> Entry:
        """One entry."""
        return decode(Entry, self._get("files/stat", {"path": path, "snapshot": snapshot}))

    def read(
        self, path: str, *, offset: int | None = None, limit: int | None = None, snapshot: str | None = None
    ) -> FileContent:
        """Lines of a text file of up to 2 MiB, from line `offset` (the first is 0)."""
        query: Query = {"path": path, "offset": offset, "limit": limit, "snapshot": snapshot}
        return decode(FileContent, self._get("files/content", query))

    def read_bytes(self, path: str, *, snapshot: str | None = None) -> bytes:
        """A whole file."""
        return b"".join(self.stream(path, snapshot=snapshot))

    def read_text(self, path: str, *, snapshot: str | None = None) -> str:
        """A whole file, as UTF-8."""
        return self.read_bytes(path, snapshot=snapshot).decode()

    def stream(self, path: str, *, snapshot: str | None = None) -> Generator[bytes, None, None]:
        """A file piece by piece. Whoever stops early reads no more of it."""
        query: Query = {"path": path, "snapshot": snapshot}
        with self._transport.stream(f"{self._base}/files/raw", query=query, answer_s=TRANSFER_S) as response:
            yield from response.iter_bytes(CHUNK_BYTES)

    def write(
        self,
        path: str,
        content: str | bytes,
        *,
        mode: int | None = None,
        if_match: str | None = None,
        if_absent: bool = False,
    ) -> Written:
        """Writes a whole file, with the directories above it. `if_match` is the etag that it must still have."""
        headers = {} if if_match is None else {"if-match": if_match}
        if if_absent:
            headers["if-none-match"] = "*"
        answer = self._transport.json(
            "PUT",
            f"{self._base}/files/content",
            query={"path": path, "mode": None if mode is None else f"{mode:o}"},
            content=content.encode() if isinstance(content, str) else content,
            headers=headers,
            answer_s=TRANSFER_S,
            # A repeat of a conditional write would be refused by what its first try wrote.
            repeatable=not headers,
        )
        return decode(Written, answer)

    def edit(self, path: str, old: str, new: str, *, replace_all: bool = False, if_match: str | None = None) -> Edited:
        """Replaces a text that must be there once, unless `replace_all`."""
        return self.edit_several(path, [(old, new)], replace_all=replace_all, if_match=if_match)

    def edit_several(
        self, path: str, edits: Sequence[tuple[str, str]], *, replace_all: bool = False, if_match: str | None = None
    ) -> Edited:
        """Makes all of the edits, one after the other, or none."""
        body = {"path": path, "edits": [{"old": old, "new": new, "all": replace_all} for old, new in edits]}
        headers = {} if if_match is None else {"if-match": if_match}
        return decode(Edited, self._transport.json("POST", f"{self._base}/files/edit", body=body, headers=headers))

    def delete(self, path: str, *, if_match: str | None = None) -> int:
        """Deletes a file, or a directory with all that is below; says how many entries."""
        headers = {} if if_match is None else {"if-match": if_match}
        answer = self._transport.json("DELETE", f"{self._base}/files", query={"path": path}, headers=headers)
        return int(answer["deleted"])

    def move(self, source: str, target: str) -> int:
        """Moves a file or directory; says how many entries."""
        answer = self._transport.json("POST", f"{self._base}/files/move", body={"from": source, "to": target})
        return int(answer["moved"])

    def mkdir(self, path: str) -> bool:
        """Makes a directory and those above it; says whether it was missing."""
        answer = self._transport.json("POST", f"{self._base}/files/mkdir", body={"path": path}, repeatable=True)
        return bool(answer["created"])

    def glob(self, pattern: str, path: str = "/", *, snapshot: str | None = None) -> GlobMatches:
        """Entries below `path` that fit, 500 at most. `*` and `?` stay within a name, `**` does not."""
        return decode(GlobMatches, self._get("files/glob", {"pattern": pattern, "path": path, "snapshot": snapshot}))

    def grep(
        self,
        pattern: str,
        path: str = "/",
        *,
        include: str | None = None,
        literal: bool = False,
        ignore_case: bool = False,
        max_results: int | None = None,
        snapshot: str | None = None,
    ) -> GrepMatches:
        """Lines that fit a regular expression (or a literal text), 200 at most."""
        query: Query = {
            "pattern": pattern,
            "path": path,
            "include": include,
            "literal": _flag(literal),
            "ignore_case": _flag(ignore_case),
            "max_results": max_results,
            "snapshot": snapshot,
        }
        return decode(GrepMatches, self._get("files/grep", query))

    def archive(self, path: str = "/", *, snapshot: str | None = None) -> Generator[bytes, None, None]:
        """A directory as tar.gz, piece by piece."""
        query: Query = {"path": path, "snapshot": snapshot}
        with self._transport.stream(f"{self._base}/archive", query=query, answer_s=TRANSFER_S) as response:
            yield from response.iter_raw(CHUNK_BYTES)

    def _get(self, route: str, query: Query) -> Any:
        return self._transport.json("GET", f"{self._base}/{route}", query=query)


def _flag(value: bool) -> str | None:
    return "true" if value else None
