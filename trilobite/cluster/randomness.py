"""Dropout that drops what one process would: ranks draw the same keys and take their parts of the masks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from trilobite.cluster.groups import Group, as_group, part_of
from trilobite.framework.nn.functional.dropout import Part, parts


@contextmanager
def one_randomness(group: Group | None = None, *, total: int, axis: int = 0) -> Iterator[None]:
    """Tensors in here are this rank's part of larger ones, of `total` along an axis (0: the batch; others may
    be added around or within). The ranks' generators must stand alike: the same `tb.manual_seed`, the same
    draws.
    """
    begin, _ = part_of(total, as_group(group))
    with rows(begin, total, axis):
        yield


@contextmanager
def rows(begin: int, total: int, axis: int = 0) -> Iterator[None]:
    """The same, for a part that begins anywhere."""
    token = parts.set((*parts.get(), Part(axis, begin, total)))
    try:
        yield
    finally:
        parts.reset(token)
