"""Values and gradients beside PyTorch, where it is installed: random points, edges, complex numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from derivative_checks import pull

from trilobite.ir.primitive import table

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.peer, pytest.mark.filterwarnings("ignore")]

Array = np.ndarray[Any, Any]
rng = np.random.default_rng(5)
EDGES = np.array([0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, np.inf, -np.inf, np.nan, 1e-300, 700.0])
PLAIN = rng.normal(size=40) * 3


def ours(fn: Callable[..., Any], operands: list[Array], ct: Array | None = None) -> tuple[Array, list[Array]]:
    outs, back = pull(fn, operands)
    return outs[0], back([np.ones_like(outs[0]) if ct is None else ct])


def theirs(
    fn: Callable[..., Any], operands: list[Array], ct: Array | None = None
) -> tuple[Array, list[Array]]:
    leaves = [torch.tensor(o, requires_grad=True) for o in operands]
    out = fn(*leaves)
    grads = torch.autograd.grad(
        out, leaves, torch.ones_like(out) if ct is None else torch.tensor(ct), allow_unused=True
    )
    found = [torch.zeros_like(x) if g is None else g for g, x in zip(grads, leaves, strict=True)]
    return out.detach().numpy(), [g.resolve_conj().numpy(force=True) for g in found]


def same(a: Array, b: Array, but: Array | None = None) -> None:
    """Their trigamma is right to nine digits."""
    keep = np.ones(np.shape(b), bool) if but is None else ~but
    np.testing.assert_allclose(np.where(keep, a, 0), np.where(keep, b, 0), rtol=1e-9, atol=1e-12)


_UNARY: dict[str, Any] = {
    "abs": torch.abs, "sign": torch.sgn, "neg": torch.neg, "floor": torch.floor, "ceil": torch.ceil,
    "round": torch.round, "trunc": torch.trunc, "sqrt": torch.sqrt, "rsqrt": torch.rsqrt, "exp": torch.exp,
    "exp2": torch.exp2, "expm1": torch.expm1, "log": torch.log, "log2": torch.log2, "log10": torch.log10,
    "log1p": torch.log1p, "sin": torch.sin, "cos": torch.cos, "tan": torch.tan, "asin": torch.asin,
    "acos": torch.acos, "atan": torch.atan, "sinh": torch.sinh, "cosh": torch.cosh, "tanh": torch.tanh,
    "asinh": torch.asinh, "acosh": torch.acosh, "atanh": torch.atanh, "erf": torch.erf, "erfc": torch.erfc,
    "erf_inv": torch.erfinv, "lgamma": torch.lgamma, "digamma": torch.digamma,
}  # fmt: skip
# Where we say something else on purpose, and why.
_ELSEWHERE: dict[str, Callable[[Array], Array]] = {
    "abs": np.isnan,  # the slope at NaN: we NaN, they 0
    "sign": np.isnan,  # NaN stays NaN; they make it 0
    "rsqrt": lambda x: (x == 0) & np.signbit(x),  # at -0.0 they turn the sign of the infinite slope
    "acosh": lambda x: x < 1,  # outside of its domain they give the slope of another branch
    "asinh": lambda x: np.abs(x) == np.inf,  # 1/sqrt(1 + inf²): we 0, they 0 or NaN by version
    "digamma": lambda x: (x <= 0) & (x == np.rint(x)) | np.isinf(x),  # poles
    "lgamma": lambda x: (x <= 0) & (x == np.rint(x)) | np.isinf(x),
    "tan": np.isinf, "sin": np.isinf, "cos": np.isinf,
}  # fmt: skip


@pytest.mark.parametrize("name", list(_UNARY))
def test_one_operand(name: str) -> None:
    x = np.concatenate([EDGES, PLAIN])
    out, (grad,) = ours(table[name], [x])
    want, (slope,) = theirs(_UNARY[name], [x])
    but = _ELSEWHERE[name](x) if name in _ELSEWHERE else None
    same(out, want, but)
    same(grad, slope, but)


@pytest.mark.parametrize("name", [n for n in _UNARY if n in (
    "abs", "sign", "neg", "sqrt", "rsqrt", "exp", "log", "log2", "log10", "sin", "cos", "tan", "asin",
    "acos", "atan",
    "sinh", "cosh", "tanh", "asinh", "acosh", "atanh",
)])  # fmt: skip
def test_complex_gradients_follow_the_convention(name: str) -> None:
    z = rng.normal(size=30) + 1j * rng.normal(size=30)
    real = name == "abs"
    ct = rng.normal(size=30) if real else rng.normal(size=30) + 1j * rng.normal(size=30)
    out, (grad,) = ours(table[name], [z], ct)
    want, (slope,) = theirs(_UNARY[name], [z], ct)
    same(out, want)
    same(grad, slope)


_BINARY: dict[str, Any] = {
    "add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div, "pow": torch.pow,
    "maximum": torch.maximum, "minimum": torch.minimum, "atan2": torch.atan2, "hypot": torch.hypot,
    "rem": torch.remainder, "copysign": torch.copysign, "logaddexp": torch.logaddexp,
}  # fmt: skip
_PAIR_ELSEWHERE: dict[str, Callable[[Array, Array], Array]] = {
    "hypot": lambda x, y: (x == 0) & (y == 0) | np.isinf(x) | np.isinf(y),  # 0 at the origin, they NaN
    "atan2": lambda x, y: np.isinf(x) | np.isinf(y),
    "logaddexp": lambda x, y: np.isinf(x) & np.isinf(y),  # one half each where both are the same infinity
    "rem": lambda x, y: (y == 0) | np.isinf(x) | np.isinf(y),
    "copysign": lambda x, y: np.isnan(x) | np.isnan(y) | np.isinf(x) | (x == 0),  # 0·sign at 0, they 0 or NaN
    "pow": lambda x, y: np.isinf(x) | np.isinf(y) | (np.isnan(x) & (y == 0)),
}


@pytest.mark.parametrize("name", list(_BINARY))
def test_two_operands(name: str) -> None:
    grid = EDGES[:-2]
    x = np.concatenate([np.repeat(grid, grid.size), rng.normal(size=40)])
    y = np.concatenate([np.tile(grid, grid.size), rng.normal(size=40)])
    out, grads = ours(table[name], [x, y])
    want, slopes = theirs(_BINARY[name], [x, y])
    but = _PAIR_ELSEWHERE[name](x, y) if name in _PAIR_ELSEWHERE else None
    same(out, want, but)
    for g, s in zip(grads, slopes, strict=True):
        same(g, s, but)


def test_reductions_and_running_ones() -> None:
    x = rng.normal(size=(4, 6))
    x[1, 2] = x[2, 0] = x[2, 3] = 0.0
    x[3] = np.round(x[3])
    ct = rng.normal(size=4)
    for fn, peer in (
        (lambda v: table["reduce_prod"](v, axes=(1,)), lambda v: v.prod(1)),
        (lambda v: table["reduce_max"](v, axes=(1,)), lambda v: v.amax(1)),
        (lambda v: table["reduce_min"](v, axes=(1,)), lambda v: v.amin(1)),
    ):
        same(ours(fn, [x], ct)[1][0], theirs(peer, [x], ct)[1][0])
    wide = rng.normal(size=x.shape)
    kinds = {"sum": torch.cumsum, "prod": torch.cumprod, "logsumexp": torch.logcumsumexp}
    kinds |= {"max": lambda v, d: torch.cummax(v, d)[0], "min": lambda v, d: torch.cummin(v, d)[0]}
    for kind, peer in kinds.items():
        mine = ours(lambda v, k=kind: table["cumulative"](v, axis=1, kind=k, reverse=False), [x], wide)
        other = theirs(lambda v, p=peer: p(v, 1), [x], wide)
        same(mine[0], other[0])
        same(mine[1][0], other[1][0])


@pytest.mark.parametrize("kind, peer", [("mul", "prod"), ("max", "amax"), ("min", "amin")])
def test_reducing_scatter(kind: str, peer: str) -> None:
    x, u = np.round(rng.normal(size=(3, 4))), np.round(rng.normal(size=(5, 4)))
    at = rng.integers(0, 3, (5, 4))
    ct = rng.normal(size=x.shape)
    mine = ours(lambda a, b: table["scatter_reduce_along"](a, at, b, axis=0, kind=kind), [x, u], ct)
    other = theirs(lambda a, b: a.scatter_reduce(0, torch.tensor(at), b, peer), [x, u], ct)
    same(mine[0], other[0])
    for g, s in zip(mine[1], other[1], strict=True):
        same(g, s)
