"""Collectives of tensors: eager, inside `jit`, `scan` and `checkpoint`, under `grad` and `vmap`.

Each takes `group=`: all ranks if none is given. `shared=True` says that the result is one value that all
members hold, whose gradient counts once: a loss that every rank knows, an activation that all go on with.
Without it the result is each rank's own, and its gradient the sum of what all ranks make of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from trilobite.base.errors import ArgumentError
from trilobite.base.locations import user_location
from trilobite.cluster.groups import Group, as_group, part_of, parts, size
from trilobite.framework.ops.creation import to_array
from trilobite.framework.tensor import Tensor, wrap
from trilobite.ir.primitive import Value
from trilobite.ir.primitives import table
from trilobite.ir.types import type_of

_NO_TOKEN = np.zeros((), np.float32)


def _value(x: Any) -> Value:
    return x._read() if isinstance(x, Tensor) else to_array(x)


def _bind(name: str, *values: Value, **attributes: Any) -> Tensor:
    """What is wrong is said before anything moves: eagerly, no other rule looks at the types."""
    table[name].type(*map(type_of, values), **attributes)
    return wrap(table[name](*values, **attributes))


def _axis(x: Value, axis: int) -> int:
    if not -x.ndim <= axis < x.ndim:
        raise ArgumentError(
            f"axis {axis} of {x.ndim}", where=user_location(), expected=f"{-x.ndim} <= axis < {x.ndim}"
        )
    return int(axis % x.ndim)


def _uneven(total: int, n: int) -> tuple[int, ...] | None:
    """Sizes of the parts if they differ."""
    return parts(total, n) if total % n else None


def all_reduce(x: Any, op: str = "sum", *, group: Group | None = None, shared: bool = False) -> Tensor:
    """The sum (or "mean", "max", "min", "prod") over all members, on each of them, taken in rank order."""
    g, v = as_group(group), _value(x)
    if op == "mean":
        total = _bind("cluster_all_reduce", v, groups=g.groups, op="sum", shared=shared)
        mean: Tensor = total / g.size
        return mean
    return _bind("cluster_all_reduce", v, groups=g.groups, op=op, shared=shared)


def share(x: Any, *, group: Group | None = None) -> Tensor:
    """A value that all members hold alike, from here on used by each for itself: gradients are summed."""
    return _bind("cluster_share", _value(x), groups=as_group(group).groups)


def all_gather(
    x: Any, axis: int = 0, *, group: Group | None = None, size: int | None = None, shared: bool = False
) -> Tensor:
    """The parts of all members, one after another. `size` is that of the whole where parts are uneven."""
    g, v = as_group(group), _value(x)
    sizes = None if size is None else _uneven(size, g.size)
    at = _axis(v, axis)
    return _bind("cluster_all_gather", v, groups=g.groups, axis=at, sizes=sizes, shared=shared)


def reduce_scatter(x: Any, axis: int = 0, *, group: Group | None = None) -> Tensor:
    """The sum over all members, of which each gets its part along an axis; parts may be uneven."""
    return _parted("cluster_reduce_scatter", x, axis, group)


def part(x: Any, axis: int = 0, *, group: Group | None = None) -> Tensor:
    """This rank's part of a value that all members hold alike."""
    return _parted("cluster_part", x, axis, group)


def _parted(name: str, x: Any, axis: int, group: Group | None) -> Tensor:
    g, v = as_group(group), _value(x)
    at = _axis(v, axis)
    sizes = _uneven(v.shape[at], g.size)
    own = None if sizes is None else g.index
    return _bind(name, v, groups=g.groups, axis=at, sizes=sizes, part=own)


def all_to_all(x: Any, split: int = 0, join: int = 0, *, group: Group | None = None) -> Tensor:
    """The k-th part along `split` goes to the k-th member; what comes is joined along `join`."""
    g, v = as_group(group), _value(x)
    return _bind("cluster_all_to_all", v, groups=g.groups, split=_axis(v, split), join=_axis(v, join))


def broadcast(x: Any, root: int = 0, *, group: Group | None = None) -> Tensor:
    """What the member number `root` has."""
    return _bind("cluster_broadcast", _value(x), groups=as_group(group).groups, root=root)


def permute(x: Any, pairs: Sequence[tuple[int, int]], *, group: Group | None = None) -> Tensor:
    """For each pair (from, to) of members: what `from` has; zeros for a member that nothing goes to."""
    fixed = tuple((int(a), int(b)) for a, b in pairs)
    return _bind("cluster_permute", _value(x), groups=as_group(group).groups, pairs=fixed)


def rotate(x: Any, by: int = 1, *, group: Group | None = None) -> Tensor:
    """What the member `by` places before this one has, in a ring."""
    g = as_group(group)
    return permute(x, [(k, (k + by) % g.size) for k in range(g.size)], group=g)


def index(*, group: Group | None = None) -> Tensor:
    """Which member of its group this rank is, as a number that a compiled function asks for when it runs."""
    return _bind("cluster_index", groups=as_group(group).groups)


def send(x: Any, to: int, tag: int = 0) -> Tensor:
    """x for the rank `to`, who must receive it. The token that it gives carries the gradient back."""
    size()
    return _bind("cluster_send", _value(x), to=int(to), tag=int(tag))


def receive(
    shape: Sequence[int], dtype: Any, source: int, tag: int = 0, *, after: Tensor | None = None
) -> Tensor:
    """What the rank `source` sends. `after` is a token: with one that needs a gradient, so does this."""
    from trilobite.base.dtypes import as_dtype

    size()
    token = _NO_TOKEN if after is None else after._read()
    kind = {"shape": tuple(shape), "dtype": as_dtype(dtype)}
    return _bind("cluster_receive", token, **kind, source=int(source), tag=int(tag))


def barrier(about: str = "", *, group: Group | None = None) -> None:
    """Wait until all members are here; where they do not say the same of what it is `about`, all raise."""
    _bind("cluster_barrier", _NO_TOKEN, groups=as_group(group).groups, about=about)


def own_rows(x: Any, axis: int = 0, *, group: Group | None = None) -> Tensor:
    """This rank's rows of data that every rank has: a plain slice, without a gradient between ranks."""
    v = _value(x)
    at = _axis(v, axis)
    begin, end = part_of(v.shape[at], as_group(group))
    start, stop = [0] * v.ndim, list(v.shape)
    start[at], stop[at] = begin, end
    return wrap(table["slice"](v, start=tuple(start), stop=tuple(stop), step=(1,) * v.ndim))
