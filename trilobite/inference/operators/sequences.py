"""Sequences and optionals: Python lists, and None. They run on the host."""

from __future__ import annotations

from typing import Any

import numpy as np

from trilobite.base.errors import IndexingError
from trilobite.inference.model import Node
from trilobite.inference.operators.joining import equal_sizes
from trilobite.inference.operators.registry import operator

Array = np.ndarray[Any, Any]


@operator("SequenceConstruct", since=11, host=True)
def sequence_construct(node: Node, *items: Array) -> Any:
    return (list(items),)


@operator("SequenceEmpty", since=11, host=True)
def sequence_empty(node: Node) -> Any:
    return ([],)


@operator("SequenceLength", since=11, host=True, gives="numbers")
def sequence_length(node: Node, items: list[Any]) -> Array:
    return np.asarray(len(items), np.int64)


def _place(items: list[Any], place: Any, behind: int) -> int:
    at = int(np.reshape(place, ()))
    if not -len(items) <= at < len(items) + behind:
        raise IndexingError(f"place {at} of a sequence of {len(items)}", expected="a place inside")
    return at + len(items) if at < 0 else at


@operator("SequenceAt", since=11, host=True)
def sequence_at(node: Node, items: list[Any], place: Array) -> Any:
    return items[_place(items, place, 0)]


@operator("SequenceInsert", since=11, host=True)
def sequence_insert(node: Node, items: list[Any], item: Any, place: Array | None = None) -> Any:
    at = len(items) if place is None else _place(items, place, 1)
    return ([*items[:at], item, *items[at:]],)


@operator("SequenceErase", since=11, host=True)
def sequence_erase(node: Node, items: list[Any], place: Array | None = None) -> Any:
    at = len(items) - 1 if place is None else _place(items, place, 0)
    return ([*items[:at], *items[at + 1 :]],)


@operator("ConcatFromSequence", since=11, host=True)
def concat_from_sequence(node: Node, items: list[Any]) -> Array:
    join = np.stack if node.attribute("new_axis", 0) else np.concatenate
    return join(items, axis=node.attributes["axis"])


@operator("SplitToSequence", since=11, host=True)
def split_to_sequence(node: Node, x: Array, split: Array | None = None) -> Any:
    axis, keep = node.attribute("axis", 0) % x.ndim, node.attribute("keepdims", 1)
    if split is None:
        sizes = [1] * x.shape[axis]
    elif split.ndim == 0:
        each = int(split)
        sizes = equal_sizes(x.shape[axis], -(-x.shape[axis] // each))
    else:
        sizes = [int(n) for n in split]
    parts = np.split(x, np.cumsum(sizes)[:-1], axis=axis)
    if split is None and not keep:
        parts = [p.squeeze(axis) for p in parts]
    return (list(parts),)


@operator("Optional", since=15, host=True)
def optional(node: Node, value: Any = None) -> Any:
    return (value,)


@operator("OptionalGetElement", since=15, host=True)
def optional_get_element(node: Node, value: Any) -> Any:
    return (value,)


@operator("OptionalHasElement", since=15, host=True, gives="numbers")
def optional_has_element(node: Node, value: Any = None) -> Array:
    return np.asarray(value is not None)
