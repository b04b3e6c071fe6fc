"""Refusals that no other test meets, each beside the nearest use that is allowed."""

from __future__ import annotations

import dataclasses
import io
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import trilobite.utils.data as torch_data
from trilobite.data import transforms as t
from trilobite.distributions import transforms as dt

import trilobite as tb
from trilobite import data, nn, optim
from trilobite import distributions as d
from trilobite.base import pytree

Case = tuple[Callable[[], Any], type[Exception], str, Callable[[], Any]]
RNG = np.random.default_rng(0)
X = tb.tensor(RNG.standard_normal((4, 3)))
WINDOWS = tb.tensor([1.0, 0.0, 0.0, 0.0])


class Items(data.Dataset):
    def __len__(self) -> int:
        return 4

    def __getitem__(self, i: int) -> int:
        return i


class Stream(data.IterableDataset):
    def __iter__(self) -> Any:
        return iter(range(4))


class Nothing(d.Distribution):
    def __init__(self) -> None:
        super().__init__((), ())


def plateau(*metric: Any) -> None:
    optimiser = optim.SGD([nn.Parameter(tb.zeros(1))], lr=1.0)
    optim.lr_scheduler.ReduceLROnPlateau(optimiser).step(*metric)


def saved(**settings: Any) -> Any:
    file = io.BytesIO()
    tb.save({"a": X}, file)
    return tb.load(io.BytesIO(file.getvalue()), **settings)


def batches(*, batch_size: int = 1, drop_last: bool = False, **more: Any) -> Any:
    sampler = data.BatchSampler(data.SequentialSampler(4), 2)
    return data.Loader(Items(), sampler=sampler, batch_size=batch_size, drop_last=drop_last, **more)


def gamma(**form: Any) -> Any:
    return d.MultivariateNormal(tb.zeros(2), **form)


def kl(n: int) -> Any:
    normal = d.Normal(tb.zeros(2, 3), tb.ones(2, 3))
    return d.kl_divergence(d.Independent(normal, 1), d.Independent(normal, n))


