"""Functions that few programs call, beside NumPy and SciPy, with every argument given some other value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import linalg, signal, special

import trilobite as tb

RNG = np.random.default_rng(17)
A = RNG.standard_normal((3, 4))
B = RNG.standard_normal((3, 4))
CUBE = RNG.standard_normal((2, 3, 4))
V = RNG.standard_normal(5)
W = RNG.standard_normal(4)
SQUARE = RNG.standard_normal((3, 3)) + 3 * np.eye(3)
HOLES = np.where(RNG.random((4, 5)) < 0.3, np.nan, RNG.standard_normal((4, 5)))
Z = A + 1j * B


def t(x: Any) -> Any:
    return tb.tensor(np.asarray(x))


def put(x: Any, key: Any, values: Any) -> Any:
    out = np.array(x)
    out[key] = values
    return out


def strided(x: Any, size: tuple[int, ...], stride: tuple[int, ...], offset: int) -> Any:
    flat = np.ascontiguousarray(x).reshape(-1)
    steps = tuple(s * flat.itemsize for s in stride)
    return np.lib.stride_tricks.as_strided(flat[offset:], size, steps)


def strided_scatter(x: Any, src: Any, size: tuple[int, ...], stride: tuple[int, ...], offset: int) -> Any:
    out = np.ascontiguousarray(x).copy()
    strided(out, size, stride, offset)[...] = src
    return out


def embedded(x: Any, offset: int, dim1: int, dim2: int) -> Any:
    n = x.shape[-1] + abs(offset)
    out = np.zeros((*x.shape[:-1], n, n), x.dtype)
    at = np.arange(x.shape[-1])
    out[..., at + max(-offset, 0), at + max(offset, 0)] = x
    return np.moveaxis(out, (-2, -1), (dim1, dim2))


def renormed(x: Any, p: float, dim: int, most: float) -> Any:
    others = tuple(a for a in range(x.ndim) if a != dim)
    size = (np.abs(x) ** p).sum(others, keepdims=True) ** (1 / p)
    return x * np.where(size > most, most / (size + 1e-7), 1.0)


def window(name: str, **more: float) -> Callable[[int, bool], Any]:
    made = (name, more["beta"]) if more else name
    return lambda n, periodic: signal.get_window(made, n, fftbins=periodic) if n > 1 else np.ones(n)


# name -> what is called, and what it should be
EACH: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "addr": (lambda: tb.addr(t(A), t(A[:, 0]), t(W), beta=0.5, alpha=-2.0),
             lambda: 0.5 * A - 2 * np.outer(A[:, 0], W)),
    "ger": (lambda: tb.ger(t(V), t(W)), lambda: np.outer(V, W)),
    "aminmax": (lambda: tb.aminmax(t(CUBE), dim=1, keepdim=True),
                lambda: (CUBE.min(1, keepdims=True), CUBE.max(1, keepdims=True))),
    "aminmax of all": (lambda: tb.aminmax(t(CUBE)), lambda: (CUBE.min(), CUBE.max())),
    "block_diag": (lambda: tb.block_diag(t(A), t(SQUARE), t(2.0)), lambda: linalg.block_diag(A, SQUARE, 2.0)),
    "broadcast_tensors": (lambda: tb.broadcast_tensors(t(A[:, :1]), t(W)),
                          lambda: np.broadcast_arrays(A[:, :1], W)),
    "cartesian_prod": (lambda: tb.cartesian_prod(t([1, 2, 3]), t([4, 5])),
                       lambda: np.array([[a, b] for a in (1, 2, 3) for b in (4, 5)])),
    "combinations": (lambda: tb.combinations(t([1, 2, 3]), 2, with_replacement=True),
                     lambda: np.array([[1, 1], [1, 2], [1, 3], [2, 2], [2, 3], [3, 3]])),
    "chain_matmul": (lambda: tb.chain_matmul(t(A), t(B.T), t(SQUARE)), lambda: A @ B.T @ SQUARE),
    "multi_dot": (lambda: tb.linalg.multi_dot([t(W), t(B.T), t(SQUARE), t(A[:, 0])]),
                  lambda: W @ B.T @ SQUARE @ A[:, 0]),
    "clamp_min": (lambda: tb.clamp_min(t(A), 0.2), lambda: np.maximum(A, 0.2)),
    "clamp_max": (lambda: tb.clamp_max(t(A), t(B)), lambda: np.minimum(A, B)),
    "column_stack": (lambda: tb.column_stack((t(A), t(A[:, 0]))), lambda: np.column_stack((A, A[:, 0]))),
    "row_stack": (lambda: tb.row_stack((t(A), t(W))), lambda: np.vstack((A, W))),
    "dstack": (lambda: tb.dstack((t(A), t(B))), lambda: np.dstack((A, B))),
    "hstack of numbers": (lambda: tb.hstack((t(V), t(W))), lambda: np.hstack((V, W))),
    "conj_physical": (lambda: tb.conj_physical(t(Z)), lambda: Z.conj()),
    "trapezoid": (lambda: tb.trapezoid(t(A), dx=0.5, dim=0), lambda: np.trapezoid(A, dx=0.5, axis=0)),
    "trapz": (lambda: tb.trapz(t(A), t(B), dim=1), lambda: np.trapezoid(A, B, axis=1)),
    "cumulative_trapezoid": (lambda: tb.cumulative_trapezoid(t(A), dx=0.25, dim=1),
                             lambda: np.cumsum((A[:, 1:] + A[:, :-1]) / 2 * 0.25, axis=1)),
    "cumulative_trapezoid of places": (lambda: tb.cumulative_trapezoid(t(A), t(B), dim=0),
                                       lambda: np.cumsum((A[1:] + A[:-1]) / 2 * np.diff(B, axis=0), axis=0)),
    "diag_embed": (lambda: tb.diag_embed(t(A), offset=-1, dim1=0, dim2=2), lambda: embedded(A, -1, 0, 2)),
    "diag_embed above": (lambda: tb.diag_embed(t(A), offset=2), lambda: embedded(A, 2, -2, -1)),
    "diagflat": (lambda: tb.diagflat(t(A[:2, :2]), 1), lambda: np.diagflat(A[:2, :2], 1)),
    "diagonal_scatter": (lambda: tb.diagonal_scatter(t(A), t([7.0, 8.0, 9.0]), offset=1),
                         lambda: put(A, ([0, 1, 2], [1, 2, 3]), [7.0, 8.0, 9.0])),
    "select_scatter": (lambda: tb.select_scatter(t(A), t(V[:3]), 1, 2),
                       lambda: put(A, (slice(None), 2), V[:3])),
    "slice_scatter": (lambda: tb.slice_scatter(t(A), t(B[:, :2]), dim=1, start=0, end=4, step=2),
                      lambda: put(A, (slice(None), slice(0, 4, 2)), B[:, :2])),
    "as_strided": (lambda: tb.as_strided(t(A), (2, 3), (4, 1), 3), lambda: strided(A, (2, 3), (4, 1), 3)),
    "as_strided_scatter": (lambda: tb.as_strided_scatter(t(A), t(B[:2, :3]), (2, 3), (4, 1), 1),
                           lambda: strided_scatter(A, B[:2, :3], (2, 3), (4, 1), 1)),
    "fix": (lambda: tb.fix(t(5 * A)), lambda: np.fix(5 * A)),
    "fliplr": (lambda: tb.fliplr(t(A)), lambda: np.fliplr(A)),
    "flipud": (lambda: tb.flipud(t(A)), lambda: np.flipud(A)),
    "rot90": (lambda: tb.rot90(t(CUBE), 3, (0, 2)), lambda: np.rot90(CUBE, 3, (0, 2))),
    "float_power": (lambda: tb.float_power(t(np.arange(4)), 0.5), lambda: np.float_power(np.arange(4), 0.5)),
    "frobenius_norm": (lambda: tb.frobenius_norm(t(CUBE), dim=(0, 2), keepdim=True),
                       lambda: np.sqrt((CUBE**2).sum((0, 2), keepdims=True))),
    "heaviside": (lambda: tb.heaviside(t([-1.0, 0.0, 2.0]), t(0.25)),
                  lambda: np.heaviside([-1.0, 0.0, 2.0], 0.25)),
    "index_put": (
        lambda: tb.index_put(t(A), (t([0, 2, 0]), t([1, 3, 1])), t([1.0, 2.0, 4.0]), accumulate=True),
                  lambda: put(A, ([0, 2], [1, 3]), [A[0, 1] + 5.0, A[2, 3] + 2.0])),
    "index_reduce": (lambda: tb.index_reduce(t(A), 1, t([3, 0, 3]), t(B[:, :3]), "amax", include_self=False),
        lambda: put(put(A, (slice(None), 3), np.maximum(B[:, 0], B[:, 2])), (slice(None), 0), B[:, 1])),
    "index_reduce prod": (lambda: tb.index_reduce(t(A), 0, t([1, 1]), t(B[:2]), "prod"),
                          lambda: put(A, 1, A[1] * B[0] * B[1])),
    "index_add": (lambda: tb.index_add(t(A), 1, t([3, 0, 3]), t(B[:, :3]), alpha=-2.0),
        lambda: put(put(A, (slice(None), 3), A[:, 3] - 2 * (B[:, 0] + B[:, 2])), (slice(None), 0),
                    A[:, 0] - 2 * B[:, 1])),
    "index_fill": (lambda: tb.index_fill(t(A), 1, t([0, 2]), 9.0),
                   lambda: put(A, (slice(None), [0, 2]), 9.0)),
    "isneginf": (lambda: tb.isneginf(t([-np.inf, np.inf, 0.0, np.nan])),
                 lambda: np.array([True, False, False, False])),
    "isposinf": (lambda: tb.isposinf(t([-np.inf, np.inf, 0.0, np.nan])),
                 lambda: np.array([False, True, False, False])),
    "isreal": (lambda: tb.isreal(t([1 + 0j, 1 + 1j])), lambda: np.array([True, False])),
    "logaddexp2": (lambda: tb.logaddexp2(t(A), t(B)), lambda: np.logaddexp2(A, B)),
    "logdet": (lambda: tb.logdet(t(np.stack([SQUARE, SQUARE @ SQUARE]))),
               lambda: np.log(np.linalg.det(np.stack([SQUARE, SQUARE @ SQUARE])))),
    "masked_scatter": (lambda: tb.masked_scatter(t(A), t(A > 0), t(np.arange(12.0))),
                       lambda: put(A, A > 0, np.arange(12.0)[: (A > 0).sum()])),
    "msort": (lambda: tb.msort(t(A)), lambda: np.sort(A, axis=0)),
    "mvlgamma": (lambda: tb.mvlgamma(t([2.5, 4.0]), 3),
                 lambda: special.multigammaln(np.array([2.5, 4.0]), 3)),
    "nanquantile": (lambda: tb.nanquantile(t(HOLES), t([0.2, 0.9]), dim=1, keepdim=True),
                    lambda: np.nanquantile(HOLES, [0.2, 0.9], axis=1, keepdims=True)),
    "quantile of lower": (lambda: tb.quantile(t(A), 0.4, dim=0, interpolation="lower"),
                          lambda: np.quantile(A, 0.4, axis=0, method="lower")),
    "narrow": (lambda: tb.narrow(t(A), 1, 1, 2), lambda: A[:, 1:3]),
    "narrow_copy": (lambda: tb.narrow_copy(t(A), 0, 1, 2), lambda: A[1:3]),
    "renorm": (lambda: tb.renorm(t(3 * A), 2, 0, 2.0), lambda: renormed(3 * A, 2, 0, 2.0)),
    "renorm of columns": (lambda: tb.renorm(t(A), 1, 1, 0.7), lambda: renormed(A, 1, 1, 0.7)),
    "rsub": (lambda: tb.rsub(t(A), t(B), alpha=3), lambda: B - 3 * A),
    "sinc": (lambda: tb.sinc(t([0.0, 0.5, -1.0, 2.3])), lambda: np.sinc([0.0, 0.5, -1.0, 2.3])),
    "std_mean": (lambda: tb.std_mean(t(A), dim=1, correction=0, keepdim=True),
                 lambda: (A.std(1, keepdims=True), A.mean(1, keepdims=True))),
    "var_mean": (lambda: tb.var_mean(t(A), dim=0), lambda: (A.var(0, ddof=1), A.mean(0))),
    "swapdims": (lambda: tb.swapdims(t(CUBE), 0, -1), lambda: np.swapaxes(CUBE, 0, -1)),
    "movedim": (lambda: tb.movedim(t(CUBE), (0, 1), (2, 0)), lambda: np.moveaxis(CUBE, (0, 1), (2, 0))),
    "tril_indices": (lambda: tb.tril_indices(4, 3, -1), lambda: np.array(np.tril_indices(4, -1, 3))),
    "triu_indices": (lambda: tb.triu_indices(3, 4, 1), lambda: np.array(np.triu_indices(3, 1, 4))),
    "true_divide": (lambda: tb.true_divide(t([3, 4]), t([2, 3])), lambda: np.array([1.5, 4 / 3])),
    "vander": (lambda: tb.vander(t(V), 3, increasing=True), lambda: np.vander(V, 3, increasing=True)),
    "vander falling": (lambda: tb.vander(t(V)), lambda: np.vander(V)),
    "unique_consecutive": (
        lambda: tb.unique_consecutive(t([1, 1, 2, 2, 2, 1, 3]), return_inverse=True, return_counts=True),
        lambda: (np.array([1, 2, 1, 3]), np.array([0, 0, 1, 1, 1, 2, 3]), np.array([2, 3, 1, 1]))),
    "pdist": (lambda: tb.pdist(t(A), p=3.0),
        lambda: np.array([(np.abs(A[i] - A[j]) ** 3).sum() ** (1 / 3) for i, j in ((0, 1), (0, 2), (1, 2))])),
    "cdist": (lambda: tb.cdist(t(A), t(B), p=1.0), lambda: np.abs(A[:, None] - B[None]).sum(-1)),
    "tensor_split": (lambda: tb.tensor_split(t(V), 3), lambda: np.array_split(V, 3)),
    "tensor_split at": (lambda: tb.tensor_split(t(A), (1, 3), dim=1), lambda: np.split(A, (1, 3), 1)),
    "split_with_sizes": (lambda: tb.split_with_sizes(t(V), [2, 0, 3]), lambda: (V[:2], V[2:2], V[2:])),
    "unsafe_chunk": (lambda: tb.unsafe_chunk(t(V), 2), lambda: (V[:3], V[3:])),
    "cov": (lambda: tb.cov(t(A), correction=0, fweights=t([1, 2, 3, 1])),
            lambda: np.cov(A, ddof=0, fweights=[1, 2, 3, 1])),
    "corrcoef": (lambda: tb.corrcoef(t(A)), lambda: np.corrcoef(A)),
    "histc": (lambda: tb.histc(t(A), bins=4, min=-1.0, max=1.0),
              lambda: np.histogram(A, 4, (-1.0, 1.0))[0].astype(float)),
    "bucketize": (lambda: tb.bucketize(t([0.0, 1.0, 2.5]), t([0.0, 1.0, 2.0]), right=True),
                  lambda: np.searchsorted([0.0, 1.0, 2.0], [0.0, 1.0, 2.5], side="right")),
    "searchsorted": (lambda: tb.searchsorted(t([0.0, 1.0, 1.0, 2.0]), t([1.0, 3.0]), side="left"),
                     lambda: np.array([1, 4])),
    "bincount": (lambda: tb.bincount(t([1, 3, 1]), weights=t([0.5, 1.0, 2.0]), minlength=6),
                 lambda: np.bincount([1, 3, 1], [0.5, 1.0, 2.0], 6)),
    "diff": (lambda: tb.diff(t(A), n=2, dim=1, prepend=t(B[:, :1]), append=t(B[:, 1:2])),
             lambda: np.diff(A, 2, 1, B[:, :1], B[:, 1:2])),
    "gradient": (lambda: tb.gradient(t(V), spacing=0.5)[0], lambda: np.gradient(V, 0.5)),
    "logcumsumexp": (lambda: tb.logcumsumexp(t(A), 1), lambda: np.logaddexp.accumulate(A, 1)),
    "kron": (lambda: tb.kron(t(A), t(SQUARE)), lambda: np.kron(A, SQUARE)),
    "baddbmm": (
        lambda: tb.baddbmm(t(np.ones((2, 3, 3))), t(CUBE), t(CUBE.transpose(0, 2, 1)), beta=0.5, alpha=2.0),
                lambda: 0.5 + 2 * CUBE @ CUBE.transpose(0, 2, 1)),
    "addbmm": (lambda: tb.addbmm(t(SQUARE), t(CUBE), t(CUBE.transpose(0, 2, 1)), beta=0.5, alpha=2.0),
               lambda: 0.5 * SQUARE + 2 * (CUBE @ CUBE.transpose(0, 2, 1)).sum(0)),
    "addmv": (lambda: tb.addmv(t(V[:3]), t(A), t(W), beta=0.5, alpha=2.0), lambda: 0.5 * V[:3] + 2 * A @ W),
    "addcmul": (lambda: tb.addcmul(t(A), t(B), t(W), value=0.5), lambda: A + 0.5 * B * W),
    "addcdiv": (lambda: tb.addcdiv(t(A), t(B), t(W), value=0.5), lambda: A + 0.5 * B / W),
    "lerp": (lambda: tb.lerp(t(A), t(B), t(0.3)), lambda: A + 0.3 * (B - A)),
    "nan_to_num": (lambda: tb.nan_to_num(t([np.nan, np.inf, -np.inf, 1.0]), nan=5.0, posinf=6.0, neginf=7.0),
                   lambda: np.array([5.0, 6.0, 7.0, 1.0])),
    "copysign": (lambda: tb.copysign(t([1.0, -2.0, 0.0]), t([-0.0, 3.0, -1.0])),
                 lambda: np.copysign([1.0, -2.0, 0.0], [-0.0, 3.0, -1.0])),
    "ldexp": (lambda: tb.ldexp(t(V), t([1, -2, 0, 3, 4])), lambda: np.ldexp(V, [1, -2, 0, 3, 4])),
    "frexp": (lambda: tb.frexp(t(V)), lambda: np.frexp(V)),
    "xlogy": (lambda: tb.xlogy(t([0.0, 2.0]), t([0.0, 3.0])), lambda: special.xlogy([0.0, 2.0], [0.0, 3.0])),
    "solve_ex": (lambda: tb.linalg.solve_ex(t(SQUARE), t(A))[0], lambda: np.linalg.solve(SQUARE, A)),
    "inv_ex": (lambda: tb.linalg.inv_ex(t(SQUARE))[0], lambda: np.linalg.inv(SQUARE)),
    "cholesky_ex": (lambda: tb.linalg.cholesky_ex(t(SQUARE @ SQUARE.T))[0],
                    lambda: np.linalg.cholesky(SQUARE @ SQUARE.T)),
    "linalg.matrix_norm": (lambda: tb.linalg.matrix_norm(t(A), 1), lambda: np.linalg.norm(A, 1)),
    "linalg.vector_norm": (lambda: tb.linalg.vector_norm(t(A), 3, dim=0),
                           lambda: (np.abs(A) ** 3).sum(0) ** (1 / 3)),
}  # fmt: skip


@pytest.mark.parametrize("name", EACH)
def test_functions_beside_numpy(name: str) -> None:
    ours, theirs = EACH[name]
    found, want = ours(), theirs()
    if not isinstance(want, (tuple, list)):
        found, want = (found,), (want,)
    assert len(found) == len(want)
    for a, b in zip(found, want, strict=True):
        assert tuple(a.shape) == np.shape(b)
        np.testing.assert_allclose(a.numpy(), b, rtol=1e-6, atol=1e-9)


WINDOWS: dict[str, tuple[Callable[..., Any], Callable[[int, bool], Any]]] = {
    "bartlett": (tb.bartlett_window, window("bartlett")),
    "blackman": (tb.blackman_window, window("blackman")),
    "hamming": (tb.hamming_window, window("hamming")),
    "hann": (tb.hann_window, window("hann")),
    "kaiser": (lambda n, periodic, **s: tb.kaiser_window(n, periodic, 7.5, **s), window("kaiser", beta=7.5)),
}


@pytest.mark.parametrize("name", WINDOWS)
@pytest.mark.parametrize("n", [1, 2, 3, 8, 13])
@pytest.mark.parametrize("periodic", [True, False])
def test_windows_beside_scipy(name: str, n: int, periodic: bool) -> None:
    ours, theirs = WINDOWS[name]
    found = ours(n, periodic, dtype=tb.float64)
    np.testing.assert_allclose(found.numpy(), theirs(n, periodic), rtol=1e-9, atol=1e-12)


def test_windows_are_periodic_and_kaiser_is_of_twelve_unless_told() -> None:
    for call in (tb.bartlett_window, tb.blackman_window, tb.hamming_window, tb.hann_window, tb.kaiser_window):
        np.testing.assert_array_equal(call(9).numpy(), call(9, True).numpy())
    np.testing.assert_allclose(
        tb.kaiser_window(9, dtype=tb.float64).numpy(), signal.get_window(("kaiser", 12.0), 9)
    )
    found = tb.hamming_window(9, True, 0.6, 0.4, dtype=tb.float64).numpy()
    np.testing.assert_allclose(found, 0.6 - 0.4 * np.cos(2 * np.pi * np.arange(9) / 9))


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("normalized", [True, False])
@pytest.mark.parametrize("onesided", [True, False])
@pytest.mark.parametrize(("size", "hop", "length"), [(16, 4, 16), (16, 5, 12), (9, 3, 9)])
def test_spectra_by_hand_and_back(
    center: bool, normalized: bool, onesided: bool, size: int, hop: int, length: int
) -> None:
    x = RNG.standard_normal((2, 70))
    shape = signal.get_window("hamming", length)
    settings = {"hop_length": hop, "win_length": length, "window": t(shape), "center": center,
                "normalized": normalized, "onesided": onesided}  # fmt: skip
    found = tb.stft(t(x), size, return_complex=True, **settings)
    framed = np.pad(x, ((0, 0), (size // 2, size // 2)), "reflect") if center else x
    left = (size - length) // 2
    full = np.zeros(size)
    full[left : left + length] = shape
    starts = range(0, framed.shape[1] - size + 1, hop)
    rows = np.stack([np.fft.fft(framed[:, s : s + size] * full) for s in starts], axis=-1)
    rows = rows[:, : size // 2 + 1] if onesided else rows
    np.testing.assert_allclose(found.numpy(), rows / (np.sqrt(size) if normalized else 1.0), atol=1e-9)
    if center:
        back = tb.istft(found, size, length=x.shape[1], **settings).numpy()
        covered = (len(starts) - 1) * hop
        np.testing.assert_allclose(back[:, :covered], x[:, :covered], atol=1e-9)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("jitted", [False, True])
def test_slopes_of_logcumsumexp_where_nothing_has_come_yet(reverse: bool, jitted: bool) -> None:
    """d out[i] / d x[j] is the share exp(x[j] - out[i]) of what has come by then; 0 where that is nothing."""
    inf = np.inf
    x = np.array([[-inf, -inf, 0.5, -inf, 2.0], [1.0, -inf, 3.0, -2.0, -inf], [-inf] * 5])
    weight = np.random.default_rng(1).standard_normal(x.shape)

    def f(v: tb.Tensor) -> tb.Tensor:
        out = tb.logcumsumexp(tb.flip(v, (1,)) if reverse else v, 1)
        out = tb.flip(out, (1,)) if reverse else out
        return tb.where(tb.isinf(out), tb.zeros_like(out), out * tb.tensor(weight)).sum()

    order = slice(None, None, -1) if reverse else slice(None)
    e = np.exp(x[:, order])
    total = np.cumsum(e, 1)
    share = np.divide(e[:, None, :], total[:, :, None], where=total[:, :, None] > 0, out=np.zeros((3, 5, 5)))
    wanted = np.einsum("ri,rij->rj", weight[:, order], share * np.tri(5))[:, order]
    found = (tb.jit(tb.grad(f)) if jitted else tb.grad(f))(tb.tensor(x)).numpy()
    np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-14)
