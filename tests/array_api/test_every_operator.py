"""Every row of the operator table once: the same bits eager and recorded, under vmap the same as one by
one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import trilobite as tb
from tests.array_api import pytorch_calls
from trilobite.base import pytree
from trilobite.framework.ops.registry import operators

Fn = Callable[..., Any]
RANDOM = np.random.default_rng(42)
M = RANDOM.standard_normal((3, 4)).astype(np.float32)
V = RANDOM.standard_normal(4).astype(np.float32)
I = RANDOM.integers(-9, 9, (3, 4))  # noqa: E741
B = M > 0
P = np.abs(M) + 0.5

ELEMENTWISE_BINARY = """add subtract multiply divide remainder floor_divide maximum minimum hypot atan2
    copysign nextafter
    logaddexp equal not_equal less less_equal greater greater_equal isclose logical_and logical_or
    logical_xor fmod sub
    mul div eq ne lt le gt ge""".split()
INTEGER_BINARY = "bitwise_and bitwise_or bitwise_xor".split()
ELEMENTWISE = """exp exp2 expm1 sin cos tan atan sinh cosh tanh asinh negative abs sign signbit floor ceil
    trunc isfinite
    isnan isinf erf erfc positive square reciprocal round frac deg2rad rad2deg nan_to_num conj real imag
    angle sigmoid
    relu logical_not absolute conjugate neg clip clamp""".split()
POSITIVE = "log log2 log10 log1p sqrt rsqrt lgamma digamma".split()
REDUCTIONS = """sum prod nansum max min mean var std all any count_nonzero amax amin softmax log_softmax
    logsumexp argmax argmin""".split()
UNIT = "asin acos atanh erfinv logit".split()

CALLS: dict[str, tuple[Fn, tuple[Any, ...]]] = {
    **{n: (lambda x, y, n=n: getattr(tb, n)(x, y), (M, V)) for n in ELEMENTWISE_BINARY},
    **{n: (lambda x, y, n=n: getattr(tb, n)(x, y), (I, I[0])) for n in INTEGER_BINARY},
    **{n: (lambda x, n=n: getattr(tb, n)(x), (M,)) for n in ELEMENTWISE},
    **{n: (lambda x, n=n: getattr(tb, n)(x), (P,)) for n in POSITIVE},
    **{n: (lambda x, n=n: getattr(tb, n)(x), (P / 10,)) for n in UNIT},
    "acosh": (tb.acosh, (P + 1,)),
    "pow": (tb.pow, (P, M)),
    "lerp": (tb.lerp, (M, V, V)),
    "complex": (tb.complex, (M, M)),
    "bitwise_left_shift": (lambda x: tb.bitwise_left_shift(x, 3), (I,)),
    "bitwise_count": (tb.bitwise_count, (I,)),
    "bitwise_right_shift": (lambda x: tb.bitwise_right_shift(x, 1), (I,)),
    "bitwise_invert": (tb.bitwise_invert, (I,)),
    # -- creation
    "zeros_like": (tb.zeros_like, (M,)),
    "ones_like": (tb.ones_like, (M,)),
    "empty_like": (tb.empty_like, (M,)),
    "full_like": (lambda x: tb.full_like(x, 3), (M,)),
    "tril": (tb.tril, (M,)),
    "triu": (tb.triu, (M,)),
    "meshgrid": (tb.meshgrid, (V, M[0])),
    "one_hot": (lambda i: tb.one_hot(i, 5), (I,)),
    "asarray": (lambda x: tb.asarray([x, x]), (M,)),
    "full": (lambda x: tb.full((2,), tb.sum(x)), (M,)),
    # -- cumulative
    "cumulative_sum": (lambda x: tb.cumulative_sum(x, axis=1), (M,)),
    "cumsum": (lambda x: tb.cumsum(x, 0), (M,)),
    "cumulative_prod": (lambda x: tb.cumulative_prod(x, axis=0), (M,)),
    "cumprod": (lambda x: tb.cumprod(x, 1), (M,)),
    "cummax": (lambda x: tb.cummax(x, 1), (M,)),
    "cummin": (lambda x: tb.cummin(x, 0), (M,)),
    "diff": (tb.diff, (M,)),
    "logcumsumexp": (lambda x: tb.logcumsumexp(x, 1), (M,)),
    "astype": (lambda x: tb.astype(x, tb.float64), (M,)),
    # -- indexing
    "take": (lambda x, i: tb.take(x, i, axis=1), (M, np.array([3, 0, -1]))),
    "index_select": (lambda x, i: tb.index_select(x, 0, i), (M, np.array([2, 2]))),
    "take_along_axis": (tb.take_along_axis, (M, I % 4)),
    "gather": (lambda x, i: tb.gather(x, 1, i), (M, I % 4)),
    "scatter": (lambda x, i, s: tb.scatter(x, 1, i, s), (M, I % 4, M * 2)),
    "scatter_add": (lambda x, i, s: tb.scatter_add(x, 1, i, s), (M, I % 4, M * 2)),
    "scatter_reduce": (lambda x, i, s: tb.scatter_reduce(x, 1, i, s, "amax"), (M, I % 4, M * 2)),
    "index_add": (lambda x, i, s: tb.index_add(x, 0, i, s), (M, np.array([1, 1, 0]), M)),
    "index_copy": (lambda x, i, s: tb.index_copy(x, 0, i, s), (M, np.array([1, 2, 0]), M)),
    "index_fill": (lambda x, i: tb.index_fill(x, 1, i, 0.5), (M, np.array([1, 3]))),
    "masked_fill": (lambda x, m: tb.masked_fill(x, m, -1.0), (M, B)),
    "masked_select": (lambda x, m: tb.masked_select(x, m, size=9), (M, B)),
    # -- joining
    "concat": (lambda x, y: tb.concat([x, y]), (M, M)),
    "stack": (lambda x, y: tb.stack([x, y], axis=1), (M, M)),
    "hstack": (lambda x, y: tb.hstack([x, y]), (M, M)),
    "vstack": (lambda x, y: tb.vstack([x, y]), (V, V)),
    "unstack": (lambda x: tb.unstack(x, axis=1), (M,)),
    "split": (lambda x: tb.split(x, 3, axis=1), (M,)),
    "chunk": (lambda x: tb.chunk(x, 2), (M,)),
    "tensor_split": (lambda x: tb.tensor_split(x, 3, axis=1), (M,)),
    "tile": (lambda x: tb.tile(x, (2, 1)), (M,)),
    "repeat": (lambda x: tb.repeat(x, 2, axis=0), (M,)),
    "repeat_interleave": (lambda x: tb.repeat_interleave(x, 2, 0), (M,)),
    "roll": (lambda x: tb.roll(x, 1, axis=1), (M,)),
    "rot90": (tb.rot90, (M,)),
    "pad": (lambda x: tb.pad(x, 1), (M,)),
    # -- products
    "einsum": (lambda x, y: tb.einsum("ij,kj->ik", x, y), (M, M)),
    "matmul": (lambda x, y: x @ y.mT, (M, M)),
    "tensordot": (lambda x, y: tb.tensordot(x, y, axes=((1,), (1,))), (M, M)),
    "vecdot": (tb.vecdot, (M, V)),
    "dot": (tb.dot, (V, V)),
    "inner": (tb.inner, (M, M)),
    "outer": (tb.outer, (V, V)),
    "kron": (tb.kron, (M, V)),
    "cdist": (tb.cdist, (M, M + 1)),
    "diagonal": (tb.diagonal, (M,)),
    "diag": (tb.diag, (V,)),
    "trace": (tb.trace, (M,)),
    # -- reductions
    **{n: (lambda x, n=n: getattr(tb, n)(x, axis=1), (M,)) for n in REDUCTIONS},
    "norm": (tb.norm, (M,)),
    # -- searching, sets, sorting
    "where": (tb.where, (B, M, V)),
    "nonzero": (lambda x: tb.nonzero(x, size=8), (B,)),
    "argwhere": (lambda x: tb.argwhere(x, size=8), (B,)),
    "searchsorted": (tb.searchsorted, (np.sort(V), M)),
    "bucketize": (tb.bucketize, (M, np.sort(V))),
    "unique_all": (lambda x: tb.unique_all(x, size=9), (I,)),
    "unique_counts": (lambda x: tb.unique_counts(x, size=9), (I,)),
    "isin": (tb.isin, (I, I[0])),
    "unique_inverse": (lambda x: tb.unique_inverse(x, size=9), (I,)),
    "unique_values": (lambda x: tb.unique_values(x, size=9), (I,)),
    "bincount": (lambda x: tb.bincount(x, size=9), (np.abs(I[0]) % 9,)),
    "sort": (tb.sort, (M,)),
    "argsort": (lambda x: tb.argsort(x, descending=True), (I,)),
    "topk": (lambda x: tb.topk(x, 2), (M,)),
    "median": (lambda x: tb.median(x, 1), (M,)),
    "quantile": (lambda x: tb.quantile(x, 0.3, 0), (M,)),
    # -- shapes
    "reshape": (lambda x: tb.reshape(x, (2, 6)), (M,)),
    "flatten": (tb.flatten, (M,)),
    "ravel": (tb.ravel, (M,)),
    "unflatten": (lambda x: tb.unflatten(x, 1, (2, 2)), (M,)),
    "squeeze": (lambda x: tb.squeeze(x[:1]), (M,)),
    "expand_dims": (lambda x: tb.expand_dims(x, axis=1), (M,)),
    "swapaxes": (lambda x: tb.swapaxes(x, 0, 1), (M,)),
    "permute_dims": (lambda x: tb.permute_dims(x, (1, 0)), (M,)),
    "transpose": (tb.transpose, (M,)),
    "moveaxis": (lambda x: tb.moveaxis(x, 0, -1), (M,)),
    "matrix_transpose": (tb.matrix_transpose, (M,)),
    "flip": (tb.flip, (M,)),
    "broadcast_to": (lambda x: tb.broadcast_to(x, (2, 3, 4)), (M,)),
    "broadcast_arrays": (tb.broadcast_arrays, (M, V)),
    "clone": (tb.clone, (M,)),
    "contiguous": (tb.contiguous, (M,)),
}
NOT_OF_TENSORS = """tensor from_numpy from_dlpack zeros ones empty arange linspace logspace eye finfo iinfo
    isdtype can_cast
    result_type promote_types is_floating_point is_complex broadcast_shapes allclose array_equal""".split()
CALLS |= pytorch_calls.CALLS
NOT_OF_TENSORS += pytorch_calls.EAGER


def rows() -> list[str]:
    """One name per function; aliases are the same object."""
    first: dict[int, str] = {}
    for name, row in operators.items():
        if "." not in name and name not in NOT_OF_TENSORS:
            first.setdefault(id(row.public), name)
    return sorted(first.values())


def test_no_operator_is_forgotten() -> None:
    assert [name for name in rows() if name not in CALLS] == []


def leaves(out: Any) -> list[tb.Tensor]:
    return pytree.leaves(out, lambda v: isinstance(v, tb.Tensor))


def bits(out: Any) -> list[tuple[Any, ...]]:
    return [(t.shape, t.dtype, t.numpy().tobytes()) for t in leaves(out)]


def _shifted(a: Any) -> Any:
    """Other operands of the same kind, so that the rows of a batch differ."""
    return a[::-1].copy() if a.ndim else a


@pytest.mark.parametrize("name", rows())
def test_eager_and_recorded_are_the_same_bits(name: str) -> None:
    fn, operands = CALLS[name]
    tensors = [tb.tensor(a) for a in operands]
    assert bits(tb.jit(fn, target="reference")(*tensors)) == bits(fn(*tensors))


@pytest.mark.parametrize("name", rows())
def test_on_the_cpu_it_is_the_same_within_rounding(name: str) -> None:
    fn, operands = CALLS[name]
    tensors = [tb.tensor(a) for a in operands]
    for got, want in zip(leaves(tb.jit(fn, target="cpu")(*tensors)), leaves(fn(*tensors)), strict=True):
        assert got.dtype == want.dtype and got.shape == want.shape
        if got.dtype.kind in "fc":
            np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-5, atol=1e-6)
        else:
            np.testing.assert_array_equal(got.numpy(), want.numpy())


@pytest.mark.parametrize("name", rows())
def test_vmap_is_one_by_one(name: str) -> None:
    fn, operands = CALLS[name]
    others = operands if name in ("searchsorted", "bucketize") else tuple(map(_shifted, operands))
    batch = [tb.tensor(np.stack(pair)) for pair in zip(operands, others, strict=True)]
    got = leaves(tb.vmap(fn)(*batch))
    each = [leaves(fn(*map(tb.tensor, row))) for row in (operands, others)]
    for g, first, second in zip(got, *each, strict=True):
        assert g.dtype == first.dtype and g.shape == (2, *first.shape)
        want = np.stack([first.numpy(), second.numpy()])
        if g.dtype.kind in "fc":
            np.testing.assert_allclose(g.numpy(), want, rtol=1e-5, atol=1e-6)
        else:
            np.testing.assert_array_equal(g.numpy(), want)


@pytest.mark.parametrize("name", rows())
def test_results_own_their_memory_or_are_views_by_name(name: str) -> None:
    """Changing a result changes no operand, except through the views, which are meant to."""
    views = """reshape flatten ravel unflatten squeeze expand_dims permute_dims moveaxis swapaxes transpose
        diagonal matrix_transpose broadcast_to broadcast_arrays unstack split chunk tensor_split contiguous
        t select vsplit hsplit dsplit atleast_1d atleast_2d atleast_3d""".split()
    if name in views:
        return
    fn, operands = CALLS[name]
    tensors = [tb.tensor(a) for a in operands]
    before = [t.numpy().copy() for t in tensors]
    for out in leaves(fn(*tensors)):
        out[...] = out.numpy()[..., ::-1].copy() if out.ndim else tb.ones((), dtype=out.dtype)
        out.zero_()
    for t, a in zip(tensors, before, strict=True):
        np.testing.assert_array_equal(t.numpy(), a)
