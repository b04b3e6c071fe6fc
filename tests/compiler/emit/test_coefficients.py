"""The numbers of the vectorised functions are what tools/minimax.py finds, not edited by hand."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools import minimax


def _numbers(text: str) -> list[str | float]:
    """Names, and numbers by value: the last digit of a fit may depend on the machine's decimal library."""
    words = re.findall(r"^[A-Z][A-Z_0-9]*(?= = )|-?\d+\.[\de.+-]+|0x[0-9A-F]+", text, re.M)
    return [float(w) if "." in w else w for w in words]


def test_the_file_is_what_the_tool_writes(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    minimax.main()
    written = _numbers(capsys.readouterr().out)
    file = _numbers((root / "trilobite/compiler/targets/cpu/emit/coefficients.py").read_text())
    assert len(file) > 150
    assert written == file


@pytest.mark.parametrize("number", minimax.numbers(), ids=lambda n: n.name)
def test_parts_add_up(number: minimax.Parts) -> None:
    parts = minimax.split(number)
    error = abs(sum(map(minimax.D, parts)) - number.value)
    assert error < number.value * minimax.D(2) ** (2 - sum(number.bits))
    for part, bits in zip(parts, number.bits, strict=True):
        numerator = abs(part.as_integer_ratio()[0])
        assert (numerator >> (numerator & -numerator).bit_length() - 1).bit_length() <= bits


def test_known_values() -> None:
    assert str(minimax.PI).startswith("3.14159265358979323846264338327950288419716939937510")
    assert abs(float(minimax.erf(minimax.D("0.5"))) - 0.5204998778130465) < 1e-16
    assert abs(float(minimax.erfcx(minimax.D(5))) - 0.11070463773306863) < 1e-16
    assert abs(float(minimax.asin(minimax.D("0.3"))) - 0.3046926540153975) < 1e-16
