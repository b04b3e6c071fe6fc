"""Wrong uses of jit, control flow, symbolic sizes, and values that escape from a transform."""

from __future__ import annotations

from typing import Any

import trilobite as tb
from trilobite.base.errors import ArgumentError, DeviceError, GradientError, ShapeError, TraceError

from .wrong_use import X, keep, wrong


@wrong(
    DeviceError,
    "there is no target 'gpu'",
    "one of cpu, dlp, reference",
    "take cpu, or dlp:MACHINE with one of `trilobite machines`",
)
def jit_target() -> Any:
    return tb.jit(lambda a: a, target="gpu")(X)


@wrong(
    TraceError,
    "int() of a tensor inside jit, cond or scan, where only a run",
    "a program that is the same for all values",
    "keep it a tensor, or return it and look at it outside",
)
def jit_int() -> Any:
    return tb.jit(lambda a: a * int(a[0]))(X)


@wrong(
    TraceError,
    "item() of a tensor inside jit, cond or scan, where only a run",
    "a program that is the same for all values",
    "keep it a tensor, or return it and look at it outside",
)
def jit_item() -> Any:
    return tb.jit(lambda a: a.sum().item())(X)


@wrong(
    TraceError,
    "numpy() of a tensor inside jit, cond or scan, where only a run",
    "a program that is the same for all values",
    "keep it a tensor, or return it and look at it outside",
)
def jit_numpy() -> Any:
    return tb.jit(lambda a: a.numpy())(X)


@wrong(
    TraceError,
    "nonzero inside jit, cond or scan: the shape of its result",
    "a result of a fixed size",
    "say how many at most: nonzero(..., size=n)",
)
def jit_nonzero() -> Any:
    return tb.jit(lambda a: tb.nonzero(a))(X)


@wrong(
    TraceError,
    "indexing with a boolean mask inside jit, cond or scan: the",
    "a result of a fixed size",
    "tb.where(mask, x, 0), or tb.masked_select(x, mask, size=n)",
)
def jit_mask() -> Any:
    return tb.jit(lambda a: a[a > 1])(X)


@wrong(
    TraceError,
    "unique_values inside jit, cond or scan: the shape of its result",
    "a result of a fixed size",
    "say how many at most: unique_values(x, size=n)",
)
def jit_unique() -> Any:
    return tb.jit(lambda a: tb.unique_values(a))(X)


@wrong(
    TraceError,
    "masked_select inside jit, cond or scan: the shape of its result",
    "a result of a fixed size",
    "say how many at most: masked_select(..., size=n)",
)
def jit_masked_select() -> Any:
    return tb.jit(lambda a: tb.masked_select(a, a > 1))(X)


@wrong(
    TraceError,
    "a tensor as an index or a size inside jit, cond or scan, where only a run",
    "a program that is the same for all values",
    "n elements from i on are x[i + tb.arange(n)]; a size is an int or one of static_argnums",
)
def jit_range() -> Any:
    return tb.jit(lambda a: [a for _ in range(a.sum().astype(tb.int64))])(X)


@wrong(
    TraceError,
    "a tensor as an index or a size inside jit, cond or scan, where only a run",
    "a program that is the same for all values",
    "n elements from i on are x[i + tb.arange(n)]; a size is an int or one of static_argnums",
)
def jit_slice_from_a_tensor() -> Any:
    return tb.jit(lambda a, i: a[i : i + 2])(X, tb.tensor(1))


@wrong(
    TraceError,
    "repeat inside jit, cond or scan: the shape of its result",
    "a result of a fixed size",
    "say how long the result is: repeat(..., size=n)",
)
def jit_repeat_interleave() -> Any:
    return tb.jit(lambda a: tb.repeat(a, a.astype(tb.int64)))(X)


@wrong(
    TraceError,
    "a tensor made while a function was being recorded is used",
    "tensors made inside jit, cond, scan or vmap leave the function",
    "return the tensor, or copy it into a tensor that exists",
)
def esc_jit() -> Any:
    kept: list[Any] = []
    tb.jit(lambda a: keep(kept, a * 2))(X)
    return kept[0] + 1


@wrong(
    TraceError,
    "a value of grad or vjp is used after grad or vjp has ended",
    "values that belong to a transform stay inside the function it",
    "return the value from the function instead of keeping it in a",
)
def esc_grad() -> Any:
    kept: list[Any] = []
    tb.grad(lambda a: keep(kept, a * 2).sum())(X)
    return kept[0] + 1


