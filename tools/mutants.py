"""Small changes of a source, as `tools.mutate` tries them.

Enters: a file's text. Leaves: mutants, each one small change of one expression: a comparison flipped, a bound
moved by one, a guard dropped. Annotations, texts of messages and what only type checkers read are left alone.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.FloorDiv: ast.Mult, ast.Mod: ast.FloorDiv,
    ast.LShift: ast.RShift, ast.RShift: ast.LShift, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip
NAMES = {"min": "max", "max": "min", "any": "all", "all": "any"}


@dataclass(frozen=True)
class Mutant:
    """A change of the text between two places of a file."""

    path: str
    line: int
    column: int
    kind: str
    old: str
    new: str
    start: int
    end: int
    last: int  # line
    scope: str  # function and class that it stands in
    number: int  # among changes of the same text in one scope

    @property
    def name(self) -> str:
        """The same in every run, and after lines around it moved: where, and what became of what."""
        again = f" ({self.number})" if self.number else ""
        return f"{self.path} {self.scope}: {self.old!r} -> {self.new!r}{again}"


def mutants_of(path: str, text: str) -> Iterator[Mutant]:
    """Every small change of one file, in the order of the text."""
    offsets = [0]
    for line in text.encode().split(b"\n"):
        offsets.append(offsets[-1] + len(line) + 1)
    tree = ast.parse(text)
    hidden, scopes, met = _hidden(tree), _scopes(tree), Counter[tuple[str, str, str]]()
    for node in ast.walk(tree):
        if id(node) in hidden or not isinstance(node, ast.expr | ast.If):
            continue
        for kind, new, old in _changes(node):
            target = node.test if isinstance(node, ast.If) else node
            assert target.end_lineno is not None and target.end_col_offset is not None
            start = offsets[target.lineno - 1] + target.col_offset
            end = offsets[target.end_lineno - 1] + target.end_col_offset
            scope = scopes.get(id(node), "module")
            number, met[scope, old, new] = met[scope, old, new], met[scope, old, new] + 1
            at = (target.lineno, target.col_offset)
            yield Mutant(path, *at, kind, old, new, start, end, target.end_lineno, scope, number)


def _scopes(tree: ast.AST) -> dict[int, str]:
    """By node the names of the functions and classes that it stands in."""
    scopes: dict[int, str] = {}
    for node in ast.walk(tree):  # outer ones first
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            outer = scopes.get(id(node), "")
            name = f"{outer}.{node.name}" if outer else node.name
            scopes.update((id(inner), name) for inner in ast.walk(node))
    return scopes


def _hidden(tree: ast.AST) -> set[int]:
    """Nodes whose change means nothing: annotations, text of messages, what only type checkers read."""
    hidden: set[int] = set()
    for node in ast.walk(tree):
        parts: list[ast.AST | None] = []
        if isinstance(node, ast.AnnAssign | ast.arg):
            parts = [node.annotation]
        elif isinstance(node, ast.FunctionDef):
            parts = [node.returns, *node.decorator_list]
        elif isinstance(node, ast.Raise | ast.JoinedStr | ast.Assert) or _is_for_types(node):
            parts = [node]
        for part in parts:
            if part is not None:
                hidden.update(id(inner) for inner in ast.walk(part))
    return hidden


def _is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)


def _changes(node: ast.AST) -> Iterator[tuple[str, str, str]]:
    """(kind, new text, old text) of one node."""
    if isinstance(node, ast.If):
        if len(node.body) == 1 and isinstance(
            node.body[0], ast.Raise | ast.Return | ast.Continue | ast.Break
        ):
            yield "guard dropped", "False", ast.unparse(node.test)
        return
    old = ast.unparse(node)
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in SWAPS:
        swapped = ast.Compare(node.left, [SWAPS[type(node.ops[0])]()], node.comparators)  # type: ignore[list-item]
        yield "comparison", f"({ast.unparse(swapped)})", old
    elif isinstance(node, ast.BoolOp):
        yield "and/or", f"({ast.unparse(ast.BoolOp(SWAPS[type(node.op)](), node.values))})", old  # type: ignore[arg-type]
    elif isinstance(node, ast.BinOp) and type(node.op) in SWAPS and not _is_text(node):
        changed = ast.BinOp(node.left, SWAPS[type(node.op)](), node.right)  # type: ignore[arg-type]
        yield "arithmetic", f"({ast.unparse(changed)})", old
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield "not dropped", f"({ast.unparse(node.operand)})", old
    elif isinstance(node, ast.Constant) and type(node.value) is int and 0 <= node.value < 1 << 20:
        yield "off by one", str(node.value + 1), old
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in NAMES:
        yield "min/max", f"{NAMES[node.func.id]}{old[len(node.func.id) :]}", old


def _is_text(node: ast.BinOp) -> bool:
    """Texts are joined and types united with the same signs."""
    for part in ast.walk(node):
        value = part.value if isinstance(part, ast.Constant) else ""
        if isinstance(part, ast.JoinedStr | ast.Constant) and (value is None or isinstance(value, str)):
            return True
    return False
