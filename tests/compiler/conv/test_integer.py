"""Convolutions and products of bytes: every bit as the rules of the primitives give it, in both forms."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.compiler.conv.convolutions import native, region
from trilobite.base import dtypes as dt
from trilobite.compiler.graph.pipeline import Options
from trilobite.compiler.targets.cpu.contraction.convolution import lower_root
from trilobite.compiler.targets.cpu.contraction.integer.panels import lower_integer_panels
from trilobite.compiler.targets.cpu.contraction.multiply import has_dots, neighbours_limit
from trilobite.compiler.targets.cpu.epilogue import epilogue_of
from trilobite.compiler.targets.cpu.primitives.conv_integer import ANY_BYTES, HEADER, IN_16_BITS
from trilobite.compiler.targets.cpu.target import compile_graph
from trilobite.ir.evaluate import run
from trilobite.ir.graph import Equation, Graph, Var
from trilobite.ir.primitives import table
from trilobite.ir.types import Symbol, TensorType, affine, type_of
from trilobite.native import host
from trilobite.native.host import AARCH64, SSE2, Host, features
from trilobite.native.objects import assembly

Array = np.ndarray[Any, Any]
LANES = 2 * features().lanes(4)
WIDE = 2 * features().tile_lanes(4)


@pytest.fixture
def without_dots(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """This machine as if it had no VNNI."""
    triple, cpu, flags, version = host._facts()
    plain = flags.replace("+avx512vnni", "-avx512vnni").replace("+avxvnni", "-avxvnni")
    monkeypatch.setattr(host, "_facts", lambda: (triple, cpu, plain, version))
    features.cache_clear()
    yield
    monkeypatch.undo()
    features.cache_clear()


@pytest.fixture(params=["narrow", "wide", "without dots", "wide without dots"])
def lanes(request: pytest.FixtureRequest) -> int:
    """Columns of panels, on this machine or on one without VNNI."""
    kind = request.param
    if "wide" in kind and WIDE == LANES:
        pytest.skip("tiles of this machine have one width")
    if "without" in kind:
        if not has_dots(features(), 8):
            pytest.skip("this machine has no VNNI")
        request.getfixturevalue("without_dots")
    return WIDE if "wide" in kind else LANES


# x[N, *space, C], filters, kernel, window
CASES: list[tuple[tuple[int, ...], int, tuple[int, ...], dict[str, Any]]] = [
    ((1, 7, 9, 8), 33, (3, 3), {"low": (1, 1), "high": (1, 1)}),
    ((2, 5, 6, 5), 7, (3, 2), {"stride": (2, 1), "low": (2, 0), "high": (0, 3), "w_dilation": (1, 2)}),
    ((3, 4, 4, 16), 48, (1, 1), {}),
    ((2, 11, 3), 16, (4,), {"stride": (3,), "low": (1,), "high": (2,)}),
    ((1, 3, 4, 5, 2), 20, (2, 2, 3), {}),
    ((1, 6, 5, 12), 12, (3, 3), {"groups": 2, "low": (1, 1), "high": (1, 1)}),
    ((1, 6, 5, 9), 51, (2, 2), {"groups": 3}),
    ((1, 9, 9, 600), 17, (3, 3), {"stride": (2, 2)}),
    ((37, 1100), 50, (), {}),
    ((1, 1030), 70, (), {}),  # few rows: several sums of depth at once, and what is left of it
    ((2, 45), 33, (), {}),
    ((3, 20), 64, (), {}),
    ((385, 24), 20, (), {}),  # several blocks of rows, which tiles do not fill
    ((1, 20, 21, 8), 5, (3, 3), {"low": (1, 1), "high": (1, 1)}),
    ((1, 21, 37, 3), 8, (9, 9), {}),  # rows of taps are runs of memory, two tiles share what one vector holds
    ((1, 20, 30, 8), 3, (9, 9), {}),
    ((2, 19, 27, 3), 7, (7, 7), {"stride": (2, 2), "low": (3, 2), "high": (3, 4)}),
    ((1, 14, 26, 4), 2, (3, 5), {"low": (1, 0), "high": (2, 0)}),
    ((2, 17, 5), 9, (4,), {"low": (3,), "high": (1,)}),
    ((1, 9, 11, 16), 33, (3, 3), {"low": (1, 2), "high": (2, 0), "outside": 7}),
    ((2, 9, 13, 3), 20, (3, 3), {"stride": (2, 2), "low": (0, 1), "high": (1, 1), "outside": 255}),
    ((1, 6, 5, 12), 12, (3, 3), {"groups": 2, "low": (1, 1), "high": (1, 1), "outside": 200}),
    ((2, 3, 5, 30), 16, (), {}),
    ((1, 0), 3, (), {}),
    ((0, 5), 3, (), {}),
]


def attributes(
    kernel: tuple[int, ...], filters: int, zero: int, window: dict[str, Any], lanes: int = LANES
) -> dict[str, Any]:
    rank = len(kernel)
    ones, zeros = (1,) * rank, (0,) * rank
    shape = {"stride": ones, "low": zeros, "high": zeros, "x_dilation": ones, "w_dilation": ones, **window}
    groups = shape.pop("groups", 1)
    return {
        "columns": filters // groups, "kernel": kernel, "groups": groups, "lanes": lanes, "zero": zero,
        "dtype": dt.int32, **(shape if kernel else {}),
    }  # fmt: skip


def weights(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any, small: bool) -> Array:
    """All of the range; or such that two neighbours add up to 128 at most, and some to that."""
    info = np.iinfo(dtype)
    if not small:
        return rng.integers(info.min, info.max + 1, shape).astype(dtype)
    w = rng.integers(max(-64, info.min), 65, shape)
    w[..., :1] = 64 if shape[1] > 1 else w[..., :1]
    return w.astype(dtype)


def packed(w: Array, groups: int, zero: int, *, transposed: bool = False, lanes: int = LANES) -> Array:
    limit = neighbours_limit(features())
    how = {"groups": groups, "lanes": lanes, "zero": zero, "limit": limit, "transposed": transposed}
    graph = region("conv_integer_panels", [type_of(w)], how)
    (want,) = run(graph, [w])
    for pieces in (1, 3):
        (got,) = native(graph, [w], pieces)
        assert got.tobytes() == want.tobytes()
    return np.asarray(want)


@pytest.mark.parametrize("small", [True, False], ids=["small", "full"])
@pytest.mark.parametrize("dtype", [dt.int8, dt.uint8], ids=str)
@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c[0]}-{c[1]}")
def test_every_bit(case: Any, dtype: Any, small: bool, lanes: int) -> None:
    shape, filters, kernel, window = case
    rng = np.random.default_rng(filters)
    zero = 128 if dtype == dt.int8 else 0
    attrs = attributes(kernel, filters, zero, window, lanes)
    groups = attrs["groups"]
    w = weights(rng, (filters, shape[-1] // groups, *kernel), dtype, small)
    panels = packed(w, groups, zero, lanes=lanes)
    limit = neighbours_limit(features())
    fits = limit >= IN_16_BITS if small else limit == ANY_BYTES and dtype == dt.int8
    assert panels[0] == (1 if fits else 2) or not w.size
    x = rng.integers(0, 256, shape).astype(np.uint8)
    x.reshape(-1)[: x.size // 3] = 255  # where 16 bits would overflow first
    graph = region("conv_integer", [type_of(x), type_of(panels)], attrs)
    (want,) = run(graph, [x, panels])
    assert np.array_equal(want, reference(x, w, kernel, zero, window))
    for pieces in (1, 3):
        (got,) = native(graph, [x, panels], pieces)
        assert got.tobytes() == want.tobytes()


def reference(x: Array, w: Array, kernel: tuple[int, ...], zero: int, window: dict[str, Any]) -> Array:
    """By the primitives that the framework has."""
    numbers, weight = x.astype(np.int32) - zero, w.astype(np.int32)
    if not kernel:
        return np.asarray(numbers @ weight.T)
    ones, zeros = (1,) * len(kernel), (0,) * len(kernel)
    shape = {"stride": ones, "low": zeros, "high": zeros, "x_dilation": ones, "w_dilation": ones, "groups": 1}
    first, window = np.moveaxis(numbers, -1, 1), dict(window)
    if (outside := window.pop("outside", None)) is not None:
        around = [(0, 0), (0, 0), *zip(window.pop("low"), window.pop("high"), strict=True)]
        first = np.pad(first, around, constant_values=outside - zero)
    found = table["conv"].evaluate(first, weight, **{**shape, **window, "dtype": dt.int32})
    return np.moveaxis(found, 1, -1)


@pytest.mark.skipif(not neighbours_limit(features()), reason="this host has no products of bytes")
@pytest.mark.parametrize(
    ("four", "form"),
    [
        ([64, 64, -64, -64], 1), ([-128, 0, 0, -128], 1), ([127, 1, -1, 127], 1), ([127, -1, 0, 0], 1),
        ([65, 64, 0, 0], 2), ([0, 0, -65, 64], 2), ([-128, 1, 0, 0], 2), ([0, 127, 2, 127], 2),
        ([100, 0, 100, 0], 1), ([0, 100, 100, 0], 1),
    ],
)  # fmt: skip
def test_the_form_at_its_limits(four: list[int], form: int, lanes: int) -> None:
    w = np.zeros((3, 8), np.int8)
    w[1, 4:] = four
    panels = packed(w, 1, 128, lanes=lanes)
    assert panels[0] == (1 if neighbours_limit(features()) == ANY_BYTES else form)
    x = np.array([[255] * 8, [0] * 8, [0, 255] * 4, [255, 0] * 4, [1, 2, 3, 4, 5, 6, 7, 8]], np.uint8)
    graph = region("conv_integer", [type_of(x), type_of(panels)], attributes((), 3, 128, {}, lanes))
    (got,) = native(graph, [x, panels])
    np.testing.assert_array_equal(got, (x.astype(np.int32) - 128) @ w.T.astype(np.int32))


def test_unsigned_128_is_no_signed_byte() -> None:
    w = np.zeros((2, 4), np.uint8)
    w[0, 0] = 128
    assert packed(w, 1, 0)[0] == 2
    w[0, 0] = 127
    assert packed(w, 1, 0)[0] == (1 if neighbours_limit(features()) else 2)


def test_a_transposed_weight() -> None:
    w = np.random.default_rng(3).integers(-60, 60, (13, 37)).astype(np.int8)
    np.testing.assert_array_equal(packed(w, 1, 128, transposed=True), packed(w.T.copy(), 1, 128))


def test_words_begin_in_order() -> None:
    w = np.array([[1, 2, 3, 4, 5]], np.int8)
    words = packed(w, 1, 128)
    assert words[HEADER] == -128 * 15
    if words[0] == 1:
        assert words[HEADER + LANES] == 0x04030201 and words[HEADER + 2 * LANES] == 5


def test_a_symbolic_batch() -> None:
    n = Symbol("n", 1, 64)
    w = np.random.default_rng(4).integers(-128, 128, (5, 6, 3, 3)).astype(np.int8)
    panels, attrs = packed(w, 1, 128), attributes((3, 3), 5, 128, {"low": (1, 1), "high": (0, 1)})
    graph = region(
        "conv_integer", [TensorType((affine(0, [(n, 1)]), 5, 4, 6), dt.uint8), type_of(panels)], attrs
    )
    x = np.random.default_rng(5).integers(0, 256, (3, 5, 4, 6)).astype(np.uint8)
    (got,) = native(graph, [x, panels], 2, {n: 3})
    fixed: Graph = region("conv_integer", [type_of(x), type_of(panels)], attrs)
    assert got.tobytes() == run(fixed, [x, panels])[0].tobytes()


# -- through the compiler ------------------------------------------------------------------------------------

CONVOLUTIONS: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((2, 5, 9, 8), (7, 5, 3, 3), {"low": (1, 1), "high": (1, 1)}),
    ((1, 16, 7, 7), (8, 16, 1, 1), {"stride": (2, 2)}),
    ((3, 4, 11, 10), (6, 4, 3, 2), {"stride": (2, 3), "low": (2, 0), "high": (1, 3), "w_dilation": (2, 1)}),
    ((2, 3, 20), (5, 3, 4), {"stride": (3,), "low": (0,), "high": (2,), "w_dilation": (1,)}),
    ((1, 2, 5, 6, 4), (3, 2, 2, 3, 2), {}),
    ((2, 40, 7, 9), (11, 40, 3, 3), {"low": (1, 1), "high": (1, 1), "stride": (2, 1)}),
    ((1, 6, 4, 4), (6, 1, 3, 3), {"groups": 6}),
    ((1, 6, 4, 4), (4, 3, 2, 2), {"groups": 2, "x_dilation": (2, 2)}),
]


def convolution(
    x: tuple[int, ...], w: tuple[int, ...], window: dict[str, Any], dtype: Any, wide: Any
) -> Graph:
    rank = len(x) - 2
    ones, zeros = (1,) * rank, (0,) * rank
    attrs = {
        "stride": ones, "low": zeros, "high": zeros, "x_dilation": ones, "w_dilation": ones, "groups": 1,
        "dtype": wide, **window,
    }  # fmt: skip
    return region("conv", [TensorType(x, dtype), TensorType(w, dtype)], attrs)


@pytest.mark.parametrize("wide", [dt.int32, dt.int8, dt.int64], ids=str)
@pytest.mark.parametrize("dtype", [dt.int8, dt.uint8], ids=str)
@pytest.mark.parametrize("case", CONVOLUTIONS, ids=lambda c: f"{c[0]}")
def test_compiled_convolutions(case: Any, dtype: Any, wide: Any) -> None:
    x, w, window = case
    graph = convolution(x, w, window, dtype, wide)
    rng = np.random.default_rng(len(x))
    info = np.iinfo(dtype)
    values = [rng.integers(info.min, info.max + 1, s).astype(dtype) for s in (x, w)]
    want = run(graph, values)[0]
    for stable in (frozenset(), frozenset({1})):
        found = compile_graph(graph, Options(stable=stable))
        assert found(list(values))[0].tobytes() == want.tobytes()


@pytest.mark.parametrize("weight", [(40, 24, 3, 3), (24, 1, 3, 3), (9, 24, 2, 5), (24, 1, 9, 9)], ids=str)
@pytest.mark.parametrize("dtype", [dt.int8, dt.uint8], ids=str)
@pytest.mark.parametrize("dots", [True, False], ids=["as it is", "without dots"])
def test_padding_with_a_zero_point_is_no_copy(
    weight: tuple[int, ...], dtype: Any, dots: bool, request: pytest.FixtureRequest
) -> None:
    """Written as `pad` before a convolution that pads nothing; direct, by tiles, and one filter a channel."""
    if not dots:
        request.getfixturevalue("without_dots")
    rng, info = np.random.default_rng(weight[0]), np.iinfo(dtype)
    around = {"low": (0, 0, 1, 4), "high": (0, 0, 6, 3), "between": (0, 0, 0, 0), "value": int(info.min) + 3}
    pad = region("pad", [TensorType((2, 24, 13, 14), dtype)], around)
    (wide,) = pad.outputs
    conv = convolution(wide.type.shape, weight, {"groups": 24 // weight[1]}, dtype, dt.int32)  # type: ignore[arg-type]
    _, w = conv.inputs
    (e,) = conv.equations
    after = Equation(e.primitive, (wide, w), e.attributes, e.outputs)
    graph = Graph((*pad.inputs, w), (*pad.equations, after), conv.outputs)
    values = [rng.integers(info.min, info.max + 1, t.shape).astype(dtype) for t in graph.input_types]  # type: ignore[arg-type]
    found = compile_graph(graph, Options(stable=frozenset({1})))
    assert not any(e.primitive.name == "pad" for e in found.compilation.stages["sweep"].equations)
    assert found(list(values))[0].tobytes() == run(graph, values)[0].tobytes()


@pytest.mark.parametrize("kernel", [1, 3])
def test_bytes_come_out(kernel: int) -> None:
    """A bias for each filter, then steps of a scale around a zero point; some tiles and panels are whole."""
    conv = convolution((2, 24, 7, 9), (50, 24, kernel, kernel), {}, dt.int8, dt.int32)
    (y,) = conv.outputs
    bias, spread, total = Var(TensorType((50,), dt.int32)), Var(y.type), Var(y.type)
    real, out = (Var(TensorType(y.type.shape, d)) for d in (dt.float32, dt.int8))
    scale, zero = Var(TensorType((50,), dt.float32)), Var(TensorType((50,), dt.int8))
    after = [
        Equation(table["broadcast"], (bias,), {"shape": y.type.shape, "axes": (1,)}, (spread,)),
        Equation(table["add"], (y, spread), {}, (total,)),
        Equation(table["cast"], (total,), {"dtype": dt.float32}, (real,)),
        Equation(table["quantise"], (real, scale, zero), {"axis": 1, "dtype": dt.int8}, (out,)),
    ]
    graph = Graph((*conv.inputs, bias, scale, zero), (*conv.equations, *after), (out,))
    rng = np.random.default_rng(kernel)
    values = [rng.integers(-128, 128, v.type.shape).astype(np.int8) for v in conv.inputs]
    values += [rng.integers(-999, 999, 50).astype(np.int32), rng.uniform(100, 900, 50).astype(np.float32)]
    values.append(rng.integers(-128, 128, 50).astype(np.int8))
    found = compile_graph(graph, Options(stable=frozenset({1})))
    for small in (True, False):
        values[1] = weights(rng, values[1].shape, dt.int8, small)
        assert found(list(values))[0].tobytes() == run(graph, values)[0].tobytes()


def product(x: tuple[int, ...], y: tuple[int, ...], along: int, types: tuple[Any, Any], wide: Any) -> Graph:
    """Operands of any dtypes, cast to int32 where they differ."""
    inputs = [Var(TensorType(s, t)) for s, t in zip((x, y), types, strict=True)]
    equations, operands = [], list(inputs)
    if types[0] != types[1]:
        for i, v in enumerate(inputs):
            operands[i] = Var(TensorType(v.type.shape, dt.int32))
            equations.append(Equation(table["cast"], (v,), {"dtype": dt.int32}, (operands[i],)))
    attrs = {"contract": ((len(x) - 1,), (along,)), "batch": ((), ()), "dtype": wide}
    out = Var(table["dot"].type(*(v.type for v in operands), **attrs))
    return Graph(inputs, [*equations, Equation(table["dot"], tuple(operands), attrs, (out,))], [out], "dot")


@pytest.mark.parametrize(
    ("types", "wide"),
    [
        ((dt.int8, dt.int8), dt.int32), ((dt.int8, dt.int8), dt.int64), ((dt.uint8, dt.uint8), dt.int16),
        ((dt.uint8, dt.int8), dt.int32), ((dt.int8, dt.uint8), dt.int32),
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize(
    ("x", "y", "along"), [((19, 70), (70, 33), 0), ((2, 3, 21), (17, 21), 1), ((1, 24), (24, 40), 0)]
)
def test_compiled_products(x: Any, y: Any, along: int, types: Any, wide: Any) -> None:
    graph = product(x, y, along, types, wide)
    rng = np.random.default_rng(along)
    for small in (False, True):
        values = [
            rng.integers(np.iinfo(t).min, np.iinfo(t).max + 1, s).astype(t)
            for s, t in zip((x, y), types, strict=True)
        ]
        if small:
            values[1] = weights(rng, y, types[1], True)
        found = compile_graph(graph, Options(stable=frozenset({1})))
        assert found(list(values))[0].tobytes() == run(graph, values)[0].tobytes()


def test_a_weight_may_change_its_form() -> None:
    graph = product((9, 40), (40, 20), 0, (dt.int8, dt.int8), dt.int32)
    rng = np.random.default_rng(6)
    x = rng.integers(-128, 128, (9, 40)).astype(np.int8)
    found = compile_graph(graph, Options(stable=frozenset({1})))
    for small in (True, False, True):
        w = weights(rng, (40, 20), dt.int8, small)
        assert found([x, w])[0].tobytes() == run(graph, [x, w])[0].tobytes()


@pytest.mark.parametrize("host", [SSE2, AARCH64], ids=["sse2", "aarch64"])
def test_text_compiles_for_other_machines(host: Host) -> None:
    lanes = 2 * host.lanes(4)
    how = {"groups": 1, "lanes": lanes, "zero": 128, "limit": neighbours_limit(host), "transposed": False}
    graph = region("conv_integer_panels", [TensorType((9, 5, 3, 3), dt.int8)], how)
    steps = lower_integer_panels(graph.equations[0], host).steps
    attrs = {**attributes((3, 3), 9, 128, {}), "lanes": lanes}
    types = [TensorType((1, 6, 6, 5), dt.uint8), graph.output_types[0]]
    graph = region("conv_integer", types, attrs)
    epilogue = epilogue_of(graph, graph.equations[0])
    assert epilogue is not None
    steps += lower_root(graph.equations[0], epilogue, (0, 1), host).steps
    for step in steps:
        assert "entry" in assembly(step.kernel.text, step.kernel.level, host)
