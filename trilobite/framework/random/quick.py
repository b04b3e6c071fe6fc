"""Small draws that come again: the generator's next key and the numbers made of it as one plan.

Enters: a function of a key and of what is static. Leaves: what it makes of a fresh key of the generator, with
the bits of the long way, or None where that has to be gone: recordings, transforms, large draws.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from trilobite.framework.random.keys import draws, split_value, state
from trilobite.framework.replay.keys import SMALL
from trilobite.framework.replay.plans import OFTEN, REMEMBERED, Plan
from trilobite.framework.tensor import Tensor, wrap
from trilobite.ir.primitive import Value
from trilobite.ir.transforms import bind as entry
from trilobite.ir.types import TensorType

_KEY = TensorType((2,), np.dtype(np.uint32))
_counts: dict[Any, int] = {}
_plans: dict[Any, Plan] = {}


def drawn(make: Callable[..., Value], shape: Any, dtype: Any) -> Tensor | None:
    """`make(key, shape, dtype)` of the generator's next key, if it is small and often asked for."""
    ctx = entry.threads.context
    if ctx.recorder is not None or ctx.watch is not None or ctx.writes is not None or ctx.vmaps:
        return None
    try:
        plan = _plans.get((make, shape, dtype))
    except TypeError:  # a shape that is no shape
        return None
    if plan is None:
        plan = _made_now(make, shape, dtype)
    key = state.value
    if plan is None or plan.forward is None or type(key) is not np.ndarray:
        return None
    state.value, found = plan.forward([key])
    draws[0] += 1
    return wrap(found)


def _made_now(make: Callable[..., Value], shape: Any, dtype: Any) -> Plan | None:
    if type(shape) is not tuple or not all(type(d) is int and d > 0 for d in shape):
        return None  # symbolic ones, empty ones, wrong ones
    if math.prod(shape) > SMALL:
        return None
    kind = make, shape, dtype
    count = _counts[kind] = _counts.get(kind, 0) + 1
    if len(_counts) > REMEMBERED or len(_plans) > REMEMBERED:
        _counts.clear()
        _plans.clear()
    if count < OFTEN:
        return None

    def both(key: Value) -> tuple[Value, Value]:
        rest, fresh = split_value(key, 2)
        return rest, make(fresh, shape, dtype)

    plan = _plans[kind] = Plan(both, [_KEY], [False])
    return plan
