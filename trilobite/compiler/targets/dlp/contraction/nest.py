"""One form for products and the three views of a convolution: loops over tiles of six dims.

    g  groups of a convolution, or the batch of a product      b  images
    p  rows and q  columns of what is written (of y for a weight gradient)
    n  outputs and k  inputs of a group

Enters: a `Problem`. Leaves: a `Nest`: extents of the dims, which of them each operand has, where its tiles
lie in device memory, and the window. A pointwise convolution becomes a product, a strided one of them reads
only the places that it needs. Nothing here knows a machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Literal

from trilobite.base.dtypes import DType
from trilobite.compiler.targets.dlp.contraction.formats import OPERANDS, RESULTS, accumulator
from trilobite.compiler.targets.dlp.interfaces import Convolution, Home, Problem, Product, Tensor
from trilobite.processor.isa.formats import I32, Format

DIMS = ("g", "b", "p", "q", "n", "k")
Kind = Literal["product", "forward", "input_grad", "weight_grad"]


@dataclass(frozen=True)
class Window:
    """The window along rows and columns; `space` are x's extents before spreading, `out` are y's."""

    space: tuple[int, int]
    out: tuple[int, int]
    kernel: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    low: tuple[int, int]
    high: tuple[int, int]
    spread: tuple[int, int]

    def reach(self, axis: int) -> int:
        return self.dilation[axis] * (self.kernel[axis] - 1) + 1

    def extent(self, axis: int) -> int:
        """Of x after spreading."""
        return (self.space[axis] - 1) * self.spread[axis] + 1

    @property
    def taps(self) -> int:
        return self.kernel[0] * self.kernel[1]


POINT = Window((1, 1), (1, 1), (1, 1), (1, 1), (1, 1), (0, 0), (0, 0), (1, 1))


@dataclass(frozen=True)
class View:
    """A tensor in device memory or at home on chip: bytes from one image, row, column, channel and group to
    the next."""

    image: int
    row: int
    column: int
    channel: int
    group: int
    item: int
    home: Home | None = None


@dataclass(frozen=True)
class Filter:
    """Weights in device memory: bytes from one output, tap row, tap column, input and group to the next."""

    output: int
    row: int
    column: int
    input: int
    group: int
    item: int


@dataclass(frozen=True)
class Nest:
    """`extents` by dim. `image` is x (y for an input gradient), `filter` w, `other` what a weight gradient
    has instead of a filter: y."""

    kind: Kind
    extents: dict[str, int]
    window: Window
    image: View
    filter: Filter
    other: View
    left: Format
    accumulate: Format
    out: Format
    out_dtype: DType
    extras: tuple[View | Filter, ...] = ()  # tensors with the result's axes: an epilogue's
    swapped: bool = False  # the operands of a product changed places

    def __hash__(self) -> int:
        return hash(self.key)

    @property
    def key(self) -> tuple[object, ...]:
        """Everything that a kernel depends on."""
        return (
            self.kind, tuple(self.extents.items()), self.window, self.image, self.filter, self.other,
            self.left.name, self.accumulate.name, str(self.out_dtype), self.extras, self.swapped,
        )  # fmt: skip

    @property
    def reduced(self) -> tuple[str, ...]:
        return ("b", "p", "q") if self.kind == "weight_grad" else ("k",)

    @property
    def own(self) -> dict[str, tuple[str, ...]]:
        """The dims that a tile of each operand depends on."""
        if self.kind == "weight_grad":
            return {"left": ("g", "b", "p", "q", "n"), "right": ("g", "b", "p", "q", "k"),
                    "out": ("g", "n", "k")}  # fmt: skip
        return {"left": ("g", "b", "p", "q", "k"), "right": ("g", "n", "k"), "out": ("g", "b", "p", "q", "n")}

    @property
    def macs(self) -> int:
        e = self.extents
        places = e["p"] * e["q"]
        if self.kind == "input_grad":
            places = prod(self.window.out)
        return e["g"] * e["b"] * places * e["n"] * e["k"] * self.window.taps

    @property
    def whole_images(self) -> bool:
        """Windows may lie in the frame altogether: then only whole images are legal tiles."""
        w = self.window
        return any(max(w.low[a], w.high[a]) >= w.reach(a) for a in (0, 1)) and self.kind != "product"


def refusal(problem: Problem) -> str | None:
    """Why no matrix instruction computes the problem, or None."""
    dtypes = _dtypes(problem)
    left = OPERANDS.get(dtypes[0])
    if left is None or dtypes[0] != dtypes[1]:
        return f"the matrix unit multiplies no {dtypes[0]}" + (f" by {dtypes[1]}" if left else "")
    if accumulator(left, problem.accumulate) is None or dtypes[2] not in RESULTS:
        return f"the matrix unit gives no sums of {dtypes[0]} in {problem.accumulate} as {dtypes[2]}"
    if (RESULTS[dtypes[2]].kind == "float") != (left.kind == "float"):
        return f"the matrix unit makes no {dtypes[2]} of {dtypes[0]}"
    return _empty(problem) or (
        _convolution_refusal(problem, left) if isinstance(problem, Convolution) else None
    )


def _dtypes(problem: Problem) -> tuple[DType, DType, DType]:
    """Of the two operands and the result."""
    if isinstance(problem, Product):
        return problem.x.dtype, problem.y.dtype, problem.out.dtype
    x, w, y = problem.x.dtype, problem.w.dtype, problem.y.dtype
    return {"forward": (x, w, y), "input_grad": (y, w, x), "weight_grad": (x, y, w)}[problem.kind]


def _empty(problem: Problem) -> str | None:
    tensors = (problem.x, problem.y, problem.out) if isinstance(problem, Product) else (
        problem.x, problem.w, problem.y)  # fmt: skip
    return None if all(t.size for t in tensors) else "there is nothing to multiply"


def _convolution_refusal(c: Convolution, left: Format) -> str | None:
    rank = len(c.stride)
    if rank not in (1, 2):
        return f"the matrix unit's windows have 1 or 2 axes, not {rank}"
    if c.kind != "forward" and left.kind != "float":
        return f"the matrix unit has no {c.kind} of integers"
    if min(*c.low, *c.high) < 0 and c.kind == "input_grad":
        return "a cropped input has no gradient instruction"
    if min(*c.low, *c.high) < 0 and any(d != 1 for d in c.x_dilation):
        return "the matrix unit has no window over an image that is spread and cropped"
    if c.kind == "input_grad" and any(d != 1 for d in c.x_dilation):
        return "a spread input has no gradient instruction"
    return None


def nest_of(problem: Problem, extras: Sequence[Tensor] = ()) -> Nest:
    """The problem's loops; it must not be refused. `extras` are tensors with the axes of the result."""
    return _product(problem, extras) if isinstance(problem, Product) else _convolution(problem, extras)


