"""Cells of one line, and the buckets of histograms."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from trilobite.base.errors import ArgumentError
from trilobite.framework.logs import events
from trilobite.framework.logs.csv_log import CSVLogger, read_csv


@pytest.mark.parametrize("text", ["a\nb", "a\rb", "a\r\nb", "\r", "\n"])
def test_cells_have_one_line(text: str, tmp_path: Path) -> None:
    log = CSVLogger(tmp_path / "log.csv")
    with pytest.raises(ArgumentError, match="the text 'note' has a line break"):
        log.log(1, {"note": text})
    log.log(1, {"note": 'a, "b" \t c', "loss": 0.5})
    log.close()
    assert read_csv(tmp_path / "log.csv") == [{"step": 1, "note": 'a, "b" \t c', "loss": 0.5}]


def test_buckets_of_histograms_are_those_of_tensorboard() -> None:
    """From 1e-12 on, each a tenth larger, up to 1e20; on both sides of 0."""
    edge, wanted = 1e-12, []
    while edge < 1e20:
        wanted.append(edge)
        edge *= 1.1
    limits = events._limits()
    assert len(limits) == 2 * len(wanted) + 2
    np.testing.assert_allclose(limits[len(wanted) + 1 : -1], wanted, rtol=1e-10)
    np.testing.assert_allclose(limits[: len(wanted)], -np.asarray(wanted[::-1]), rtol=1e-10)
    assert limits[len(wanted)] == 0 and limits[-1] == np.finfo(np.float64).max


def test_a_first_row_without_values_has_a_header(tmp_path: Path) -> None:
    with CSVLogger(tmp_path / "a.csv") as log:
        log.log(0, {})
        log.log(1, {"loss": 0.5})
    assert (tmp_path / "a.csv").read_text(encoding="utf-8").splitlines() == ["step,loss", "0,", "1,0.5"]
