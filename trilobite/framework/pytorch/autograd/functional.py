"""`tb.autograd.functional`: derivatives of functions, called as PyTorch calls them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trilobite.framework import jacobians, transforms


def _listed(x: Any) -> tuple[Any, ...]:
    return tuple(x) if isinstance(x, (tuple, list)) else (x,)


def jacobian(func: Callable[..., Any], inputs: Any, **settings: Any) -> Any:
    """d func / d inputs: for one input a tensor, for several a tuple of them."""
    args = _listed(inputs)
    out = jacobians.jacrev(func, argnums=tuple(range(len(args))))(*args)
    return out if isinstance(inputs, (tuple, list)) else out[0]


def hessian(func: Callable[..., Any], inputs: Any, **settings: Any) -> Any:
    """The second derivatives of a function with one number as its result."""
    args = _listed(inputs)
    out = jacobians.hessian(func, argnums=tuple(range(len(args))))(*args)
    return out if isinstance(inputs, (tuple, list)) else out[0][0]


def vjp(func: Callable[..., Any], inputs: Any, v: Any = None, **settings: Any) -> Any:
    """The result, and v times the Jacobian."""
    args = _listed(inputs)
    out, back = transforms.vjp(func, *args)
    grads = back(out * 0 + 1 if v is None else v)
    return out, grads if isinstance(inputs, (tuple, list)) else grads[0]


def jvp(func: Callable[..., Any], inputs: Any, v: Any = None, **settings: Any) -> Any:
    """The result, and the Jacobian times v."""
    args = _listed(inputs)
    along = tuple(a * 0 + 1 for a in args) if v is None else _listed(v)
    return transforms.jvp(func, args, along)


__all__ = ["hessian", "jacobian", "jvp", "vjp"]
