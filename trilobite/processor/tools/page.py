"""Who writes a launch as a page: a writer that registered itself, or one that an installed package names.

The processor knows no pages. `trilobite.report` registers its writer when it is imported, and the package
names it as the entry point `run` of the group `trilobite.reports`; another package may do the same.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING

from trilobite.base.errors import DeviceError

if TYPE_CHECKING:
    from trilobite.processor.sim.run import Run

Writer = Callable[["Run", str | Path], None]
GROUP, NAME = "trilobite.reports", "run"
_writers: list[Writer] = []


def register(writer: Writer) -> None:
    """From now on launches are written by this one."""
    _writers.append(writer)


def writer() -> Writer:
    """The one that registered last, else the one that is installed."""
    if _writers:
        return _writers[-1]
    for found in entry_points(group=GROUP, name=NAME):
        named: Writer = found.load()
        return named
    raise DeviceError(
        "nobody here writes pages of launches",
        expected=f"the package installed with its entry point {NAME!r} of {GROUP!r}",
        remedy="import trilobite.report first, or install the package",
    )