# -- products ------------------------------------------------------------------------------------------------


def _product(p: Product, extras: Sequence[Tensor]) -> Nest:
    x, y, out, more = p.x, p.y, p.out, tuple(extras)
    swapped = out.strides[2] != 1 and out.strides[1] == 1 and out.shape[2] > 1
    if swapped:  # compute the transposed result
        x, y, out, more = _transposed(y), _transposed(x), _transposed(out), tuple(map(_transposed, more))
    batch, m, k = x.shape
    n, item = y.shape[2], x.dtype.itemsize
    weights = Filter(y.strides[2] * item, 0, 0, y.strides[1] * item, y.strides[0] * item, item)
    left, acc = _formats(x.dtype, p.accumulate)
    extents = {"g": batch, "b": 1, "p": m, "q": 1, "n": n, "k": k}
    made = Nest("product", extents, POINT, _matrix(x), weights, _matrix(out), left, acc, RESULTS[out.dtype],
                out.dtype, tuple(map(_matrix, more)), swapped)  # fmt: skip
    return _joined(made)


def _matrix(t: Tensor) -> View:
    item = t.dtype.itemsize
    return View(0, t.strides[1] * item, 0, t.strides[2] * item, t.strides[0] * item, item, t.home)


def _joined(nest: Nest) -> Nest:
    """A batch whose right operand is the same for all is more rows of one product."""
    e = nest.extents
    rowwise = (nest.image, nest.other, *nest.extras)
    if e["g"] == 1 or nest.filter.group or any(v.group != e["p"] * v.row for v in rowwise):
        return nest
    return replace(nest, extents={**e, "g": 1, "p": e["g"] * e["p"]})


def _transposed(t: Tensor) -> Tensor:
    shape, strides = (t.shape[0], t.shape[2], t.shape[1]), (t.strides[0], t.strides[2], t.strides[1])
    return Tensor(shape, t.dtype, strides, t.home)


def _formats(operand: DType, accumulate: DType) -> tuple[Format, Format]:
    left = OPERANDS[operand]
    return left, accumulator(left, accumulate) or I32


# -- convolutions --------------------------------------------------------------------------------------------


