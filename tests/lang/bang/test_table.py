"""The table of intrinsics: its forms compile in every type, and families mean what they say."""

# ruff: noqa: E501, PERF401 (tables and sources of kernels)
from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bang_harness import LEVELS, needs_clang, run, written

from trilobite.processor.lang.bang.headers import declarations, known_names
from trilobite.processor.lang.bang.lower.composite import COMPOSITES
from trilobite.processor.lang.bang.lower.tensor import read_label
from trilobite.processor.lang.bang.source import Options, kernel_module
from trilobite.processor.lang.bang.table import FORMS, TABLE
from trilobite.processor.lang.bang.table.row import C_NAMES, Intrinsic
from trilobite.processor.lang.intrinsics import TENSOR_ROWS
from trilobite.processor.lang.verify import verify
from trilobite.processor.machine import load_machine


def test_every_meaning_exists() -> None:
    for row in TABLE:
        if row.how.startswith("@"):
            assert row.how[1:].split(".")[0] in COMPOSITES, row.name
        elif not row.is_body:
            for step in row.how.split(";"):
                assert step.split()[0].split(".")[0].split(":")[0] in TENSOR_ROWS, row.name


def test_labels_are_read_back() -> None:
    from trilobite.processor.lang.bang.headers import label

    for row in TABLE:
        if not row.is_body:
            found = read_label(label(row, row.types[0]))
            assert found is not None and found[0] is row


def test_only_what_is_named_is_declared() -> None:
    text = declarations({"__bang_add", "unknown"})
    assert "__bang_add(float *dst" in text and "__bang_sub" not in text
    assert {"__bang_fusion", "__dlp_step"} <= known_names()


def call_of(row: Intrinsic, types: str) -> str:
    """A call with an argument of the right type for every parameter; where arrays lie is known to nobody."""
    formats = dict(zip(row.letters, types.split("-"), strict=False)) if types else {}
    args = []
    for p in row.parameters:
        kind = C_NAMES[formats.get(p.type, p.type if p.type in C_NAMES else "u16")][0] if p.type else "int"
        if p.is_array:
            far = (
                p.name in ("p", "src1")
                or row.space == "gdram"
                or (p.name == "src" and row.name == "__bang_gather_async")
            )
            space = "w" if p.name == "right" else "g" if far else f"(q + {1024 * len(args)})"
            args.append(f"({kind} *){space}")
        else:
            args.append(f"({kind})i" if p.sign == "=" else "i" if p.sign != "?" else "2")
    return f"  {row.name}({', '.join(args)});"


@needs_clang
@pytest.mark.long
def test_every_form_compiles_in_every_type(tmp_path: Path) -> None:
    """All of them but the conversions that differ by a rounding mode alone; one kernel a family of names."""
    skipped = ("_dn", "_up", "_oz", "_rm")
    lines = []
    for name, rows in FORMS.items():
        if name.endswith(skipped) and "2" in name:
            continue
        lines += [call_of(row, types) for row in rows for types in row.types]
    head = "#include <bang.h>\n__wram__ char w[4096];\n"
    for place in range(0, len(lines), 100):
        body = "\n".join(lines[place : place + 100])
        head += f"__mlu_global__ void all{place}(char *g, int i, long q) {{\n{body}\n}}\n"
    verify(kernel_module(written(head, tmp_path), load_machine("mlu370-x4"), Options(level=0)))


UNARY: dict[str, Callable[[Any], Any]] = {
    "abs": np.abs, "neg": np.negative, "relu": lambda x: np.maximum(x, 0), "not": lambda x: x == 0, "square": np.square,
    "active_exp": np.exp, "log": lambda x: np.log(np.abs(x)), "sin": np.sin, "cos": np.cos, "active_tanh": np.tanh,
    "recip": lambda x: 1 / x, "sqrt": lambda x: np.sqrt(np.abs(x)), "rsqrt": lambda x: 1 / np.sqrt(np.abs(x)),
    "pow2": np.exp2, "log2": lambda x: np.log2(np.abs(x)), "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc,
    "rint": np.rint, "round": lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x),
    "active_sign": lambda x: np.where(x >= 0, 1, -1), "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "taylor3_sin": np.sin, "taylor4_softplus": lambda x: np.log1p(np.exp(x)),
}  # fmt: skip
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "maxequal": np.maximum, "minequal": np.minimum,
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor, "nan_maximum": np.maximum, "nan_minimum": np.minimum,
}  # fmt: skip
NEEDS_POSITIVE = ("log", "sqrt", "rsqrt", "log2")


