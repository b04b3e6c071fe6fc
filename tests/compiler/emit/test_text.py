"""The builder of LLVM text: loops, branches, memory, constants; what it emits and what that does."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.compiler.emit.native import Array, load_entry
from trilobite.base.dtypes import bool_, float16, float32, float64, int4, int8, int32, int64
from trilobite.base.errors import IRError
from trilobite.native.host import features
from trilobite.native.llvm.text import Text, Value
from trilobite.native.llvm.types import constant, lanes_constant, parts, wrapped


def execute(build: Callable[[Text], None], *arrays: Array | int, begin: int = 0, end: int = 0) -> str:
    """Run what `build` emits; arrays are passed by address. Returns the text."""
    t = Text(features())
    build(t)
    text = t.module()
    words = [a if isinstance(a, int) else a.ctypes.data for a in arrays]
    load_entry(text, features())(words, begin, end)
    return text


def random(n: int, seed: int = 0) -> Array:
    return (np.random.default_rng(seed).standard_normal(n) * 100).astype(np.float32)


def test_loop_carries_values() -> None:
    def build(t: Text) -> None:
        x, out, n = t.argument(0, "ptr"), t.argument(1, "ptr"), t.argument(2, "i64")
        with t.loop(0, n, carried=[constant("float", 0), constant("float", -1e30)]) as i:
            v = t.load(float32, t.address(x, i.index, float32))
            i.next(t.fadd(i.values[0], v), t.fmax(i.values[1], v))
        for k, result in enumerate(i.results):
            t.store(float32, result, t.address(out, k, float32))

    for n in (0, 1, 37):
        x, out = random(n + 1), np.zeros(2, np.float32)
        execute(build, x, out, n)
        total = np.float32(0)
        for v in x[:n]:
            total += v
        assert out[0] == total
        assert out[1] == max([np.float32(-1e30), *x[:n]])


def test_nested_loops_with_branches_inside() -> None:
    """The phi of the outer loop comes from whatever block the inner code ends in."""

    def build(t: Text) -> None:
        out = t.argument(0, "ptr")
        with t.loop(t.begin, t.end, carried=[constant("i64", 0)], name="outer") as i:
            with t.loop(0, i.index, carried=[i.values[0]], name="inner") as j:
                odd = t.icmp("ne", t.and_(j.index, 1), 0)
                (step,) = t.either(odd, lambda: [t.mul(j.index, 10)], lambda: [constant("i64", 1)])
                j.next(t.add(j.values[0], step))
            i.next(j.results[0])
        t.store_type(i.results[0], out)

    out = np.zeros(1, np.int64)
    execute(build, out, begin=2, end=9)
    assert out[0] == sum(10 * j if j % 2 else 1 for i in range(2, 9) for j in range(i))


def test_a_loop_that_runs_once_is_none() -> None:
    def build(t: Text) -> None:
        out = t.argument(0, "ptr")
        with t.loop(4, 8, 4, carried=[constant("i64", 5)]) as i:
            i.next(t.add(i.values[0], i.index))
        t.store_type(i.results[0], out)

    out = np.zeros(1, np.int64)
    text = execute(build, out)
    assert out[0] == 9
    assert "phi" not in text and "br " not in text


def test_when_runs_only_if_it_holds() -> None:
    def build(t: Text) -> None:
        out = t.argument(0, "ptr")
        for k, limit in enumerate((3, 4)):
            with t.when(t.icmp("slt", t.end, limit)):
                t.store_type(constant("i64", 7 + k), t.address(out, 8 * k))

    out = np.zeros(2, np.int64)
    execute(build, out, end=3)
    assert out.tolist() == [0, 8]


def test_wrong_number_of_carried_values_is_said() -> None:
    t = Text(features())
    message = r"next\(\) was given 1 values\n  expected: one for each of the 2"
    carried = [constant("i64", 0), constant("i64", 1)]
    with pytest.raises(IRError, match=message), t.loop(0, t.end, carried=carried) as i:
        i.next(constant("i64", 3))


@pytest.mark.parametrize("count", range(9))
@pytest.mark.parametrize("dtype", [float32, float64, int8, float16], ids=str)
def test_partial_loads_and_stores_touch_nothing_else(dtype: np.dtype[np.generic], count: int) -> None:
    def build(t: Text) -> None:
        x, out, n = t.argument(0, "ptr"), t.argument(1, "ptr"), t.argument(2, "i64")
        v = t.load_partial(dtype, x, n, 8)
        t.store(dtype, v, t.address(out, 8, dtype))
        t.store_partial(dtype, v, out, n)

    x = random(8).astype(dtype)
    out = np.full(16, 3, dtype)
    execute(build, x, out, count)
    assert (out[:count] == x[:count]).all() and (out[count:8] == 3).all()
    assert (out[8 : 8 + count] == x[:count]).all() and (out[8 + count :] == 0).all()


def test_a_partial_load_does_not_read_past_the_end_of_memory() -> None:
    import ctypes
    import mmap

    page = mmap.PAGESIZE
    area = mmap.mmap(-1, 2 * page)
    base = ctypes.addressof(ctypes.c_char.from_buffer(area))
    libc = ctypes.CDLL(None)
    assert libc.mprotect(ctypes.c_void_p(base + page), page, 0) == 0
    try:
        values = np.ctypeslib.as_array((ctypes.c_float * 3).from_address(base + page - 12))
        values[:] = [1.5, -2.5, 3.5]
        out = np.zeros(8, np.float32)

        def build(t: Text) -> None:
            x, result, n = t.argument(0, "ptr"), t.argument(1, "ptr"), t.argument(2, "i64")
            t.store(float32, t.load_partial(float32, x, n, 8), result)

        execute(build, base + page - 12, out, 3)
        assert out.tolist() == [1.5, -2.5, 3.5, 0, 0, 0, 0, 0]
    finally:
        assert libc.mprotect(ctypes.c_void_p(base + page), page, mmap.PROT_READ | mmap.PROT_WRITE) == 0


@pytest.mark.parametrize("stride", [1, 3, -2])
def test_strided_loads_and_stores(stride: int) -> None:
    def build(t: Text) -> None:
        x, out, step = t.argument(0, "ptr"), t.argument(1, "ptr"), t.argument(2, "i64")
        t.store(float32, t.load_strided(float32, x, step, 4), out)
        t.store_strided(float32, t.load(float32, out, 4), t.address(out, 8, float32), 2)

    x, out = random(32), np.zeros(16, np.float32)
    execute(build, x.ctypes.data + 4 * 16, out, stride)
    want = [x[16 + stride * i] for i in range(4)]
    assert out[:4].tolist() == want and out[8:16:2].tolist() == want and not out[9:16:2].any()


def test_lanes_are_added_low_half_to_high_half() -> None:
    x, out = random(8, 4), np.zeros(1, np.float32)

    def build(t: Text) -> None:
        t.store(float32, t.sum_lanes(t.load(float32, t.argument(0, "ptr"), 8)), t.argument(1, "ptr"))

    execute(build, x, out)
    four = x[:4] + x[4:]
    two = four[:2] + four[2:]
    assert out[0] == two[0] + two[1]


def test_lane_numbers_splat_shuffle_and_halves() -> None:
    def build(t: Text) -> None:
        out = t.argument(0, "ptr")
        v = t.lane_numbers("<8 x i32>", t.convert("trunc", t.end, "i32"))
        low, high = t.halves(v)
        t.store(int32, t.join(high, low), out)
        t.store(int32, t.shuffle(v, t.splat(constant("i32", -1), 8), [0, 8, 7, 15]), t.address(out, 8, int32))

    out = np.zeros(12, np.int32)
    execute(build, out, end=100)
    assert out.tolist() == [104, 105, 106, 107, 100, 101, 102, 103, 100, -1, 107, -1]


def test_functions_calls_and_tables() -> None:
    def build(t: Text) -> None:
        out = t.argument(0, "ptr")
        primes = t.table("i64", [2, 3, 5, 7])
        assert t.table("i64", [2, 3, 5, 7]) == primes
        with t.function("prime", ["ptr noalias", "i64"], "i64") as (p, i):
            t.give_back(t.load_type("i64", t.address(p, i, int64)))
        with t.function("fill", ["<2 x double> noundef", "ptr"]) as (v, p):
            t.store_type(v, p)
        t.store_type(t.call("prime", primes, constant("i64", 2), result="i64"), out)
        t.call("fill", lanes_constant("<2 x double>", (0.1, -2.0)), t.address(out, 8))

    out = np.zeros(3, np.int64)
    execute(build, out)
    assert out[0] == 5 and out[1:].view(np.float64).tolist() == [0.1, -2.0]


@pytest.mark.parametrize(
    "number", [0.1, -0.0, float("inf"), float("nan"), 1e-45, 3.4028234663852886e38, 1 / 3, 1e300]
)
@pytest.mark.parametrize("element", ["float", "double"])
def test_float_constants_are_exact(number: float, element: str) -> None:
    dtype = np.dtype(np.float32 if element == "float" else np.float64)

    def build(t: Text) -> None:
        t.store_type(constant(element, number), t.argument(0, "ptr"))

    out = np.zeros(1, dtype)
    execute(build, out)
    with np.errstate(over="ignore"):
        want = np.array([number]).astype(dtype)
    assert out.tobytes() == want.tobytes() or (np.isnan(out[0]) and np.isnan(want[0]))


def test_trivial_arithmetic_emits_nothing() -> None:
    t = Text(features())
    n = t.argument(0, "i64")
    before = t.module()
    zero = constant("i64", 0)
    assert t.add(n, 0) is n and t.add(0, n) is n and t.mul(n, 1) is n and t.mul(1, n) is n
    assert t.sub(n, zero) is n and t.and_(n, -1) is n and t.or_(n, 0) is n and t.shl(n, 0) is n
    assert t.mul(n, 0).number == 0 and t.add(3, 4).number == 7 and t.mul(constant("i64", 6), 7).number == 42
    assert t.icmp("slt", 3, 4).number == 1 and t.smin(3, 9).number == 3
    assert t.convert("trunc", constant("i64", 300), "i8").number == 44
    assert t.convert("zext", constant("i8", -1), "i64").number == 255
    assert t.select(constant("i1", 1), n, 0) is n
    assert t.address(n, 0, float32) is n
    assert t.module() == before


def test_types_and_numbers() -> None:
    assert parts("<8 x float>") == ("float", 8) and parts("i64") == ("i64", 0)
    assert wrapped(200, 8) == -56 and wrapped(-129, 8) == 127 and wrapped(1, 1) == 1
    assert constant("<4 x i32>", 7) == "splat (i32 7)"
    value = Value("%x", "<4 x float>")
    assert value.typed == "<4 x float> %x" and isinstance(value, str)


def test_bools_and_four_bit_integers_in_memory() -> None:
    def build(t: Text) -> None:
        p, q, out = (t.argument(i, "ptr") for i in range(3))
        flags = t.load(bool_, p, 8)
        t.store(bool_, t.not_(flags), out)
        t.store(int4, t.add(t.load(int4, q, 8), 1), t.address(out, 8))

    p = np.array([0, 1, 2, 255, 0, 1, 0, 1], np.uint8)
    q = np.array([0xF7, 0x0F, 0x08, 7, 6, 0x1F, 0, 1], np.uint8)  # only the low half counts
    out = np.zeros(16, np.uint8)
    execute(build, p, q, out)
    assert out[:8].tolist() == [1, 0, 0, 0, 1, 0, 1, 0]
    assert out[8:].tolist() == [8, 0, 9, 8, 7, 0, 1, 2]


def test_prefetch_and_inline_copy() -> None:
    def build(t: Text) -> None:
        x, out = t.argument(0, "ptr"), t.argument(1, "ptr")
        t.prefetch(x)
        t.prefetch(out, write=True, locality=0)
        t.copy(out, x, 48)

    x, out = random(16), np.zeros(16, np.float32)
    execute(build, x, out)
    assert (out[:12] == x[:12]).all() and not out[12:].any()
