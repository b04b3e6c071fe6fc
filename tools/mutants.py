"""Small changes of a source, as `tools.mutate` tries them.

Enters: a file's text. Leaves: mutants, each one small change of one expression: a comparison flipped, a bound
moved by one, a guard or a term dropped; and the file's code with some of them planted in it side by side,
each asleep until somebody wakes it. Annotations, texts of messages and what only type checkers read
stay as they are.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import CodeType

SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.FloorDiv: ast.Mult, ast.Mod: ast.FloorDiv,
    ast.Div: ast.Mult,
    ast.LShift: ast.RShift, ast.RShift: ast.LShift, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip
ONE_SIDED = (ast.Sub, ast.FloorDiv, ast.Div, ast.Mod, ast.LShift, ast.RShift)
SAME_ARGUMENTS = ("isinstance", "issubclass", "cast")  # exchanged they say nothing, or only raise
KIND_GIVEN = "given"  # by somebody, not found in the source
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
    at_import: bool  # not in the body of a function

    @property
    def name(self) -> str:
        """The same in every run, and after lines around it moved: where, and what became of what."""
        again = f" ({self.number})" if self.number else ""
        return f"{self.path} {self.scope}: {self.old!r} -> {self.new!r}{again}"


def mutants_of(path: str, text: str) -> Iterator[Mutant]:
    """Every small change of one file, outer expressions first."""
    for mutant, _node in _placed(path, text, ast.parse(text)):
        yield mutant


def texts(path: str, text: str, numbers: Mapping[str, int]) -> dict[int, str]:
    """By its number the file's text with one of the named changes."""
    source = text.encode()
    return {
        numbers[m.name]: (source[: m.start] + m.new.encode() + source[m.end :]).decode()
        for m in mutants_of(path, text)
        if m.name in numbers
    }


def planted(
    file: str, path: str, text: str, numbers: Mapping[str, int], call: str, entry: Callable[[str], int],
    prepare: Callable[[ast.Module], None] | None = None,
) -> CodeType:  # fmt: skip
    """The file's code in which each named change is `new if call(number) else old`, and whose functions begin
    with `call(entry(name))`; lines stay where they are. `prepare` may change the tree before.
    """
    tree = ast.parse(text)
    if prepare is not None:
        prepare(tree)
        ast.fix_missing_locations(tree)
    changes: dict[int, list[tuple[int, str]]] = {}
    for mutant, node in _placed(path, text, tree):
        if mutant.name in numbers:
            changes.setdefault(id(node), []).append((numbers[mutant.name], mutant.new))
    scopes = _scopes(tree)
    _Plant(changes, call, lambda node: entry(scopes[id(node)])).visit(tree)
    return compile(ast.fix_missing_locations(tree), file, "exec")


class _Plant(ast.NodeTransformer):
    def __init__(
        self, changes: Mapping[int, list[tuple[int, str]]], call: str, entry: Callable[[ast.AST], int]
    ) -> None:
        self.changes = changes
        self.call = call
        self.entry = entry

    def visit(self, node: ast.AST) -> ast.AST:
        inner = self.generic_visit(node)
        for number, new in self.changes.get(id(node), ()):
            inner = ast.IfExp(asked(self.call, number), ast.parse(new, mode="eval").body, inner)  # type: ignore[arg-type]
            for part in (inner, *ast.walk(inner.test), *ast.walk(inner.body)):
                ast.copy_location(part, node)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            entered = ast.copy_location(ast.Expr(asked(self.call, self.entry(node))), node)
            node.body.insert(ast.get_docstring(node, clean=False) is not None, entered)
        return inner


def asked(call: str, number: int) -> ast.Call:
    return ast.Call(ast.Name(call, ast.Load()), [ast.Constant(number)], [])


def _placed(path: str, text: str, tree: ast.Module) -> Iterator[tuple[Mutant, ast.expr]]:
    """Every change, and the node that it takes the place of."""
    offsets = [0]
    for line in text.encode().split(b"\n"):
        offsets.append(offsets[-1] + len(line) + 1)
    hidden, scopes, late = _hidden(tree), _scopes(tree), _late(tree)
    met = Counter[tuple[str, str, str]]()
    for node in ast.walk(tree):
        if id(node) in hidden or not isinstance(node, ast.expr | ast.If | ast.Expr):
            continue
        for kind, new, old in _changes(node):
            target = node.test if isinstance(node, ast.If) else node
            target = target.value if isinstance(target, ast.Expr) else target
            assert target.end_lineno is not None and target.end_col_offset is not None
            start = offsets[target.lineno - 1] + target.col_offset
            end = offsets[target.end_lineno - 1] + target.end_col_offset
            scope = scopes.get(id(node), "module")
            number, met[scope, old, new] = met[scope, old, new], met[scope, old, new] + 1
            at = (target.lineno, target.col_offset)
            end_of = (start, end, target.end_lineno)
            yield Mutant(path, *at, kind, old, new, *end_of, scope, number, id(node) not in late), target


