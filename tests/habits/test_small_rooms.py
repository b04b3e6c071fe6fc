"""Small rooms under PyTorch's names, whole: datasets, devices that are not here, comparisons, settings."""

from __future__ import annotations

import collections
import inspect
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from trilobite.utils.data import (
    ChainDataset,
    ConcatDataset,
    Dataset,
    IterableDataset,
    StackDataset,
    Subset,
    TensorDataset,
    default_collate,
    default_convert,
    random_split,
)

import trilobite as tb
from trilobite.base.errors import ArgumentError, DTypeError, StateError
from trilobite.framework.pytorch import modules

Point = collections.namedtuple("Point", "x y")


class Numbers(Dataset[int]):
    def __init__(self, *values: int) -> None:
        self.values = values

    def __getitem__(self, index: Any) -> int:
        return self.values[index]

    def __len__(self) -> int:
        return len(self.values)


# -- datasets ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sizes", [(3,), (2, 4), (1, 5, 2), (3, 0, 2)])
def test_datasets_one_after_the_other(sizes: tuple[int, ...]) -> None:
    values = iter(range(100))
    parts = [Numbers(*(next(values) for _ in range(n))) for n in sizes]
    joined = ConcatDataset(parts)
    assert len(joined) == sum(sizes)
    assert [joined[i] for i in range(len(joined))] == list(range(sum(sizes)))
    assert [joined[-1 - i] for i in range(len(joined))] == list(range(sum(sizes)))[::-1]
    assert joined.cumulative_sizes == np.cumsum(sizes).tolist()
    both = parts[0] + Numbers(7, 8)
    assert isinstance(both, ConcatDataset) and [both[i] for i in range(len(both))] == [*parts[0].values, 7, 8]


def test_parts_rows_and_sides_of_datasets() -> None:
    some = Subset(Numbers(10, 11, 12, 13), [3, 1])
    assert len(some) == 2 and [some[0], some[1]] == [13, 11]
    rows = TensorDataset(tb.arange(6).reshape(3, 2), tb.tensor([7, 8, 9]))
    assert len(rows) == 3 and rows[1][0].tolist() == [2, 3] and int(rows[1][1]) == 8
    with pytest.raises(ArgumentError, match=r"lengths \[3, 2\]"):
        TensorDataset(tb.zeros(3), tb.zeros(2))
    by_place, by_name = (
        StackDataset(Numbers(1, 2), Numbers(3, 4)),
        StackDataset(a=Numbers(1, 2), b=Numbers(3, 4)),
    )
    assert by_place[1] == (2, 4) and by_name[1] == {"a": 2, "b": 4} and len(by_place) == len(by_name) == 2
    for wrong in (
        lambda: StackDataset(Numbers(1), Numbers(1, 2)),
        lambda: StackDataset(Numbers(1), b=Numbers(1)),
    ):
        with pytest.raises(ArgumentError, match="StackDataset of lengths"):
            wrong()

    class Stream(IterableDataset[int]):
        def __iter__(self) -> Iterator[int]:
            return iter((1, 2))

    assert list(ChainDataset([Stream(), Stream()])) == [1, 2, 1, 2]
    assert len(ChainDataset([Numbers(1, 2), Numbers(3, 4, 5)])) == 5


@pytest.mark.parametrize(
    ("count", "lengths", "wanted"),
    [(10, [7, 3], [7, 3]), (10, [0.7, 0.3], [7, 3]), (11, [0.5, 0.5], [6, 5]), (7, [0.3, 0.3, 0.4], [3,
     2, 2]),
     (1, [1.0], [1]), (3, [3], [3])],
)  # fmt: skip
def test_random_splits(count: int, lengths: list[Any], wanted: list[int]) -> None:
    parts = random_split(Numbers(*range(count)), lengths)
    assert [len(p) for p in parts] == wanted
    assert sorted(p[i] for p in parts for i in range(len(p))) == list(range(count))


@pytest.mark.parametrize("lengths", [[7, 4], [0.5, 0.4], [2, -1]])
def test_splits_that_do_not_add_up(lengths: list[Any]) -> None:
    with pytest.raises(ArgumentError, match="random_split of 10 items"):
        random_split(Numbers(*range(10)), lengths)


