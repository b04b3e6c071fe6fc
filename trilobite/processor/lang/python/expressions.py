"""Expressions of a kernel: Python's own operators on constants, symbols and views.

Enters: nodes of the syntax tree. Leaves: constants of the compiler, symbols of the run, or views. What is
known is computed now; the rest becomes IR through the operators of `symbols` and the functions of `dlp`.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from types import FunctionType, MethodType, ModuleType
from typing import Any

from trilobite.base.errors import KernelError, TrilobiteError
from trilobite.processor.isa.formats import I64
from trilobite.processor.lang.python.dtypes import DType
from trilobite.processor.lang.python.frames import Frame
from trilobite.processor.lang.python.surroundings import MISSING, Taken, look_up, may_change
from trilobite.processor.lang.python.symbols import Symbol
from trilobite.processor.lang.python.unrolling import Unrolling
from trilobite.processor.lang.python.view import View

OPERATORS: dict[type, Callable[..., Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Pow: operator.pow,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift, ast.BitAnd: operator.and_, ast.BitOr: operator.or_, ast.BitXor: operator.xor,
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Eq: operator.eq,
    ast.NotEq: operator.ne, ast.Is: operator.is_, ast.IsNot: operator.is_not,
    ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Invert: operator.invert,
}  # fmt: skip
Constants = (bool, int, float, str, bytes, type(None), tuple, list, dict, DType)


class Expressions(Unrolling):
    """Evaluates; `statements.Walker` adds statements and the inlining of device functions."""

    def at(self, frame: Frame, node: ast.AST) -> None:
        self.builder.location = frame.source.location(node)

    def refuse(self, frame: Frame, node: ast.AST, what: str, expected: str, remedy: str) -> KernelError:
        return KernelError(what, where=frame.source.location(node), expected=expected, remedy=remedy)

    def evaluate(self, frame: Frame, node: ast.expr) -> Any:
        handler = _HANDLERS.get(type(node))
        if handler is None:
            raise self.refuse(
                frame, node, f"a kernel cannot contain this expression: {ast.unparse(node)}",
                "names, numbers, operators, comparisons, indexing, calls, comprehensions",
                _IN_OTHER_WORDS.get(type(node), "write it in other words"),
            )  # fmt: skip
        before = self.builder.location
        self.at(frame, node)
        try:
            return handler(self, frame, node)
        except TrilobiteError:
            raise
        except (TypeError, ValueError, ArithmeticError, LookupError, AttributeError) as error:
            raise self.refuse(
                frame, node, f"{ast.unparse(node)}: {error}", "an expression that Python can evaluate",
                "correct it",
            ) from error  # fmt: skip
        finally:
            self.builder.location = before

    # leaves
    def _constant(self, frame: Frame, node: ast.Constant) -> Any:
        return node.value

    def _name(self, frame: Frame, node: ast.Name) -> Any:
        if node.id in frame.names:
            return self.names.read(frame, node.id)
        found = look_up(frame.function, node.id)
        if found is MISSING:
            raise self.refuse(
                frame, node, f"{node.id!r} is not defined here", "a name that is assigned before", "assign it"
            )
        return self._taken_from(frame.function, node.id, found)

    def _taken_from(self, owner: Any, name: str, found: Any) -> Any:
        if may_change(owner, found):
            self.context.taken.setdefault((id(owner), name), Taken.of(owner, name, found))
        return found

    def _attribute(self, frame: Frame, node: ast.Attribute) -> Any:
        owner = self.evaluate(frame, node.value)
        found = getattr(owner, node.attr)
        return self._taken_from(owner, node.attr, found) if isinstance(owner, ModuleType) else found

    def _tuple(self, frame: Frame, node: ast.Tuple | ast.List) -> Any:
        items: list[Any] = []
        for element in node.elts:
            if isinstance(element, ast.Starred):
                items += self.evaluate(frame, element.value)
            else:
                items.append(self.evaluate(frame, element))
        return tuple(items)

    def _slice(self, frame: Frame, node: ast.Slice) -> Any:
        parts = [
            self.evaluate(frame, p) if p is not None else None for p in (node.lower, node.upper, node.step)
        ]
        return slice(*parts)

    def _subscript(self, frame: Frame, node: ast.Subscript) -> Any:
        return self.evaluate(frame, node.value)[self.evaluate(frame, node.slice)]

    def _assigned(self, frame: Frame, node: ast.NamedExpr) -> Any:
        value = self.evaluate(frame, node.value)
        self.names.assign(frame, node.target.id, value)
        return value

    # operators
    def _binary(self, frame: Frame, node: ast.BinOp) -> Any:
        a, b = self.evaluate(frame, node.left), self.evaluate(frame, node.right)
        return self.operate(frame, node, node.op, a, b)

    def operate(self, frame: Frame, node: ast.AST, op: ast.operator | ast.cmpop, a: Any, b: Any) -> Any:
        self.at(frame, node)
        if isinstance(op, ast.Pow) and isinstance(a, Symbol):
            return self._power(frame, node, a, b)
        return OPERATORS[type(op)](a, b)

    def _power(self, frame: Frame, node: ast.AST, base: Symbol, exponent: Any) -> Any:
        """A small whole exponent is a chain of products, from the left."""
        if not isinstance(exponent, int) or not 1 <= exponent <= 16:
            raise self.refuse(
                frame, node, "a power whose exponent is not a small whole number", "x ** 1 to x ** 16",
                "multiply in a loop, or use dlp.exp and dlp.log",
            )  # fmt: skip
        result: Any = base
        for _ in range(exponent - 1):
            result = result * base
        return result

    def _unary(self, frame: Frame, node: ast.UnaryOp) -> Any:
        if isinstance(node.op, ast.Not):
            return self.condition(frame, node)
        return OPERATORS[type(node.op)](self.evaluate(frame, node.operand))

    def _compare(self, frame: Frame, node: ast.Compare) -> Any:
        left = self.evaluate(frame, node.left)
        result: Any = True
        for op, right_node in zip(node.ops, node.comparators, strict=True):
            right = self.evaluate(frame, right_node)
            if isinstance(op, (ast.In, ast.NotIn)):
                found: Any = (left in right) == isinstance(op, ast.In)
            else:
                found = self.operate(frame, node, op, left, right)
            result = self.both(result, found)
            left = right
        return result

    # calls
    def _call(self, frame: Frame, node: ast.Call) -> Any:
        function = self.evaluate(frame, node.func)
        args = list(self._tuple(frame, ast.List(elts=node.args, ctx=ast.Load())))
        named = {k.arg: self.evaluate(frame, k.value) for k in node.keywords if k.arg is not None}
        if len(named) != len(node.keywords):
            raise self.refuse(frame, node, "a call with **", "named arguments", "write them out")
        self.at(frame, node)
        self.context.site = (*frame.path, node)
        return self._apply(frame, node, function, args, named)

    def _apply(
        self, frame: Frame, node: ast.Call, function: Any, args: list[Any], named: dict[str, Any]
    ) -> Any:
        if getattr(function, "__dlp__", False) or isinstance(function, DType) or _is_ours(function):
            return function(*args, **named)
        if function is breakpoint:
            raise self.refuse(
                frame, node, "a compiled kernel cannot stop in Python's debugger", "kernel.interpret",
                "run it with kernel.interpret(device, args), or use trilobite's debugger",
            )  # fmt: skip
        if function in (min, max) and len(args) == 1 and isinstance(args[0], tuple):
            args = list(args[0])
        if function in (min, max) and _has_symbol(args) and len(args) > 1:
            result = args[0]
            for other in args[1:]:
                result = self.context.extreme(function.__name__, result, other)
            return result
        if function is abs:
            return abs(args[0])
        if function is int and _has_symbol(args):
            return self.context.convert(args[0], I64, "rz")
        target = getattr(function, "function", function)
        if isinstance(target, FunctionType) and not _is_library(target):
            return self.inline(frame, node, target, args, named)
        if _has_symbol(args) or _has_symbol(list(named.values())):
            raise self.refuse(
                frame, node, f"{ast.unparse(node.func)} is called with a value that only a run knows",
                "functions of dlp, or functions of your own", _instead(ast.unparse(node.func)),
            )  # fmt: skip
        return function(*args, **named)

    def inline(
        self, frame: Frame, node: ast.Call, function: FunctionType, args: list[Any], named: dict[str, Any]
    ) -> Any:
        raise NotImplementedError


def _is_ours(function: Any) -> bool:
    return isinstance(function, MethodType) and isinstance(function.__self__, View)


def _is_library(function: FunctionType) -> bool:
    """Functions of NumPy and the standard library run at compile time; the user's are looked into."""
    module = (getattr(function, "__module__", "") or "").split(".")[0]
    return module in (
        "numpy",
        "math",
        "builtins",
        "functools",
        "itertools",
        "operator",
        "typing",
        "dataclasses",
    )


