"""Samplers and folds: pure functions of seed and epoch, with the distributions they promise."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pytest

from trilobite.base.errors import ArgumentError, DataError, ShapeError
from trilobite.framework.data import (
    ArrayDataset,
    BatchSampler,
    BucketSampler,
    DistributedSampler,
    RandomSampler,
    SequentialSampler,
    Subset,
    WeightedSampler,
    kfold,
    streams,
)


class TestOrders:
    def test_sequential(self) -> None:
        assert SequentialSampler(4).order(7).tolist() == [0, 1, 2, 3]

    def test_random_is_a_function_of_seed_and_epoch(self) -> None:
        a = RandomSampler(1000, seed=5)
        orders = [a.order(e) for e in range(4)]
        assert all(np.array_equal(np.sort(o), np.arange(1000)) for o in orders)
        assert len({o.tobytes() for o in orders}) == 4
        assert np.array_equal(
            RandomSampler(1000, seed=5).order(3), orders[3]
        )  # no need to go through 0, 1, 2
        assert not np.array_equal(RandomSampler(1000, seed=6).order(3), orders[3])

    def test_the_order_never_changes(self) -> None:
        """Saved states must resume with later versions of NumPy: these are the words of Philox, not of a
        shuffle.
        """
        assert RandomSampler(10, seed=0).order(0).tolist() == FROZEN[0]
        assert RandomSampler(10, seed=2**70).order(3).tolist() == FROZEN[1]

    def test_permutations_are_uniform(self) -> None:
        """All 24 orders of 4 items, chi-squared with 23 degrees of freedom: 60 is beyond 1 in 30 000."""
        counts = Counter(tuple(RandomSampler(4, seed=1).order(e).tolist()) for e in range(4800))
        assert len(counts) == 24 and sum((c - 200) ** 2 / 200 for c in counts.values()) < 60

    @pytest.mark.parametrize("n", [0, 1])
    def test_tiny(self, n: int) -> None:
        assert RandomSampler(n).order(0).tolist() == list(range(n))

    def test_refused(self) -> None:
        with pytest.raises(ArgumentError, match=r"length is -1\n  where: .*\n  expected: an int"):
            RandomSampler(-1)
        with pytest.raises(ArgumentError, match="seed True"):
            RandomSampler(3, seed=True)


FROZEN = ([0, 8, 9, 3, 7, 5, 1, 2, 6, 4], [7, 0, 8, 3, 9, 1, 4, 2, 5, 6])


class TestStreams:
    def test_uniforms(self) -> None:
        u = streams.uniforms(3, streams.ORDER, 1, 10_000)
        assert u.min() >= 0 and u.max() < 1 and abs(u.mean() - 0.5) < 0.01 and abs(u.var() - 1 / 12) < 0.003

    def test_purposes_share_nothing(self) -> None:
        words = [streams.bits(0, p, e, 8).tobytes() for p in range(5) for e in range(3)]
        assert len(set(words)) == 15

    def test_item_generators(self) -> None:
        items = streams.ItemStreams(11)
        draws = {
            (e, i, r): items.at(e, i, r).random(3).tobytes()
            for e in range(3)
            for i in range(4)
            for r in range(2)
        }
        assert len(set(draws.values())) == 24
        items.at(0, 0).integers(0, 2, dtype=np.uint32)  # leaves half a word behind
        assert items.at(2, 3, 1).random(3).tobytes() == draws[2, 3, 1]
        assert streams.ItemStreams(12).at(2, 3, 1).random(3).tobytes() != draws[2, 3, 1]


class TestWeighted:
    def test_frequencies(self) -> None:
        weights = np.array([0.0, 1.0, 3.0, 0.0, 6.0, 0.0])
        drawn = np.bincount(WeightedSampler(weights, 100_000, seed=2).order(0), minlength=6)
        np.testing.assert_allclose(drawn / 100_000, weights / 10, atol=0.01)
        assert drawn[[0, 3, 5]].sum() == 0

    def test_without_replacement(self) -> None:
        weights = [0.0, 1.0, 1.0, 8.0]
        sampler = WeightedSampler(weights, 2, replacement=False, seed=1)
        orders = [sampler.order(e).tolist() for e in range(4000)]
        assert all(len(set(o)) == 2 and 0 not in o for o in orders) and not sampler.repeats
        first = Counter(o[0] for o in orders)
        assert abs(first[3] / 4000 - 0.8) < 0.03 and abs(first[1] / 4000 - 0.1) < 0.02
        second = Counter(o[1] for o in orders if o[0] == 1)  # then 3 with 8/9
        assert abs(second[3] / first[1] - 8 / 9) < 0.06

    def test_extreme_weights(self) -> None:
        for replacement in (True, False):
            order = WeightedSampler([1e-320, 1e308, 1e308], 2, replacement=replacement, seed=0).order(0)
            assert set(order.tolist()) <= {1, 2}

    def test_epochs_differ_and_repeat_is_told(self) -> None:
        sampler = WeightedSampler(np.ones(50))
        assert len(sampler) == 50 and sampler.repeats
        assert not np.array_equal(sampler.order(0), sampler.order(1))
        assert np.array_equal(sampler.order(1), sampler.order(1))
        assert WeightedSampler([], 0).order(0).size == 0

    @pytest.mark.parametrize(
        ("weights", "options", "text"),
        [
            ([1, -1], {}, r"negative, infinite or NaN\n  where: item 1"),
            ([1, 2, np.nan], {}, "item 2"),
            ([np.inf], {}, "item 0"),
            ([0, 0], {}, "2 samples, but 0 items have weight > 0"),
            (
                [1, 0],
                {"samples": 2, "replacement": False},
                r"but 1 items.*\n.*at least 2\n  remedy: replacement=True",
            ),
            ([1], {"samples": -1}, "samples is -1"),
        ],
    )
    def test_refused(self, weights: list[float], options: dict[str, object], text: str) -> None:
        with pytest.raises(ArgumentError, match=text):
            WeightedSampler(weights, **options)  # type: ignore[arg-type]
        with pytest.raises(ShapeError, match="one weight per item"):
            WeightedSampler([[1.0]])


class TestDistributed:
    @pytest.mark.parametrize(("n", "world"), [(10, 3), (12, 4), (2, 5), (0, 2), (7, 1)])
    def test_ranks_cover_all_equally(self, n: int, world: int) -> None:
        base = RandomSampler(n, seed=1)
        ranks = [DistributedSampler(base, r, world).order(2) for r in range(world)]
        assert {len(r) for r in ranks} == {-(-n // world)} == {len(DistributedSampler(base, 0, world))}
        assert set(np.concatenate(ranks).tolist()) == set(range(n))
        cut = [DistributedSampler(base, r, world, pad=False).order(2) for r in range(world)]
        together = np.concatenate(cut).tolist()
        assert len(together) == len(set(together)) == n // world * world

    def test_interleaves_the_order(self) -> None:
        assert DistributedSampler(SequentialSampler(7), 1, 3).order(0).tolist() == [1, 4, 0]

    def test_refused(self) -> None:
        with pytest.raises(ArgumentError, match=r"rank 3 of 3 processes\n  expected: 0 <= rank < 3"):
            DistributedSampler(SequentialSampler(7), 3, 3)
        with pytest.raises(ArgumentError, match="world is 0"):
            DistributedSampler(SequentialSampler(7), 0, 0)
        with pytest.raises(
            ArgumentError, match=r"got BatchSampler.*\n.*\n  remedy: BatchSampler\(DistributedSampler"
        ):
            DistributedSampler(BatchSampler(SequentialSampler(7), 2), 0, 2)  # type: ignore[arg-type]


class TestBatches:
    def test_batches(self) -> None:
        sampler = BatchSampler(SequentialSampler(7), 3)
        batches = sampler.batches(0)
        assert [b.tolist() for b in batches] == [[0, 1, 2], [3, 4, 5], [6]] and len(sampler) == len(
            batches
        ) == 3
        assert [b.tolist() for b in batches[1:]] == [[3, 4, 5], [6]]
        dropped = BatchSampler(SequentialSampler(7), 3, drop_last=True)
        assert [b.tolist() for b in dropped.batches(0)] == [[0, 1, 2], [3, 4, 5]] and len(dropped) == 2

    def test_buckets_pad_little_and_cover_all(self) -> None:
        lengths = np.random.default_rng(0).integers(1, 500, 1003)
        sampler = BucketSampler(lengths, 16, window=20, seed=4)
        batches = sampler.batches(1)
        assert (
            sorted(np.concatenate(batches).tolist()) == list(range(1003))
            and len(sampler) == len(batches) == 63
        )

        def padding(batches: object) -> int:
            return sum(int((lengths[b].max() - lengths[b]).sum()) for b in batches)  # type: ignore[attr-defined]

        assert padding(batches) < 0.15 * padding(BatchSampler(RandomSampler(1003, 4), 16).batches(1))
        means = [lengths[b].mean() for b in batches]
        assert means != sorted(means)  # batches come in random order
        assert [b.tolist() for b in sampler.batches(1)] == [b.tolist() for b in batches]
        assert [b.tolist() for b in sampler.batches(2)] != [b.tolist() for b in batches]
        assert {len(b) for b in BucketSampler(lengths, 16, drop_last=True).batches(0)} == {16}

    def test_buckets_refuse(self) -> None:
        with pytest.raises(ShapeError, match=r"lengths have shape \(1, 2\)"):
            BucketSampler([[1, 2]], 2)
        with pytest.raises(ArgumentError, match="window is 0"):
            BucketSampler([1, 2], 2, window=0)


def test_signatures_tell_samplers_apart_and_are_json() -> None:
    samplers = [
        SequentialSampler(4), SequentialSampler(5), RandomSampler(4), RandomSampler(4, 1),
        WeightedSampler([1, 2]), WeightedSampler([1, 3]), WeightedSampler([1, 2], 1),
        WeightedSampler([1, 2], 1, replacement=False),
        DistributedSampler(RandomSampler(4), 0, 2), DistributedSampler(RandomSampler(4), 1, 2),
        DistributedSampler(RandomSampler(4, 1), 0, 2), DistributedSampler(RandomSampler(4), 0, 2, pad=False),
        BatchSampler(RandomSampler(4), 2), BatchSampler(RandomSampler(4), 3), BucketSampler([1, 2, 3, 4], 2),
        BucketSampler([1, 2, 3, 5], 2), BucketSampler([1, 2, 3, 4], 2, window=1),
    ]  # fmt: skip
    texts = [json.dumps(s.signature(), sort_keys=True) for s in samplers]
    assert len(set(texts)) == len(samplers)
    assert WeightedSampler([1, 2]).signature() == WeightedSampler([1, 2]).signature()


class TestFolds:
    @pytest.mark.parametrize("shuffle", [True, False])
    @pytest.mark.parametrize(("n", "k"), [(10, 2), (11, 3), (5, 5), (103, 10)])
    def test_each_item_is_tested_once(self, n: int, k: int, shuffle: bool) -> None:
        pairs = list(kfold(n, k, shuffle=shuffle, seed=1))
        assert len(pairs) == k
        for train, test in pairs:
            assert sorted([*train, *test]) == list(range(n)) and len(test) in (n // k, -(-n // k))
        assert sorted(np.concatenate([test for _, test in pairs])) == list(range(n))

    def test_order_and_seed(self) -> None:
        assert [test.tolist() for _, test in kfold(5, 2, shuffle=False)] == [[0, 1, 2], [3, 4]]
        parts = [[tuple(test) for _, test in kfold(50, 5, seed=s)] for s in (0, 0, 1)]
        assert parts[0] == parts[1] != parts[2] and parts[0] != [
            tuple(t) for _, t in kfold(50, 5, shuffle=False)
        ]

    @pytest.mark.parametrize("shuffle", [True, False])
    def test_stratified(self, shuffle: bool) -> None:
        labels = np.random.default_rng(0).choice(["a", "b", "c"], 97, p=[0.7, 0.25, 0.05])
        sizes = []
        for train, test in kfold(97, 4, stratify=labels, shuffle=shuffle):
            assert sorted([*train, *test]) == list(range(97))
            sizes.append(len(test))
            for label in "abc":
                whole = int((labels == label).sum())
                assert (labels[test] == label).sum() in (whole // 4, -(-whole // 4))
        assert max(sizes) - min(sizes) <= 1

    def test_datasets_give_subsets(self) -> None:
        data = ArrayDataset(np.arange(10) ** 2)
        for train, test in kfold(data, 3):
            assert isinstance(train, Subset) and len(train) + len(test) == 10
            assert sorted([*map(int, train), *map(int, test)]) == [i * i for i in range(10)]

    def test_refused_at_the_call(self) -> None:
        with pytest.raises(ArgumentError, match=r"4 folds of 3 items\n  where: .*\n  expected: 2 <= k <= 3"):
            kfold(3, 4)
        with pytest.raises(ArgumentError, match="k is 1"):
            kfold(3, 1)
        with pytest.raises(ShapeError, match=r"stratify has shape \(2,\)\n  expected: \(3,\)"):
            kfold(3, 2, stratify=[0, 1])
        with pytest.raises(DataError, match="NaN"):
            kfold(3, 2, stratify=[0.0, 1.0, np.nan])