def test_arrays_become_tensors_inside_containers() -> None:
    found = default_convert(
        {"a": np.ones(2), "b": (np.float32(3), "text"), "c": Point(np.zeros(1), 5), "d": [1]}
    )
    assert isinstance(found["a"], tb.Tensor) and found["a"].dtype == tb.float64
    assert type(found["b"]) is list and isinstance(found["b"][0], tb.Tensor) and found["b"][1] == "text"
    assert type(found["c"]) is Point and isinstance(found["c"].x, tb.Tensor) and found["c"].y == 5
    assert found["d"] == [1] and default_convert("x") == "x"


def test_batches_of_every_kind() -> None:
    assert default_collate([tb.zeros(2), tb.ones(2)]).tolist() == [[0, 0], [1, 1]]
    assert default_collate([np.zeros(2), np.ones(2)]).dtype == tb.float64
    assert default_collate([np.float32(1), np.float32(2)]).dtype == tb.float32
    assert default_collate([True, False]).dtype == tb.bool and default_collate([1, 2]).dtype == tb.int64
    assert default_collate([0.5, 1.5]).dtype == tb.float64 and default_collate(["a", "b"]) == ["a", "b"]
    assert default_collate([b"a", b"b"]) == [b"a", b"b"]
    assert default_collate([{"k": 1}, {"k": 2}])["k"].tolist() == [1, 2]
    point = default_collate([Point(1, 2), Point(3, 4)])
    assert type(point) is Point and point.x.tolist() == [1, 3] and point.y.tolist() == [2, 4]
    listed = default_collate([(1, "a"), (2, "b")])
    assert type(listed) is list and listed[0].tolist() == [1, 2] and listed[1] == ["a", "b"]
    with pytest.raises(ArgumentError, match="a batch of object"):
        default_collate([object()])


# -- rooms that are nearly empty -----------------------------------------------------------------------------

ABSENT = ("xpu", "mps", "mtia", "accelerator")
NOTHING = {
    "is_available": False, "device_count": 0, "is_bf16_supported": False, "is_initialized": False,
    "synchronize": None, "empty_cache": None, "manual_seed": None, "manual_seed_all": None,
    "current_accelerator": None, "memory_allocated": 0, "max_memory_allocated": 0, "current_device": 0,
    "current_device_index": 0,
}  # fmt: skip


@pytest.mark.parametrize("name", ABSENT)
def test_devices_that_are_not_here(name: str) -> None:
    room = getattr(modules, name)
    assert {key: getattr(room, key)() for key in NOTHING} == NOTHING
    assert all(value is not True for value in NOTHING.values()) and name in room.__doc__


def test_what_is_here_and_what_never_is() -> None:
    assert modules.cpu.is_available() is True and modules.cpu.device_count() == 1
    assert modules.cpu.current_device() == "cpu" and modules.onnx.is_in_onnx_export() is False
    assert modules.overrides.has_torch_function((1,)) is False
    assert modules.overrides.is_tensor_like(tb.ones(1)) and not modules.overrides.is_tensor_like([1])
    assert modules.overrides.handle_torch_function(lambda a, b=0: a + b, (), 3, b=4) == 7
    plain = lambda: 1  # noqa: E731
    assert modules.overrides.wrap_torch_function(None)(plain) is plain
    assert modules.multiprocessing.get_sharing_strategy() == "file_system"
    assert modules.serialization.get_safe_globals() == []
    with modules.serialization.safe_globals([int]):
        pass
    for room in ("ao", "nested", "sparse", "masked", "package"):
        with pytest.raises(StateError, match="not here"):
            getattr(modules, room).anything()
        with pytest.raises(StateError, match="Anything: PyTorch's"):
            getattr(modules, room).Anything(1)
    for call in (modules.hub.load, modules.hub.load_state_dict_from_url):
        with pytest.raises(ArgumentError, match="weights from 'u'"):
            call("u")
    with pytest.raises(ArgumentError, match="export by PyTorch's tracer"):
        modules.onnx.export()
    assert modules.onnx.symbolic_opset11.anything is not None
    with pytest.raises(AttributeError):
        _ = modules.onnx.nothing
    with pytest.raises(AttributeError):
        _ = modules.ao.__nothing__
    assert inspect.isclass(modules.types.Tensor)


