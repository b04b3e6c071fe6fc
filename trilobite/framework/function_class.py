"""`tb.Function`: a differentiable operation as a class, and the context that its forward and backward share.

Each call is one of a function with rules of its own (`rules.custom_vjp`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trilobite.base.errors import ArgumentError, GradientError
from trilobite.base.locations import user_location
from trilobite.framework.rules import custom_vjp
from trilobite.framework.tensor import Tensor


def _not_written(method: str) -> GradientError:
    return GradientError(
        f"a Function without {method}",
        where=user_location(),
        expected="static methods forward and backward",
        remedy=f"write @staticmethod def {method} in the class",
    )


class Function:
    """A differentiable operation as a class, as PyTorch users write it: static `forward(ctx, ...)`,
    `backward(ctx, ...)`.
    """

    @staticmethod
    def forward(ctx: Context, *args: Any) -> Any:
        raise _not_written("forward(ctx, *args)")

    @staticmethod
    def backward(ctx: Context, *cotangents: Any) -> Any:
        raise _not_written("backward(ctx, *cotangents)")

    @classmethod
    def apply(cls, *args: Any) -> Any:
        """Run forward; backward uses what forward saved on `ctx`."""
        static = [i for i, a in enumerate(args) if not isinstance(a, Tensor)]
        contexts: list[Context] = []

        def plain(*inner: Any) -> Any:
            return cls.forward(Context(), *inner)

        def fwd(*inner: Any) -> Any:
            ctx = Context()
            out = cls.forward(ctx, *inner)
            contexts[:] = [ctx]
            return out, tuple(ctx.saved_tensors)

        def bwd(saved: Any, ct: Any) -> Any:
            ctx = contexts[0].with_saved(saved)
            cts = cls.backward(ctx, *(ct if isinstance(ct, tuple) else (ct,)))
            cts = cts if isinstance(cts, tuple) else (cts,)
            if len(cts) != len(args):
                raise ArgumentError(
                    f"{cls.__name__}.backward returned {len(cts)} gradients",
                    where=user_location(),
                    expected=f"one per argument of forward: {len(args)}",
                    remedy="return a tuple, with None for arguments that need no gradient",
                )
            return tuple(c for i, c in enumerate(cts) if i not in static)

        plain.__name__ = cls.__name__
        rule = custom_vjp(plain, static)
        rule.defvjp(fwd, bwd)
        return rule(*args)


class Context:
    """What `Function.forward` leaves for `backward`: tensors by save_for_backward, anything else as
    attributes.
    """

    def __init__(self) -> None:
        self.saved_tensors: tuple[Tensor, ...] = ()

    def save_for_backward(self, *tensors: Tensor) -> None:
        self.saved_tensors = tensors

    def with_saved(self, tensors: Sequence[Tensor]) -> Context:
        out = Context()
        out.__dict__.update(self.__dict__)
        out.saved_tensors = tuple(tensors)
        return out
