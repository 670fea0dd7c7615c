"""The absolute paths of a sandbox, and where they are in its session.

A task sees its session at `/workspace`. `/tmp` is its directory `tmp`, which `script` puts there. There is no other
place that both the file calls and a command could mean by the same path, so nothing else is accepted.
"""

from __future__ import annotations

from dataclasses import dataclass

WORKSPACE = "/workspace"
TEMPORARY = "/tmp"


class OutsideSandbox(ValueError):
    """A path that is not below `/workspace` or `/tmp`."""


@dataclass(frozen=True)
class Place:
    """A directory or file as the caller spells it, and its path in the session (the root is an empty text)."""

    spelled: str
    inside: str

    def spell(self, inside: str) -> str:
        """How this caller spells another path of the session."""
        top = "" if self.spelled.startswith(f"{TEMPORARY}/") or self.spelled == TEMPORARY else WORKSPACE
        return f"{top}/{inside}"

    def relative(self, inside: str) -> str:
        """The path of something below this place, from here."""
        return inside.removeprefix(f"{self.inside}/") if self.inside else inside


def place(path: str) -> Place:
    """Finds where an absolute path is."""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if not path.startswith("/") or ".." in parts or not parts:
        raise OutsideSandbox(f"{path!r} is not an absolute path below {WORKSPACE} or {TEMPORARY}")
    spelled = "/" + "/".join(parts)
    if parts[0] == "workspace":
        return Place(spelled, "/".join(parts[1:]))
    if parts[0] == "tmp":
        return Place(spelled, "/".join(parts))
    raise OutsideSandbox(f"{path!r} is outside {WORKSPACE} and {TEMPORARY}, where the files of this sandbox are")


def search_place(path: str | None) -> Place:
    """The same for where a search begins; everything is below `/workspace`."""
    return place(WORKSPACE if path is None or path.strip("/") == "" else path)
