"""Lines of a text that comes in pieces, without keeping the rest of it."""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Window:
    """Some lines. `returned` counts whole ones; `total` is known when the end was reached."""

    text: str
    returned: int
    total: int | None
    seen: int
    is_cut: bool


def lines(chunks: Iterable[bytes], longest: int) -> Iterator[str]:
    """The lines of a UTF-8 text without their ends. A line beyond `longest` characters loses its tail."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    rest = ""
    for chunk in chunks:
        *whole, last = (rest + decoder.decode(chunk)).split("\n")
        yield from (line.removesuffix("\r") for line in whole)
        rest = last[: longest + 1]
    rest += decoder.decode(b"", final=True)
    if rest:
        yield rest.removesuffix("\r")


def window(found: Iterator[str], offset: int, limit: int, room_bytes: int) -> Window:
    """Lines `offset` to `offset + limit`, as many as have room. The line that has not is cut."""
    taken: list[str] = []
    seen = 0
    for line in found:
        if seen >= offset + limit:
            return Window("\n".join(taken), len(taken), None, seen, False)
        seen += 1
        if seen <= offset:
            continue
        room_bytes -= len(line.encode()) + bool(taken)
        if room_bytes < 0:
            cut = line.encode()[: max(0, room_bytes + len(line.encode()))].decode(errors="ignore")
            return Window("\n".join([*taken, cut]), len(taken), None, seen, True)
        taken.append(line)
    return Window("\n".join(taken), len(taken), seen, seen, False)


def is_text(prefix: bytes) -> bool:
    """Whether a file that begins like this is UTF-8; a character that is cut at the end is none against it."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(prefix, final=False)
    except UnicodeDecodeError:
        return False
    return True
