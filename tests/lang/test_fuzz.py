"""Random kernels: every way of running one gives the same numbers as Python itself does."""

from __future__ import annotations

import importlib.util
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from harness import run

INTS = ("a", "b", "c", "d")
FLOATS = ("x", "y")


class Writer:
    """Writes a kernel of random statements over a few integers and floats."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.depth = 0
        self.names = 0

    def integer(self, depth: int = 0) -> str:
        r = self.random
        if depth > 3 or r.random() < 0.3:
            return r.choice(
                [*INTS, str(r.randint(-9, 9)), str(r.choice([0, 1, 2, 8, 64, 1000003, -(1 << 33)]))]
            )
        left, right = self.integer(depth + 1), self.integer(depth + 1)
        kind = r.randint(0, 11)
        if kind < 2:
            return f"({left} {r.choice('+-')} {right})"
        if kind < 4:  # products of small numbers: Python's integers do not wrap, the machine's do
            return f"({left} % 1009 * ({right} % 4099))"
        return self._other(kind, left, right, depth)

    def _other(self, kind: int, left: str, right: str, depth: int) -> str:
        r = self.random
        forms = {
            4: f"({left} {r.choice(['//', '%'])} {r.choice([1, 2, 3, 7, 16, -5])})",
            5: f"({left} {r.choice('&|^')} {right})",
            6: f"({left} {r.choice(['<<', '>>'])} {r.randint(0, 7)})",
            7: f"{r.choice(['min', 'max'])}({left}, {right})",
            8: f"({left} if {self.truth(depth + 1)} else {right})",
            9: f"(-{left})",
            10: f"data[({left}) % 8]",
            11: f"abs({left} % 1000)",
        }
        return forms[kind]

    def floating(self, depth: int = 0) -> str:
        r = self.random
        if depth > 2 or r.random() < 0.35:
            return r.choice([*FLOATS, f"dlp.f32({r.choice(INTS)} % 100)", f"reals[({self.integer(3)}) % 8]"])
        left, right = self.floating(depth + 1), self.floating(depth + 1)
        if r.random() < 0.2:
            return f"({left} {r.choice('+-*')} {r.choice(['0.5', '2.0', '-1.25'])})"
        return f"({left} {r.choice('+-*/')} {right})"

    def truth(self, depth: int = 0) -> str:
        r = self.random
        if depth < 3 and r.random() < 0.3:
            return f"({self.truth(depth + 1)} {r.choice(['and', 'or'])} {self.truth(depth + 1)})"
        if r.random() < 0.15:
            return f"(not {self.truth(depth + 1)})"
        sign = r.choice(["<", "<=", ">", ">=", "==", "!="])
        return f"({self.integer(depth + 1)} {sign} {self.integer(depth + 1)})"

    def put(self, text: str) -> None:
        self.lines.append("    " * (self.depth + 1) + text)

    def block(self, count: int) -> None:
        self.depth += 1
        for _ in range(count):
            self.statement()
        self.depth -= 1

    def statement(self) -> None:
        r = self.random
        kind = r.random()
        deep = self.depth > 2
        if kind < 0.35 or deep:
            self.put(f"{r.choice(INTS)} = {self.integer()} % 100003")
        elif kind < 0.5:
            self.put(f"{r.choice(FLOATS)} = {self.floating()}")
        elif kind < 0.58:
            self.put(f"data[({self.integer(2)}) % 8] = {r.choice(INTS)}")
        elif kind < 0.75:
            self.put(f"if {self.truth()}:")
            self.block(2)
            if r.random() < 0.5:
                self.put("else:")
                self.block(2)
        elif kind < 0.92:
            self.loop()
        else:
            self.put(f"a, b = b, {r.choice(INTS)}")

    def loop(self) -> None:
        r = self.random
        self.names += 1
        name = f"i{self.names}"
        if r.random() < 0.5:
            bounds = r.choice(["3", "2, 9, 3", "5, -1, -2", "a % 4", "b % 3, c % 7 + 1"])
            self.put(f"for {name} in range({bounds}):")
            self.block(2)
            self.depth += 1
            if r.random() < 0.4:
                self.put(f"if {self.truth()}:")
                self.put("    " + r.choice(["break", "continue"]))
            self.put(f"d = d + {name}")
            self.depth -= 1
        else:
            self.put(f"{name} = 0")
            self.put(f"while {name} < {r.randint(1, 4)}:")
            self.block(2)
            self.depth += 1
            self.put(f"{name} += 1")
            self.depth -= 1

    def source(self) -> str:
        for _ in range(7):
            self.statement()
        head = [
            "from trilobite import dlp",
            "@dlp.kernel",
            "def kernel(data: dlp.gm[dlp.i64], reals: dlp.gm[dlp.f32], a: int, b: int, c: int, x: float):",
            "    d = 1",
            "    y = dlp.f32(0.25)",
        ]
        tail = [f"    data[{8 + n}] = {name}" for n, name in enumerate(INTS)]
        return "\n".join([*head, *self.lines, *tail, "    reals[8] = x", "    reals[9] = y", ""])


def load(path: Path, text: str) -> Any:
    path.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.kernel


@pytest.mark.parametrize("seed", range(24))
def test_random_kernels_agree(seed: int, tmp_path: Path) -> None:
    kernel = load(tmp_path / f"random_{seed}.py", Writer(seed).source())
    rng = np.random.default_rng(seed)
    data = rng.integers(-1000, 1000, 12)
    reals = rng.normal(size=10).astype(np.float32)
    args = [data, reals, int(rng.integers(-50, 50)), int(rng.integers(-50, 50)), int(rng.integers(0, 9)), 1.5]
    run(kernel, args, "dlp-s", dim=(1, 1, 1), ways=("host", "ir", "O0", "O2"))
