"""Finding where numbers go wrong: anomaly mode names the line that made the first NaN or infinity."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from trilobite.base.dtypes import is_inexact
from trilobite.base.errors import TrilobiteError
from trilobite.base.locations import UNKNOWN, Location, user_location
from trilobite.ir.primitive import Primitive, Value
from trilobite.ir.transforms import bind as entry
from trilobite.ir.transforms.cells import bottom
from trilobite.ir.transforms.tape import Node


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
    line.
    """
    ctx = entry.context()
    before, ctx.watch = ctx.watch, Watch()
    try:
        yield
    finally:
        ctx.watch = before
