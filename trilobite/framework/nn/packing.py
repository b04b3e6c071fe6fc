"""Sequences of different lengths in one tensor: padded, with their lengths; and PyTorch's packed sequences.

A packed sequence keeps the padded tensor and the lengths, which is what the recurrent layers take; PyTorch's
own form (`data` and `batch_sizes`, sorted by length) is worked out when asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from trilobite.base.errors import ArgumentError
from trilobite.base.locations import user_location
from trilobite.framework.ops.registry import operators
from trilobite.framework.tensor import Tensor, wrap


def _op(name: str) -> Any:
    return operators[name].public


class Packed:
    """Sequences (steps, batch, ...) and how long each is."""

    def __init__(self, padded: Tensor, lengths: np.ndarray[Any, Any]) -> None:
        self.padded, self.lengths = padded, lengths
        self.order = np.argsort(-lengths, kind="stable")

    def through(self, layer: Any, hx: Any) -> tuple[Packed, Any]:
        """What a recurrent layer makes of the sequences, and its last states."""
        before, layer.__dict__["batch_first"] = layer.batch_first, False
        try:
            out, last = layer.forward(self.padded, hx, lengths=self.lengths)
        finally:
            layer.__dict__["batch_first"] = before
        return Packed(out, self.lengths), last

    @property
    def batch_sizes(self) -> Tensor:
        """How many sequences have a step of each number."""
        steps = np.arange(int(self.lengths.max(initial=0)))
        return wrap((self.lengths[None, :] > steps[:, None]).sum(1).astype(np.int64))

    @property
    def sorted_indices(self) -> Tensor:
        return wrap(self.order.astype(np.int64))

    @property
    def unsorted_indices(self) -> Tensor:
        return wrap(np.argsort(self.order, kind="stable").astype(np.int64))

    @property
    def data(self) -> Tensor:
        """All steps that count, step after step, the longest sequence first."""
        ranked = self.lengths[self.order]
        pairs = [(s, self.order[b]) for s in range(int(ranked[0])) for b in range(int((ranked > s).sum()))]
        at = np.array(pairs, np.int64)
        return self.padded[wrap(at[:, 0]), wrap(at[:, 1])]  # type: ignore[no-any-return]

    def to(self, *args: Any, **kwargs: Any) -> Packed:
        return Packed(self.padded.to(*args, **kwargs), self.lengths)


PackedSequence = Packed


def pack_padded_sequence(
    input: Tensor, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True
) -> Packed:
    """Padded sequences and their lengths as one object."""
    found = lengths.numpy() if isinstance(lengths, Tensor) else np.asarray(lengths)
    found = found.astype(np.int64)
    if enforce_sorted and (np.diff(found) > 0).any():
        raise ArgumentError(
            f"pack_padded_sequence of lengths {found.tolist()}",
            where=user_location(),
            expected="the longest first, as enforce_sorted=True asks for",
            remedy="enforce_sorted=False",
        )
    steps = input.movedim(1, 0) if batch_first else input
    if found.size != steps.shape[1] or found.min(initial=1) < 1 or found.max(initial=0) > steps.shape[0]:
        raise ArgumentError(
            f"lengths {found.tolist()} of {steps.shape[1]} sequences of {steps.shape[0]} steps",
            where=user_location(),
            expected=f"{steps.shape[1]} numbers from 1 to {steps.shape[0]}",
        )
    return Packed(steps[: int(found.max())], found)


def pad_packed_sequence(
    sequence: Packed, batch_first: bool = False, padding_value: float = 0.0, total_length: int | None = None
) -> tuple[Tensor, Tensor]:
    """The padded tensor and the lengths again."""
    x, n = sequence.padded, sequence.padded.shape[0]
    live = np.arange(int(n))[:, None] < sequence.lengths[None, :]
    mask = wrap(live.reshape(*live.shape, *[1] * (x.ndim - 2)))
    x = _op("where")(mask, x, padding_value)
    if total_length is not None and total_length > n:
        x = _op("pad")(x, ((0, total_length - n), *[(0, 0)] * (x.ndim - 1)), value=padding_value)
    return (x.movedim(0, 1) if batch_first else x), wrap(sequence.lengths.copy())


def pad_sequence(
    sequences: Sequence[Tensor],
    batch_first: bool = False,
    padding_value: float = 0.0,
    padding_side: str = "right",
) -> Tensor:
    """Sequences of different lengths as one tensor, filled up with a number."""
    given: Sequence[Any] = sequences
    parts = [s if isinstance(s, Tensor) else wrap(np.asarray(s)) for s in given]
    longest = max(len(s) for s in parts)

    def filled(s: Tensor) -> Tensor:
        gap = (0, longest - len(s)) if padding_side == "right" else (longest - len(s), 0)
        return _op("pad")(s, (gap, *[(0, 0)] * (s.ndim - 1)), value=padding_value)  # type: ignore[no-any-return]

    return _op("stack")([filled(s) for s in parts], axis=0 if batch_first else 1)  # type: ignore[no-any-return]


def unpad_sequence(padded_sequences: Tensor, lengths: Any, batch_first: bool = False) -> list[Tensor]:
    """The sequences one by one again."""
    rows = padded_sequences if batch_first else padded_sequences.movedim(1, 0)
    sizes = lengths.tolist() if isinstance(lengths, Tensor) else list(lengths)
    return [rows[i, : int(n)] for i, n in enumerate(sizes)]


def pack_sequence(sequences: Sequence[Tensor], enforce_sorted: bool = True) -> Packed:
    """Sequences of different lengths as one object."""
    lengths = [len(s) for s in sequences]
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed: Packed) -> list[Tensor]:
    """The sequences one by one again."""
    return unpad_sequence(*pad_packed_sequence(packed))
