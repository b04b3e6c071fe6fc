"""One line of a benchmark table: the same work, written once for each system.

A row module is named `rows_*.py`. Its docstring becomes the heading and the text of a section, its tuple
`ROWS` the table. It is imported in every worker and in the parent, so it imports a system only inside the
function that builds that system's work.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

US = "trilobite"

Work = Callable[[], object]
"""What is timed. Called with nothing; returns nothing of interest, or seconds if the row times itself."""


@dataclass(frozen=True)
class Row:
    """`systems` maps a system's name to the function that builds its work; building is not timed."""

    name: str
    systems: Mapping[str, Callable[[], Work]]
    unit: str = "µs"
    threads: int = 1
    floor: tuple[str, ...] = ()  # systems that are shown but are no peers: they do only a part of the work
    aim: float | None = None  # seconds that we promise to stay below
    times_itself: bool = False
    quick: bool = False

    @property
    def peers(self) -> tuple[str, ...]:
        """The systems that we are compared with."""
        return tuple(name for name in self.systems if name != US and name not in self.floor)


@dataclass(frozen=True)
class Section:
    """A row module as the page shows it."""

    title: str
    text: str
    rows: tuple[Row, ...]


def row_modules() -> list[str]:
    """The names of all row modules of this folder, sorted."""
    found = pkgutil.iter_modules([str(Path(__file__).parent)])
    return sorted(f"benchmarks.{module.name}" for module in found if module.name.startswith("rows_"))


def section(module_name: str) -> Section:
    """A row module's docstring and rows."""
    module = importlib.import_module(module_name)
    title, _, text = (module.__doc__ or module_name).strip().partition("\n")
    return Section(title.rstrip("."), text.strip(), tuple(module.ROWS))