@wrong(
    TraceError,
    "a value of vmap is used after vmap has ended",
    "values that belong to a transform stay inside the function it",
    "return the value from the function instead of keeping it in a",
)
def esc_vmap() -> Any:
    kept: list[Any] = []
    tb.vmap(lambda a: keep(kept, a * 2))(X)
    return kept[0] + 1


@wrong(
    TraceError,
    "a value of jvp is used after jvp has ended",
    "values that belong to a transform stay inside the function it",
    "return the value from the function instead of keeping it in a",
)
def esc_jvp() -> Any:
    kept: list[Any] = []
    tb.jvp(lambda a: keep(kept, a * 2), (X,), (X,))
    return kept[0] + 1


@wrong(
    TraceError,
    "a tensor made while a function was being recorded is used",
    "tensors made inside jit, cond, scan or vmap leave the function",
    "return the tensor, or copy it into a tensor that exists",
)
def esc_scan() -> Any:
    kept: list[Any] = []
    tb.scan(lambda s, a: (s, keep(kept, a * 2)), tb.tensor(0.0), X)
    return kept[0] + 1


@wrong(
    TraceError,
    "a tensor made while a function was being recorded is used",
    "tensors made inside jit, cond, scan or vmap leave the function",
    "return the tensor, or copy it into a tensor that exists",
)
def esc_cond() -> Any:
    kept: list[Any] = []
    tb.cond(tb.tensor(True), lambda a: keep(kept, a * 2), lambda a: a, X)
    return kept[0] + 1


@wrong(
    TraceError,
    "a tensor made while a function was being recorded is used",
    "tensors made inside jit, cond, scan or vmap leave the function",
    "return the tensor, or copy it into a tensor that exists",
)
def esc_repr() -> Any:
    kept: list[Any] = []
    tb.jit(lambda a: keep(kept, a * 2))(X)
    return kept[0].numpy()


@wrong(
    TraceError,
    "numpy() of a tensor inside vmap, where only a run knows its",
    "a program that is the same for all values",
    "keep it a tensor, or return it and look at it outside",
)
def esc_vmap_numpy() -> Any:
    kept: list[Any] = []
    tb.vmap(lambda a: keep(kept, a * 2))(X)
    return kept[0].numpy()


@wrong(
    ShapeError,
    "the body of scan turns a state [f32[]] into [f64[]]",
    "the same structure, dtypes and shapes",
    "cast the initial state or the result to one dtype",
)
def scan_dtype() -> Any:
    return tb.scan(lambda s, a: (s.astype(tb.float64), a), tb.tensor(0.0), X)


@wrong(
    ShapeError,
    "the body of scan turns a state [f32[]] into [f32[], f32[]]",
    "the same structure, dtypes and shapes",
    "cast the initial state or the result to one dtype",
)
def scan_struct() -> Any:
    return tb.scan(lambda s, a: ((s, s), a), tb.tensor(0.0), X)


@wrong(
    ShapeError,
    "the body of scan turns a state [f32[]] into [f32[3]]",
    "the same structure, dtypes and shapes",
    "cast the initial state or the result to one dtype",
)
def scan_shape() -> Any:
    return tb.scan(lambda s, a: (s + X, a), tb.tensor(0.0), X)


@wrong(
    ArgumentError,
    "the body of scan did not return a pair",
    "(carry, output)",
    "return carry, None if there is no output",
)
def scan_pair() -> Any:
    return tb.scan(lambda s, a: s, tb.tensor(0.0), X)


@wrong(
    ShapeError,
    "scan over sequences of lengths 3, 4",
    "one length that is not negative, given by the first axis of xs",
    "cut the sequences to one length; what is the same at every step",
)
def scan_lengths() -> Any:
    return tb.scan(lambda s, a: (s, a), tb.tensor(0.0), (X, tb.ones((4,))))


@wrong(
    ShapeError,
    "scan over sequences of lengths a tensor without dimensions",
    "one length that is not negative, given by the first axis of xs",
    "cut the sequences to one length; what is the same at every step",
)
def scan_0d() -> Any:
    return tb.scan(lambda s, a: (s, a), tb.tensor(0.0), tb.tensor(1.0))


@wrong(
    ShapeError,
    "scan over sequences of lengths (none is given)",
    "one length that is not negative, given by the first axis of xs",
    "cut the sequences to one length; what is the same at every step",
)
def scan_nolen() -> Any:
    return tb.scan(lambda s, a: (s, a), tb.tensor(0.0))


@wrong(
    ShapeError,
    "scan over sequences of lengths -1",
    "one length that is not negative, given by the first axis of xs",
    "cut the sequences to one length; what is the same at every step",
)
def scan_neglen() -> Any:
    return tb.scan(lambda s, a: (s, s), tb.tensor(0.0), length=-1)


