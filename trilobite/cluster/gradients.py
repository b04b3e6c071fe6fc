"""What data-parallel ranks do with gradients: start alike, sum in buckets, clip by one norm.

Enters: parameters, each rank's gradients in `.grad`. Leaves: the same gradients on all ranks, as one process
with all the data has them. Buckets change no bits: every element is summed alone, in rank order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any
from zlib import crc32

import numpy as np

from trilobite.base import pytree
from trilobite.base.errors import ArgumentError
from trilobite.base.locations import user_location
from trilobite.cluster import collectives as c
from trilobite.cluster.groups import Group, as_group, part_of
from trilobite.framework.modes import is_grad_enabled, no_grad
from trilobite.framework.nn.module import Module
from trilobite.framework.optim.clipping import whole_gradients
from trilobite.framework.rules import custom_vjp
from trilobite.framework.tensor import Tensor, wrap
from trilobite.ir.primitives import table
from trilobite.ir.transforms import bind as entry

BUCKET = 1 << 20  # bytes that are sent at a time: what is sent last is waited for whole


def buckets(tensors: Iterable[Tensor], size: int = BUCKET) -> Iterator[list[Tensor]]:
    """Tensors of one dtype, in order, as many as fit into `size` bytes."""
    rows: list[Tensor] = []
    held = 0
    for t in tensors:
        nbytes = t.size * t.dtype.itemsize
        if rows and (t.dtype != rows[0].dtype or held + nbytes > size):
            yield rows
            rows, held = [], 0
        rows.append(t)
        held += nbytes
    if rows:
        yield rows


def flat(tensors: Sequence[Tensor]) -> Tensor:
    """All elements in one line."""
    lines = [t.reshape(-1)._read() for t in tensors]
    return wrap(lines[0] if len(lines) == 1 else table["concatenate"](*lines, axis=0))


def unflat(line: Tensor, like: Sequence[Tensor]) -> list[Tensor]:
    """The line in pieces of these shapes."""
    out, at = [], 0
    for t in like:
        value = table["slice"](line._read(), start=(at,), stop=(at + t.size,), step=(1,))
        out.append(wrap(table["reshape"](value, shape=tuple(t.shape))))
        at += t.size
    return out


def same_start(module: Module, group: Group | None = None) -> None:
    """Every member gets the parameters and buffers of the first."""
    g = as_group(group)
    if g.size == 1:
        return
    with no_grad():
        for rows in buckets([*module.parameters(), *module.buffers()]):
            for t, new in zip(rows, unflat(c.broadcast(flat(rows), group=g), rows), strict=True):
                t._store(new._read())


def reduce_gradients(
    parameters: Iterable[Tensor], group: Group | None = None, *, op: str = "mean", bucket: int = BUCKET
) -> None:
    """Gradients become their mean (or sum) over the members. A parameter that some members alone have used
    has a gradient on all of them then; in a compiled function, all must use the same ones.
    """
    g = as_group(group)
    if op not in ("mean", "sum"):
        raise ArgumentError(f"gradients by {op!r}", where=user_location(), expected="mean or sum")
    if g.size == 1:
        return
    listed = list(parameters)
    with no_grad():
        complete_gradients(listed, g)
        grads = [p.grad for p in listed if p.grad is not None]
        for rows in buckets(reversed(grads), bucket):  # as backward passes have them ready
            total = c.all_reduce(flat(rows), op, group=g)
            for t, new in zip(rows, unflat(total, rows), strict=True):
                t._store(new._read())


def complete_gradients(parameters: Sequence[Tensor], group: Group) -> None:
    """What has a gradient on one member has one on all: zeros where it was not used. Sums by position would
    mix up parameters else.
    """
    there = np.array([p.grad is not None for p in parameters], np.uint8)
    if entry.threads.context.recorder is not None:
        told_gradients(parameters, np.flatnonzero(there).tolist(), group)
        return
    everywhere = c.all_reduce(there, "max", group=group).numpy()
    for p, here, some in zip(parameters, there, everywhere, strict=True):
        if some and not here:
            p.grad = wrap(np.zeros(p.shape, p.dtype))


def told_gradients(parameters: Sequence[Tensor], there: Sequence[int], group: Group) -> None:
    """All members have gradients of the same parameters, or all raise. Who has all that can have one need not
    ask in a compiled function: who has less asks, and is not answered.
    """
    trained = sum(p.requires_grad for p in parameters)
    if len(set(there)) < trained or entry.threads.context.recorder is None:
        alike(f"gradients of parameters {list(there)}", group)


def alike(about: str, group: Group) -> None:
    """All members say the same, or all raise."""
    c.barrier(about, group=group)


def clip_grad_norm_(
    parameters: Iterable[Tensor], max_norm: float, *, split: Mapping[Group, Iterable[Tensor]] | None = None
) -> Tensor:
    """Scales all gradients down so that their norm is at most `max_norm`, and gives the norm before.
    `parameters` are those that this rank has whole; `split` those of which members of a group have parts.
    """
    whole = whole_gradients(parameters)
    parts = {g: [p.grad for p in ps if p.grad is not None] for g, ps in (split or {}).items()}
    with no_grad():
        total: Any = sum((_squares(t) for t in whole), start=0.0)
        for g, rows in parts.items():
            own: Any = sum((_squares(t) for t in rows), start=0.0)
            total = total + c.all_reduce(own, group=g)
        norm: Tensor = wrap(np.zeros(())) + total**0.5
        factor = (max_norm / (norm + 1e-6)).clip(max=1.0)
        for t in (*whole, *(t for rows in parts.values() for t in rows)):
            t._store((t * factor.to(t.dtype))._read())
    return norm


def _squares(t: Tensor) -> Any:
    from trilobite.base.dtypes import float64, real_of

    wide = abs(t).to(float64 if real_of(t.dtype) == float64 else real_of(t.dtype))
    return (wide.to(float64) ** 2).sum()


def rows_of_all(strategy: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> int:
    """How many rows the batch of all ranks has: `rows`, or as many on each as here. Ranks that train and
    disagree raise, all of them: their means would count rows unequally. So do those that `told` differs for.
    """
    own, group = _own_rows(args, kwargs), strategy.group
    if group.size > 1 and strategy.training and is_grad_enabled():
        said = [f"{own} rows on every rank; if uneven, set .rows to their sum"] * (strategy.rows is None)
        said += strategy.told()
        if said:
            c.barrier("; ".join(said), group=group)
    if strategy.rows is None:
        return own * int(group.size)
    begin, end = part_of(strategy.rows, group)
    if end - begin != own:
        raise ArgumentError(
            f"{own} rows on member {group.index} of {group.size}",
            where=user_location(),
            expected=f"{end - begin}, its part of {strategy.rows}",
            remedy="rows = None for batches of the same size on all ranks",
        )
    return int(strategy.rows)


def _own_rows(args: Sequence[Any], kwargs: Mapping[str, Any]) -> int:
    found = [t for t in pytree.leaves((tuple(args), dict(kwargs)), is_tensor) if is_tensor(t) and t.ndim]
    if not found:
        raise ArgumentError(
            "a data-parallel model that is given no tensor with rows",
            where=user_location(),
            expected="a batch: this rank's part of it",
        )
    return int(found[0].shape[0])


def is_tensor(x: Any) -> bool:
    return isinstance(x, Tensor)


@cache
def _counting(weight: float) -> custom_vjp:
    """Gives what it is given; gradients count `weight` times."""
    rule = custom_vjp(lambda x: x)
    rule.defvjp(lambda x: (x, ()), lambda _, g: (g * weight,))
    return rule


def weighed(strategy: Any, out: Any) -> Any:
    """What a model gives on this member's rows: gradients of a mean over them become this member's part in
    those of the mean over all rows, times the members.
    """
    weight = weight_of(strategy)
    if weight == 1.0:
        return out
    count = _counting(weight)
    return pytree.map(lambda t: count(t) if is_tensor(t) and t.requires_grad else t, out, is_leaf=is_tensor)


def weight_of(strategy: Any) -> float:
    """What the mean over this member's rows counts for in the mean over all, times the members."""
    if strategy.rows is None:
        return 1.0
    begin, end = part_of(strategy.rows, strategy.group)
    return float((end - begin) * strategy.group.size / strategy.rows)


