"""Sources written as public ones are: lessons with host programs, operator libraries, optimisers, frameworks.

Each entry is run against NumPy, at both levels. The sources include headers that are not there, launch kernels
from host functions that cannot be compiled, and lean on what cores of a cluster do together.
"""

# ruff: noqa: E501 (tables of cases)
from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from bang_harness import LEVELS, compiled, needs_clang, run

from trilobite.base.errors import ProcessorFault
from trilobite.processor import Device
from trilobite.processor.device import Module
from trilobite.processor.lang.bang.kernel import BangKernel
from trilobite.processor.lang.bang.source import Options

pytestmark = needs_clang
CORPUS = Path(__file__).parent / "corpus"
levels = pytest.mark.parametrize("level", LEVELS)


def entries(name: str) -> set[str]:
    program = compiled(CORPUS / name, "")
    return {symbol for symbol, place in program.symbols.items() if place.is_entry}


def test_there_are_sixty_entries() -> None:
    names = {(path.name, entry) for path in CORPUS.glob("*.mlu") for entry in entries(path.name)}
    examples = Path(__file__).parents[3] / "examples" / "kernels" / "bang"
    names |= {
        (path.name, line)
        for path in examples.glob("*.mlu")
        for line in path.read_text("utf-8").split("\n")
        if "__mlu_global__" in line or "__mlu_entry__" in line
    }
    assert len(names) >= 100


@levels
@pytest.mark.parametrize("kernel", ["scalar", "near", "vector", "cores", "pipeline"])
@pytest.mark.parametrize("n", [1, 777])
def test_lessons(kernel: str, n: int, level: int, rng: np.random.Generator) -> None:
    a, b = rng.standard_normal((2, n)).astype(np.float32)
    dim, task = ((4, 1, 1), "union1") if kernel == "cores" else ((1, 1, 1), "block")
    checks = kernel != "vector"  # it computes on the padding of its last tile
    args = [np.zeros(n, np.float32), a, b, n]
    out = run(CORPUS / "lessons.mlu", f"lesson_{kernel}", args, dim, task, level=level, checks=checks)[0]
    np.testing.assert_array_equal(out, a + b)


@levels
@pytest.mark.parametrize("clusters", [1, 2])
def test_a_cluster_loads_what_it_shares_once(clusters: int, level: int, rng: np.random.Generator) -> None:
    n = 4 * 256 * 3 * clusters
    a, b = rng.standard_normal((2, n)).astype(np.float32)
    task = f"union{clusters}"
    out = run(
        CORPUS / "lessons.mlu",
        "lesson_shared",
        [np.zeros(n, np.float32), a, b, n],
        (4 * clusters, 1, 1),
        task,
        level=level,
    )[0]
    np.testing.assert_array_equal(out, a + b)


FIVE: dict[str, Any] = {
    "five_stages_scale<float, float, float>": (np.float32, np.float32, [2.5], lambda x: x * 2.5),
    "five_stages_log<float, float>": (np.float32, np.float32, [], np.log),
    "five_stages_log<half, half>": (np.float16, np.float16, [], np.log),
    "five_stages_power<half, half, int>": (np.float16, np.float16, [3], lambda x: x**3),
}  # fmt: skip


@levels
@pytest.mark.parametrize("asks", [False, True])
@pytest.mark.parametrize("kernel", FIVE)
def test_five_stages(kernel: str, asks: bool, level: int, rng: np.random.Generator) -> None:
    """Copies between DRAM and SRAM that everybody runs into are done once, whether or not a helper asks."""
    into, out_of, more, want = FIVE[kernel]
    defines = ("ASKS_WHO_IT_IS",) if asks else ()
    source = BangKernel(CORPUS / "operators.mlu", kernel, Options(level=level, defines=defines))
    n = 3 * 4 * 128 + 77
    x = rng.uniform(0.1, 9, n).astype(into)
    device = Device("mlu370-x4")
    given, out = device.array(x), device.array(np.zeros(n, out_of))
    device.launch(source, [given, out, n, 128, *more], (4, 1, 1), "union1", traced=False)
    expected = want(x.astype(np.float64)).astype(out_of)
    np.testing.assert_allclose(
        out.numpy(),
        expected,
        rtol=2e-3 if out_of is np.float16 else 1e-6,
        atol=1e-3 if out_of is np.float16 else 1e-6,
    )


