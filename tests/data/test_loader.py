"""The loader: the same batches in the same order, whoever does the work, and from any point on."""

from __future__ import annotations

import json
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from loader_subjects import (
    Countdown,
    Nested,
    Noise,
    PlainStream,
    Slow,
    Squares,
    list_of_items,
)

from trilobite.base import pytree
from trilobite.base.errors import StateError
from trilobite.framework.data import (
    ArrayDataset,
    BucketSampler,
    Loader,
    PadCollate,
    RandomSampler,
    Subset,
    WeightedSampler,
)

CREWS = [(0, "process"), (1, "thread"), (3, "thread"), (1, "process"), (2, "process")]


def same(a: Any, b: Any) -> bool:
    leaves_a, tree_a = pytree.flatten(a)
    leaves_b, tree_b = pytree.flatten(b)
    return tree_a == tree_b and all(
        type(x) is type(y)
        and (
            x.dtype == y.dtype and x.shape == y.shape and x.tobytes() == y.tobytes()
            if isinstance(x, np.ndarray)
            else x == y
        )
        for x, y in zip(leaves_a, leaves_b, strict=True)
    )


def assert_same(a: Any, b: Any) -> None:
    assert len(a) == len(b)
    for x, y in zip(a, b, strict=True):
        assert same(x, y)


class TestBatches:
    def test_order_and_last_batch(self) -> None:
        x, y = np.random.default_rng(0).normal(size=(11, 2)), np.arange(11)
        batches = list(Loader(ArrayDataset(x, y), 4))
        assert [b[1].tolist() for b in batches] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10]]
        np.testing.assert_array_equal(np.concatenate([b[0] for b in batches]), x)

    def test_drop_last_and_length(self) -> None:
        data = np.arange(11)
        assert [b.tolist() for b in Loader(data, 4, drop_last=True)] == [[0, 1, 2, 3], [4, 5, 6, 7]]
        assert len(Loader(data, 4)) == 3 and len(Loader(data, 4, drop_last=True)) == 2
        assert len(Loader(data[:8], 4)) == 2 and len(Loader([], 4)) == 0 and list(Loader([], 4)) == []

    def test_plain_sequences_are_datasets(self) -> None:
        assert [b.tolist() for b in Loader(range(5), 2)] == [[0, 1], [2, 3], [4]]
        batch = next(iter(Loader([{"a": 1.5, "b": "x"}, {"a": -2.5, "b": "y"}], 2)))
        assert batch["a"].tolist() == [1.5, -2.5] and batch["b"] == ["x", "y"]

    def test_shuffle_visits_each_item_once_and_differs_by_epoch_and_seed(self) -> None:
        def epochs(seed: int) -> list[list[int]]:
            loader = Loader(range(101), 10, shuffle=True, seed=seed)
            return [np.concatenate(list(loader)).tolist() for _ in range(3)]

        a, b = epochs(1), epochs(2)
        assert all(sorted(e) == list(range(101)) for e in a)
        assert len({tuple(e) for e in a + b}) == 6
        assert a == epochs(1)

    def test_whole_batch_path_equals_item_path(self) -> None:
        x = np.random.default_rng(0).normal(size=(23, 3, 2)).astype(np.float32)
        y = np.random.default_rng(1).integers(-5, 5, 23).astype(np.int16)
        data = Subset(ArrayDataset(x, y), np.random.default_rng(2).permutation(23)[:17])
        fast = list(Loader(data, 5, shuffle=True))
        slow = list(Loader(data, 5, shuffle=True, transform=lambda x: x))
        assert_same(fast, slow)

    def test_batches_do_not_alias_the_dataset(self) -> None:
        x = np.zeros((4, 2))
        for batch in Loader(ArrayDataset(x), 2):
            batch += 1
        assert not x.any()

    def test_to_converts_arrays_and_nothing_else(self) -> None:
        batch = next(iter(Loader(Nested(4), 2, to=lambda a: ("tensor", a.shape))))
        assert batch["big"] == ("tensor", (2, 100, 100)) and batch["sample"].name == ["name 0", "name 1"]
        assert batch["nothing"] is None and batch["flag"] == ("tensor", (2,))

    def test_own_collate(self) -> None:
        batch = next(iter(Loader(Squares(5), 3, collate=list_of_items)))
        assert [i for _, i in batch] == [0, 1, 2]

    def test_batch_sampler(self) -> None:
        lengths = np.random.default_rng(0).integers(1, 50, 40)
        data = [np.arange(n) for n in lengths]
        loader = Loader(data, sampler=BucketSampler(lengths, 8, window=3), collate=PadCollate(-1))
        seen = [row[row >= 0].size for batch in loader for row in batch]
        assert sorted(seen) == sorted(lengths.tolist()) and len(loader) == 5

    def test_iteration_may_be_nested(self) -> None:
        loader = Loader(range(3), 1)
        assert sum(1 for _ in loader for _ in loader) == 9


