"""Where in the source an interpreted kernel asks for a buffer: one place is one buffer, as when compiled.

Enters: frames of running Python code. Leaves: a key that is the same whenever a run reaches the same call. A
loop or comprehension that the compiler unrolls has its items in the key: each of its copies is a place.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterator
from functools import cache
from types import CodeType, FrameType
from typing import Any

from trilobite.processor.lang.python.pipeline import call_name
from trilobite.processor.lang.python.view import View

_RUN = ("range", "pipeline")  # loops of the run, which the compiler does not unroll


def site(frame: FrameType | None, entry: CodeType) -> tuple[object, ...]:
    """The calls from the kernel's own code to this frame, each with the items of its unrolled loops."""
    found: list[object] = []
    while frame is not None:
        names = _unrolled(frame.f_code, frame.f_lasti)
        found.append((frame.f_code, frame.f_lasti, _values(frame, names) if names else ()))
        if frame.f_code is entry:
            break
        frame = frame.f_back
    return tuple(found)


def _values(frame: FrameType, names: tuple[str, ...]) -> tuple[object, ...]:
    held = frame.f_locals
    return tuple(_told_apart(held[name]) for name in names if name in held)


def _told_apart(value: Any) -> object:
    return value.address if isinstance(value, View) else repr(value)


@cache
def _unrolled(code: CodeType, instruction: int) -> tuple[str, ...]:
    """Names of the unrolled loops around an instruction, from the outside in."""
    line, _, column, _ = next(
        (p for n, p in enumerate(code.co_positions()) if n == instruction // 2), (None, None, None, None)
    )
    if line is None or column is None:
        return ()
    return tuple(
        name.id
        for targets, body in _loops(code.co_filename)
        if any(_holds(node, line, column) for node in body)
        for target in targets
        for name in ast.walk(target)
        if isinstance(name, ast.Name)
    )


@cache
def _loops(file: str) -> list[tuple[list[ast.expr], list[ast.AST]]]:
    """Names and bodies of everything that the compiler unrolls, in a file of kernels."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except SyntaxError:  # a cell of a notebook with commands of its own
        return []
    return list(_found(tree))


def _found(tree: ast.AST) -> Iterator[tuple[list[ast.expr], list[ast.AST]]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.For):
            if not (isinstance(node.iter, ast.Call) and call_name(node.iter) in _RUN):
                yield [node.target], [*node.body]
        elif isinstance(node, (ast.ListComp, ast.GeneratorExp)):
            yield [generator.target for generator in node.generators], [node]


def _holds(node: Any, line: int, column: int) -> bool:
    return bool((node.lineno, node.col_offset) <= (line, column) < (node.end_lineno, node.end_col_offset))