def words(*values: float) -> Any:
    return np.array(values, np.int32)


BIG = 2**63 + 12345
WIDE = [-(123456789 * 1000000007 % 998244353), BIG // 97 + BIG % 97, -123456789 >> 3,
        (BIG >> 3) ^ (-123456789 << 5), bin(BIG).count("1")]  # fmt: skip


@levels
@pytest.mark.parametrize(
    ("kernel", "args", "want"),
    [
        ("unions", [np.zeros(3, np.uint32), 1.5], [0x3FC00000, 127, 0xBFC00000]),
        ("classes", [words(0, 0, 0), 4], [7, 98, 8]),
        ("lambdas", [words(0, 0), 5], [10, 11]),
        ("switches", [words(9, 0), 5, 4], [5, 40]),
        ("switches", [words(9, 0), 0, 7], [1, 0]),
        ("jumps", [words(0, 0), 7], [9, 406]),
        ("jumps", [words(0, 0), 2], [1, -1]),
        ("packs", [np.zeros(2, np.float32), 3], [58, 5.75]),
        ("tables", [np.zeros(2, np.float32), 5], [31, 6.25]),
        ("wide_integers", [np.zeros(5, np.int64), -123456789, BIG],
         WIDE),
        ("references", [words(0, 0, 0), 3], [4, 41, -34]),
        ("asserts", [words(0), 3], [3]),
        ("function_pointers", [words(0), words(3, 4, 5), 3, 1], [60]),
        ("function_pointers", [words(0), words(3, 4, 5), 3, 0], [12]),
    ],
)  # fmt: skip
def test_language(kernel: str, args: list[Any], want: list[Any], level: int) -> None:
    source = BangKernel(CORPUS / "language.mlu", kernel, Options(level=level))
    device = Device("mlu370-x4")
    given = [device.array(a) if isinstance(a, np.ndarray) else a for a in args]
    device.launch(source, given, traced=False, checks=True)
    got = given[0].numpy()
    assert got.tolist() == [type(got.tolist()[0])(value) for value in want]


@levels
def test_structs_and_library_types(level: int) -> None:
    device = Device("mlu370-x4")
    out = device.array(np.zeros(3, np.float32))
    kernel = BangKernel(CORPUS / "language.mlu", "library_types", Options(level=level))
    device.launch(kernel, [out, np.array([10, 20, 30, 40], np.int32).tobytes(), 2], traced=False)
    assert out.numpy().tolist() == [2 + 2.5 + 4 + 30, 2 - 1 + 2, 65505]
    rows = [device.array(np.array([1.5, 2.5], np.float32)), device.array(np.array([4.0], np.float32))]
    kind = np.dtype([("place", "u8", 20), ("size", "i4", 20), ("count", "i4"), ("factor", "f4")], align=True)
    wide = np.zeros((), kind)
    wide["place"][:2], wide["size"][:2] = [row.address for row in rows], [2, 1]
    wide["count"], wide["factor"] = 2, 3.0
    kernel = BangKernel(CORPUS / "language.mlu", "wide_struct", Options(level=level))
    device.launch(kernel, [out, wide[()]], traced=False)
    assert out.numpy()[0] == 3 * (2.5 + 4.0)


@levels
def test_halves(level: int) -> None:
    out = run(
        CORPUS / "language.mlu",
        "halves",
        [
            np.zeros(5, np.float16),
            int(np.float16(1.25).view(np.uint16)),
            int(np.float32(2.3).view(np.uint32)),
        ],
        level=level,
    )[0]
    bf = float(np.float32(2.3).astype(ml_dtypes.bfloat16))
    assert out.tolist() == [
        3.0,
        float(np.float16(np.float32(3.0) * np.float32(2.3))),
        1.75,
        float(np.float16(2.3)),
        float(np.float16(2 * bf)),
    ]


