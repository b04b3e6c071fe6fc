"""What instructions mean, against plain loops, integers and fractions; and every row in every lawful
format."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable

import numpy as np
import pytest

from trilobite.processor.isa.encode import Instruction, unlawful
from trilobite.processor.isa.formats import BF16, F16, F32, F64, I4, I8, I16, I32, I64, U32, Format
from trilobite.processor.isa.numbers import fma32
from trilobite.processor.isa.row import IllegalOperands, Operands, Row
from trilobite.processor.isa.rows.matrix import float_chain
from trilobite.processor.isa.table import MNEMONICS, TABLE

TENSOR_ROWS = [row for row in TABLE if row.is_tensor]


@pytest.fixture(autouse=True)
def _quiet():
    with np.errstate(all="ignore"):
        yield


def run(row: Row, o: Operands, arrays: list[np.ndarray]) -> list[np.ndarray]:
    assert row.meaning is not None
    return list(row.meaning(o, *arrays))


def wrap(fmt: Format, value: int) -> int:
    value &= (1 << fmt.bits) - 1
    return value - (1 << fmt.bits) if fmt.kind == "int" and value >> (fmt.bits - 1) else value


def same(a: np.ndarray, b: np.ndarray) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


@pytest.mark.parametrize("row", TENSOR_ROWS, ids=lambda row: f"{row.mnemonic}-{len(row.operands)}")
def test_every_lawful_format_gives_its_regions(row: Row, rng, operands_for, values_for) -> None:
    """Results have the size and element type of the regions they go to; operands stay as they are."""
    for formats in row.formats or ((),):
        o = operands_for(rng, row, formats)
        flags = tuple(o.values[flag.name] for flag in row.flags)
        if unlawful(Instruction(row, (0,) * len(row.registers), formats, flags)):
            continue
        try:
            reads, writes = (list(row.reads(o)) if row.reads else []), list(row.writes(o))
        except IllegalOperands:
            continue
        arrays = [values_for(rng, region.fmt, region.shape) for region in reads]
        if row.mnemonic in ("VGATH", "VSCAT"):
            arrays[-1] = rng.integers(0, o.m, o.n).astype(reads[-1].fmt.dtype)
        if row.mnemonic == "VUNPOOL":
            arrays[-1] = rng.integers(0, o.kh * o.kw, reads[-1].shape).astype(np.int32)
        kept = [array.copy() for array in arrays]
        results = run(row, o, arrays)
        assert all(same(array, copy) for array, copy in zip(arrays, kept, strict=True)), (
            "an operand was changed"
        )
        for region, result in zip(writes, results, strict=False):
            assert result.size == region.count, (formats, result.shape, region.shape)
            assert result.dtype == region.fmt.dtype, (formats, result.dtype)
        assert len(results) == len(writes) + len(row.scalar_results)


INTEGER_REFERENCE: dict[str, Callable[[Format, int, int], int]] = {
    "VAV": lambda f, a, b: a + b,
    "VSV": lambda f, a, b: a - b,
    "VMV": lambda f, a, b: a * b,
    "VDV": lambda f, a, b: -1 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1),
    "VREM": lambda f, a, b: a if b == 0 else a - b * (abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)),
    "VGTM": lambda f, a, b: max(a, b),
    "VLTM": lambda f, a, b: min(a, b),
    "VGT": lambda f, a, b: a > b,
    "VGE": lambda f, a, b: a >= b,
    "VE": lambda f, a, b: a == b,
    "VNE": lambda f, a, b: a != b,
    "VLT": lambda f, a, b: a < b,
    "VLE": lambda f, a, b: a <= b,
    "VAND": lambda f, a, b: bool(a) and bool(b),
    "VOR": lambda f, a, b: bool(a) or bool(b),
    "VXOR": lambda f, a, b: bool(a) != bool(b),
    "VBAND": lambda f, a, b: a & b,
    "VBOR": lambda f, a, b: a | b,
    "VBXOR": lambda f, a, b: a ^ b,
    "VSHL": lambda f, a, b: a << (b % f.bits),
    "VSHR": lambda f, a, b: a >> (b % f.bits),
    "VROL": lambda f, a, b: (u := a % 2**f.bits) << (b % f.bits) | u >> (f.bits - b % f.bits),
    "VMULH": lambda f, a, b: a * b >> f.bits,
}
INTEGER_UNARY: dict[str, Callable[[Format, int], int]] = {
    "VABS": lambda f, a: abs(a),
    "VNEG": lambda f, a: -a,
    "VSIGN": lambda f, a: (a > 0) - (a < 0),
    "VRELU": lambda f, a: max(a, 0),
    "VNOT": lambda f, a: a == 0,
    "VBNOT": lambda f, a: ~a,
    "VPOPC": lambda f, a: (a % 2**f.bits).bit_count(),
    "VCLZ": lambda f, a: f.bits - (a % 2**f.bits).bit_length(),
    "VCTZ": lambda f, a: f.bits if a == 0 else (a & -a).bit_length() - 1,
}


@pytest.mark.parametrize("mnemonic", [*INTEGER_REFERENCE, *INTEGER_UNARY])
def test_integer_arithmetic_is_pythons_modulo_the_width(mnemonic: str, rng, values_for) -> None:
    row = MNEMONICS[mnemonic][0]
    for (fmt,) in row.formats:
        if fmt.kind == "float":
            continue
        a, b = values_for(rng, fmt, (200,)), values_for(rng, fmt, (200,))
        arrays = [a, b] if mnemonic in INTEGER_REFERENCE else [a]
        (got,) = run(row, Operands({"f0": fmt, "n": 200}), arrays)
        reference = INTEGER_REFERENCE.get(mnemonic) or INTEGER_UNARY[mnemonic]
        want = [wrap(fmt, int(reference(fmt, *map(int, pair)))) for pair in zip(*arrays, strict=True)]
        assert got.tolist() == want, (mnemonic, fmt)


FLOAT_REFERENCE = {"VAV": operator.add, "VSV": operator.sub, "VMV": operator.mul, "VDV": operator.truediv}


@pytest.mark.parametrize("mnemonic", FLOAT_REFERENCE)
@pytest.mark.parametrize("fmt", [F16, BF16, F32, F64], ids=str)
def test_float_arithmetic_rounds_once(mnemonic: str, fmt: Format, rng, values_for) -> None:
    """float64 holds sums, products and quotients of narrower formats well enough that rounding is unique."""
    a, b = values_for(rng, fmt, (2000,)), values_for(rng, fmt, (2000,))
    (got,) = run(MNEMONICS[mnemonic][0], Operands({"f0": fmt, "n": 2000}), [a, b])
    exact = FLOAT_REFERENCE[mnemonic](a.astype(np.float64), b.astype(np.float64))
    want = exact.astype(fmt.dtype) if fmt is not BF16 else exact.astype(np.float32).astype(fmt.dtype)
    nan = np.isnan(want.astype(np.float64))
    assert (np.isnan(got.astype(np.float64)) == nan).all()
    assert got[~nan].tobytes() == want[~nan].tobytes()
    codes = got[nan].view(f"u{fmt.bits // 8}")
    assert set(codes.tolist()) <= {np.array(np.nan, fmt.dtype).view(f"u{fmt.bits // 8}").item()}


@pytest.mark.parametrize(
    ("mnemonic", "reference"),
    [
        ("VEXP", math.exp),
        ("VLOG", math.log),
        ("VSIN", math.sin),
        ("VCOS", math.cos),
        ("VTANH", math.tanh),
        ("VERF", math.erf),
        ("VSQRT", math.sqrt),
        ("VLOG2", math.log2),
        ("VEXP2", math.exp2),
        ("VSIGM", lambda x: 1 / (1 + math.exp(-x))),
    ],
)
def test_functions_round_to_the_nearest_float32(mnemonic: str, reference, rng) -> None:
    x = rng.standard_normal(3000).astype(np.float32) * np.float32(3)
    x = np.abs(x) if mnemonic in ("VLOG", "VLOG2", "VSQRT") else x
    (got,) = run(MNEMONICS[mnemonic][0], Operands({"f0": F32, "n": 3000}), [x])
    want = np.array([reference(float(v)) for v in x]).astype(np.float32)
    assert (got == want).mean() > 0.999
    assert np.abs(got.view(np.int32) - want.view(np.int32)).max() <= 1


def test_the_reduction_tree_is_the_stated_one(rng) -> None:
    x = (rng.standard_normal(13) * 1e4).astype(np.float32)
    values = list(x) + [np.float32(-0.0)] * 3
    while len(values) > 1:
        half = len(values) // 2
        values = [values[i] + values[half + i] for i in range(half)]
    (got,) = run(MNEMONICS["VSUM"][0], Operands({"f0": F32, "n": 13}), [x])
    assert got[0].tobytes() == values[0].tobytes()
    zeros = np.full(3, -0.0, np.float32)
    assert np.signbit(run(MNEMONICS["VSUM"][0], Operands({"f0": F32, "n": 3}), [zeros])[0])[0]
    half_sum = run(MNEMONICS["VSUM"][0], Operands({"f0": F16, "n": 4096}), [np.ones(4096, np.float16)])[0]
    assert half_sum[0] == 4096  # 16-bit accumulation would stop at 2048


def test_reductions_with_nan_zero_and_ties() -> None:
    def reduce(name: str, values: list[float]) -> float:
        x = np.float32(values)
        return run(MNEMONICS[name][0], Operands({"f0": F32, "n": len(values)}), [x])[0][0]

    assert np.isnan(reduce("VMAX", [1, np.nan, 3])) and np.isnan(reduce("VMIN", [np.nan, 1]))
    assert not np.signbit(reduce("VMAX", [-0.0, 0.0, -0.0])) and np.signbit(reduce("VMIN", [0.0, -0.0]))
    assert reduce("VARGMAX", [1, 7, 7, -2]) == 1 and reduce("VARGMIN", [3, -2, 7, -2]) == 1
    assert reduce("VARGMAX", [1, np.nan, np.nan]) == 1
    assert reduce("VMAX", []) == -np.inf and reduce("VPROD", []) == 1


def test_reduce_along_an_axis(rng) -> None:
    a = rng.integers(-50, 50, (3, 7, 4)).astype(np.int32)
    for op, function in (("sum", np.sum), ("max", np.max), ("min", np.min), ("prod", np.prod)):
        o = Operands({"f0": I32, "outer": 3, "length": 7, "inner": 4, "op": op})
        assert (
            run(MNEMONICS["VREDUCE"][0], o, [a])[0] == function(a.astype(np.int64), axis=1).astype(np.int32)
        ).all()
    o = Operands({"f0": I32, "outer": 3, "length": 7, "inner": 4, "op": "argmin"})
    assert (run(MNEMONICS["VREDUCE"][0], o, [a])[0] == a.argmin(axis=1)).all()


def test_filter_sort_scan_gather_scatter(rng) -> None:
    x = rng.standard_normal(50).astype(np.float32)
    mask = (rng.random(50) < 0.4).astype(np.float32)
    out, count = run(MNEMONICS["VFILT"][0], Operands({"f0": F32, "n": 50}), [x, mask])
    assert (
        int(count) == int(mask.sum())
        and (out[: int(count)] == x[mask != 0]).all()
        and not out[int(count) :].any()
    )
    keys = np.float32([3, np.nan, -1, 3, -0.0, 0.0])
    up, index = run(MNEMONICS["VSORT"][0], Operands({"f0": F32, "n": 6, "order": ""}), [keys])
    assert index.tolist() == [2, 4, 5, 0, 3, 1] and np.isnan(up[-1])
    _, index = run(MNEMONICS["VSORT"][0], Operands({"f0": F32, "n": 6, "order": "desc"}), [keys])
    assert index.tolist() == [1, 0, 3, 4, 5, 2]
    (scan,) = run(MNEMONICS["VSCAN"][0], Operands({"f0": I32, "n": 50}), [np.arange(50, dtype=np.int32)])
    assert scan.tolist() == [i * (i + 1) // 2 for i in range(50)]
    index = rng.integers(0, 50, 30).astype(np.int32)
    rest = rng.standard_normal(50).astype(np.float32)
    out, count = run(MNEMONICS["VPACK"][0], Operands({"f0": F32, "n": 50}), [x, mask, rest])
    assert int(count) == int(mask.sum())
    assert (out == np.concatenate([x[mask != 0], rest[int(count) :]])).all()
    o = Operands({"f0": F32, "f1": I32, "n": 3, "m": 50, "outside": "zero"})
    some = np.int32([-1, 7, 50])
    assert run(MNEMONICS["VGATH"][0], o, [x, some])[0].tolist() == [0, x[7], 0]
    o = Operands({"f0": F32, "f1": I32, "n": 30, "m": 50, "outside": ""})
    assert (run(MNEMONICS["VGATH"][0], o, [x, index])[0] == x[index]).all()
    with pytest.raises(IllegalOperands, match="index 50 at place 0 is outside a table of 50 elements"):
        run(MNEMONICS["VGATH"][0], o, [x, np.full(30, 50, np.int32)])
    o = Operands({"f0": F32, "n": 3, "m": 4, "op": "add"})
    table = np.float32([1, 2, 3, 4])
    assert run(MNEMONICS["VSCAT"][0], o, [table, np.float32([10, 20, 5]), np.int32([2, 0, 2])])[
        0
    ].tolist() == [21, 2, 18, 4]


def test_float_chain_is_k_ascending_and_fused(rng) -> None:
    a, b = (rng.standard_normal(s).astype(np.float32) for s in ((3, 9), (9, 4)))
    start = rng.standard_normal((3, 4)).astype(np.float32)
    want = start.copy()
    for i in range(3):
        for j in range(4):
            total = start[i : i + 1, j]
            for k in range(9):
                total = fma32(a[i, k : k + 1], b[k, j : j + 1], total)
            want[i, j] = total[0]
    assert same(float_chain(a, b, start), want)


def product_operands(
    formats: tuple[Format, Format, Format], m: int, n: int, k: int, **flags: str
) -> Operands:
    named = {"acc": "", "bias": "", "scale": "", "activation": "", "ta": "", "tb": "", "lanes": ""} | flags
    return Operands({"f0": formats[0], "f1": formats[1], "f2": formats[2], "m": m, "n": n, "k": k, **named})


@pytest.mark.parametrize("pair", [(I8, I8), (I16, I16), (I4, I4), (I16, I8), (I8, I4)], ids=str)
def test_integer_products_are_exact(pair, rng, values_for) -> None:
    a, b = values_for(rng, pair[0], (5, 33)), values_for(rng, pair[1], (33, 6))
    exact = [[sum(int(x) * int(y) for x, y in zip(row, col, strict=True)) for col in b.T] for row in a]
    for result in (I32, I64):
        (got,) = run(MNEMONICS["MM"][0], product_operands((result, *pair), 5, 6, 33), [a, b])
        assert got.tolist() == [[wrap(result, v) for v in line] for line in exact]
    bias = rng.integers(-1000, 1000, 6).astype(np.int32)
    scale = rng.uniform(1e-4, 1e-2, 6).astype(np.float32)
    o = product_operands((I8, *pair), 5, 6, 33, bias="bias", scale="scale", activation="relu")
    (got,) = run(MNEMONICS["MM"][0], o, [a, b, bias, scale])
    for i in range(5):
        for j in range(6):
            value = float(np.float64(wrap(I32, exact[i][j]) + int(bias[j])) * np.float64(scale[j]))
            assert got[i, j] == max(0, min(127, round(value)))


def test_transposes_accumulation_and_drain_of_floats(rng) -> None:
    a, b = rng.standard_normal((5, 8)).astype(np.float16), rng.standard_normal((8, 7)).astype(np.float16)
    start = rng.standard_normal((5, 7)).astype(np.float32)
    bias, scale = rng.standard_normal(7).astype(np.float32), rng.standard_normal(7).astype(np.float32)
    chain = float_chain(a.astype(np.float32), b.astype(np.float32), start)
    flags = {"acc": "acc", "bias": "bias", "scale": "scale", "activation": "relu"}
    o = product_operands((F32, F16, F16), 5, 7, 8, ta="ta", tb="tb", **flags)
    (got,) = run(MNEMONICS["MM"][0], o, [a.T.copy(), b.T.copy(), start, bias, scale])
    assert same(got, np.maximum((chain + bias) * scale, np.float32(0)))
    (half,) = run(MNEMONICS["MM"][0], product_operands((F16, F16, F16), 5, 7, 8), [a, b])
    assert same(
        half,
        float_chain(a.astype(np.float32), b.astype(np.float32), np.zeros((5, 7), np.float32)).astype(
            np.float16
        ),
    )


@pytest.mark.parametrize("n", [64, 192, 7])
def test_rows_that_are_dealt_to_lanes_give_results_in_order(n: int, rng) -> None:
    a, b = (rng.integers(-9, 10, s).astype(np.float32) for s in ((5, 8), (n, 8)))
    dealt = b.copy()
    if n % 64 == 0:
        for r in range(n):
            dealt[r % 64 * (n // 64) + r // 64] = b[r]
    bias = rng.integers(-9, 10, n).astype(np.float32)
    o = product_operands((F32, F32, F32), 5, n, 8, tb="tb", lanes="lanes", bias="bias")
    (got,) = run(MNEMONICS["MM"][0], o, [a, dealt, bias])
    assert (got == a @ b.T + bias).all()
    plain = {"acc": "", "bias": "bias", "scale": "", "activation": "", "lanes": "lanes"}
    one = dict.fromkeys(("kh", "kw", "sh", "sw", "dh", "dw", "groups"), 1)
    none = dict.fromkeys(("top", "bottom", "left", "right"), 0)
    shape = {"h": 5, "w": 1, "ci": 8, "co": n, **one, **none}
    o = Operands({**shape, **plain, "f0": F32, "f1": F32, "f2": F32})
    (got,) = run(MNEMONICS["CONV"][0], o, [a.reshape(5, 1, 8), dealt.reshape(n, 1, 1, 8), bias])
    assert (got.reshape(5, n) == a @ b.T + bias).all()


CONV = {"h": 6, "w": 7, "ci": 4, "kh": 3, "kw": 2, "co": 6, "sh": 2, "sw": 1, "dh": 1, "dw": 2, "top": 1,
        "bottom": 2, "left": 0, "right": 1, "groups": 2}  # fmt: skip


def conv_loops(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    c = CONV
    padded = np.zeros((c["h"] + 3, c["w"] + 1, 4))
    padded[1:7, :7] = x
    p, q = (padded.shape[0] - 3) // 2 + 1, (padded.shape[1] - 3) // 1 + 1
    out = np.zeros((p, q, 6))
    for i in range(p):
        for j in range(q):
            for k in range(6):
                group = k // 3
                for r in range(3):
                    for s in range(2):
                        for ch in range(2):
                            out[i, j, k] += padded[2 * i + r, j + 2 * s, 2 * group + ch] * w[k, r, s, ch]
    return out


def test_convolution_and_its_gradients(rng) -> None:
    x, w = (
        rng.integers(-9, 10, (6, 7, 4)).astype(np.float32),
        rng.integers(-9, 10, (6, 3, 2, 2)).astype(np.float32),
    )
    plain = {
        "acc": "",
        "bias": "",
        "scale": "",
        "activation": "",
        "lanes": "",
        "f0": F32,
        "f1": F32,
        "f2": F32,
    }
    o = Operands({**CONV, **plain})
    (y,) = run(MNEMONICS["CONV"][0], o, [x, w])
    assert (y == conv_loops(x, w)).all()
    g = rng.integers(-9, 10, y.shape).astype(np.float32)
    (dx,) = run(MNEMONICS["CONVDX"][0], o, [g, w])
    (dw,) = run(MNEMONICS["CONVDW"][0], o, [g, x])
    other_x, other_w = (
        rng.integers(-9, 10, x.shape).astype(np.float32),
        rng.integers(-9, 10, w.shape).astype(np.float32),
    )
    assert (dx * other_x).sum() == (g * conv_loops(other_x, w)).sum()
    assert (dw * other_w).sum() == (g * conv_loops(x, other_w)).sum()


def test_pooling_and_its_backward(rng) -> None:
    x = rng.integers(-20, 20, (7, 6, 3)).astype(np.float32)
    run_values = {"h": 7, "w": 6, "c": 3, "kh": 3, "kw": 2, "sh": 2, "sw": 2, "f0": F32}
    windows = [[x[2 * p : 2 * p + 3, 2 * q : 2 * q + 2].reshape(6, 3) for q in range(3)] for p in range(3)]
    for op, function in (("max", np.max), ("min", np.min), ("sum", np.sum), ("avg", np.mean)):
        (got,) = run(MNEMONICS["VPOOL"][0], Operands({**run_values, "op": op}), [x])
        want = np.array([[function(win.astype(np.float64), axis=0) for win in line] for line in windows])
        assert np.allclose(got, want, rtol=1e-6)
    best, index = run(MNEMONICS["VPOOLX"][0], Operands(run_values), [x])
    assert (index == np.array([[win.argmax(axis=0) for win in line] for line in windows])).all()
    g = rng.integers(-5, 5, best.shape).astype(np.float32)
    (back,) = run(MNEMONICS["VUNPOOL"][0], Operands(run_values), [g, index])
    want = np.zeros_like(x)
    for p in range(3):
        for q in range(3):
            for c in range(3):
                want[2 * p + index[p, q, c] // 2, 2 * q + index[p, q, c] % 2, c] += g[p, q, c]
    assert (back == want).all()
    (shares,) = run(MNEMONICS["VUNPOOLA"][0], Operands(run_values), [g])
    assert shares.sum() == pytest.approx(g.sum(), abs=1e-4)


def test_im2col_and_col2im_are_adjoint(rng) -> None:
    o = Operands(
        {
            "h": 5,
            "w": 6,
            "c": 2,
            "kh": 2,
            "kw": 3,
            "sh": 1,
            "sw": 2,
            "dh": 2,
            "dw": 1,
            "top": 1,
            "bottom": 0,
            "left": 1,
            "right": 1,
            "f0": F64,
        }
    )
    x = rng.integers(-9, 9, (5, 6, 2)).astype(np.float64)
    (columns,) = run(MNEMONICS["VIM2COL"][0], o, [x])
    g = rng.integers(-9, 9, columns.shape).astype(np.float64)
    (image,) = run(MNEMONICS["VCOL2IM"][0], o, [g])
    assert (columns * g).sum() == (image * x).sum()


def test_windows_that_do_not_fit_are_refused() -> None:
    o = Operands(
        {"h": 2, "w": 6, "c": 2, "kh": 3, "kw": 3, "sh": 1, "sw": 2, "f0": F32, "op": "max", "dst": 0}
    )
    with pytest.raises(IllegalOperands, match="a window that reaches over 3 does not fit into 2"):
        list(MNEMONICS["VPOOL"][0].writes(o))


def test_philox_rounds_can_be_written_with_vector_instructions(rng) -> None:
    """Multiply-high, multiply, xor and add of u32 are what a counter-based generator needs."""
    from trilobite.processor.isa.random import philox

    n = 5
    c = [np.arange(n, dtype=np.uint32), *(np.zeros(n, np.uint32) for _ in range(3))]
    k0, k1 = 0x12345678, 0x9ABCDEF0

    def vector(mnemonic: str, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return run(MNEMONICS[mnemonic][0], Operands({"f0": U32, "n": n}), [a, b])[0]

    for step in range(10):
        m0, m1 = np.full(n, 0xD2511F53, np.uint32), np.full(n, 0xCD9E8D57, np.uint32)
        keys = [
            np.full(n, (k + step * w) & 0xFFFFFFFF, np.uint32)
            for k, w in ((k0, 0x9E3779B9), (k1, 0xBB67AE85))
        ]
        high0, low0 = vector("VMULH", c[0], m0), vector("VMV", c[0], m0)
        high1, low1 = vector("VMULH", c[2], m1), vector("VMV", c[2], m1)
        c = [vector("VBXOR", vector("VBXOR", high1, c[1]), keys[0]), low1,
             vector("VBXOR", vector("VBXOR", high0, c[3]), keys[1]), low0]  # fmt: skip
    assert np.stack(c, axis=1).reshape(-1).tolist() == philox(k1 << 32 | k0, 0, 4 * n).tolist()
