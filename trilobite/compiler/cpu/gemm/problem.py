"""A region as a matrix product: which buffers, which sizes and strides, what happens to each element after.

Enters: the region of a fusion: one `dot` (or `dot_packed`), transposes of its operands, an epilogue.
Leaves: a `Problem`. It emits no code.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from trilobite.base.dtypes import DType
from trilobite.compiler.cpu.epilogue import Epilogue, epilogue_of
from trilobite.compiler.cpu.gemm.convert import refused
from trilobite.compiler.cpu.gemm.sizes import ONE, Axis, Product, collapse, product, row_major
from trilobite.ir.graph import Equation, Graph, Var
from trilobite.ir.primitives.dot import free_axes
from trilobite.ir.types import Dim


@dataclass(frozen=True)
class Side:
    """One operand: an input of the region, its lines (rows of A, columns of B) and k. Strides in elements."""

    input: int
    dtype: DType
    line: Product
    k: Product


@dataclass(frozen=True)
class Problem:
    m: Product
    n: Product
    k: Product
    batch: tuple[Axis, ...]  # strides of A and of B
    a: Side
    b: Side
    dtype: DType  # of the product
    epilogue: Epilogue
    packed: bool = False  # B is the value of gemm_pack

    @property
    def batches(self) -> Product:
        out = ONE
        for axis in self.batch:
            out = out * axis.size
        return out


def transposed(p: Problem) -> Problem | None:
    """A product with one column as one with one row; None where it is no such product."""
    operands = p.epilogue.operands
    if p.n != ONE or p.packed or any(o.row_stride not in (0, 1) for o in operands):
        return None
    turned = tuple(replace(o, row_stride=0, column_stride=1 if o.row_stride == 1 else 0) for o in operands)
    batch = tuple(Axis(axis.size, axis.strides[::-1]) for axis in p.batch)
    return replace(p, m=p.n, n=p.m, a=p.b, b=p.a, batch=batch, epilogue=replace(p.epilogue, operands=turned))


ROOTS = ("dot", "dot_packed", "gemm_pack")


class Refused(Exception):
    """A region that is no matrix product of this room, and why."""


def problem_of(region: Graph) -> Problem:
    root = root_of(region)
    x, y = (Operand(region, v) for v in root.inputs)
    dtype: DType = root.attributes["dtype"]
    why = refused(x.dtype, dtype)
    if why:
        raise Refused(why)
    epilogue = epilogue_of(region, root)
    if epilogue is None:
        raise Refused("what follows the product is not elementwise along its rows and columns")
    if root.primitive.name == "dot_packed":
        return _packed(root, x, y, dtype, epilogue)
    contract, batch = root.attributes["contract"], root.attributes["batch"]
    free = [free_axes(len(o.shape), c, b) for o, c, b in zip((x, y), contract, batch, strict=True)]
    together = [
        Axis(product([x.shape[i]]), (x.strides[i], y.strides[j])) for i, j in zip(*batch, strict=True)
    ]
    inner = collapse(
        [Axis(product([x.shape[i]]), (x.strides[i], y.strides[j])) for i, j in zip(*contract, strict=True)]
    )
    k = _single(inner, 2, "contracted")
    m, n = (
        _single(collapse([Axis(product([o.shape[i]]), (o.strides[i],)) for i in axes]), 1, "free")
        for o, axes in zip((x, y), free, strict=True)
    )
    return _checked(
        Problem(
            m.size, n.size, k.size, tuple(collapse(together)),
            Side(x.input, x.dtype, m.strides[0], k.strides[0]),
            Side(y.input, y.dtype, n.strides[0], k.strides[1]),
            dtype, epilogue,
        )
    )  # fmt: skip


def _packed(root: Equation, x: Operand, y: Operand, dtype: DType, epilogue: Epilogue) -> Problem:
    rows = collapse([Axis(product([d]), (s,)) for d, s in zip(x.shape[:-1], x.strides[:-1], strict=True)])
    m = _single(rows, 1, "free")
    k = product(x.shape[-1:])
    a = Side(x.input, x.dtype, m.strides[0], x.strides[-1])
    b = Side(y.input, y.dtype, ONE, product(y.shape[2:]))
    n = product([root.attributes["columns"]])
    return _checked(Problem(m.size, n, k, (), a, b, dtype, epilogue, packed=True))


def _checked(p: Problem) -> Problem:
    words = [p.m, p.n, p.k, p.a.line, p.a.k, p.b.line, p.b.k]
    for axis in p.batch:
        words += [axis.size, *axis.strides]
    if not all(w.fits for w in words):
        raise Refused("a size is the product of more than two symbolic sizes")
    return p


def _single(axes: Sequence[Axis], buffers: int, what: str) -> Axis:
    if len(axes) > 1:
        raise Refused(f"the {what} axes do not lie one behind the other in memory")
    return axes[0] if axes else Axis(ONE, (ONE,) * buffers)


def root_of(region: Graph) -> Equation:
    found = [e for e in region.equations if e.primitive.name in ROOTS]
    if len(found) != 1:
        raise Refused(f"{len(found)} products in one region")
    return found[0]


class Operand:
    """An input of the region as the product sees it, through transposes and reshapes before it."""

    def __init__(self, region: Graph, value: Var) -> None:
        made = {v: e for e in region.equations for v in e.outputs}
        self.dtype = value.type.dtype
        chain: list[Equation] = []
        while value in made:
            if made[value].primitive.name != "transpose":
                raise Refused(f"{made[value].primitive.name} before the product")
            chain.append(made[value])
            value = chain[-1].inputs[0]
        self.input = region.inputs.index(value)
        self.shape: list[Dim] = list(value.type.shape)
        self.strides = row_major(self.shape)
        for e in reversed(chain):
            axes = e.attributes["axes"]
            self.shape, self.strides = ([v[i] for i in axes] for v in (self.shape, self.strides))
