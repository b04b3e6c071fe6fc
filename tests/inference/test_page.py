"""The generated page of operators is the one that the table gives."""

from __future__ import annotations

import pytest

from tools.onnx_table import PAGE, page

onnx = pytest.importorskip("onnx")


def test_the_page_is_current() -> None:
    text = PAGE.read_text()
    if f"onnx {onnx.__version__}" not in " ".join(text.split()):
        pytest.skip("the page stands beside another version of onnx")
    assert text == page(), "run: python -m tools.onnx_table"


def test_all_operators_of_onnx_have_a_row() -> None:
    assert "not supported" not in page()
