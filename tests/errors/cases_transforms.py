"""Wrong uses of grad, vjp, jvp, vmap and custom rules."""

from __future__ import annotations

from typing import Any

import trilobite as tb
from trilobite.base.errors import ArgumentError, DTypeError, GradientError, ShapeError, TraceError

from .wrong_use import X, leaf, wrong


@wrong(
    ShapeError,
    "vmap over axes of different sizes 3 and 4",
    "one batch size",
    "in_axes=None for arguments that are not mapped",
)
def vmap_sizes() -> Any:
    return tb.vmap(lambda a, b: a + b)(X, tb.ones((4,)))


@wrong(
    ShapeError,
    "vmap over axis 0 of a tensor of shape ()",
    "an axis that it has",
    "in_axes=None for arguments that are not mapped",
)
def vmap_0d() -> Any:
    return tb.vmap(lambda a: a)(tb.tensor(1.0))


@wrong(
    ShapeError,
    "vmap over axis 3 of a tensor of shape (3,)",
    "an axis that it has",
    "in_axes=None for arguments that are not mapped",
)
def vmap_axis() -> Any:
    return tb.vmap(lambda a: a, in_axes=3)(X)


@wrong(
    ArgumentError,
    "vmap with nothing to map over",
    "at least one argument whose in_axes is not None",
    "call the function without vmap, or map an argument: in_axes=0",
)
def vmap_None() -> Any:
    return tb.vmap(lambda a: a, in_axes=None)(X)


@wrong(
    ArgumentError,
    "vmap(in_axes=(0,)) for a structure Tree((*, *))",
    "one axis for all, or the same structure with an axis for each",
    "in_axes=0 maps everything along the first axis, None maps",
)
def vmap_in_axes_len() -> Any:
    return tb.vmap(lambda a, b: a, in_axes=(0,))(X, X)


@wrong(
    ArgumentError,
    "vmap(in_axes='a')",
    "integers, and None for what is not mapped",
    "in_axes=0 maps everything along the first axis",
)
def vmap_in_axes_str() -> Any:
    return tb.vmap(lambda a: a, in_axes="a")(X)


@wrong(
    ShapeError,
    "vmap(out_axes=5) for a result of 0 dimensions",
    "-1 <= axis < 1, for the batch is one more",
    "out_axes=0 puts the batch in front",
)
def vmap_out_axes() -> Any:
    return tb.vmap(lambda a: a, out_axes=5)(X)


@wrong(
    ArgumentError,
    "out_axes=None for a result that depends on the batch",
    "the axis for the batch",
    "out_axes=0, or reduce the result over the batch outside",
)
def vmap_out_None() -> Any:
    return tb.vmap(lambda a: a, out_axes=None)(X)


@wrong(
    ArgumentError,
    "vmap(out_axes=(0, 0)) for a structure Tree(*)",
    "one axis for all, or the same structure with an axis for each",
    "out_axes=0 maps everything along the first axis, None maps",
)
def vmap_out_struct() -> Any:
    return tb.vmap(lambda a: a, out_axes=(0, 0))(X)


@wrong(
    TraceError,
    "random numbers inside vmap",
    "a decision whether the batch shares them",
    "vmap(..., randomness='different') or 'same'",
)
def vmap_rand() -> Any:
    return tb.vmap(lambda a: a + tb.rand(()))(X)


@wrong(
    TraceError,
    "a Python branch on a tensor inside vmap, where only a run knows",
    "a program that is the same for all values",
    "choose with tb.where, or use tb.cond, tb.while_loop, tb.scan",
)
def vmap_branch() -> Any:
    return tb.vmap(lambda a: a if a > 1 else -a)(X)


@wrong(
    TraceError,
    "item() of a tensor inside vmap, where only a run knows its value",
    "a program that is the same for all values",
    "keep it a tensor, or return it and look at it outside",
)
def vmap_item() -> Any:
    return tb.vmap(lambda a: a.item())(X)


@wrong(
    ArgumentError,
    "vmap(randomness='X')",
    "'error', 'same' or 'different'",
    "'different' draws anew for every entry of the batch",
)
def vmap_randomness() -> Any:
    return tb.vmap(lambda a: a, randomness="X")