@wrong(
    ArgumentError,
    "the condition of while_loop returns [f32[]]",
    "a bool without dimensions",
    "compare, and reduce with all() or any(): (s > 0).all()",
)
def while_cond_type() -> Any:
    return tb.while_loop(lambda s: s, lambda s: s, tb.tensor(1.0))


@wrong(
    ArgumentError,
    "the condition of while_loop returns [bool[], bool[]]",
    "a bool without dimensions",
    "compare, and reduce with all() or any(): (s > 0).all()",
)
def while_cond_pair() -> Any:
    return tb.while_loop(lambda s: (s > 0, s > 0), lambda s: s, tb.tensor(1.0))


@wrong(
    ShapeError,
    "the body of while_loop turns a state [i64[]] into [f32[]]",
    "the same structure, dtypes and shapes",
    "cast the initial state or the result to one dtype",
)
def while_carry() -> Any:
    return tb.while_loop(lambda s: s < 3, lambda s: s + 0.5, tb.tensor(1))


@wrong(
    ShapeError,
    "the body of while_loop turns a state [i64[], i64[]] into",
    "the same structure, dtypes and shapes",
    "cast the initial state or the result to one dtype",
)
def while_struct() -> Any:
    return tb.while_loop(lambda s: s[0] < 3, lambda s: [s[0], s[1]], (tb.tensor(1), tb.tensor(1)))


@wrong(
    TraceError,
    "a Python branch on a tensor inside jit, cond or scan, where",
    "a program that is the same for all values",
    "choose with tb.where, or use tb.cond, tb.while_loop, tb.scan",
)
def while_if() -> Any:
    return tb.while_loop(lambda s: s < 3, lambda s: s + 1 if s > 0 else s, tb.tensor(1))


@wrong(
    GradientError,
    "while has no derivative: the number of steps is not known in",
    "an operation that is differentiable in this direction",
    "stop_gradient() or detach() what goes into it, or state a rule",
)
def while_grad() -> Any:
    return tb.grad(lambda a: tb.while_loop(lambda s: s < 30, lambda s: s * 2, a))(tb.tensor(1.0))


@wrong(
    ArgumentError, "cond on a tensor f32[]", "a bool without dimensions", "compare first: tb.cond(x > 0, ...)"
)
def cond_pred_float() -> Any:
    return tb.cond(tb.tensor(1.0), lambda: X, lambda: X)


@wrong(
    ArgumentError,
    "cond on a tensor bool[3]",
    "a bool without dimensions",
    "compare first: tb.cond(x > 0, ...)",
)
def cond_pred_vec() -> Any:
    return tb.cond(X > 0, lambda: X, lambda: X)


@wrong(
    ShapeError,
    "the branches of cond return [f32[]] and [f32[3]]",
    "equal dtypes and shapes",
    "cast or broadcast in the branches: astype, tb.broadcast_to",
)
def cond_shapes() -> Any:
    return tb.cond(tb.tensor(True), lambda a: a, lambda a: a.sum(), X)


@wrong(
    ArgumentError,
    "the branches of cond return different structures: Tree(*) and",
    "one structure",
    "return the same nesting of tuples, lists and dicts from every",
)
def cond_struct() -> Any:
    return tb.cond(tb.tensor(True), lambda a: (a, a), lambda a: a, X)


@wrong(
    ArgumentError,
    "switch without branches",
    "at least one function",
    "tb.switch(index, [f, g, ...], *operands)",
)
def switch_none() -> Any:
    return tb.switch(tb.tensor(1), [], X)


@wrong(
    ArgumentError,
    "switch on a tensor f32[]",
    "an integer without dimensions",
    "cast it: index.astype(tb.int64), or use tb.cond for two branches",
)
def switch_float() -> Any:
    return tb.switch(tb.tensor(1.0), [lambda a: a], X)


@wrong(
    ArgumentError,
    "a static argument of type list cannot be compared",
    "something hashable",
    "pass tensors, numbers, or a tuple instead of a list",
)
def static_unhash() -> Any:
    return tb.jit(lambda a, b: a, static_argnums=1)(X, [1, 2])


@wrong(
    ArgumentError,
    "jit with the static argument 7 of a function of (a, b)",
    "positions and names of its parameters",
    "static_argnums counts from 0; static_argnames are the",
)
def static_range() -> Any:
    return tb.jit(lambda a, b: a, static_argnums=7)(X, X)


@wrong(
    ArgumentError,
    "jit with the static argument 'zz' of a function of (a, b)",
    "positions and names of its parameters",
    "static_argnums counts from 0; static_argnames are the",
)
def static_name() -> Any:
    return tb.jit(lambda a, b: a, static_argnames="zz")(X, X)


