"""Names of a kernel while it is compiled: what each is bound to, and the variables behind them.

A name that is assigned once, outside runtime control flow, simply is its value. Any other name that holds a
scalar or a view lives in IR variables, so that loops and branches may change it. Every scalar gets a variable
either way: the debugger shows it.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from trilobite.base.errors import KernelError
from trilobite.processor.isa.formats import F32, I64, Format
from trilobite.processor.lang.ir import Block, Location, Value, Variable
from trilobite.processor.lang.python.symbols import Symbol, value_of
from trilobite.processor.lang.python.view import View
from trilobite.processor.lang.types import is_float


@dataclass(frozen=True)
class Source:
    """The syntax tree of a function, with the lines and columns of its file."""

    node: ast.FunctionDef
    file: str
    first_line: int
    indent: int

    def location(self, node: ast.AST) -> Location:
        line = getattr(node, "lineno", 1)
        return Location(
            self.file, line + self.first_line - 1, getattr(node, "col_offset", 0) + self.indent + 1
        )


def source_of(function: Callable[..., Any]) -> Source:
    """Reads the function's text; a function without one cannot be compiled."""
    try:
        lines, first = inspect.getsourcelines(function)
        file = inspect.getsourcefile(function) or "<unknown>"
    except (OSError, TypeError) as error:
        raise KernelError(
            f"the source of {getattr(function, '__name__', function)!r} cannot be read: {error}",
            expected="a function that is written in a file",
            remedy="put the kernel into a .py file",
        ) from error
    text = "".join(lines)
    dedented = textwrap.dedent(text)
    indent = len(lines[0]) - len(lines[0].lstrip())
    module = ast.parse(dedented)
    node = next((n for n in module.body if isinstance(n, ast.FunctionDef)), None)
    if node is None:
        raise KernelError(
            "a kernel must be a plain function",
            where=Location(file, first),
            expected="def name(...): ...",
            remedy="write it as a function, not as a lambda or a coroutine",
        )
    return Source(node, file, first, indent)


@dataclass
class Slot:
    """A scalar that lives in a variable."""

    variable: Variable


@dataclass
class ViewSlot:
    """A view whose address, and whatever else only a run knows, lives in variables."""

    address: Variable
    model: View
    extents: tuple[Any, ...]  # a Slot where the extent is not known
    strides: tuple[Any, ...]


@dataclass
class LoopTargets:
    """Where `continue` and `break` go; `unrolled_at` is an unrolled loop's depth in branches of the run."""

    onward: Block
    out: Block
    unrolled_at: int | None = None


@dataclass
class Frame:
    """One function under way: the entry, or a device function that is being inlined."""

    source: Source
    function: Callable[..., Any]
    scope: str
    path: tuple[object, ...] = ()
    names: dict[str, Any] = field(default_factory=dict)
    single: frozenset[str] = frozenset()
    depth: int = 0
    loops: list[LoopTargets] = field(default_factory=list)
    out: Block | None = None
    returned: list[Any] = field(default_factory=list)
    left: ast.stmt | None = None  # the return, break or continue that the compiler itself has taken


