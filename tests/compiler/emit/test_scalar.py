"""Scalar graphs as native code: every primitive and dtype against its NumPy rule."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.compiler.emit.native import Array, plain_host, run_scalars, scalar_graph
from trilobite.base.dtypes import (
    ALL,
    COMPLEX,
    FLOATS,
    FP8,
    DType,
    bfloat16,
    bits,
    bool_,
    complex64,
    float4_e2m1fn,
    float8_e4m3fn,
    float8_e8m0fnu,
    float16,
    float32,
    float64,
    int4,
    int8,
    int32,
    is_float,
    is_integer,
    is_signed,
    uint8,
)
from trilobite.base.errors import DTypeError, TrilobiteError
from trilobite.compiler.targets.cpu.emit.math import FUNCTIONS
from trilobite.compiler.targets.cpu.emit.scalar import RULES, supports
from trilobite.ir.evaluate import run
from trilobite.ir.graph import Dense
from trilobite.ir.primitive import table
from trilobite.ir.primitives.common import integer_range
from trilobite.ir.types import TensorType
from trilobite.native.host import features

REAL = sorted(ALL - COMPLEX, key=lambda d: d.name)
LANES = [0, 4, 8, 16]
# Functions with a rounding of their own are held to their bounds in test_math.
EXACT = sorted(set(RULES) - set(FUNCTIONS) - {"select"} | {"pow", "rsqrt"})


def numbers(dtype: DType, count: int, seed: int) -> Array:
    """Signed, of all sizes, with every edge."""
    rng = np.random.default_rng(seed)
    if dtype == bool_:
        return rng.random(count) < 0.5
    if is_integer(dtype):
        raw = rng.integers(0, 256, (count, dtype.itemsize), dtype=np.uint8).view(f"u{dtype.itemsize}").ravel()
        out = (raw & 15).astype(np.uint8).view(dtype) if bits(dtype) == 4 else raw.view(dtype)
        few = rng.random(count) < 0.4
        out[few] = rng.integers(-3 if is_signed(dtype) else 0, 7, few.sum()).astype(np.int8).astype(dtype)
        ends = rng.random(count) < 0.1
        pair = np.array([np.asarray(n).astype(dtype) for n in integer_range(dtype)])
        out[ends] = pair[rng.integers(0, 2, ends.sum())]
        return out
    wide = rng.standard_normal(count) * 10.0 ** rng.integers(-6, 6, count)
    wild = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 0.5, -0.5, 1.5, 2.5, -2.5, 1e-40, 3e38, -7])
    some = rng.random(count) < 0.3
    wide[some] = wild[rng.integers(0, len(wild), some.sum())]
    with np.errstate(all="ignore"):
        return wide.astype(dtype)


def accepted(name: str, dtype: DType) -> bool:
    primitive = table[name]
    if not supports(primitive, [dtype]) or (name == "pow" and is_float(dtype)):
        return False
    try:
        primitive.type(*[TensorType((), dtype)] * len(primitive.operands))
    except TrilobiteError:
        return False
    return True


def equal(found: Array, want: Array, signed_zero: bool = True) -> Array:
    if found.dtype not in FLOATS:
        return np.asarray(found == want)
    with np.errstate(invalid="ignore"):
        a, b = found.astype(np.float64), want.astype(np.float64)
    same = (a == b) & ((np.signbit(a) == np.signbit(b)) | (not signed_zero))
    return np.asarray(same | (a != a) & (b != b))


def check(name: str, found: Array, want: Array, *xs: Array, signed_zero: bool = True) -> None:
    assert found.dtype == want.dtype
    wrong = np.flatnonzero(~equal(found, want, signed_zero))
    shown = [(*(x[i] for x in xs), found[i], want[i]) for i in wrong[:3]]
    assert len(wrong) == 0, f"{name} of {xs[0].dtype}: {len(wrong)} differ, (operands, found, wanted) {shown}"


@pytest.mark.parametrize("fma", [True, False], ids=["host", "plain"])
@pytest.mark.parametrize("dtype", REAL, ids=str)
def test_every_primitive_means_its_numpy_rule(dtype: DType, fma: bool) -> None:
    names = [n for n in EXACT if accepted(n, dtype)]
    body = scalar_graph(
        lambda x, y: [table[n](*(x, y)[: len(table[n].operands)]) for n in names], [dtype, dtype]
    )
    x, y = numbers(dtype, 3000, 1), numbers(dtype, 3000, 2)
    host = features() if fma else plain_host()
    for lanes in LANES[1:3] if fma else LANES[:1]:
        for name, found in zip(names, run_scalars(body, [x, y], lanes, host), strict=True):
            want = np.asarray(table[name].evaluate(*(x, y)[: len(table[name].operands)]))
            # Which zero of two equal ones is the larger is not defined; ml_dtypes keeps a zero's sign, and
            # in float4 what would be NaN is a zero with the sign that the machine gave the NaN.
            loose = name in ("maximum", "minimum", "sign") or dtype == float4_e2m1fn
            check(name, found, want, x, y, signed_zero=not loose)


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("dtype", [float32, int8, int32, float16, bool_], ids=str)
def test_any_number_of_lanes(dtype: DType, lanes: int) -> None:
    other = "maximum" if dtype != bool_ else "or"

    def fn(x: Any, y: Any) -> list[Any]:
        larger = table[other](x, y)
        return [larger, table["select"](table["lt"](x, y), larger, x), table["eq"](x, y)]

    body = scalar_graph(fn, [dtype, dtype])
    x, y = numbers(dtype, 77, 3), numbers(dtype, 77, 4)
    for found, want in zip(run_scalars(body, [x, y], lanes), run(_wide(body, 77), [x, y]), strict=True):
        check("graph", found, want, x, y, signed_zero=False)


def _wide(body: Any, count: int) -> Any:
    """The same graph over vectors, for the interpreter."""
    from trilobite.ir.transforms.record import record_graph

    def fn(*xs: Any) -> list[Any]:
        env = dict(zip(body.inputs, xs, strict=True))
        for e in body.equations:
            attributes = {**e.attributes, **({"shape": (count,)} if "shape" in e.attributes else {})}
            env[e.outputs[0]] = e.primitive(*(env[v] for v in e.inputs), **attributes)
        return [env[v] for v in body.outputs]

    return record_graph(fn, [TensorType((count,), v.type.dtype) for v in body.inputs])


@pytest.mark.parametrize("dtype", [float16, bfloat16, float8_e4m3fn], ids=str)
def test_small_floats_are_rounded_where_it_shows(dtype: DType) -> None:
    """Comparisons, whole numbers and casts of a sum see the sum as its dtype holds it."""

    def fn(x: Any, y: Any, z: Any) -> list[Any]:
        total = table["add"](x, y)
        return [
            table["eq"](total, z), table["lt"](total, z), table["round"](total), table["is_inf"](total),
            table["cast"](total, dtype=float32), table["cast"](table["neg"](total), dtype=float32),
        ]  # fmt: skip

    x, y = numbers(dtype, 4000, 5), numbers(dtype, 4000, 6)
    with np.errstate(all="ignore"):
        z = np.where(np.arange(4000) % 2, x + y, x).astype(dtype)
    body = scalar_graph(fn, [dtype] * 3)
    for found, want in zip(run_scalars(body, [x, y, z], 8), run(_wide(body, 4000), [x, y, z]), strict=True):
        check("graph", found, want, x, y, z)


def test_constants_and_fills() -> None:
    def fn(x: Any) -> list[Any]:
        tenth = table["full"](shape=(), dtype=float32, value=0.1)
        seven = table["constant"](value=Dense(np.asarray(-7.25, np.float32)))
        return [table["add"](table["mul"](x, tenth), seven), tenth]

    x = numbers(float32, 40, 7)
    found = run_scalars(scalar_graph(fn, [float32]), [x], 8)
    with np.errstate(all="ignore"):
        check("graph", found[0], x * np.float32(0.1) + np.float32(-7.25), x)
    assert (found[1] == np.float32(0.1)).all()


@pytest.mark.parametrize(
    "source, target",
    [(float32, int8), (float32, uint8), (float64, int32), (float16, int4), (float32, float8_e4m3fn),
     (bfloat16, float4_e2m1fn)],
    ids=str,
)  # fmt: skip
def test_quantise_and_back(source: DType, target: DType) -> None:
    def fn(x: Any, scale: Any, zero: Any) -> list[Any]:
        q = table["quantise"](x, scale, zero, axis=None, dtype=target)
        return [q, table["dequantise"](q, scale, zero, axis=None)]

    x = numbers(source, 2000, 8)
    for scale, zero in ((0.037, 3), (1.5, -2), (0.25, 0)):
        s, z = np.asarray(scale, source), np.asarray(max(zero, 0 if target == uint8 else -8)).astype(target)
        body = scalar_graph(fn, [source, source, target])
        found = run_scalars(body, [x, np.full(2000, s), np.full(2000, z)], 8)
        q = table["quantise"].evaluate(x, s, z, axis=None, dtype=target)
        check("quantise", found[0], q, x, signed_zero=False)
        check("dequantise", found[1], table["dequantise"].evaluate(q, s, z, axis=None), q, signed_zero=False)


def test_what_has_no_native_code_is_said() -> None:
    assert not supports(table["exp"], [complex64])
    assert not supports(table["polygamma"], [float32])
    assert not supports(table["nextafter"], [float16])
    assert supports(table["exp"], [bfloat16]) and supports(table["cast"], [int4, float8_e8m0fnu])
    body = scalar_graph(lambda x: [table["polygamma"](x, order=2)], [float32])
    with pytest.raises(DTypeError) as error:
        run_scalars(body, [np.ones(4, np.float32)], 4)
    message = str(error.value)
    assert "polygamma of f32[] has no native code" in message
    assert "emit.scalar.supports" in message and "NumPy rule" in message and "where:" in message


def test_every_real_dtype_was_asked() -> None:
    assert len(REAL) == 15 + len(FP8) + 1
