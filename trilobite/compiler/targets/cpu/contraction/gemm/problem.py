"""A region as a matrix product: which buffers, which sizes and strides, what happens to each element after.

Enters: the region of a fusion: one `dot` (or `dot_packed`), transposes of its operands, an epilogue.
Leaves: a `Problem`. It emits no code.
"""

from __future__ import annotations

from dataclasses import replace

from trilobite.base.dtypes import DType, int32
from trilobite.base.records import dataclass
from trilobite.compiler.program.kernels import Operand as Buffer
from trilobite.compiler.targets.cpu.contraction.convert import NARROW, accumulator_of, refused
from trilobite.compiler.targets.cpu.contraction.gemm.operands import (
    Along,
    Copy,
    Grid,
    Operand,
    Refused,
    single,
)
from trilobite.compiler.targets.cpu.contraction.sizes import ONE, Axis, Product, collapse, product
from trilobite.compiler.targets.cpu.epilogue import Epilogue, epilogue_of
from trilobite.ir.graph import Equation, Graph
from trilobite.ir.primitives.dot import free_axes

ROOTS = ("dot", "dot_packed", "dot_quantised", "gemm_pack")
Axes = tuple[tuple[int, ...], tuple[int, ...]]


@dataclass(frozen=True)
class Side:
    """One operand: its lines (rows of A, columns of B) and k. Strides in elements."""

    buffer: Buffer
    dtype: DType  # in memory
    line: Product
    k: Product
    grid: Grid | None = None
    along: Along = "all"  # what the grid's scales run along
    nibbles: bool = False  # two elements to a byte

    def bytes(self, stride: Product) -> Product:
        """A stride in bytes; 0 for the axis along which elements are halves of bytes."""
        if self.nibbles:
            return Product(0 if stride == ONE else stride.number // 2, stride.symbolic)
        return stride * Product(self.dtype.itemsize)


@dataclass(frozen=True)
class Problem:
    m: Product
    n: Product
    k: Product
    batch: tuple[Axis, ...]  # strides of A and of B
    a: Side
    b: Side
    multiplied: DType  # what the operands are to the product
    dtype: DType  # of the product
    epilogue: Epilogue
    packed: bool = False  # B is the value of gemm_pack
    copies: tuple[Copy, ...] = ()  # temporaries to be filled before

    @property
    def accumulator(self) -> DType:
        return accumulator_of(self.multiplied, self.dtype)

    @property
    def pairs(self) -> bool:
        """Whether products are added two by two: both operands are integers that 16 bits hold."""
        narrow = all(side.dtype in NARROW and not side.grid for side in (self.a, self.b))
        return narrow and self.accumulator == int32

    @property
    def batches(self) -> Product:
        out = ONE
        for axis in self.batch:
            out = out * axis.size
        return out


def transposed(p: Problem) -> Problem | None:
    """A product with one column as one with one row; None where it is no such product."""
    operands = p.epilogue.operands
    if p.n != ONE or p.packed or p.b.grid or any(o.row_stride not in (0, 1) for o in operands):
        return None
    turned = tuple(replace(o, row_stride=0, column_stride=1 if o.row_stride == 1 else 0) for o in operands)
    batch = tuple(Axis(axis.size, axis.strides[::-1]) for axis in p.batch)
    return replace(p, m=p.n, n=p.m, a=p.b, b=p.a, batch=batch, epilogue=replace(p.epilogue, operands=turned))


def root_of(region: Graph) -> Equation:
    found = [e for e in region.equations if e.primitive.name in ROOTS]
    if len(found) != 1:
        raise Refused(f"{len(found)} products in one region")
    return found[0]


def problem_of(region: Graph) -> Problem:
    root = root_of(region)
    x, y = (Operand(region, v) for v in root.inputs[:2])
    if root.primitive.name == "dot_quantised":
        y.put_on_grid(root)
    why = refused(x.multiplied, root.attributes["dtype"])
    if why:
        raise Refused(why)
    if x.grid:
        raise Refused("a quantised first operand")
    epilogue = epilogue_of(region, root)
    if epilogue is None:
        raise Refused("what follows the product is not elementwise along its rows and columns")
    if root.primitive.name == "dot_packed":
        return _checked(_packed(root, x, y, epilogue))
    return _checked(_general(root, x, y, epilogue))


def _axes(root: Equation) -> tuple[Axes, Axes]:
    """Contracted and batch axes."""
    contract = root.attributes["contract"]
    if root.primitive.name == "dot":
        return contract, root.attributes["batch"]
    return ((root.inputs[0].type.ndim - 1,), (contract,)), ((), ())


def _general(root: Equation, x: Operand, y: Operand, epilogue: Epilogue) -> Problem:
    contract, batch = _axes(root)
    free = [free_axes(len(o.shape), c, b) for o, c, b in zip((x, y), contract, batch, strict=True)]

    def together(axes: Axes) -> list[Axis]:
        return collapse(
            [Axis(product([x.shape[i]]), (x.strides[i], y.strides[j])) for i, j in zip(*axes, strict=True)]
        )

    for side, o in enumerate((x, y)):
        lines, depth = collapse(o.axes(free[side])), collapse(o.axes(contract[side]))
        if len(lines) > 1 or len(depth) > 1:
            o.made_contiguous((*batch[side], *free[side], *contract[side]), int(side and x.copy is not None))
    k = single(together(contract), 2)
    m, n = (single(collapse(o.axes(axes)), 1) for o, axes in zip((x, y), free, strict=True))
    if k is None or m is None or n is None:
        raise Refused("axes that do not lie one behind the other in memory")
    return Problem(
        m.size, n.size, k.size, tuple(together(batch)),
        Side(x.buffer, x.dtype, m.strides[0], k.strides[0]),
        Side(y.buffer, y.dtype, n.strides[0], k.strides[1], y.grid, y.along(free[1], contract[1]), y.nibbles),
        x.multiplied, root.attributes["dtype"], epilogue,
        copies=tuple(o.copy for o in (x, y) if o.copy),
    )  # fmt: skip


def _packed(root: Equation, x: Operand, y: Operand, epilogue: Epilogue) -> Problem:
    rows = range(len(x.shape) - 1)
    if len(collapse(x.axes(rows))) > 1:
        x.made_contiguous(range(len(x.shape)), 0)
    m = single(collapse(x.axes(rows)), 1)
    if m is None or y.grid:
        raise Refused("axes that do not lie one behind the other in memory")
    k, n = product(x.shape[-1:]), product([root.attributes["columns"]])
    a = Side(x.buffer, x.dtype, m.strides[0], x.strides[-1])
    b = Side(y.buffer, y.dtype, ONE, product(y.shape[2:]))
    copies = (x.copy,) if x.copy else ()
    dtype = root.attributes["dtype"]
    return Problem(m.size, n, k, (), a, b, x.multiplied, dtype, epilogue, packed=True, copies=copies)


def _checked(p: Problem) -> Problem:
    words = [p.m, p.n, p.k, p.a.line, p.a.k, p.b.line, p.b.k]
    for axis in (*p.batch, *(a for c in p.copies for a in c.axes)):
        words += [axis.size, *axis.strides]
    if not all(w.fits for w in words):
        raise Refused("a size is the product of more than two symbolic sizes")
    return p
