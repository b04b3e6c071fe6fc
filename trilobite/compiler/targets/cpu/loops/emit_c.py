"""A nest as C, for reading: the same loops, one line per value.

Enters: a nest. Leaves: the text of a C function, called as the native kernel is (words of arguments, a range
of units, scratch memory), or of a file with it. Vectors and unrolling are left to the C compiler: they are
how a loop runs, not what it computes. Compile with `-ffp-contract=off -lm` to get the roundings that are
written.
"""

from __future__ import annotations

import re

import numpy as np

from trilobite.base.dtypes import DType, int64, is_float
from trilobite.compiler.targets.cpu.loops import c_scalars as c
from trilobite.compiler.targets.cpu.loops.combine import scalar_graph
from trilobite.compiler.targets.cpu.loops.emit_llvm import local_offsets
from trilobite.compiler.targets.cpu.loops.index import Atom, Index, Indirect, Quotient, factors
from trilobite.compiler.targets.cpu.loops.ir import (
    Buffer,
    Leaf,
    Load,
    Loop,
    Micro,
    Nest,
    Node,
    Position,
    Statement,
    statements,
)
from trilobite.ir.graph import Var
from trilobite.ir.types import Affine, Dim, Symbol


def c_function(nest: Nest, name: str = "entry") -> str:
    """The function alone; a file around it needs `c_scalars.PRELUDE`."""
    return _Function(nest, name).text()