def assigned_once(node: ast.FunctionDef) -> frozenset[str]:
    """Names that one place of the function assigns."""
    counts: dict[str, int] = {}
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store):
            counts[inner.id] = counts.get(inner.id, 0) + 1
        if isinstance(inner, ast.AugAssign) and isinstance(inner.target, ast.Name):
            counts[inner.target.id] = counts.get(inner.target.id, 0) + 1
    arguments = [a.arg for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
    for name in arguments:
        counts[name] = counts.get(name, 0) + 1
    return frozenset(name for name, count in counts.items() if count == 1)


class Names:
    """Assigns and reads names in a frame, through the context's builder."""

    def __init__(self, context: Any) -> None:
        self.context = context

    @property
    def builder(self) -> Any:
        return self.context.builder

    def read(self, frame: Frame, name: str) -> Any:
        bound = frame.names[name]
        if isinstance(bound, Slot):
            return self.get(bound)
        if isinstance(bound, ViewSlot):
            return self._view(bound)
        return bound

    def get(self, slot: Slot) -> Symbol:
        return Symbol(self.builder, self.builder.get(slot.variable))

    def _view(self, slot: ViewSlot) -> View:
        shape = tuple(self.get(e) if isinstance(e, Slot) else e for e in slot.extents)
        strides = tuple(self.get(s) if isinstance(s, Slot) else s for s in slot.strides)
        address = self.builder.get(slot.address)
        return View(address, slot.model.fmt, shape, slot.model.space, strides, slot.model.packed)

    def assign(self, frame: Frame, name: str, value: Any) -> None:
        """Binds the name; a runtime value under control flow goes into variables."""
        fixed = name in frame.single and frame.depth == 0
        if isinstance(value, View):
            self._assign_view(frame, name, value, fixed)
        elif isinstance(value, Symbol):
            self._assign_scalar(frame, name, value, fixed)
        elif isinstance(value, (bool, int, float)) and name not in frame.single:
            self._assign_scalar(frame, name, value, False)
        elif frame.depth and name in frame.names and name not in frame.single:
            raise self.context.error(
                f"{name!r} would become {type(value).__name__} inside a branch or loop of the run",
                "a scalar or a view",
                "give each value a name of its own",
            )
        else:
            self._show(frame, name, value)
            frame.names[name] = value

    def _show(self, frame: Frame, name: str, value: Any) -> None:
        """A constant is a variable too, for the debugger."""
        if isinstance(value, (bool, int, float)):
            fmt = F32 if isinstance(value, float) else I64
            if fmt is I64 and not -(1 << 63) <= int(value) < 1 << 63:
                return
            variable = self._variable(frame, name, fmt)
            self.builder.set(variable, value_of(self.builder, value, fmt))

    def _variable(self, frame: Frame, name: str, kind: Any) -> Variable:
        found: Variable = self.builder.function.add_variable(name, kind, frame.scope, self.builder.location)
        return found

    def _assign_scalar(self, frame: Frame, name: str, value: Any, fixed: bool) -> None:
        if fixed:
            self.builder.set(self._variable(frame, name, value.fmt), value.value)
            frame.names[name] = value
            return
        bound = frame.names.get(name)
        if not isinstance(bound, Slot):
            if isinstance(value, Symbol):
                fmt = value.fmt
            else:
                fmt = F32 if isinstance(value, float) else I64
            bound = frame.names[name] = Slot(self._variable(frame, name, fmt))
        self.builder.set(bound.variable, self._fitting(name, value, bound.variable))

    def _fitting(self, name: str, value: Any, variable: Variable) -> Value:
        fmt = variable.type
        assert isinstance(fmt, Format)
        given = value.fmt if isinstance(value, Symbol) else F32 if isinstance(value, float) else I64
        if is_float(given) and not is_float(fmt):
            raise self.context.error(
                f"{name!r} is an integer and would become a float",
                "one type for a name",
                f"begin with a float: {name} = 0.0, or convert with dlp.i64(...)",
            )
        return value_of(self.builder, value, fmt)

    def _assign_view(self, frame: Frame, name: str, view: View, fixed: bool) -> None:
        if fixed:
            frame.names[name] = view
            return
        bound = frame.names.get(name)
        if not isinstance(bound, ViewSlot):
            address = self._variable(frame, f"{name}.address", view.address.type)
            bound = frame.names[name] = ViewSlot(
                address, view, self._hold(frame, name, view.shape), self._hold(frame, name, view.strides)
            )
        model = bound.model
        if (model.fmt, model.space, model.ndim) != (view.fmt, view.space, view.ndim):
            raise self.context.error(
                f"{name!r} is {model} and would become {view}", "one kind of view", "rename it"
            )
        self.builder.set(bound.address, view.address)
        for held, given in ((bound.extents, view.shape), (bound.strides, view.strides)):
            for slot, extent in zip(held, given, strict=True):
                self._set_extent(name, slot, extent)

    def _hold(self, frame: Frame, name: str, extents: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(
            Slot(self._variable(frame, f"{name}.extent", I64)) if isinstance(e, Symbol) else e
            for e in extents
        )

    def _set_extent(self, name: str, slot: Any, extent: Any) -> None:
        if isinstance(slot, Slot):
            self.builder.set(slot.variable, value_of(self.builder, extent, I64))
        elif isinstance(extent, Symbol) or extent != slot:
            raise self.context.error(
                f"{name!r} would change an extent from {slot} to {extent}", "the same extents", "use .view"
            )
