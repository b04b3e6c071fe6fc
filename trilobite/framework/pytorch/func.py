"""`tb.func`: transforms of functions under PyTorch's names. They are `tb`'s own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trilobite.framework.jacobians import hessian, jacfwd, jacrev
from trilobite.framework.mapping import vmap as _vmap
from trilobite.framework.nn.skeleton import functional_call
from trilobite.framework.transforms import grad, jvp, value_and_grad, vjp


def vmap(
    func: Callable[..., Any],
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: Any = "error",
    *,
    chunk_size: Any = None,
) -> Callable[..., Any]:
    """The function over a batch axis of its arguments."""
    return _vmap(func, in_dims, out_dims, randomness=randomness)


def grad_and_value(func: Callable[..., Any], argnums: Any = 0, has_aux: bool = False) -> Callable[..., Any]:
    """The gradient first, then the value: `tb.value_and_grad` the other way round."""
    both = value_and_grad(func, argnums=argnums, has_aux=has_aux)

    def run(*args: Any, **kwargs: Any) -> Any:
        value, slope = both(*args, **kwargs)
        return slope, value

    return run


__all__ = [
    "functional_call", "grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "vjp", "vmap",
]  # fmt: skip