Wrong = (ValueError, TypeError, RuntimeError, AttributeError, NotImplementedError)
CASES: dict[str, tuple[Callable[[], Any], str, Callable[[], Any]]] = {
    "tree": (
        lambda: pytree.map(lambda a, b: a, {"a": 1}, [1]), "tree map: argument 2 has another structure",
        lambda: pytree.map(lambda a, b: a, {"a": 1}, {"a": 2}),
    ),
    "load": (lambda: saved(mode="r"), "load\\(mode=", lambda: saved(map_location="cpu")),
    "split": (
        lambda: data.MNIST(".", split="valid"), "MNIST has no split 'valid'[\\s\\S]*'train' or 'test'",
        lambda: None,
    ),
    "kfold": (
        lambda: data.kfold(Items(), 2, stratify=[0.0, 1.0, math.nan, 1.0]), "stratify contains NaN",
        lambda: data.kfold(Items(), 2, stratify=[0.0, 1.0, math.inf, 1.0]),
    ),
    "stream shuffled": (
        lambda: data.Loader(Stream(), shuffle=True), "a stream has an order of its own",
        lambda: data.Loader(Stream()),
    ),
    "stream sampled": (
        lambda: data.Loader(Stream(), sampler=data.SequentialSampler(4)), "a stream has an order of its own",
        lambda: data.Loader(Items(), sampler=data.SequentialSampler(4)),
    ),
    "sampler and shuffle": (
        lambda: data.Loader(Items(), shuffle=True, sampler=data.SequentialSampler(4)),
        "both shuffle and sampler", lambda: data.Loader(Items(), shuffle=True),
    ),
    "batches of two kinds": (lambda: batches(batch_size=2), "the sampler makes its own batches", batches),
    "batches cut": (lambda: batches(drop_last=True), "the sampler makes its own batches", batches),
    "a list as sampler": (
        lambda: data.Loader(Items(), sampler=[0, 1]), "sampler is a list", lambda: data.Loader(Items()),
    ),
    "angles": (lambda: t.Rotate((2.0, 1.0)), "angles from 2.0 to 1.0", lambda: t.Rotate((1.0, 1.0))),
    "no angle": (lambda: t.Rotate(math.inf), "angles from -inf to inf", lambda: t.Rotate(0.0)),
    "one hot": (lambda: t.OneHot(3)(1.5), "OneHot: got float64", lambda: t.OneHot(3)(2)),
    "one hot above": (lambda: t.OneHot(3)(3), "OneHot: labels from 3 to 3", lambda: t.OneHot(3)([0, 2])),
    "one hot below": (lambda: t.OneHot(3)(-1), "labels from -1 to -1", lambda: t.OneHot(1)(0)),
    "variance": (lambda: Nothing().variance, "Nothing has no variance", lambda: d.Normal(0.0, 1.0).variance),
    "log_prob": (lambda: Nothing().log_prob(X), "Nothing has no log_prob", lambda: Nothing().batch_shape),
    "entropy": (lambda: Nothing().entropy(), "Nothing has no entropy", lambda: Nothing().event_shape),
    "mean": (lambda: Nothing().mean, "Nothing has no mean", lambda: d.Normal(0.0, 1.0).mean),
    "independent": (lambda: kl(2), "kl_divergence of Independents", lambda: kl(1)),
    "forms of none": (lambda: gamma(), "one of covariance_matrix", lambda: gamma(scale_tril=tb.eye(2))),
    "forms of two": (
        lambda: gamma(scale_tril=tb.eye(2), covariance_matrix=tb.eye(2)), "one of covariance_matrix",
        lambda: gamma(covariance_matrix=tb.eye(2)),
    ),
    "transformed by": (
        lambda: d.TransformedDistribution(d.Normal(0.0, 1.0), [math.exp]), "TransformedDistribution by",
        lambda: d.TransformedDistribution(d.Normal(0.0, 1.0), [dt.ExpTransform()]),
    ),
    "transformed axes": (
        lambda: d.TransformedDistribution(d.Normal(0.0, 1.0), dt.StickBreakingTransform()),
        "of draws of shape \\(\\) by transforms of 1 axes[\\s\\S]*at least 1 axes",
        lambda: d.TransformedDistribution(d.Normal(tb.zeros(2), tb.ones(2)), dt.StickBreakingTransform()),
    ),
    "fan": (
        lambda: nn.init._calculate_correct_fan(X, "fan_all"), "a fan of mode 'fan_all'",
        lambda: nn.init._calculate_correct_fan(X, "FAN_IN"),
    ),
    "kaiming": (
        lambda: nn.init.kaiming_normal_(tb.zeros(2, 2), mode="fan"), "mode 'fan'",
        lambda: nn.init.kaiming_normal_(tb.zeros(2, 2), mode="fan_out"),
    ),
    "padding": (
        lambda: nn.functional.conv1d(tb.zeros(1, 1, 5), tb.zeros(1, 1, 3), padding="full"), "padding 'full'",
        lambda: nn.functional.conv1d(tb.zeros(1, 1, 5), tb.zeros(1, 1, 3), padding="same"),
    ),
    "module name": (
        lambda: nn.Module().add_module("a.b", nn.ReLU()), "named 'a.b'[\\s\\S]*without dots",
        lambda: nn.Module().add_module("a_b", nn.ReLU()),
    ),
    "is_nonzero": (
        lambda: tb.is_nonzero(tb.zeros(2)), "is_nonzero of 2 elements", lambda: tb.is_nonzero(tb.zeros(1)),
    ),
    "UPLO": (
        lambda: tb.linalg.eigvalsh(tb.eye(2), UPLO="l"), "UPLO='l'",
        lambda: tb.linalg.eigvalsh(tb.eye(2), UPLO="L"),
    ),
    "pivot": (
        lambda: tb.linalg.lu_factor(tb.eye(2), pivot=False), "a factorisation with pivot=False",
        lambda: tb.linalg.lu_factor(tb.eye(2), pivot=True),
    ),
    "gradient at places": (
        lambda: tb.gradient(X, spacing=(tb.tensor([0.0, 1.0, 3.0]),), dim=1), "gradient with places",
        lambda: tb.gradient(X, spacing=(tb.tensor(2.0),), dim=1),
    ),
    "gradient of one": (
        lambda: tb.gradient(tb.zeros(1)), "gradient along a dimension of 1", lambda: tb.gradient(tb.zeros(2)),
    ),
    "gradient of two": (
        lambda: tb.gradient(tb.zeros(2), edge_order=2), "at least 3 places",
        lambda: tb.gradient(tb.zeros(3), edge_order=2),
    ),
    "matrix_transpose": (
        lambda: tb.matrix_transpose(tb.zeros(3)), "matrix_transpose of shape \\(3,\\)",
        lambda: tb.matrix_transpose(tb.zeros(3, 1)),
    ),
    "istft": (
        lambda: tb.istft(tb.ones((3, 3), dtype=tb.complex64), 4, 4, window=WINDOWS),
        "istft through windows that leave samples out",
        lambda: tb.istft(tb.ones((3, 3), dtype=tb.complex64), 4, 1, window=tb.ones(4)),
    ),
    "as_strided": (
        lambda: tb.as_strided(X, (2, 3), (9, 1), 1), "reaches element 12 of 12",
        lambda: tb.as_strided(X, (2, 3), (9, 1)),
    ),
    "as_strided below": (
        lambda: tb.as_strided(X, (2,), (-1,)), "as_strided reaches element",
        lambda: X.as_strided((2,), (-1,), 1),
    ),
    "as_strided sizes": (
        lambda: tb.as_strided(X, (2,), (1, 1)), "with sizes \\(2,\\) and strides \\(1, 1\\)",
        lambda: tb.as_strided(X, (0,), (99,)),
    ),
    "plateau": (lambda: plateau(), "step\\(\\) without a metric", lambda: plateau(tb.tensor(1.0))),
    "nn": (lambda: nn.Linaer, "trilobite.nn has no 'Linaer'[\\s\\S]*Linear", lambda: nn.Linear),
    "special": (lambda: tb.special.erfd, "trilobite.special has no 'erfd'", lambda: tb.special.erf),
    "random": (lambda: tb.random.seeds, "trilobite.random has no 'seeds'", lambda: tb.random.manual_seed),
    "cuda": (lambda: tb.cuda.warp, "tb.cuda has no 'warp'", lambda: tb.cuda.is_available),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_both_sides(name: str) -> None:
    wrong, message, allowed = CASES[name]
    with pytest.raises(Wrong, match=message):
        wrong()
    allowed()


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("n", [0, 1, 5, 6, 7])
def test_shares_of_ranks_by_definition(n: int, drop_last: bool, count: int) -> None:
    """Every count-th item; the first come again, or the last are left out."""
    if drop_last:
        each = n // count
    else:
        each = -(-n // count)
    order = [i % n for i in range(each * count)] if n else []
    for rank in range(count):
        sampler = torch_data.distributed.DistributedSampler(
            range(n), count, rank, shuffle=False, drop_last=drop_last
        )
        assert len(sampler) == each and list(sampler) == order[rank::count]
    for rank in (-1, count):
        with pytest.raises(ValueError, match=f"for rank {rank} of {count}[\\s\\S]*0 <= rank < num_replicas"):
            torch_data.distributed.DistributedSampler(range(n), count, rank)


def test_shuffled_shares_are_one_order_of_each_epoch() -> None:
    def order(epoch: int, seed: int = 0) -> list[int]:
        samplers = [
            torch_data.distributed.DistributedSampler(range(9), 3, rank, seed=seed) for rank in range(3)
        ]
        for sampler in samplers:
            sampler.set_epoch(epoch)
        return [i for rows in zip(*samplers, strict=True) for i in rows]

    assert sorted(order(0)) == sorted(order(1)) == list(range(9))
    assert order(0) != order(1) == order(0, seed=1) and order(0) != list(range(9))


@pytest.mark.parametrize("edge", [1, 2])
@pytest.mark.parametrize("spacing", [None, 0.5, 3.0])
def test_gradient_is_numpys(edge: int, spacing: float | None) -> None:
    x = RNG.standard_normal((5, 4))
    for dim in (None, 0, (1,), (0, 1)):
        axes = tuple(range(2)) if dim is None else (dim,) if isinstance(dim, int) else dim
        got = tb.gradient(tb.tensor(x), spacing=spacing, dim=dim, edge_order=edge)
        want = np.gradient(x, *[spacing or 1.0] * len(axes), axis=axes, edge_order=edge)
        for a, b in zip(got, want if isinstance(want, list | tuple) else [want], strict=True):
            np.testing.assert_allclose(a.numpy(), b, rtol=1e-12)


@pytest.mark.parametrize("mode", ["min", "max"])
@pytest.mark.parametrize("threshold_mode", ["rel", "abs"])
def test_plateaus_by_definition(mode: str, threshold_mode: str) -> None:
    """After more than `patience` steps not better by the threshold; then `cooldown` steps of rest."""
    settings: dict[str, Any] = {
        "factor": 0.5, "patience": 1, "threshold": 0.25, "cooldown": 1, "min_lr": 0.2, "eps": 0.01
    }  # fmt: skip
    optimiser = optim.SGD([nn.Parameter(tb.zeros(1))], lr=1.0)
    schedule = optim.lr_scheduler.ReduceLROnPlateau(
        optimiser, mode=mode, threshold_mode=threshold_mode, **settings
    )
    sign = 1.0 if mode == "min" else -1.0
    best, bad, rest, lr = sign * math.inf, 0, 0, 1.0
    for metric in [4.0, 4.0, 3.1, 3.0, 2.9, 2.9, 2.9, 2.9, 5.0, 5.1, 9.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]:
        schedule.step(metric)
        margin = best * (1 - sign * 0.25) if threshold_mode == "rel" else best - sign * 0.25
        if sign * metric < sign * margin:
            best, bad = metric, 0
        else:
            bad += 1
        if rest > 0:
            rest, bad = rest - 1, 0
        if bad > 1:
            new = max(lr * 0.5, 0.2)
            lr, rest, bad = (new if lr - new > 0.01 else lr), 1, 0
        assert float(optimiser.param_groups[0]["lr"]) == pytest.approx(lr)


def test_records_are_frozen_and_say_which_field() -> None:
    from trilobite.processor.machine.load import load_machine

    machine = load_machine("dlp-s")
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'name'"):
        machine.name = "other"  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot delete field 'name'"):
        del machine.name  # type: ignore[misc]


def test_errors_of_every_kind_can_be_shown() -> None:
    """NumPy's own kinds of errors tell of what they hold, keys are shown with quotes: ours are sentences."""
    with pytest.raises(TypeError) as raised:
        tb.hamming_window(5, True, "x")
    assert str(raised.value).startswith("hamming_window: alpha is of type str\n")
    with pytest.raises(TypeError, match="expected: hamming_window"):
        tb.hamming_window(5, True, "x")
