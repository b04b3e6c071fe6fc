"""Statements of a kernel, device functions, and the whole: a Python function becomes a kernel module.

Enters: a function, what its meta-parameters are, a machine. Leaves: a `KernelModule` with one entry. What is
known at compile time is decided now; everything else becomes control flow of the run.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any

from trilobite.processor.isa.formats import I64
from trilobite.processor.lang.builder import Builder
from trilobite.processor.lang.ir import Function, KernelModule
from trilobite.processor.lang.python.building import BuildContext
from trilobite.processor.lang.python.context import within
from trilobite.processor.lang.python.dtypes import DType, GlobalPointer
from trilobite.processor.lang.python.frames import Frame, assigned_once, source_of
from trilobite.processor.lang.python.looping import Looping
from trilobite.processor.lang.python.surroundings import Taken
from trilobite.processor.lang.python.symbols import Symbol
from trilobite.processor.lang.python.view import View
from trilobite.processor.lang.types import Pointer
from trilobite.processor.machine import Machine


def build(
    function: Callable[..., Any], parameters: Mapping[str, Any], meta: Mapping[str, Any], machine: Machine
) -> tuple[KernelModule, list[Taken]]:
    """The module of a kernel, and what it took from its surroundings.

    `parameters` are annotations by name, `meta` values by name.
    """
    source = source_of(function)
    module = KernelModule(source.file)
    entry = module.add_function(Function(function.__name__, entry=True))
    builder = Builder(module, entry)
    builder.location = entry.location = source.location(source.node)
    context = BuildContext(builder, machine)
    walker = Walker(context)
    frame = Frame(source, function, function.__name__, single=assigned_once(source.node))
    with within(context):
        for name, annotation in parameters.items():
            walker.parameter(frame, name, annotation)
        for name, value in meta.items():
            frame.names[name] = value
        walker.block(frame, source.node.body)
        if builder.is_open:
            builder.ret()
    for block in entry.blocks:
        if block.terminator is None:
            builder.block = block
            builder.ret()
    return module, list(context.taken.values())


class Walker(Looping):
    """Goes through statements in order, writing IR."""

    def parameter(self, frame: Frame, name: str, annotation: Any) -> None:
        if isinstance(annotation, GlobalPointer):
            kind: Any = Pointer("gdram")
        else:
            kind = I64 if annotation is int else annotation.fmt
        value = self.builder.function.blocks[0].add_argument(kind, name)
        if isinstance(annotation, GlobalPointer):
            shape = annotation.shape or (None,)
            bound: Any = View(value, annotation.dtype.fmt, shape, "gdram")
        else:
            whole = isinstance(annotation, DType) and annotation.fmt.kind != "float"
            bound = self.context.symbol(self.context.widened(value) if whole else value)
        self.names.assign(frame, name, bound)

    def block(self, frame: Frame, statements: list[ast.stmt]) -> None:
        for statement in statements:
            if frame.left is not None:
                return
            self.at(frame, statement)
            handler = _STATEMENTS.get(type(statement))
            if handler is None:
                raise self.refuse(
                    frame, statement, f"a kernel cannot contain `{type(statement).__name__.lower()}`",
                    "assignments, if, for, while, break, continue, return, assert, calls", "write it so",
                )  # fmt: skip
            handler(self, frame, statement)

    # assignments
    def _assign(self, frame: Frame, node: ast.Assign) -> None:
        value = self.named_value(frame, node.value, node.targets[0])
        for target in node.targets:
            self.store(frame, target, value)

    def named_value(self, frame: Frame, node: ast.expr, target: ast.expr) -> Any:
        """A buffer that is made here takes the name it is assigned to."""
        if (
            isinstance(target, ast.Tuple)
            and isinstance(node, ast.Tuple)
            and len(target.elts) == len(node.elts)
        ):
            pairs = zip(node.elts, target.elts, strict=True)
            return tuple(self.named_value(frame, value, place) for value, place in pairs)
        self.context.buffer_name = target.id if isinstance(target, ast.Name) else "buffer"
        return self.evaluate(frame, node)

    def _annotated(self, frame: Frame, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.store(frame, node.target, self.named_value(frame, node.value, node.target))

    def _augmented(self, frame: Frame, node: ast.AugAssign) -> None:
        target = node.target
        loaded = ast.copy_location(_as_load(target), target)
        value = self.operate(
            frame, node, node.op, self.evaluate(frame, loaded), self.evaluate(frame, node.value)
        )
        self.store(frame, target, value)

    def store(self, frame: Frame, target: ast.expr, value: Any) -> None:
        if isinstance(target, ast.Name):
            self.names.assign(frame, target.id, value)
        elif isinstance(target, (ast.Tuple, ast.List)):
            if not isinstance(value, (tuple, list)) or len(value) != len(target.elts):
                raise self.refuse(
                    frame, target, "the sides of the assignment differ in length", "as many values as names",
                    "write one value for each name",
                )  # fmt: skip
            for element, part in zip(target.elts, value, strict=True):
                self.store(frame, element, part)
        elif isinstance(target, ast.Subscript):
            place = self.evaluate(frame, target.value)
            index = self.evaluate(frame, target.slice)
            self.at(frame, target)
            if not isinstance(place, View):
                raise self.refuse(
                    frame, target, "an element of a constant is assigned", "a view", "use a buffer"
                )
            place[index] = value
        else:
            raise self.refuse(
                frame, target, "this cannot be assigned to", "a name or an element", "rename it"
            )

    # control
    def _if(self, frame: Frame, node: ast.If) -> None:
        truth = self.condition(frame, node.test)
        if not isinstance(truth, Symbol):
            self.block(frame, node.body if truth else node.orelse)
            return
        function = self.builder.function
        yes, no, join = (function.add_block(name) for name in ("then", "else", "join"))
        self.builder.branch(truth.value, yes, no)
        for start, statements in ((yes, node.body), (no, node.orelse)):
            self.builder.block = start
            self._inside(frame, statements)
            if self.builder.is_open:
                self.builder.jump(join)
        self.builder.block = join

    def _inside(self, frame: Frame, statements: list[ast.stmt]) -> None:
        frame.depth += 1
        self.block(frame, statements)
        frame.depth -= 1

    def _leave(self, frame: Frame, node: ast.Break | ast.Continue) -> None:
        if not frame.loops:
            raise self.refuse(
                frame, node, "`break` or `continue` outside a loop of the run",
                "a loop over range or while", "use an if",
            )  # fmt: skip
        target = frame.loops[-1]
        self.builder.jump(target.out if isinstance(node, ast.Break) else target.onward)
        self.builder.block = self.builder.function.add_block("behind a jump")
        if target.unrolled_at == frame.depth:
            frame.left = node
        elif target.unrolled_at is not None:
            # From here on not every statement of the copies is reached: names need variables.
            target.unrolled_at += 1
            frame.depth += 1

    def _return(self, frame: Frame, node: ast.Return) -> None:
        value = None if node.value is None else self.evaluate(frame, node.value)
        if frame.out is None:
            if value is not None:
                raise self.refuse(
                    frame, node, "a kernel returns a value", "none", "store it through a pointer"
                )
            self.builder.ret()
        else:
            self._give_back(frame, value)
            self.builder.jump(frame.out)
        self.builder.block = self.builder.function.add_block("behind a return")
        if frame.depth == 0:
            frame.left = node

    def _give_back(self, frame: Frame, value: Any) -> None:
        frame.returned.append(value)
        parts = value if isinstance(value, tuple) else (value,)
        for place, part in enumerate(parts):
            if part is not None:
                self.names.assign(frame, f"(result {place})", part)

    def _assert(self, frame: Frame, node: ast.Assert) -> None:
        truth = self.condition(frame, node.test)
        message = self.evaluate(frame, node.msg) if node.msg is not None else "assertion failed"
        if not isinstance(truth, Symbol):
            if not truth:
                raise self.refuse(frame, node, str(message), "a condition that holds", "see the assertion")
            return
        wrong, fine = (self.builder.function.add_block(n) for n in ("assertion", "holds"))
        self.builder.branch(truth.value, fine, wrong)
        self.builder.block = wrong
        self.context.trap(str(message))
        self.builder.jump(fine)
        self.builder.block = fine

    def _expression(self, frame: Frame, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):  # a docstring
            self.evaluate(frame, node.value)

    def _pass(self, frame: Frame, node: ast.stmt) -> None:
        """Nothing to do."""

    # device functions
    def inline(
        self, frame: Frame, node: ast.Call, function: FunctionType, args: list[Any], named: dict[str, Any]
    ) -> Any:
        """The body of a function of the user's, in the place of its call."""
        import inspect

        if function in [f.function for f in self._chain]:
            names = " -> ".join([*(f.function.__name__ for f in self._chain), function.__name__])
            raise self.refuse(
                frame, node, f"{function.__name__} calls itself: {names}",
                "functions that do not recurse: calls are inlined", "write the recursion as a loop",
            )  # fmt: skip
        bound = inspect.signature(function).bind(*args, **named)
        bound.apply_defaults()
        source = source_of(function)
        inner = Frame(
            source, function, function.__name__, (*frame.path, node), single=assigned_once(source.node)
        )
        inner.out = self.builder.function.add_block(f"behind {function.__name__}")
        for name, value in bound.arguments.items():
            self.names.assign(inner, name, value)
        self._chain.append(inner)
        last = source.node.body[-1]
        direct = _only_return(source.node) and isinstance(last, ast.Return)
        self.block(inner, source.node.body[:-1] if direct else source.node.body)
        result = None
        if direct and isinstance(last, ast.Return) and last.value is not None:
            result = self.evaluate(inner, last.value)
        self._chain.pop()
        self.at(frame, node)
        if self.builder.is_open:
            self.builder.jump(inner.out)
        self.builder.block = inner.out
        return result if direct or not inner.returned else self._results(inner)

    def _results(self, inner: Frame) -> Any:
        first = inner.returned[0]
        if first is None:
            return None
        if isinstance(first, tuple):
            return tuple(self.names.read(inner, f"(result {place})") for place in range(len(first)))
        return self.names.read(inner, "(result 0)")

    @property
    def _chain(self) -> list[Frame]:
        if not hasattr(self, "_frames"):
            self._frames: list[Frame] = []
        return self._frames


def _only_return(node: ast.FunctionDef) -> bool:
    returns = [n for n in ast.walk(node) if isinstance(n, ast.Return)]
    return not returns or (len(returns) == 1 and node.body[-1] is returns[0])


def _as_load(target: ast.expr) -> ast.expr:
    if isinstance(target, ast.Name):
        return ast.Name(target.id, ast.Load())
    assert isinstance(target, ast.Subscript)
    return ast.Subscript(target.value, target.slice, ast.Load())


_STATEMENTS: dict[type, Callable[[Walker, Frame, Any], None]] = {
    ast.Assign: Walker._assign, ast.AnnAssign: Walker._annotated, ast.AugAssign: Walker._augmented,
    ast.If: Walker._if, ast.For: Walker._for, ast.While: Walker._while, ast.Break: Walker._leave,
    ast.Continue: Walker._leave, ast.Return: Walker._return, ast.Assert: Walker._assert,
    ast.Expr: Walker._expression, ast.Pass: Walker._pass,
}  # fmt: skip
