"""All operations that PyTorch has samples of, there and here: values, first and second gradients.

What differs is listed with its reason. `MISSING` are names that are not here: a name that comes must leave
the list.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the peers' environment has it")

import trilobite as tb  # noqa: E402
from tests.habits.peer_sweep import Comparison, label, ours, samples_of_pytorch, special  # noqa: E402

pytestmark = pytest.mark.peer
SAMPLES, SPECIAL = 24, 8

NOT_OFFERED = "native backends sparse tensors masked tensors jiterator: PyTorch's own machinery"
_PRIVATE = ("_", "torch.", "native_", "sparse.", "masked.", "jiterator", "max_pool2d_with_indices")

MISSING = frozenset(
    """alias_copy geqrf hash_tensor histogramdd igamma igammac lu_solve nonzero_static ormqr slice
    constant_pad_nd grid_sampler_2d grid_sampler_3d nn.functional.linear_cross_entropy lu lu_unpack
    cdouble cfloat fft.hfft2 fft.hfftn fft.ihfft2 fft.ihfftn linalg.householder_product linalg.ldl_factor
    linalg.ldl_factor_ex linalg.ldl_solve linalg.lu_solve linalg.tensorinv linalg.tensorsolve linalg.vander
    signal.windows.hamming signal.windows.hann signal.windows.bartlett signal.windows.blackman
    signal.windows.cosine signal.windows.exponential signal.windows.gaussian signal.windows.kaiser
    signal.windows.general_cosine signal.windows.general_hamming signal.windows.nuttall special.zeta
    special.erfcx special.airy_ai special.bessel_j0 special.bessel_j1 special.bessel_y0 special.bessel_y1
    special.chebyshev_polynomial_t special.chebyshev_polynomial_u special.chebyshev_polynomial_v
    special.chebyshev_polynomial_w special.hermite_polynomial_h special.hermite_polynomial_he
    special.laguerre_polynomial_l special.legendre_polynomial_p special.modified_bessel_i0
    special.modified_bessel_i1 special.modified_bessel_k0 special.modified_bessel_k1
    special.scaled_modified_bessel_k0 special.scaled_modified_bessel_k1
    special.shifted_chebyshev_polynomial_t special.shifted_chebyshev_polynomial_u
    special.shifted_chebyshev_polynomial_v special.shifted_chebyshev_polynomial_w
    special.spherical_bessel_j0""".split()
)

OTHERWISE = {
    **dict.fromkeys(
        """cauchy exponential geometric log_normal uniform randn randn_like rand_like randint randint_like
        multinomial normal normal.in_place normal.number_mean bernoulli nn.functional.dropout
        nn.functional.dropout2d nn.functional.dropout3d nn.functional.alpha_dropout nn.functional.rrelu
        nn.functional.feature_alpha_dropout.with_train nn.functional.multi_head_attention_forward
        nn.functional.scaled_dot_product_attention nn.functional.fractional_max_pool2d
        nn.functional.fractional_max_pool3d svd_lowrank pca_lowrank""".split(),
        "random: draws are not PyTorch's",
    ),
    **dict.fromkeys(
        "empty empty_like new_empty new_empty_strided empty_strided empty_permuted".split(), "not written yet"
    ),
    **dict.fromkeys("equal sort squeeze squeeze.multiple std var".split(), "decision 21"),
    **dict.fromkeys(
        "svd linalg.svd linalg.eig linalg.eigh".split(), "vectors have another sign; tests of their own"
    ),
    "chalf": "no complex numbers of 16 bits",
    "bfloat16": "NumPy cannot show PyTorch's",
    "nn.functional.triplet_margin_with_distance_loss": "the sample calls modules of PyTorch",
    **dict.fromkeys("resize_ resize_as_ to_sparse".split(), "memory behind a tensor has no size of its own"),
    **dict.fromkeys("fill zero_".split(), "a constant requires no gradient here, zeros there"),
    "as_strided.partial_views": "views of PyTorch's storage are not converted",
    "cov": "weights in float32 count in float32 there, in float64 here",
    "cat": "the empty line of shape (0,) that fits every shape is not taken",
    "gather": "of a number, and at no places: other shapes",
    "gradient": "spacing by places is refused",
    "quantile": "no slope by the fractions",
    "nanquantile": "no slope by the fractions",
    "tensordot": "sizes of 1 are not repeated",
    "linalg.lstsq": "residuals and rank are given always",
    "linalg.lstsq.grad_oriented": "residuals and rank are given always",
    "linalg.lu_factor": "pivots are int64",
    "linalg.lu_factor_ex": "pivots are int64",
    "linalg.solve": "a square of vectors is a matrix, as the standard says",
    "linalg.solve_ex": "a square of vectors is a matrix, as the standard says",
    "nn.functional.batch_norm": "no channels: refused",
}
"""What means something else here, and why."""

NO_GRADIENTS = {
    "cholesky_inverse": "the half that is not read has slope 0 here",
    "cholesky_solve": "the half that is not read has slope 0 here",
    "as_strided_scatter": "what is overwritten has slope 0 here",
    "nn.functional.max_unpool1d": "of equal places the last is kept: the others have slope 0 here",
    "nn.functional.max_unpool2d": "of equal places the last is kept: the others have slope 0 here",
    "nn.functional.max_unpool3d": "of equal places the last is kept: the others have slope 0 here",
    "nn.functional.ctc_loss": "the slope by logarithms that need not sum to 1; behind log_softmax both agree",
    "linalg.pinv.hermitian": "the slope is that of the Hermitian part",
}

NO_SECOND = {
    "linalg.norm": "at zeros NaN there, 0 here",
    "linalg.norm.subgradients_at_zero": "at zeros NaN there, 0 here",
    "linalg.vector_norm": "at zeros NaN there, 0 here",
}

AT_CORNERS = {
    **dict.fromkeys(
        """kthvalue topk mode msort nn.functional.pdist argsort median nanmedian cdist
        nn.functional.embedding_bag index_reduce.amin index_reduce.amax scatter_reduce.amin
        scatter_reduce.amax clamp polar nextafter
        searchsorted nn.functional.hardsigmoid linalg.eigvalsh""".split(),
        "ties: another of the equal ones, or another share of the slope",
    ),
    **dict.fromkeys("byte char short int long bool".split(), "casts of what does not fit"),
    **dict.fromkeys(
        """nn.functional.elu nn.functional.celu nn.functional.selu nn.functional.prelu index_reduce.prod
        nn.functional.cosine_similarity nn.functional.normalize""".split(),
        "curvature at a corner",
    ),
    **dict.fromkeys(
        """lgamma digamma polygamma.polygamma_n_0 polygamma.polygamma_n_1 polygamma.polygamma_n_2
        polygamma.polygamma_n_3 polygamma.polygamma_n_4 special.polygamma.special_polygamma_n_0
        mvlgamma.mvlgamma_p_1 mvlgamma.mvlgamma_p_3 mvlgamma.mvlgamma_p_5 rsqrt special.entr xlogy
        special.xlog1py logit pow float_power __rpow__ corrcoef
        linalg.cholesky_ex div.trunc_rounding div.floor_rounding acosh atan2 fmod remainder
        linalg.det""".split(),
        "poles, and numbers outside of the function's domain",
    ),
}

OPERATIONS = [op for op in samples_of_pytorch() if not label(op).startswith(_PRIVATE)]


def _samples(op: Any, count: int) -> tuple[list[Any], bool]:
    gradients = op.supports_autograd and torch.float64 in op.supported_backward_dtypes("cpu")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        found = list(op.sample_inputs("cpu", torch.float64, requires_grad=gradients))
    step = max(1, -(-len(found) // count))
    return found[::step], gradients


def _differences(op: Any, count: int, corners: bool) -> list[str]:
    fn, name = ours(op), label(op)
    samples, gradients = _samples(op, count)
    random, found = np.random.default_rng(1), []
    for sample in samples:
        sample = special(sample, random) if corners else sample
        compared = Comparison(op, fn, sample, corners)  # type: ignore[arg-type]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            second = op.supports_gradgrad and name not in NO_SECOND
            found += list(compared.problems(gradients and name not in NO_GRADIENTS, second))
    return found


def test_what_is_missing_is_listed() -> None:
    missing = {op.name for op in OPERATIONS if ours(op) is None}
    assert missing == MISSING


SWEPT = [
    pytest.param(op, id=label(op))
    for op in OPERATIONS
    if op.name not in MISSING and label(op) not in OTHERWISE and torch.float64 in op.supported_dtypes("cpu")
]


@pytest.mark.parametrize("op", SWEPT)
def test_samples_agree(op: Any) -> None:
    assert _differences(op, SAMPLES, False) == []


@pytest.mark.parametrize("op", [p for p in SWEPT if p.id not in AT_CORNERS])
def test_zeros_and_ties_agree(op: Any) -> None:
    assert _differences(op, SPECIAL, True) == []


def test_positions_are_pytorchs() -> None:
    """Arguments that the standard has by word alone, by place."""
    a = np.random.default_rng(0).standard_normal((3, 4))
    x, y = torch.tensor(a), tb.tensor(a)
    for call in (
        lambda t, m: t.sum(1, True), lambda t, m: t.mean((0, 1), True), lambda t, m: t.amax(1, True),
        lambda t, m: t.argmax(1, True), lambda t, m: t.topk(2, 1, False)[0], lambda t, m: t.norm(2, 1, True),
        lambda t, m: t.logsumexp(1, True), lambda t, m: m.fft.fft(t, 6, 0), lambda t, m: (t > 0).all(1, True),
        lambda t, m: t.quantile(0.5, 1, True), lambda t, m: m.linalg.vector_norm(t, 2, 1, True),
        lambda t, m: m.linalg.svdvals(t), lambda t, m: t.softmax(1, m.float32), lambda t, m: t.prod(1, True),
        lambda t, m: m.fft.fftshift(t, 1), lambda t, m: m.linalg.matrix_norm(t, 1, (0, 1), True),
        lambda t, m: t.norm("fro"), lambda t, m: t.norm("nuc"), lambda t, m: m.isclose(t, t * 1.01, 0.1, 0.0),
    ):  # fmt: skip
        np.testing.assert_allclose(call(y, tb).numpy(), call(x, torch).numpy(), rtol=1e-6)
