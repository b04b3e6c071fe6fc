"""The text form of graphs: `show` writes it, `parse` (from `text_reader`) reads it, and parse(show(g))
== g.

    dims n: 1..512
    graph forward(%0: f32[n,3], %1: f32[3]) {
      %2: f32[n,3] = broadcast %1 {shape=(n, 3), axes=(1,)}        # model.py:11
      %3: f32[n,3] = add %0, %2                                    # model.py:12
      return %3
    }

One equation, one line; its regions follow it, indented. Variables are numbered anew in every graph. Constants
of a few elements stand in their line, larger ones at the end of the text, in base 64 (and nowhere with
data=False, for reading). Text goes in and out; types are not judged here (`verify` does that), and nothing
recurses over the depth of regions.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from trilobite.base.dtypes import ALL, as_dtype, dtype
from trilobite.base.errors import IRError
from trilobite.base.locations import UNKNOWN
from trilobite.ir.graph import Dense, Equation, Graph, Var
from trilobite.ir.text_reader import parse
from trilobite.ir.text_values import RESERVED, number_text, read_elements
from trilobite.ir.types import Affine, Dim, Floor, Symbol, TensorType, short_name, symbols_of

__all__ = ["host_functions", "parse", "show"]

INLINE = 8  # elements of a constant that stand in its line
COLUMN = 72  # where the user's lines are named
LINE = 96  # characters of base 64 in a line


def show(graph: Graph, *, data: bool = True) -> str:
    """The graph as text that people and `parse` read. Without `data`, large constants are named but not
    spelled out.
    """
    return _Writer(graph, data).text()


def host_functions(graph: Graph) -> dict[str, Callable[..., Any]]:
    """The Python functions among the attributes, under the names that `show` gives them and `parse` asks
    for.
    """
    return {name: fn for fn, name in _Writer(graph, data=False).hosts.items()}


def walk(graph: Graph) -> Iterator[Graph]:
    """The graph and all graphs inside, outer ones first, in the order of the text."""
    pending = [graph]
    while pending:
        g = pending.pop()
        yield g
        pending += [region for e in reversed(g.equations) for region in reversed(list(regions(e)))]


def regions(e: Equation) -> list[Graph]:
    """The graphs among the attributes of an equation, also inside tuples, in the order of the text."""
    found: list[Graph] = []
    pending = [e.attributes[k] for k in reversed(list(e.attributes))]
    while pending:
        value = pending.pop()
        if isinstance(value, Graph):
            found.append(value)
        elif isinstance(value, tuple):
            pending += reversed(value)
    return found


class _Writer:
    """Names what needs a name in the whole text (symbols, host functions, large constants), then writes line
    by line.
    """

    def __init__(self, graph: Graph, data: bool) -> None:
        self.graph, self.data = graph, data
        self.symbols: dict[Symbol, str] = {}
        self.hosts: dict[Callable[..., Any], str] = {}
        self.blocks: dict[Dense, str] = {}
        for g in walk(graph):
            self._name_symbols(g)
            for e in g.equations:
                for value in e.attributes.values():
                    self._name(value)

    def _name_symbols(self, g: Graph) -> None:
        shapes = [v.type.shape for v in (*g.inputs, *(o for e in g.equations for o in e.outputs))]
        for shape in shapes:
            self._add_symbols(shape)

    def _add_symbols(self, shape: tuple[Dim, ...]) -> None:
        for s in sorted(symbols_of(shape)):
            if s in self.symbols:
                continue
            if isinstance(s.of, Floor):
                self._add_symbols((s.of.size,))
            elif s.of is not None:
                self._add_symbols(tuple(Affine(0, [(each, 1)]) for each in s.of.symbols))
            self.symbols[s] = _unused(s.name, self.symbols.values(), RESERVED)

    def _name(self, value: Any) -> None:
        pending = [value]
        while pending:
            v = pending.pop()
            if isinstance(v, tuple):
                pending += reversed(v)
            elif isinstance(v, TensorType):
                self._add_symbols(v.shape)
            elif isinstance(v, Affine):
                self._add_symbols((v,))
            elif isinstance(v, Dense):
                self._name_block(v)
            elif callable(v) and not isinstance(v, (Graph, np.dtype, np.generic)) and v not in self.hosts:
                self.hosts[v] = _unused(getattr(v, "__qualname__", type(v).__name__), self.hosts.values(), ())

    def _name_block(self, v: Dense) -> None:
        if v not in self.blocks and self._inline(v.array) is None:
            self.blocks[v] = f"@{len(self.blocks)}"

    # -- lines ----------------------------------------------------------------------------------------------

    def text(self) -> str:
        lines = []
        if self.symbols:
            each = ", ".join(
                f"{name}: {s.lower}..{s.upper}{self._made_of(s)}" for s, name in self.symbols.items()
            )
            lines.append(f"dims {each}")
        lines += self._graph_lines()
        if self.data:
            for block, name in self.blocks.items():
                lines.append(f"{name}: {self._type(_type_of(block.array))} =")
                code = base64.b64encode(block.array.tobytes()).decode()
                lines += [f"  {code[i : i + LINE]}" for i in range(0, len(code), LINE)]
        return "\n".join(lines) + "\n"

    def _graph_lines(self) -> Iterator[str]:
        """Depth first with a stack of our own: entries are lines to write, or graphs to open at an
        indentation.
        """
        stack: list[Any] = [(self.graph, "", "")]
        while stack:
            top = stack.pop()
            if isinstance(top, str):
                yield top
                continue
            graph, label, indent = top
            number = {v: f"%{i}" for i, v in enumerate(_variables(graph))}
            inputs = ", ".join(f"{number[v]}: {self._type(v.type)}" for v in graph.inputs)
            yield f"{indent}{label}graph {_name_text(graph.name)}({inputs}) {{"
            body: list[Any] = []
            for e in graph.equations:
                body.append(self._equation(e, number, indent + "  "))
                body += [(g, f"^{i} ", indent + "    ") for i, g in enumerate(regions(e))]
            outs = ", ".join(number[v] for v in graph.outputs)
            body += [f"{indent}  return {outs}".rstrip(), f"{indent}}}"]
            stack += reversed(body)

    def _equation(self, e: Equation, number: dict[Var, str], indent: str) -> str:
        outs = ", ".join(f"{number[v]}: {self._type(v.type)}" for v in e.outputs)
        line = indent + (f"{outs} = " if outs else "") + e.primitive.name
        if e.inputs:
            line += " " + ", ".join(number[v] for v in e.inputs)
        if e.attributes:
            order = iter(range(len(regions(e))))
            each = [
                f"{k}={self._value(v, order, f'{e.primitive.name} {k}')}" for k, v in e.attributes.items()
            ]
            line += " {" + ", ".join(each) + "}"
        if e.location is UNKNOWN or e.location.line == 0:
            return line
        return f"{line.ljust(COLUMN)}  # {os.path.basename(e.location.file)}:{e.location.line}"

    # -- values ---------------------------------------------------------------------------------------------

    def _dim(self, d: Dim) -> str:
        if not isinstance(d, Affine):
            return str(d)
        parts = [f"{'' if c == 1 else '-' if c == -1 else f'{c}*'}{self.symbols[s]}" for s, c in d.terms]
        return "+".join([*parts, str(d.constant)] if d.constant else parts).replace("+-", "-")

    def _made_of(self, s: Symbol) -> str:
        if s.of is None:
            return ""
        if isinstance(s.of, Floor):
            return f" = floor({self._dim(s.of.size)}, {s.of.by})"
        return f" = product({', '.join(self.symbols[each] for each in s.of.symbols)})"

    def _type(self, t: TensorType) -> str:
        return f"{short_name(t.dtype)}[{','.join(map(self._dim, t.shape))}]"

    def _value(self, value: Any, order: Iterator[int], where: str) -> str:
        if isinstance(value, tuple):
            each = [self._value(v, order, where) for v in value]
            return f"({each[0]},)" if len(each) == 1 else f"({', '.join(each)})"
        if isinstance(value, Graph):
            return f"^{next(order)}"
        if isinstance(value, Dense):
            return self.blocks.get(value) or f"dense({self._inline(value.array)})"
        return self._leaf(value, where)

    def _leaf(self, value: Any, where: str) -> str:
        if value is None or isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, str) and type(value) is str:
            return json.dumps(value)
        if type(value) in (int, float, complex):
            return number_text(value)
        if isinstance(value, Affine):
            return self._dim(value)
        if isinstance(value, TensorType):
            return self._type(value)
        if isinstance(value, np.dtype | dtype) and value in ALL:
            return short_name(as_dtype(value))
        if isinstance(value, np.generic) and value.dtype in ALL:
            return f"scalar({self._inline(np.asarray(value)) or _bits(np.asarray(value))})"
        if value.__hash__ is not None and value in self.hosts:
            return f"host({json.dumps(self.hosts[value])})"
        raise IRError(
            f"the attribute {where} holds a {type(value).__name__}, which has no text form",
            expected="numbers, strings, tuples, dtypes, types, sizes, arrays, graphs or functions",
        )

    def _inline(self, array: np.ndarray[Any, Any]) -> str | None:
        """Type and elements of a small or uniform array, or None if that would be long or would lose bits."""
        head, flat = self._type(_type_of(array)), np.ascontiguousarray(array).reshape(-1)
        if flat.size == 0:
            return head
        splat = flat.size > INLINE
        if splat and not _uniform(flat):
            return None
        shown = flat[:1] if splat else flat
        words = [_element_text(e) for e in shown]
        if read_elements(words, array.dtype).tobytes() != shown.tobytes():
            return None  # a NaN with a message in its bits
        return f"{head}, {'splat ' if splat else ''}{', '.join(words)}"


def _uniform(flat: np.ndarray[Any, Any]) -> bool:
    raw = flat.view(np.uint8).reshape(flat.size, -1)
    return bool((raw == raw[0]).all())


def _bits(array: np.ndarray[Any, Any]) -> str:
    return f"{short_name(array.dtype)}[], bits {array.tobytes().hex()}"


def _element_text(e: Any) -> str:
    """One element, exactly: the shortest digits that give it back in its own dtype."""
    if e.dtype.kind == "b":
        return str(bool(e)).lower()
    if e.dtype.kind == "c":
        return f"complex({_element_text(e.real)}, {_element_text(e.imag)})"
    if e.dtype.kind in "iu" or e.dtype.name in ("int4", "uint4"):
        return str(int(e))
    if e.dtype == np.float64:
        return number_text(float(e))
    single = np.float32(e)
    return number_text(float(str(single))) if np.isfinite(single) else number_text(float(single))


def _type_of(array: np.ndarray[Any, Any]) -> TensorType:
    return TensorType(array.shape, array.dtype)


def _variables(graph: Graph) -> Iterator[Var]:
    yield from graph.inputs
    for e in graph.equations:
        yield from e.outputs


def _name_text(name: str) -> str:
    return name if all(part.isidentifier() for part in name.split(".")) else json.dumps(name)


def _unused(name: str, taken: Any, reserved: Any) -> str:
    """The name, with ~2, ~3, ... behind it where it is already taken or means something else."""
    found, n, used = name, 1, set(taken)
    while found in used or found in reserved:
        n += 1
        found = f"{name}~{n}"
    return found