def _scopes(tree: ast.AST) -> dict[int, str]:
    """By node the names of the functions and classes that it stands in."""
    scopes: dict[int, str] = {}
    for node in ast.walk(tree):  # outer ones first
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            outer = scopes.get(id(node), "")
            name = f"{outer}.{node.name}" if outer else node.name
            scopes.update((id(inner), name) for inner in ast.walk(node))
    return scopes


def scopes_of(text: str) -> list[str]:
    """The names of a file's functions, with those of what they stand in."""
    tree = ast.parse(text)
    scopes = _scopes(tree)
    found = (n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef))
    return sorted({scopes[id(node)] for node in found})


def _late(tree: ast.AST) -> set[int]:
    """Nodes in bodies of functions: they run when they are called."""
    bodies = [
        node.body if isinstance(node.body, list) else [node.body]
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
    ]
    return {id(inner) for body in bodies for part in body for inner in ast.walk(part)}


def _hidden(tree: ast.AST) -> set[int]:
    """Nodes whose change means nothing: annotations, text of messages, what only type checkers read."""
    hidden: set[int] = set()
    for node in ast.walk(tree):
        parts: list[ast.AST | None] = []
        if isinstance(node, ast.AnnAssign | ast.arg):
            parts = [node.annotation]
        elif isinstance(node, ast.FunctionDef):
            parts = [node.returns, *node.decorator_list]
        elif isinstance(node, ast.Raise | ast.JoinedStr | ast.Assert | ast.pattern) or _is_for_types(node):
            parts = [node]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "zip":
            parts = [k for k in node.keywords if k.arg == "strict"]  # an assertion, too
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
    elif isinstance(node, ast.Expr):
        if isinstance(node.value, ast.Call):
            yield "call dropped", "None", ast.unparse(node.value)
    elif isinstance(node, ast.Constant):
        yield from _constants(node)
    else:
        yield from _operators(node)


def _operators(node: ast.AST) -> Iterator[tuple[str, str, str]]:
    old = ast.unparse(node)
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in SWAPS:
        swapped = ast.Compare(node.left, [SWAPS[type(node.ops[0])]()], node.comparators)  # type: ignore[list-item]
        kind = "bound" if isinstance(node.ops[0], ast.Lt | ast.LtE | ast.Gt | ast.GtE) else "comparison"
        yield kind, f"({ast.unparse(swapped)})", old
    elif isinstance(node, ast.BoolOp):
        yield "and/or", f"({ast.unparse(ast.BoolOp(SWAPS[type(node.op)](), node.values))})", old  # type: ignore[arg-type]
        yield "condition dropped", f"({ast.unparse(node.values[0])})", old
    elif isinstance(node, ast.BinOp) and type(node.op) in SWAPS and not _is_text(node):
        yield from _arithmetic(node, old)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield "not dropped", f"({ast.unparse(node.operand)})", old
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        if not isinstance(node.operand, ast.Constant):
            yield "sign dropped", f"({ast.unparse(node.operand)})", old
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in NAMES:
        yield "min/max", f"{NAMES[node.func.id]}{old[len(node.func.id) :]}", old
    elif isinstance(node, ast.Call) and len(node.args) > 1 and ast.unparse(node.func) not in SAME_ARGUMENTS:
        first, second, *others = node.args
        exchanged = ast.unparse(ast.Call(node.func, [second, first, *others], node.keywords))
        if all(isinstance(each, ast.Name | ast.Attribute) for each in (first, second)) and exchanged != old:
            yield "arguments exchanged", exchanged, old


def _arithmetic(node: ast.BinOp, old: str) -> Iterator[tuple[str, str, str]]:
    changed = ast.BinOp(node.left, SWAPS[type(node.op)](), node.right)  # type: ignore[arg-type]
    yield "arithmetic", f"({ast.unparse(changed)})", old
    yield "term dropped", f"({ast.unparse(node.left)})", old
    if isinstance(node.op, ONE_SIDED) and not isinstance(node.right, ast.Constant):
        yield "operands exchanged", f"({ast.unparse(ast.BinOp(node.right, node.op, node.left))})", old


def _constants(node: ast.Constant) -> Iterator[tuple[str, str, str]]:
    old, value = ast.unparse(node), node.value
    if type(value) is bool:
        yield "truth", str(not value), old
    elif type(value) is int and 0 <= value < 1 << 20:
        yield "off by one", str(value + 1), old
        if value > 1:
            yield "off by one", str(value - 1), old
    elif type(value) is float:
        yield "number", repr(value * 1.25 if value else 1.0), old


def _is_text(node: ast.BinOp) -> bool:
    """Texts are joined and types united with the same signs."""
    for part in ast.walk(node):
        value = part.value if isinstance(part, ast.Constant) else ""
        if isinstance(part, ast.JoinedStr | ast.Constant) and (value is None or isinstance(value, str)):
            return True
    return False