def _convolution(c: Convolution, extras: Sequence[Tensor]) -> Nest:
    window = _window(c)
    left, acc = _formats(c.w.dtype if c.kind != "weight_grad" else c.x.dtype, c.accumulate)
    outputs, inputs = c.w.shape[0] // c.groups, c.w.shape[-1]
    image, y = _view(c.x, inputs), _view(c.y, outputs)
    weights = _filter(c.w, outputs)
    extents = {"g": c.groups, "b": c.x.shape[0]}
    out = {"forward": c.y, "input_grad": c.x, "weight_grad": c.w}[c.kind].dtype
    if c.kind == "input_grad":
        sizes = dict(zip("pq", window.space, strict=True), n=inputs, k=outputs)
        more = tuple(_view(t, inputs) for t in extras)
        return Nest(
            c.kind, {**extents, **sizes}, window, y, weights, image, left, acc, RESULTS[out], out, more
        )
    sizes = dict(zip("pq", window.out, strict=True), n=outputs, k=inputs)
    some = tuple((_filter if c.kind == "weight_grad" else _view)(t, outputs) for t in extras)
    made = Nest(c.kind, {**extents, **sizes}, window, image, weights, y, left, acc, RESULTS[out], out, some)
    return _pointwise(made)


def crop(problem: Problem) -> int:
    """Bytes by which the image's first element lies behind its pointer: negative padding makes it smaller."""
    if isinstance(problem, Product):
        return 0
    lows = [max(0, -low) for low in problem.low]
    strides = problem.x.strides[1 : 1 + len(lows)]
    return sum(low * stride for low, stride in zip(lows, strides, strict=True)) * problem.x.dtype.itemsize


def _two(values: tuple[int, ...], fill: int) -> tuple[int, int]:
    return (fill, values[0]) if len(values) == 1 else (values[0], values[1])


def _window(c: Convolution) -> Window:
    space = [n + min(0, low) + min(0, high)
             for n, low, high in zip(c.x.shape[1:-1], c.low, c.high, strict=True)]  # fmt: skip
    low, high = (tuple(max(0, p) for p in pads) for pads in (c.low, c.high))
    return Window(
        _two(tuple(space), 1), _two(c.y.shape[1:-1], 1), _two(c.w.shape[1:-1], 1), _two(c.stride, 1),
        _two(c.w_dilation, 1), _two(low, 0), _two(high, 0), _two(c.x_dilation, 1),
    )  # fmt: skip


def _view(t: Tensor, channels: int) -> View:
    item = t.dtype.itemsize
    image, *places, channel = (stride * item for stride in t.strides)
    row, column = _two(tuple(places), 0)
    return View(image, row, column, channel, channel * channels, item, t.home)


def _filter(t: Tensor, outputs: int) -> Filter:
    item = t.dtype.itemsize
    output, *taps, channel = (stride * item for stride in t.strides)
    row, column = _two(tuple(taps), 0)
    return Filter(output, row, column, channel, output * outputs, item)


def _pointwise(nest: Nest) -> Nest:
    """A forward convolution of single places: only the places that it sees, as a product if they have one
    stride."""
    w = nest.window
    if nest.kind != "forward" or w.taps != 1 or any(w.low) or any(w.high) or w.spread != (1, 1):
        return nest
    image = replace(nest.image, row=nest.image.row * w.stride[0], column=nest.image.column * w.stride[1])
    seen = replace(w, space=w.out, stride=(1, 1), dilation=(1, 1))
    made, e = replace(nest, image=image, window=seen), nest.extents
    views = [v for v in (image, nest.other, *nest.extras) if isinstance(v, View)]
    rows = [_one_axis(((e["b"], v.image), (e["p"], v.row), (e["q"], v.column))) for v in views]
    if e["g"] > 1 or None in rows:
        return made
    flat = [View(0, row or 0, 0, v.channel, 0, v.item, v.home) for v, row in zip(views, rows, strict=True)]
    return replace(
        made, kind="product", window=POINT, image=flat[0], other=flat[1], extras=tuple(flat[2:]),
        filter=replace(nest.filter, group=0),
        extents={**e, "b": 1, "p": e["b"] * e["p"] * e["q"], "q": 1},
    )  # fmt: skip


def _one_axis(axes: tuple[tuple[int, int], ...]) -> int | None:
    """The stride that describes all axes, outermost first, or None."""
    stride, span = None, 0
    for count, step in reversed(axes):
        if count == 1:
            continue
        if stride is not None and step != span:
            return None
        stride = step if stride is None else stride
        span = step * count
    return 0 if stride is None else stride
