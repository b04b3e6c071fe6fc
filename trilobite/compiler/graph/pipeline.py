"""The stages of a target, in order: each a name and a pure function Graph -> Graph.

Enters: a recorded graph and `Options`. Leaves: a `Compilation`, which holds the graph after every stage, so
that any of them can be printed, and what the passes counted. Stages can be skipped, and the way can end after
any of them. Planning and code are the target's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, NamedTuple

from trilobite.base.errors import ArgumentError
from trilobite.base.records import dataclass
from trilobite.ir.graph import Equation, Graph


class Sizes(NamedTuple):
    """From which size on a rewrite pays, or no longer does: a matter of the machine, so a target hands in its
    own. What stands here suits machines whose memory is slower than their arithmetic.
    """

    scaled: int | None = 1 << 18  # bytes of a weight of which a scaled copy may be kept beside it; None: any
    merged: int = 1 << 16  # bytes of all results together up to which slices of them cost next to nothing
    shortened: int = 4096  # elements of a product's smaller operand from which on a cast of it pays
    put_away: int = 1 << 16  # bytes of a weight that is packed on its own, so that it can be put away


USUAL = Sizes()


class Options(NamedTuple):
    """What the caller knows, and what the user chose."""

    stable: frozenset[int] = frozenset()  # inputs that seldom change: weights that the graph only reads
    donated: tuple[tuple[int, int], ...] = ()  # (output, input): the input is given away to this output
    replaced: tuple[int, ...] = ()  # outputs that take the place of what the last run gave: gradients
    skip: frozenset[str] = frozenset()  # passes left out
    stop_after: str = ""
    accuracy: str = "default"  # "strict": no algorithm whose error bound is above the plain one's
    mixed_precision: str = ""  # a dtype to keep operands of large products in
    eager: bool = False  # one operation of many that run one by one: they share their memory
    claimed: Callable[[Equation], bool] | None = None  # calls that the target runs whole
    reassociate: bool = False  # sums and products of numbers may be taken in another order
    # Bytes of values to stay within by computing again what is cheap, weights too; 0: no limit
    memory: int = 0
    sizes: Sizes = USUAL

    @staticmethod
    def of(
        chosen: Mapping[str, Any],
        stable: frozenset[int],
        donated: tuple[tuple[int, int], ...],
        replaced: tuple[int, ...] = (),
        target: str = "the target",
    ) -> Options:
        """What a user chose by name, with what the caller knows."""
        wrong = [name for name in chosen if name not in CHOICES]
        if wrong:
            raise ArgumentError(
                f"{target} has no option {wrong[0]!r}",
                expected=f"one of {', '.join(CHOICES)}",
                remedy='for example tb.jit(f, options={"accuracy": "strict"})',
            )
        skip = frozenset(chosen.get("skip", ()))
        known = {"stable": stable, "donated": donated, "replaced": replaced}
        return Options(**{**chosen, "skip": skip, **known})


CHOICES = ("accuracy", "memory", "mixed_precision", "reassociate", "skip")
Stage = Callable[[Graph, Options], tuple[Graph, Mapping[str, int]]]


@dataclass
class Compilation:
    """A graph on its way: after every stage, with what fired there."""

    graph: Graph
    options: Options
    stages: dict[str, Graph] = field(default_factory=dict)
    counters: dict[str, Mapping[str, int]] = field(default_factory=dict)

    @property
    def latest(self) -> Graph:
        return next(reversed(self.stages.values()), self.graph)


def run_stages(graph: Graph, stages: Sequence[tuple[str, Stage]], options: Options) -> Compilation:
    """Send a graph through the stages."""
    _check(stages, options)
    done = Compilation(graph, options)
    for name, stage in stages:
        if name not in options.skip:
            done.stages[name], done.counters[name] = stage(done.latest, options)
        if name == options.stop_after:
            break
    return done


def _check(stages: Sequence[tuple[str, Any]], options: Options) -> None:
    names = [name for name, _ in stages]
    wrong = [n for n in (*options.skip, *filter(None, [options.stop_after])) if n not in names]
    if wrong:
        raise ArgumentError(
            f"there is no pass {wrong[0]!r}",
            expected=f"one of {', '.join(names)}",
            remedy="trilobite compile --help lists what each of them does",
        )
