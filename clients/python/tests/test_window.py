"""Lines of a text that comes in pieces. Names are claims."""

from __future__ import annotations

import pytest

from code_workers.paths import OutsideSandbox, place, search_place
from code_workers.window import Window, is_text, lines, window


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_pieces_do_not_matter(size: int) -> None:
    text = "é\r\n\n世界\nlast".encode()
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    assert list(lines(pieces, 100)) == ["é", "", "世界", "last"]
    assert list(lines([*pieces, b"\n"], 100)) == ["é", "", "世界", "last"]


def test_line_without_end_is_not_kept_whole() -> None:
    assert len(next(lines([b"x" * 10] * 1000, 50))) <= 61


def test_line_that_has_no_room_is_cut() -> None:
    assert window(iter(["aa", "bbbb", "c"]), 0, 10, 5) == Window("aa\nbb", 1, None, 2, True)
    assert window(iter(["aa", "bbbb", "c"]), 1, 10, 2) == Window("bb", 0, None, 2, True)
    assert window(iter(["aa", "b"]), 0, 2, 100) == Window("aa\nb", 2, 2, 2, False)


def test_cut_character_is_text_and_bad_byte_is_not() -> None:
    assert is_text("世".encode()[:2])
    assert not is_text(b"a\xff")


def test_paths_are_spelled_as_they_were_asked() -> None:
    assert place("//tmp//a/").spell("tmp/a/b") == "/tmp/a/b"
    assert place("/workspace/tmp").spell("tmp/a") == "/workspace/tmp/a"
    assert search_place("/").spell("a") == "/workspace/a"
    for path in ("", "/", "a", "/etc", "/tmpx", "/tmp/../etc"):
        with pytest.raises(OutsideSandbox):
            place(path)
