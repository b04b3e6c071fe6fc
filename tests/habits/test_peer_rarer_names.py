"""Layers, functions and distributions that few models use, beside PyTorch's in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
import trilobite as tb  # noqa: E402
from tests.habits.rarer_distributions import CASES  # noqa: E402

pytestmark = [pytest.mark.peer, pytest.mark.filterwarnings("ignore")]
R = np.random.default_rng(3)


def same(theirs: Any, ours: Any) -> None:
    theirs, ours = theirs.detach().numpy(), ours.detach().numpy()
    assert theirs.shape == ours.shape
    np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_distributions(name: str) -> None:
    make, value, more = CASES[name]
    theirs, ours = make(torch), make(tb)
    same(theirs.log_prob(torch.tensor(value)), ours.log_prob(tb.tensor(value)))
    for asked in more.split():
        a, b = getattr(theirs, asked), getattr(ours, asked)
        if asked == "cdf":
            a, b = a(torch.tensor(value)), b(tb.tensor(value))
        same(*((a(), b()) if callable(a) and asked == "entropy" else (a, b)))
    assert tuple(ours.sample((7,)).shape) == tuple(theirs.sample((7,)).shape)
    assert ours.batch_shape == tuple(theirs.batch_shape) and ours.event_shape == tuple(theirs.event_shape)


def test_draws_of_mixtures_have_the_mixtures_mean() -> None:
    tb.manual_seed(1)
    mixture = CASES["MixtureSameFamily"][0](tb)
    drawn = mixture.sample((20000,)).numpy()
    error = mixture.stddev.numpy() / np.sqrt(len(drawn))
    assert (np.abs(drawn.mean(0) - mixture.mean.numpy()) < 5 * error).all()


@pytest.mark.parametrize("space", [2, 3])
def test_fractional_pooling(space: int) -> None:
    x = R.normal(size=(2, 3, 9, 8, 11)[: space + 2])
    u = R.random((2, 3, space))
    for size in ({"output_size": (4, 3, 5)[:space]}, {"output_ratio": (0.5,) * space}):
        found = [
            getattr(m.nn.functional, f"fractional_max_pool{space}d")(
                m.tensor(x), 2, **size, return_indices=True, _random_samples=m.tensor(u)
            )
            for m in (torch, tb)
        ]
        for a, b in zip(*found, strict=True):
            same(a, b)
    assert getattr(tb.nn, f"FractionalMaxPool{space}d")(2, output_ratio=0.5)(tb.tensor(x)).ndim == space + 2


def test_adaptive_log_softmax() -> None:
    made = [m.nn.AdaptiveLogSoftmaxWithLoss(32, 50, [10, 20], 2.0, True).double() for m in (torch, tb)]
    made[1].load_state_dict({k: tb.tensor(v.numpy()) for k, v in made[0].state_dict().items()})
    x, y = R.normal(size=(6, 32)), np.array([1, 12, 49, 20, 9, 10])
    theirs, ours = made[0](torch.tensor(x), torch.tensor(y)), made[1](tb.tensor(x), tb.tensor(y))
    same(theirs.output, ours.output)
    same(theirs.loss, ours.loss)
    same(made[0].predict(torch.tensor(x)), made[1].predict(tb.tensor(x)))
    ours.loss.backward()
    theirs.loss.backward()
    same(made[0].tail[1][0].weight.grad, made[1].tail[1][0].weight.grad)


MASKS = ["", "weights-of-heads", "no-weights", "zero", "bias", "mask", "padding", "mask padding bias zero",
         "separate", "single", "mask3"]  # fmt: skip


@pytest.mark.parametrize("kind", MASKS)
def test_multi_head_attention_as_a_function(kind: str) -> None:
    rng = np.random.default_rng(1)
    e, heads, length, batch, keys = 12, 3, 5, 2, 7
    q, k, v = (rng.normal(size=(n, batch, e)) for n in (length, keys, keys))
    w, b, wo, bo = (rng.normal(size=s) for s in ((3 * e, e), 3 * e, (e, e), e))
    bk, bv = rng.normal(size=(2, 1, 1, e))
    parts = rng.normal(size=(3, e, e))
    mask, padding = rng.random((length, keys)) < 0.3, rng.random((batch, keys)) < 0.3
    mask[:, 0] = padding[:, 0] = False
    mask3 = rng.normal(size=(batch * heads, length, keys))

    def run(m: Any) -> Any:
        t = m.tensor
        operands = [t(x[:, 0].copy() if kind == "single" else x) for x in (q, k, v)]
        extra = [t(bk), t(bv)] if "bias" in kind else [None, None]
        own: dict[str, Any] = {}
        if kind == "separate":
            own = {f"{n}_proj_weight": t(p) for n, p in zip("qkv", parts, strict=True)}
        return m.nn.functional.multi_head_attention_forward(
            *operands, e, heads, None if own else t(w), t(b), *extra, "zero" in kind, 0.0, t(wo), t(bo),
            need_weights=kind != "no-weights", average_attn_weights=kind != "weights-of-heads",
            attn_mask=t(mask3) if kind == "mask3" else t(mask) if "mask" in kind else None,
            key_padding_mask=t(padding) if "padding" in kind else None,
            use_separate_proj_weight=bool(own), **own,
        )  # fmt: skip

    theirs, ours = run(torch), run(tb)
    same(theirs[0], ours[0])
    assert (theirs[1] is None) == (ours[1] is None)
    if ours[1] is not None:
        same(theirs[1], ours[1])


def test_singular_values_of_low_rank() -> None:
    low = R.normal(size=(12, 3)) @ R.normal(size=(3, 7))
    for x in (low, low.T.copy()):
        u, s, v = tb.svd_lowrank(tb.tensor(x), 4)
        np.testing.assert_allclose((u * s @ v.mT).numpy(), x, atol=1e-10)
        same(torch.svd_lowrank(torch.tensor(x), 3)[1], tb.svd_lowrank(tb.tensor(x), 3)[1])
        same(torch.pca_lowrank(torch.tensor(x), 3)[1], tb.pca_lowrank(tb.tensor(x), 3)[1])


def test_older_layers() -> None:
    x, w, b = R.normal(size=(7, 2, 3)), R.normal(size=(3, 3, 5)), R.normal(size=5)
    same(*(m.nn.functional.conv_tbc(m.tensor(x), m.tensor(w), m.tensor(b), 1) for m in (torch, tb)))
    maps = R.normal(size=(2, 9, 4, 4))
    for size in (1, 3, 4, 5):
        same(*(m.nn.CrossMapLRN2d(size)(m.tensor(maps)) for m in (torch, tb)))
    scores, labels = R.normal(size=(3, 4)), np.array([[3, 0, -1, 1], [1, -1, 0, 0], [0, 1, 2, 3]])
    same(*(m.nn.MultiLabelMarginLoss()(m.tensor(scores), m.tensor(labels)) for m in (torch, tb)))


@pytest.mark.parametrize("n, replicas, drop", [(10, 3, False), (10, 3, True), (2, 5, False), (12, 4, True)])
def test_every_rank_has_its_share(n: int, replicas: int, drop: bool) -> None:
    def shares(m: Any) -> list[list[int]]:
        kind = m.utils.data.distributed.DistributedSampler
        made = [kind(range(n), replicas, rank, shuffle=False, drop_last=drop) for rank in range(replicas)]
        assert all(len(list(s)) == len(s) for s in made)
        return [list(s) for s in made]

    import trilobite.utils.data.distributed  # noqa: F401

    assert shares(tb) == shares(torch)
