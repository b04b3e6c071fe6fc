"""Reading the text form of graphs: text in, `Graph` out, or an IRError that names the line.

The grammar, one equation per line (`#` starts a comment; a comment `# file:12` becomes the equation's
location):

    text     dims? graph block*
    dims     "dims" (name ":" low ".." high),+
    graph    "graph" name "(" (var ":" type),* ")" "{"  line*  "return" var,*  "}"
    line     ((var ":" type),+ "=")? primitive var,* ("{" (name "=" value),+ "}")?   then regions: "^0" graph
    value    number | string | true | false | none | dtype | type | size | "(" value,* ")" | "^0" | "@0"
             | dense(type, elements) | scalar(type, element) | complex(re, im) | host("name")
    block    "@0" ":" type "="   then lines of base 64
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from trilobite.ir.graph import Equation, Graph, Var
from trilobite.ir.primitive import table
from trilobite.ir.text_tokens import Line
from trilobite.ir.text_values import RESERVED, Region, Values
from trilobite.ir.types import Affine, Factors, Floor, Symbol


class _Frame:
    """A graph whose end has not come yet."""

    def __init__(self, name: str, inputs: Sequence[Var], names: dict[str, Var]) -> None:
        self.name, self.inputs, self.names = name, inputs, names
        self.equations: list[Equation] = []
        self.outputs: list[Var] | None = None
        self.open: tuple[Equation, int, Line] | None = None  # an equation that waits for so many regions
        self.regions: list[Graph] = []


class _Reader:
    def __init__(self, text: str, host: Mapping[str, Callable[..., Any]]) -> None:
        self.values = Values(host)
        rows = text.splitlines()
        first = next((i for i, row in enumerate(rows) if row.startswith("@")), len(rows))
        self.lines = [line for i, row in enumerate(rows[:first], start=1) if (line := Line(i, row)).tokens]
        self.values.read_blocks(rows, first)

    # -- the order of lines ---------------------------------------------------------------------------------

    def graph(self) -> Graph:
        stack: list[_Frame] = []
        done: Graph | None = None
        for line in self.lines:
            if done is not None:
                raise line.error("text after the end of the graph")
            if line.peek() == "dims" and not stack and not self.values.symbols:
                self._dims(line)
            elif line.peek() == "graph" and not stack:
                stack.append(self._header(line))
            elif not stack:
                raise line.error(f"unexpected {line.peek()!r}", expected="graph name(...) {")
            elif line.peek().startswith("^"):
                self._open_region(stack, line)
            elif line.peek() == "}":
                done = self._close(stack, line)
            else:
                self._statement(stack[-1], line)
        if done is None:
            last = self.lines[-1] if self.lines else Line(1, "")
            raise last.error(
                "the text ends before the graph does", expected="}" if stack else "graph name(...) {"
            )
        return done

    def _statement(self, frame: _Frame, line: Line) -> None:
        self._finish(frame)
        if frame.outputs is not None:
            raise line.error("an equation after return", expected="}")
        if line.skip("return"):
            names = self.values.each(line, lambda: self._use(frame, line)) if line.tokens[1:] else []
            frame.outputs = names
            line.end()
        else:
            self._equation(frame, line)

    def _open_region(self, stack: list[_Frame], line: Line) -> None:
        frame = stack[-1]
        number = int(line.take("mark")[1:])
        if frame.open is None or number != len(frame.regions) or number >= frame.open[1]:
            raise line.error(f"the equation above has no region ^{number} here")
        stack.append(self._header(line))

    def _close(self, stack: list[_Frame], line: Line) -> Graph | None:
        line.take("}")
        line.end()
        frame = stack.pop()
        self._finish(frame)
        if frame.outputs is None:
            raise line.error(f"graph {frame.name} ends without return")
        graph = Graph(frame.inputs, frame.equations, frame.outputs, frame.name)
        if not stack:
            return graph
        stack[-1].regions.append(graph)
        return None

    def _finish(self, frame: _Frame) -> None:
        """Put the regions read since into the equation that waited for them."""
        if frame.open is None:
            return
        e, count, line = frame.open
        if len(frame.regions) != count:
            raise line.error(f"{count} regions are named and {len(frame.regions)} follow")
        found = frame.regions
        attributes = {k: _with_regions(v, found) for k, v in e.attributes.items()}
        frame.equations.append(Equation(e.primitive, e.inputs, attributes, e.outputs, e.location))
        frame.open, frame.regions = None, []

    # -- lines ----------------------------------------------------------------------------------------------

    def _dims(self, line: Line) -> None:
        line.take("dims")
        while True:
            name = line.take("name")
            line.take(":")
            low = line.whole()
            line.take("..")
            if name in self.values.symbols or name in RESERVED:
                raise line.error(f"the name {name} means something already")
            high = line.whole()
            made = self._made_of(line) if line.skip("=") else None
            self.values.symbols[name] = Symbol(name.partition("~")[0], low, high, made)
            if not line.skip(","):
                return line.end()

    def _made_of(self, line: Line) -> Floor | Factors:
        """What a symbol follows from: `floor(size, number)` or `product(symbol, symbol, ...)`."""
        word = line.take("name")
        line.take("(")
        sizes = self.values.each(line, lambda: self.values.dim(line))
        line.take(")")
        match word, sizes:
            case "floor", [Affine() as size, int(by)] if by > 0:
                return Floor(size, by)
            case "product", [_, _, *_] if all(_is_symbol(d) for d in sizes):
                return Factors(tuple(d.terms[0][0] for d in sizes))
        raise line.error(f"{word} of {sizes}", expected="floor(size, number) or product(symbol, symbol)")

    def _header(self, line: Line) -> _Frame:
        line.take("graph")
        name = self._graph_name(line)
        names: dict[str, Var] = {}
        line.take("(")
        inputs = [] if line.peek() == ")" else self.values.each(line, lambda: self._define(names, line))
        line.take(")")
        line.take("{")
        line.end()
        return _Frame(name, inputs, names)

    def _graph_name(self, line: Line) -> str:
        if line.kind() == "string":
            return self.values.string(line)
        name = line.take("name")
        while line.skip("."):
            name += "." + line.take("name")
        return name

    def _define(self, names: dict[str, Var], line: Line) -> Var:
        name = line.take("mark")
        if name in names or not name.startswith("%"):
            raise line.error(f"{name} is defined twice" if name in names else f"{name} is not a variable")
        line.take(":")
        names[name] = var = Var(self.values.type(line))
        return var

    def _use(self, frame: _Frame, line: Line) -> Var:
        name = line.take("mark")
        if name not in frame.names:
            raise line.error(f"{name} is used before it is defined")
        return frame.names[name]

    def _equation(self, frame: _Frame, line: Line) -> None:
        defined: dict[str, Var] = {}
        if line.kind() == "mark":
            self.values.each(line, lambda: self._define(defined, line))
            line.take("=")
        name = line.take("name")
        if name not in table:
            raise line.error(f"there is no primitive {name!r}")
        inputs = self.values.each(line, lambda: self._use(frame, line)) if line.kind() == "mark" else []
        attributes, regions = self._attributes(line)
        line.end()
        twice = next((n for n in defined if n in frame.names), None)
        if twice is not None:
            raise line.error(f"{twice} is defined twice")
        frame.names.update(defined)
        e = Equation(table[name], tuple(inputs), attributes, tuple(defined.values()), line.location)
        frame.open = (e, regions, line)

    def _attributes(self, line: Line) -> tuple[dict[str, Any], int]:
        found: dict[str, Any] = {}
        regions = [0]
        if not line.skip("{"):
            return found, 0
        while True:
            name = line.take("name")
            if name in found:
                raise line.error(f"the attribute {name} is given twice")
            line.take("=")
            found[name] = self.values.value(line, regions, 0)
            if not line.skip(","):
                line.take("}")
                return found, regions[0]


def _with_regions(value: Any, found: Sequence[Graph]) -> Any:
    if isinstance(value, Region):
        return found[value.number]
    return tuple(_with_regions(v, found) for v in value) if type(value) is tuple else value


def parse(text: str, host: Mapping[str, Callable[..., Any]] | None = None) -> Graph:
    """The graph that the text describes. `host` gives the Python functions that callbacks in it name."""
    return _Reader(text, {} if host is None else host).graph()


def _is_symbol(d: Any) -> bool:
    return isinstance(d, Affine) and not d.constant and len(d.terms) == 1 and d.terms[0][1] == 1
