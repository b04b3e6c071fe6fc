"""Branches that ordinary data never takes: wrong files, labels and codes, windows beyond an edge, streams."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trilobite.base.errors import ArgumentError, DataError, DTypeError, FileError, ShapeError
from trilobite.framework import data
from trilobite.framework.data import idx, transport
from trilobite.framework.data.digits import FILES, MNIST
from trilobite.framework.data.fetch import _few
from trilobite.framework.data.images import _to_8_bits
from trilobite.framework.data.samplers import count

transforms = data.transforms
IMAGES, LABELS = np.zeros((3, 28, 28), np.uint8), np.array([0, 9, 5], np.uint8)


# -- files ---------------------------------------------------------------------------------------------------


def digits(folder: Path, images: Any, labels: Any) -> MNIST:
    for name, array in zip(FILES["test"], (images, labels), strict=True):
        idx.write(folder / name, array)
    return MNIST(folder, "test")


def test_digits_of_every_label(tmp_path: Path) -> None:
    found = digits(tmp_path, IMAGES, LABELS)
    assert len(found) == 3 and found[1][1] == 9
    assert len(digits(tmp_path, IMAGES[:0], LABELS[:0])) == 0


@pytest.mark.parametrize(
    ("images", "labels", "text"),
    [
        (IMAGES.astype(np.int16), LABELS, "the images have shape (3, 28, 28) and dtype"),
        (IMAGES[0], LABELS[:1], "the images have shape (28, 28) and dtype uint8"),
        (IMAGES[:, :27], LABELS, "the images have shape (3, 27, 28) and dtype uint8"),
        (IMAGES[:, None], LABELS, "the images have shape (3, 1, 28, 28)"),
        (IMAGES, LABELS.astype(np.int32), "the labels have shape (3,) and dtype"),
        (IMAGES, LABELS[:2], "the labels have shape (2,) and dtype uint8"),
        (IMAGES, np.array([0, 10, 5], np.uint8), "a label is 10"),
    ],
)
def test_digits_that_are_none(images: Any, labels: Any, text: str, tmp_path: Path) -> None:
    with pytest.raises(FileError) as caught:
        digits(tmp_path, images, labels)
    assert text in str(caught.value) and str(tmp_path) in str(caught.value)


def test_an_axis_that_idx_cannot_count(tmp_path: Path) -> None:
    with pytest.raises(ShapeError, match="IDX cannot hold shape"):
        idx.write(tmp_path / "x", np.broadcast_to(np.uint8(0), (1 << 32,)))


@pytest.mark.parametrize("values", [[0, 65536], [-1, 65535], [-1, 5], [3, 1 << 20]])
def test_greys_beyond_sixteen_bits(values: list[int]) -> None:
    image = pytest.importorskip("PIL.Image")
    with pytest.raises(ValueError, match="do not fit 16 bits"):
        _to_8_bits(image.fromarray(np.array([values], np.int32)))


def test_greys_of_sixteen_bits_are_scaled() -> None:
    image = pytest.importorskip("PIL.Image")
    values = [0, 128, 129, 257, 32767, 32768, 65534, 65535]
    found = np.asarray(_to_8_bits(image.fromarray(np.array([values], np.int32))))
    assert found.tolist() == [[int(v * 255 / 65535 + 0.5) for v in values]]


# -- loaders and samplers ------------------------------------------------------------------------------------


class Stream(data.IterableDataset):
    """Numbers one after the other; counts how often it was opened."""

    def __init__(self, n: int) -> None:
        self.n, self.opened = n, 0

    def __len__(self) -> int:
        return self.n

    def __iter__(self) -> Iterator[Any]:
        return self.stream(0, 0)

    def stream(self, epoch: int, start: int) -> Iterator[Any]:
        self.opened += 1
        return iter(np.arange(start, self.n) + 100 * epoch)


class Endless(data.IterableDataset):
    def __iter__(self) -> Iterator[Any]:
        return self.stream(0, 0)

    def stream(self, epoch: int, start: int) -> Iterator[Any]:
        return iter(itertools.count(start))


@pytest.mark.parametrize("n", [0, 1, 3, 4, 5, 8, 9])
@pytest.mark.parametrize("drop_last", [False, True])
def test_loaders_of_streams_know_their_length(n: int, drop_last: bool) -> None:
    loader = data.Loader(Stream(n), batch_size=4, drop_last=drop_last)
    assert len(loader) == (n // 4 if drop_last else -(-n // 4)) == len(list(loader))


def test_a_stream_without_a_length() -> None:
    loader = data.Loader(Endless(), batch_size=3)
    with pytest.raises(TypeError, match="reads a stream without a length"):
        len(loader)
    assert [b.tolist() for b in itertools.islice(loader, 2)] == [[0, 1, 2], [3, 4, 5]]


def test_epochs_of_a_stream_begin_anew() -> None:
    """Broken off in the middle too: what comes next lies before what was read."""
    loader = data.Loader(Stream(7), batch_size=2)
    first = iter(loader)
    assert [next(first).tolist() for _ in range(3)] == [[0, 1], [2, 3], [4, 5]]
    assert [b.tolist() for b in loader] == [[100, 101], [102, 103], [104, 105], [106]]
    assert next(iter(loader)).tolist() == [200, 201]


@pytest.mark.parametrize(
    ("n", "text"), [(8, "0, 1, 2, 3, 4, 5, 6, 7"), (9, "6, 7, ... (9 in all)"), (1, "0")]
)
def test_indices_in_messages(n: int, text: str) -> None:
    assert _few(range(n)).endswith(text)


class Bad(data.Dataset):
    def __len__(self) -> int:
        return 20

    def __getitem__(self, i: int) -> Any:
        return (lambda: i) if i == 11 else np.zeros(2)


def test_a_batch_that_cannot_be_sent_says_so() -> None:
    loader = data.Loader(Bad(), batch_size=10, workers=1, collate=list)
    with pytest.raises(DataError) as caught:
        list(loader)
    assert "a batch could not be sent" in str(caught.value)


def test_items_that_cannot_be_collated_are_named() -> None:
    class Ragged(data.Dataset):
        def __len__(self) -> int:
            return 9

        def __getitem__(self, i: int) -> Any:
            return np.zeros(1 + i)

    with pytest.raises(
        DataError, match=r"items 0, 1, 2, 3, 4, 5, 6, 7, \.\.\. \(9 in all\) could not be collated"
    ):
        next(iter(data.Loader(Ragged(), batch_size=9)))


@pytest.mark.parametrize("value", [True, False, 1.0, "2", -1, None])
def test_counts_are_whole_numbers(value: Any) -> None:
    with pytest.raises(ArgumentError, match="things is"):
        count("things", value)
    assert type(count("things", np.int32(3))) is int and count("things", 0) == 0


def test_weights_that_are_none() -> None:
    for weights, place in (([1, -1e-9, 2], 1), ([np.nan, 1], 0), ([1, 2, np.inf], 2)):
        with pytest.raises(ArgumentError, match="negative, infinite or NaN") as caught:
            data.WeightedSampler(weights)
        assert f"item {place}" in str(caught.value)
    assert set(data.WeightedSampler([0.0, 1.0], 5).order(0).tolist()) == {1}


@pytest.mark.parametrize("lengths", [np.zeros((2, 2)), np.array(["a", "b"]), np.array([1j]), np.float64(3)])
def test_lengths_that_are_no_numbers(lengths: Any) -> None:
    with pytest.raises(ShapeError, match="BucketSampler: lengths"):
        data.BucketSampler(lengths, 2)


def test_what_a_sampler_repeats_its_ranks_repeat() -> None:
    plain, drawn = data.SequentialSampler(5), data.WeightedSampler(np.ones(4), 8)
    only = data.WeightedSampler(np.ones(4), 3, replacement=False)
    found = [
        data.DistributedSampler(sampler, 0, 2, pad=pad).repeats
        for sampler in (plain, drawn, only)
        for pad in (True, False)
    ]
    assert found == [True, False, True, True, True, False]


def test_signatures_tell_samplers_apart() -> None:
    five, six = data.SequentialSampler(5), data.SequentialSampler(6)
    made: list[Callable[[], Any]] = [
        lambda: five, lambda: six, lambda: data.RandomSampler(5, 0), lambda: data.RandomSampler(5, 1),
        lambda: data.WeightedSampler([1.0, 2.0]), lambda: data.WeightedSampler([1.0, 3.0]),
        lambda: data.WeightedSampler([1.0, 2.0], replacement=False), lambda: data.BatchSampler(five, 2),
        lambda: data.BatchSampler(five, 3), lambda: data.BatchSampler(five, 2, drop_last=True),
        lambda: data.BucketSampler([1, 2, 3], 2), lambda: data.BucketSampler([1, 2, 4], 2),
        lambda: data.BucketSampler([1, 2, 3], 2, window=3), lambda: data.BucketSampler([1, 2, 3], 2, seed=4),
        lambda: data.DistributedSampler(six, 0, 2), lambda: data.DistributedSampler(six, 1, 2),
        lambda: data.DistributedSampler(six, 0, 2, pad=False),
    ]  # fmt: skip
    told = [repr(make().signature()) for make in made]
    assert len(set(told)) == len(told)
    assert told == [repr(make().signature()) for make in made]


def test_folds_of_labels_that_equal_nothing() -> None:
    with pytest.raises(DataError, match="stratify contains NaN"):
        data.kfold(4, 2, stratify=[0.0, np.nan, 1.0, 1.0])
    assert len(list(data.kfold(4, 2, stratify=[0.0, 0.5, 1.0, 1.0]))) == 2


# -- text ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("codes", [[3], [-1], [0, 1, 3], [0.0], [-1, 0]])
def test_codes_outside_a_vocabulary(codes: list[Any]) -> None:
    with pytest.raises(DataError, match="outside the vocabulary"):
        data.Vocabulary("abc").decode(codes)
    assert data.Vocabulary("abc").decode([2, 0]) == "ca" and data.Vocabulary("abc").decode([]) == ""


def test_texts_from_files_have_strides(tmp_path: Path) -> None:
    (tmp_path / "t").write_text("abcdefghij", encoding="utf-8")
    for stride in (1, 2, 3, None):
        found = data.TextDataset.from_file(tmp_path / "t", 3, stride)
        starts = range(0, 10 - 3, stride or 3)
        assert len(found) == len(starts)
        whole = found.get_batch(np.arange(len(found)))
        for n, start in enumerate(starts):
            assert found.vocabulary.decode(found[n][0]) == "abcdefghij"[start : start + 3]
            assert found.vocabulary.decode(whole[1][n]) == "abcdefghij"[start + 1 : start + 4]


# -- transforms ----------------------------------------------------------------------------------------------


def rng() -> np.random.Generator:
    return np.random.default_rng(3)


def test_jitter_by_more_than_all() -> None:
    """Factors are never negative: an image does not turn into its own negative."""
    image = np.linspace(0.1, 0.9, 48, dtype=np.float32).reshape(4, 4, 3)
    for seed in range(8):
        found = transforms.ColorJitter(contrast=9.0)(image, np.random.default_rng(seed))
        flat = found.mean(axis=2).ravel()
        assert (np.diff(flat) >= -1e-6).all()
    assert transforms.ColorJitter(hue=0.5).hue == 0.5
    for wrong in ({"hue": 0.51}, {"brightness": -0.1}, {"contrast": -1}, {"saturation": float("nan")}):
        with pytest.raises(ArgumentError, match="ColorJitter"):
            transforms.ColorJitter(**wrong)


def test_jitter_of_the_largest_byte_is_rounded() -> None:
    image = np.full((2, 2, 3), 255, np.uint8)
    image[0] = 100
    found = transforms.ColorJitter(brightness=0.5)(image, rng())
    factor = np.random.default_rng(3).uniform(0.5, 1.5)
    want = np.rint(np.clip(image.astype(np.float32) / np.float32(255) * np.float32(factor), 0, 1) * 255)
    np.testing.assert_array_equal(found, want.astype(np.uint8))


@pytest.mark.parametrize(
    ("shape", "size"), [((40, 3), 1), ((3, 100), 1), ((7, 9), 3), ((9, 7), 4), ((5, 5), 2)]
)
def test_the_longer_side_follows_and_is_never_lost(shape: tuple[int, int], size: int) -> None:
    found = transforms.Resize(size)(np.zeros(shape, np.float32))
    wanted = tuple(max(1, int(np.floor(side * size / min(shape) + 0.5))) for side in shape)
    assert found.shape == wanted and min(found.shape) == size


@pytest.mark.parametrize("n", [4, 5, 6, 7])
@pytest.mark.parametrize("m", [1, 2, 3, 4])
def test_centres_of_even_and_odd_rooms(n: int, m: int) -> None:
    image = np.arange(n * (n + 1)).reshape(n, n + 1)
    top, left = (n - m) // 2, (n + 1 - m) // 2
    np.testing.assert_array_equal(transforms.CenterCrop(m)(image), image[top : top + m, left : left + m])


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "symmetric", "wrap"])
@pytest.mark.parametrize(
    ("shape", "size", "padding"), [((3, 4), (2, 2), 3), ((5, 4), (9, 8), (2, 3)), ((2, 2), (1, 1), 1)]
)
def test_windows_of_padded_images(mode: str, shape: Any, size: Any, padding: Any) -> None:
    """Those that lie wholly in the padding, too."""
    image = np.arange(1, 1 + int(np.prod(shape))).reshape(shape)
    both = (padding, padding) if isinstance(padding, int) else padding
    how = {"constant_values": 7} if mode == "constant" else {}
    padded = np.pad(image, tuple((p, p) for p in both), mode=mode, **how)  # type: ignore[call-overload]
    crop = transforms.RandomCrop(size, padding, fill=7, mode=mode)
    seen = set()
    for seed in range(40):
        draw = np.random.default_rng(seed)
        top, left = (int(draw.integers(0, n - s + 1)) for n, s in zip(padded.shape, size, strict=True))
        seen.add((top, left))
        found = crop(image, np.random.default_rng(seed))
        np.testing.assert_array_equal(found, padded[top : top + size[0], left : left + size[1]])
    room = [n - s for n, s in zip(padded.shape, size, strict=True)]
    assert {top for top, _ in seen} == set(range(room[0] + 1)) or room[0] > 8
    with pytest.raises(ShapeError, match="cannot cut"):
        transforms.RandomCrop((padded.shape[0], padded.shape[1] + 1), padding)(image, rng())


def test_holes_over_the_edge() -> None:
    image = np.ones((6, 5), np.float32)
    for seed in range(60):
        draw = np.random.default_rng(seed)
        top, left = (int(draw.integers(0, n)) - 2 for n in image.shape)
        want = image.copy()
        for y, x in itertools.product(range(top, top + 4), range(left, left + 4)):
            if 0 <= y < 6 and 0 <= x < 5:
                want[y, x] = 0.5
        np.testing.assert_array_equal(
            transforms.Cutout(4, fill=0.5)(image, np.random.default_rng(seed)), want
        )


def test_turned_images_are_filled() -> None:
    image = np.ones((5, 5), np.float32)
    found = transforms.Rotate((45.0, 45.0), "nearest", fill=-3)(image, rng())
    assert found[0, 0] == -3 and found[2, 2] == 1
    np.testing.assert_array_equal(transforms.Rotate((0.0, 0.0), fill=9)(image, rng()), image)
    for low, high in ((2.0, 1.0), (-np.inf, 1.0), (0.0, np.inf), (np.nan, 1.0)):
        with pytest.raises(ArgumentError, match="Rotate: angles"):
            transforms.Rotate((low, high))


def test_flips_that_are_certain() -> None:
    image = np.arange(6).reshape(2, 3)
    np.testing.assert_array_equal(transforms.HorizontalFlip(1.0)(image, rng()), image[:, ::-1])
    np.testing.assert_array_equal(transforms.HorizontalFlip(0.0)(image, rng()), image)


@pytest.mark.parametrize(
    ("labels", "text"), [([3], "from 3 to 3"), ([-1, 2], "from -1 to 2"), ([0, 4], "from 0 to 4")]
)
def test_labels_beyond_their_classes(labels: list[int], text: str) -> None:
    with pytest.raises(DataError, match=text):
        transforms.OneHot(3)(np.array(labels))
    np.testing.assert_array_equal(transforms.OneHot(3)(np.array([0, 2])), [[1, 0, 0], [0, 0, 1]])
    assert transforms.OneHot(3)(np.zeros(0, int)).shape == (0, 3)


def test_normalising_by_tables() -> None:
    for mean, std in (([[1.0]], [1.0]), ([1.0], [[1.0]])):
        with pytest.raises(ShapeError, match="more than one axis"):
            transforms.Normalize(mean, std)
    for mean, std in ((0.0, 0.0), (0.0, -1.0), (0.0, np.inf), (np.inf, 1.0), (np.nan, 1.0)):
        with pytest.raises(ArgumentError, match="Normalize: mean"):
            transforms.Normalize(mean, std)
    image = np.arange(12.0).reshape(2, 2, 3)
    for axis in (-3, -1, 0, 1, 2):
        n = image.shape[axis]
        mean, std = np.arange(n) + 1.0, np.arange(n) + 2.0
        shape = [n if a == axis % 3 else 1 for a in range(3)]
        want = (image - mean.reshape(shape)) / std.reshape(shape)
        np.testing.assert_allclose(transforms.Normalize(mean, std, axis=axis)(image), want)
    for axis in (3, -4):
        with pytest.raises(ShapeError, match="do not fit shape"):
            transforms.Normalize([0.0, 1.0], 1.0, axis=axis)(image)
    with pytest.raises(DTypeError, match="put ToFloat"):
        transforms.Normalize(0.0, 1.0)(np.zeros(3, np.uint8))


def double(x: Any) -> Any:
    return 2 * x


def test_transforms_and_the_items_that_they_do_not_fit() -> None:
    def loaded(transform: Any, item: Any) -> Any:
        class One(data.Dataset):
            def __len__(self) -> int:
                return 1

            def __getitem__(self, i: int) -> Any:
                return item

        return next(iter(data.Loader(One(), batch_size=1, transform=transform, collate=list)))[0]

    assert loaded((double, None), (1, 2, 3)) == (2, 2, 3) and loaded((double, double), (1, 2)) == (2, 4)
    assert loaded((None, double), [1, 2]) == (1, 4) and loaded(double, ()) == ()
    assert loaded({"a": double, "b": None}, {"a": 1, "b": 2, "c": 3}) == {"a": 2, "b": 2, "c": 3}
    for transform, item, text in (
        ((double, None), (1,), "2 transforms do not fit an item of type tuple"),
        ((double,), 5, "1 transforms do not fit an item of type int"),
        ({"a": double}, (1,), "item with tuple"),
        ({"a": double, "z": None}, {"a": 1}, r"item with \['a'\]"),
    ):
        with pytest.raises(DataError, match=text):
            loaded(transform, item)


def test_a_transform_tells_its_settings_only() -> None:
    class Own(transforms.Transform):
        def __init__(self) -> None:
            self.size, self._hidden = 3, 4

        def __call__(self, x: Any, rng: Any = None) -> Any:
            return x

    assert repr(Own()) == "Own(size=3)"


# -- what is sent to other processes -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [
        np.zeros(0, "M8[s]"), np.array(["2020-01-01", "NaT"], "M8[D]"),
        np.arange(6).astype("m8[ms]").reshape(2, 3)[:, ::2],
        np.array([(1, "a")], [("n", "i4"), ("o", object)]), np.zeros(3, "V5"), np.zeros((2, 0), "V3"),
    ],
)  # fmt: skip
def test_dtypes_without_buffers_arrive(value: Any) -> None:
    import multiprocessing

    here, there = multiprocessing.Pipe()
    transport.send(here, "batch", value)
    kind, found = transport.receive(there)
    assert kind == "batch" and found.dtype == value.dtype and found.shape == value.shape
    assert found.tolist() == value.tolist()


@pytest.mark.parametrize("more", [-1, 0, 1])
@pytest.mark.parametrize("share", [False, True])
def test_buffers_around_what_fits_into_a_message(more: int, share: bool) -> None:
    import multiprocessing
    import threading

    here, there = multiprocessing.Pipe()
    first = np.arange(transport.INLINE + more - 100, dtype=np.uint8)
    value = [first, np.arange(100, dtype=np.uint8)[::-1].copy(), np.zeros(0)]
    sender = threading.Thread(target=transport.send, args=(here, "batch", value))
    sender.start()
    kind, found = transport.receive(there, share=share)
    sender.join()
    assert kind == "batch"
    for a, b in zip(found, value, strict=True):
        np.testing.assert_array_equal(a, b)
        a[...] = 1  # its own
