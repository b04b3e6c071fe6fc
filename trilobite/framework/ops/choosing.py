"""Reading and writing at places that PyTorch names: index_put, masked_scatter, take_along_dim, unique."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from trilobite.base import dtypes as dt
from trilobite.base.errors import ArgumentError
from trilobite.base.locations import user_location
from trilobite.framework.ops.inplace import assign
from trilobite.framework.ops.registry import method, operators, tensor_op
from trilobite.framework.ops.searching import known
from trilobite.framework.ops.shaping import handle
from trilobite.framework.tensor import Tensor, wrap

G = "indexing"


def _op(name: str) -> Any:
    return operators[name].public


@tensor_op(G)
def index_put(x: Any, indices: Any, values: Any, accumulate: bool = False) -> Tensor:
    """x with values at the places that index tensors name, one per axis; or added there."""
    out = handle(x).clone()
    key = tuple(indices)
    if not accumulate:
        out[key] = values
        return out  # type: ignore[no-any-return]
    flat = _op("arange")(out.numel()).reshape(tuple(out.shape))[key]
    new = _op("broadcast_to")(handle(values).to(out.dtype), tuple(flat.shape)).reshape(-1)
    return _op("index_add")(out.reshape(-1), 0, flat.reshape(-1), new).reshape(tuple(out.shape))  # type: ignore[no-any-return]


@method("index_put_")
def index_put_(x: Tensor, indices: Any, values: Any, accumulate: bool = False) -> Tensor:
    """Values written at the places that index tensors name, or added there."""
    return assign(x, index_put(x, indices, values, accumulate), "index_put_")


@tensor_op(G)
def masked_scatter(x: Any, mask: Any, source: Any) -> Tensor:
    """x with elements of a source, in order, where the mask is true."""
    x, mask = _op("broadcast_tensors")(handle(x), handle(mask))
    mask = mask.reshape(-1)
    line = handle(source).to(x.dtype).reshape(-1)
    at = mask.long().cumsum(0) - 1
    picked = line[_op("clip")(at, 0, max(line.shape[0] - 1, 0))] if line.shape[0] else x.reshape(-1)
    return _op("where")(mask, picked, x.reshape(-1)).reshape(tuple(x.shape))  # type: ignore[no-any-return]


@tensor_op(G)
def take_along_dim(x: Any, indices: Any, dim: int | None = None) -> Tensor:
    """The elements along an axis that indices name; of the flattened tensor without one."""
    x, at = handle(x), handle(indices)
    if dim is None:
        return _op("take_along_axis")(x.reshape(-1), at.reshape(-1), axis=0)  # type: ignore[no-any-return]
    return _op("take_along_axis")(x, at, axis=dim)  # type: ignore[no-any-return]


@tensor_op(G)
def put(x: Any, index: Any, source: Any, accumulate: bool = False) -> Tensor:
    """x, seen as a line, with elements of a source at the indices."""
    x = handle(x)
    out = index_put(x.reshape(-1), (handle(index).reshape(-1),), handle(source).reshape(-1), accumulate)
    return out.reshape(tuple(x.shape))  # type: ignore[no-any-return]


@method("where")
def where_method(x: Tensor, condition: Any, other: Any) -> Tensor:
    """x where the condition is true, else the other."""
    return _op("where")(condition, x, other)  # type: ignore[no-any-return]


@tensor_op(G)
def unravel_index(indices: Any, shape: Any) -> tuple[Tensor, ...]:
    """Places in a flattened tensor as one index per axis."""
    flat, out = handle(indices), []
    for d in reversed(tuple(shape)):
        out.append(flat % d)
        flat = flat // d
    return tuple(reversed(out))


# -- distinct elements -----------------------------------------------------------------------------------


class Unique(NamedTuple):
    """Distinct elements, where each element is among them, and how often each occurs."""

    output: Any
    inverse: Any
    counts: Any


def _parts(found: Unique, inverse: bool, counts: bool) -> Any:
    kept = [found.output, *([found.inverse] if inverse else []), *([found.counts] if counts else [])]
    return kept[0] if len(kept) == 1 else tuple(kept)


@tensor_op("sets")
def unique(
    x: Any, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False, dim: Any = None
) -> Any:
    """The distinct elements (or slices along an axis), sorted; perhaps with their places and counts."""
    values = known(handle(x).detach()._read(), "unique", "use tb.unique_values(x, size=n) inside jit")
    out, at, often = np.unique(values, return_inverse=True, return_counts=True, axis=dim)
    at = at.reshape(values.shape if dim is None else -1)
    return _parts(
        Unique(wrap(out), wrap(at.astype(np.int64)), wrap(often.astype(np.int64))),
        return_inverse,
        return_counts,
    )


@tensor_op("sets")
def unique_consecutive(
    x: Any, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """Each run of equal elements (or slices) once; perhaps with the run each is in, and their lengths."""
    values = known(handle(x).detach()._read(), "unique_consecutive", "call it outside of jit")
    lines = values.reshape(-1) if dim is None else np.moveaxis(values, dim, 0)
    n = lines.shape[0]
    rows = lines.reshape(n, lines.size // n if n else 0)
    new = np.ones(n, bool)
    new[1:] = (rows[1:] != rows[:-1]).any(1)
    at, starts = np.cumsum(new) - 1, np.flatnonzero(new)
    often = np.diff(np.append(starts, n))
    out = lines[starts] if dim is None else np.moveaxis(lines[starts], 0, dim)
    at = at.reshape(values.shape) if dim is None else at
    found = Unique(wrap(np.ascontiguousarray(out)), wrap(at.astype(np.int64)), wrap(often.astype(np.int64)))
    return _parts(found, return_inverse, return_counts)


# -- conditions on all -----------------------------------------------------------------------------------


@tensor_op("elementwise", methods=("isreal",))
def isreal(x: Any) -> Tensor:
    """Is the imaginary part 0?"""
    x = handle(x)
    return x.imag == 0 if x.dtype in dt.COMPLEX else _op("ones_like")(x, dtype=dt.bool_)  # type: ignore[no-any-return]


@tensor_op(G)
def is_nonzero(x: Any) -> bool:
    """Is the only element not 0?"""
    x = handle(x)
    if x.numel() != 1:
        raise ArgumentError(
            f"is_nonzero of {x.numel()} elements", where=user_location(), expected="a single one"
        )
    return bool(x.reshape(()))


@tensor_op(G, methods=("is_same_size",))
def is_same_size(x: Any, other: Any) -> bool:
    """Have the two the same shape?"""
    return bool(handle(x).shape == handle(other).shape)
