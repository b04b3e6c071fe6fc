"""What operations refuse, beside the nearest use that they take: guards that ordinary calls miss."""

from __future__ import annotations

import copy
import io
import zipfile
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import trilobite as tb
from trilobite import nn
from trilobite.base.errors import TrilobiteError

D = tb.distributions
Case = tuple[Callable[[], Any], str, Callable[[], Any]]


def z(*shape: int, dtype: Any = None) -> Any:
    return tb.zeros(shape, dtype=dtype)


def at(*values: Any) -> Any:
    return tb.tensor(list(values))


def leaf(*values: float) -> Any:
    return tb.tensor(list(values), requires_grad=True)


def recorded(function: Callable[..., Any], *args: Any, **given: Any) -> Any:
    return tb.jit(function, **given)(*args)


N = tb.dim("n")
V, X, CUBE = z(3), z(3, 4), z(2, 3, 4)
packed = nn.utils.rnn.pack_padded_sequence
CASES: dict[str, Case] = {
    "tril": (lambda: tb.tril(V), "tril of a tensor of shape (3,)", lambda: tb.tril(X)),
    "triu": (lambda: tb.triu(tb.tensor(1.0)), "triu of a tensor of shape ()", lambda: tb.triu(CUBE)),
    "diag": (lambda: tb.diag(CUBE), "diag of a tensor with 3 dimensions", lambda: tb.diag(V)),
    "diag of a number": (lambda: tb.diag(tb.tensor(1.0)), "diag of a tensor with 0", lambda: tb.diag(X)),
    "t": (lambda: tb.t(CUBE), "t() of a tensor with 3", lambda: tb.t(X)),
    "cov": (lambda: tb.cov(CUBE), "cov of a tensor with 3", lambda: tb.cov(X)),
    "chunk": (lambda: tb.chunk(V, 0), "chunk into 0 pieces", lambda: tb.chunk(V, 1)),
    "repeat": (lambda: tb.repeat(V, -1), "repeat -1 times", lambda: tb.repeat(V, 0)),
    "einsum terms": (lambda: tb.einsum("i,j", V), "2 terms for 1 operands", lambda: tb.einsum("i,j", V, V)),
    "einsum letters": (lambda: tb.einsum("i1", X), "the term 'i1'", lambda: tb.einsum("ij", X)),
    "einsum axes": (lambda: tb.einsum("ijk", X), "ijk", lambda: tb.einsum("...k", X)),
    "einsum few": (lambda: tb.einsum("i", X), "i", lambda: tb.einsum("i...", X)),
    "einsum result": (lambda: tb.einsum("ij->ik", X), "k", lambda: tb.einsum("ij->ji", X)),
    "einsum dots": (lambda: tb.einsum("...i->...j", X), "j", lambda: tb.einsum("...i->...", X)),
    "quantile": (lambda: tb.quantile(z(0), 0.5), "quantile of no elements", lambda: tb.quantile(z(1), 0.5)),
    "quantile along": (
        lambda: tb.quantile(z(3, 0), 0.5, dim=1),
        "quantile of no elements",
        lambda: tb.quantile(z(3, 1), 0.5, dim=1),
    ),
    "quantile of a run": (
        lambda: recorded(lambda x, q: tb.quantile(x, q), V, tb.tensor(0.5)),
        "fractions that only a run knows",
        lambda: recorded(lambda x: tb.quantile(x, 0.5), V),
    ),
    "take_along_axis": (
        lambda: tb.take_along_axis(X, at(0), axis=0),
        "as many dimensions",
        lambda: tb.take_along_axis(X, at([0] * 4), axis=0),
    ),
    "gather": (
        lambda: X.gather(1, at([0], [0], [0], [0])),
        "not larger on the other axes",
        lambda: X.gather(1, at([0], [0], [0])),
    ),
    "scatter source": (
        lambda: X.scatter(1, at([0, 1]), z(1, 1)),
        "a source that is not smaller",
        lambda: X.scatter(1, at([0, 1]), z(1, 2)),
    ),
    "scatter": (
        lambda: X.scatter(0, at([0] * 5), z(1, 5)),
        "not larger on the other axes",
        lambda: X.scatter(0, at([0] * 4), z(1, 4)),
    ),
    "searchsorted": (
        lambda: tb.searchsorted(X, z(2, 2)),
        "searchsorted in a tensor of shape (3, 4)",
        lambda: tb.searchsorted(X, z(3, 2)),
    ),
    "result_type": (lambda: tb.result_type(), "result_type of nothing", lambda: tb.result_type(1, V)),
    "stft": (
        lambda: tb.stft(z(8), 9, window=tb.ones(9), center=False, return_complex=True),
        "n_fft=9",
        lambda: tb.stft(z(9), 9, window=tb.ones(9), center=False, return_complex=True),
    ),
    "stft steps": (
        lambda: tb.stft(z(8), 4, 0, center=False, return_complex=True),
        "hop_length=0",
        lambda: tb.stft(z(8), 4, 1, center=False, return_complex=True),
    ),
    "size": (lambda: X.size(2), "size(2) of a tensor with 2 dimensions", lambda: X.size(1)),
    "size below": (lambda: X.size(-3), "size(-3) of a tensor", lambda: X.size(-2)),
    "linspace": (lambda: tb.linspace(0, 1, -1), "-1", lambda: tb.linspace(0, 1, 0)),
    "fold_in": (
        lambda: tb.random.fold_in(tb.random.key(0), at(1)),
        "fold_in of",
        lambda: tb.random.fold_in(tb.random.key(0), tb.tensor(1)),
    ),
    "fold_in of floats": (
        lambda: tb.random.fold_in(tb.random.key(0), 1.0),
        "fold_in of 1.0",
        lambda: tb.random.fold_in(tb.random.key(0), 1),
    ),
    # -- symbolic sizes
    "arange": (
        lambda: recorded(lambda x: tb.arange(1, x.shape[0]), V, shapes=[(N,)]),
        "with a symbolic size",
        lambda: recorded(lambda x: tb.arange(x.shape[0]), V, shapes=[(N,)]),
    ),
    "slices": (
        lambda: recorded(lambda x: x[::2], V, shapes=[(N,)]),
        "a slice with step 2 of the symbolic size",
        lambda: recorded(lambda x: x[::-1], V, shapes=[(N,)]),
    ),
    "slices back": (
        lambda: recorded(lambda x: x[1::-1], V, shapes=[(N,)]),
        "a slice with step -1",
        lambda: recorded(lambda x: x[1:], V, shapes=[(N,)]),
    ),
    "split": (
        lambda: recorded(lambda x: tb.chunk(x, 2), V, shapes=[(N,)]),
        "along the symbolic size",
        lambda: recorded(lambda x: tb.chunk(x, 2), V),
    ),
    "interpolate": (
        lambda: recorded(lambda x: nn.functional.interpolate(x, 4), CUBE, shapes=[(2, 3, N)]),
        "sizes of space that are numbers",
        lambda: recorded(lambda x: nn.functional.interpolate(x, 4), CUBE, shapes=[(N, 3, 4)]),
    ),
    # -- gradients
    "deepcopy": (
        lambda: copy.deepcopy(leaf(1.0) * 2),
        "deepcopy of a tensor that is not a leaf",
        lambda: copy.deepcopy(leaf(1.0)),
    ),
    "hook": (
        lambda: V.register_post_accumulate_grad_hook(print),
        "a tensor that keeps no gradient",
        lambda: leaf(1.0).register_post_accumulate_grad_hook(print),
    ),
    "hook of a result": (
        lambda: (leaf(1.0) * 2).register_post_accumulate_grad_hook(print),
        "that keeps no gradient",
        lambda: leaf(1.0).register_post_accumulate_grad_hook(print),
    ),
    "grad": (
        lambda: tb.autograd.grad(leaf(1.0).sum(), V),
        "by a tensor that requires no gradient",
        lambda: (lambda x: tb.autograd.grad(x.sum(), x))(leaf(1.0)),
    ),
    "grad of a constant": (
        lambda: (lambda x: tb.autograd.grad(V.sum(), x))(leaf(1.0)),
        "",
        lambda: (lambda x: tb.autograd.grad((V + x).sum(), x))(leaf(1.0)),
    ),
    # -- sequences and layers
    "sorted": (
        lambda: packed(z(4, 2, 1), [2, 4]),
        "the longest first",
        lambda: packed(z(4, 2, 1), [2, 4], enforce_sorted=False),
    ),
    "sequences": (
        lambda: packed(z(4, 2, 1), [4]),
        "of 2 sequences of 4 steps",
        lambda: packed(z(4, 2, 1), [4, 4]),
    ),
    "long sequences": (
        lambda: packed(z(4, 2, 1), [5, 4]),
        "numbers from 1 to 4",
        lambda: packed(z(4, 2, 1), [4, 1]),
    ),
    "no sequences": (
        lambda: packed(z(4, 2, 1), [4, 0]),
        "numbers from 1 to 4",
        lambda: packed(z(4, 2, 1), [1, 1]),
    ),
    "flatten": (lambda: nn.Flatten(2, 1)(CUBE), "Flatten from axis 2 to 1", lambda: nn.Flatten(1, 1)(CUBE)),
    "entries": (
        lambda: nn.ModuleDict().__delitem__("x"),
        "x",
        lambda: nn.ModuleDict({"x": nn.ReLU()}).__delitem__("x"),
    ),
    # -- distributions
    "independent": (
        lambda: D.Independent(D.Normal(z(2, 3), tb.ones((2, 3))), 3),
        "3 axes of a batch",
        lambda: D.Independent(D.Normal(z(2, 3), tb.ones((2, 3))), 2),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_each_side(name: str) -> None:
    wrong, text, right = CASES[name]
    with pytest.raises(TrilobiteError) as caught:
        wrong()
    assert text in str(caught.value), str(caught.value)
    right()


@pytest.mark.parametrize("cut", [1, 5, 40])
def test_archives_that_end_early(cut: int) -> None:
    """In a storage, in the pickle: named, and nothing is loaded."""
    file = io.BytesIO()
    tb.save({"w": tb.tensor(np.arange(64.0))}, file)
    raw = file.getvalue()
    assert tb.load(io.BytesIO(raw))["w"].tolist() == list(range(64))
    with pytest.raises((TrilobiteError, zipfile.BadZipFile, EOFError)):
        tb.load(io.BytesIO(raw[:-cut]))
    with pytest.raises((TrilobiteError, zipfile.BadZipFile, EOFError)):
        tb.load(io.BytesIO(raw[: len(raw) // 2]))


POSITIVE: dict[str, Callable[[Any], Any]] = {
    "Normal": lambda v: D.Normal(0.0, v),
    "LogNormal": lambda v: D.LogNormal(0.0, v),
    "Laplace": lambda v: D.Laplace(0.0, v),
    "Cauchy": lambda v: D.Cauchy(0.0, v),
    "Gumbel": lambda v: D.Gumbel(0.0, v),
    "HalfNormal": D.HalfNormal,
    "HalfCauchy": D.HalfCauchy,
    "Exponential": D.Exponential,
    "Gamma": lambda v: D.Gamma(v, 1.0),
    "Gamma's rate": lambda v: D.Gamma(1.0, v),
    "Chi2": D.Chi2,
    "Beta": lambda v: D.Beta(v, 1.0),
    "Beta's other": lambda v: D.Beta(1.0, v),
    "StudentT": D.StudentT,
    "StudentT's scale": lambda v: D.StudentT(1.0, 0.0, v),
    "Weibull": lambda v: D.Weibull(v, 1.0),
    "Weibull's shape": lambda v: D.Weibull(1.0, v),
    "Pareto": lambda v: D.Pareto(v, 1.0),
    "Pareto's shape": lambda v: D.Pareto(1.0, v),
    "Uniform": lambda v: D.Uniform(0.0, v),
    "Kumaraswamy": lambda v: D.Kumaraswamy(v, 1.0),
}
FROM_ZERO: dict[str, Callable[[Any], Any]] = {
    "Poisson": D.Poisson,
    "Bernoulli": D.Bernoulli,
    "Binomial": lambda v: D.Binomial(v, 0.5),
    "NegativeBinomial": lambda v: D.NegativeBinomial(v, 0.5),
    "Geometric": D.Geometric,
}


@pytest.mark.parametrize("form", [float, tb.tensor, lambda v: tb.tensor([1.0, v]), np.float64])
@pytest.mark.parametrize("name", [*POSITIVE, *FROM_ZERO])
def test_parameters_of_distributions_in_every_form(name: str, form: Callable[[float], Any]) -> None:
    """Numbers of Python are checked as tensors are."""
    make = POSITIVE.get(name) or FROM_ZERO[name]
    for wrong in (-1.0, -1e-9, float("nan"), *((0.0,) if name in POSITIVE else ())):
        with pytest.raises(TrilobiteError):
            make(form(wrong))
    make(form(1e-3 if name in POSITIVE else 0.0))


@pytest.mark.parametrize(
    "make", [D.Bernoulli, lambda p: D.Binomial(3, p), D.Geometric, lambda p: D.NegativeBinomial(3, p)]
)
def test_probabilities_in_every_form(make: Callable[[Any], Any]) -> None:
    for form in (float, tb.tensor, np.float64):
        make(form(1.0 if make is not D.Geometric else 0.5))
        with pytest.raises(TrilobiteError, match=r"in \[0, 1\]"):
            make(form(1.0 + 1e-6))
