"""A target in one file: a machine with one register per value that knows a few instructions.

It is what docs/targets.md shows. `python examples/targets/toy.py` runs the zoo's MLP on it. A package would
not call `register` but name `toy` as an entry point: [project.entry-points."trilobite.targets"].
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

import trilobite as tb
from trilobite.base.errors import ArgumentError, DeviceError
from trilobite.compiler.graph.passes import PASSES, Pass
from trilobite.compiler.graph.pipeline import Compilation, Options, run_stages
from trilobite.compiler.targets.contract import Executable, Target, Usage
from trilobite.compiler.targets.registry import register
from trilobite.ir.graph import Graph
from trilobite.ir.primitives import table

CYCLES = {"dot": 16.0}  # elements that leave the machine in one cycle, by instruction; 4 for all others
KNOWN = frozenset(
    "dot add sub mul div maximum le select full constant broadcast reshape transpose exp".split()
)


@dataclass(frozen=True)
class Instruction:
    """Registers in, registers out, by the meaning of a primitive."""

    name: str
    inputs: tuple[int, ...]
    output: int
    attributes: Mapping[str, Any]

    def __str__(self) -> str:
        return f"r{self.output} = {self.name} {', '.join(f'r{i}' for i in self.inputs)}".rstrip()


@dataclass(frozen=True)
class Program:
    """What `lower` gives and `load` takes: this target's own form."""

    compilation: Compilation
    instructions: tuple[Instruction, ...]
    outputs: tuple[int, ...]


class Loaded(Executable):
    """A program in the machine. `cycles` are those of the last run."""

    def __init__(self, graph: Graph, program: Program) -> None:
        self.graph, self.program, self.cycles = graph, program, 0.0

    def run(self, values: list[Any], old: list[Any], held: int) -> list[Any]:
        registers: dict[int, Any] = dict(enumerate(values))
        self.cycles = 0.0
        for i in self.program.instructions:
            out = table[i.name].evaluate(*(registers[n] for n in i.inputs), **i.attributes)
            registers[i.output] = out
            self.cycles += -(-out.size // CYCLES.get(i.name, 4.0))
        return [np.array(registers[n]) for n in self.program.outputs]  # memory of their own

    @property
    def compilation(self) -> Compilation:
        return self.program.compilation

    @property
    def stages(self) -> Mapping[str, str]:
        passed = {name: str(graph) for name, graph in self.compilation.stages.items()}
        return {"graph": str(self.graph), **passed, "program": "\n".join(map(str, self.program.instructions))}

    @property
    def measured(self) -> Mapping[str, float]:
        return {"cycles": self.cycles}


class Toy(Target):
    """A machine of so many registers; 0 means as many as there are values."""

    def __init__(self, registers: int) -> None:
        self.registers = registers
        self.name = f"toy:{registers}" if registers else "toy"

    def passes(self) -> tuple[Pass, ...]:
        return PASSES  # what all targets share: calls inlined, algebra, constants folded

    def lower(self, graph: Graph, usage: Usage) -> tuple[Graph, Program]:
        done = run_stages(graph, [(p.name, p) for p in self.passes()], Options(stable=usage.stable))
        unknown = [e for e in done.latest.equations if e.primitive.name not in KNOWN]
        if unknown:  # all at once, before anything runs
            raise DeviceError(
                f"the target toy cannot run {', '.join(sorted({e.primitive.name for e in unknown}))}",
                where=unknown[0].location,
                expected=f"a function of {', '.join(sorted(KNOWN))}",
                remedy='tb.jit(f, target="cpu")',
            )
        number = {v: n for n, v in enumerate(done.latest.inputs)}
        instructions = []
        for e in done.latest.equations:
            (out,) = e.outputs
            number[out] = len(number)
            inputs = tuple(number[v] for v in e.inputs)
            instructions.append(Instruction(e.primitive.name, inputs, number[out], e.attributes))
        if self.registers and len(number) > self.registers:
            raise DeviceError(
                f"{graph.name} needs {len(number)} registers", expected=f"{self.registers} at most"
            )
        return graph, Program(done, tuple(instructions), tuple(number[v] for v in done.latest.outputs))

    def load(self, lowered: tuple[Graph, Program]) -> Loaded:
        return Loaded(*lowered)


def toy(argument: object) -> Target:
    """`"toy"`, or `"toy:64"` for a machine of 64 registers."""
    if not isinstance(argument, str) or not (argument or "0").isdigit():
        raise ArgumentError(f"the target toy with {argument!r}", expected='a number of registers: "toy:64"')
    return Toy(int(argument or "0"))


register("toy", toy)


def main() -> None:
    model = tb.zoo.create("mlp").eval()
    x = tb.tensor(np.random.default_rng(0).standard_normal((3, 784)).astype(np.float32))
    run = tb.jit(lambda x: model(x), target="toy:64")
    with tb.no_grad():
        found, wanted = run(x).numpy(), model(x).numpy()
        print(f"largest difference: {abs(found - wanted).max():.1e}")
        lowered = run.lower(x)
        print(lowered.stages["program"])
        print(f"{lowered.compile().measured['cycles']:.0f} cycles")


if __name__ == "__main__":
    main()
