"""Where in the user's code something happened: the innermost frame outside this package."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import NamedTuple

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_LIBRARY = (
    os.path.dirname(os.path.abspath(os.__file__)) + os.sep
)  # contextlib and the like only pass calls on
_USER_ROOMS = tuple(_PACKAGE + room + os.sep for room in ("zoo", "apps"))
_inside: dict[CodeType, bool] = {}


class Location(NamedTuple):
    """A line of the user's code, and in a network the dotted name of the module that was being called."""

    file: str
    line: int
    function: str
    module: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line} in {self.function}"


UNKNOWN = Location("?", 0, "?")


class _Told(threading.local):
    place: Location | None = None
    module: str = ""


_told = _Told()


@contextmanager
def told(place: Location) -> Iterator[None]:
    """What happens in here happens at this place: a node of a model, which no line of Python is."""
    before, _told.place = _told.place, place
    try:
        yield
    finally:
        _told.place = before


@contextmanager
def within(module: str) -> Iterator[None]:
    """What happens in here happens in the call of this module of a network."""
    before, _told.module = _told.module, module
    try:
        yield
    finally:
        _told.module = before


def module_now() -> str:
    """The module of a network that is being called; empty outside of networks and of recordings."""
    return _told.module


def is_inside(code: CodeType) -> bool:
    """Whether a function is part of this package, or only passes calls on."""
    name = os.path.abspath(code.co_filename)
    network = name.startswith(_USER_ROOMS) and not name.endswith("__init__.py")
    inside = name.startswith(_PACKAGE) and not network
    inside = inside or (name.startswith(_LIBRARY) and "-packages" + os.sep not in name)
    _inside[code] = inside
    return inside


def user_location() -> Location:
    """The line of the innermost caller that is not part of the package (networks in `zoo` and `apps` count as
    users).
    """
    if _told.place is not None:
        return _told.place
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        inside = _inside.get(code)
        if not (is_inside(code) if inside is None else inside):
            return Location(code.co_filename, frame.f_lineno, code.co_name, _told.module)
        frame = frame.f_back
    return UNKNOWN