@levels
def test_the_whole_of_nram(level: int, rng: np.random.Generator) -> None:
    """The stack lies in LDRAM where a kernel keeps 8 bytes for it."""
    x = rng.standard_normal(100).astype(np.float32)
    out = run(CORPUS / "machine.mlu", "whole_nram", [np.zeros(100, np.float32), x, 100], level=level)[0]
    want = x + np.float32(1.5)
    want[:16] += (x[:16] + np.arange(16, dtype=np.float32))[np.arange(16) * 5 % 16]
    np.testing.assert_allclose(out, want, rtol=1e-6, atol=1e-6)


@levels
def test_vector_registers(level: int) -> None:
    source = CORPUS / "machine.mlu"
    start = int(np.float32(2.5).view(np.uint32))
    out = run(source, "ramps", [np.zeros(100, np.float32), start, 100], level=level)[0]
    np.testing.assert_array_equal(out, np.arange(100, dtype=np.float32) + 2.5)
    out = run(source, "counters", [np.zeros(64, np.uint32), 12345], level=level)[0]
    c, k = np.arange(64, dtype=np.uint64) * 3 + 5, 12345
    for _ in range(3):
        product = c * np.uint64(0xD2511F53)
        c = (product >> np.uint64(32)) ^ (product & np.uint64(0xFFFFFFFF)) ^ np.uint64(k)
        k = (k + 0x9E3779B9) & 0xFFFFFFFF
    np.testing.assert_array_equal(out, c.astype(np.uint32))


@levels
def test_assembly_and_memories(level: int, rng: np.random.Generator) -> None:
    source = CORPUS / "machine.mlu"
    x = rng.standard_normal(90).astype(np.float32)
    x[[3, 40]], x[77] = [np.inf, -np.inf], np.nan
    out = run(source, "fused_assembly", [np.zeros(90, np.float32), x, 90], level=level)[0]
    np.testing.assert_array_equal(out, np.where(np.isfinite(x), x, 0))
    for value in (1, 6, 0x80000001):
        assert (
            run(source, "scalar_assembly", [np.zeros(1, np.uint32), value], level=level)[0][0]
            == value.bit_length() - 1
        )
    assert run(source, "own_memory", [np.zeros(4, np.int32), 50], (4, 1, 1), level=level)[0].tolist() == [
        i * 1225 for i in range(4)
    ]
    rows, cols = 5, 9
    y = rng.standard_normal((rows, cols)).astype(np.float32)
    out = run(source, "strided_copies", [np.zeros(3 * rows, np.float32), y, rows, cols], level=level)[0]
    np.testing.assert_array_equal(out, np.concatenate([y[:, 0], y[:, :2].ravel()]))


def test_builtins() -> None:
    out = run(CORPUS / "machine.mlu", "builtins", [np.full((8, 6), -1, np.int32)], (4, 2, 1), "union1")[0]
    want = [[x + 10 * y, 0, 0, x, 401, 1] for y in range(2) for x in range(4)]
    assert out.tolist() == want


def test_output_and_stops() -> None:
    device = Device("mlu370-x4")
    module = Module(compiled(CORPUS / "machine.mlu", "printing"))
    device.launch(module["printing"], [device.array(np.array([2.5], np.float32)), 9])
    for n in (0, 3, 4):
        with pytest.raises(ProcessorFault, match=r"machine\.mlu"):
            run(CORPUS / "machine.mlu", "stops", [words(0), n])
    assert run(CORPUS / "machine.mlu", "stops", [words(0), 7])[0][0] == 7


TYPES: dict[str, Any] = {"float": np.float32, "half": np.float16, "bfloat16_t": ml_dtypes.bfloat16}


