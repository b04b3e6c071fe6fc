"""A nest as text for people: one line per buffer, loop and result. Scalar graphs print as expressions, with
names for what is used more than once.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from trilobite.compiler.targets.cpu.loops.ir import Buffer, Loop, Micro, Nest, Node, Statement, Target
from trilobite.ir.graph import Dense, Equation, Graph, Var
from trilobite.ir.types import short_name

_INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
          "eq": "==", "ne": "!="}  # fmt: skip


def show(nest: Nest) -> str:
    lines = [f"nest {nest.name}"]
    lines += [f"  {_buffer(b)}" for b in nest.buffers]
    lines += [f"  size {s.name} in {s.lower}..{s.upper}" for s in nest.symbols]
    if nest.unless_same is not None:
        lines.append(f"  unless {' is '.join(nest.unless_same)}")
    _nodes(nest.body, 1, lines)
    return "\n".join(lines) + "\n"


def _buffer(b: Buffer) -> str:
    strides = f" strides ({', '.join(map(str, b.strides))})" if b.strides else ""
    return f"{b.kind} {b.name}: {short_name(b.dtype)}[{', '.join(map(str, b.shape))}]{strides}"


def _nodes(nodes: tuple[Node, ...], depth: int, lines: list[str]) -> None:
    pad = "  " * depth
    for node in nodes:
        if isinstance(node, Statement):
            lines += [pad + line for line in statement_lines(node)]
        elif isinstance(node, Micro):
            lines.append(f"{pad}micro-kernel {node.kernel}, meaning:")
            _nodes(node.meaning, depth + 1, lines)
        else:
            lines.append(f"{pad}{loop_line(node)}")
            _nodes(node.body, depth + 1, lines)


def loop_line(node: Loop) -> str:
    extent = str(node.extent[0]) if len(node.extent) == 1 else f"min({', '.join(map(str, node.extent))})"
    kind = "" if node.kind == "serial" else f" {node.kind}"
    if node.kind == "vector":
        kind += f" {node.lanes} lanes x {node.unroll}" + " in pairs" * node.pairs
    if node.ahead:
        kind += f", ahead {', '.join(f'{a.buffer}[{a.index}]' for a in node.ahead)}"
    start = f"max(0, {', '.join(map(str, node.start))}) to " if node.start else ""
    return f"for {node.var} in {start}{extent}{kind}"


def statement_lines(node: Statement) -> list[str]:
    lines: list[str] = []
    words = expressions(node.body, [str(leaf) for leaf in node.leaves], lines)
    lines += [f"{_target(t)} {w}" for t, w in zip(node.targets, words, strict=True)]
    return lines


def _target(t: Target) -> str:
    at = f"{t.buffer}[{', '.join(map(str, t.index))}]"
    return f"{at} =" if t.combine is None else f"{at} {_INFIX.get(t.combine, t.combine)}="


def expressions(body: Graph, leaves: list[str], lines: list[str]) -> list[str]:
    """The outputs of a scalar graph as text; shared parts are named in `lines`."""
    uses = Counter(v for e in body.equations for v in e.inputs)
    words: dict[Var, str] = dict(zip(body.inputs, leaves, strict=True))
    uses.update(body.outputs)
    for e in body.equations:
        word = _expression(e, [words[v] for v in e.inputs])
        out = e.outputs[0]
        if uses[out] > 1 and e.inputs:
            name = f"v{len(lines)}"
            lines.append(f"{name} = {word}")
            word = name
        words[out] = word
    return [words[v] for v in body.outputs]


def _expression(e: Equation, operands: list[str]) -> str:
    name = e.primitive.name
    if name in _INFIX:
        return f"({operands[0]} {_INFIX[name]} {operands[1]})"
    if name == "full":
        return f"{e.attributes['value']}"
    attributes = [f"{k}={_word(v)}" for k, v in e.attributes.items()]
    return f"{name}({', '.join([*operands, *attributes])})"


def _word(value: Any) -> str:
    if isinstance(value, Dense):
        return str(value.array.tolist())
    return str(getattr(value, "name", value))
