"""Hooks of a module: functions called around forward, and when gradients pass its outputs and inputs.

Backward hooks stand on the tape as two nodes, one behind the inputs and one behind the outputs of the call.
They fire where that tape is walked: by `backward()`, `grad` and `vjp`, eager or inside the recorded function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from trilobite.base import pytree
from trilobite.base.errors import ArgumentError
from trilobite.base.locations import user_location
from trilobite.framework.change_counter import count_change
from trilobite.framework.tensor import Tensor, wrap
from trilobite.ir.primitive import Value
from trilobite.ir.transforms.tape import Tape, Taped

if TYPE_CHECKING:
    from trilobite.framework.nn.module import Module

Hook = Callable[..., Any]


class Row(NamedTuple):
    """One hook and how it is called."""

    fn: Hook
    with_kwargs: bool = False
    always: bool = False


class Hooks:
    """The hooks of one module, by the moment they are called at."""

    __slots__ = ("backward", "backward_pre", "forward", "forward_pre")

    def __init__(self) -> None:
        self.forward_pre: list[Row] = []
        self.forward: list[Row] = []
        self.backward_pre: list[Row] = []
        self.backward: list[Row] = []

    def all(self) -> list[Row]:
        return [*self.forward_pre, *self.forward, *self.backward_pre, *self.backward]

    def copy(self) -> Hooks:
        out = Hooks()
        for name in Hooks.__slots__:
            setattr(out, name, list(getattr(self, name)))
        return out


class Handle:
    """Takes a hook away again: call it or its `remove()`, or use it as a context."""

    def __init__(self, rows: list[Row], row: Row) -> None:
        self._rows, self._row = rows, row

    def remove(self) -> None:
        count_change()
        self._rows[:] = [r for r in self._rows if r is not self._row]

    __call__ = remove

    def __enter__(self) -> Handle:
        return self

    def __exit__(self, *error: object) -> None:
        self.remove()


def enter(rows: list[Row], row: Row, prepend: bool) -> Handle:
    if not callable(row.fn):
        raise ArgumentError(f"a hook {row.fn!r}", where=user_location(), expected="a function")
    count_change()
    rows.insert(0 if prepend else len(rows), row)
    return Handle(rows, row)


class Hooked:
    """What a module offers to whoever wants to listen."""

    _hooks: Hooks | None

    def _refuse_recorded(self, name: str) -> None:
        raise NotImplementedError

    def _hook(self, moment: str, row: Row, prepend: bool) -> Handle:
        self._refuse_recorded(f"a {moment} hook")
        if self._hooks is None:
            self.__dict__["_hooks"] = Hooks()
        return enter(getattr(self._hooks, moment), row, prepend)

    def register_forward_pre_hook(
        self, hook: Hook, *, prepend: bool = False, with_kwargs: bool = False
    ) -> Handle:
        """`hook(module, args[, kwargs])` before forward; what it returns replaces the arguments."""
        return self._hook("forward_pre", Row(hook, with_kwargs), prepend)

    def register_forward_hook(
        self,
        hook: Hook,
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> Handle:
        """`hook(module, args[, kwargs], result)` after forward; what it returns replaces the result."""
        return self._hook("forward", Row(hook, with_kwargs, always_call), prepend)

    def register_full_backward_pre_hook(self, hook: Hook, prepend: bool = False) -> Handle:
        """`hook(module, grad_output)` when gradients arrive at the results; what it returns replaces them."""
        return self._hook("backward_pre", Row(hook), prepend)

    def register_full_backward_hook(self, hook: Hook, prepend: bool = False) -> Handle:
        """`hook(module, grad_input, grad_output)` when gradients leave; its result replaces grad_input."""
        return self._hook("backward", Row(hook), prepend)


def call(module: Module, hooks: Hooks, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """forward with everything around it."""
    for row in list(hooks.forward_pre):
        args, kwargs = _before(module, row, args, kwargs)
    watch = Watch(module, hooks) if hooks.backward or hooks.backward_pre else None
    if watch is not None:
        args = watch.inputs(args)
    try:
        out = module.forward(*args, **kwargs)
    except BaseException:
        for row in hooks.forward:
            if row.always:
                _after(module, row, args, kwargs, None)
        raise
    for row in list(hooks.forward):
        out = _after(module, row, args, kwargs, out)
    return out if watch is None else watch.outputs(out)


def _before(
    module: Module, row: Row, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if not row.with_kwargs:
        out = row.fn(module, args)
        return (args if out is None else out if isinstance(out, tuple) else (out,)), kwargs
    out = row.fn(module, args, kwargs)
    if out is None:
        return args, kwargs
    if not (isinstance(out, tuple) and len(out) == 2 and isinstance(out[1], dict)):
        raise ArgumentError(
            f"a forward pre-hook of {type(module).__name__} returned {type(out).__name__}",
            where=user_location(),
            expected="None, or the pair (args, kwargs) since it was registered with with_kwargs=True",
        )
    return out


def _after(module: Module, row: Row, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> Any:
    result = row.fn(module, args, kwargs, out) if row.with_kwargs else row.fn(module, args, out)
    return out if result is None else result


class Watch:
    """One call of a module with backward hooks: what arrives at its outputs and leaves by its inputs."""

    def __init__(self, module: Module, hooks: Hooks) -> None:
        self.module, self.hooks = module, hooks
        self.taped_inputs = False
        self.at_outputs: tuple[Any, ...] = ()

    def inputs(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        out, self.taped_inputs = _through(args, self._leaving)
        return tuple(out)

    def outputs(self, out: Any) -> Any:
        leaves, tree = pytree.flatten(out, lambda x: isinstance(x, Tensor))
        watched, _ = _through(leaves, self._arriving)
        return tree.unflatten(watched)

    def _arriving(self, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        for row in self.hooks.backward_pre:
            grads = _replaced(row.fn(self.module, grads), grads, self.module)
        self.at_outputs = grads
        if not self.taped_inputs:
            self._leaving((None,))
        return grads

    def _leaving(self, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        for row in self.hooks.backward:
            grads = _replaced(row.fn(self.module, grads, self.at_outputs), grads, self.module)
        return grads


def _replaced(result: Any, grads: tuple[Any, ...], module: Module) -> tuple[Any, ...]:
    if result is None:
        return grads
    new = result if isinstance(result, tuple) else (result,)
    if len(new) != len(grads):
        raise ArgumentError(
            f"a backward hook of {type(module).__name__} returned {len(new)} gradients",
            where=user_location(),
            expected=f"None, or as many as it was given: {len(grads)}",
        )
    return new


def _through(
    leaves: Sequence[Any], hook: Callable[[tuple[Any, ...]], tuple[Any, ...]]
) -> tuple[list[Any], bool]:
    """The leaves; those on the topmost tape pass one node that shows their gradients to `hook`."""
    out = list(leaves)
    values = [x._read() if isinstance(x, Tensor) else None for x in out]
    tape = _topmost(values)
    if tape is None:
        return out, False
    at = [i for i, v in enumerate(values) if isinstance(v, Taped) and v.interpreter is tape]

    def linearize(operands: Sequence[Value]) -> tuple[list[Value], Any]:
        def pullback(cotangents: Sequence[Value]) -> list[Any]:
            shown: list[Any] = [None] * len(out)
            for i, ct in zip(at, cotangents, strict=True):
                shown[i] = wrap(ct)
            grads = hook(tuple(shown))
            return [None if grads[i] is None else grads[i]._read() for i in at]

        return list(operands), pullback

    for i, v in zip(at, tape.opaque("module", linearize, [values[i] for i in at]), strict=True):
        out[i] = wrap(v)
    return out, True


def _topmost(values: Sequence[Any]) -> Tape | None:
    tapes = [v.interpreter for v in values if isinstance(v, Taped)]
    found = max(tapes, key=lambda t: t.level, default=None)
    return found if isinstance(found, Tape) and found.records() else None