@wrong(
    ShapeError,
    "tb.dim('n', min=1, max=0) is not a size",
    "a name and 0 <= min <= max",
    'for example tb.dim("n", min=1, max=512)',
)
def dim_max() -> Any:
    return tb.dim("n", max=0)


@wrong(
    ShapeError,
    "size 3 does not fit the symbolic dimension n",
    "1 <= n <= 2",
    "widen the bounds: tb.dim(name, min=, max=), or pass another size",
)
def dim_over() -> Any:
    return tb.jit(lambda a: a * 2, shapes=[(tb.dim("n", max=2),)])(X)


@wrong(
    ArgumentError,
    "shapes declares (n, 3) for an argument of shape (3,)",
    "as many dimensions",
    "one entry per dimension: a tb.dim(...), a number, or None for",
)
def dim_rank() -> Any:
    return tb.jit(lambda a: a * 2, shapes=[(tb.dim("n", max=20), 3)])(X)


@wrong(
    ShapeError,
    "shapes declares 5 for a dimension of size 3",
    "the size that the argument has",
    "a tb.dim(...) where sizes change",
)
def dim_number() -> Any:
    return tb.jit(lambda a: a * 2, shapes=[(5,)])(X)


@wrong(
    ArgumentError,
    "shapes declares 'n' as a dimension",
    "a tb.dim(...), a number, or None for as it is",
    "n = tb.dim('n')",
)
def dim_word() -> Any:
    return tb.jit(lambda a: a * 2, shapes=[("n",)])(X)


@wrong(
    ArgumentError,
    "shapes declares 'n' for an argument of shape (3,)",
    "as many dimensions",
    "one entry per dimension: a tb.dim(...), a number, or None for",
)
def dim_lone_word() -> Any:
    return tb.jit(lambda a: a * 2, shapes=["n"])(X)


@wrong(
    ShapeError,
    "size 4 contradicts the symbolic dimension n = 3",
    "one size for one symbol: n = 3",
    "use another symbol for a size that differs",
)
def dim_mism() -> Any:
    return (lambda n: tb.jit(lambda a, b: a[:, None] * b, shapes=[(n,), (n,)])(X, tb.ones((4,))))(
        tb.dim("n", max=20)
    )


@wrong(
    ShapeError,
    "the symbolic size n was used where a number is needed",
    "a size that the recording knows",
    "build the value from tensors (tb.arange, broadcasting), or make",
)
def dim_range() -> Any:
    return tb.jit(lambda a: [a for i in range(a.shape[0])], shapes=[(tb.dim("n", max=20),)])(X)


@wrong(
    ShapeError,
    "whether n <= 5 depends on the symbols",
    "the same answer within the bounds of the symbols",
    "tighten the bounds of the symbolic dimension: tb.dim(name,",
)
def dim_if() -> Any:
    return tb.jit(lambda a: a if a.shape[0] > 5 else -a, shapes=[(tb.dim("n", max=20),)])(X)


@wrong(
    ShapeError,
    "shapes (n,) and (3,) do not broadcast",
    "sizes that are equal or 1; axis -1 has n and 3",
    "reshape or index one of them with None, so that its axes line",
)
def dim_add() -> Any:
    return tb.jit(lambda a: a + tb.ones((3,)), shapes=[(tb.dim("n", max=20),)])(X)


@wrong(
    ShapeError,
    "the symbolic size n was used where a number is needed",
    "a size that the recording knows",
    "build the value from tensors (tb.arange, broadcasting), or make",
)
def dim_len() -> Any:
    return tb.jit(lambda a: a * len(a), shapes=[(tb.dim("n", max=20),)])(X)


@wrong(
    ShapeError,
    "whether 2 divides the size n depends on its symbols",
    "a multiple of 2",
    "declare the size as a multiple: 2 * tb.dim(name, max=)",
)
def dim_reshape() -> Any:
    return tb.jit(lambda a: a.reshape(2, -1), shapes=[(tb.dim("n", max=20),)])(X)


@wrong(
    ArgumentError,
    "shapes declares 3 arguments for a call with 1",
    "at most one entry per positional argument",
    "pass by position what shapes declares, or declare less",
)
def dim_shapes_long() -> Any:
    return tb.jit(lambda a: a, shapes=[None, None, None])(X)


@wrong(
    ArgumentError,
    "fori_loop from 0 to 'a'",
    "integers, or integer tensors",
    "tb.while_loop takes any condition",
)
def fori() -> Any:
    return tb.fori_loop(0, "a", lambda i, s: s, X)
