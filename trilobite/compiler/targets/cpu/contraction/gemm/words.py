"""The argument words of a product's kernel: one list, read by the lowering and by the emitted code alike."""

from __future__ import annotations

from dataclasses import dataclass, field

from trilobite.compiler.program.kernels import Operand
from trilobite.compiler.targets.cpu.contraction.gemm.problem import Problem
from trilobite.compiler.targets.cpu.contraction.sizes import Product, product
from trilobite.compiler.targets.cpu.emit.text import Text, Value
from trilobite.ir.types import Dim


@dataclass
class Words:
    """Names and contents of the words, in order. Only names decide the kernel's text."""

    names: list[str] = field(default_factory=list)
    contents: list[Operand | Dim] = field(default_factory=list)

    def buffer(self, name: str, operand: Operand) -> None:
        self.names.append(name)
        self.contents.append(operand)

    def number(self, name: str, value: Product | int) -> None:
        p = value if isinstance(value, Product) else Product(value)
        for part, word in zip(("", "'"), p.words, strict=True):
            self.names.append(name + part)
            self.contents.append(word)

    def read(self, t: Text) -> dict[str, Value]:
        """All words as values, at the start of `entry`."""
        out: dict[str, Value] = {}
        for i, name in enumerate(self.names):
            if name.startswith("*"):
                out[name[1:]] = t.argument(i, "ptr")
            elif name.endswith("'"):
                out[name[:-1]] = t.mul(out[name[:-1]], t.argument(i, "i64"))
            else:
                out[name] = t.argument(i, "i64")
        return out


def words_of(p: Problem, units: int) -> Words:
    """Buffers first; strides are in bytes."""
    w = Words()
    w.buffer("*a", p.a.buffer)
    w.buffer("*b", p.b.buffer)
    for i, _ in enumerate(p.epilogue.results):
        w.buffer(f"*result{i}", Operand("out", i))
    for i, o in enumerate(p.epilogue.operands):
        w.buffer(f"*operand{i}", Operand("in", o.input))
    if p.b.grid:
        w.buffer("*scale", Operand("in", p.b.grid.scale))
        w.buffer("*zero", Operand("in", p.b.grid.zero))
    w.number("units", units)
    for name, size in (("m", p.m), ("n", p.n), ("k", p.k)):
        w.number(name, size)
    for name, side in (("a", p.a), ("b", p.b)):
        w.number(f"{name}_line", side.bytes(side.line))
        w.number(f"{name}_k", side.bytes(side.k))
    for i, axis in enumerate(p.batch):
        w.number(f"batch{i}", axis.size)
        for name, side, stride in (("a", p.a, axis.strides[0]), ("b", p.b, axis.strides[1])):
            w.number(f"{name}_batch{i}", side.bytes(stride))
    for i, o in enumerate(p.epilogue.operands):
        w.number(f"operand{i}_batch", product_of(o.batch_stride))
        w.number(f"operand{i}_row", product_of(o.row_stride))
    return w


def product_of(stride: Product | Dim) -> Product:
    return stride if isinstance(stride, Product) else product([stride])
