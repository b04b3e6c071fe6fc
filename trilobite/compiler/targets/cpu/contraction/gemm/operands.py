"""The operands of a product as it sees them: inputs of the region behind transposes, casts that widen and a
dequantisation.

Enters: a region and the value that a product reads. Leaves: an `Operand`: which input, shape and strides in
the product's order of axes, and the grid if the input is quantised. It emits no code.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from trilobite.base.dtypes import DType, float32, int32
from trilobite.base.errors import IRError
from trilobite.base.records import dataclass
from trilobite.compiler.program.kernels import Operand as Buffer
from trilobite.compiler.targets.cpu.contraction.convert import widens
from trilobite.compiler.targets.cpu.contraction.sizes import ONE, Axis, Product, collapse, product, row_major
from trilobite.ir.graph import Equation, Graph, Var
from trilobite.ir.types import Dim

Along = Literal["all", "line", "k"]


class Refused(IRError):
    """A region that is no matrix product of this room, and why."""


@dataclass(frozen=True)
class Grid:
    """A quantised operand's scale and zero point: one for all, one per line or one per k."""

    scale: int  # which input of the region
    zero: int
    axis: int | None  # of the product's order of axes


@dataclass(frozen=True)
class Copy:
    """An operand whose axes do not collapse, made contiguous in the product's order before the product."""

    input: int
    dtype: DType
    axes: tuple[Axis, ...]
    bytes: Dim


class Operand:
    """An input of the region as the product sees it."""

    def __init__(self, region: Graph, value: Var) -> None:
        self.region = region
        self.made = {v: e for e in region.equations for v in e.outputs}
        self.multiplied = value.type.dtype  # what the product takes its elements for
        self.grid: Grid | None = None
        self.copy: Copy | None = None
        axes = list(range(value.type.ndim))  # axis i of the product is axis axes[i] of `value`
        while value in self.made:
            e = self.made[value]
            if e.primitive.name == "transpose":
                axes = [e.attributes["axes"][a] for a in axes]
            elif e.primitive.name == "dequantise" and self.grid is None:
                self.grid = self._grid(e, axes)
            elif e.primitive.name == "nibble_unpack" and self.grid and e.inputs[0] not in self.made:
                break
            elif not (e.primitive.name == "cast" and _widens(e)) or self.grid:
                raise Refused(f"{e.primitive.name} before the product")
            value = e.inputs[0]
        self.dtype = value.type.dtype
        self.nibbles = value in self.made  # two to a byte
        source = self.made[value].inputs[0] if self.nibbles else value
        self.input = region.inputs.index(source)
        self.buffer = Buffer("in", self.input)
        strides = row_major(value.type.shape)
        if self.nibbles:
            strides = row_major((*source.type.shape[:-1], 2 * source.type.shape[-1]))
        self.shape: list[Dim] = [value.type.shape[a] for a in axes]
        self.strides = [strides[a] for a in axes]

    def _grid(self, e: Equation, axes: Sequence[int]) -> Grid:
        _, scale, zero = e.inputs
        if scale in self.made or zero in self.made:
            raise Refused("scales that are computed in the same region")
        _check_grid(scale, zero)
        axis = e.attributes["axis"]
        inputs = self.region.inputs
        place = None if axis is None else axes.index(axis)
        return Grid(inputs.index(scale), inputs.index(zero), place)

    def put_on_grid(self, root: Equation) -> None:
        """The second operand of `dot_quantised`, as if it were dequantised before."""
        if self.grid or self.nibbles or any(v in self.made for v in root.inputs[2:]):
            raise Refused("scales that are computed in the same region")
        scale, zero = root.inputs[2:]
        _check_grid(scale, zero)
        inputs = self.region.inputs
        self.grid = Grid(inputs.index(scale), inputs.index(zero), root.attributes["axis"])
        columns = root.attributes["columns"]
        if columns is not None:
            self.nibbles, self.dtype = True, zero.type.dtype
            self.strides = row_major((self.shape[0], 2 * self.shape[1]))
            self.shape = [self.shape[0], columns]

    def axes(self, which: Sequence[int]) -> list[Axis]:
        return [Axis(product([self.shape[i]]), (self.strides[i],)) for i in which]

    def along(self, line: Sequence[int], k: Sequence[int]) -> Along:
        """What the grid runs along, given the axes that make up lines and k."""
        if self.grid is None or self.grid.axis is None:
            return "all"
        for name, group in (("line", line), ("k", k)):
            others = [self.shape[i] for i in group if i != self.grid.axis]
            if self.grid.axis in group and product(others) == ONE:
                return "line" if name == "line" else "k"
        raise Refused("scales along an axis that is neither lines nor k alone")

    def made_contiguous(self, order: Sequence[int], temporary: int) -> None:
        """Read a copy instead, in this order of axes."""
        if self.grid is not None:
            raise Refused("a quantised operand whose axes do not lie one behind the other")
        whole = product(self.shape) * Product(self.dtype.itemsize)
        size, other = whole.words
        if other != 1 or not whole.fits:
            raise Refused("an operand whose size is the product of symbolic sizes would have to be copied")
        self.copy = Copy(self.input, self.dtype, tuple(collapse(self.axes(order))), size)
        self.buffer = Buffer("temporary", temporary)
        strides = row_major([self.shape[i] for i in order])
        self.strides = [strides[order.index(i)] for i in range(len(order))]


def _widens(e: Equation) -> bool:
    return widens(e.inputs[0].type.dtype, e.outputs[0].type.dtype)


def _check_grid(scale: Var, zero: Var) -> None:
    if scale.type.dtype != float32:
        raise Refused(f"scales that are {scale.type.dtype}")
    if zero.type.dtype == int32:
        raise Refused("numbers on a grid of 32 bits, which float32 does not hold")


def single(axes: Sequence[Axis], buffers: int) -> Axis | None:
    """Axes as one; None if they are several."""
    if len(axes) > 1:
        return None
    return axes[0] if axes else Axis(ONE, (ONE,) * buffers)
