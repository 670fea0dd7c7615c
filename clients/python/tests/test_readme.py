"""The README's example does what its comments say."""

from __future__ import annotations

import contextlib
import io
import os
import re
from pathlib import Path

import pytest


def test_example_of_the_readme_runs(coordinator: tuple[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    key_file = tmp_path / "key"
    key_file.write_text(coordinator[1] + "\n")
    monkeypatch.setitem(os.environ, "CW_COORDINATOR", coordinator[0])
    monkeypatch.setitem(os.environ, "CW_KEY_FILE", str(key_file))
    text = (Path(__file__).parents[1] / "README.md").read_text()
    example = re.findall(r"```python\n(.*?)```", text, re.DOTALL)[0]
    said = re.findall(r"print\(.*\)  # (.*)", example)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(example, "README.md", "exec"), {})
    assert printed.getvalue().splitlines() == said
