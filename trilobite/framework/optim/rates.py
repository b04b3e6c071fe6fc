"""Learning rates in the groups of an optimiser: a tensor in ours, a plain number or a tensor of the user's in
the dicts of an optimiser that was written for PyTorch.

Enters: a group. Leaves: what it says as a 0-d float64 tensor, or the group changed. Formulas are not here.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trilobite.base.dtypes import float64
from trilobite.base.errors import TraceError
from trilobite.base.locations import user_location
from trilobite.framework.modes import no_grad
from trilobite.framework.ops.creation import to_array
from trilobite.framework.optim.arithmetic import add, cast, div, mul, select, sub
from trilobite.framework.optim.group import Group
from trilobite.framework.tensor import Tensor, wrap
from trilobite.ir.primitive import Value
from trilobite.ir.primitives import table
from trilobite.ir.transforms import bind as entry

_NEAR = 1e-12  # relative: what rounding leaves between a rate and the same rate computed again


def keep_initial(group: Any) -> None:
    """The rate that a group has now is its base, unless an earlier schedule or the user has set one."""
    if isinstance(group, Group):
        group.add("initial_lr", float(group["lr"]))
    else:
        group.setdefault("initial_lr", float(group["lr"]))


def assign(group: Any, name: str, value: Any) -> None:
    """Set a number: in place where it is a tensor, so that a recorded step sees it."""
    if isinstance(group, Group):
        group[name] = value
        return
    if isinstance(there := group.get(name), Tensor):
        with no_grad():
            there.copy_(value)
        return
    if isinstance(value, Tensor):
        if entry.threads.context.recorder is not None:
            raise _plain_number(name)
        value = value.item()
    if _is_first_beta(group, name):
        group["betas"] = (value, *group["betas"][1:])
    else:
        group[name] = value


def _is_first_beta(group: Any, name: str) -> bool:
    """Is it a part of PyTorch's `betas`?"""
    return name == "beta1" and name not in group and "betas" in group


def number(group: Any, name: str) -> Tensor:
    """A number as the group has it, in float64."""
    return wrap(_value(group["betas"][0] if _is_first_beta(group, name) else group[name]))


def _plain_number(name: str) -> TraceError:
    return TraceError(
        f"{name!r} of a parameter group is a number of Python that a schedule changes while it is recorded",
        where=user_location(),
        expected="a number that lives in a tensor",
        remedy=f"make the optimiser with {name}=tb.tensor(0.1), or step the schedule outside of jit",
    )


def has(group: Any, name: str) -> bool:
    """Has the group that number?"""
    if isinstance(group, Group):
        return group.has(name)
    return _is_first_beta(group, name) or bool(group.get(name))


def base_rate(group: Any) -> Tensor:
    """The learning rate that a group began with, in float64."""
    return wrap(_value(group["initial_lr"]))


def current(group: Any) -> Tensor:
    """The learning rate that a group has, in float64."""
    return wrap(_value(group["lr"]))


def _value(number: Any) -> Value:
    return cast(number._read(), float64) if isinstance(number, Tensor) else to_array(float(number), float64)


def moved_on(now: Tensor, before: Tensor, new: Tensor, floor: float) -> Tensor:
    """`new` where the rate is still `before`; else as far from the floor as `now`, in the ratio of the two. A
    rate that does not move leaves what it finds.
    """
    at, old, to, low = (_value(x) for x in (now, before, new, floor))
    gap, height = sub(at, old), sub(old, low)
    is_ours = table["le"](_magnitude(gap), mul(_magnitude(old), np.asarray(_NEAR)))
    is_still = table["eq"](to, old)
    at_floor = table["eq"](height, np.asarray(0.0))
    ratio = div(sub(to, low), select(at_floor, np.asarray(1.0), height))
    moved = select(at_floor, to, add(low, mul(sub(at, low), ratio)))
    return wrap(select(is_ours, to, select(is_still, at, moved)))


def _magnitude(x: Value) -> Value:
    return table["abs"](x)
