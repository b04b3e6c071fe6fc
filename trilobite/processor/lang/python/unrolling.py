"""What the compiler itself repeats: the items of unrolled loops and of comprehensions.

Enters: iterables that are known at compile time; their items may be symbols or views. Leaves: one copy for
each item, told apart by a number, so that a buffer made in a copy is a buffer of its own.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from itertools import islice
from typing import Any

from trilobite.base.errors import KernelError
from trilobite.processor.lang.python.conditions import Conditions
from trilobite.processor.lang.python.frames import Frame
from trilobite.processor.lang.python.symbols import Symbol

MAX_UNROLLED = 4096


class Unrolling(Conditions):
    """Needs `refuse`, which `Expressions` has."""

    def refuse(self, frame: Frame, node: ast.AST, what: str, expected: str, remedy: str) -> KernelError:
        raise NotImplementedError

    def items(self, frame: Frame, node: ast.AST, over: Iterable[Any]) -> list[Any]:
        found = list(islice(over, MAX_UNROLLED + 1))
        if len(found) > MAX_UNROLLED:
            raise self.refuse(
                frame, node, f"more than {MAX_UNROLLED} iterations to unroll", f"at most {MAX_UNROLLED}",
                "use range",
            )  # fmt: skip
        return found

    def bind(self, frame: Frame, target: ast.expr, item: Any) -> None:
        if isinstance(target, (ast.Tuple, ast.List)):
            parts = item if isinstance(item, (tuple, list)) else (item,)
            if len(parts) != len(target.elts):
                raise self.refuse(
                    frame, target, f"{len(parts)} values for {len(target.elts)} names",
                    "as many values as names", "write one name for each value",
                )  # fmt: skip
            for element, part in zip(target.elts, parts, strict=True):
                self.bind(frame, element, part)
        elif isinstance(target, ast.Name):
            frame.names[target.id] = item
        else:
            raise self.refuse(frame, target, "a loop over something that is no name", "names", "use a name")

    def _comprehension(self, frame: Frame, node: ast.ListComp | ast.GeneratorExp) -> tuple[Any, ...]:
        """A tuple; its names are its own."""
        outside, path = dict(frame.names), frame.path
        found: list[Any] = []
        self._generate(frame, node, node.generators, found)
        frame.path = path
        for name in {n.id for g in node.generators for n in ast.walk(g.target) if isinstance(n, ast.Name)}:
            frame.names.pop(name, None)
            if name in outside:
                frame.names[name] = outside[name]
        return tuple(found)

    def _generate(
        self,
        frame: Frame,
        node: ast.ListComp | ast.GeneratorExp,
        left: list[ast.comprehension],
        found: list[Any],
    ) -> None:
        if not left:
            found.append(self.evaluate(frame, node.elt))
            return
        first, path = left[0], frame.path
        over = self.evaluate(frame, first.iter)
        if not isinstance(over, Iterable):
            raise self.refuse(
                frame, first.iter, f"a comprehension over {ast.unparse(first.iter)}",
                "what is known when the kernel is compiled", "use a loop over range",
            )  # fmt: skip
        for number, item in enumerate(self.items(frame, first.iter, over)):
            self.bind(frame, first.target, item)
            frame.path = (*path, number)
            if all(self._known(frame, test) for test in first.ifs):
                self._generate(frame, node, left[1:], found)
        frame.path = path

    def _known(self, frame: Frame, test: ast.expr) -> bool:
        truth = self.condition(frame, test)
        if isinstance(truth, Symbol):
            raise self.refuse(
                frame, test, "a comprehension that depends on a value that only a run knows",
                "a condition that is known when the kernel is compiled", "use a loop over range",
            )  # fmt: skip
        return bool(truth)
