"""docs/walk.md is true: both walks are gone, file by file, and compared with the page."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "walk.md").read_text(encoding="utf-8")

WATCH = """
import json, sys
import numpy as np

calls = []

def watch(frame, event, argument):
    code = frame.f_code
    if event == "call" and "/trilobite/" in code.co_filename and code.co_flags & 1 and code.co_name[0] != "<":
        calls.append(code.co_filename.split("/trilobite/")[-1])

def walked(run):
    calls.clear()
    sys.setprofile(watch)
    try:
        run()
    finally:
        sys.setprofile(None)
    return list(calls)
"""
LAYER = (
    WATCH
    + """
import trilobite as tb
x = tb.tensor(np.linspace(-1, 1, 6).reshape(2, 3).astype("float32"))
w = tb.tensor(np.linspace(1, -1, 12).reshape(3, 4).astype("float32"), requires_grad=True)
b = tb.ones(4, requires_grad=True)
fast = tb.jit(lambda x: tb.nn.functional.relu(x @ w + b))
with tb.no_grad():
    first = walked(lambda: fast(x))
    fast(x)
    again = walked(lambda: fast(x))
    w.mul_(2.0)
    changed = walked(lambda: fast(x))
print(json.dumps([first, again, changed]))
"""
)
KERNEL = (
    WATCH
    + """
from trilobite.processor import Device
dev = Device("dlp-m")
n = 5000
def run():
    module = dev.load(sys.argv[1])
    x, y = dev.array(np.arange(n, dtype=np.float32)), dev.array(np.ones(n, np.float32))
    out = dev.empty((n,), "float32")
    done = dev.launch(module["add"], dim=(4, 1, 1), task="union1", args=[x, y, out, n])
    assert (out.numpy() == np.arange(n) + 1).all()
    before = len(calls)
    assert done.cycles > 0
    print(json.dumps(sorted({c for c in calls[before:]})))
print(json.dumps(walked(run)))
"""
)


def section(title: str) -> str:
    start = PAGE.index(title)
    return PAGE[start : PAGE.index("\n#", start + 1)]


def files(text: str) -> list[str]:
    """The file that each row of a table is about."""
    return re.findall(r"^\|(?: \d+ \|)? `([\w/]+\.py)`", text, re.MULTILINE)


def output(program: str, *words: str, **environment: str) -> list[str]:
    import os

    done = subprocess.run(
        [sys.executable, "-c", program, *words],
        cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True, timeout=110,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.fixture(scope="module")
def layer(tmp_path_factory: pytest.TempPathFactory) -> list[list[str]]:
    (line,) = output(LAYER, TRILOBITE_CACHE=str(tmp_path_factory.mktemp("cold")))
    found: list[list[str]] = json.loads(line)
    return found


def in_order(calls: list[str]) -> list[str]:
    return list(dict.fromkeys(calls))


def test_every_file_that_is_named_is_there() -> None:
    named = set(re.findall(r"`([\w/]+(?:\.py|/))`", PAGE))
    assert len(named) > 40
    roots = [ROOT / "trilobite", ROOT / "trilobite" / "framework", ROOT]
    assert not [n for n in sorted(named) if not any((root / n).exists() for root in roots)]


def test_the_first_call_goes_the_long_way(layer: list[list[str]]) -> None:
    calls = iter(layer[0])  # the rows are met in this order, whatever is met between them
    assert [f for f in files(section("## 6. The first call")) if f not in calls] == []


@pytest.mark.counted
def test_every_call_after_that(layer: list[list[str]]) -> None:
    text = section("## 8. Every call after that")
    assert files(text) == in_order(layer[1])
    functions, places = map(int, re.findall(r"^(\d+) Python functions in (\d+) files", text, re.MULTILINE)[0])
    assert (functions, places) == (len(layer[1]), len(set(layer[1])))


def test_a_changed_weight_is_packed_again(layer: list[list[str]]) -> None:
    """The weights' program runs before the other one, and only then."""
    runs = [calls.count("native/driver.py") for calls in layer[1:]]
    assert runs[1] == runs[0] + 1


NO_CLANG = importlib.util.find_spec("ziglang") is None and shutil.which("clang++") is None


@pytest.mark.skipif(NO_CLANG, reason="there is no clang")
def test_a_kernel_goes_from_source_to_cycles(tmp_path: Path) -> None:
    text = PAGE[PAGE.index("# From a BANG C kernel to cycles") :]
    source = tmp_path / "add.mlu"
    (code,) = re.findall(r"```c\n(.*?)```", text, re.DOTALL)
    source.write_text("#include <bang.h>\n" + code)
    late, walked = map(json.loads, output(KERNEL, str(source), TRILOBITE_CACHE=str(tmp_path / "cold")))
    met = set(walked)
    assert [f for f in files(text) if f not in met] == []
    assert "processor/sim/timing/native.py" in late  # cycles are counted when somebody asks
