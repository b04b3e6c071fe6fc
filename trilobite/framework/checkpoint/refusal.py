"""How a doubtful file is refused: in one form, with one remedy, so that every reader here says it alike."""

from __future__ import annotations

from trilobite.base.errors import FileError

_REMEDY = "the file is corrupt or malicious; fetch or save it again, or use another one"


def corrupt(what: str, where: str, expected: str, remedy: str = _REMEDY) -> FileError:
    return FileError(what, where=where, expected=expected, remedy=remedy)


def shown(text: str) -> str:
    """A name from a file as messages show it: quoted, and cut where it is absurdly long."""
    return repr(text if len(text) <= 120 else text[:120] + "...")
