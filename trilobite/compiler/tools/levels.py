"""One level of a compilation as text: what `trilobite compile` prints.

Enters: a recorded graph, a target and what the caller knows of the graph. Leaves: text. Levels above the
program are graphs and can be read back; what a target exports is a whole file. Nothing is run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trilobite.base.errors import ArgumentError
from trilobite.compiler.targets.contract import NO_USAGE, Executable, Target, Usage
from trilobite.compiler.targets.registry import executable, find
from trilobite.ir.graph import Graph
from trilobite.ir.text import show

FUSE = "fuse"
_FUSE_DOC = "groups of equations that become one kernel, or a few"


def level_text(
    graph: Graph, usage: Usage = NO_USAGE, emit: str = "graph", stop_after: str = "", target: object = "cpu"
) -> str:
    """`emit` names a level; of the graph, the one after the pass `stop_after`, or after all."""
    chosen = find(target)
    _check_names(chosen, usage, stop_after)
    if emit in chosen.exports:
        _check_whole(emit, stop_after)
        return chosen.export(graph, usage, emit)
    made = executable(graph, chosen, usage)
    levels = list(_levels(chosen, made))
    if emit not in levels:
        raise ArgumentError(f"there is no level {emit!r}", expected=f"one of {', '.join(levels)}")
    if emit != "graph":
        _check_whole(emit, stop_after)
        return str(made.memory()) if emit == "memory" else made.stages[emit]
    if stop_after in ("", FUSE) and FUSE in made.stages:
        return made.stages[FUSE]
    return show(_after(chosen, made, stop_after))


def _levels(target: Target, made: Executable) -> Iterator[str]:
    """A graph stands for all passes; behind them each level has a name."""
    names = {p.name for p in target.passes()} | {FUSE}
    yield from (level for level in made.stages if level not in names)
    yield from ("memory", *target.exports)


def _check_whole(emit: str, stop_after: str) -> None:
    if stop_after not in ("", FUSE):
        raise ArgumentError(
            f"the level {emit!r} after the pass {stop_after!r}",
            expected="a graph, if the way ends after a pass",
            remedy="leave out --emit or --stop-after",
        )


def _after(target: Target, made: Executable, stop_after: str) -> Graph:
    """The graph behind a pass; if that was left out, behind the one before."""
    done, found = made.compilation, made.graph
    for p in target.passes() if done is not None else ():
        assert done is not None
        found = done.stages.get(p.name, found)
        if p.name == stop_after:
            break
    return found


def _check_names(target: Target, usage: Usage, stop_after: str) -> None:
    names = [*(p.name for p in target.passes()), FUSE]
    skip: Sequence[str] = sorted(dict(usage.options).get("skip", ()))
    if FUSE in skip:
        raise ArgumentError(f"the pass {FUSE!r} cannot be left out", expected=f"one of {names[:-1]}")
    wrong = [n for n in (*skip, *filter(None, [stop_after])) if n not in names]
    if wrong:
        raise ArgumentError(
            f"there is no pass {wrong[0]!r}",
            expected=f"one of {', '.join(names)}",
            remedy="trilobite compile --list says what each of them does",
        )


def passes_text(graph: Graph | None = None, usage: Usage = NO_USAGE, target: object = "cpu") -> str:
    """Every pass with what it does; with a graph, what fired in it and how many equations it left."""
    chosen = find(target)
    if graph is None:
        return "\n".join([*(f"{p.name:<16} {p.doc}" for p in chosen.passes()), f"{FUSE:<16} {_FUSE_DOC}"])
    made = executable(graph, chosen, usage)
    done = made.compilation
    lines = [f"{'':<16} {len(graph):6} equations recorded"]
    for p in chosen.passes() if done is not None else ():
        assert done is not None
        if p.name not in done.stages:
            lines.append(f"{p.name:<16} {'skipped':>6}")
            continue
        lines.append(f"{p.name:<16} {len(done.stages[p.name]):6} equations  {p.doc}")
        fired = sorted(done.counters[p.name].items(), key=lambda item: (-item[1], item[0]))
        lines += [f"{'':<24}{count:6} {rule}" for rule, count in fired]
    if made.fusions is not None:
        lines.append(f"{FUSE:<16} {made.fusions:6} equations  {_FUSE_DOC}")
    return "\n".join(lines)
