"""Collectives: what the ranks of a run exchange. `groups` says who with whom: tuples of ranks, of one length;
a rank takes part in the one that holds it.

The meaning of each is a function from the arrays of all members, in order, to what each of them gets: ranks
in lock-step. Sums are taken in that order, floats of 16 bits and fewer in float32, so results depend neither
on timing nor on what carries them. Derivatives are those of all ranks together. A value is either each rank's
own or *shared*: one value that all members hold, whose cotangent counts once. `all_reduce` and `all_gather`
with `shared` make one of what is each rank's own; `share` and `part` lead back, and are their transposes.

All have effects: they happen in the order of the program, once each, on every rank alike.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from trilobite.base.dtypes import ALL, COMPLEX, DType, bits, bool_, float32, is_inexact
from trilobite.base.errors import ArgumentError, DTypeError, ShapeError
from trilobite.base.locations import user_location
from trilobite.ir import ranks
from trilobite.ir.primitive import Attributes, Primitive, Value, table
from trilobite.ir.primitives.common import OWN, elements, free, in_bytes, names
from trilobite.ir.ranks import Array, Groups
from trilobite.ir.types import Dim, TensorType

NUMBERS = ALL - {bool_}
MEANINGS: dict[str, ranks.Meaning] = {}  # of collectives, by their names

# -- what the rules share ------------------------------------------------------------------------------------


def check_groups(name: str, groups: Groups) -> int:
    """The number of members of each group."""
    flat = [r for members in groups for r in members]
    sizes = {len(members) for members in groups}
    if len(sizes) != 1 or 0 in sizes or len(set(flat)) != len(flat) or min(flat, default=-1) < 0:
        raise ArgumentError(
            f"{name} over the groups {groups}",
            where=user_location(),
            expected="tuples of ranks, all of one length, each rank once",
        )
    return sizes.pop()


def _check_axis(name: str, x: TensorType, axis: int) -> None:
    if not 0 <= axis < x.ndim:
        raise ShapeError(
            f"{name} of {x} along axis {axis}", where=user_location(), expected=f"0 <= axis < {x.ndim}"
        )


def _check_sizes(name: str, sizes: Sequence[int] | None, members: int) -> None:
    if sizes is not None and (len(sizes) != members or min(sizes) < 0):
        raise ShapeError(
            f"{name} of parts of sizes {sizes}", where=user_location(), expected=f"{members} sizes, >= 0"
        )


def _whole(d: Dim, n: int, name: str) -> Any:
    if d % n:
        raise ShapeError(
            f"{name}: {d} does not divide into {n} equal parts",
            where=user_location(),
            expected=f"a multiple of {n}",
            remedy="say how large each part is: sizes=tb.cluster.parts(size, n)",
        )
    return d // n


def _resized(x: TensorType, axis: int, size: Any) -> TensorType:
    return TensorType(tuple(size if i == axis else d for i, d in enumerate(x.shape)), x.dtype)


def cuts(size: int, n: int, sizes: Sequence[int] | None) -> list[tuple[int, int]]:
    """Where each member's part begins and ends."""
    each = [size // n] * n if sizes is None else list(sizes)
    ends = np.cumsum([0, *each]).tolist()
    return list(pairwise(ends))


def _piece(x: Array, axis: int, cut: tuple[int, int]) -> Array:
    return np.ascontiguousarray(x[(slice(None),) * axis + (slice(*cut),)])


def reduce_in_order(arrays: Sequence[Array], op: str) -> Array:
    """The members' arrays as one, from the first to the last."""
    step = {"sum": np.add, "max": np.maximum, "min": np.minimum, "prod": np.multiply}[op]
    dtype = arrays[0].dtype
    narrow = is_inexact(dtype) and bits(dtype) <= 16 and op in ("sum", "prod")
    total = arrays[0].astype(float32) if narrow else arrays[0].copy()
    with np.errstate(all="ignore"):
        for x in arrays[1:]:
            total = _in_own_loops(step, dtype, narrow)(total, x)
        return np.asarray(total).astype(dtype)


def _in_own_loops(step: Any, dtype: DType, narrow: bool) -> Callable[..., Any]:
    if narrow:
        return lambda total, x: step(total, x.astype(float32))
    return in_bytes(step) if dtype.num >= OWN else step


def by_all(name: str, meaning: ranks.Meaning) -> Callable[..., Array]:
    MEANINGS[name] = meaning

    def rule(x: Array, **attributes: Any) -> Array:
        return ranks.collective(name, x, attributes, meaning)

    return rule


def batched(name: str, *axes: str) -> Callable[..., Value]:
    """One collective for the whole batch: the axes that it names lie one further back."""

    def rule(size: Dim, values: Sequence[Value], mapped: Sequence[bool], attributes: Attributes) -> Value:
        return table[name](values[0], **{**attributes, **{a: attributes[a] + 1 for a in axes}})

    return rule


def _adds(inputs: Sequence[TensorType], outputs: Sequence[TensorType], attributes: Attributes) -> float:
    return (len(attributes["groups"][0]) - 1) * elements(outputs)


# -- all_reduce and share ------------------------------------------------------------------------------------


def _all_reduce_type(x: TensorType, groups: Groups, op: str, shared: bool) -> TensorType:
    check_groups("cluster_all_reduce", groups)
    if op not in ("sum", "max", "min", "prod"):
        raise ArgumentError(
            f"cluster_all_reduce by {op!r}", where=user_location(), expected="sum, prod, max or min"
        )
    accepts = NUMBERS - COMPLEX if op in ("max", "min") else NUMBERS
    if x.dtype not in accepts:
        raise DTypeError(
            f"cluster_all_reduce by {op} does not take {x.dtype}",
            where=user_location(),
            expected=names(accepts),
        )
    return x


def _all_reduce(arrays: Sequence[Array], attributes: Attributes) -> list[Array]:
    total = reduce_in_order(arrays, attributes["op"])
    return [total.copy() for _ in arrays]


def _sum(t: Value, groups: Groups, shared: bool) -> Value:
    return all_reduce(t, groups=groups, op="sum", shared=shared)


def _winners(x: Value, out: Value, groups: Groups, shared: bool) -> tuple[Value, Value]:
    """1 where this rank's element is the result, and how many ranks' are."""
    mask = table["cast"](table["eq"](x, out), dtype=x.dtype)
    return mask, _sum(mask, groups, shared)


def _one_slope(op: str) -> None:
    if op == "prod":
        from trilobite.base.errors import GradientError

        raise GradientError(
            "cluster_all_reduce by prod has no derivative rule",
            where=user_location(),
            remedy="gather the factors with all_gather and multiply them",
        )


def _all_reduce_jvp(t: Value, x: Value, out: Value, *, groups: Groups, op: str, shared: bool) -> Value:
    _one_slope(op)
    if op == "sum":
        return _sum(t, groups, shared)
    mask, ties = _winners(x, out, groups, shared)
    return table["div"](_sum(table["mul"](mask, t), groups, shared), ties)


def _all_reduce_vjp(t: Value, x: Value, out: Value, *, groups: Groups, op: str, shared: bool) -> Value:
    _one_slope(op)
    back = share(t, groups=groups) if shared else _sum(t, groups, False)
    if op == "sum":
        return back
    mask, ties = _winners(x, out, groups, shared)
    return table["div"](table["mul"](mask, back), ties)


all_reduce: Primitive = Primitive(
    "cluster_all_reduce", "x", type=_all_reduce_type, evaluate=by_all("cluster_all_reduce", _all_reduce),
    jvp=(_all_reduce_jvp,), vjp=(_all_reduce_vjp,), batch=batched("cluster_all_reduce"), cost=_adds,
    effect=True, doc="the sum (prod, max, min) over the members of a group, in their order, for each of them",
)  # fmt: skip


def _share_type(x: TensorType, groups: Groups) -> TensorType:
    check_groups("cluster_share", groups)
    return x


share: Primitive = Primitive(
    "cluster_share", "x", type=_share_type, evaluate=lambda x, groups: x,
    jvp=(lambda t, *, groups: share(t, groups=groups),),
    vjp=(lambda t, *, groups: _sum(t, groups, True),),
    batch=batched("cluster_share"), cost=free,
    doc="a shared value, used by each rank for itself: its cotangents are summed over the group",
)  # fmt: skip

# -- all_gather, reduce_scatter, part ------------------------------------------------------------------------


def _all_gather_type(
    x: TensorType, groups: Groups, axis: int, sizes: tuple[int, ...] | None, shared: bool
) -> TensorType:
    n = check_groups("cluster_all_gather", groups)
    _check_axis("cluster_all_gather", x, axis)
    _check_sizes("cluster_all_gather", sizes, n)
    return _resized(x, axis, x.shape[axis] * n if sizes is None else sum(sizes))


def _all_gather(arrays: Sequence[Array], attributes: Attributes) -> list[Array]:
    joined = np.concatenate(arrays, axis=attributes["axis"])
    return [joined.copy() for _ in arrays]


def _own_part(groups: Groups, sizes: Any) -> int | None:
    return None if sizes is None else ranks.position(groups)


def _all_gather_vjp(
    t: Value, *, groups: Groups, axis: int, sizes: tuple[int, ...] | None, shared: bool
) -> Value:
    own = _own_part(groups, sizes)
    back = part if shared else reduce_scatter
    return back(t, groups=groups, axis=axis, sizes=sizes, part=own)


all_gather: Primitive = Primitive(
    "cluster_all_gather", "x", type=_all_gather_type, evaluate=by_all("cluster_all_gather", _all_gather),
    jvp=(lambda t, *, groups, axis, sizes, shared:
         all_gather(t, groups=groups, axis=axis, sizes=sizes, shared=shared),),
    vjp=(_all_gather_vjp,), batch=batched("cluster_all_gather", "axis"), cost=free, effect=True,
    doc="the members' parts one after another along an axis, for each of them",
)  # fmt: skip


def _joined(shared: bool) -> Callable[..., Value]:
    def rule(t: Value, *, groups: Groups, axis: int, sizes: tuple[int, ...] | None) -> Value:
        return all_gather(t, groups=groups, axis=axis, sizes=sizes, shared=shared)

    return rule


def _part_type(name: str) -> Callable[..., TensorType]:
    def rule(
        x: TensorType, groups: Groups, axis: int, sizes: tuple[int, ...] | None, part: int | None
    ) -> TensorType:
        n = check_groups(name, groups)
        _check_axis(name, x, axis)
        _check_sizes(name, sizes, n)
        if sizes is None:
            return _resized(x, axis, _whole(x.shape[axis], n, name))
        if x.shape[axis] != sum(sizes) or part is None or not 0 <= part < n:
            raise ShapeError(
                f"{name} of {x} into part {part} of the sizes {list(sizes)}",
                where=user_location(),
                expected=f"{sum(sizes)} elements along axis {axis}, and a part from 0 to {n - 1}",
            )
        return _resized(x, axis, sizes[part])

    return rule


def _reduce_scatter_type(
    x: TensorType, groups: Groups, axis: int, sizes: tuple[int, ...] | None, part: int | None
) -> TensorType:
    if x.dtype not in NUMBERS:
        raise DTypeError(
            f"cluster_reduce_scatter does not take {x.dtype}", where=user_location(), expected=names(NUMBERS)
        )
    return _part_type("cluster_reduce_scatter")(x, groups, axis, sizes, part)


def _reduce_scatter(arrays: Sequence[Array], attributes: Attributes) -> list[Array]:
    axis, sizes = attributes["axis"], attributes["sizes"]
    at = cuts(arrays[0].shape[axis], len(arrays), sizes)
    return [reduce_in_order([_piece(x, axis, cut) for x in arrays], "sum") for cut in at]


reduce_scatter: Primitive = Primitive(
    "cluster_reduce_scatter", "x", type=_reduce_scatter_type,
    evaluate=by_all("cluster_reduce_scatter", _reduce_scatter),
    jvp=(lambda t, *, groups, axis, sizes, part:
         reduce_scatter(t, groups=groups, axis=axis, sizes=sizes, part=part),),
    vjp=(_joined(False),),
    batch=batched("cluster_reduce_scatter", "axis"), cost=_adds, effect=True,
    doc="the sum over the members of a group, in their order; each gets its part along an axis",
)  # fmt: skip


def _part(x: Array, groups: Groups, axis: int, sizes: Any, part: int | None) -> Array:
    at = cuts(x.shape[axis], len(groups[0]), sizes)
    return _piece(x, axis, at[ranks.position(groups)]).copy()


part: Primitive = Primitive(
    "cluster_part", "x", type=_part_type("cluster_part"), evaluate=_part,
    jvp=(lambda t, *, groups, axis, sizes, part: table["cluster_part"](
        t, groups=groups, axis=axis, sizes=sizes, part=part),),
    vjp=(_joined(True),),
    batch=batched("cluster_part", "axis"), cost=free, effect=True,
    doc="this rank's part of a shared value along an axis",
)  # fmt: skip

# -- all_to_all, permute, broadcast --------------------------------------------------------------------------


def _all_to_all_type(x: TensorType, groups: Groups, split: int, join: int) -> TensorType:
    n = check_groups("cluster_all_to_all", groups)
    _check_axis("cluster_all_to_all", x, split)
    _check_axis("cluster_all_to_all", x, join)
    out = _resized(x, split, _whole(x.shape[split], n, "cluster_all_to_all"))
    return _resized(out, join, out.shape[join] * n)


def _all_to_all(arrays: Sequence[Array], attributes: Attributes) -> list[Array]:
    split, join = attributes["split"], attributes["join"]
    at = cuts(arrays[0].shape[split], len(arrays), None)
    return [np.concatenate([_piece(x, split, cut) for x in arrays], axis=join) for cut in at]


all_to_all: Primitive = Primitive(
    "cluster_all_to_all", "x", type=_all_to_all_type, evaluate=by_all("cluster_all_to_all", _all_to_all),
    jvp=(lambda t, *, groups, split, join: all_to_all(t, groups=groups, split=split, join=join),),
    vjp=(lambda t, *, groups, split, join: all_to_all(t, groups=groups, split=join, join=split),),
    batch=batched("cluster_all_to_all", "split", "join"), cost=free, effect=True,
    doc="each member's k-th part along `split` goes to the k-th member, who joins what comes along `join`",
)  # fmt: skip

Pairs = tuple[tuple[int, int], ...]


def _permute_type(x: TensorType, groups: Groups, pairs: Pairs) -> TensorType:
    n = check_groups("cluster_permute", groups)
    sources, targets = [a for a, _ in pairs], [b for _, b in pairs]
    places = all(0 <= p < n for p in (*sources, *targets))
    if not places or len(set(sources)) < len(sources) or len(set(targets)) < len(targets):
        raise ArgumentError(
            f"cluster_permute by the pairs {pairs}",
            where=user_location(),
            expected=f"(from, to) of members 0 to {n - 1}, each at most once on either side",
        )
    return x


def _permute(arrays: Sequence[Array], attributes: Attributes) -> list[Array]:
    sources = {b: a for a, b in attributes["pairs"]}
    return [
        arrays[sources[k]].copy() if k in sources else np.zeros_like(arrays[k]) for k in range(len(arrays))
    ]


permute: Primitive = Primitive(
    "cluster_permute", "x", type=_permute_type, evaluate=by_all("cluster_permute", _permute),
    jvp=(lambda t, *, groups, pairs: permute(t, groups=groups, pairs=pairs),),
    vjp=(lambda t, *, groups, pairs: permute(t, groups=groups, pairs=tuple((b, a) for a, b in pairs)),),
    batch=batched("cluster_permute"), cost=free, effect=True,
    doc="for each pair (from, to) of members, what `from` has; zeros for members to whom none goes",
)  # fmt: skip


def _broadcast_type(x: TensorType, groups: Groups, root: int) -> TensorType:
    n = check_groups("cluster_broadcast", groups)
    if not 0 <= root < n:
        raise ArgumentError(
            f"cluster_broadcast from member {root}", where=user_location(), expected=f"0 to {n - 1}"
        )
    return x


def _broadcast(arrays: Sequence[Array], attributes: Attributes) -> list[Array]:
    return [arrays[attributes["root"]].copy() for _ in arrays]


def _to_root(t: Value, *, groups: Groups, root: int) -> Value:
    """The sum of all cotangents for the root, nothing for the others."""
    is_root = table["eq"](table["cluster_index"](groups=groups), np.asarray(root, np.int64))
    total = _sum(t, groups, False)
    here = table["broadcast"](is_root, shape=t.shape, axes=())
    return table["select"](here, total, table["full"](shape=t.shape, dtype=t.dtype, value=0))


broadcast: Primitive = Primitive(
    "cluster_broadcast", "x", type=_broadcast_type, evaluate=by_all("cluster_broadcast", _broadcast),
    jvp=(lambda t, *, groups, root: broadcast(t, groups=groups, root=root),), vjp=(_to_root,),
    batch=batched("cluster_broadcast"), cost=free, effect=True, doc="what the member `root` has",
)  # fmt: skip
