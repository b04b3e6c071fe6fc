"""Text as numbers: a vocabulary of characters and windows over a text.

In: a string. Out: integer codes, and items (input, target) where the target is the input moved on by one
character. It splits by code points: no words, no subwords.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import numpy.typing as npt

from trilobite.base.errors import ArgumentError, DataError, FileError
from trilobite.base.wrong_use import explain_room
from trilobite.framework.data.dataset import place
from trilobite.framework.data.samplers import count

Codes = npt.NDArray[np.int64]


class Vocabulary:
    """Characters in order of their code points, numbered from 0."""

    def __init__(self, characters: Iterable[str]) -> None:
        parts = [characters] if isinstance(characters, str) else characters
        self.characters = "".join(sorted(set().union(*map(set, parts))))
        self._points = _points(self.characters)

    def __len__(self) -> int:
        return len(self.characters)

    def encode(self, text: str) -> Codes:
        """The number of each character."""
        points = _points(text)
        codes = np.searchsorted(self._points, points)
        known = codes < len(self)
        known[known] = self._points[codes[known]] == points[known]
        if not known.all():
            at = int(np.argmin(known))
            raise DataError(
                f"character {text[at]!r} is not in the vocabulary",
                where=f"position {at}",
                expected=f"one of the {len(self)} characters it was built from",
                remedy="build the Vocabulary from all texts you will encode",
            )
        return codes.astype(np.int64)

    def decode(self, codes: npt.ArrayLike) -> str:
        """The text of an array of numbers."""
        array = np.asarray(codes)
        if array.size and (array.dtype.kind not in "iu" or array.min() < 0 or array.max() >= len(self)):
            raise DataError(
                "a code is outside the vocabulary", expected=f"integers from 0 to {len(self) - 1}"
            )
        return "".join(self.characters[int(c)] for c in array.ravel())


def _points(text: str) -> npt.NDArray[np.uint32]:
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4").astype(np.uint32)


class TextDataset:
    """Windows of `length` + 1 characters, `stride` apart: (the first `length`, the last `length`).

    Characters after the last whole window are not visited. `stride` is `length` unless given.
    """

    def __init__(
        self, text: str, length: int, stride: int | None = None, vocabulary: Vocabulary | None = None
    ) -> None:
        self.length = count("TextDataset: length", length, 1)
        self.stride = count("TextDataset: stride", length if stride is None else stride, 1)
        self.vocabulary = Vocabulary(text) if vocabulary is None else vocabulary
        self.codes = self.vocabulary.encode(text)
        if self.codes.size <= self.length:
            raise ArgumentError(
                f"TextDataset: a text of {self.codes.size} characters has no window of {length} + 1",
                expected=f"length < {max(self.codes.size, 1)}",
            )

    @classmethod
    def from_file(cls, path: str | os.PathLike[str], length: int, stride: int | None = None) -> TextDataset:
        """A dataset over a UTF-8 file."""
        try:
            text = Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise FileError(
                f"the text cannot be read: {error}", where=path, expected="a UTF-8 text file"
            ) from error
        return cls(text, length, stride)

    def __len__(self) -> int:
        return int((self.codes.size - 1 - self.length) // self.stride + 1)

    def __getitem__(self, index: int, /) -> tuple[Codes, Codes]:
        start = place(index, len(self), "TextDataset") * self.stride
        window = self.codes[start : start + self.length + 1]
        return window[:-1], window[1:]

    def get_batch(self, indices: Codes) -> tuple[Codes, Codes]:
        windows = self.codes[indices[:, None] * self.stride + np.arange(self.length + 1)]
        return windows[:, :-1].copy(), windows[:, 1:].copy()


explain_room(globals())