# -- comparisons ---------------------------------------------------------------------------------------------

close = tb.testing.assert_close
TOLERANCES = {  # relative and absolute ones that PyTorch documents
    "float16": (1e-3, 1e-5), "bfloat16": (1.6e-2, 1e-5), "float32": (1.3e-6, 1e-5), "float64": (1e-7, 1e-7),
    "complex64": (1.3e-6, 1e-5), "complex128": (1e-7, 1e-7),
}  # fmt: skip


def test_tolerances_by_dtype() -> None:
    from trilobite.framework.pytorch.testing import _TOLERANCES

    assert _TOLERANCES == TOLERANCES
    for name in ("float32", "float64"):
        relative, absolute = TOLERANCES[name]
        one = np.asarray([2.0], name)
        most = relative * 2.0 + absolute
        close(tb.tensor((one + 0.9 * most).astype(name)), tb.tensor(one))
        with pytest.raises(AssertionError):
            close(tb.tensor((one + 1.2 * most).astype(name)), tb.tensor(one))


def test_what_is_close_and_what_is_not() -> None:
    close({"a": [tb.ones(2), 1.0]}, {"a": [tb.ones(2), 1.0]})
    close((1, 2), (1, 2))
    for a, b, said in (
        ([1, 2], [1], "2 elements instead of 1"),
        (tb.ones(2), tb.ones(3), "shape"),
        (tb.ones(2), tb.ones(2).double(), "float32 instead of float64"),
        (tb.tensor([1]), tb.tensor([2]), "Not equal"),
        (float("nan"), float("nan"), "Not equal|nan"),
    ):
        with pytest.raises(AssertionError, match=said):
            close(a, b)
    close(tb.ones(2), tb.ones(2).double(), check_dtype=False)
    close(float("nan"), float("nan"), equal_nan=True)
    close(tb.tensor([1.0]), tb.tensor([1.5]), rtol=0.5, atol=0.0)
    with pytest.raises(AssertionError, match="mine"):
        close([1, 2], [1], msg="mine")
    tb.testing.assert_allclose(tb.ones(2), tb.ones(2).double())


def test_texts_are_compared_as_they_are() -> None:
    """A text is no sequence of texts: that would never end."""
    with pytest.raises((AssertionError, TypeError, ValueError)):
        close("a", "b")


def test_made_tensors() -> None:
    made = tb.testing.make_tensor(40, 30, dtype=tb.float32)
    assert made.shape == (40, 30) and -9 <= float(made.min()) < -8 and 8 < float(made.max()) <= 9
    between = tb.testing.make_tensor((500,), dtype=tb.int64, low=2, high=5)
    assert between.dtype == tb.int64 and set(between.tolist()) == {2, 3, 4}


# -- settings ------------------------------------------------------------------------------------------------


def test_the_default_dtype_holds_for_numbers_that_were_met_before() -> None:
    whole = tb.tensor([1, 2])
    assert (whole * 0.5).dtype == (whole / 2).dtype == tb.float32 and tb.tensor(0.5).dtype == tb.float32
    assert (whole * 1j).dtype == tb.complex64
    tb.set_default_dtype(tb.float64)
    try:
        assert (
            (whole * 0.5).dtype
            == (whole + 0.25).dtype
            == tb.tensor(0.5).dtype
            == tb.zeros(2).dtype
            == tb.float64
        )
        assert (whole * 1j).dtype == tb.complex128 and tb.get_default_dtype() == tb.float64
    finally:
        tb.set_default_dtype(tb.float32)
    assert (whole * 0.5).dtype == tb.float32 and (whole * 1j).dtype == tb.complex64
    for wrong in (tb.int32, tb.complex64, tb.bool):
        with pytest.raises(DTypeError, match="as the default dtype"):
            tb.set_default_dtype(wrong)
