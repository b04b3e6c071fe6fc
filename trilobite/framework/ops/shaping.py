"""Views: other handles on the same cell. A write through one is a write to its base, eager and recorded alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trilobite.base.errors import ShapeError
from trilobite.base.locations import user_location
from trilobite.framework.ops.registry import tensor_op
from trilobite.framework.tensor import Step, Tensor
from trilobite.ir.primitives import table
from trilobite.ir.types import Affine, Dim, Shape, size_of

_reshape, _transpose = table["reshape"], table["transpose"]
G = "shape"


def full_shape(shape: Sequence[Any], size: Dim) -> Shape:
    """A shape with its -1, if any, worked out."""
    sizes: list[Dim] = [d if isinstance(d, Affine) else int(d) for d in shape]
    holes = [i for i, d in enumerate(sizes) if d == -1]
    if len(holes) > 1:
        raise ShapeError(f"reshape to {tuple(shape)}", where=user_location(), expected="at most one -1")
    if holes:
        rest = size_of([d for d in sizes if d != -1])
        known = rest if rest != 0 else 1
        if isinstance(size, int) and isinstance(known, int) and size % known:
            raise ShapeError(f"reshape of {size} elements to {tuple(shape)}", where=user_location(), expected=f"a multiple of {known} elements")
        sizes[holes[0]] = size // known
    if size_of(sizes) != size:
        raise ShapeError(f"reshape of {size} elements to {tuple(shape)}, which has {size_of(sizes)}", where=user_location(), expected="as many elements as before")
    return tuple(sizes)


def reshape_step(shape: Shape) -> Step:
    return _reshape, {"shape": shape}


@tensor_op(G)
def reshape(x: Tensor, /, *shape: Any, copy: bool | None = None) -> Tensor:
    """The same elements under another shape; one size may be -1. A view, unless copy=True."""
    sizes = shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
    out = x._through(reshape_step(full_shape(sizes, x.size)))
    return out.clone() if copy else out  # type: ignore[attr-defined,no-any-return]


def axis_in(axis: Any, ndim: int, what: str) -> int:
    """An axis as a number from 0."""
    a = int(axis)
    if not -ndim <= a < ndim:
        raise ShapeError(f"{what}: axis {a} of a tensor with {ndim} dimensions", where=user_location(), expected=f"{-ndim} <= axis < {ndim}")
    return a % ndim


@tensor_op(G, methods=("permute", "permute_dims"))
def permute_dims(x: Tensor, /, *axes: Any) -> Tensor:
    """Axis i of the result is axis axes[i]."""
    order = axes[0] if len(axes) == 1 and isinstance(axes[0], (tuple, list)) else axes
    places = tuple(axis_in(a, x.ndim, "permute_dims") for a in order)
    if sorted(places) != list(range(x.ndim)):
        raise ShapeError(f"permute_dims by {tuple(order)}", where=user_location(), expected=f"each of the {x.ndim} axes once")
    return x._through((_transpose, {"axes": places}))
