"""The toy target of examples/: short, right, and what the page about targets shows."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import trilobite as tb
from trilobite.base.errors import ArgumentError, DeviceError

ROOT = Path(__file__).parents[2]
FILE = ROOT / "examples" / "targets" / "toy.py"


@pytest.fixture(scope="module", autouse=True)
def toy() -> Any:
    spec = importlib.util.spec_from_file_location("toy", FILE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["toy"] = module
    spec.loader.exec_module(module)
    return module


def test_it_is_short_and_so_is_the_contract() -> None:
    assert len(FILE.read_text().splitlines()) < 150
    contract = ROOT / "trilobite" / "compiler" / "targets" / "contract.py"
    assert len(contract.read_text().splitlines()) < 160


def test_it_runs_the_mlp_as_the_interpreter_does() -> None:
    model = tb.zoo.create("mlp").eval()
    x = tb.tensor(np.random.default_rng(1).standard_normal((5, 784)).astype(np.float32))
    with tb.no_grad():
        found = tb.jit(lambda x: model(x), target="toy")(x).numpy()
        wanted = tb.jit(lambda x: model(x), target="reference")(x).numpy()
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_what_it_cannot_run_is_refused_at_once() -> None:
    with pytest.raises(DeviceError, match="cannot run cos, sort"):
        tb.jit(lambda x: tb.cos(tb.sort(x)), target="toy")(tb.ones(3))
    with pytest.raises(DeviceError, match="needs 3 registers"):
        tb.jit(lambda x: x + x + x, target="toy:2")(tb.ones(3))
    with pytest.raises(ArgumentError, match="the target toy with 'many'"):
        tb.jit(lambda x: x, target="toy:many")(tb.ones(3))


def test_it_runs_as_a_program() -> None:
    done = subprocess.run([sys.executable, str(FILE)], capture_output=True, text=True, cwd=ROOT, timeout=60)
    assert done.returncode == 0 and done.stdout.splitlines()[-1].endswith(" cycles"), done.stderr


def test_the_page_shows_this_file() -> None:
    page = (ROOT / "docs" / "targets.md").read_text()
    lines = [line.strip() for line in FILE.read_text().splitlines()]
    excerpts = re.findall(r"```python no-run\n(.*?)```", page, re.DOTALL)
    assert len(excerpts) >= 4
    for excerpt in excerpts:
        shown = [line.strip() for line in excerpt.splitlines()]
        places = range(len(lines) - len(shown) + 1)
        assert any(lines[at : at + len(shown)] == shown for at in places), excerpt
