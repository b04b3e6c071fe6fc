"""One browser for all tests of pages, and the pages they open."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import trilobite as tb
from tests.report.launches import launched
from tools.browser import CHROMIUM, Browser
from trilobite.framework import nn
from trilobite.processor import Run
from trilobite.report import Subject, write_page
from trilobite.report.network import subjects_of

HOSTILE = "<img src=x onerror=hacked=1><script>hacked=2</script>"
KEPT = Path("out/browser")  # pictures of what the tests saw


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed")
    with Browser() as found:
        yield found


@pytest.fixture(scope="module")
def run() -> Run:
    return launched()


class Small(nn.Module):
    """A network with nested modules, one of them with a name that would run if it became markup."""

    def __init__(self) -> None:
        self.first = nn.Conv2d(1, 8, 3, padding=1)
        self.block = nn.Sequential(nn.Conv2d(8, 16, 3, stride=2), nn.ReLU(), nn.Conv2d(16, 16, 3))
        setattr(self, HOSTILE, nn.Linear(16 * 5 * 5, 10))

    def forward(self, x: tb.Tensor) -> tb.Tensor:
        x = self.block(tb.maximum(self.first(x), 0.0))
        out: tb.Tensor = getattr(self, HOSTILE)(x.reshape(x.shape[0], -1))
        return out


@pytest.fixture(scope="session")
def subjects() -> list[Subject]:
    """The same network on the CPU and on a processor."""
    tb.manual_seed(0)
    found: list[Subject] = []
    x = tb.tensor(np.random.default_rng(0).standard_normal((1, 1, 15, 15)).astype(np.float32))
    for target in ("cpu", "dlp:dlp-s"):
        jitted = tb.jit(Small().eval(), target=target)
        with tb.no_grad():
            jitted(x)
            found += subjects_of("small", jitted.profile(x, repeats=2))
    return found


@pytest.fixture(scope="session")
def page(subjects: list[Subject], tmp_path_factory: pytest.TempPathFactory) -> Path:
    hostile = replace(subjects[0], name=HOSTILE, sentence=HOSTILE, figures=[(HOSTILE, HOSTILE)])
    path = tmp_path_factory.mktemp("page") / "page.html"
    return write_page(path, f"Three runs {HOSTILE}", [*subjects, hostile])
