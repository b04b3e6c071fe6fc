"""Where the time of a call went, as any target tells it: `Profile`, which `Executable.profile` gives.

Enters: nothing; a target fills it. Leaves: text, files, a timeline, and for pages (`report/`) the graphs
after each pass and a `form`. What further fields a form has, `FORMS` lists: a page draws the profile of any
target that has them, and asks no target by name.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, NamedTuple

from trilobite.ir.graph import Graph

MEASURED, SIMULATED = "measured", "simulated"

FORMS: Mapping[str, tuple[str, ...]] = {
    # kernels in seconds, beside the roofs of the machine they ran on
    MEASURED: (
        "name", "repeats", "call", "kernels", "elsewhere", "disturbed", "rows", "events", "roofline",
        "target", "fused", "arena", "listings",
    ),
    # the run of a processor, cycle by cycle, and its program group by group
    SIMULATED: ("run", "rows", "compiled", "arena", "owners", "spans"),
}  # fmt: skip


class Timeline(NamedTuple):
    """A file for ui.perfetto.dev: how its name ends, and what is in it."""

    ending: str
    content: bytes


class Stages(NamedTuple):
    """The graph after every pass, by the pass's name and in order, and what each pass is for."""

    graphs: Mapping[str, Graph]
    purposes: Mapping[str, str]


class Profile(ABC):
    """`str` shows it."""

    form: ClassVar[str] = ""  # which of `FORMS` it has; with none, its text is all that can be shown

    @abstractmethod
    def write(self, directory: str | Path) -> Sequence[Path]:
        """Keeps it as files of a directory."""

    @property
    def each(self) -> Sequence[Profile]:
        """One for each program that ran: itself, or those of a model that became several."""
        return (self,)

    def timeline(self) -> Timeline | None:
        """When what ran."""
        return None

    def stages(self) -> Stages | None:
        """What the graph was on its way."""
        return None
