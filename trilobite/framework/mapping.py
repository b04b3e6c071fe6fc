"""`vmap`: a function over a batch, by prefix trees that say which axis of each argument and result it is.

The function runs once under a batching interpreter; what depends on the batch carries it as the first axis.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import wraps
from typing import Any

from trilobite.base import pytree
from trilobite.base.errors import ArgumentError, ShapeError, TraceError
from trilobite.base.locations import user_location
from trilobite.framework.tensor import wrap
from trilobite.framework.transforms import Fn, check_function, is_tensor, read_tree, running
from trilobite.ir.primitive import Value
from trilobite.ir.primitives import table
from trilobite.ir.transforms import bind as entry
from trilobite.ir.transforms.batch import Batch, Batched, Randomness
from trilobite.ir.transforms.bind import Traced, deeper


def move_axis(v: Value, source: int, target: int) -> Value:
    if source == target:
        return v
    order = [i for i in range(v.ndim) if i != source]
    order.insert(target, source)
    return table["transpose"](v, axes=tuple(order))


def vmap(fn: Fn, in_axes: Any = 0, out_axes: Any = 0, *, randomness: Randomness = "error") -> Fn:
    """`fn` over a batch: in_axes and out_axes say (by prefix trees) which axis is the batch, None for not
    mapped.
    """
    if randomness not in ("error", "same", "different"):
        raise ArgumentError(
            f"vmap(randomness={randomness!r})",
            where=user_location(),
            expected="'error', 'same' or 'different'",
            remedy="'different' draws anew for every entry of the batch",
        )
    check_function("vmap", fn)

    @wraps(fn, updated=())
    def run(*args: Any, **kwargs: Any) -> Any:
        axes_tree = tuple(in_axes) if isinstance(in_axes, (list, tuple)) else in_axes
        axes = _spread("in_axes", axes_tree, args) + [0] * len(pytree.leaves(kwargs, is_tensor))
        values, tree = read_tree((args, kwargs))
        size, mapped = _mapped(values, axes)
        ctx = entry.context()
        with deeper(ctx) as level:
            batch = Batch(level, size, randomness)
            outer, ctx.vmaps = ctx.vmaps, (*ctx.vmaps, batch)
            try:
                with running(batch, lambda v: _no_batch(v, batch)):
                    inner = [
                        wrap(v if a is None else Batched(batch, move_axis(v, a, 0)))
                        for v, a in zip(values, mapped, strict=True)
                    ]
                    inner_args, inner_kwargs = tree.unflatten(inner)
                    out = fn(*inner_args, **inner_kwargs)
                    outs, out_tree = read_tree(out)
                    places = _spread("out_axes", out_axes, out)
                    results = [_leave(batch, o, a) for o, a in zip(outs, places, strict=True)]
            finally:
                ctx.vmaps = outer
        return out_tree.unflatten(map(wrap, results))

    return run


def _spread(name: str, axes: Any, tree: Any) -> list[Any]:
    """One axis per leaf."""
    try:
        found = pytree.broadcast_prefix(axes, tree, is_tensor)
    except ArgumentError:
        structure = pytree.flatten(tree, is_tensor)[1]
        raise ArgumentError(
            f"vmap({name}={axes!r}) for a structure {structure}",
            where=user_location(),
            expected="one axis for all, or the same structure with an axis for each part",
            remedy=f"{name}=0 maps everything along the first axis, None maps nothing",
        ) from None
    for a in found:
        if a is not None and (not isinstance(a, int) or isinstance(a, bool)):
            raise ArgumentError(
                f"vmap({name}={axes!r})",
                where=user_location(),
                expected="integers, and None for what is not mapped",
                remedy=f"{name}=0 maps everything along the first axis",
            )
    return found


def _mapped(values: Sequence[Value], axes: Sequence[Any]) -> tuple[Any, list[int | None]]:
    """The batch size, and the batch axis of each value counted from 0."""
    size: Any = None
    places: list[int | None] = []
    for v, a in zip(values, axes, strict=True):
        if a is None:
            places.append(None)
            continue
        if not -v.ndim <= a < v.ndim:
            raise ShapeError(
                f"vmap over axis {a} of a tensor of shape {tuple(v.shape)}",
                where=user_location(),
                expected="an axis that it has",
                remedy="in_axes=None for arguments that are not mapped",
            )
        if size is not None and v.shape[a] != size:
            raise ShapeError(
                f"vmap over axes of different sizes {size} and {v.shape[a]}",
                where=user_location(),
                expected="one batch size",
                remedy="in_axes=None for arguments that are not mapped",
            )
        size = v.shape[a]
        places.append(a % v.ndim)
    if size is None:
        raise ArgumentError(
            "vmap with nothing to map over",
            where=user_location(),
            expected="at least one argument whose in_axes is not None",
            remedy="call the function without vmap, or map an argument: in_axes=0",
        )
    return size, places


def _leave(batch: Batch, value: Value, axis: Any) -> Value:
    if axis is None:
        if isinstance(value, Traced) and value.interpreter is batch:
            raise ArgumentError(
                "out_axes=None for a result that depends on the batch",
                where=user_location(),
                expected="the axis for the batch",
                remedy="out_axes=0, or reduce the result over the batch outside",
            )
        return value
    out = batch.out(value)
    if not -out.ndim <= axis < out.ndim:
        raise ShapeError(
            f"vmap(out_axes={axis}) for a result of {out.ndim - 1} dimensions",
            where=user_location(),
            expected=f"{-out.ndim} <= axis < {out.ndim}, for the batch is one more",
            remedy="out_axes=0 puts the batch in front",
        )
    return move_axis(out, 0, axis % out.ndim)


def _no_batch(value: Value, batch: Batch) -> Value:
    if isinstance(value, Traced) and value.interpreter is batch:
        raise TraceError(
            "a tensor outside vmap was changed to a value that differs along the batch",
            where=user_location(),
            expected="one value for the whole batch",
            remedy="return the value from the function, or reduce it over the batch first",
        )
    return value
