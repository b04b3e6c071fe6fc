"""Random kernels of copies, vector, matrix and scalar work: no race, no lost byte, the same bits everywhere.

Everything in them is blocking, so code generation alone is responsible for the waits and for which buffers
share their bytes.
"""

from __future__ import annotations

import importlib.util
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from harness import run


class Writer:
    """A kernel over a few NRAM buffers of 64 elements and a matrix in WRAM; some begin inside loops."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.live = ["a", "b"]
        self.made = 0

    def put(self, depth: int, text: str) -> None:
        self.lines.append("    " * (depth + 1) + text)

    def any(self) -> str:
        return self.random.choice(self.live)

    def statement(self, depth: int) -> None:
        r = self.random
        kind = r.random()
        if kind < 0.22:
            name = r.choice(["add", "sub", "mul", "maximum"])
            self.put(depth, f"dlp.{name}({self.any()}, {self.any()}, {self.any()})")
        elif kind < 0.34:
            self.put(depth, f"dlp.{r.choice(['relu', 'tanh', 'abs', 'neg'])}({self.any()}, {self.any()})")
        elif kind < 0.46:
            self.put(depth, f"dlp.copy({self.any()}, x[(k % 4) * 64 : (k % 4) * 64 + 64])")
        elif kind < 0.54:
            self.put(
                depth, f"dlp.copy(out[{64 * r.randint(0, 3)} : {64 * r.randint(4, 4)}][:64], {self.any()})"
            )
        elif kind < 0.62:
            self.put(depth, f"dlp.copy(w.view(64), {self.any()})")
        elif kind < 0.72:
            self.put(depth, f"dlp.matmul({self.any()}.view(8, 8), c.view(8, 8), w)")
        elif kind < 0.78:
            self.put(depth, f"dlp.copy(c, {self.any()})")
        elif kind < 0.84:
            self.put(depth, f"{self.any()}[k % 64] = {self.any()}[{r.randint(0, 63)}] * 0.5")
        elif kind < 0.9:
            self.put(depth, f"out[{256 + r.randint(0, 7)}] = {self.any()}[k % 8]")
        else:
            self.nested(depth)

    def nested(self, depth: int) -> None:
        r = self.random
        if depth > 1:
            self.put(depth, "k = k + 1")
            return
        if r.random() < 0.4:
            self.put(depth, f"if k % {r.randint(2, 3)} == {r.randint(0, 1)}:")
        else:
            self.put(depth, f"for _ in range({r.choice(['n', '2', 'n - 1'])}):")
            self.put(depth + 1, "k = k + 1")
        before = list(self.live)
        if r.random() < 0.6:
            self.made += 1
            name = f"t{self.made}"
            self.put(depth + 1, f"{name} = dlp.nram(64, dlp.f32)")
            self.put(depth + 1, f"dlp.copy({name}, {r.choice(['x[:64]', self.any()])})")
            self.live = [*before, name]
        for _ in range(r.randint(2, 4)):
            self.statement(depth + 1)
        self.live = before

    def source(self) -> str:
        for _ in range(10):
            self.statement(0)
        head = [
            "from trilobite import dlp",
            "@dlp.kernel",
            "def kernel(x: dlp.gm[dlp.f32], out: dlp.gm[dlp.f32], n: int):",
            "    a, b, c = dlp.nram(64, dlp.f32), dlp.nram(64, dlp.f32), dlp.nram(64, dlp.f32)",
            "    w = dlp.wram((8, 8), dlp.f32)",
            "    k = n",
            "    dlp.copy(a, x[:64])",
            "    dlp.copy(b, x[64:128])",
            "    dlp.copy(c, x[128:192])",
            "    dlp.copy(w.view(64), x[192:256])",
        ]
        tail = [
            "    last = dlp.nram(64, dlp.f32)",
            "    dlp.add(last, a, b)",
            "    dlp.copy(out[264:328], last)",
        ]
        return "\n".join([*head, *self.lines, *tail, ""])


def load(path: Path, text: str) -> Any:
    path.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.kernel


@pytest.mark.parametrize("seed", range(16))
def test_random_order(seed: int, tmp_path: Path) -> None:
    kernel = load(tmp_path / f"order_{seed}.py", Writer(seed).source())
    x = np.random.default_rng(seed).normal(size=256).astype(np.float32) * 0.5
    run(kernel, [x, np.zeros(328, np.float32), 2 + seed % 2], "dlp-m", dim=(1, 1, 1))
