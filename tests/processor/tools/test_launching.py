"""Launches named by words: what is no program is refused by its name."""

from __future__ import annotations

from pathlib import Path

import pytest

from trilobite.base.errors import ArgumentError
from trilobite.processor.tools.launching import check, profile


@pytest.mark.parametrize("command", [check, profile])
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("absent.s", "there is no file .*absent.s"),
        ("notes.txt", "notes.txt is no program"),
        ("", "is no program"),
    ],
)
def test_what_is_no_program_is_refused(command: object, name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("VADD")
    kinds = r"\.s \(assembly\), \.mlu \(BANG C\), \.py \(Python kernels\) or \.dlp"
    with pytest.raises(ArgumentError, match=rf"(?s){text}.*{kinds}"):
        command(str(tmp_path / name))  # type: ignore[operator]
