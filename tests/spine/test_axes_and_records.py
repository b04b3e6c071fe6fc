"""Axes that walk together visit the same places; records are what the standard library's are."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import numpy as np
import pytest

import trilobite as tb
from trilobite.base import records
from trilobite.base.axes import merged
from trilobite.base.errors import ShapeError
from trilobite.ir.primitives.shape import slice_
from trilobite.ir.types import TensorType


def visited(shape: list[int] | tuple[int, ...], strides: list[int]) -> list[int]:
    return [
        sum(i * s for i, s in zip(at, strides, strict=True)) for at in itertools.product(*map(range, shape))
    ]


def test_merged_axes_visit_the_same_places_and_are_as_few_as_can_be() -> None:
    rng = np.random.default_rng(0)
    fewer = 0
    for _ in range(400):
        rank, arrays = int(rng.integers(0, 5)), int(rng.integers(1, 4))
        shape = [int(n) for n in rng.integers(1, 4, rank)]
        rows = []
        for _ in range(arrays):  # views of a dense array: some axes broadcast, some cut
            dense, step = [0] * rank, 1
            for axis in reversed(range(rank)):
                dense[axis] = 0 if rng.random() < 0.15 else step
                step *= shape[axis] * (2 if rng.random() < 0.15 else 1)
            rows.append(dense)
        sizes, steps = merged(shape, rows)
        for before, after in zip(rows, steps, strict=True):
            assert visited(shape, before) == visited(sizes, after)
        assert 1 not in sizes
        for k in range(1, len(sizes)):  # no two neighbours are one axis in all arrays
            assert any(s[k - 1] != sizes[k] * s[k] for s in steps)
        fewer += len(sizes) < sum(n > 1 for n in shape)
    assert fewer > 50


def classes(make: Any) -> list[Any]:
    class Plain:
        a: int
        b: int = 3

    class Rich:
        a: int = dataclasses.field(compare=False)
        b: str = dataclasses.field(default="x", repr=False)
        c: list[int] = dataclasses.field(default_factory=lambda: [1, 2], hash=False)
        d: int = dataclasses.field(init=False, default=7)
        e: int = dataclasses.field(init=False, default_factory=lambda: 9)

    class OwnHash:
        a: int

        def __hash__(self) -> int:
            return 99

    class OwnEquality:
        a: int

        def __eq__(self, other: object) -> bool:
            return True

    class Neither:
        a: int
        __hash__ = None  # type: ignore[assignment]

    class After:
        a: int
        b: int = dataclasses.field(init=False)

        def __post_init__(self) -> None:
            object.__setattr__(self, "b", self.a * 2)

        def __repr__(self) -> str:
            return f"After of {self.a}"

    class One:
        a: int

    class Empty:
        pass

    return [make(c) for c in (Plain, Rich, OwnHash, OwnEquality, Neither, After, One, Empty)]


ARGUMENTS: list[tuple[tuple[Any, ...], ...]] = [
    ((1,), (1, 3), (2, 3), (1, 4)), ((1,), (2,), (1, "y"), (1, "x", (5,))), ((1,), (2,)), ((1,), (2,)),
    ((1,), (1,)), ((1,), (2,)), ((1,), (2,)), ((), ()),
]  # fmt: skip


def told(action: Any) -> Any:
    try:
        return action()
    except (TypeError, AttributeError) as error:
        return type(error).__name__


def is_own_hash(o: Any) -> bool:
    """Each object has its own."""
    return hash(o) == object.__hash__(o)


def described(cls: Any, rows: tuple[tuple[Any, ...], ...]) -> list[Any]:
    """What a user can see of a class and some of its objects."""
    made = [cls(*row) for row in rows]
    pairs = list(itertools.product(made, made))
    found: list[Any] = [repr(o).replace(cls.__qualname__, cls.__name__) for o in made]
    found += [[a == b for a, b in pairs], [a != b for a, b in pairs], made[0] == 5]
    found += [
        cls.__hash__ is None,
        [told(lambda o=o: is_own_hash(o) or hash(o)) for o in made] if cls.__hash__ else None,
    ]
    found += [[(f.name, f.init, f.repr, f.compare) for f in dataclasses.fields(cls)]]
    found += [dataclasses.asdict(made[-1]), cls.__dataclass_params__.frozen, cls.__dataclass_params__.eq]
    found += [told(lambda: setattr(made[0], "a", 8)), told(lambda: setattr(made[0], "other", 8))]
    found += [told(lambda: delattr(made[0], "b")), getattr(made[0], "a", None), getattr(made[0], "b", None)]
    found += [told(lambda: cls(1, 2, 3, 4, 5, 6)), cls.__match_args__]
    return found


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("eq", [False, True])
@pytest.mark.parametrize("slots", [False, True])
def test_records_are_those_of_the_standard_library(frozen: bool, eq: bool, slots: bool) -> None:
    def own(cls: Any) -> Any:
        return records.dataclass(cls, frozen=frozen, eq=eq, slots=slots)

    def standard(cls: Any) -> Any:
        return dataclasses.dataclass(cls, frozen=frozen, eq=eq, slots=slots)

    for mine, theirs, rows in zip(classes(own), classes(standard), ARGUMENTS, strict=True):
        assert described(mine, rows) == described(theirs, rows), mine.__name__
    assert records.dataclass(frozen=True)(type("A", (), {})).__dataclass_params__.frozen


def test_records_based_on_records() -> None:
    for make in (records.dataclass, dataclasses.dataclass):
        base = make(type("Base", (), {"__annotations__": {"a": int}, "a": 1}))
        below = make(type("Below", (base,), {"__annotations__": {"b": int}, "b": 2}))
        assert below(5) == below(5, 2) != below(5, 3) and repr(below()) == "Below(a=1, b=2)"
        assert list(below.__match_args__) == ["a", "b"]


@pytest.mark.parametrize(("start", "stop", "step", "shape"), [
    ((0, 0), (3, 2), (1, 1), (3, 2)), ((1, 0), (3, 3), (2, 2), (1, 2)), ((0, 3), (0, 3), (1, 5), (0, 0)),
])  # fmt: skip
def test_slices_and_their_refusals(
    start: tuple[int, ...], stop: tuple[int, ...], step: tuple[int, ...], shape: tuple[int, ...]
) -> None:
    x = np.arange(9.0).reshape(3, 3)
    kind = TensorType((3, 3), np.dtype(np.float32))
    assert slice_.type(kind, start=start, stop=stop, step=step).shape == shape
    assert tb.asarray(x)[tuple(map(slice, start, stop, step))].shape == shape
    assert slice_(x, start=start, stop=stop, step=step).shape == shape
    want = x[tuple(map(slice, start, stop, step))]
    assert np.array_equal(np.asarray(slice_(x, start=start, stop=stop, step=step)), want)
    for wrong in (
        {"step": (0, 1)}, {"step": (1, -1)}, {"start": (0,)}, {"stop": (3, 3, 3)}, {"step": (1,)},
        {"stop": (4, 3)}, {"stop": (3, 4)}, {"start": (-1, 0)}, {"start": (3, 0), "stop": (2, 2)},
    ):  # fmt: skip
        with pytest.raises(ShapeError, match=r"slice of f32\[3,3\]"):
            slice_.type(kind, **{"start": start, "stop": stop, "step": step, **wrong})
