"""`tb.autograd.function`: operations with rules of their own, as classes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trilobite.framework.function_class import Context, Function

FunctionCtx = Context
InplaceFunction = NestedIOFunction = Function


def once_differentiable(fn: Callable[..., Any]) -> Callable[..., Any]:
    """The function itself: a backward of tensor operations can be differentiated again."""
    return fn


__all__ = ["Context", "Function", "FunctionCtx", "InplaceFunction", "NestedIOFunction", "once_differentiable"]