class DataParallel(Module):
    """Every rank has the model and a part of the batch.

    The batch of one process is that of all ranks, in rank order; the loss is the mean over it. `backward()`
    as often as you like (gradients add up), then `reduce_gradients()`, then the optimiser's step.
    Where parts are uneven (the last batch of an epoch, cut as `own_rows` and `BatchSampler` do), say how many
    rows all ranks have: `dp.rows = 7`. Then gradients count by rows; `loss * dp.weight` does, too, for
    who wants the mean of losses. Uneven parts of which nobody has said so are an error on all ranks, and so
    are parameters that are no longer alike, because a sum was left out before a step.
    """

    rows: int | None = None

    def __init__(self, module: Module, group: Group | None = None) -> None:
        super().__init__()
        self.module, self.group = module, as_group(group)
        same_start(module, self.group)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The module on this rank's part of the batch, with the part of the dropout masks that goes with
        it.
        """
        from trilobite.cluster.randomness import one_randomness

        with one_randomness(self.group, total=rows_of_all(self, args, kwargs)):
            return weighed(self, self.module(*args, **kwargs))

    @property
    def weight(self) -> float:
        """What this member's mean loss counts for in the mean of all, where parts are uneven."""
        return weight_of(self)

    def mean_over_ranks(self, numbers: Mapping[str, float]) -> dict[str, float]:
        """What all members know of these, each as its mean: for decisions that all must take alike."""
        line = np.array([float(v) for v in numbers.values()])
        return dict(zip(numbers, c.all_reduce(line, "mean", group=self.group).tolist(), strict=True))

    def told(self) -> list[str]:
        """Of the last parameter that is trained, which every step changes, what its first numbers are."""
        last = next((p for p in reversed(list(self.module.parameters())) if p.requires_grad), None)
        value = None if last is None else last._read()
        value = value if isinstance(value, np.ndarray) else getattr(value, "primal", None)
        if not isinstance(value, np.ndarray):
            return []
        numbers = crc32(value.reshape(-1)[:256].tobytes())
        return [f"parameters {numbers:08x}; if they differ, reduce_gradients() was left out"]

    def reduce_gradients(self) -> None:
        """Gradients of the mean loss over all ranks."""
        reduce_gradients(self.module.parameters(), self.group)
