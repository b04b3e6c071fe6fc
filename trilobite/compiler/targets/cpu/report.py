"""What became of a graph, for people: every level as text, and where each operation went and why.

Enters: an `Executable` of this target. Leaves: texts. Levels are made when they are looked at, because
assembly takes as long as compiling.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from trilobite.compiler.graph.regions import control_regions
from trilobite.compiler.program.program import (
    Arrival,
    Exchange,
    HostCall,
    Step,
    calls,
    exchanges,
    hosts,
    size_of,
)
from trilobite.compiler.targets.cpu.compiled import Compiled
from trilobite.compiler.targets.cpu.kernel import NativeKernel, native
from trilobite.compiler.targets.cpu.target import Executable
from trilobite.ir.graph import Equation
from trilobite.ir.types import Symbol


class Stages(Mapping[str, str]):
    """Name of a level -> its text, in the order in which a graph passes them."""

    def __init__(self, executable: Executable) -> None:
        done = executable.compilation
        self._texts: dict[str, Callable[[], str]] = {"graph": lambda: str(done.graph)}
        for name in done.stages:
            self._texts[name] = lambda name=name: str(done.stages[name])  # type: ignore[misc]
        parts = executable.parts
        self._texts["fuse"] = lambda: _joined(str(p.fused) for p in parts)
        self._texts["program"] = lambda: _joined(str(p.program(_smallest(p))) for p in parts)
        self._texts["loops"] = lambda: _joined(k.notes for k in kernels_of(parts) if k.notes)
        self._texts["llvm"] = lambda: _joined(k.text for k in kernels_of(parts))
        self._texts["asm"] = lambda: _joined(_assembly(k) for k in kernels_of(parts))

    def __getitem__(self, name: str) -> str:
        return self._texts[name]()

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)

    def __len__(self) -> int:
        return len(self._texts)


def _joined(texts: Iterator[str]) -> str:
    return "\n\n".join(texts)


def _smallest(part: Compiled) -> dict[Symbol, int]:
    return {s: s.lower for s in part.symbols}


def kernels_of(parts: tuple[Compiled, ...]) -> list[NativeKernel]:
    """Each distinct kernel once."""
    return list(dict.fromkeys(k for p in parts for k in native(p.program(_smallest(p)).kernels)))


def _assembly(kernel: NativeKernel) -> str:
    from trilobite.native.host import features
    from trilobite.native.objects import assembly

    return f"# {kernel.name}\n{assembly(kernel.text, kernel.level, features())}"


def levels_of(kernel: NativeKernel) -> list[tuple[str, str]]:
    """Title and text of what can be read of a kernel: its loops, if it was made of some, and its assembly."""
    loops = [(f"{kernel.name}: loops", kernel.notes)] if kernel.notes else []
    return [*loops, (f"{kernel.name}: assembly", _assembly(kernel).split("\n", 1)[1])]


def explain(executable: Executable) -> list[str]:
    """One line per kernel, and under it the operations that went into it, with the user's lines."""
    lines: list[str] = []
    for part in executable.parts:
        if part is not executable.main:
            lines.append("when a weight has changed:")
        lines += _explain_part(part)
        if part is not executable.main:
            lines.append("every run:")
    return lines


def _explain_part(part: Compiled) -> list[str]:
    by_fusion: dict[int, list[Step]] = {}
    fused = part.fused_at(_smallest(part))
    for step in part.program(_smallest(part)).steps:
        by_fusion.setdefault(step.fusion, []).append(step)
    lines: list[str] = []
    for at, steps in sorted(by_fusion.items()):
        e = fused.equations[at]
        lines += _headlines(e, steps)
        lines += _operations(e, "      ")
    return lines


def _operations(fusion: Equation, margin: str) -> Iterator[str]:
    """What went into a fusion, with the fusions of loops and branches; and what stayed apart."""
    for e in fusion.attributes["region"].equations:
        yield f"{margin}{e.primitive.name:<22} {e.location}"
        for region in control_regions(e):
            for inner in region.equations:
                if inner.primitive.name == "fusion":
                    yield f"{margin}  {inner.attributes['kind']} of"
                    yield from _operations(inner, f"{margin}    ")
    yield from (f"{margin}apart: {why}" for why in fusion.attributes.get("apart", ()))


def _headlines(e: Equation, steps: list[Step]) -> Iterator[str]:
    """The kernels, then what does not run as one."""
    for x in exchanges(steps):
        groups = x.attributes["groups"]
        yield f"  {x.name} in groups of {len(groups[0])}: result of {size_of(x.output):,} bytes"
    if not isinstance(steps[0], HostCall | Exchange | Arrival):
        yield f"  {e.attributes['kind']} kernel {', '.join(s.kernel.name for s in calls(steps))}"
    for s in hosts(steps):
        yield f"  host {s.equation.primitive.name}: runs in NumPy, because {s.why}"
