"""When derivatives are followed and when not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from trilobite.base import pytree
from trilobite.framework.transforms import is_tensor
from trilobite.ir.transforms import bind as entry


def stop_gradient(tree: Any) -> Any:
    """The same values as constants to every derivative."""
    return pytree.map(lambda x: x.detach() if is_tensor(x) else x, tree, is_leaf=is_tensor)


@contextmanager
def no_grad() -> Iterator[None]:
    """Nothing computed inside is recorded for a gradient by the tapes that are running."""
    ctx = entry.context()
    before, ctx.grad_off = ctx.grad_off, ctx.depth
    try:
        yield
    finally:
        ctx.grad_off = before


@contextmanager
def enable_grad() -> Iterator[None]:
    """Record gradients again inside no_grad()."""
    ctx = entry.context()
    before, ctx.grad_off = ctx.grad_off, 0
    try:
        yield
    finally:
        ctx.grad_off = before


def is_grad_enabled() -> bool:
    ctx = entry.context()
    return bool(ctx.ambient.level > ctx.grad_off)