def _has_symbol(values: list[Any]) -> bool:
    return any(isinstance(v, (Symbol, View)) for v in values)


def _instead(name: str) -> str:
    known = {"float": "use dlp.f32(x)", "print": "use dlp.printf", "math.sqrt": "use dlp.sqrt(x)",
             "math.exp": "use dlp.exp(x)", "round": "use dlp.i64(x, rounding='rn')"}  # fmt: skip
    return known.get(name, "call it with constants only, or write it as a device function")


_IN_OTHER_WORDS: dict[type, str] = {
    ast.JoinedStr: "print with dlp.printf, which has a format and values",
    ast.Lambda: "write it as a function of its own: calls of it are inlined",
    ast.Dict: "make the dictionary outside of the kernel",
}

_HANDLERS: dict[type, Callable[[Expressions, Frame, Any], Any]] = {
    ast.Constant: Expressions._constant, ast.Name: Expressions._name, ast.Attribute: Expressions._attribute,
    ast.Tuple: Expressions._tuple, ast.List: Expressions._tuple, ast.Slice: Expressions._slice,
    ast.Subscript: Expressions._subscript, ast.BinOp: Expressions._binary, ast.UnaryOp: Expressions._unary,
    ast.Compare: Expressions._compare, ast.BoolOp: Expressions._logic, ast.IfExp: Expressions._choice,
    ast.Call: Expressions._call, ast.ListComp: Expressions._comprehension,
    ast.GeneratorExp: Expressions._comprehension, ast.NamedExpr: Expressions._assigned,
}  # fmt: skip
