"""Wrong uses of the loader, and items that do not fit together: what the messages say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from loader_subjects import Countdown, FailingStream, Squares

from trilobite.base.errors import ArgumentError, DataError
from trilobite.framework.data import ArrayDataset, BatchSampler, Loader, RandomSampler, Subset


class TestWrongUse:
    @pytest.mark.parametrize(
        ("options", "text"),
        [
            ({"batch_size": 0}, "batch_size is 0"),
            ({"batch_size": 2.0}, "batch_size is 2.0"),
            ({"workers": -1}, "workers is -1"),
            ({"prefetch": 0}, "prefetch is 0"),
            ({"seed": -3}, "seed -3"),
            ({"seed": 1.5}, "seed 1.5"),
            ({"worker_kind": "fork"}, r"worker_kind 'fork'\n  expected: one of process, thread"),
            ({"sampler": [3, 1]}, r"sampler is a list\n  expected: a Sampler.*\n  remedy: for a fixed list"),
            ({"sampler": RandomSampler(5), "shuffle": True}, "both shuffle and sampler"),
            ({"sampler": BatchSampler(RandomSampler(5), 2), "batch_size": 2}, "makes its own batches"),
        ],
    )
    def test_arguments(self, options: dict[str, Any], text: str) -> None:
        with pytest.raises(ArgumentError, match=text):
            Loader(range(5), **options)

    def test_streams_cannot_be_shuffled(self) -> None:
        with pytest.raises(ArgumentError, match=r"(?s)order of its own.*stream\(epoch, start\)"):
            Loader(Countdown(3), shuffle=True)

    def test_streams_without_length(self) -> None:
        with pytest.raises(TypeError, match="without a length"):
            len(Loader(Countdown(3)))
        assert len(list(Loader(Countdown(3)))) == 3

    def test_items_that_do_not_fit_together_are_named(self) -> None:
        data = [np.zeros(3), np.zeros(3), np.zeros(4)]
        with pytest.raises(
            DataError,
            match=r"(?s)items 0, 1, 2 could not be collated.*shape.*\(3,\), \(4,\).*batch 0 of epoch 0",
        ):
            list(Loader(data, 3))

    def test_index_outside_the_dataset(self) -> None:
        with pytest.raises(DataError, match=r"item 5 could not be loaded: IndexError"):
            list(Loader(Squares(5), sampler=RandomSampler(6), batch_size=6))

    def test_whole_batch_failure_names_the_items(self) -> None:
        with pytest.raises(
            DataError, match=r"could not be loaded: IndexError.*\n  where: batch 1 of epoch 0"
        ):
            list(Loader(Subset(Shrunk(), range(4)), 3))

    def test_stream_failure(self) -> None:
        loader = Loader(FailingStream(20), 4)
        passing = iter(loader)
        next(passing)
        with pytest.raises(
            DataError, match=r"the stream failed at or after item 4: OSError: the socket is gone"
        ):
            next(passing)


class Shrunk(ArrayDataset):
    """Claims more rows than it has."""

    def __init__(self) -> None:
        super().__init__(np.arange(3))

    def __len__(self) -> int:
        return 4
