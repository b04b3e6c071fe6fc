"""Conditions and choices of a kernel: `and`, `or`, `not`, `a if c else b`.

Enters: nodes of the syntax tree. Leaves: what Python would give. A condition is only asked for its truth; the
value of `a or b` is one of the two. Skipping is done by branches wherever it could be seen.
"""

from __future__ import annotations

import ast
from typing import Any

from trilobite.processor.isa.formats import I64
from trilobite.processor.lang.ops import COMPARISONS
from trilobite.processor.lang.python.building import BuildContext
from trilobite.processor.lang.python.frames import Frame, Names, Slot
from trilobite.processor.lang.python.pipeline import PLAIN, call_name
from trilobite.processor.lang.python.symbols import Symbol, binary
from trilobite.processor.lang.python.view import View
from trilobite.processor.lang.types import is_float


class Conditions:
    """Needs `evaluate`, which `Expressions` has."""

    def __init__(self, context: BuildContext) -> None:
        self.context = context
        self.names = Names(context)

    @property
    def builder(self) -> Any:
        return self.context.builder

    def evaluate(self, frame: Frame, node: ast.expr) -> Any:
        raise NotImplementedError

    def truth(self, value: Any) -> Any:
        """A Python bool, or a symbol that is 0 or 1."""
        if not isinstance(value, Symbol):
            return bool(value)
        if _is_truth(value):
            return value
        return binary(self.builder, "ne", value, 0.0 if is_float(value.fmt) else 0)

    def both(self, a: Any, b: Any) -> Any:
        """`a and b` of two truth values that are both there."""
        if not isinstance(a, Symbol):
            return b if a else a
        return a & b if isinstance(b, Symbol) else (a if b else False)

    def condition(self, frame: Frame, node: ast.expr) -> Any:
        """The truth of an expression: its value itself is not needed."""
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            truth = self.condition(frame, node.operand)
            return truth == 0 if isinstance(truth, Symbol) else not truth
        if not isinstance(node, ast.BoolOp):
            return self.truth(self.evaluate(frame, node))
        is_and = isinstance(node.op, ast.And)
        result = self.condition(frame, node.values[0])
        for following in node.values[1:]:
            if not isinstance(result, Symbol):
                if result != is_and:
                    return result
                result = self.condition(frame, following)
            elif is_simple(following):
                other = self.condition(frame, following)
                if not isinstance(other, Symbol):
                    result = result if other == is_and else other
                else:
                    result = result & other if is_and else result | other
            else:
                result = self._guarded(frame, result, following, is_and)
        return result

    def _guarded(self, frame: Frame, first: Symbol, following: ast.expr, is_and: bool) -> Any:
        slot = Slot(self.builder.function.add_variable("(condition)", I64, frame.scope))
        self.builder.set(slot.variable, first.value)
        more, done = (self.builder.function.add_block(name) for name in ("more", "decided"))
        self.builder.branch(first.value, *((more, done) if is_and else (done, more)))
        self.builder.block = more
        frame.depth += 1
        second = self.condition(frame, following)
        frame.depth -= 1
        value = second.value if isinstance(second, Symbol) else self.builder.integer(int(second))
        self.builder.set(slot.variable, value)
        self.builder.jump(done)
        self.builder.block = done
        return self.names.get(slot)

    def _logic(self, frame: Frame, node: ast.BoolOp) -> Any:
        """`a and b and c` is `b and c` where a is true, else a; `or` the other way round."""
        is_and = isinstance(node.op, ast.And)
        first = self.evaluate(frame, node.values[0])
        truth = self.truth(first)
        rest = node.values[1] if len(node.values) == 2 else _behind(node)
        if not isinstance(truth, Symbol):
            return self.evaluate(frame, rest) if truth == is_and else first
        if is_simple(rest):
            other = self.evaluate(frame, rest)
            if _is_truth(first) and isinstance(other, Symbol) and _is_truth(other):
                return first & other if is_and else first | other
            return self._chosen(frame, truth, *((other, first) if is_and else (first, other)))
        sides = (rest, first) if is_and else (first, rest)
        return self._branches(frame, truth, *sides)

    def _choice(self, frame: Frame, node: ast.IfExp) -> Any:
        truth = self.condition(frame, node.test)
        if not isinstance(truth, Symbol):
            return self.evaluate(frame, node.body if truth else node.orelse)
        if not (is_simple(node.body) and is_simple(node.orelse)):
            return self._branches(frame, truth, node.body, node.orelse)
        a, b = self.evaluate(frame, node.body), self.evaluate(frame, node.orelse)
        return self._chosen(frame, truth, a, b)

    def _chosen(self, frame: Frame, truth: Symbol, a: Any, b: Any) -> Any:
        """One of two values: scalars by an instruction, tuples part by part, views by a branch."""
        if isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b):
            return tuple(self._chosen(frame, truth, *pair) for pair in zip(a, b, strict=True))
        if isinstance(a, View) and isinstance(b, View):
            return self._branches(frame, truth, a, b)
        return self.context.select(truth, a, b)

    def _branches(self, frame: Frame, truth: Symbol, a: Any, b: Any) -> Any:
        """Of two sides that are values or expressions only the chosen one is evaluated."""
        function, name = self.builder.function, f"(choice {len(self.builder.function.variables)})"
        yes, no, join = (function.add_block(n) for n in ("chosen", "otherwise", "join"))
        self.builder.branch(truth.value, yes, no)
        frame.depth += 1
        for start, side in ((yes, a), (no, b)):
            self.builder.block = start
            value = self.evaluate(frame, side) if isinstance(side, ast.expr) else side
            self.names.assign(frame, name, value)
            self.builder.jump(join)
        frame.depth -= 1
        self.builder.block = join
        return self.names.read(frame, name)


def _is_truth(value: Symbol) -> bool:
    """Whether a symbol is a comparison's 0 or 1."""
    op = getattr(value.value, "op", None)
    return op is not None and op.opcode in COMPARISONS


def _behind(node: ast.BoolOp) -> ast.BoolOp:
    """The same chain without its first value."""
    return ast.copy_location(ast.BoolOp(node.op, node.values[1:]), node.values[1])


def is_simple(node: ast.expr) -> bool:
    """Arithmetic that may be computed whether it is needed or not."""
    nodes = list(ast.walk(node))
    calls = [n for n in nodes if isinstance(n, ast.Call)]
    seen = any(isinstance(n, (ast.Subscript, ast.NamedExpr)) for n in nodes)
    return not seen and all(call_name(c) in PLAIN for c in calls)
