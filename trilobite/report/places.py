"""Places of the user's source for a page: short names, and the text of the lines themselves.

Enters: locations as `base.locations` has them. Leaves: text. A file that cannot be read has no lines here.
"""

from __future__ import annotations

import linecache
from collections.abc import Iterable
from pathlib import Path

from trilobite.base.locations import UNKNOWN, Location

_PARTS = 3  # of a path that is not below the working directory


def place_text(location: Location) -> str:
    """`net.py:12 in forward`, the path as short as it stays clear; nothing where no place is known."""
    if location == UNKNOWN or location.file == "?":
        return ""
    if Path(location.file).suffix != ".py":
        return f"{location.file}: {location.function}"  # a node of a model file
    return f"{short_path(location.file)}:{location.line} in {location.function}"


def short_path(file: str) -> str:
    """Below the working directory, the path from there; elsewhere its last parts."""
    path = Path(file)
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(Path(*path.parts[-_PARTS:]))


def source_lines(locations: Iterable[Location]) -> dict[str, str]:
    """The line itself for every place whose file can be read."""
    found: dict[str, str] = {}
    for location in dict.fromkeys(locations):
        text = linecache.getline(location.file, location.line).strip() if location.line else ""
        if text and place_text(location):
            found[place_text(location)] = text
    return found
