"""Control flow between native parts: the loop is Python's, the bodies are compiled.

Enters: a control-flow equation's operands as arrays. Leaves: its results. The meaning is that of the
primitives (`ir/primitives/{cond,while_loop,scan}.py`); only who runs the regions differs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from trilobite.ir.evaluate import Executable
from trilobite.ir.graph import Graph

Array = np.ndarray[Any, Any]
Compile = Callable[[Graph], Executable]
Runner = Callable[[Sequence[Array]], Sequence[Array]]


def _cond(attributes: Mapping[str, Any], compiled: Compile) -> Runner:
    branches = [compiled(g) for g in attributes["branches"]]

    def run(values: Sequence[Array]) -> Sequence[Array]:
        index = min(max(int(values[0]), 0), len(branches) - 1)
        return branches[index](values[1:])

    return run


def _while(attributes: Mapping[str, Any], compiled: Compile) -> Runner:
    test, body, (a, b) = compiled(attributes["test"]), compiled(attributes["body"]), attributes["consts"]

    def run(values: Sequence[Array]) -> Sequence[Array]:
        for_test, for_body, carry = values[:a], values[a : a + b], values[a + b :]
        while bool(test([*for_test, *carry])[0]):
            carry = body([*for_body, *carry])
        return carry

    return run


def _scan(attributes: Mapping[str, Any], compiled: Compile) -> Runner:
    body, consts, carries = compiled(attributes["body"]), attributes["consts"], attributes["carries"]
    length = attributes["length"]
    order = range(length - 1, -1, -1) if attributes["reverse"] else range(length)
    types = attributes["body"].output_types[carries:]

    def run(values: Sequence[Array]) -> Sequence[Array]:
        fixed, carry, xs = values[:consts], values[consts : consts + carries], values[consts + carries :]
        ys: list[Array | None] = [None] * len(types)
        for i in order:
            outs = body([*fixed, *carry, *(x[i, ...] for x in xs)])
            carry = outs[:carries]
            for n, out in enumerate(outs[carries:]):
                if ys[n] is None:
                    ys[n] = np.empty((length, *out.shape), out.dtype)
                ys[n][i] = out  # type: ignore[index]
        empty = (np.empty((0, *t.shape), t.dtype) for t in types) if not length else iter(())
        return [*carry, *(next(empty) if y is None else y for y in ys)]

    return run


CONTROL: dict[str, Callable[[Mapping[str, Any], Compile], Runner]] = {
    "cond": _cond,
    "while": _while,
    "scan": _scan,
}
