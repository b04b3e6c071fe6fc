"""Functions and methods under PyTorch's names: each call is written once, for whoever is given as `t`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

R = np.random.default_rng(3)
A, B = R.normal(size=(3, 4)), R.normal(size=(3, 4))
V, W = R.normal(size=4), R.normal(size=3)
S, C = R.normal(size=(3, 3)), R.normal(size=(2, 3, 4))
K = S @ S.T + 3 * np.eye(3)
P = np.abs(A) + 0.1
Z = A + 1j * B
N = np.where(R.random((3, 4)) < 0.3, np.nan, A)
I, J = R.integers(0, 4, (3, 4)), R.integers(-9, 9, (3, 4))  # noqa: E741
IMAGE, GRID = R.normal(size=(2, 3, 5, 6)), R.uniform(-1.3, 1.3, (2, 4, 3, 2))
WAVE = R.normal(size=(2, 64))
LABELS = [[1, 0, -1, 2], [3, -1, 0, 0], [2, 1, 0, 3]]


def spectrum(t: Any, x: Any) -> Any:
    return t.stft(x, 16, 4, window=t.hann_window(16, dtype=x.dtype), return_complex=True)


CALLS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "addmm": (lambda t, c, a, b: t.addmm(c, a, b.t(), beta=0.5, alpha=2), (S, A, B)),
    "addmv": (lambda t, c, a, v: t.addmv(c, a, v), (W, A, V)),
    "addr": (lambda t, c, a, b: t.addr(c, a, b), (A, W, V)),
    "baddbmm": (lambda t, c, a: t.baddbmm(c, a, a.transpose(1, 2), beta=0), (S, C)),
    "addbmm": (lambda t, c, a: t.addbmm(c, a, a.transpose(1, 2)), (S, C)),
    "addcmul": (lambda t, a, b, v: t.addcmul(a, b, v, value=2.5), (A, B, V)),
    "addcdiv": (lambda t, a, b, v: a.addcdiv(b, v, value=2.5), (A, B, V)),
    "add_alpha": (lambda t, a, b: t.add(a, b, alpha=3), (A, B)),
    "sub_alpha_": (lambda t, a, b: a.clone().sub_(b, alpha=3), (A, B)),
    "div_floor": (lambda t, a, b: t.div(a, b, rounding_mode="floor"), (A, B)),
    "div_trunc": (lambda t, a: t.div(a, 4, rounding_mode="trunc"), (J,)),
    "std": (lambda t, a: a.std(), (A,)),
    "var_dim": (lambda t, a: a.var(dim=(0, 1), keepdim=True), (C,)),
    "std_mean": (lambda t, a: t.std_mean(a, dim=1), (A,)),
    "var_mean": (lambda t, a: t.var_mean(a, dim=-1, keepdim=True, unbiased=False), (A,)),
    "aminmax": (lambda t, a: t.aminmax(a, dim=1), (A,)),
    "max": (lambda t, a: a.max(1), (A,)),
    "min_keep": (lambda t, a: t.min(a, 0, keepdim=True), (A,)),
    "median": (lambda t, a: a.median(dim=1), (A,)),
    "median_all": (lambda t, a: t.median(a), (A,)),
    "nanmedian": (lambda t, a: t.nanmedian(a, dim=1).values, (N,)),
    "nanmean": (lambda t, a: t.nanmean(a, dim=0), (N,)),
    "kthvalue": (lambda t, a: t.kthvalue(a, 2, dim=0), (A,)),
    "mode": (lambda t, a: t.mode(a, dim=1).values, (I,)),
    "sort": (lambda t, a: a.sort(dim=0, descending=True), (A,)),
    "topk": (lambda t, a: a.topk(2, dim=0, largest=False), (A,)),
    "cummax": (lambda t, a: t.cummax(a, dim=1), (A,)),
    "cummin": (lambda t, a: t.cummin(a, dim=0), (I,)),
    "cov": (lambda t, a: t.cov(a), (A,)),
    "corrcoef": (lambda t, a: t.corrcoef(a), (A,)),
    "histc": (lambda t, a: t.histc(a, bins=5, min=-1, max=1), (A,)),
    "renorm": (lambda t, a: t.renorm(a, 2, 0, 1.0), (A,)),
    "unfold": (lambda t, a: a.unfold(1, 2, 1), (A,)),
    "as_strided": (lambda t, a: t.as_strided(a, (2, 2), (1, 3), 2), (A,)),
    "diag_embed": (lambda t, a: t.diag_embed(a, offset=1, dim1=0, dim2=2), (A,)),
    "diagonal_scatter": (lambda t, a, w: t.diagonal_scatter(a, w), (S, W)),
    "block_diag": (lambda t, a, v: t.block_diag(a, v), (A, V)),
    "cartesian_prod": (lambda t, a, b: t.cartesian_prod(a, b), (V, W)),
    "combinations": (lambda t, a: t.combinations(a, 2, with_replacement=True), (W,)),
    "tril_indices": (lambda t: t.tril_indices(3, 4, -1), ()),
    "triu": (lambda t, a: t.triu(a, 1), (A,)),
    "view_as_real": (lambda t, z: t.view_as_real(z), (Z,)),
    "polar": (lambda t, a, b: t.view_as_real(t.polar(a, b)), (P, B)),
    "index_put": (lambda t, a, i: a.clone().index_put_((i[0] % 3,), a[0], accumulate=True), (A, I)),
    "masked_scatter": (lambda t, a, b: a.masked_scatter(a > 0, b), (A, B)),
    "take_along_dim": (lambda t, a, i: t.take_along_dim(a, i, dim=1), (A, I)),
    "put": (lambda t, a, i: t.take_along_dim(a, i, dim=None), (A, I)),
    "unique": (lambda t, i: t.unique(i, return_inverse=True, return_counts=True), (I,)),
    "unique_consecutive": (lambda t, i: t.unique_consecutive(i.flatten(), return_counts=True), (I,)),
    "xlogy": (lambda t, a, b: t.xlogy(a.relu(), b), (A, P)),
    "sinc": (lambda t, a: t.sinc(a.relu()), (A,)),
    "polygamma": (lambda t, a: t.polygamma(1, a), (A,)),
    "polygamma2": (lambda t, a: t.polygamma(3, a), (P,)),
    "i0": (lambda t, a: t.special.i0e(a * 12), (A,)),
    "i1": (lambda t, a: t.special.i1(a * 3), (A,)),
    "entr": (lambda t, a: t.special.entr(a), (P,)),
    "ndtr": (lambda t, a: t.special.log_ndtr(a * 6), (A,)),
    "fmax": (lambda t, a, b: t.fmax(a, b), (N, A)),
    "heaviside": (lambda t, a, v: t.heaviside(a.relu().detach(), v.detach()), (A, V)),
    "gcd": (lambda t, i, j: t.gcd(i, j), (I, J)),
    "lcm": (lambda t, i, j: t.lcm(i, j), (I, J)),
    "float_power": (lambda t, a: t.float_power(a, 3), (A,)),
    "logdet": (lambda t, k: t.logdet(k), (K,)),
    "matrix_exp": (lambda t, a: t.matrix_exp(a * 3), (S,)),
    "cholesky_solve": (lambda t, b, k: t.cholesky_solve(b, t.linalg.cholesky(k)), (A, K)),
    "cholesky_inverse": (lambda t, k: t.cholesky_inverse(t.linalg.cholesky(k)), (K,)),
    "svd": (lambda t, a: (lambda u, s, v: u @ t.diag(s) @ v.t())(*t.svd(a)), (A,)),
    "cross": (lambda t, a, b: t.cross(a, b, dim=1), (S, K)),
    "stft": (lambda t, x: t.view_as_real(spectrum(t, x)), (WAVE,)),
    "istft": (lambda t, x: t.istft(spectrum(t, x), 16, 4, window=t.hann_window(16, dtype=x.dtype)), (WAVE,)),
    "kaiser": (lambda t: t.kaiser_window(9, periodic=False, beta=5.0, dtype=t.float64), ()),
    "blackman": (lambda t: t.blackman_window(9, dtype=t.float64), ()),
    **{
        f"grid_sample {mode} {edge} {aligned}": (
            lambda t, x, g, m=mode, e=edge, c=aligned: t.nn.functional.grid_sample(
                x, g, mode=m, padding_mode=e, align_corners=c
            ),
            (IMAGE, GRID),
        )
        for mode in ("bilinear", "nearest", "bicubic")
        for edge in ("zeros", "border", "reflection")
        for aligned in (True, False)
    },
    "affine_grid": (
        lambda t, a: t.nn.functional.affine_grid(a, (2, 3, 4, 5), align_corners=False),
        (R.normal(size=(2, 2, 3)),),
    ),
    "antialias": (
        lambda t, x: t.nn.functional.interpolate(x, size=(3, 4), mode="bilinear", antialias=True),
        (IMAGE,),
    ),
    "antialias cubic": (
        lambda t, x: t.nn.functional.interpolate(
            x, size=(2, 9), mode="bicubic", antialias=True, align_corners=False
        ),
        (IMAGE,),
    ),
    "pdist": (lambda t, a: t.nn.functional.pdist(a, 3.0), (A,)),
    "multilabel": (lambda t, a, i: t.nn.functional.multilabel_margin_loss(a, t.tensor(LABELS)), (A, I)),
    "quantile": (
        lambda t, a: t.quantile(a, t.tensor([0.2, 0.7], dtype=t.float64), dim=1, keepdim=True),
        (A,),
    ),
    "repeat": (lambda t, a: a.repeat(2, 1, 2), (A,)),
    "repeat_interleave": (lambda t, a: t.repeat_interleave(a, t.tensor([1, 0, 2]), dim=0), (A,)),
    "roll": (lambda t, a: t.roll(a, shifts=(1, -1), dims=(0, 1)), (A,)),
    "rot90": (lambda t, a: t.rot90(a, 1, [0, 1]), (A,)),
    "tensordot": (lambda t, a, b: t.tensordot(a, b, dims=([0], [0])), (A, B)),
    "movedim": (lambda t, c: t.movedim(c, (0, 1), (2, 0)), (C,)),
    "nonzero": (lambda t, a: t.nonzero(a > 0, as_tuple=False), (A,)),
    "where": (lambda t, a: t.stack(t.where(a > 0)), (A,)),
    "bucketize": (lambda t, a, v: t.bucketize(a, v.sort()[0]), (A, V)),
    "scatter_reduce": (
        lambda t, a, i: t.zeros(3, 4, dtype=a.dtype).scatter_reduce(
            1, i, a, reduce="mean", include_self=False
        ),
        (A, I),
    ),
    "trapezoid": (lambda t, a: t.trapezoid(a, dx=0.5, dim=0), (A,)),
    "vander": (lambda t, a: t.logaddexp2(a, a * 2), (A,)),
    "squeeze": (lambda t, a: a.unsqueeze(0).squeeze(1).squeeze(0), (A,)),
    "dist": (lambda t, a, b: t.dist(a, b, 3), (A, B)),
    "norm": (lambda t, a: t.norm(a, p=3, dim=1, keepdim=True), (A,)),
    "weight_norm": (lambda t, a: t.nn.functional.normalize(a, p=1, dim=0), (A,)),
}
