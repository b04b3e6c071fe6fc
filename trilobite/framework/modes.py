"""When derivatives are followed and when not."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import ContextDecorator
from functools import wraps
from typing import Any

from trilobite.base import pytree
from trilobite.framework.transforms import is_tensor
from trilobite.ir.transforms import bind as entry


def stop_gradient(tree: Any) -> Any:
    """The same values as constants to every derivative."""
    return pytree.map(lambda x: x.detach() if is_tensor(x) else x, tree, is_leaf=is_tensor)


class _Mode(ContextDecorator):
    """A mode as a context and as a decorator, with or without parentheses: `@no_grad`, `@no_grad()`."""

    def __new__(cls, fn: Any = None, **settings: Any) -> Any:
        if callable(fn):
            return cls()(fn)
        return super().__new__(cls)

    def __init__(self, fn: Any = None) -> None:
        self._before: list[int] = []

    def _level(self, ctx: Any) -> int:
        raise NotImplementedError

    def __enter__(self) -> None:
        ctx = entry.context()
        self._before.append(ctx.grad_off)
        ctx.grad_off = self._level(ctx)

    def __exit__(self, *error: object) -> None:
        entry.context().grad_off = self._before.pop()

    def __call__(self, fn: Any) -> Any:
        if not inspect_generator(fn):
            return super().__call__(fn)

        @wraps(fn)
        def each(*args: Any, **kwargs: Any) -> Generator[Any, None, Any]:
            steps = fn(*args, **kwargs)
            while True:
                with self:
                    try:
                        item = next(steps)
                    except StopIteration as end:
                        return end.value
                yield item

        return each


def inspect_generator(fn: Any) -> bool:
    """Is it a function that yields? The mode then holds while it runs, not while its consumer does."""
    code = getattr(fn, "__code__", None)
    return code is not None and bool(code.co_flags & 0x20)  # CO_GENERATOR


class no_grad(_Mode):
    """Nothing computed inside is recorded for a gradient by the tapes that are running."""

    def _level(self, ctx: Any) -> int:
        return int(ctx.depth)


class enable_grad(_Mode):
    """Record gradients again inside no_grad()."""

    def _level(self, ctx: Any) -> int:
        return 0


class inference_mode(_Mode):
    """no_grad() as PyTorch calls it where nothing is trained; inference_mode(False) changes nothing."""

    def __new__(cls, mode: Any = True) -> Any:
        return super().__new__(cls, mode if callable(mode) else None)

    def __init__(self, mode: bool = True) -> None:
        super().__init__()
        self.mode = bool(mode)

    def _level(self, ctx: Any) -> int:
        return int(ctx.depth) if self.mode else int(ctx.grad_off)


class set_grad_enabled(_Mode):
    """Record gradients or not, from now on; as a context, until its end."""

    def __new__(cls, mode: bool) -> Any:
        return object.__new__(cls)

    def __init__(self, mode: bool) -> None:
        super().__init__()
        self.mode = bool(mode)
        ctx = entry.context()
        self._at_first = ctx.grad_off
        ctx.grad_off = self._level(ctx)

    def _level(self, ctx: Any) -> int:
        return 0 if self.mode else int(ctx.depth)

    def __enter__(self) -> None:
        ctx = entry.context()
        self._before.append(self._at_first)
        ctx.grad_off = self._level(ctx)

    def __call__(self, fn: Any) -> Any:
        entry.context().grad_off = self._at_first  # a decorator sets nothing where it stands
        self._at_first = entry.context().grad_off
        mode = enable_grad if self.mode else no_grad
        return mode()(fn)


def is_grad_enabled() -> bool:
    ctx = entry.context()
    return bool(ctx.ambient.level > ctx.grad_off)


def is_inference_mode_enabled() -> bool:
    return not is_grad_enabled()
