"""What one strategy saved, another resumes on another number of ranks; so do samplers."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cluster_models import BATCH, VOCABULARY, adam, case, loss_of, made
from test_tensor_parallel import forward, split_model

import trilobite as tb
from trilobite import cluster as c
from trilobite.base.errors import ArgumentError, StateError

Start = Callable[[], tuple[Any, Any, Callable[[Any, Any], None]]]


def plain() -> Any:
    model = made("gpt").eval()
    opt = adam(model.parameters())
    dp = c.DataParallel(model)

    def step(x: Any, y: Any) -> None:
        opt.zero_grad()
        loss_of(dp(c.own_rows(x)), c.own_rows(y)).backward()
        dp.reduce_gradients()
        opt.step()

    return dp, opt, step


def zero(stage: int) -> Any:
    model = c.Zero(made("gpt").eval(), adam, stage)

    def step(x: Any, y: Any) -> None:
        model.zero_grad()
        loss_of(model(c.own_rows(x)), c.own_rows(y)).backward()
        model.reduce_gradients()
        model.step()

    return model, model.optimizer, step


def split(sequence: bool) -> Any:
    model, _ = split_model(c.world(), sequence)
    model.eval()
    opt = adam(model.parameters())

    def step(x: Any, y: Any) -> None:
        opt.zero_grad()
        logits = forward(model, x, c.world(), sequence)
        c.vocabulary_cross_entropy(logits, y, VOCABULARY).backward()
        opt.step()

    return model, opt, step


STRATEGIES: dict[str, Start] = {
    "data": plain, "zero 1": lambda: zero(1), "zero 2": lambda: zero(2), "zero 3": lambda: zero(3),
    "tensor": lambda: split(False), "sequence": lambda: split(True),
}  # fmt: skip


def run(name: str, before: Any, steps: int, path: Path | None) -> Any:
    """Load, train, and give the whole state; saved to `path`, if there is one."""
    model, opt, step = STRATEGIES[name]()
    if before is not None:
        c.load(before, model, opt)
    loaded = c.whole_state(model, opt)
    at = case("gpt")
    for _ in range(steps):
        step(tb.tensor(at.x[:BATCH]), tb.tensor(at.y[:BATCH]))
    if path is not None:
        c.save(path, model, opt, {"steps": steps})
    return loaded, c.whole_state(model, opt)


def leaves(tree: Any) -> list[Any]:
    if isinstance(tree, dict):
        return [x for k in sorted(tree) for x in leaves(tree[k])]
    return [np.asarray(tree)]


def far(a: Any, b: Any) -> float:
    pairs = list(zip(leaves(a), leaves(b), strict=True))
    size = sum(float(np.sum(np.abs(y.astype(np.float64)) ** 2)) for _, y in pairs) ** 0.5
    return sum(float(np.sum(np.abs(x - y.astype(np.float64)) ** 2)) for x, y in pairs) ** 0.5 / size


QUICK = [
    ("data", "zero 3", 1, 4),
    ("zero 2", "sequence", 4, 2),
    ("tensor", "data", 2, 1),
    ("data", "zero 2", 1, 2),
]
ALL = [(a, b, n, m) for a in STRATEGIES for b in STRATEGIES for n, m in ((1, 2), (2, 4), (4, 1), (4, 2))]


@pytest.mark.parametrize(
    ("first", "second", "n", "m"), [*QUICK, *(pytest.param(*row, marks=pytest.mark.long) for row in ALL)]
)
def test_any_strategy_resumes_any_other(first: str, second: str, n: int, m: int, tmp_path: Path) -> None:
    """Equal parameters and optimiser state at once, and after two more steps what one process has."""
    saved = c.lockstep(run, n, first, None, 3, tmp_path / "saved")[0][1]
    for loaded, after in c.lockstep(run, m, second, tmp_path / "saved", 2, None):
        for part in ("model", "state"):
            for a, b in zip(leaves(loaded[part]), leaves(saved[part]), strict=True):
                np.testing.assert_array_equal(a, b)
        want = run("data", tmp_path / "saved", 2, None)[1]
        assert far(after["model"], want["model"]) < 1e-10 and far(after["state"], want["state"]) < 1e-9


def test_another_model_is_refused(tmp_path: Path) -> None:
    run("data", None, 0, tmp_path / "saved")
    model = made("mlp")
    with pytest.raises(StateError, match="the checkpoint lacks"):
        c.load(tmp_path / "saved", model, adam(model.parameters()))


# -- samplers ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 4])
@pytest.mark.parametrize(("samples", "batch", "drop"), [(23, 8, True), (23, 8, False), (16, 5, False)])
def test_ranks_share_batches_without_overlap(n: int, samples: int, batch: int, drop: bool) -> None:
    def rank() -> list[list[int]]:
        return list(c.BatchSampler(samples, batch, seed=3, drop_last=drop))

    dealt = c.lockstep(rank, n)
    joined = [[*chain(*rows)] for rows in zip(*dealt, strict=True)]
    assert joined == rank()  # the batches of one process
    seen = [*chain(*joined)]
    assert len(set(seen)) == len(seen) == (samples // batch * batch if drop else samples)


def test_a_sampler_goes_on_with_another_number_of_ranks() -> None:
    sampler = c.BatchSampler(20, 4, seed=1)
    whole = [row for _ in range(2) for row in sampler]

    def first() -> Any:
        sampler = c.BatchSampler(20, 4, seed=1)
        rows = list(islice(sampler, 3))
        return rows, sampler.state_dict()

    begun = c.lockstep(first, 4)

    def second() -> list[list[int]]:
        sampler = c.BatchSampler(20, 4, seed=1)
        sampler.load_state_dict(begun[0][1])
        return [*sampler, *sampler]

    rest = c.lockstep(second, 2)
    joined = [[*chain(*r)] for r in zip(*(b[0] for b in begun), strict=True)]
    joined += [[*chain(*r)] for r in zip(*rest, strict=True)]
    assert joined == whole


def test_sampler_mistakes_are_named() -> None:
    with pytest.raises(ArgumentError, match="batches of 1 out of 8 samples for 2 ranks"):
        c.lockstep(lambda: c.BatchSampler(8, 1), 2)
    sampler = c.BatchSampler(8, 2)
    with pytest.raises(ArgumentError, match="another order has other places"):
        sampler.load_state_dict({**sampler.state_dict(), "seed": 9})
