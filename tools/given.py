"""Faults that somebody wrote down, planted like those that `tools.mutate` draws.

Enters: a JSON file with rows of `path`, `old`, `new`: a text that stands once in that source, in the body of
a function, and what takes its place. Leaves: mutants, and functions whose body is either of both. Faults that
a reviewer might pass by are of many lines: a guard that looks at one side, a key without one of its parts, a
copy that is none.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from tools.mutants import KIND_GIVEN, Mutant, asked

Function = ast.FunctionDef | ast.AsyncFunctionDef
Declaration = ast.Global | ast.Nonlocal  # stand before all that uses their names


def read(file: Path, root: Path) -> list[Mutant]:
    """In the order of the file. Its texts must be met once: a fault that is nowhere is an error."""
    rows = json.loads(file.read_text(encoding="utf-8"))
    return [_mutant(row["path"], (root / row["path"]).read_text(encoding="utf-8"), row) for row in rows]


def _mutant(path: str, text: str, row: Mapping[str, str]) -> Mutant:
    old, new = row["old"], row["new"]
    if text.count(old) != 1:
        raise ValueError(f"{path}: {old!r} stands there {text.count(old)} times; expected once")
    before = text.partition(old)[0]
    line, last = before.count("\n") + 1, f"{before}{old.rstrip()}".count("\n") + 1
    inside = [
        (name, number)
        for name, number, node in functions(ast.parse(text))
        if node.body[0].lineno <= line and last <= (node.end_lineno or 0)
    ]
    if not inside:
        raise ValueError(f"{path}: {old!r} stands in the body of no function")
    ast.parse(text.replace(old, new))
    start, end = len(before.encode()), len(f"{before}{old}".encode())
    return Mutant(path, line, 0, KIND_GIVEN, old, new, start, end, last, *inside[-1], at_import=False)


def texts(text: str, given: Mapping[int, Mutant]) -> dict[int, str]:
    """By its number the text with each fault; those whose place is gone have none."""
    return {n: text.replace(m.old, m.new) for n, m in given.items() if text.count(m.old) == 1}


def functions(tree: ast.AST) -> Iterator[tuple[str, int, Function]]:
    """Outer ones first: the names that they stand in, and which of that name."""
    met: dict[str, int] = {}

    def walk(node: ast.AST, outer: str) -> Iterator[tuple[str, int, Function]]:
        for child in ast.iter_child_nodes(node):
            name = outer
            if isinstance(child, Function | ast.ClassDef):
                name = f"{outer}.{child.name}" if outer else child.name
            if isinstance(child, Function):
                met[name] = met.get(name, -1) + 1
                yield name, met[name], child
            yield from walk(child, name)

    return walk(tree, "")


def plant(text: str, given: Mapping[int, Mutant], call: str, tree: ast.Module) -> None:
    """Into the tree of that text: `if call(number): the changed body, else: the body`."""
    bodies = {(name, number): node for name, number, node in functions(tree)}
    for number, changed in texts(text, given).items():
        at = given[number].scope, given[number].number
        found = bodies[at]
        others = {(name, n): node for name, n, node in functions(ast.parse(changed))}
        new, old = others[at].body, found.body
        doc = ast.get_docstring(found, clean=False) is not None
        declared = {ast.unparse(each): each for each in (*new, *old) if isinstance(each, Declaration)}
        bare = [[each for each in body if not isinstance(each, Declaration)] for body in (new, old)]
        choice = ast.copy_location(ast.If(asked(call, number), *bare), old[-1])
        found.body = [*old[:doc], *declared.values(), choice]
