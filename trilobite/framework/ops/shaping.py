"""Views: other handles on the same cell. A write through one is a write to its base, eager and recorded
alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from trilobite.base.dtypes import DType, bits, dtype
from trilobite.base.errors import DTypeError, ShapeError
from trilobite.base.locations import user_location
from trilobite.framework.layouts import is_row_major, reshaped
from trilobite.framework.ops.axes import axes_in, axis_in, is_number, size_in
from trilobite.framework.ops.meeting import as_value
from trilobite.framework.ops.meeting import broadcast_shapes as shapes_together
from trilobite.framework.ops.registry import alias, copy_value, method, operators, tensor_op, wrap_results
from trilobite.framework.replay.plans import planned
from trilobite.framework.sizes import Size
from trilobite.framework.tensor import Tensor, wrap
from trilobite.framework.views import Step
from trilobite.ir.primitives import table
from trilobite.ir.transforms import bind as entry
from trilobite.ir.transforms.tape import Taped
from trilobite.ir.types import Affine, Dim, Shape, size_of

_reshape, _transpose, _reverse, _broadcast = (
    table[n] for n in ("reshape", "transpose", "reverse", "broadcast")
)
G = "shape"


def handle(x: Any) -> Tensor:
    """An operand as a tensor: itself, or a new one around an array or number."""
    return x if isinstance(x, Tensor) else wrap(as_value(x))


def through(x: Tensor, *steps: Step) -> Tensor:
    """Another handle on the same cell, looking through further steps."""
    return x._through(*steps)


def listed(args: Sequence[Any]) -> Sequence[Any]:
    """Sizes or axes given one by one or as one tuple."""
    return args[0] if len(args) == 1 and isinstance(args[0], (tuple, list)) else args


# -- reshape ---------------------------------------------------------------------------------------------


def full_shape(shape: Sequence[Any], size: Dim) -> Shape:
    """A shape with its -1, if any, worked out."""
    sizes: list[Dim] = list(map(size_in, shape))
    holes = [i for i, d in enumerate(sizes) if d == -1]
    if len(holes) > 1 or any(not isinstance(d, Affine) and d < -1 for d in sizes):
        raise ShapeError(
            f"reshape to {tuple(shape)}", where=user_location(), expected="sizes, at most one of them -1"
        )
    if holes:
        rest = size_of([d for d in sizes if d != -1])
        known = rest if rest != 0 else 1
        if isinstance(size, int) and isinstance(known, int) and size % known:
            raise ShapeError(
                f"reshape of {size} elements to {tuple(shape)}",
                where=user_location(),
                expected=f"a multiple of {known} elements",
                remedy="give sizes whose product is the number of elements; -1 stands for one of them",
            )
        if isinstance(size, Affine):
            _ = size % known  # says what is wrong unless it divides for every value of the symbols
        sizes[holes[0]] = size // known  # type: ignore[operator]
    if size_of(sizes) != size:
        raise ShapeError(
            f"reshape of {size} elements to {tuple(shape)}, which has {size_of(sizes)}",
            where=user_location(),
            expected="as many elements as before",
            remedy="let one size be worked out: -1",
        )
    return tuple(sizes)


def reshape_step(shape: Shape) -> Step:
    return _reshape, {"shape": shape}


@tensor_op(G, methods=(), view=True)
def reshape(x: Any, /, shape: Any, *, copy: bool | None = None) -> Tensor:
    """The same elements under another shape; one size may be -1. A view where the elements lie so that it can
    be one, else a copy; `copy=True` copies, `copy=False` refuses to.
    """
    x = handle(x)
    sizes = shape if isinstance(shape, (tuple, list)) else (shape,)
    new = full_shape(sizes, x.size)
    if x._view is not None and not copy:
        steps = x._strides()
        if steps is None or reshaped(x.shape, steps, new) is None:
            if copy is False:
                raise _only_a_copy(x, new, "reshape(..., copy=False)")
            return wrap_results(_reshape(x._read(), shape=new), [x._read()])  # type: ignore[no-any-return]
    out = through(x, reshape_step(new))
    return clone(out) if copy else out


def _only_a_copy(x: Tensor, new: Shape, what: str) -> ShapeError:
    return ShapeError(
        f"{what} of a view of shape {tuple(x.shape)} and strides {x._strides()} to {tuple(new)}",
        where=user_location(),
        expected="elements that lie so that no copy is needed",
        remedy="x.reshape(...), which copies where it must",
    )


@method("reshape", view=True)
def reshape_method(x: Tensor, *shape: Any, copy: bool | None = None) -> Tensor:
    """The same elements under another shape; one size may be -1. A view where it can be one, else a copy."""
    return reshape(x, tuple(listed(shape)), copy=copy)


@method("view", view=True)
def view(x: Tensor, *shape: Any) -> Tensor:
    """The same elements under another shape; or, given a dtype, their bits under another dtype of the same
    width.
    """
    if len(shape) == 1 and isinstance(shape[0], (dtype, np.dtype, str, type)):
        return view_as_dtype(x, shape[0])
    return reshape(x, tuple(listed(shape)))


def view_as_dtype(x: Tensor, dtype: Any) -> Tensor:
    from trilobite.base.dtypes import as_dtype

    want: DType = as_dtype(dtype)
    if bits(want) != bits(x.dtype):
        raise DTypeError(
            f"view of {x.dtype} as {want}",
            where=user_location(),
            expected=f"a dtype of {bits(x.dtype)} bits",
            remedy="convert the values with x.astype(dtype)",
        )
    return wrap(table["bitcast"](x._read(), dtype=want))


@method("reshape_as", "view_as")
def reshape_as(x: Tensor, other: Tensor) -> Tensor:
    """x in the shape of another tensor."""
    return reshape(x, other.shape)


@tensor_op(G, view=True)
def flatten(x: Any, /, start_axis: int = 0, end_axis: int = -1) -> Tensor:
    """The axes from start to end (included) as one."""
    x = handle(x)
    if x.ndim == 0:
        return reshape(x, (1,))
    first, last = axis_in(start_axis, x.ndim, "flatten"), axis_in(end_axis, x.ndim, "flatten")
    if first > last:
        raise ShapeError(
            f"flatten from axis {first} to axis {last}", where=user_location(), expected="start <= end"
        )
    shape = x.shape
    return reshape(x, (*shape[:first], size_of(shape[first : last + 1]), *shape[last + 1 :]))


@tensor_op(G)
def ravel(x: Any, /) -> Tensor:
    """All elements in one axis: a view of what lies in row-major order, else a copy."""
    return reshape(contiguous(handle(x)), (-1,))


@tensor_op(G)
def unflatten(x: Any, /, axis: int, sizes: Sequence[Any]) -> Tensor:
    """One axis as several; one of their sizes may be -1."""
    x = handle(x)
    a = axis_in(axis, x.ndim, "unflatten")
    return reshape(x, (*x.shape[:a], *full_shape(sizes, x.shape[a]), *x.shape[a + 1 :]))


@tensor_op(G, methods=(), view=True)
def squeeze(x: Any, /, axis: Any = None) -> Tensor:
    """Without these axes of size 1; without `axis`, without all of them."""
    x = handle(x)
    shape = x.shape
    if axis is None:
        return through(x, reshape_step(tuple(d for d in shape if d != 1)))
    if is_number(x, axis):
        return through(x, reshape_step(()))
    gone = axes_in(axis, len(shape), "squeeze")
    for a in gone:
        if shape[a] != 1:
            raise ShapeError(
                f"squeeze: axis {a} of shape {tuple(shape)} has size {shape[a]}",
                where=user_location(),
                expected="size 1",
                remedy="name axes of size 1 only, or reshape",
            )
    return through(x, reshape_step(tuple(d for i, d in enumerate(shape) if i not in gone)))


@method("squeeze", view=True)
def squeeze_method(x: Tensor, *axes: Any, axis: Any = None) -> Tensor:
    """Without these axes of size 1; without arguments, without all of them."""
    return squeeze(x, tuple(listed(axes)) if axes else axis)


@tensor_op(G, methods=("expand_dims", "unsqueeze"), view=True)
def expand_dims(x: Any, /, axis: Any = 0) -> Tensor:
    """With a new axis of size 1 at each of these places of the result."""
    x = handle(x)
    count = len(axis) if isinstance(axis, (tuple, list)) else 1
    new = axes_in(axis, x.ndim + count, "expand_dims")
    rest = iter(x.shape)
    return through(x, reshape_step(tuple(1 if i in new else next(rest) for i in range(x.ndim + count))))


# -- order of axes ---------------------------------------------------------------------------------------


def transposed(x: Tensor, order: Sequence[int]) -> Tensor:
    return through(x, (_transpose, {"axes": tuple(order)}))


@tensor_op(G, methods=())
def permute_dims(x: Any, /, axes: Any) -> Tensor:
    """Axis i of the result is axis axes[i]."""
    x = handle(x)
    places = axes_in(tuple(axes), x.ndim, "permute_dims")
    if len(places) != x.ndim:
        raise ShapeError(
            f"permute_dims by {tuple(axes)}",
            where=user_location(),
            expected=f"each of the {x.ndim} axes once",
        )
    return transposed(x, places)


@method("permute", "permute_dims", view=True)
def permute(x: Tensor, *axes: Any, dims: Any = None) -> Tensor:
    """Axis i of the result is axis axes[i]."""
    return permute_dims(x, tuple(listed(axes)) if dims is None else dims)


@tensor_op(G, view=True)
def moveaxis(x: Any, /, source: Any, destination: Any) -> Tensor:
    """Axes moved to other places; the others keep their order."""
    x = handle(x)
    if is_number(x, source) and is_number(x, destination):
        return transposed(x, ())
    source, target = axes_in(source, x.ndim, "moveaxis"), axes_in(destination, x.ndim, "moveaxis")
    if len(source) != len(target):
        raise ShapeError(
            f"moveaxis of {len(source)} axes to {len(target)} places",
            where=user_location(),
            expected="one place each",
        )
    order = [i for i in range(x.ndim) if i not in source]
    for t, s in sorted(zip(target, source, strict=True)):
        order.insert(t, s)
    return transposed(x, order)


@tensor_op(G, view=True)
def swapaxes(x: Any, axis1: int, axis2: int, /) -> Tensor:
    """Two axes exchanged."""
    x = handle(x)
    if is_number(x, axis1) and is_number(x, axis2):
        return transposed(x, ())
    a, b = axis_in(axis1, x.ndim, "swapaxes"), axis_in(axis2, x.ndim, "swapaxes")
    order = list(range(x.ndim))
    order[a], order[b] = b, a
    return transposed(x, order)


@tensor_op(G, methods=(), view=True)
def transpose(x: Any, axis1: Any = None, axis2: Any = None, /) -> Tensor:
    """Two axes exchanged, as in PyTorch; a tuple is a permutation, nothing reverses all axes, as in NumPy."""
    x = handle(x)
    if axis1 is None:
        return transposed(x, range(x.ndim)[::-1])
    return permute_dims(x, axis1) if isinstance(axis1, (tuple, list)) else swapaxes(x, axis1, axis2)


@method("transpose", view=True)
def transpose_method(x: Tensor, *axes: Any, **named: Any) -> Tensor:
    """Two axes exchanged, as in PyTorch; more are a permutation, none reverses all axes, as in NumPy."""
    if named:
        return operators["transpose"].public(x, *axes, **named)  # type: ignore[no-any-return]
    axes = tuple(listed(axes))
    return transpose(x, *axes) if len(axes) in (0, 2) else permute_dims(x, axes)


@tensor_op(G, methods=(), view=True)
def matrix_transpose(x: Any, /) -> Tensor:
    """The last two axes exchanged."""
    x = handle(x)
    if x.ndim < 2:
        raise ShapeError(
            f"matrix_transpose of shape {tuple(x.shape)}",
            where=user_location(),
            expected="at least two dimensions",
        )
    return swapaxes(x, -2, -1)


def t_property(x: Tensor) -> Tensor:
    """The transpose of a matrix."""
    if x.ndim != 2:
        raise ShapeError(
            f"x.T of a tensor with {x.ndim} dimensions", where=user_location(), expected="two dimensions",
            remedy="x.mT for the last two axes, x.permute(...) for others",
        )  # fmt: skip
    return swapaxes(x, 0, 1)


@tensor_op(G, methods=("flip",), plan=True)
def flip(x: Any, /, axis: Any = None, *more: Any) -> Tensor:
    """Back to front along these axes; along all of them by default. A copy, as in PyTorch; `x[::-1]` is a
    view.
    """
    x = handle(x)
    axis = (axis, *more) if more else axis
    turned = () if is_number(x, axis) else tuple(sorted(axes_in(axis, x.ndim, "flip")))
    return wrap_results(_reverse(x._read(), axes=turned), [x._read()])  # type: ignore[no-any-return]


# -- repetition ------------------------------------------------------------------------------------------


@tensor_op(G, methods=("broadcast_to",))
def broadcast_to(x: Any, /, shape: Any) -> Tensor:
    """x repeated to a shape, axes aligned from the right: a view that cannot be written to."""
    x, want = handle(x), tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    if shapes_together(x.shape, want) != want:
        raise ShapeError(
            f"broadcast_to from {tuple(x.shape)} to {want}",
            where=user_location(),
            expected="sizes that are equal, or 1 in x",
        )
    if x.shape == want:
        return through(x)
    return through(x, (_broadcast, {"shape": want, "axes": tuple(range(len(want) - x.ndim, len(want)))}))


@method("expand", view=True)
def expand(x: Tensor, *sizes: Any, size: Any = (), implicit: bool = False) -> Tensor:
    """Axes of size 1 repeated to these sizes; -1 keeps a size. A view that cannot be written to."""
    want = tuple(listed(sizes or size))
    lead = len(want) - x.ndim
    return broadcast_to(
        x, tuple(x.shape[i - lead] if d == -1 and i >= lead else d for i, d in enumerate(want))
    )


@method("expand_as")
def expand_as(x: Tensor, other: Tensor) -> Tensor:
    """x repeated to the shape of another tensor."""
    return broadcast_to(x, other.shape)


@tensor_op(G, methods=())
def broadcast_arrays(*arrays: Any) -> tuple[Tensor, ...]:
    """All repeated to their common shape."""
    xs = [handle(x) for x in arrays]
    shape = shapes_together(*(x.shape for x in xs))
    return tuple(broadcast_to(x, shape) for x in xs)


@tensor_op(G, methods=())
def broadcast_shapes(*shapes: Any) -> Shape:
    """The shape that these broadcast to."""
    return Size(shapes_together(*(tuple(s) if isinstance(s, (tuple, list)) else (s,) for s in shapes)))


# -- copies ----------------------------------------------------------------------------------------------


@tensor_op(G)
def clone(x: Tensor, *, memory_format: Any = None) -> Tensor:
    """A copy with memory of its own, through which gradients flow."""
    value = x._read()
    done: Tensor | None = planned(copy_value, (x,), {}) if type(value) is Taped else None
    return wrap(copy_value(value)) if done is None else done


@tensor_op(G)
def contiguous(x: Tensor, memory_format: Any = None) -> Tensor:
    """The tensor itself if its elements lie in row-major order, else a copy in which they do."""
    if x._view is None:
        return x
    base, recorder = x._cell.value, entry.threads.context.recorder
    if type(base) is np.ndarray and base.flags.c_contiguous and x._cell.owner is recorder is None:
        return x if x._look(base).flags.c_contiguous else clone(x)
    return x if is_contiguous(x) else clone(x)


@method("is_contiguous")
def is_contiguous(x: Tensor, memory_format: Any = None) -> bool:
    """Do the elements lie in row-major order? What is no view does."""
    return is_row_major(x.shape, x._strides())


@tensor_op(G, methods=("numel", "nelement"))
def numel(x: Tensor) -> Dim:
    """How many elements there are: x.size."""
    return size_of(x.shape)


@method("dim", "ndimension")
def dim(x: Tensor) -> int:
    """How many axes there are: x.ndim."""
    return len(x.shape)


alias("unsqueeze", "expand_dims")
alias("movedim", "moveaxis", methods=("movedim",))
alias("swapdims", "swapaxes", methods=("swapdims",))
alias("permute", "permute_dims")
