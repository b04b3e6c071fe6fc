"""Numbers in assembly text: literals, constants, arithmetic, addresses such as nram(64).

Enters: the text of an operand and the constants known so far. Leaves: an int or a float. The text is parsed
as an expression and walked node by node; nothing is evaluated that is not listed here. `/` is whole
division, since `//` begins a comment.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping

from trilobite.processor.isa.address import LETTERS, address

Number = int | float
_BINARY: dict[type[ast.operator], Callable[..., Number]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.floordiv,
    ast.Mod: operator.mod, ast.BitOr: operator.or_, ast.BitAnd: operator.and_, ast.BitXor: operator.xor,
}  # fmt: skip


class NotANumber(Exception):
    """The text is no expression; the reason stands in the message."""


class UnknownName(Exception):
    """The expression uses a name that is no constant: perhaps a symbol, which the linker knows."""


def evaluate(text: str, constants: Mapping[str, Number]) -> Number:
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise NotANumber(f"{text!r} is no number") from error
    return _walk(tree.body, constants)


def _walk(node: ast.expr, constants: Mapping[str, Number]) -> Number:
    if (
        isinstance(node, ast.Constant)
        and isinstance(node.value, (int, float))
        and not isinstance(node.value, bool)
    ):
        return node.value
    if isinstance(node, ast.Name):
        if node.id not in constants:
            raise UnknownName(node.id)
        return constants[node.id]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
        value = _walk(node.operand, constants)
        return -value if isinstance(node.op, ast.USub) else value
    if isinstance(node, ast.BinOp):
        return _operate(node, constants)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in LETTERS:
        return _place(node.func.id, [_walk(item, constants) for item in node.args])
    raise NotANumber(f"{ast.unparse(node)!r} is not allowed in a number")


def _operate(node: ast.BinOp, constants: Mapping[str, Number]) -> Number:
    left, right = _walk(node.left, constants), _walk(node.right, constants)
    try:
        if isinstance(node.op, (ast.LShift, ast.RShift)):
            return _shift(node.op, left, right)
        if type(node.op) not in _BINARY:
            raise NotANumber(
                f"{ast.unparse(node)!r}: this operator is not allowed; use + - * / % | & ^ << >>"
            )
        return _BINARY[type(node.op)](left, right)
    except (TypeError, ZeroDivisionError, OverflowError) as error:
        raise NotANumber(f"{ast.unparse(node)!r}: {error}") from error


def _shift(op: ast.operator, left: Number, right: Number) -> Number:
    if not (isinstance(left, int) and isinstance(right, int) and 0 <= right <= 64):
        raise NotANumber("a shift takes whole numbers, by 0 to 64 places")
    return left << right if isinstance(op, ast.LShift) else left >> right


def _place(space: str, arguments: list[Number]) -> int:
    """nram(offset), sram(offset, cluster), nram(offset, cluster, core)"""
    if not 1 <= len(arguments) <= 3 or not all(isinstance(item, int) and item >= 0 for item in arguments):
        raise NotANumber(f"{space}(...) takes an offset, and perhaps a cluster and a core, as whole numbers")
    offset, cluster, core = [int(item) for item in arguments] + [-1] * (3 - len(arguments))
    return address(LETTERS[space], offset, None if cluster < 0 else cluster, None if core < 0 else core)