@pytest.mark.parametrize(("workers", "kind"), CREWS)
class TestWorkersChangeNothing:
    def test_batches(self, workers: int, kind: str) -> None:
        def run(workers: int, kind: str) -> list[Any]:
            loader = Loader(
                Slow(41),
                4,
                shuffle=True,
                seed=5,
                transform=Noise(),
                workers=workers,
                worker_kind=kind,
                prefetch=3,
            )
            return [*loader, *loader]

        assert_same(run(workers, kind), run(0, "process"))

    def test_nested_items_and_large_batches(self, workers: int, kind: str) -> None:
        made = list(Loader(Nested(7), 3, workers=workers, worker_kind=kind))
        assert_same(made, list(Loader(Nested(7), 3)))
        assert made[0]["sample"].image.dtype == ml_dtypes.bfloat16 and made[0]["big"].flags.writeable

    def test_streams(self, workers: int, kind: str) -> None:
        def run(**options: Any) -> list[Any]:
            loader = Loader(Countdown(23), 4, workers=workers, worker_kind=kind, **options)
            return [b[0].tolist() for _ in range(2) for b in loader]

        expected = [
            [1000 * e + i for i in range(s, min(s + 4, 23))] for e in range(2) for s in range(0, 23, 4)
        ]
        assert run() == expected
        assert run(drop_last=True) == [b for b in expected if len(b) == 4]
        assert run(keep_workers=True) == expected

    def test_resume_at_every_batch(self, workers: int, kind: str) -> None:
        def make() -> Loader:
            return Loader(
                Squares(10), 3, shuffle=True, seed=9, transform=Noise(), workers=workers, worker_kind=kind
            )

        whole = [
            *(loader := Loader(Squares(10), 3, shuffle=True, seed=9, transform=Noise())),
            *loader,
            *loader,
        ]
        for stop in (1, 4, 6) if workers else range(9):
            loader, seen = make(), []
            while len(seen) < stop:
                for batch in loader:
                    seen.append(batch)
                    if len(seen) == stop:
                        break
            state = json.loads(json.dumps(loader.state_dict()))
            again = make()
            again.load_state_dict(state)
            rest = []
            while len(rest) < len(whole) - stop:
                rest += list(again)
            assert_same(seen + rest, whole)

    def test_resume_a_stream(self, workers: int, kind: str) -> None:
        def make(dataset: Any) -> Loader:
            return Loader(dataset, 4, workers=workers, worker_kind=kind, prefetch=2)

        for dataset in (Countdown(22), PlainStream(22)):
            whole = list(make(dataset))
            loader = make(dataset)
            passing = iter(loader)
            seen = [next(passing) for _ in range(3)]
            again = make(dataset)
            again.load_state_dict(loader.state_dict())
            assert_same(seen + list(again), whole)

    def test_kept_workers_give_the_same(self, workers: int, kind: str) -> None:
        options: dict[str, Any] = {"shuffle": True, "transform": Noise()}
        kept = Loader(Slow(20), 3, workers=workers, worker_kind=kind, keep_workers=True, **options)
        plain = Loader(Slow(20), 3, **options)
        for loader in (kept, plain):
            for i, _ in enumerate(loader):  # abandon an epoch with batches under way
                if i == 1:
                    break
        assert_same([*kept, *kept], [*plain, *plain])
        kept.close()