class _Function:
    def __init__(self, nest: Nest, name: str) -> None:
        self.nest, self.name = nest, name
        self.buffers = {b.name: b for b in nest.buffers}
        self.lines: list[str] = []
        self.count = 0

    def text(self) -> str:
        head = [f"void {self.name}(const int64_t *args, int64_t begin, int64_t end, char *scratch) {{"]
        for i, b in enumerate(self.nest.arguments):
            word = c.memory_word(b.dtype)
            const = "" if self._is_written(b.name) else "const "
            head.append(f"    {const}{word} *{b.name} = ({const}{word} *)args[{i}];")
        for i, s in enumerate(self.nest.symbols, start=len(self.nest.arguments)):
            head.append(f"    const int64_t {s.name} = args[{i}];")
        for s in self.nest.sizes:
            pair = factors(s)
            if pair is not None:
                head.append(f"    const int64_t {_name(s)} = {self.size(pair[0])} * {self.size(pair[1])};")
        for name, offset in local_offsets(self.nest)[0].items():
            word = c.memory_word(self.buffers[name].dtype)
            head.append(f"    {word} *{name} = ({word} *)(scratch + {offset});")
        unused = ["args", "begin", "end", "scratch", *map(_name, self.nest.sizes)]
        head.append(f"    {', '.join(f'(void){name}' for name in unused)};")
        if self.nest.unless_same is not None:
            first, second = self.nest.unless_same
            head.append(f"    if ((const void *){first} == (const void *){second}) return;")
        self._nodes(self.nest.body, 1)
        return "\n".join([*head, *self.lines, "}", ""])

    def _is_written(self, name: str) -> bool:
        return any(t.buffer == name for s in statements(self.nest.body) for t in s.targets)

    # -- loops ---------------------------------------------------------------------------------------------

    def _nodes(self, nodes: tuple[Node, ...], depth: int) -> None:
        for node in nodes:
            if isinstance(node, Statement):
                self._block(node, depth, alone=len(nodes) == 1)
            elif isinstance(node, Micro):
                self._line(depth, f"/* {node.kernel} */")
                self._nodes(node.meaning, depth)
            else:
                self._loop(node, depth)

    def _line(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def _loop(self, node: Loop, depth: int) -> None:
        v = node.var
        if node.kind == "parallel":
            self._line(depth, f"for (int64_t {v} = begin; {v} < end; {v}++) {{ /* units */")
        else:
            ends = " && ".join(f"{v} < {self.index(e)}" for e in node.extent)
            note = f" /* {node.lanes} lanes */" if node.kind == "vector" else ""
            self._line(depth, f"for (int64_t {v} = {self._start(node)}; {ends}; {v}++) {{{note}")
        self._nodes(node.body, depth + 1)
        self._line(depth, "}")

    def _start(self, node: Loop) -> str:
        out = "0"
        for each in node.start:
            word = self.index(each)
            out = f"({word} > {out} ? {word} : {out})"
        return out

    # -- indices -------------------------------------------------------------------------------------------

    def size(self, d: Dim) -> str:
        if not isinstance(d, Affine):
            return str(d)
        parts = [f"{k} * {_name(s)}" if k != 1 else _name(s) for s, k in d.terms]
        return f"({' + '.join([*parts, str(d.constant)] if d.constant else parts)})"

    def index(self, index: Index) -> str:
        parts = [self._term(atom, k) for atom, k in index.terms]
        if not parts or index.constant != 0:
            parts.append(self.size(index.constant))
        return f"{' + '.join(parts)}".replace("+ -", "- ")

    def _term(self, atom: Atom, k: Dim) -> str:
        word = self._atom(atom)
        sign = {1: "", -1: "-"}.get(k) if isinstance(k, int) else None
        return f"{self.size(k)} * {word}" if sign is None else sign + word

    def _atom(self, atom: Atom) -> str:
        if isinstance(atom, str):
            return atom
        if isinstance(atom, Indirect):
            low, high = self.size(atom.low), self.size(atom.high)
            place = self.load(atom.load)
            wide = "uint64_t" if self.buffers[atom.load.buffer].dtype == np.uint64 else "int64_t"
            above = f"({wide}){place} > ({wide})({high})"
            return f"({above} ? {high} : ({wide}){place} < {low} ? {low} : (int64_t){place})"
        sign = "/" if isinstance(atom, Quotient) else "%"
        return f"(({self.index(atom.index)}) {sign} {self.size(atom.by)})"

    def place(self, buffer: Buffer, index: tuple[Index, ...]) -> str:
        return f"{buffer.name}[{self.index(buffer.flat(index))}]"

    def _guards(self, guards: tuple[Index, ...]) -> str:
        return " && ".join(f"{self.index(g)} >= 0" for g in guards)

    def load(self, load: Load) -> str:
        buffer = self.buffers[load.buffer]
        word = c.read(buffer.dtype, self.place(buffer, load.index))
        if not load.guards:
            return word
        fill = c.number(_held(load.fill, buffer.dtype), buffer.dtype)
        return f"({self._guards(load.guards)} ? {word} : {fill})"

    # -- statements ----------------------------------------------------------------------------------------

    def _leaf(self, leaf: Leaf) -> str:
        if isinstance(leaf, Load):
            return self.load(leaf)
        if isinstance(leaf, Position):
            return c.cast(f"(int64_t)({self.index(leaf.index)})", int64, leaf.dtype)
        return self._guards(leaf.guards)

    def _value(self, dtype: DType, word: str, depth: int) -> str:
        name = f"v{self.count}"
        self.count += 1
        self._line(depth, f"const {c.register_word(dtype)} {name} = {word};")
        return name

    def _block(self, s: Statement, depth: int, alone: bool) -> None:
        """A statement in braces of its own, unless those of a loop around it do."""
        if alone and depth > 1:
            self._statement(s, depth)
            return
        self._line(depth, "{")
        self._statement(s, depth + 1)
        self._line(depth, "}")

    def _statement(self, s: Statement, depth: int) -> None:
        words: dict[Var, str] = {}
        for leaf, v in zip(s.leaves, s.body.inputs, strict=True):
            words[v] = self._value(v.type.dtype, self._leaf(leaf), depth)
        for e in s.body.equations:
            out = e.outputs[0]
            words[out] = self._value(out.type.dtype, c.expression(e, [words[v] for v in e.inputs]), depth)
        for t, v in zip(s.targets, s.body.outputs, strict=True):
            buffer = self.buffers[t.buffer]
            at, word = self.place(buffer, t.index), words[v]
            if t.combine is not None:
                (e,) = scalar_graph(t.combine, buffer.dtype).equations
                there = self._value(buffer.dtype, c.read(buffer.dtype, at), depth)
                word = self._value(buffer.dtype, c.expression(e, [there, word]), depth)
            self._line(depth, f"{at} = {c.written(buffer.dtype, word)};")


def _name(s: Symbol) -> str:
    """A size's name in C; a product's is made of those of its factors."""
    return re.sub(r"\W+", "_", s.name.replace("*", "_by_")) if factors(s) is not None else s.name


def _held(fill: float, dtype: DType) -> float | int | bool:
    held = np.full((), fill, dtype)
    return float(held.astype(np.float64)) if is_float(dtype) else held.item()
