"""One level of a compilation as text: what `trilobite compile` prints.

Enters: a recorded graph and `Options`. Leaves: text. Levels above the program are graphs and can be read
back; C is a whole file (`c_program`). Nothing is run.
"""

from __future__ import annotations

from trilobite.base.errors import ArgumentError
from trilobite.compiler.graph.passes import Pass
from trilobite.compiler.graph.pipeline import Options, run_stages
from trilobite.compiler.targets.cpu.attention import claims
from trilobite.compiler.targets.cpu.report import Stages
from trilobite.compiler.targets.cpu.stages import STAGES
from trilobite.compiler.targets.cpu.target import Executable, compile_graph
from trilobite.compiler.targets.cpu.tools.c_program import c_program
from trilobite.compiler.targets.cpu.tools.memory import memory_report
from trilobite.ir.graph import Graph
from trilobite.ir.text import show

LEVELS = ("graph", "program", "memory", "loops", "c", "llvm", "asm")
_FUSE = Pass("fuse", lambda g, o, c: g, "groups of equations that become one kernel, or a few")
ALL = (*(p for _, p in STAGES), _FUSE)


def level_text(graph: Graph, options: Options, emit: str = "graph", stop_after: str = "") -> str:
    """`emit` names one of LEVELS; of the graph, the one after the pass `stop_after`, or after all."""
    if emit not in LEVELS:
        raise ArgumentError(f"there is no level {emit!r}", expected=f"one of {', '.join(LEVELS)}")
    _check_names(options.skip, stop_after)
    if emit != "graph":
        if stop_after not in ("", _FUSE.name):
            raise ArgumentError(
                f"the level {emit!r} after the pass {stop_after!r}",
                expected="a graph, if the way ends after a pass",
                remedy="leave out --emit or --stop-after",
            )
        return c_program(graph, options) if emit == "c" else _below(compile_graph(graph, options), emit)
    if stop_after in ("", _FUSE.name):
        return Stages(compile_graph(graph, options))["fuse"]
    return show(run_stages(graph, STAGES, options._replace(claimed=claims, stop_after=stop_after)).latest)


def _check_names(skip: frozenset[str], stop_after: str) -> None:
    names = [p.name for p in ALL]
    wrong = [n for n in (*sorted(skip), *filter(None, [stop_after])) if n not in names]
    if _FUSE.name in skip:
        raise ArgumentError(f"the pass {_FUSE.name!r} cannot be left out", expected=f"one of {names[:-1]}")
    if wrong:
        raise ArgumentError(
            f"there is no pass {wrong[0]!r}",
            expected=f"one of {', '.join(names)}",
            remedy="trilobite compile --list says what each of them does",
        )


def _below(executable: Executable, emit: str) -> str:
    if emit == "memory":
        return str(memory_report(executable))
    return Stages(executable)[emit]


def passes_text(graph: Graph | None = None, options: Options = Options()) -> str:  # noqa: B008
    """Every pass with what it does; with a graph, what fired in it and how many equations it left."""
    if graph is None:
        return "\n".join(f"{p.name:<16} {p.doc}" for p in ALL)
    executable = compile_graph(graph, options)
    done = executable.compilation
    lines = [f"{'':<16} {len(graph):6} equations recorded"]
    for p in ALL[:-1]:
        if p.name not in done.stages:
            lines.append(f"{p.name:<16} {'skipped':>6}")
            continue
        lines.append(f"{p.name:<16} {len(done.stages[p.name]):6} equations  {p.doc}")
        fired = sorted(done.counters[p.name].items(), key=lambda item: (-item[1], item[0]))
        lines += [f"{'':<24}{count:6} {rule}" for rule, count in fired]
    fused = sum(len(part.fused) for part in executable.parts)
    lines.append(f"{_FUSE.name:<16} {fused:6} equations  {_FUSE.doc}")
    return "\n".join(lines)
