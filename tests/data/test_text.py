"""Text: codes, windows, and files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trilobite.base.errors import ArgumentError, DataError, FileError, IndexingError
from trilobite.framework.data import Loader, TextDataset, Vocabulary


class TestVocabulary:
    def test_order_and_codes(self) -> None:
        v = Vocabulary("hello wörld")
        assert v.characters == " dehlorwö" and len(v) == 9
        assert v.encode("low").tolist() == [4, 5, 7] and v.decode([4, 5, 7]) == "low"

    @given(st.text())
    def test_round_trip(self, text: str) -> None:
        v = Vocabulary(text)
        codes = v.encode(text)
        assert v.decode(codes) == text and codes.dtype == np.int64
        assert set(codes.tolist()) == set(range(len(v)))

    def test_from_several_texts(self) -> None:
        assert Vocabulary(["cab", "", "bad"]).characters == "abcd" and len(Vocabulary([])) == 0

    def test_lone_surrogates(self) -> None:
        assert Vocabulary("a\ud800").decode([0, 1]) == "a\ud800"

    @pytest.mark.parametrize("character", ["a", "c", "z", "\U0001f600"])
    def test_unknown(self, character: str) -> None:
        with pytest.raises(
            DataError, match=rf"character '{character}' is not in the vocabulary\n  where: position 2"
        ):
            Vocabulary("bdy").encode("bd" + character)
        with pytest.raises(DataError, match="not in the vocabulary"):
            Vocabulary("").encode("a")

    @pytest.mark.parametrize("codes", [[3], [-1], [0.5]])
    def test_bad_codes(self, codes: list[float]) -> None:
        with pytest.raises(DataError, match=r"outside the vocabulary\n  expected: integers from 0 to 2"):
            Vocabulary("abc").decode(codes)


class TestWindows:
    @pytest.mark.parametrize(
        ("length", "stride", "windows"),
        [
            (3, None, ["abcd", "defg"]),  # the target of a window is where the next one starts
            (3, 1, ["abcd", "bcde", "cdef", "defg", "efgh"]),
            (3, 2, ["abcd", "cdef", "efgh"]),
            (7, None, ["abcdefgh"]),
            (1, 5, ["ab", "fg"]),
        ],
    )
    def test_windows(self, length: int, stride: int | None, windows: list[str]) -> None:
        data = TextDataset("abcdefgh", length, stride)
        decode = data.vocabulary.decode
        assert [decode(x) + decode(y[-1:]) for x, y in (data[i] for i in range(len(data)))] == windows
        assert all(np.array_equal(x[1:], y[:-1]) for x, y in (data[i] for i in range(len(data))))
        with pytest.raises(IndexingError):
            data[len(windows)]

    def test_whole_batches(self) -> None:
        data = TextDataset("the quick brown fox jumps over the lazy dog", 5, 3)
        fast, slow = (list(Loader(data, 4, shuffle=True, transform=t)) for t in (None, lambda x: x))
        for a, b in zip(fast, slow, strict=True):
            np.testing.assert_array_equal(a, b)

    def test_shared_vocabulary(self) -> None:
        v = Vocabulary("abcxyz")
        assert TextDataset("zyx", 1, vocabulary=v)[0][0].tolist() == [5]
        with pytest.raises(DataError, match="'q' is not"):
            TextDataset("qa", 1, vocabulary=v)

    def test_refused(self) -> None:
        with pytest.raises(
            ArgumentError, match=r"a text of 3 characters has no window of 3 \+ 1\n  expected: length < 3"
        ):
            TextDataset("abc", 3)
        with pytest.raises(ArgumentError, match="stride is 0"):
            TextDataset("abc", 1, 0)

    def test_files(self, tmp_path: Path) -> None:
        (tmp_path / "t").write_text("naïve", encoding="utf-8")
        assert TextDataset.from_file(tmp_path / "t", 4).vocabulary.characters == "aenvï"
        (tmp_path / "t").write_bytes(b"\xff\xfe\xfa")
        with pytest.raises(FileError, match=r"(?s)cannot be read.*expected: a UTF-8 text file"):
            TextDataset.from_file(tmp_path / "t", 1)
        with pytest.raises(FileError, match="No such file"):
            TextDataset.from_file(tmp_path / "none", 1)
