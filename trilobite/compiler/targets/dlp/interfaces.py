"""What the rooms of this target agree on: tensors in device memory, problems, epilogues, lowered groups.

**Memory.** Every value of a program lies in device DRAM as a strided array of whole bytes: bool as u8 0 or 1,
4-bit formats one value a byte, complex as pairs (real, imaginary). Strides count elements; 0 repeats.

**Functions.** A group becomes functions of one `KernelModule`. The function that the network's entry calls
takes one `ptr.gdram` for each operand, then one for each result, then one for scratch memory if it asks for
any (`scratch` bytes), and gives nothing back. All cores of the launch call it (`taskId` of `taskDim`, which
is `cores`); it divides the work itself. It may fill all of NRAM, WRAM, ACC and SRAM with buffers of its own:
nothing of them lives from one call to the next. When it returns, its last copies may still be under way.
All cores meet between two calls, for one reads or overwrites what another core has written in the other: the
caller sees to it, unless the group `meets` by itself, behind scalar work that needs nothing of memory.

Names of functions are made unique by the caller's `name`. Equal problems get one function: pointers are
parameters for that reason. Nothing here decides anything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, Literal, Protocol

from trilobite.base.dtypes import DType
from trilobite.processor.lang.builder import Builder
from trilobite.processor.lang.ir import Value


@dataclass(frozen=True)
class Home:
    """Where on chip a tensor lies from one group to the next: whole in one memory, or cut into parts of
    `part` bytes, one in the SRAM of each cluster, in order. All lie equally far from where theirs begins.

    `blocks`: an image whose rows and columns are cut into so many parts each; every core has one block, all
    its channels, in its own NRAM. Clusters have rows of blocks. Strides are those within a block."""

    space: Literal["nram", "sram"]
    clusters: int = 1
    part: int = 0
    blocks: tuple[int, int] | None = None


@dataclass(frozen=True)
class Tensor:
    """A tensor in device memory, or at home on chip: extents and strides of its axes, in elements."""

    shape: tuple[int, ...]
    dtype: DType
    strides: tuple[int, ...]
    home: Home | None = None

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def bytes(self) -> int:
        """From its first byte to its last; what is repeated counts once."""
        reach = sum((n - 1) * s for n, s in zip(self.shape, self.strides, strict=True))
        return (reach + 1) * self.dtype.itemsize if self.size else 0


def row_major(shape: Sequence[int], dtype: DType) -> Tensor:
    """A contiguous tensor."""
    strides = tuple(prod(shape[place + 1 :]) for place in range(len(shape)))
    return Tensor(tuple(shape), dtype, strides)


@dataclass(frozen=True)
class Place:
    """Where a value begins: a byte of the program's arena, of the block that was loaded with the program, of
    what argument number `index` points at, or of memories that keep values on chip, whole or in blocks."""

    space: Literal["arena", "kept", "argument", "nram", "sram"]
    index: int = 0
    offset: int = 0


# -- contractions --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Product:
    """out[b, m, n] = sum over k of x[b, m, k] y[b, k, n]; axes of the tensors stand in this order, whatever
    their strides. Sums are kept in `accumulate`. An axis that was several axes of the graph is one here only
    if one stride describes it: the caller copies operands for which that is not so.
    """

    x: Tensor
    y: Tensor
    out: Tensor
    accumulate: DType

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """b, m, n, k"""
        b, m, k = self.x.shape
        return b, m, self.y.shape[2], k


@dataclass(frozen=True)
class Convolution:
    """One of the three views of sum x[n, p stride + r w_dilation - low, c] w[k, r, c] y[n, p, k].

    Axes stand channels last, whatever their strides: x[n, *space, c], w[k, *kernel, c / groups], y[n, *out,
    k]. `forward` gives y, `input_grad` x, `weight_grad` w. `x_dilation` spreads x by zeros.
    """

    kind: Literal["forward", "input_grad", "weight_grad"]
    x: Tensor
    w: Tensor
    y: Tensor
    stride: tuple[int, ...]
    low: tuple[int, ...]
    high: tuple[int, ...]
    x_dilation: tuple[int, ...]
    w_dilation: tuple[int, ...]
    groups: int
    accumulate: DType


Problem = Product | Convolution


# -- epilogues -----------------------------------------------------------------------------------------------


class VectorBody(Protocol):
    """A chain of elementwise equations on tiles in NRAM: written by the elementwise room, called by whoever
    has the tiles. Everything is contiguous; a tile has `count` elements (a number or an i64 value).
    """

    inputs: Sequence[DType]  # of its operands, the accumulated tile first
    outputs: Sequence[DType]
    fixed_bytes: int  # of NRAM that its instructions fill with tables, whatever the tile
    lane_bytes: int  # of an element that pass the vector unit's lanes
    instructions: int

    def scratch_bytes(self, count: int) -> int:
        """NRAM that it needs beside operands and results for tiles of up to `count` elements."""

    def emit(
        self,
        builder: Builder,
        inputs: Sequence[Value],
        outputs: Sequence[Value],
        count: int | Value,
        scratch: Value,
        most: int,
    ) -> None:
        """Instructions from operands to results, all pointers into NRAM; `most` bounds the count. Results may
        lie where operands lie if both have the same element size and no later step reads that operand.
        """


@dataclass(frozen=True)
class Epilogue:
    """What happens to the accumulated result before it is stored. `operands` have the axes of the problem's
    result, with stride 0 where they repeat (a bias: stride 0 but for the last axis). The body sees tiles of
    the result's axes in row-major order; operands that repeat are spread by the caller of the body, except
    that the unit's drain may take over `drain`: the whole, or the beginning of the chain up to a value of
    dtype `drained`; then `rest` goes on from there with the operands of these numbers.
    """

    operands: tuple[Tensor, ...]
    results: tuple[Tensor, ...]
    body: VectorBody
    drain: Mapping[str, Any] = field(default_factory=dict)  # bias, scale, activation: operand number or name
    drained: DType | None = None  # of what leaves the drain; None: of the result
    rest: VectorBody | None = None
    rest_operands: tuple[int, ...] = ()


# -- lowered groups ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cost:
    """Predicted for the whole launch: cycles, and what bounds them."""

    cycles: int
    bound: str = ""
    bytes: int = 0
    macs: int = 0


@dataclass(frozen=True)
class LoweredGroup:
    """What a group became. `function` is the one that the entry calls."""

    function: str
    unit: Literal["matrix", "vector", "scalar", "dma"]
    cost: Cost | None = None
    mapping: str = ""  # one line for people; the contraction room's own text
    scratch: int = 0  # bytes of device memory that it wants as its last parameter
    meets: bool = False  # it begins with what makes earlier groups' results good for all cores
    why: str = ""


# The contraction room offers, in `contraction/__init__.py`:
#
#   lower_contraction(module: KernelModule, name: str, problem: Problem, epilogue: Epilogue | None,
#                     machine: Machine, cores: int) -> LoweredGroup
#       operands in the order of the view (Product: x y; forward: x w; input_grad: y w; weight_grad: x y),
#       then the epilogue's operands; results: the problem's result, or the epilogue's if there is one.
#
#   accepts(problem: Problem, machine: Machine) -> str | None
#       None, or why the matrix unit cannot run it (then the caller lowers it to vector code).
#
#   preferred(problem: Problem, machine: Machine) -> Problem
#       the same problem with the strides it would like best; the caller may follow when it decides layouts.

__all__ = [
    "Convolution",
    "Cost",
    "Epilogue",
    "Home",
    "LoweredGroup",
    "Place",
    "Problem",
    "Product",
    "Tensor",
    "VectorBody",
    "row_major",
]
