"""Kernels that make no sense: always an error of the house with the user's file and line, never a crash."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from trilobite.base.errors import TrilobiteError

LINES = """
y = lambda: 3
y = {i for i in range(3)}
y = [i for i in range(n)]
y = {1: 2}[n]
y = f"{n}"
global n
del n
y = (z := missing)
def inner(): pass
class A: pass
x[0][1] = 2
x[0:4] = 1.0
x[0, 0] = 1.0
x["a"] = 1.0
n[0] = 1
for i, j in range(3): pass
for i, j in dlp.pipeline(3): pass
for i in range(): pass
for i in range(1, 2, 3, 4): pass
for i in range(0, 5, 0): pass
for i in n: pass
for i in range(1.5): pass
for i in dlp.pipeline(): pass
y = dlp.nram(-1, dlp.f32)
y = dlp.nram(8, "float")
y = dlp.nram(8)
dlp.add()
dlp.add(1, 2, 3)
dlp.nothing(x)
y = x + "a"
y = n + None
y = -None
y = n ** n
y = 2 ** n
y = n ** -1
y = n < "a"
y = n.foo
y = n()
y = x(3)
y = 1 / 0
y = n // 0
y = n % 0
y = n << 1.5
y = not x
y = x and n
y = n if x else 3
while x: pass
if x: pass
assert False, "no"
import os
from os import path
raise ValueError
with dlp.sync(): pass
a, b = n
a, b = 1, 2, 3
a, *b = 1, 2, 3
x.view(3, 4)[0, 0, 0]
x.view("a")
x.cast(dlp.i4)[3]
y = x.cast(3)
y = x[::2]
y = x[-1:]
dlp.sync("foo")
dlp.copy(x, x)
dlp.copy(x[:4], 3)
dlp.matmul(x, x, x)
dlp.conv(x[:4], x[:4], x[:4])
dlp.pool(x[:4], x[:4], 3)
dlp.sum(x[:4], x[:4], axis=7)
dlp.printf(n)
dlp.printf("%d %d", n)
dlp.printf("%s", n)
dlp.instruction("FOO")
dlp.instruction("VAV", x)
dlp.atomic("foo", x, 1)
dlp.select(n, x, 1)
y = dlp.f32("a")
y = dlp.f32(x)
y = dlp.exp(n)
y = dlp.exp(2.0)
y = min(n)
y = min(n, x)
y = abs(x)
y = int(x)
y = len(x)
y = len(n)
y = n @ n
y = ~x
y = dlp.i4(n)
print(n)
n += 1.5
n = 1 << 70
y = 99999999999999999999 + n
dlp.trap(n)
lambda: 0
""".strip().splitlines()


@pytest.mark.parametrize("line", LINES)
def test_nonsense_is_refused_with_its_place(line: str, tmp_path: Path) -> None:
    path = tmp_path / "nonsense.py"
    head = "from trilobite import dlp\n@dlp.kernel\ndef kernel(x: dlp.gm[dlp.f32], n: int):\n    y = 0\n"
    path.write_text(f"{head}    {line}\n", encoding="utf-8")
    spec = importlib.util.spec_from_file_location("nonsense", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with pytest.raises((TrilobiteError, SyntaxError)) as caught:
        spec.loader.exec_module(module)
        module.kernel.program("dlp-m")
    if isinstance(caught.value, TrilobiteError):
        assert f"{path}:5" in str(caught.value)