@wrong(
    ArgumentError,
    "argnums 2 for a call with 1 positional arguments",
    "integers from -1 to 0",
    "name arguments by position, and pass them by position",
)
def argnums() -> Any:
    return tb.grad(lambda a: a.sum(), argnums=2)(X)


@wrong(
    ArgumentError,
    "argnums 'a' for a call with 1 positional arguments",
    "integers from -1 to 0",
    "name arguments by position, and pass them by position",
)
def argnums_str() -> Any:
    return tb.grad(lambda a: a.sum(), argnums="a")(X)


@wrong(
    GradientError,
    "grad of a function that returns f32[3]",
    "one float scalar",
    "reduce the result, or use vjp or jacrev",
)
def grad_nonscalar() -> Any:
    return tb.grad(lambda a: a)(X)


@wrong(
    DTypeError,
    "grad with respect to argument 0, which is int64",
    "float or complex tensors",
    "cast it, or choose other arguments with argnums",
)
def grad_int() -> Any:
    return tb.grad(lambda a: a.sum())(tb.tensor([1, 2]))


@wrong(
    GradientError,
    "grad of a function with a complex result",
    "a real scalar",
    "take tb.real or tb.abs of it, or use vjp",
)
def grad_complex() -> Any:
    return tb.grad(lambda a: (a * 1j).sum())(X)


@wrong(
    GradientError,
    "grad of a function that returns no tensor",
    "one float scalar",
    "reduce the result, or use vjp or jacrev",
)
def grad_none() -> Any:
    return tb.grad(lambda a: None)(X)


@wrong(
    GradientError,
    "grad of a function that returns i32[]",
    "one float scalar",
    "reduce the result, or use vjp or jacrev",
)
def grad_intout() -> Any:
    return tb.grad(lambda a: a.sum().astype(tb.int32))(X)


@wrong(
    ArgumentError,
    "has_aux=True, but the function did not return a pair",
    "(result, auxiliary)",
    "return result, auxiliary, or leave has_aux away",
)
def grad_aux() -> Any:
    return tb.grad(lambda a: a.sum(), has_aux=True)(X)


@wrong(ArgumentError, "grad of Tensor", "a function", "pass the function itself: f, not f(x)")
def grad_notfn() -> Any:
    return tb.grad(X)


@wrong(
    GradientError,
    "backward() inside grad, jvp or vmap",
    "the function's result, which the transform differentiates itself",
    "use tb.grad on the inner function; backward() only walks the",
)
def grad_backward() -> Any:
    return tb.grad(lambda a: (a.sum().backward(), a.sum())[1])(X)


@wrong(
    ArgumentError,
    "tangents of structure Tree((*, *))",
    "that of the primals: Tree((*,))",
    "pass two tuples: jvp(f, (x, y), (dx, dy))",
)
def jvp_struct() -> Any:
    return tb.jvp(lambda a: a, (X,), (X, X))


@wrong(
    ShapeError,
    "a tangent of shape (2,) for an argument of shape (3,)",
    "equal shapes",
    "tb.zeros_like(argument) for one that stands still",
)
def jvp_shape() -> Any:
    return tb.jvp(lambda a: a, (X,), (tb.ones((2,)),))


@wrong(
    ArgumentError,
    "jvp with primals of type Tensor",
    "a tuple with one entry per argument",
    "jvp(f, (x,), (dx,))",
)
def jvp_nontuple() -> Any:
    return tb.jvp(lambda a: a, X, X)


@wrong(
    ShapeError,
    "a cotangent of shape (2,) for a result of shape (3,)",
    "equal shapes",
    "tb.ones_like(result) sums over it",
)
def vjp_shape() -> Any:
    return tb.vjp(lambda a: a, X)[1](tb.ones((2,)))


@wrong(
    ArgumentError,
    "a cotangent of structure Tree((*, *))",
    "that of the results: Tree(*)",
    "pass one tensor for each tensor that the function returned",
)
def vjp_struct() -> Any:
    return tb.vjp(lambda a: a, X)[1]((X, X))


