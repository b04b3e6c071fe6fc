"""The wall between a graph and what runs it: `Target` and `Executable`. All above it speak to these two.

A target registers as a family of names in `registry.py`: built-in ones stand in its table, a package outside
names a factory as an entry point of the group `trilobite.targets`, and a program may call `register`. The
factory takes what stands behind the colon of `tb.jit(f, target="dlp:file.yaml")`, or the object that the user
passed as target, and gives a `Target`; it is imported when such a name is first used, not before.

`tb.jit` records a graph, then calls `load(lower(graph, usage))` once, `prepare` before a call whose shapes
may be new, and `run` in every call. A target has to write `lower`, `load` and `run`; for the rest there are
answers here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from trilobite.base.errors import ArgumentError
from trilobite.ir.evaluate import sizes_of
from trilobite.ir.graph import Graph
from trilobite.ir.transforms.cells import Cell

if TYPE_CHECKING:
    from trilobite.compiler.graph.fuse import FusionPolicy
    from trilobite.compiler.graph.passes import Pass
    from trilobite.compiler.graph.pipeline import Compilation
    from trilobite.compiler.targets.profiles import Profile


class Usage(NamedTuple):
    """What whoever runs a graph knows about its inputs, and the graph does not say."""

    stable: frozenset[int] = frozenset()  # inputs that are the same arrays in most runs: weights only read
    donated: tuple[tuple[int, int], ...] = ()  # (output, input): the output replaces that input for good
    options: tuple[tuple[str, Any], ...] = ()  # what the user asked of the target, by name
    replaced: tuple[int, ...] = ()  # outputs that replace what the run before gave: gradients
    alone: bool = False  # one operation of many that run one by one, outside compiled functions


NO_USAGE = Usage()
NOBODY: Mapping[int, Cell] = MappingProxyType({})


class Executable(ABC):
    """A graph on a target, ready to run."""

    graph: Graph
    target: str = ""  # its name; `registry.executable` notes it
    fusions: int | None = None  # how many groups of equations it became, if it was fused
    keeper: object = None  # whom cells name while this keeps their values elsewhere: `ir/transforms/cells.py`
    overwrites: ClassVar[bool] = False  # may `run` write results into arrays that it was given?

    @abstractmethod
    def run(self, values: list[Any], old: list[Any], held: int) -> list[Any]:
        """The outputs, in memory of their own, for arrays of the inputs' types. The caller gives the list
        away, and with it the arrays of donated inputs and `old`, those of results that this run replaces:
        they may be overwritten if none but cell, list and `held` more refer to them.
        """

    def __call__(self, values: Sequence[Any]) -> list[Any]:
        """The same for values that nobody has looked at and that stay the caller's."""
        sizes_of(self.graph, values)
        return self.run(list(values), [], 0)

    def prepare(self, values: Sequence[Any], owners: Mapping[int, Cell] = NOBODY) -> None:
        """Makes all that a run with values of these shapes needs. `owners` are the cells that inputs come
        from: a value that is stable may be taken out of its cell and kept elsewhere, in the form that runs
        want (`cells.put_away`): packed on a CPU, in the memory of a device. Who looks at the cell gets it
        back.
        """
        return

    @property
    def compilation(self) -> Compilation | None:
        """The graph after every pass, with what fired there; None if there are no passes."""
        return None

    @property
    def stages(self) -> Mapping[str, str]:
        """Every level as text, in the order in which a graph passes them."""
        return {"graph": str(self.graph)}

    def explain(self) -> list[str]:
        """Where each operation runs and why, line by line."""
        return [f"  {e.primitive.name:<14} {e.location}" for e in self.graph.equations]

    def memory(self) -> Any:
        """What memory it is planned to need; `str` shows it."""
        raise _says_nothing("a plan of the memory", self)

    def profile(self, call: Callable[[], object], repeats: int, again: bool = False) -> Profile:
        """Where the time of `call`, which runs this, goes.
        `again`: what is known of the machine is measured anew.
        """
        raise _says_nothing("a profile", self)

    def tune(self, seconds: float, say: Callable[[str], None], seed: int = 0) -> str:
        """Searches for better schedules, which are used from then on; gives a table of what was found."""
        raise _says_nothing("a search for schedules", self)

    @property
    def last_run(self) -> Any:
        """What the target kept of the last run: of a processor its run, with timeline and stalls."""
        return None

    @property
    def measured(self) -> Mapping[str, float]:
        """What the last run took, as far as the target knows: "seconds", "cycles", "joules", "bytes"."""
        return {}


class Target(ABC):
    """What makes executables. Two targets of one name are the same one."""

    name: str  # as `tb.jit` finds it, with arguments: "cpu", "dlp:dlp-m"
    primitives: frozenset[str] = frozenset()  # its own, which its passes make; they stand in the one table
    exports: tuple[str, ...] = ()  # forms in which it can write a graph for others

    @abstractmethod
    def lower(self, graph: Graph, usage: Usage) -> Any:
        """The graph as this target's program, or the way to it. What cannot run is refused, all at once."""

    @abstractmethod
    def load(self, lowered: Any) -> Executable:
        """The program, ready to run."""

    def passes(self) -> Sequence[Pass]:
        """From a recording to what is fused, in order."""
        return ()

    def fusion(self) -> FusionPolicy | None:
        """Which groups of equations become one kernel, and how large things are; None: it fuses nothing."""
        return None

    def export(self, graph: Graph, usage: Usage, form: str) -> str:
        """A whole file in one of the forms that it `exports`."""
        raise NotImplementedError(form)

    def facts(self) -> str | None:
        """All that decides its programs besides graph and options: the machine, its own files. Programs of
        equal facts are found again on disk (decision 0012); None: none is kept there.
        """
        return None


def _says_nothing(what: str, executable: Executable) -> ArgumentError:
    return ArgumentError(
        f"{what} of a function for the target {executable.target!r}",
        expected='one that was compiled with target="cpu"',
    )
