"""`tb.linalg`, functions of matrices: exponential, log of the determinant, solving by a known factor."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from trilobite.base.dtypes import accumulator, default_float, is_inexact
from trilobite.framework.ops.linalg_solving import slogdet, solve, solve_triangular
from trilobite.framework.ops.registry import lift, operators, tensor_op
from trilobite.framework.ops.shaping import handle
from trilobite.framework.tensor import Tensor
from trilobite.ir.transforms.cells import bottom

G = "linalg"
_PADE = (
    64764752532480000.0, 32382376266240000.0, 7771770303897600.0, 1187353796428800.0, 129060195264000.0,
    10559470521600.0, 670442572800.0, 33522128640.0, 1323241920.0, 40840800.0, 960960.0, 16380.0, 182.0, 1.0,
)  # fmt: skip
"""Coefficients of the diagonal Padé approximant of e^x of degree 13."""


_MOST = 16
"""Squarings at most: the exponential of a larger matrix has overflowed, or vanished."""


@tensor_op(G, name="linalg.matrix_exp", methods=())
def matrix_exp(x: Any, /) -> Tensor:
    """e to the power of a square matrix: a Padé approximant of the scaled matrix, squared again and again."""
    a = handle(x)
    dtype = a.dtype if is_inexact(a.dtype) else default_float
    a = a.to(accumulator(dtype))
    squarings = _squarings(a.detach())
    a = a / operators["exp2"].public(squarings)
    one = operators["eye"].public(a.shape[-1], dtype=a.dtype)
    a2 = a @ a
    a4, b = a2 @ a2, _PADE
    a6 = a2 @ a4
    odd = a @ (a6 @ (b[13] * a6 + b[11] * a4 + b[9] * a2) + b[7] * a6 + b[5] * a4 + b[3] * a2 + b[1] * one)
    even = a6 @ (b[12] * a6 + b[10] * a4 + b[8] * a2) + b[6] * a6 + b[4] * a4 + b[2] * a2 + b[0] * one
    out = lift(solve)(even - odd, even + odd)
    for i in range(_known(squarings)):
        out = operators["where"].public(squarings > i, out @ out, out)
    return out.to(dtype)  # type: ignore[no-any-return]


def _squarings(a: Tensor) -> Any:
    """How often to halve each matrix so that the approximant is exact to the last place."""
    size = a.abs().sum(axis=-2, keepdims=True).amax(axis=-1, keepdims=True)
    wanted = operators["log2"].public(operators["clip"].public(size / 2.0, 1.0)).ceil()
    return operators["clip"].public(operators["nan_to_num"].public(wanted), 0.0, float(_MOST))


def _known(squarings: Tensor) -> int:
    """The most that any matrix needs; where only a run knows them, the most there are."""
    value = bottom(squarings._read())
    return int(value.max(initial=0)) if isinstance(value, np.ndarray) else _MOST


@tensor_op(G, name="linalg.logdet", methods=())
def logdet(x: Any, /) -> Tensor:
    """The logarithm of the determinant; NaN where it is negative."""
    sign, size = lift(slogdet)(x)
    where = operators["where"].public
    return where(sign < 0, math.nan, size)  # type: ignore[no-any-return]


@tensor_op(G, name="linalg.cholesky_solve", methods=())
def cholesky_solve(b: Any, factor: Any, upper: bool = False) -> Tensor:
    """The solution of A·x = b, where A is known by its Cholesky factor; its other triangle is not read."""
    given = handle(factor)
    turned = given.mT.conj()
    low, high = (turned, given) if upper else (given, turned)
    triangular = lift(solve_triangular)
    return triangular(high, triangular(low, b, upper=False), upper=True)  # type: ignore[no-any-return]


@tensor_op(G, name="linalg.cholesky_inverse", methods=())
def cholesky_inverse(factor: Any, upper: bool = False) -> Tensor:
    """The inverse of a matrix that is known by its Cholesky factor; its other triangle is not read."""
    low = handle(factor)
    return cholesky_solve(operators["eye"].public(low.shape[-1], dtype=low.dtype), low, upper)
