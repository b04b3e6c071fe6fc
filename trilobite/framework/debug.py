"""Looking inside: prints and callbacks that are part of the program, and anomaly mode.

Anomaly mode names the line that made the first NaN or infinity.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from trilobite.base import pytree
from trilobite.base.dtypes import is_inexact
from trilobite.base.errors import TrilobiteError
from trilobite.base.locations import UNKNOWN, Location, user_location
from trilobite.framework.ops.creation import to_array
from trilobite.framework.tensor import Tensor, wrap
from trilobite.ir.primitive import Primitive, Value, table
from trilobite.ir.transforms import bind as entry
from trilobite.ir.transforms.cells import bottom
from trilobite.ir.transforms.tape import Node
from trilobite.ir.types import TensorType, type_of


class AnomalyError(TrilobiteError, ArithmeticError):
    """A NaN or an infinity where all operands were finite."""


def _bad(value: Value) -> str:
    """What is wrong with an array, or nothing."""
    value = bottom(value) if value is not None else None
    if not isinstance(value, np.ndarray) or not is_inexact(value.dtype):
        return ""
    wide = value if value.dtype.kind in "fc" else value.astype(np.float32)
    if bool(np.isnan(wide).any()):
        return "NaN"
    return "an infinity" if bool(np.isinf(wide).any()) else ""


class Watch:
    """Looks at every result while anomaly mode is on."""

    def __call__(
        self, primitive: Primitive, values: Sequence[Value], out: Any, location: Location | None = None
    ) -> None:
        if primitive.name in ("constant", "full") or any(_bad(v) for v in values):
            return
        for o in out if primitive.multiple else (out,):
            if what := _bad(o):
                raise AnomalyError(
                    f"{primitive.name} made {what} out of finite numbers",
                    where=location or user_location(),
                    remedy="look at its operands: a division by zero, a log or sqrt of a negative number?",
                )

    def gradient(self, node: Node, cotangents: Sequence[Any], results: Sequence[Any]) -> None:
        """A backward step that made the first bad number; names the line of the forward pass."""
        if any(_bad(c) for c in cotangents):
            return
        for r in results:
            if what := _bad(r):
                raise AnomalyError(
                    f"the gradient of {node.name} is {what}",
                    where=None if node.location is UNKNOWN else node.location,
                    remedy="its derivative is unbounded there: keep the operand away from that point",
                )


@contextmanager
def detect_anomaly() -> Iterator[None]:
    """Check every result, forward and backward; the first NaN or infinity is an error that names the user's
    line. Compiled functions run equation by equation meanwhile, as the target "reference" does.
    """
    ctx = entry.context()
    before, ctx.watch = ctx.watch, Watch()
    try:
        yield
    finally:
        ctx.watch = before


def print(fmt: str, *values: Any) -> None:
    """Print `fmt.format(*values)` whenever the program runs: also inside jit, loops and transforms."""
    table["print"](*(as_operand(v) for v in values), fmt=fmt)


def callback(fn: Callable[..., Any], result: Any, *values: Any) -> Any:
    """Call `fn(*arrays)` in Python whenever the program runs.

    `result` is an example (tensors, or types from `tb.eval_shape`) of what it returns, None for nothing.
    """
    types, tree = pytree.flatten(result, lambda x: isinstance(x, (Tensor, TensorType)))
    kinds = tuple(t if isinstance(t, TensorType) else type_of(as_operand(t)) for t in types)

    def flat(*arrays: Any) -> list[Any]:
        return [np.asarray(x) for x in pytree.leaves(fn(*arrays), lambda x: isinstance(x, Tensor))]

    outs = table["callback"](*(as_operand(v) for v in values), fn=flat, results=kinds)
    return tree.unflatten(map(wrap, outs))


def as_operand(v: Any) -> Value:
    return v._read() if isinstance(v, Tensor) else to_array(v)
