"""Typed Python: every construct as machine code beside the same text run by Python."""

from __future__ import annotations

import ctypes
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from trilobite.base.errors import IRError
from trilobite.native.cache import kernels
from trilobite.processor.sim import typed_python

SOURCE = """
class State:
    words: Ints
    reals: Floats
    n: int
    m: int
    x: float


def entry(e: State) -> None:
    e.words[0] = summed(e, e.n, e.m)
    e.words[1] = backwards(e, e.n)
    e.words[2] = skipped(e, e.n, e.m)
    e.words[3] = chosen(e, e.n, e.m)
    e.words[4] = is_small(e, e.n) or is_small(e, e.m)
    e.words[5] = not is_small(e, e.n) and not (e.m == 3 or e.x > 0.5)
    e.words[6] = min(e.n, e.m) * 1000 + max(e.n, e.m)
    e.words[7] = e.n in (1, 3, 5)
    e.words[8] = -e.n ^ e.m
    e.words[9] = last_of(e, e.n)
    e.reals[0] = min(e.x, 0.25)
    e.reals[1] = max(e.x, 0.25)


def summed(e: State, first: int, last: int) -> int:
    total = 0
    for i in range(first, last):
        for j in range(i):
            total += i * j + 1
    return total


def backwards(e: State, count: int) -> int:
    found = 0
    for i in range(count - 1, -1, -2):
        found = 10 * found + i
    return found


def skipped(e: State, count: int, odd: int) -> int:
    total = 0
    for i in range(count):
        if i % 3 == odd % 3:
            continue
        if i > 6:
            break
        total += i
    return total


def chosen(e: State, a: int, b: int) -> int:
    return 1 if a < b else 2 if a == b else e.words[20 + (3 if b > 2 else 0)]


def is_small(e: State, n: int) -> bool:
    return n < 2 or e.words[20 + n % 4] == 7


def last_of(e: State, count: int) -> int:
    i = -1
    end = count
    for i in range(end):
        end = 0
    return i
"""


class Made:
    """The functions of a text, as Python and as machine code."""

    def __init__(self, source: str) -> None:
        self.module = ModuleType("typed")
        names = {"Ints": typed_python.Ints, "Floats": typed_python.Floats}
        vars(self.module).update(names)
        exec(compile("from __future__ import annotations\n" + source, "typed.py", "exec"), vars(self.module))
        self.state: Any = vars(self.module)["State"]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(typed_python.inspect, "getsource", lambda module: source)
            self.text = typed_python.module_text([self.module], self.state, ["entry"])

    def native(self, numbers: dict[str, Any]) -> list[np.ndarray]:
        code = kernels([(self.text, 2)])
        arrays = {name: np.array(v) for name, v in numbers.items() if isinstance(v, list)}
        state = typed_python.structure_of(self.state)()
        for name, value in numbers.items():
            setattr(state, name, arrays[name].ctypes.data if name in arrays else value)
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(code.addresses[0])(ctypes.addressof(state))
        return list(arrays.values())

    def python(self, numbers: dict[str, Any]) -> list[np.ndarray]:
        state = self.state()
        vars(state).update({k: list(v) if isinstance(v, list) else v for k, v in numbers.items()})
        vars(self.module)["entry"](state)
        return [np.array(getattr(state, name)) for name, v in numbers.items() if isinstance(v, list)]


def test_machine_code_does_what_python_does() -> None:
    made, rng = Made(SOURCE), np.random.default_rng(3)
    for _ in range(60):
        words = [0] * 20 + rng.integers(0, 9, 5).tolist()
        n, m = rng.integers(0, 12, 2).tolist()
        numbers = {"words": words, "reals": [0.0, 0.0], "n": n, "m": m, "x": float(rng.random())}
        for a, b in zip(made.native(numbers), made.python(numbers), strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    "line",
    [
        "for i in [1, 2]:\n        e.n = i",
        "for i in range(e.x):\n        e.n = i",
        "for i in range(0, 9, e.n):\n        e.n = i",
        "for i in range(0, 9, 0):\n        e.n = i",
        "for i in range(2):\n        e.n = i\n    else:\n        e.n = 3",
        "e.n = 1 if e.n else 2.0",
        "e.n = min(e.n, e.x)",
        "e.n = min(e.n, 2, 3)",
        "e.n = e.n in [1, 2]",
        "e.n = e.n not in (1, 2)",
        "e.x = -e.x",
    ],
)
def test_what_it_has_not_is_refused(line: str) -> None:
    with pytest.raises(IRError):
        Made(f"class State:\n    n: int\n    x: float\n\ndef entry(e: State) -> None:\n    {line}\n")
