"""The body of a statement in the making: leaves and scalar equations, each made once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from trilobite.base.dtypes import DType
from trilobite.compiler.targets.cpu.loops.ir import Leaf, Statement, Target
from trilobite.ir.graph import Equation, Graph, Var, exact
from trilobite.ir.primitive import Primitive, table
from trilobite.ir.types import TensorType


class Scalars:
    """Collects what one statement reads and computes. Equal leaves and equal equations are one."""

    def __init__(self) -> None:
        self.leaves: dict[Leaf, Var] = {}
        self.reads: dict[Var, Leaf] = {}
        self.equations: list[Equation] = []
        self._made: dict[Any, Var] = {}

    def leaf(self, leaf: Leaf, dtype: DType) -> Var:
        if leaf not in self.leaves:
            v = self.leaves[leaf] = Var(TensorType((), dtype))
            self.reads[v] = leaf
        return self.leaves[leaf]

    def apply(self, p: Primitive, inputs: Sequence[Var], dtype: DType, attributes: Mapping[str, Any]) -> Var:
        how = tuple((k, exact(v)) for k, v in sorted(attributes.items())) if attributes else ()
        key = (p.name, tuple(map(id, inputs)), how)
        if key not in self._made:
            out = Var(TensorType((), dtype))
            self.equations.append(Equation(p, tuple(inputs), dict(attributes), (out,)))
            self._made[key] = out
        return self._made[key]

    def number(self, value: Any, dtype: DType) -> Var:
        return self.apply(table["full"], (), dtype, {"shape": (), "dtype": dtype, "value": value})

    def select(self, p: Var, x: Var, y: Var) -> Var:
        return x if x is y else self.apply(table["select"], (p, x, y), x.type.dtype, {})

    def cast(self, x: Var, dtype: DType) -> Var:
        return x if x.type.dtype == dtype else self.apply(table["cast"], (x,), dtype, {"dtype": dtype})

    def statement(self, results: Sequence[Var], targets: Sequence[Target]) -> Statement:
        """What computes these results and nothing else."""
        needed = set(results)
        kept = []
        for e in reversed(self.equations):
            if e.outputs[0] in needed:
                needed |= set(e.inputs)
                kept.append(e)
        read = [(leaf, v) for leaf, v in self.leaves.items() if v in needed]
        body = Graph([v for _, v in read], kept[::-1], results, "body")
        return Statement(tuple(leaf for leaf, _ in read), body, tuple(targets))
