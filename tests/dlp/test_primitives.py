"""Every primitive on the processor against its meaning: samples of all families, dtypes, odd shapes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import trilobite as tb
from trilobite.base import dtypes as dt
from trilobite.base.errors import DeviceError
from trilobite.compiler.targets.cpu.primitives import FAMILIES
from trilobite.compiler.targets.dlp.refusals import REFUSED
from trilobite.compiler.targets.registry import executable
from trilobite.ir.evaluate import run
from trilobite.ir.primitive import table
from trilobite.ir.transforms.record import record_graph
from trilobite.ir.types import TensorType, type_of

sys.path.insert(0, str(Path(__file__).parents[1] / "ir"))
from samples import samples

Array = np.ndarray[Any, Any]
# The CPU's own forms of primitives, and what only holds a region.
ELSEWHERE = {"fusion", *" ".join(FAMILIES.values()).split()}
OWN_SIGNS = {"eigh", "svd"}  # vectors are unique but for their signs
NAMES = sorted(n for n in samples if n not in ELSEWHERE and n not in REFUSED)
BOUND = {"float64": 2e-12, "complex128": 2e-12, "float32": 1e-5, "complex64": 3e-5, "float16": 4e-3,
         "bfloat16": 3e-2}  # fmt: skip


def rows(name: str) -> Iterator[tuple[list[Array], dict[str, Any]]]:
    for values, attributes in samples[name](np.random.default_rng(3)):
        yield [np.asarray(v) for v in values], attributes


def as_dtype(
    values: list[Array], attributes: dict[str, Any], dtype: Any
) -> tuple[list[Array], dict[str, Any]]:
    """Doubles in another dtype, and results that were to be double."""
    with np.errstate(over="ignore"):
        changed = [v.astype(dtype) if v.dtype == dt.float64 else v for v in values]
    wanted = {k: dtype if k == "dtype" and v == dt.float64 else v for k, v in attributes.items()}
    return changed, wanted


SUMS = ("dot", "conv", "conv_input_grad", "conv_weight_grad")  # an error counts beside the largest result


def check(
    name: str, machine: str, values: list[Array], attributes: dict[str, Any], rough: float = 0.0
) -> None:
    primitive = table[name]

    def body(*xs: Any) -> list[Any]:
        found = primitive(*xs, **attributes)
        return list(found) if primitive.multiple else [found]

    graph = record_graph(body, [type_of(v) for v in values], name)
    with np.errstate(all="ignore"):
        want = primitive.evaluate(*values, **attributes)
    got = executable(graph, f"dlp:{machine}")(values)
    for g, w in zip(got, want if primitive.multiple else [want], strict=True):
        compare(g, np.asarray(w), f"{name} on {machine}", rough, name in SUMS)


def compare(got: Array, want: Array, what: str, rough: float, cancels: bool = False) -> None:
    assert (got.shape, got.dtype) == (want.shape, want.dtype), what
    if want.dtype not in dt.INEXACT:
        assert (got.astype(np.int64) == want.astype(np.int64)).all(), what
        return
    wide = np.complex128 if want.dtype.kind == "c" else np.float64
    x, y = got.astype(wide), want.astype(wide)
    bound = max(BOUND.get(want.dtype.name, 0.3), rough)
    with np.errstate(all="ignore"):
        scale = np.abs(y[np.isfinite(y)]).max(initial=0.0)
        scale *= 1.0 if cancels else 1e-6 if bound < 1e-3 else 1e-2
        near = (np.abs(x - y) <= bound * (np.abs(y) + scale)) | (x == y) | ((x != x) & (y != y))
    assert near.all(), f"{what}: {got[~near][:5]} instead of {want[~near][:5]}"


LONG = [pytest.param(name, marks=pytest.mark.long) for name in ("dlp-m", "odd")]
SMALL = (dt.float16, dt.bfloat16, dt.float8_e4m3fn, dt.float8_e3m4)


@pytest.mark.parametrize("machine", ["dlp-s", *LONG])
@pytest.mark.parametrize("name", NAMES)
def test_all_samples(name: str, machine: str, odd_machine: Path) -> None:
    if name in OWN_SIGNS:
        pytest.skip("checked by what its result is for")
    for values, attributes in rows(name):
        check(name, str(odd_machine) if machine == "odd" else machine, values, attributes)


@pytest.mark.parametrize("dtype", [dt.float32, *(pytest.param(d, marks=pytest.mark.long) for d in SMALL)])
@pytest.mark.parametrize("name", NAMES)
def test_floats_of_all_sizes(name: str, dtype: Any) -> None:
    """Samples are chosen for doubles: rounded to a small format some inputs are no longer in the domain,
    which both sides must treat alike; integers that follow from rounded floats may differ.
    """
    if name in OWN_SIGNS or name in ("while", "scan", "cond", "call"):
        pytest.skip("regions have types of their own")
    for values, attributes in rows(name):
        if not any(v.dtype == dt.float64 for v in values):
            continue
        changed, wanted = as_dtype(values, attributes, dtype)
        try:
            record_graph(lambda *xs, w=wanted: _all(name, xs, w), [type_of(v) for v in changed], name)
        except Exception:
            continue  # a dtype that the primitive does not take
        check(name, "dlp-s", changed, wanted, rough=2e-2 if dtype.itemsize < 4 else 0.0)


def _all(name: str, xs: Any, attributes: dict[str, Any]) -> list[Any]:
    found = table[name](*xs, **attributes)
    return list(found) if table[name].multiple else [found]


def test_eigenvectors_are_eigenvectors() -> None:
    rng = np.random.default_rng(5)
    a = rng.normal(size=(2, 5, 5)) + 1j * rng.normal(size=(2, 5, 5))
    for x in (a, a.real, (a.real).astype(np.float32)):
        graph = record_graph(lambda v: list(table["eigh"](v)), [type_of(x)], "eigh")
        values, vectors = executable(graph, "dlp:dlp-s")([x])
        symmetric = (x + np.swapaxes(x, -1, -2).conj()) / 2
        bound = 1e-4 if x.dtype == np.float32 else 1e-9
        assert np.abs(symmetric @ vectors - vectors * values[..., None, :]).max() < bound
        assert np.abs(np.linalg.eigvalsh(symmetric) - values).max() < bound


def _deficient() -> Array:
    x = np.random.default_rng(8).normal(size=(6, 5)).astype(np.float32)
    x[:, 2], x[:, 4] = 0, x[:, 1]
    return x


_RNG = np.random.default_rng(7)
MATRICES = {
    "one": _RNG.normal(size=(1, 1)).astype(np.float32),
    "row": _RNG.normal(size=(1, 4)).astype(np.float32),
    "wide": _RNG.normal(size=(3, 5)),
    "tall, many": _RNG.normal(size=(2, 2, 6, 5)).astype(np.float32),
    "complex": (_RNG.normal(size=(5, 4)) + 1j * _RNG.normal(size=(5, 4))).astype(np.complex64),
    "of lower rank": _deficient(),
    "of lower rank, wide": _deficient().T.copy(),
    "zero": np.zeros((3, 2), np.float32),
    "equal values": np.eye(4, dtype=np.float32),
    "large": _deficient() * np.float32(1e30),
    "small": _deficient() * np.float32(1e-30),
    "empty": np.zeros((2, 0, 3), np.float32),
}


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("what", MATRICES)
def test_singular_vectors_are_singular_vectors(what: str, full: bool) -> None:
    """Orthogonal where values are zero too, and as many as there are rows where all are wanted."""
    x = MATRICES[what]
    graph = record_graph(lambda v: list(table["svd"](v, full=full)), [type_of(x)], "svd")
    u, s, vh = executable(graph, "dlp:dlp-s")([x])
    known = np.linalg.svd(x, full_matrices=full)
    assert [v.shape for v in (u, s, vh)] == [v.shape for v in known]
    bound = 1e-13 if x.dtype == np.float64 else 2e-6
    size, k = known.S.max(initial=0.0), s.shape[-1]
    assert np.abs(s - known.S).max(initial=0.0) <= bound * size
    assert np.abs((u[..., :k] * s[..., None, :]) @ vh[..., :k, :] - x).max(initial=0.0) <= bound * size
    for basis in (u, np.swapaxes(vh, -1, -2).conj()):
        inner = np.swapaxes(basis, -1, -2).conj() @ basis
        assert np.abs(inner - np.eye(inner.shape[-1])).max(initial=0.0) < bound


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_singular_values_of_what_is_no_number_are_none(bad: float) -> None:
    x = np.array([[[1.0, 2.0], [3.0, bad]], [[3.0, 0.0], [0.0, 4.0]]], np.float32)
    found = tb.jit(tb.linalg.svdvals, target="dlp:dlp-s")(tb.tensor(x)).numpy()
    assert np.isnan(found[0]).all() and found[1].tolist() == [4.0, 3.0]


def test_gradients_by_singular_values() -> None:
    """A determinant's gradient, where the matrix may be singular; the largest singular value's."""
    x = _RNG.normal(size=(4, 4)).astype(np.float32)
    x[3] = x[0] + x[1]
    u, _, vh = np.linalg.svd(x)
    slope = tb.jit(tb.grad(lambda v: tb.linalg.svdvals(v)[0]), target="dlp:dlp-s")(tb.tensor(x)).numpy()
    np.testing.assert_allclose(slope, np.outer(u[:, 0], vh[0]), atol=2e-6)
    found = tb.jit(tb.grad(tb.linalg.det), target="dlp:dlp-s")(tb.tensor(x)).numpy()
    minors = [[np.delete(np.delete(x.astype(np.float64), i, 0), j, 1) for j in range(4)] for i in range(4)]
    cofactors = [[(-1) ** (i + j) * np.linalg.det(minors[i][j]) for j in range(4)] for i in range(4)]
    np.testing.assert_allclose(found, cofactors, rtol=1e-4, atol=1e-5)


def test_what_is_refused_is_named_all_at_once() -> None:
    def body(x: Any) -> list[Any]:
        table["print"](x, fmt="{}")
        return [table["eigvals"](x)]

    graph = record_graph(body, [type_of(np.zeros((3, 3)))], "refused")
    with pytest.raises(DeviceError) as error:
        executable(graph, "dlp:dlp-s")([np.zeros((3, 3))])
    assert (
        "print" in str(error.value) and "eigvals" in str(error.value) and 'target="cpu"' in str(error.value)
    )


def test_only_what_runs_is_refused() -> None:
    """What is dropped may be anything."""
    x = np.random.default_rng(0).normal(size=(4, 4)).astype(np.float32)
    chip = tb.jit(lambda v: (tb.linalg.det(v), tb.linalg.eigvals(v))[0], target="dlp:dlp-s")
    np.testing.assert_allclose(chip(tb.tensor(x)).numpy(), np.linalg.det(x), 1e-5)
    with pytest.raises(DeviceError, match="eigvals"):
        tb.jit(tb.linalg.eigvals, target="dlp:dlp-s")(tb.tensor(x))


@pytest.mark.parametrize("n", [4, 7, 16, 130, 135])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_spectrum_of_a_real_signal_is_real_where_it_must_be(n: int, dtype: Any) -> None:
    """The mean and the highest frequency: else a phase jumps between pi and -pi."""
    x = np.random.default_rng(n).normal(size=(5, n)).astype(dtype)
    for transform in (tb.fft.rfft, tb.fft.fft)[
        : 1 if n > 64 else 2
    ]:  # factors round: those of rfft are mended
        found = tb.jit(lambda v, t=transform: t(v), target="dlp:dlp-s")(tb.tensor(x)).numpy()
        np.testing.assert_allclose(found, transform(tb.tensor(x)).numpy(), 1e-4, 1e-4)
        ends = found[:, [0] if n % 2 else [0, n // 2]].imag
        assert not ends.any() and not np.signbit(ends).any()


@pytest.mark.parametrize("machine", ["dlp-s", "dlp-m"])
def test_complex_weights_are_laid_out_once(machine: str) -> None:
    rng = np.random.default_rng(1)
    w, x = (
        tb.tensor((rng.normal(size=s) + 1j * rng.normal(size=s)).astype(np.complex64))
        for s in ((9, 6), (4, 9))
    )
    chip = tb.jit(lambda v: (v @ w, w.T @ v.T), target=f"dlp:{machine}")
    for _ in range(2):
        for found, wanted in zip(chip(x), (x.numpy() @ w.numpy(), w.numpy().T @ x.numpy().T), strict=True):
            np.testing.assert_allclose(found.numpy(), wanted, 1e-4, 1e-4)
        w.mul_(2 - 1j)


@pytest.mark.parametrize("dtype", sorted({*dt.FP8, dt.float4_e2m1fn, dt.int4, dt.uint4}, key=str), ids=str)
@pytest.mark.parametrize("source", [dt.bool_, dt.int8, dt.float32], ids=str)
def test_numbers_and_truth_values_become_small_formats(source: dt.DType, dtype: dt.DType) -> None:
    """Zero, which one of them lacks, both signs, sizes from the smallest to beyond the largest, NaN."""
    rng = np.random.default_rng(3)
    values = np.concatenate([[0, 1, -1], rng.normal(size=150) * 10.0 ** rng.integers(-40, 38, 150)])
    if source == dt.float32:
        values = np.append(values, [np.nan, np.inf, -np.inf, -0.0])
    x = np.clip(values, -128, 127).astype(source) if source == dt.int8 else values.astype(source)
    graph = record_graph(lambda a: (table["cast"](a, dtype=dtype),), [TensorType(x.shape, source)], "f")
    with np.errstate(all="ignore"):
        wanted = run(graph, [x])[0]
    found = executable(graph, "dlp:dlp-s")([x])[0]
    known = ~np.isnan(wanted.astype(np.float32)) if wanted.dtype.kind not in "iu" else np.ones(x.shape, bool)
    assert np.array_equal(found.view(np.uint8)[known], wanted.view(np.uint8)[known])
    assert np.array_equal(np.isnan(found.astype(np.float32)), np.isnan(wanted.astype(np.float32)))
