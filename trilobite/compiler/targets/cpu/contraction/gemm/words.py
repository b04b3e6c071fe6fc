"""The words of a product's kernel. Sizes and strides are products of symbolic sizes; strides are in bytes."""

from __future__ import annotations

from trilobite.base.records import dataclass
from trilobite.compiler.program.kernels import Operand
from trilobite.compiler.targets.cpu.contraction.gemm.problem import Problem
from trilobite.compiler.targets.cpu.contraction.sizes import Product, product
from trilobite.compiler.targets.cpu.contraction.words import Content, W, Words
from trilobite.ir.types import Dim


@dataclass(frozen=True)
class SideWords(Words[W]):
    """An operand's strides."""

    line: W
    k: W


@dataclass(frozen=True)
class BatchWords(Words[W]):
    """A batch axis: its size, and what it is in A and in B."""

    size: W
    a: W
    b: W


@dataclass(frozen=True)
class StrideWords(Words[W]):
    """An operand of the epilogue, in elements."""

    batch: W
    row: W


@dataclass(frozen=True)
class ProductWords(Words[W]):
    a: W
    b: W
    results: tuple[W, ...]
    operands: tuple[W, ...]
    scale: W | None
    zero: W | None
    units: W
    m: W
    n: W
    k: W
    a_side: SideWords[W]
    b_side: SideWords[W]
    batch: tuple[BatchWords[W], ...]
    strides: tuple[StrideWords[W], ...]


def words_of(p: Problem, units: int) -> ProductWords[Content]:
    e, grid = p.epilogue, p.b.grid
    a, b = (SideWords[Content](side.bytes(side.line), side.bytes(side.k)) for side in (p.a, p.b))
    return ProductWords(
        p.a.buffer, p.b.buffer, tuple(Operand("out", i) for i, _ in enumerate(e.results)),
        tuple(Operand("in", o.input) for o in e.operands),
        Operand("in", grid.scale) if grid else None, Operand("in", grid.zero) if grid else None,
        Product(units), p.m, p.n, p.k, a, b,
        tuple(
            BatchWords(axis.size, *(s.bytes(x) for s, x in zip((p.a, p.b), axis.strides, strict=True)))
            for axis in p.batch
        ),
        tuple(StrideWords(product_of(o.batch_stride), product_of(o.row_stride)) for o in e.operands),
    )  # fmt: skip


def product_of(stride: Product | Dim) -> Product:
    return stride if isinstance(stride, Product) else product([stride])
