"""Mixed precision: inside `autocast`, products are formed in a 16-bit format and sensitive functions in
float32.

Enters: the operands of an operation, where the operation begins. Leaves: the same operands, cast as the
table says. The casts are operations like any others: they are recorded and differentiated, so gradients
arrive in the parameters' own dtype. Outside `autocast`, and for operations that the table does not name,
nothing happens.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ContextDecorator
from functools import wraps
from typing import Any, Literal

from trilobite.base.dtypes import DType, as_dtype, bfloat16, float16, float32
from trilobite.base.errors import ArgumentError
from trilobite.base.locations import user_location
from trilobite.framework.devices import KINDS
from trilobite.ir.primitives import table
from trilobite.ir.transforms import bind as entry

Policy = Literal["lower", "raise"]

_LOWER = "matmul tensordot vecdot einsum linear bilinear conv conv_transpose attention"
_RAISE = "softmax log_softmax loss sum prod var std logsumexp cumulative_sum cumulative_prod"
POLICY: dict[str, Policy] = {
    **dict.fromkeys(_LOWER.split(), "lower"),
    **dict.fromkeys(_RAISE.split(), "raise"),
}
"""What happens to the float operands of an operation: lowered to the 16-bit format, or raised to float32."""

_SMALL = (float16, bfloat16)


def autocast_dtype() -> DType | None:
    """The 16-bit format of the running thread, or None outside `autocast`."""
    found: DType | None = entry.threads.context.autocast
    return found


def operands(operation: str, *values: Any) -> tuple[Any, ...]:
    """The operands of an operation, cast as `autocast` asks. float64, complex and integers are left alone."""
    low = entry.threads.context.autocast
    if low is None:
        return values
    if POLICY[operation] == "lower":
        return tuple(_cast(v, low, (float32, *_SMALL)) for v in values)
    return tuple(_cast(v, float32, _SMALL) for v in values)


def _cast(value: Any, to: DType, eligible: tuple[DType, ...]) -> Any:
    found = getattr(value, "dtype", None)
    return table["cast"](value, dtype=to) if found in eligible and found != to else value


def nobody_looks() -> bool:
    """Do operations on arrays mean just their rules now: no recording, no watch, no autocast?"""
    ctx = entry.threads.context
    return ctx.recorder is None and ctx.watch is None and ctx.autocast is None


def casting(operation: str, fn: Callable[..., Any]) -> Callable[..., Any]:
    """`fn` over values behind `autocast`, if the table names the operation."""
    if operation not in POLICY:
        return fn

    @wraps(fn)
    def run(*values: Any, **rest: Any) -> Any:
        return fn(*operands(operation, *values), **rest)

    return run


class autocast(ContextDecorator):
    """`with tb.autocast(tb.bfloat16):` or `@tb.autocast(tb.float16)`; enabled=False switches it off
    inside another.
    """

    def __init__(
        self,
        device_type: Any = None,
        dtype: Any = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
    ) -> None:
        """`autocast(tb.bfloat16)`, or PyTorch's `autocast("cpu", dtype=...)`: for a device that is not there
        it does nothing.
        """
        if isinstance(device_type, str) and device_type.partition(":")[0] in KINDS:
            enabled = enabled and device_type.startswith("cpu")
        elif device_type is not None:
            dtype = device_type
        wanted = as_dtype(bfloat16 if dtype is None else dtype)
        if not enabled:
            wanted = wanted if wanted in _SMALL else bfloat16
        if wanted not in _SMALL:
            raise ArgumentError(
                f"autocast({wanted.name})",
                where=user_location(),
                expected="bfloat16 or float16",
            )
        self.dtype: DType | None = wanted if enabled else None
        self._before: list[DType | None] = []

    def __enter__(self) -> autocast:
        self._before.append(entry.threads.context.autocast)
        entry.threads.context.autocast = self.dtype
        return self

    def __exit__(self, *error: object) -> None:
        entry.threads.context.autocast = self._before.pop()


def keeping_mode(fn: Callable[..., Any]) -> Callable[..., Any]:
    """`fn` in the mode of now, whenever it is called: what is computed again later is computed in the
    same way.
    """
    dtype = entry.threads.context.autocast

    @wraps(fn)
    def run(*args: Any, **kwargs: Any) -> Any:
        before, entry.threads.context.autocast = entry.threads.context.autocast, dtype
        try:
            return fn(*args, **kwargs)
        finally:
            entry.threads.context.autocast = before

    return run
