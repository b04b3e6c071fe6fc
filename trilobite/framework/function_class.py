"""`tb.Function`: a differentiable operation as a class, and the context that its forward and backward share.

Each call is one of a function with rules of its own (`rules.custom_vjp`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from trilobite.base.errors import ArgumentError, GradientError
from trilobite.base.locations import user_location
from trilobite.framework.rules import custom_vjp
from trilobite.framework.tensor import Tensor
from trilobite.ir.transforms import bind as entry
from trilobite.ir.types import Shape


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
        """Run forward; backward uses what forward, or `setup_context` after it, saved on `ctx`."""
        static = [i for i, a in enumerate(args) if not isinstance(a, Tensor)]
        contexts: list[Context] = []
        shapes = [a.shape if isinstance(a, Tensor) else () for a in args]  # before backward is recorded
        needs = tuple(isinstance(a, Tensor) and a.requires_grad for a in args)

        def plain(*inner: Any) -> Any:
            return cls._forward(Context(needs), inner)

        def fwd(*inner: Any) -> Any:
            ctx = Context(needs)
            out = cls._forward(ctx, inner)
            ctx.leaves = {n: a for n, t in enumerate(ctx.tensors()) for a in _leaf_behind(t, inner, args)}
            contexts[:] = [ctx]
            return out, ctx.tensors()

        def bwd(saved: Any, ct: Any) -> Any:
            ctx = contexts[0].with_saved(_with_leaves(saved, contexts[0].leaves, ct))
            cts = cls.backward(ctx, *(ct if isinstance(ct, (tuple, list)) else (ct,)))
            cts = tuple(cts) if isinstance(cts, (tuple, list)) else (cts,)
            while len(cts) > len(args) and cts[-1] is None:
                cts = cts[:-1]
            if len(cts) != len(args):
                raise ArgumentError(
                    f"{cls.__name__}.backward returned {len(cts)} gradients",
                    where=user_location(),
                    expected=f"one per argument of forward: {len(args)}",
                    remedy="return a tuple, with None for arguments that need no gradient",
                )
            return tuple(_summed(c, shapes[i]) for i, c in enumerate(cts) if i not in static)

        plain.__name__ = cls.__name__
        rule = custom_vjp(plain, static)
        rule.defvjp(fwd, bwd)
        return rule(*args)

    @classmethod
    def _forward(cls, ctx: Context, args: Sequence[Any]) -> Any:
        """Both ways to write it: `forward(ctx, ...)`, or `forward(...)` and `setup_context`."""
        setup = getattr(cls, "setup_context", None)
        if setup is None:
            out = cls.forward(ctx, *args)
        else:
            out = cls.forward(*args)
            setup(ctx, tuple(args), out)
        return ctx.without_gradient(out)


def _summed(ct: Any, shape: Shape) -> Any:
    """A gradient in the shape of its argument: of one that forward repeated, as in PyTorch the sum."""
    if not isinstance(ct, Tensor) or ct.shape == shape or len(ct.shape) < len(shape):
        return ct
    pairs = zip(reversed(shape), reversed(ct.shape), strict=False)
    return ct.sum_to_size(*shape) if all(a in (1, c) for a, c in pairs) else ct


def _leaf_behind(saved: Tensor, inner: Sequence[Any], args: Sequence[Any]) -> list[Tensor]:
    """The argument that a saved tensor is, if that is a leaf of the eager tape."""
    pairs = zip(inner, args, strict=True)
    return [a for i, a in pairs if i is saved and isinstance(a, Tensor) and a._cell.leaf is not None][:1]


def _with_leaves(saved: Sequence[Tensor], leaves: dict[int, Tensor], ct: Any) -> Sequence[Tensor]:
    """What was saved; in a plain backward pass leaves are themselves: code may differentiate by them."""
    cotangents = ct if isinstance(ct, (tuple, list)) else (ct,)
    plain = all(c is None or type(c._cell.held) is np.ndarray for c in cotangents)
    if not plain or entry.threads.context.recorder is not None:
        return saved
    return [leaves.get(n, t) for n, t in enumerate(saved)]


class Context:
    """What `Function.forward` leaves for `backward`: tensors by save_for_backward, anything else as
    attributes.
    """

    def __init__(self, needs_input_grad: tuple[bool, ...] = ()) -> None:
        self._saved: tuple[Tensor | None, ...] = ()
        self._fixed: tuple[Any, ...] = ()
        self.leaves: dict[int, Tensor] = {}  # of what was saved, arguments that require gradients
        self.needs_input_grad = needs_input_grad

    def save_for_backward(self, *tensors: Any) -> None:
        """Tensors, or None where there is none."""
        self._saved = tensors

    save_for_forward = save_for_backward

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        return self._saved

    saved_variables = saved_tensors

    def tensors(self) -> tuple[Tensor, ...]:
        return tuple(t for t in self._saved if isinstance(t, Tensor))

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """These results get no gradient."""
        self._fixed = tensors

    def mark_dirty(self, *tensors: Tensor) -> None:
        """Noted by nobody: writes are seen where they happen."""

    def set_materialize_grads(self, value: bool) -> None:
        """Gradients that do not exist are zeros, whatever is asked for."""

    def without_gradient(self, out: Any) -> Any:
        """Results that were marked lose their history."""
        if not self._fixed:
            return out
        if isinstance(out, Tensor):
            return out.detach()
        return type(out)(o.detach() if any(o is f for f in self._fixed) else o for o in out)

    def with_saved(self, tensors: Sequence[Tensor]) -> Context:
        out = Context(self.needs_input_grad)
        out.__dict__.update(self.__dict__)
        given = iter(tensors)
        out._saved = tuple(next(given) if isinstance(t, Tensor) else t for t in self._saved)
        return out
