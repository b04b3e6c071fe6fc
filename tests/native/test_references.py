"""Reference counts of many objects at once."""

from __future__ import annotations

import random
import sys

import numpy as np
import pytest

from trilobite.native.references import counter


@pytest.mark.counted
def test_the_largest_count_is_that_of_the_interpreter() -> None:
    count, rng = counter(), random.Random(4)
    for size in (1, 2, 7, 300):
        objects = [object() for _ in range(size)]
        holders = [rng.choice(objects) for _ in range(rng.randrange(3 * size))]
        expected = max(sys.getrefcount(o) - 2 for o in objects)  # without `o` and the argument
        assert count(objects, objects) == expected
        del holders
        assert count(objects, objects) == 1
        assert count(objects, list(objects)) == 2


@pytest.mark.counted
def test_views_of_an_array_count() -> None:
    arrays = [np.zeros(3) for _ in range(4)]
    view = arrays[2][1:]
    assert counter()(arrays, arrays) == 2
    del view
    assert counter()(arrays, arrays) == 1


@pytest.mark.counted
def test_lists_that_differ_in_any_place_or_length() -> None:
    count = counter()
    objects = [object() for _ in range(50)]
    for at in (0, 17, 49):
        other = list(objects)
        other[at] = object()
        assert count(objects, other) == count(other, objects) == -1
    assert count(objects, objects[:-1]) == count([], objects) == -1
    assert count(objects, objects[::-1]) == -1


@pytest.mark.counted
def test_equal_objects_are_not_the_same() -> None:
    assert counter()([np.float64(2.5)], [np.float64(2.5)]) == -1
    assert counter()([], []) == 0


@pytest.mark.counted
def test_nothing_is_leaked() -> None:
    count, objects = counter(), [object() for _ in range(10)]
    before = [sys.getrefcount(o) for o in objects]
    for _ in range(1000):
        count(objects, objects)
        count(objects, before)
    assert [sys.getrefcount(o) for o in objects] == before
