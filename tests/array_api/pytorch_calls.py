"""A call of every operation that the table has for users of PyTorch, beside those of the standard."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import trilobite as tb

RANDOM = np.random.default_rng(7)
M = RANDOM.standard_normal((3, 4)).astype(np.float32)
V = RANDOM.standard_normal(4).astype(np.float32)
S = RANDOM.standard_normal((3, 3)).astype(np.float32)
C = RANDOM.standard_normal((2, 3, 4)).astype(np.float32)
K = (S @ S.T + 3 * np.eye(3)).astype(np.float32)
Z = (S + 1j * S.T).astype(np.complex64)
I = RANDOM.integers(0, 9, (3, 4))  # noqa: E741
B = M > 0


def positive(s: tb.Tensor) -> tb.Tensor:
    """A positive definite matrix."""
    return s @ s.mT + 3 * tb.eye(3)


CALLS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    **{n: (getattr(tb, n), (M,)) for n in "sgn sinc isposinf isneginf isreal aminmax nanmean msort".split()},
    **{n: (getattr(tb, n), (M, V)) for n in "fmax fmin heaviside logaddexp2 ldexp rsub dist".split()},
    **{n: (getattr(tb, n), (I, I[0])) for n in ("gcd", "lcm")},
    **{n: (getattr(tb, n), (K,)) for n in "det slogdet inverse matrix_exp".split()},
    "as_tensor": (lambda x: tb.as_tensor([x, x]), (M,)),
    "addmm": (lambda c, a, b: tb.addmm(c, a, b, beta=0.5, alpha=2), (S, M, M.T)),
    "addmv": (tb.addmv, (V[:3], M, V)),
    "addr": (tb.addr, (M, V[:3], V)),
    "baddbmm": (tb.baddbmm, (S, C, C.transpose(0, 2, 1))),
    "addbmm": (tb.addbmm, (S, C, C.transpose(0, 2, 1))),
    "addcmul": (lambda a, b, c: tb.addcmul(a, b, c, value=3), (M, V, M)),
    "addcdiv": (lambda a, b, c: tb.addcdiv(a, b, c, value=3), (M, V, M)),
    "chain_matmul": (tb.chain_matmul, (M, M.T, M)),
    "vdot": (tb.vdot, (V, V + 1)),
    "t": (tb.t, (M,)),
    "adjoint": (tb.adjoint, (Z,)),
    "pinverse": (tb.pinverse, (M,)),
    "matrix_power": (lambda x: tb.matrix_power(x, 3), (S,)),
    "cross": (tb.cross, (S, S + 1)),
    "qr": (lambda x: tb.qr(x)[1].abs(), (S,)),
    "svd": (lambda x: tb.svd(x)[1], (M,)),
    "logdet": (lambda s: tb.logdet(positive(s)), (S,)),
    "cholesky": (lambda s: tb.cholesky(positive(s)), (S,)),
    "cholesky_solve": (lambda b, s: tb.cholesky_solve(b, tb.cholesky(positive(s))), (M, S)),
    "cholesky_inverse": (lambda s: tb.cholesky_inverse(tb.cholesky(positive(s))), (S,)),
    "as_strided": (lambda x: tb.as_strided(x, (2, 3), (1, 2), 1), (M,)),
    "select": (lambda x: tb.select(x, 1, 2), (M,)),
    "narrow_copy": (lambda x: tb.narrow_copy(x, 1, 1, 2), (M,)),
    "select_scatter": (lambda x, s: tb.select_scatter(x, s, 0, 1), (M, V)),
    "slice_scatter": (lambda x, s: tb.slice_scatter(x, s, 1, 0, 4, 2), (M, M[:, :2])),
    "std_mean": (lambda x: tb.std_mean(x, 1), (M,)),
    "var_mean": (lambda x: tb.var_mean(x, 1), (M,)),
    "nanmedian": (lambda x: tb.nanmedian(x, 1), (M,)),
    "kthvalue": (lambda x: tb.kthvalue(x, 2, 1), (M,)),
    "mode": (lambda x: tb.mode(x, 1), (I,)),
    "cov": (tb.cov, (M,)),
    "corrcoef": (tb.corrcoef, (M,)),
    "renorm": (lambda x: tb.renorm(x, 2, 0, 0.5), (M,)),
    "diag_embed": (lambda x: tb.diag_embed(x, 1), (M,)),
    "diagflat": (tb.diagflat, (V,)),
    "diagonal_scatter": (tb.diagonal_scatter, (S, V[:3])),
    "block_diag": (tb.block_diag, (M, V, S)),
    "cartesian_prod": (tb.cartesian_prod, (V, V[:2])),
    "combinations": (tb.combinations, (V,)),
    "dstack": (lambda x, y: tb.dstack([x, y]), (M, M)),
    "column_stack": (lambda x, y: tb.column_stack([x, y]), (V, V)),
    "atleast_1d": (tb.atleast_1d, (V,)),
    "atleast_2d": (tb.atleast_2d, (V,)),
    "atleast_3d": (tb.atleast_3d, (M,)),
    "vsplit": (lambda x: tb.vsplit(x, 3), (M,)),
    "hsplit": (lambda x: tb.hsplit(x, 2), (M,)),
    "dsplit": (lambda x: tb.dsplit(x, 2), (C,)),
    "view_as_real": (tb.view_as_real, (Z,)),
    "view_as_complex": (tb.view_as_complex, (M[:, :2],)),
    "polar": (tb.polar, (M, M)),
    "index_put": (lambda x, i: tb.index_put(x, (i,), x[:2], accumulate=True), (M, np.array([1, 1]))),
    "masked_scatter": (lambda x, m: tb.masked_scatter(x, m, x * 2), (M, B)),
    "take_along_dim": (lambda x, i: tb.take_along_dim(x, i, 1), (M, I % 4)),
    "put": (lambda x, i, s: tb.put(x, i, s), (M, np.array([3, 1]), V[:2])),
    "unravel_index": (lambda i: tb.unravel_index(i, (3, 4)), (I,)),
    "clamp_min": (lambda x: tb.clamp_min(x, 0.25), (M,)),
    "clamp_max": (lambda x: tb.clamp_max(x, 0.25), (M,)),
    "float_power": (lambda x: tb.float_power(x, 2), (M,)),
    "xlogy": (tb.xlogy, (np.maximum(M, 0), np.abs(M) + 0.5)),
    "trapezoid": (tb.trapezoid, (M,)),
}  # fmt: skip
EAGER = """scalar_tensor range frombuffer tril_indices triu_indices empty_strided unique unique_consecutive
    histc histogram numel is_nonzero is_same_size""".split()
"""Operations whose results depend on values, or that take no tensors."""
