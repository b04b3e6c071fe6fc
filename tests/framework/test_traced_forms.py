"""Functions that looked at numbers while they were recorded, or took dtypes only at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import trilobite.nn.functional as F

import trilobite as tb
from trilobite.base.errors import TrilobiteError

TRUTHS, PLACES, MORE = [True, False, True, False], [0, 1, 0, 3], [False, True, True, False]


def both(f: Any, *args: Any) -> tuple[Any, Any]:
    return f(*args), tb.jit(f)(*args)


@pytest.mark.parametrize(
    ("f", "ufunc"),
    [
        (lambda x, i, s: x.index_add(0, i, s), np.logical_or),
        (lambda x, i, s: x.scatter_add(0, i, s), np.logical_or),
        (lambda x, i, s: x.scatter(0, i, s, reduce="add"), np.logical_or),
        (lambda x, i, s: tb.put(x, i, s, accumulate=True), np.logical_or),
        (lambda x, i, s: x.scatter_reduce(0, i, s, "sum"), np.logical_or),
        (lambda x, i, s: x.scatter_reduce(0, i, s, "prod"), np.logical_and),
        (lambda x, i, s: x.scatter(0, i, s, reduce="multiply"), np.logical_and),
    ],
)
def test_truth_values_are_added_as_or_and_multiplied_as_and(f: Any, ufunc: np.ufunc) -> None:
    expected = np.array(TRUTHS)
    ufunc.at(expected, PLACES, MORE)
    for found in both(f, tb.tensor(TRUTHS), tb.tensor(PLACES), tb.tensor(MORE)):
        assert found.dtype == tb.bool and found.tolist() == expected.tolist()


@pytest.mark.parametrize("alpha", [True, False])
def test_a_factor_of_truth_values(alpha: bool) -> None:
    def f(x: Any, s: Any) -> Any:
        return x.index_add(0, tb.tensor(PLACES), s, alpha=alpha)

    for found in both(f, tb.tensor(TRUTHS), tb.tensor(MORE)):
        assert found.tolist() == ([True, True, True, False] if alpha else TRUTHS)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_mantissa_and_exponent(dtype: type) -> None:
    info = np.finfo(dtype)
    edges = [0.0, -0.0, 1.0, -1.0, 0.5, 0.75, 3.0, -np.pi, info.max, info.tiny, info.smallest_subnormal]
    edges += [
        -3 * info.smallest_subnormal,
        info.tiny * 0.75,
        np.nextafter(dtype(1), dtype(0)),
        np.inf,
        -np.inf,
    ]
    x = np.array(edges, dtype)
    expected = np.frexp(x)
    for found in both(lambda x: tuple(tb.frexp(x)), tb.tensor(x)):
        assert found[0].numpy().tobytes() == expected[0].tobytes()
        assert found[1].dtype == tb.int32 and found[1].tolist() == expected[1].tolist()
    assert tb.frexp(tb.tensor(np.array([np.nan], dtype)))[1].item() == 0


@pytest.mark.parametrize("endpoint", [True, False])
@pytest.mark.parametrize("num", [0, 1, 2, 5, 8])
def test_lines_between_ends_that_only_a_run_knows(num: int, endpoint: bool) -> None:
    def f(a: Any, b: Any) -> Any:
        return tb.linspace(a, b, num, endpoint=endpoint), tb.logspace(a, 0.5, num, endpoint=endpoint)

    line, logs = tb.jit(f)(tb.tensor(-1.25), tb.tensor(2.5))
    np.testing.assert_allclose(line.numpy(), np.linspace(-1.25, 2.5, num, endpoint=endpoint), rtol=1e-6)
    np.testing.assert_allclose(logs.numpy(), np.logspace(-1.25, 0.5, num, endpoint=endpoint), rtol=2e-6)
    assert line.dtype == tb.float32


def test_integers_between_ends_that_only_a_run_knows() -> None:
    whole = tb.jit(lambda a: tb.linspace(0, a, 4, dtype=tb.int64))(tb.tensor(7))
    assert whole.tolist() == [0, 2, 4, 7]


def test_counts_in_intervals() -> None:
    x = np.random.default_rng(5).normal(size=(7, 9)).astype(np.float32)
    x[0, :3] = [-1.0, 1.0, np.nan]  # both ends belong to it, NaN does not
    expected = np.histogram(x[np.abs(x) <= 1], 6, (-1, 1))[0]
    for found in both(lambda x: tb.histc(x, 6, -1.0, 1.0), tb.tensor(x)):
        assert found.tolist() == expected.tolist()
    for found in both(lambda x: tb.histc(x, 5), tb.tensor(x[1:])):
        assert found.tolist() == np.histogram(x[1:], 5)[0].tolist()
    for found in both(lambda x: tb.histc(x, 4), tb.full((3,), 2.5)):
        assert found.tolist() == [0, 0, 3, 0]


@pytest.mark.parametrize(("start", "stop", "step"), [(3, 0, -1), (250, 3, -70), (5, 200, 90), (7, 8, 300)])
def test_ranges_of_small_integers_go_down_too(start: int, stop: int, step: int) -> None:
    for found in both(
        lambda x: tb.arange(start, stop, step, dtype=tb.uint8) + x, tb.tensor(0, dtype=tb.uint8)
    ):
        assert found.tolist() == list(range(start, stop, step))


@pytest.mark.parametrize("ends", [(256, 250, -1), (-1, 3, 1), (3, -2, -1)])
def test_ranges_that_do_not_fit_are_refused_while_recording(ends: tuple[int, int, int]) -> None:
    with pytest.raises(TrilobiteError, match="does not fit into uint8"):
        tb.jit(lambda x: tb.arange(*ends, dtype=tb.uint8) + x)(tb.tensor(0, dtype=tb.uint8))


def test_averages_of_integers_lose_what_is_behind_the_point() -> None:
    x = tb.tensor([[[7, 2, -9, 4, -5]]])
    for found in both(lambda x: F.avg_pool1d(x, 2, padding=1, count_include_pad=False), x):
        assert found.tolist() == [[[7, -3, 0]]]


def test_losses_of_integers_and_truth_values() -> None:
    x, y = np.array([1, 2, -1]), np.array([2, 0, 3])
    expected = np.mean(np.exp(x) - x * y)
    for found in both(F.poisson_nll_loss, tb.tensor(x), tb.tensor(y)):
        assert found.dtype == tb.float32 and found.item() == pytest.approx(expected, rel=1e-6)
    a, b = tb.tensor([[True, False, True]]), tb.tensor([[True, True, True]])
    for found in both(F.cosine_embedding_loss, a, b, tb.tensor([1])):
        assert found.item() == pytest.approx(1 - 2 / np.sqrt(6), rel=1e-5)


def test_the_sigmoid_of_complex_numbers_is_chosen_by_their_real_part() -> None:
    x = np.array([1 + 2j, -3 + 0.5j, -700 + 1j, 700 - 1j], np.complex128)
    for found in both(F.silu, tb.tensor(x)):
        np.testing.assert_allclose(found.numpy(), x / (1 + np.exp(-x)), rtol=1e-14)


@pytest.mark.parametrize("space", [2, 3])
def test_windows_at_drawn_places_while_recording(space: int) -> None:
    rng = np.random.default_rng(space)
    x, u = rng.normal(size=(2, 3, *(9, 8, 7)[:space])), rng.random((2, 3, space))
    pool = F.fractional_max_pool2d if space == 2 else F.fractional_max_pool3d

    def f(x: Any, u: Any) -> Any:
        return pool(x, 2, output_size=4, return_indices=True, _random_samples=u)

    (values, at), (recorded, places) = both(f, tb.tensor(x), tb.tensor(u))
    assert places.tolist() == at.tolist() and recorded.tolist() == values.tolist()
    line = x.reshape(2, 3, -1)
    assert np.array_equal(
        np.take_along_axis(line, at.numpy().reshape(2, 3, -1), -1), values.numpy().reshape(2, 3, -1)
    )


def test_a_network_with_windows_at_drawn_places_trains_under_jit() -> None:
    model = tb.nn.Sequential(tb.nn.Conv2d(1, 2, 3), tb.nn.FractionalMaxPool2d(2, output_size=4))

    @tb.jit
    def step(x: Any) -> Any:
        loss = model(x).square().mean()
        loss.backward()
        return loss

    x = tb.arange(81.0).sin().reshape(1, 1, 9, 9)
    draws = {step(x).item() for _ in range(6)}
    assert model[0].weight.grad is not None and len(draws) > 1  # drawn anew each time


def test_embeddings_take_what_pytorch_takes() -> None:
    w, x = tb.arange(12.0).reshape(4, 3), tb.tensor([[0, 2], [3, 3]])
    weights = tb.tensor([[1.0, 2.0], [0.5, 0.5]])
    rows = F.embedding(x, w, None, None, 2.0, False, True)
    assert rows.tolist() == w.numpy()[x.numpy()].tolist()
    bags = F.embedding_bag(x, w, None, None, 2.0, False, "sum", False, weights)
    assert bags.tolist() == (w.numpy()[x.numpy()] * weights.numpy()[..., None]).sum(1).tolist()


def test_powers_of_two_of_float64_are_computed_there() -> None:
    x = tb.tensor([1.0, 3.0, 2.0**600], dtype=tb.float64)
    assert tb.ldexp(x, tb.tensor([-700, 900, -1000])).tolist() == [2.0**-700, 3 * 2.0**900, 2.0**-400]
