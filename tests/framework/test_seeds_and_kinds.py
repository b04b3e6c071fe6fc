"""Words of seeds, kinds of dtypes, names of leaves, settings of loaders: each beside its definition."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy import special

import trilobite as tb
from trilobite.base import dtypes as dt
from trilobite.base import pytree
from trilobite.base.errors import ArgumentError
from trilobite.framework import metrics
from trilobite.framework.ops.dtypes import KINDS


@pytest.mark.parametrize(
    "seed", [0, 1, 5, 2**31, 2**32 - 1, 2**32, 2**40 + 3, 2**63, 2**64 - 1, -1, -(2**63)]
)
def test_a_key_holds_both_words_of_its_seed(seed: int) -> None:
    want = [seed & 0xFFFFFFFF, (seed >> 32) & 0xFFFFFFFF]
    assert tb.random.key(seed).tolist() == want
    tb.manual_seed(seed)
    assert np.asarray(tb.random.get_state().numpy()).tolist() == want


@pytest.mark.parametrize("seed", [2**64, -(2**63) - 1, True, 1.0, "1"])
def test_seeds_of_more_than_a_word_are_refused(seed: Any) -> None:
    with pytest.raises(ArgumentError, match="an integer of 64 bits"):
        tb.random.key(seed)


def test_draws_of_different_seeds_differ() -> None:
    drawn = {tuple(tb.random.uniform((4,), key=tb.random.key(s)).tolist()) for s in range(50)}
    assert len(drawn) == 50


@pytest.mark.parametrize("kind", KINDS)
def test_kinds_of_dtypes(kind: str) -> None:
    """By NumPy's letters, and by what a dtype holds for those that NumPy does not have."""
    for dtype in dt.ALL:
        letter = "f" if dtype in dt.FLOATS else dtype.kind
        want = {
            "bool": letter == "b", "signed integer": dtype in dt.INTEGERS and dt.is_signed(dtype),
            "unsigned integer": dtype in dt.INTEGERS and not dt.is_signed(dtype),
            "integral": dtype in dt.INTEGERS, "real floating": letter == "f",
            "complex floating": letter == "c", "numeric": letter != "b",
        }[kind]  # fmt: skip
        assert tb.isdtype(dtype, kind) == want, (dtype, kind)
        assert tb.isdtype(dtype, (kind, "bool")) == (want or letter == "b")


class Pair(NamedTuple):
    a: Any
    b: Any


def test_leaves_have_names_of_their_way() -> None:
    value = {"x": [1, 2.5, "word"], "y": Pair((True, None), np.arange(2)), "z": 3}
    found = pytree.paths(value)
    names = [name for name, _ in found]
    assert names[:3] == ["x.0", "x.1", "x.2"] and names[-1] == "z"
    assert [leaf for _, leaf in found][:3] == [1, 2.5, "word"]
    assert [leaf for _, leaf in pytree.paths(value)] == pytree.leaves(value)
    assert pytree.paths(7) == [("", 7)]
    whole = pytree.paths(value, is_leaf=lambda v: isinstance(v, list))
    assert whole[0] == ("x", [1, 2.5, "word"])


@pytest.mark.parametrize("axis", [1, -1])
@pytest.mark.parametrize("ignore", [None, 2])
def test_perplexity_beside_scipy(axis: int, ignore: int | None) -> None:
    rng = np.random.default_rng(6)
    logits, target = 3 * rng.standard_normal((9, 5)), rng.integers(0, 5, 9)
    chances = special.log_softmax(logits, axis=1)[np.arange(9), target]
    kept = chances if ignore is None else chances[target != ignore]
    found = metrics.perplexity(logits, target, ignore_index=ignore, axis=axis)
    assert found == pytest.approx(np.exp(-kept.mean()))


def test_a_loader_takes_an_order_from_one_place() -> None:
    from trilobite.framework.pytorch.utils.data import BatchSampler, DataLoader, SequentialSampler

    rows = list(range(7))
    backwards = [6, 5, 4, 3, 2, 1, 0]
    found = [b.tolist() for b in DataLoader(rows, batch_size=3, sampler=backwards)]
    assert found == [[6, 5, 4], [3, 2, 1], [0]]
    batches = BatchSampler(SequentialSampler(rows), 2, True)
    assert [b.tolist() for b in DataLoader(rows, batch_sampler=batches)] == [[0, 1], [2, 3], [4, 5]]
    wrong: list[dict[str, Any]] = [
        {"sampler": backwards, "shuffle": True}, {"batch_sampler": batches, "shuffle": True},
        {"batch_sampler": batches, "batch_size": 2}, {"batch_sampler": batches, "sampler": backwards},
        {"batch_sampler": batches, "drop_last": True},
    ]  # fmt: skip
    for settings in wrong:
        with pytest.raises(ArgumentError, match="DataLoader"):
            DataLoader(rows, **settings)