@wrong(
    DTypeError,
    "grad with respect to argument 0, which is int64",
    "float or complex tensors",
    "cast it, or choose other arguments with argnums",
)
def jacrev_int() -> Any:
    return tb.jacrev(lambda a: a)(tb.tensor([1, 2]))


@wrong(
    GradientError,
    "custom_vjp function f has no rule yet",
    "a forward and a backward rule",
    "call f.defvjp(fwd, bwd) first",
)
def cvjp_none() -> Any:

    @tb.custom_vjp
    def f(a):
        return a

    f(X)


@wrong(
    ArgumentError,
    "the backward rule of f returned 1 cotangents",
    "one per argument: 2",
    "return a tuple, with None where the cotangent is zero",
)
def cvjp_count() -> Any:

    @tb.custom_vjp
    def f(a, b):
        return a * b

    f.defvjp(lambda a, b: (a * b, (a, b)), lambda r, ct: (ct,))
    tb.grad(lambda a: f(a, a).sum())(X)


@wrong(
    ArgumentError,
    "cotangent 0 from the backward rule of f has shape ()",
    "the argument's shape (3,)",
    "sum over the axes that forward broadcast",
)
def cvjp_shape() -> Any:

    @tb.custom_vjp
    def f(a):
        return a * 2

    f.defvjp(lambda a: (a * 2, ()), lambda r, ct: (ct.sum(),))
    tb.grad(lambda a: f(a).sum())(X)


@wrong(
    ArgumentError,
    "the forward rule of f did not return a pair",
    "(result, residuals)",
    "return result, None if backward needs nothing",
)
def cvjp_pair() -> Any:

    @tb.custom_vjp
    def f(a):
        return a * 2

    f.defvjp(lambda a: a * 2, lambda r, ct: (ct,))
    tb.grad(lambda a: f(a).sum())(X)


@wrong(
    ArgumentError,
    "the forward rule of f returns ['f32[]'], the function ['f32[3]']",
    "the function's own result, and then residuals",
    "return f(x), residuals from the forward rule",
)
def cvjp_fwd_other() -> Any:

    @tb.custom_vjp
    def f(a):
        return a * 2

    f.defvjp(lambda a: (a.sum(), None), lambda r, ct: (ct,))
    tb.jit(tb.grad(lambda a: f(a).sum()))(X)


@wrong(
    GradientError, "custom_jvp function f has no rule yet", "a forward-mode rule", "call f.defjvp(rule) first"
)
def cjvp_none() -> Any:

    @tb.custom_jvp
    def f(a):
        return a

    f(X)


@wrong(
    ArgumentError,
    "the rule of f returned ['f32[]'] as tangents of ['f32[3]']",
    "(result, tangent), equal in structure, dtype and shape",
    "the tangent is the result's change: linear in the given",
)
def cjvp_shape() -> Any:

    @tb.custom_jvp
    def f(a):
        return a * 2

    f.defjvp(lambda p, t: (p[0] * 2, t[0].sum()))
    tb.jvp(f, (X,), (X,))


@wrong(
    GradientError,
    "a Function without forward(ctx, *args)",
    "static methods forward and backward",
    "write @staticmethod def forward(ctx, *args) in the class",
)
def func_instance() -> Any:

    class S(tb.Function):
        pass

    S.apply(X)


@wrong(
    ArgumentError,
    "S.backward returned 1 gradients",
    "one per argument of forward: 2",
    "return a tuple, with None for arguments that need no gradient",
)
def func_bwd_count() -> Any:

    class S(tb.Function):
        @staticmethod
        def forward(ctx, a, b):
            return a * b

        @staticmethod
        def backward(ctx, ct):
            return ct

    a = leaf()
    S.apply(a, a).sum().backward()


@wrong(
    ArgumentError,
    "functional_call: Linear has no zz",
    "names of its parameters and buffers",
    "module.state_dict() lists them",
)
def functional_call() -> Any:
    return tb.nn.functional_call(tb.nn.Linear(2, 2), {"zz": X}, tb.ones((1, 2)))
