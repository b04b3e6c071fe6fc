"""What happens to each element of a product or convolution after its sum: the rest of a fused region.

Enters: a region and its root equation. Leaves: an `Epilogue`, a scalar graph over the sum and operands that
are addressed by batch, row and column; or None where the rest is more than that. `emit_epilogue` is the code
of one vector of a row. It chooses neither tiles nor layouts.

Columns are the last axis of the result (of a dot: the free axes of its second operand; of planes: space),
batches the batch axes of a dot or the images of planes, rows what is between. Reshapes that leave the order
of elements alone are looked through.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from trilobite.base.dtypes import DType, is_float
from trilobite.base.records import dataclass
from trilobite.compiler.targets.cpu.emit.math import FUNCTIONS
from trilobite.compiler.targets.cpu.emit.scalar import emit_scalars, supports
from trilobite.ir.graph import Equation, Graph, Var
from trilobite.ir.primitives.dot import free_axes
from trilobite.ir.types import Dim, Shape, TensorType
from trilobite.native.llvm.text import Index, Text, Value

if TYPE_CHECKING:
    from trilobite.compiler.targets.cpu.contraction.sizes import Product


_SHORT = 12  # equations
_GRIDS = ("quantise", "quantise_product", "requantise", "requantise_single", "dequantise")


@dataclass(frozen=True)
class RowOperand:
    """An input of the region, read at batch·batch_stride + row·row_stride + column·column_stride elements."""

    input: int  # which input of the region; -1: a number of the kernel's own
    dtype: DType
    batch_stride: Dim | Product  # a product where two symbolic sizes are multiplied
    row_stride: Dim | Product
    column_stride: int  # 0 or 1
    table: bool = False  # not an element, but all of them: what is handed on is where they are


@dataclass(frozen=True)
class Epilogue:
    body: Graph  # scalar graph: inputs (the sum, *operands), outputs one per result
    operands: tuple[RowOperand, ...]
    results: tuple[DType, ...]  # every result has the full, row-major shape of the root's

    @property
    def short(self) -> bool:
        """May it stand once for every register of a tile?"""
        return len(self.body.equations) <= _SHORT

    @property
    def light(self) -> bool:
        """Short, and without functions: of those, what stands for every register is a text that takes long to
        compile, and they take so long that sums may as well come from memory.
        """
        return self.short and not any(e.primitive.name in FUNCTIONS for e in self.body.equations)

    def named(self, kernel: str) -> str:
        """The name of a kernel with what follows in it."""
        return "_".join([kernel, *dict.fromkeys(e.primitive.name for e in self.body.equations)][:5])


def numbers_apart(epilogue: Epilogue) -> tuple[Epilogue, tuple[np.ndarray[Any, Any], ...]]:
    """An epilogue that reads floats of its own from memory, behind its other operands, and those floats: a
    mean's divisor, say. Kernels that differ in them alone are one kernel. Zero stays, and so do powers of
    two: dividing by one that is known is multiplying.
    """
    body = epilogue.body
    apart = [e for e in body.equations if _is_apart(e)]
    if not apart:
        return epilogue, ()
    found = tuple(e.outputs[0] for e in apart)
    rest = [e for e in body.equations if e not in apart]
    operands = tuple(RowOperand(-1, v.type.dtype, 0, 0, 0) for v in found)
    moved = Graph((*body.inputs, *found), rest, body.outputs, body.name)
    numbers = tuple(
        np.full((1,), e.attributes["value"], v.type.dtype) for e, v in zip(apart, found, strict=True)
    )
    return Epilogue(moved, (*epilogue.operands, *operands), epilogue.results), numbers


def _is_apart(e: Equation) -> bool:
    if e.primitive.name != "full" or not is_float(e.outputs[0].type.dtype):
        return False
    return abs(math.frexp(e.attributes["value"])[0]) not in (0.0, 0.5)


def epilogue_of(region: Graph, root: Equation) -> Epilogue | None:
    """The region without its root, per element; None where that cannot be said."""
    try:
        return _Splitter(region, root).split()
    except _NotRowwise:
        return None


class _NotRowwise(Exception):
    """Something that is not elementwise along rows and columns."""


@dataclass(frozen=True)
class _Frame:
    """How the axes of a value lie in the result: shape of the result here, and per axis of the value the
    axis of the result, or None where it has size 1 or is the same everywhere.
    """

    shape: Shape
    axes: tuple[int | None, ...]

    @property
    def whole(self) -> bool:
        return self.axes == tuple(range(len(self.shape)))


class _Splitter:
    def __init__(self, region: Graph, root: Equation) -> None:
        self.region, self.root = region, root
        self.made = {v: e for e in region.equations for v in e.outputs}
        self.shape = root.outputs[0].type.shape
        self.batches, self.columns = _groups(root)
        self.sum = Var(TensorType((), root.outputs[0].type.dtype))
        self.operands: dict[RowOperand, Var] = {}
        self.equations: list[Equation] = []
        self.done: dict[tuple[Var, _Frame], Var] = {}

    def split(self) -> Epilogue:
        outputs = [
            self.value(v, _Frame(v.type.shape, tuple(range(v.type.ndim)))) for v in self.region.outputs
        ]
        body = Graph((self.sum, *self.operands.values()), self.equations, outputs, "epilogue")
        results = tuple(v.type.dtype for v in self.region.outputs)
        return Epilogue(body, tuple(self.operands), results)

    def value(self, var: Var, frame: _Frame) -> Var:
        """The scalar that stands for `var`. Chains are short: regions are what one kernel does."""
        if (var, frame) not in self.done:
            self.done[var, frame] = self._value(var, frame)
        return self.done[var, frame]

    def _value(self, var: Var, frame: _Frame) -> Var:
        if var is self.root.outputs[0]:
            if not frame.whole:
                raise _NotRowwise
            return self.sum
        if var not in self.made:
            return self._operand(var, frame)
        e = self.made[var]
        name = e.primitive.name
        if name == "broadcast":
            return self.value(e.inputs[0], _before_broadcast(e, frame))
        if name == "reshape":
            return self.value(e.inputs[0], _before_reshape(e.inputs[0].type.shape, var.type.shape, frame))
        return self._elementwise(e, frame)

    def _operand(self, var: Var, frame: _Frame) -> Var:
        operand = _addressed(self, var, frame)
        if operand not in self.operands:
            self.operands[operand] = Var(TensorType((), var.type.dtype))
        return self.operands[operand]

    def _elementwise(self, e: Equation, frame: _Frame) -> Var:
        dtypes = [v.type.dtype for v in (*e.inputs, *e.outputs)]
        if len(e.outputs) != 1 or not supports(e.primitive, dtypes):
            raise _NotRowwise
        attributes = dict(e.attributes)
        if e.primitive.name == "constant" and e.outputs[0].type.shape != ():
            raise _NotRowwise
        if e.primitive.name == "full":
            attributes["shape"] = ()
        if e.primitive.name == "lookup":
            return self._apply(e, (self.value(e.inputs[0], frame), self._table(e.inputs[1])), attributes)
        frames = [frame] * len(e.inputs)
        if e.primitive.name in _GRIDS:
            axis = attributes["axis"]
            frames[1:] = [_Frame(frame.shape, () if axis is None else (frame.axes[axis],))] * 2
            attributes["axis"] = None
        return self._apply(
            e, tuple(self.value(v, f) for v, f in zip(e.inputs, frames, strict=True)), attributes
        )

    def _table(self, var: Var) -> Var:
        if var in self.made:
            raise _NotRowwise
        operand = RowOperand(self.region.inputs.index(var), var.type.dtype, 0, 0, 0, table=True)
        return self.operands.setdefault(operand, Var(var.type))

    def _apply(self, e: Equation, inputs: tuple[Var, ...], attributes: Mapping[str, Any]) -> Var:
        out = Var(TensorType((), e.outputs[0].type.dtype))
        self.equations.append(Equation(e.primitive, inputs, attributes, (out,), e.location))
        return out


def _groups(root: Equation) -> tuple[int, int]:
    """How many axes of the result are batches, and how many columns."""
    if root.primitive.name == "conv_planes":
        return 1, root.outputs[0].type.ndim - 2
    if root.primitive.name != "dot":
        return 0, 1
    batch, contract = root.attributes["batch"], root.attributes["contract"]
    return len(batch[0]), len(free_axes(root.inputs[1].type.ndim, contract[1], batch[1]))


def _before_broadcast(e: Equation, frame: _Frame) -> _Frame:
    x, y = e.inputs[0].type.shape, e.outputs[0].type.shape
    axes = tuple(
        frame.axes[a] if size == y[a] else None for size, a in zip(x, e.attributes["axes"], strict=True)
    )
    return _Frame(frame.shape, axes)


def _before_reshape(x: Shape, y: Shape, frame: _Frame) -> _Frame:
    """A whole result in another shape stays whole; of anything else only axes of size 1 may come or go."""
    if frame.whole:
        return _Frame(x, tuple(range(len(x))))
    kept = [a for a, size in zip(frame.axes, y, strict=True) if size != 1]
    if [d for d in x if d != 1] != [d for d in y if d != 1]:
        raise _NotRowwise
    rest = iter(kept)
    return _Frame(frame.shape, tuple(None if d == 1 else next(rest) for d in x))


def _addressed(s: _Splitter, var: Var, frame: _Frame) -> RowOperand:
    if frame.whole:  # in whatever shape: element for element, as the root's own result
        frame = _Frame(s.shape, tuple(range(len(s.shape))))
    ends = len(s.shape) - s.columns
    columns = len(frame.shape) - s.columns
    if frame.shape[: s.batches] != s.shape[: s.batches] or frame.shape[columns:] != s.shape[ends:]:
        raise _NotRowwise
    shape = s.shape if frame.whole else var.type.shape
    place = {axis: i for i, axis in enumerate(frame.axes) if axis is not None and shape[i] != 1}
    batch, row, column = (
        _one_stride([place.get(a) for a in axes if frame.shape[a] != 1], shape)
        for axes in (range(s.batches), range(s.batches, columns), range(columns, len(frame.shape)))
    )
    if column not in (0, 1):
        raise _NotRowwise
    return RowOperand(s.region.inputs.index(var), var.type.dtype, batch, row, 1 if column == 1 else 0)


def _one_stride(places: Sequence[int | None], shape: Shape) -> Dim | Product:
    """The stride of several axes counted as one, given where they are among the operand's own axes: all
    nowhere, or one behind the other (but for axes of size 1).
    """
    if all(p is None for p in places):
        return 0
    own = [p for p in places if p is not None]
    between = [i for i in range(own[0], own[-1] + 1) if shape[i] != 1]
    if len(own) != len(places) or own != between:
        raise _NotRowwise
    return _size(shape[own[-1] + 1 :])


def _size(dims: Shape) -> Dim | Product:
    from trilobite.compiler.targets.cpu.contraction.sizes import (
        product,  # that room's door leads back to this module
    )

    found = product(dims)
    if not found.fits:
        raise _NotRowwise
    return found if len(found.symbolic) > 1 else found.words[0]


# -- code --------------------------------------------------------------------------------------------------


def emit_epilogue(
    text: Text,
    epilogue: Epilogue,
    total: Value,
    operands: Sequence[Value],
    results: Sequence[Value],
    column: Index,
    lanes: int,
    count: Index | None = None,
) -> None:
    """One vector of a row: load the operands, run the body on the sum, store every result.

    `operands` and `results` point to column 0 of this row; `column` is the vector's first. Of its lanes
    only the first `count` exist (None: all).
    """
    values = [total]
    for o, row in zip(epilogue.operands, operands, strict=True):
        if o.table:
            values.append(row)
        elif o.column_stride:
            values.append(text.load_partial(o.dtype, text.address(row, column, o.dtype), count, lanes))
        else:
            values.append(text.load_splat(o.dtype, row, lanes))
    found = emit_scalars(text, epilogue.body, values, lanes, unrounded=epilogue.body.inputs[:1])
    for dtype, value, row in zip(epilogue.results, found, results, strict=True):
        text.store_partial(dtype, value, text.address(row, column, dtype), count)
