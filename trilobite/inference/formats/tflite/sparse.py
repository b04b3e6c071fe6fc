"""TFLite's sparse weights, made dense.

A sparse tensor is a tree over its axes in some order, blocks of the last axes innermost: at each level all
entries are there (dense), or those that a list names (compressed rows). The leaves are the stored numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trilobite.framework.checkpoint.refusal import corrupt
from trilobite.inference.formats.flatbuffers import Table
from trilobite.inference.formats.mapped import Array

_VECTORS = {1: (np.int32, 4), 2: (np.uint16, 2), 3: (np.uint8, 1)}


def _integers(level: Table, slot: int, place: str) -> Array:
    """A vector in one of three widths, in a table of its own."""
    kind = int(level.number(slot, "B"))
    inner = level.table(slot + 1)
    if kind not in _VECTORS or inner is None:
        raise corrupt("a list of a sparse tensor is missing", place, "segments and indices")
    return inner.array(0, _VECTORS[kind][0]).astype(np.int64)


def densified(s: Table, raw: Array, shape: tuple[int, ...], dtype: Any, place: str) -> Array:
    order, blocks, levels = s.ints(0), s.ints(1), s.tables(2)
    rank = len(shape)
    if (
        sorted(order) != list(range(len(order)))
        or len(order) != rank + len(blocks)
        or len(levels) != len(order)
    ):
        raise corrupt("the order of a sparse tensor's axes is wrong", place, "each axis once")
    if any(not 0 <= b < rank for b in blocks) or any(d < 0 for d in shape):
        raise corrupt("the blocks of a sparse tensor are wrong", place, "axes of the tensor")
    sizes = [int(level.number(1, "i")) for level in levels]
    total = int(np.prod(shape, dtype=object))
    if total > 1 << 31 or len(raw) % dtype.itemsize:
        raise corrupt(f"a sparse tensor of {total} numbers", place, "at most 2**31")
    places = np.zeros((1, len(order)), np.int64)
    parents = np.zeros(1, np.int64)
    for at, (level, size) in enumerate(zip(levels, sizes, strict=True)):
        places, parents = _deeper(level, size, at, places, parents, total, place)
    values = raw.view(dtype) if not raw.ctypes.data % dtype.alignment else raw.copy().view(dtype)
    if len(values) != len(places):
        raise corrupt(f"{len(values)} numbers for {len(places)} places", place, "as many")
    return _placed(values, places, order, blocks, sizes, shape, place)


def _deeper(
    level: Table, size: int, at: int, places: Array, parents: Array, total: int, place: str
) -> tuple[Array, Array]:
    """All entries one level down: where they stand, and their number within the level."""
    n = len(places)
    if int(level.number(0, "b")) == 0:
        if size <= 0 or n * size > max(total, 1):
            raise corrupt(f"a level of {size} entries", place, f"at most {total} in all")
        index, parent = np.tile(np.arange(size), n), np.repeat(np.arange(n), size)
        numbers = np.repeat(parents, size) * size + index
    else:
        segments, indices = _integers(level, 2, place), _integers(level, 4, place)
        if (
            parents.max(initial=0) + 1 >= len(segments)
            or (np.diff(segments) < 0).any()
            or segments[-1] > len(indices)
        ):
            raise corrupt("the segments of a sparse tensor do not rise", place, "rising within its indices")
        starts, ends = segments[parents], segments[parents + 1]
        counts = ends - starts
        if counts.sum() > max(total, 1) or segments[0] < 0:
            raise corrupt("a sparse tensor has more places than numbers", place, f"at most {total}")
        parent = np.repeat(np.arange(n), counts)
        first = np.repeat(starts - np.concatenate([[0], np.cumsum(counts)[:-1]]), counts)
        numbers = np.arange(int(counts.sum())) + first
        index = indices[numbers]
    found = places[parent]
    found[:, at] = index
    return found, numbers


def _placed(
    values: Array, places: Array, order: list[int], blocks: list[int], sizes: list[int],
    shape: tuple[int, ...], place: str,
) -> Array:  # fmt: skip
    rank = len(shape)
    by_axis = np.zeros_like(places)
    extent = [0] * len(order)
    for level, axis in enumerate(order):
        by_axis[:, axis], extent[axis] = places[:, level], sizes[level]
    where = by_axis[:, :rank].copy()
    for i, axis in enumerate(blocks):
        where[:, axis] = where[:, axis] * extent[rank + i] + by_axis[:, rank + i]
    if len(where) and ((where < 0).any() or (where >= np.array(shape)).any()):
        raise corrupt("a sparse tensor has a place outside of its shape", place, "places inside")
    out = np.zeros(shape, values.dtype)
    out[tuple(where.T)] = values
    return out
