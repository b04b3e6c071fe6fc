"""Trees of values: sizes of their parts, and whose rule a class of containers follows."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

from trilobite.base import pytree


class Pair(NamedTuple):
    a: Any
    b: Any


class Bag:
    """A container that is entered, for classes below it, too."""

    def __init__(self, *items: Any) -> None:
        self.items = items

    def __repr__(self) -> str:
        return f"Bag{self.items!r}"


class Sack(Bag):
    pass


class Small(Sack):
    pass


class Numbers(list):  # type: ignore[type-arg]
    pass


class Names(dict):  # type: ignore[type-arg]
    pass


pytree.register(Bag, lambda bag: (bag.items, None), lambda static, parts: Bag(*parts))
NESTED: list[Any] = [
    3.0, [1, 2, 3], {"b": [1, (2, 3)], "a": 4}, Pair([1, 2], {"x": (3,)}), [[], (), {}, None], Bag(1, [2, 3]),
    (1, [2, [3, [4, [5]]]], 6),
]  # fmt: skip


def check_sizes(tree: pytree.Tree) -> int:
    """Of every part: as many leaves as its children have together."""
    if tree.kind is None:
        assert tree.size == 1
        return 1
    assert tree.size == sum(map(check_sizes, tree.children)), tree
    return tree.size


@pytest.mark.parametrize("value", NESTED, ids=str)
def test_every_part_knows_its_size(value: Any) -> None:
    leaves, tree = pytree.flatten([7, value, [value]])
    assert check_sizes(tree) == len(leaves)
    for child, part in zip(tree.children, (7, value, [value]), strict=True):
        assert child == pytree.flatten(part)[1]
        assert repr(child).count("*") == child.size == len(pytree.leaves(part))
    assert pytree.leaves(tree.unflatten(leaves)) == leaves


@pytest.mark.parametrize("kind", [Bag, Sack, Small])
def test_a_class_follows_the_rule_of_the_nearest_one_above(kind: type) -> None:
    value = kind(1, (2, 3))
    leaves, tree = pytree.flatten(value)
    assert leaves == [1, 2, 3] and tree.kind is kind


@pytest.mark.parametrize("value", [Numbers([1, 2]), Names(a=1)])
def test_lists_and_dicts_of_ones_own_are_leaves(value: Any) -> None:
    """Nobody knows how to make one again."""
    leaves, tree = pytree.flatten([value, 1])
    assert leaves[0] is value and leaves[1:] == [1] and tree.size == 2


def test_leaves_that_a_caller_names_are_not_entered() -> None:
    value = {"a": (1, 2), "b": [3, (4,)]}
    assert pytree.leaves(value, is_leaf=lambda v: isinstance(v, tuple)) == [(1, 2), 3, (4,)]
    assert pytree.map(lambda a, b: a + b, value, value) == {"a": (2, 4), "b": [6, (8,)]}
    with pytest.raises(Exception, match="b"):
        pytree.map(lambda a, b: a + b, value, {"a": (1, 2)})
    array = np.arange(3)
    assert pytree.leaves({"x": array})[0] is array