class TestState:
    def test_position_counts_delivered_batches_only(self) -> None:
        loader = Loader(range(10), 2, workers=2, worker_kind="thread", prefetch=4)
        passing = iter(loader)
        assert loader.state_dict()["batch"] == 0
        next(passing)
        next(passing)
        state = loader.state_dict()
        assert (state["epoch"], state["batch"]) == (0, 2)

    def test_end_of_epoch(self) -> None:
        loader = Loader(range(4), 2)
        positions = [(s["epoch"], s["batch"]) for _ in loader if (s := loader.state_dict())]
        assert positions == [(0, 1), (0, 2)]
        after = loader.state_dict()
        assert (after["epoch"], after["batch"]) == (1, 0)

    def test_saved_after_the_last_batch_the_rest_of_the_epoch_is_empty(self) -> None:
        loader = Loader(range(4), 2, shuffle=True)
        passing = iter(loader)
        next(passing)
        next(passing)
        again = Loader(range(4), 2, shuffle=True)
        again.load_state_dict(loader.state_dict())
        assert list(again) == []
        list(loader)  # the uninterrupted loader's second epoch begins here as well
        assert again.state_dict()["epoch"] == 1

    def test_seed_is_taken_over(self) -> None:
        a = Loader(range(50), 5, shuffle=True, seed=3)
        b = Loader(range(50), 5, shuffle=True, seed=4)
        b.load_state_dict(a.state_dict())
        assert_same(list(a), list(b))

    def test_kept_workers_learn_the_new_seed(self) -> None:
        a = Loader(Squares(6), 2, transform=Noise(), seed=3)
        b = Loader(
            Squares(6), 2, transform=Noise(), seed=4, workers=1, worker_kind="thread", keep_workers=True
        )
        list(b)
        b.load_state_dict(a.state_dict())
        assert_same(list(a), list(b))

    def test_abandoned_epoch_is_followed_by_the_next(self) -> None:
        whole = Loader(range(30), 3, shuffle=True)
        epochs = [np.concatenate(list(whole)).tolist() for _ in range(2)]
        loader = Loader(range(30), 3, shuffle=True)
        assert next(iter(loader)).tolist() == epochs[0][:3]
        assert np.concatenate(list(loader)).tolist() == epochs[1]

    @pytest.mark.parametrize(
        ("other", "word"),
        [
            (Loader(range(10), 3), "batch_size"),
            (Loader(range(11), 2), "length"),
            (Loader(range(10), 2, shuffle=True), "RandomSampler"),
            (Loader(range(10), 2, drop_last=True), "drop_last"),
            (Loader(range(10), 2, sampler=WeightedSampler(np.arange(10))), "WeightedSampler"),
            (Loader(PlainStream(10), 2), "stream"),
        ],
    )
    def test_other_order_is_refused_and_nothing_changes(self, other: Loader, word: str) -> None:
        loader = Loader(range(10), 2, seed=5)
        passing = iter(loader)
        next(passing)
        before = loader.state_dict()
        with pytest.raises(
            StateError, match=r"(?s)saved with another order.*where:.*expected:.*remedy: build the loader"
        ):
            loader.load_state_dict({**other.state_dict(), "seed": 6})
        assert word in str(other.state_dict()) and loader.state_dict() == before

    def test_repeated_items_resume_with_their_own_noise(self) -> None:
        def make() -> Loader:
            return Loader(Squares(4), 3, sampler=WeightedSampler([1, 5, 1, 1], 20), transform=Noise())

        loader = make()
        passing = iter(loader)
        seen = [next(passing) for _ in range(4)]
        again = make()
        again.load_state_dict(loader.state_dict())
        assert_same([*seen, *again], list(make()))

    def test_weights_are_part_of_the_state(self) -> None:
        a = Loader(range(3), sampler=WeightedSampler([1, 2, 3]))
        b = Loader(range(3), sampler=WeightedSampler([1, 2, 4]))
        with pytest.raises(StateError, match="another order"):
            b.load_state_dict(a.state_dict())

    @pytest.mark.parametrize(
        "change",
        [
            {"epoch": -1},
            {"batch": 99},
            {"batch": "1"},
            {"version": 2},
            {"seed": None},
            {"epoch": True},
            {"order": None},
        ],
    )
    def test_malformed_state(self, change: dict[str, Any]) -> None:
        loader = Loader(range(10), 2)
        with pytest.raises(StateError, match=r"loader state (has|is|was)"):
            loader.load_state_dict({**loader.state_dict(), **change})
        with pytest.raises(StateError, match="state_dict"):
            loader.load_state_dict([])  # type: ignore[arg-type]


class TestRandomStreams:
    def test_each_item_has_its_own_noise_and_epochs_differ(self) -> None:
        loader = Loader([np.zeros(4, np.float32)] * 20, 20, transform=Noise())
        first, second = next(iter(loader)), next(iter(loader))
        assert len({row.tobytes() for row in np.concatenate([first, second])}) == 40

    def test_noise_belongs_to_the_item_not_to_its_place(self) -> None:
        data = [np.zeros(4, np.float32)] * 20
        order = RandomSampler(20, 3).order(0)
        straight = next(iter(Loader(data, 20, transform=Noise())))
        mixed = np.concatenate(list(Loader(data, 7, sampler=RandomSampler(20, 3), transform=Noise())))
        np.testing.assert_array_equal(mixed, straight[order])

    def test_repeated_items_get_different_noise(self) -> None:
        data = [np.zeros(4, np.float32)] * 2
        batch = next(iter(Loader(data, 50, sampler=WeightedSampler([1, 1], 50), transform=Noise())))
        assert len({row.tobytes() for row in batch}) == 50

    def test_seed_changes_noise(self) -> None:
        a, b = (next(iter(Loader([np.zeros(4, np.float32)], transform=Noise(), seed=s))) for s in (0, 1))
        assert not np.array_equal(a, b)