def swept(kind: str) -> str:
    """One kernel with a case for every function."""
    cases = []
    for name in UNARY:
        before = "__bang_abs(a, a, n); " if name in NEEDS_POSITIVE else ""
        scratch = "b, b, " if name.startswith("taylor") else ""
        cases.append(f"{before}__bang_{name}(o, a, {scratch}n);")
    for name in BINARY:
        cases.append(f"__bang_{name}(o, a, b, n);")
    for name in ("add", "sub", "mul", "eq", "lt", "ge", "maxeq", "mineq"):
        cases.append(f"__bang_{name}_scalar(o, a, (T)0.5f, n);")
    for name in ("add", "sub", "mul", "maxequal", "gt", "and"):
        cases.append(f"__bang_cycle_{name}(o, a, b, n, 25);")
    body = "\n".join(f"    case {place}: {text} break;" for place, text in enumerate(cases))
    return (
        f"#include <bang.h>\ntypedef {kind} T;\n__nram__ T a[512], b[512], o[512];\n"
        "__mlu_global__ void sweep(const T *x, const T *y, T *out, int n) {\n"
        "  for (int which = 0; which < " + str(len(cases)) + "; which++) {\n"
        "    __memcpy(a, x, n * sizeof(T), GDRAM2NRAM);\n    __memcpy(b, y, n * sizeof(T), GDRAM2NRAM);\n"
        f"    switch (which) {{\n{body}\n    }}\n"
        "    __memcpy(out + which * n, o, n * sizeof(T), NRAM2GDRAM);\n  }\n}\n"
    )


SCALAR: list[Callable[[Any], Any]] = [
    lambda x: x + 0.5, lambda x: x - 0.5, lambda x: x * 0.5, lambda x: x == 0.5, lambda x: x < 0.5, lambda x: x >= 0.5,
    lambda x: np.maximum(x, 0.5), lambda x: np.minimum(x, 0.5),
]  # fmt: skip
CYCLE: list[Callable[[Any, Any], Any]] = [
    np.add, np.subtract, np.multiply, np.maximum, np.greater, np.logical_and,
]  # fmt: skip


@needs_clang
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kind", ["float", "half"])
def test_families_mean_what_they_say(kind: str, level: int, tmp_path: Path, rng: np.random.Generator) -> None:
    n, dtype = 300, np.dtype(np.float32 if kind == "float" else np.float16)
    x = (rng.standard_normal(n) * 3).astype(dtype)
    y = rng.standard_normal(n).astype(dtype)
    x[:4], y[:2] = [0.5, 2.5, -2.5, 1.0], x[:2]
    x[4:6], y[6] = 0.25, 0
    count = len(UNARY) + len(BINARY) + len(SCALAR) + len(CYCLE)
    out = run(written(swept(kind), tmp_path), "sweep", [x, y, np.zeros((count, n), dtype), n], level=level)[2]
    wide, other = x.astype(np.float64), y.astype(np.float64)
    with np.errstate(all="ignore"):
        want = [f(wide) for f in UNARY.values()] + [f(wide, other) for f in BINARY.values()]
        want += [f(wide) for f in SCALAR] + [f(wide, np.tile(other[:25], 12)) for f in CYCLE]
    tolerance = {"float": (2e-6, 1e-6), "half": (2e-3, 2e-3)}[kind]
    for got, expected in zip(out, want, strict=True):
        np.testing.assert_allclose(
            got.astype(np.float64), expected.astype(dtype), rtol=tolerance[0], atol=tolerance[1]
        )