@levels
@pytest.mark.parametrize("kind", TYPES)
def test_momentum(kind: str, level: int, rng: np.random.Generator) -> None:
    n, dtype = 1300, TYPES[kind]
    p, g = rng.standard_normal((2, n)).astype(dtype)
    m = rng.standard_normal(n).astype(np.float32)
    device = Device("mlu370-x4")
    given = [device.array(a) for a in (p, g, m)]
    kernel = BangKernel(CORPUS / "optimisers.mlu", f"momentum_step<{kind}>", Options(level=level))
    device.launch(kernel, [*given, n, 0.125, 0.5], (2, 1, 1), traced=False, checks=True)
    moved = m * np.float32(0.5) + g.astype(np.float32)
    want = (p.astype(np.float32) - np.float32(0.125) * moved).astype(dtype)
    np.testing.assert_allclose(given[2].numpy(), moved, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(
        given[0].numpy().astype(np.float32),
        want.astype(np.float32),
        rtol=1e-2 if kind != "float" else 1e-6,
        atol=1e-6,
    )


@pytest.mark.parametrize("kind", ["float", "half"])
def test_adam(kind: str, rng: np.random.Generator) -> None:
    n, dtype = 700, TYPES[kind]
    p, g = rng.standard_normal((2, n)).astype(dtype)
    m, v = rng.uniform(0.1, 1, (2, n)).astype(np.float32)
    settings = np.zeros(
        (),
        np.dtype(
            [("rate", "f4"), ("b1", "f4"), ("b2", "f4"), ("e", "f4"), ("step", "i4"), ("decay", "?")],
            align=True,
        ),
    )
    settings["rate"], settings["b1"], settings["b2"], settings["e"] = 0.01, 0.9, 0.99, 1e-3
    device = Device("mlu370-x4")
    given = [device.array(a) for a in (p, g, m, v)]
    device.launch(
        BangKernel(CORPUS / "optimisers.mlu", f"adam_step<{kind}>"),
        [*given, n, settings[()]],
        (2, 1, 1),
        traced=False,
    )
    wide = g.astype(np.float64)
    m1, v1 = 0.9 * m + 0.1 * wide, 0.99 * v + 0.01 * wide**2
    want = p.astype(np.float64) - 0.01 * m1 / (np.sqrt(v1) + 1e-3)
    np.testing.assert_allclose(
        given[0].numpy().astype(np.float64),
        want,
        rtol=2e-3 if kind == "half" else 1e-5,
        atol=1e-3 if kind == "half" else 1e-6,
    )


ELEMENTWISE: dict[str, Any] = {
    "AddOp": lambda a, b: a + b, "MaximumOp": np.maximum, "SwishGateOp": lambda a, b: a * b / (1 + np.exp(-b)),
    "SquareOp": lambda a, b: a * a,
}  # fmt: skip


def test_frameworks_of_functors(rng: np.random.Generator) -> None:
    """Instances come out of host templates whose bodies and callers cannot be compiled."""
    found = entries("elementwise.mlu")
    assert len(found) == 6
    for entry in found:
        op = entry.partition("<")[2].split(",")[0].split("::")[-1]
        dtype = np.float32 if ", float" in entry else np.float16
        a, b = rng.standard_normal((2, 5000)).astype(dtype)
        more = [a] if op == "SquareOp" else [a, b]
        out = run(
            CORPUS / "elementwise.mlu", entry, [np.zeros(5000, dtype), 5000, *more], (4, 1, 1), "union1"
        )[0]
        want = ELEMENTWISE[op](a.astype(np.float64), b.astype(np.float64)).astype(dtype)
        np.testing.assert_allclose(
            out, want, rtol=2e-3 if dtype is np.float16 else 2e-6, atol=1e-3 if dtype is np.float16 else 1e-6
        )


@levels
def test_cores_that_decide_together(level: int, rng: np.random.Generator) -> None:
    """The memory core runs along: what it would do in NRAM is nothing, what it reads there is nothing."""
    x = rng.permutation(777).astype(np.float32)
    least = int(np.float32(773).view(np.uint32))
    args = [np.zeros(9, np.float32), x, 777, 9, least]
    out = run(CORPUS / "together.mlu", "largest", args, (4, 1, 1), "union1", level=level, checks=False)[0]
    assert out.tolist() == [776, 775, 774, 773, 0, 0, 0, 0, 0]


@levels
def test_two_halves_of_shared_memory(level: int, rng: np.random.Generator) -> None:
    tile, loops = 33, 5
    x = rng.standard_normal(4 * tile * loops).astype(np.float32)
    args = [np.zeros(x.size + 1, np.float32), x, tile, loops]
    out = run(CORPUS / "together.mlu", "two_halves", args, (4, 1, 1), "union1", level=level, checks=False)[0]
    np.testing.assert_array_equal(out, np.append(2 * x, np.float32(loops)))
