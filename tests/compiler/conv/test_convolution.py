"""Convolutions and their gradients, natively, over random geometry: ranks, strides, padding that also crops,
dilations, groups, odd channel counts; every dtype; epilogues; empty shapes; symbolic batches.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.compiler.conv.convolutions import check, lowered, native, random, region, types_of
from trilobite.base.dtypes import DType, float32, is_integer
from trilobite.compiler.targets.cpu.contraction import convolution as conv
from trilobite.compiler.targets.cpu.contraction.tiling import tilings
from trilobite.ir.evaluate import run
from trilobite.ir.graph import Equation, Graph, Var
from trilobite.ir.primitive import result_types, table
from trilobite.ir.types import Symbol, TensorType, affine
from trilobite.native.host import AARCH64, SSE2, Host, features
from trilobite.native.objects import assembly

Array = np.ndarray[Any, Any]
DTYPES = [np.dtype(d) for d in ("float32", "float64", "float16", "bfloat16")]
FORMS = ("conv_last", "conv_last_input_grad", "conv_last_weight_grad")


class Geometry:
    """One random convolution: shapes and attributes that fit together."""

    def __init__(self, rng: np.random.Generator, rank: int, groups: int, channelwise: bool = False) -> None:
        def pick(low: int, high: int) -> tuple[int, ...]:
            return tuple(int(n) for n in rng.integers(low, high + 1, rank))

        self.kernel, self.stride, dilation = pick(1, 4), pick(1, 3), pick(1, 2)
        low, high = pick(-1, 3), pick(0, 3)
        reach = [(k - 1) * d + 1 for k, d in zip(self.kernel, dilation, strict=True)]
        self.space = tuple(
            max(1, r - lo - hi) + int(rng.integers(0, 9)) for r, lo, hi in zip(reach, low, high, strict=True)
        )
        self.channels = groups if channelwise else groups * int(rng.integers(1, 24))
        self.filters = groups if channelwise else groups * int(rng.integers(1, 40))
        self.batch = int(rng.integers(1, 4))
        self.window = {
            "stride": self.stride, "low": low, "high": high, "w_dilation": dilation,
            "x_dilation": (1,) * rank, "groups": groups,
        }  # fmt: skip

    @property
    def x(self) -> tuple[int, ...]:
        return (self.batch, *self.space, self.channels)

    @property
    def w(self) -> tuple[int, ...]:
        return (self.filters, self.channels // self.window["groups"], *self.kernel)

    def y(self) -> tuple[int, ...]:
        first = [(self.batch, self.channels, *self.space), self.w]
        found = table["conv"].type(*(TensorType(s, float32) for s in first), **self.window, dtype=float32)
        return (self.batch, *found.shape[2:], self.filters)


def weight(w: Array, form: str, groups: int, host: Host | None = None) -> Array:
    """As the layout pass gives it to a kernel."""
    if w.shape[1] == 1 and groups == w.shape[0] > 1:
        return np.ascontiguousarray(np.moveaxis(w, (0, 1), (-1, -2)))
    lanes = tilings(host or features(), w.dtype, w.dtype)[-1].columns
    found: Array = table["conv_panels"].evaluate(
        w, groups=groups, lanes=lanes, transposed=form == "conv_last_input_grad"
    )
    return found


def case(
    form: str, g: Geometry, rng: np.random.Generator, dtype: DType, result: DType, host: Host | None = None
) -> tuple[Graph, list[Array], int]:
    """A region of one equation, its operands, and how many terms its sums have."""
    groups, attributes = g.window["groups"], {**g.window, "dtype": result}
    x, w, y = (random(rng, s, dtype) for s in (g.x, g.w, g.y()))
    taps = int(np.prod(g.kernel))
    if form == "conv_last":
        values, terms = [x, weight(w, form, groups, host)], taps * g.w[1]
        attributes["columns"] = g.filters // groups
    elif form == "conv_last_input_grad":
        values, terms = [y, weight(w, form, groups, host)], taps * g.filters // groups
        attributes |= {"columns": g.w[1], "space": g.space}
    else:
        values, terms = [x, y], int(np.prod(y.shape[:-1]))
        attributes["kernel"] = g.kernel
    return region(form, types_of(values), attributes), values, terms


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("groups", [1, 3])
def test_random_geometry(form: str, rank: int, groups: int) -> None:
    rng = np.random.default_rng([rank, groups, len(form)])
    for _ in range(6):
        check(*case(form, Geometry(rng, rank, groups), rng, float32, float32))


@pytest.mark.parametrize("form", FORMS)
def test_one_filter_per_channel(form: str) -> None:
    rng = np.random.default_rng(len(form))
    for groups in (2, 13, 16, 41):
        check(*case(form, Geometry(rng, 2, groups, channelwise=True), rng, float32, float32))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", [d.name for d in DTYPES])
def test_floats(form: str, dtype: str) -> None:
    rng = np.random.default_rng(7)
    for groups in (1, 2):
        check(*case(form, Geometry(rng, 2, groups), rng, np.dtype(dtype), np.dtype(dtype)))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "operand, result",
    [("int8", "int32"), ("uint8", "int32"), ("int32", "int32"), ("int64", "int64"), ("int8", "int8")],
)
def test_integers_are_exact_and_wrap(form: str, operand: str, result: str) -> None:
    rng = np.random.default_rng(9)
    check(*case(form, Geometry(rng, 2, 1), rng, np.dtype(operand), np.dtype(result)))
    assert is_integer(np.dtype(result))


@pytest.mark.parametrize("channels", [1, 3, 8])
def test_few_channels_read_whole_rows_of_taps(channels: int) -> None:
    """The padded copy: sources whose channels alone do not fill a row."""
    rng = np.random.default_rng(channels)
    for form in ("conv_last", "conv_last_weight_grad"):
        g = Geometry(rng, 2, 1)
        g.channels, g.kernel, g.space = channels, (7, 5), (15, 14)
        g.window |= {"stride": (2, 1), "low": (3, 2), "high": (3, 1), "w_dilation": (1, 1)}
        for dtype in (float32, np.dtype("float16")):
            check(*case(form, g, rng, dtype, dtype))


def test_narrow_floats_are_widened_once() -> None:
    rng = np.random.default_rng(12)
    half, n = np.dtype("float16"), Symbol("n", 1, 64)
    for kernel in ((1, 1), (3, 2)):
        g = Geometry(rng, 2, 1)
        g.kernel, g.channels, g.filters, g.batch = kernel, 13, 37, 3
        g.window |= {"stride": (1, 1), "low": (0, 0), "high": (0, 0), "w_dilation": (1, 1)}
        for form in FORMS:
            graph, values, terms = case(form, g, rng, half, half)
            names = [s.kernel.name for s in lowered(graph).steps]
            assert len(names) == 2 and names[0] == "conv_widened"
            check(graph, values, terms)
        x = graph.input_types[0]
        plain, values, _ = case("conv_last", g, rng, half, half)
        several = TensorType((affine(0, [(n, 1)]), *x.shape[1:]), half)
        symbolic = region("conv_last", [several, plain.input_types[1]], plain.equations[0].attributes)
        assert native(symbolic, values, 2, {n: 3})[0].tobytes() == native(plain, values)[0].tobytes()


@pytest.mark.parametrize("filters", [3, 8, 24])
def test_few_filters_fill_tiles_two_by_two(filters: int) -> None:
    """One vector of columns: tiles in pairs, an odd one left, blocks of depth between them."""
    rng = np.random.default_rng(filters)
    for channels, space in ((5, (13, 11)), (300, (9, 7))):
        g = Geometry(rng, 2, 1)
        g.channels, g.filters, g.kernel, g.space, g.batch = channels, filters, (3, 3), space, 2
        g.window |= {"stride": (1, 1), "low": (1, 1), "high": (1, 1), "w_dilation": (1, 1)}
        check(*case("conv_last", g, rng, float32, float32))


def test_many_channels_are_summed_in_blocks() -> None:
    rng = np.random.default_rng(1)
    for kernel in ((3, 3), (1, 1)):
        g = Geometry(rng, 2, 1)
        g.channels, g.filters, g.kernel, g.space, g.batch = 301, 70, kernel, (7, 7), 3
        g.window |= {"stride": (1, 1), "low": (0, 0), "high": (0, 0), "w_dilation": (1, 1)}
        for form in FORMS:
            check(*case(form, g, rng, float32, float32), pieces=(1, 2, 7))


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("kernel", [1, 3])
def test_rows_from_far_away_are_asked_for_and_bits_stay(
    rank: int, kernel: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A source that no cache of a core holds: tiles ask for rows of later ones, also beyond its end."""
    rng = np.random.default_rng([rank, kernel])
    small = replace(features(), l2=1)
    for form in ("conv_last", "conv_last_input_grad"):
        g = Geometry(rng, rank, 1)
        g.channels, g.filters, g.kernel = 21, 25, (kernel,) * rank
        graph, values, terms = case(form, g, rng, float32, float32)
        plain, texts = check(graph, values, terms), [s.kernel.text for s in lowered(graph).steps]
        with monkeypatch.context() as patched:
            patched.setattr(conv, "features", lambda: small)
            asking = [s.kernel.text for s in lowered(graph).steps]
            assert sum("prefetch" in t for t in asking) > sum("prefetch" in t for t in texts)
            assert check(graph, values, terms)[0].tobytes() == plain[0].tobytes()


def test_zeros_between_elements_of_x() -> None:
    rng = np.random.default_rng(2)
    g = Geometry(rng, 2, 1)
    g.window["x_dilation"] = (2, 3)
    for form in FORMS[:2]:
        check(*case(form, g, rng, float32, float32))
    graph, _, _ = case(FORMS[2], g, rng, float32, float32)
    assert conv.accepts(graph) == "the weight gradient of an input with zeros between its elements"


@pytest.mark.parametrize("batch, channels, filters", [(0, 4, 5), (2, 0, 5), (2, 4, 0)])
@pytest.mark.parametrize("form", FORMS)
def test_empty(form: str, batch: int, channels: int, filters: int) -> None:
    rng = np.random.default_rng(0)
    g = Geometry(rng, 2, 1)
    g.batch, g.channels, g.filters = batch, channels, filters
    graph, values, _ = case(form, g, rng, float32, float32)
    (got,) = native(graph, values, 2)
    np.testing.assert_array_equal(got, run(graph, values)[0])


def test_not_a_number_and_infinity_reach_what_they_touch() -> None:
    """And nothing else: padding multiplies them by zero only where the meaning does."""
    rng = np.random.default_rng(3)
    g = Geometry(rng, 2, 1)
    g.channels, g.filters, g.kernel, g.space = 5, 18, (3, 3), (8, 9)
    g.window |= {"stride": (1, 1), "low": (1, 1), "high": (1, 1), "w_dilation": (1, 1)}
    graph, values, _ = case("conv_last", g, rng, float32, float32)
    values[0][0, 2, 3, 1], values[0][0, 6, 6, 0] = np.nan, np.inf
    (got,), (want,) = native(graph, values), run(graph, values)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    np.testing.assert_array_equal(np.isposinf(got), np.isposinf(want))


# -- what follows a convolution ----------------------------------------------------------------------------


def with_epilogue(graph: Graph) -> Graph:
    """y -> y + b, max(y + b, 0) + r: two results, a per-channel and a full operand."""
    (e,) = graph.equations
    y = e.outputs[0].type
    bias, other = Var(TensorType(y.shape[-1:], y.dtype)), Var(y)
    equations = [e]

    def bind(name: str, *values: Var, **attributes: Any) -> Var:
        (t,) = result_types(table[name], [v.type for v in values], attributes)
        equations.append(Equation(table[name], values, attributes, (Var(t),)))
        return equations[-1].outputs[0]

    spread = bind("broadcast", bias, shape=y.shape, axes=(len(y.shape) - 1,))
    total = bind("add", e.outputs[0], spread)
    zero = bind("full", shape=y.shape, dtype=y.dtype, value=0.0)
    out = bind("add", bind("maximum", total, zero), other)
    return Graph((*graph.inputs, bias, other), equations, (total, out))


@pytest.mark.parametrize("form", FORMS)
def test_epilogue(form: str) -> None:
    rng = np.random.default_rng(4)
    for g in (Geometry(rng, 2, 1), Geometry(rng, 2, 20, channelwise=True)):
        plain, values, terms = case(form, g, rng, float32, float32)
        graph = with_epilogue(plain)
        values = [*values, *(random(rng, t.shape, t.dtype) for t in graph.input_types[2:])]
        got, want = native(graph, values, 3), run(graph, values)
        size = run(plain, [np.abs(v) for v in values[:2]])[0]
        for a, b in zip(got, want, strict=True):
            assert (
                np.abs(a - b) <= (2 * terms + 8) * np.finfo(np.float32).eps * (size + np.abs(b) + 1)
            ).all()


def test_refusals_say_why() -> None:
    rng = np.random.default_rng(5)
    g = Geometry(rng, 2, 1)
    graph, _, _ = case("conv_last", g, rng, float32, float32)
    two = Graph(
        graph.inputs,
        (*graph.equations, *region("conv_last", graph.input_types, graph.equations[0].attributes).equations),
        graph.outputs,
    )
    assert conv.accepts(two) == "2 convolutions in one region"
    plain = np.moveaxis(random(rng, g.w, float32), (0, 1), (-1, -2))
    odd = region("conv_last", [graph.input_types[0], *types_of([plain])], {**graph.equations[0].attributes})
    assert conv.accepts(odd) == "a weight that is neither in panels nor one filter per channel"
    narrow = table["conv_panels"].evaluate(random(rng, g.w, float32), groups=1, lanes=4, transposed=False)
    thin = region("conv_last", [graph.input_types[0], *types_of([narrow])], {**graph.equations[0].attributes})
    assert "panels of 4 columns" in str(conv.accepts(thin))
    c64 = np.dtype("complex64")
    values = [TensorType(t.shape, c64) for t in graph.input_types]
    complex_ = region("conv_last", values, {**graph.equations[0].attributes, "dtype": c64})
    assert conv.accepts(complex_) == "complex convolutions run on the host"


def test_symbolic_batch() -> None:
    """One plan serves every batch."""
    n = Symbol("n", 1, 64)
    rng = np.random.default_rng(6)
    g = Geometry(rng, 2, 1)
    for form in FORMS:
        g.batch = 5
        graph, values, terms = case(form, g, rng, float32, float32)
        any_batch = [
            TensorType((affine(0, [(n, 1)]), *t.shape[1:]), t.dtype) if t.shape[0] == 5 and t.ndim == 4 else t
            for t in graph.input_types
        ]
        symbolic = region(form, any_batch, graph.equations[0].attributes)
        (got,), (want,) = native(symbolic, values, 2, {n: 5}), run(graph, values)
        size = run(graph, [np.abs(v) for v in values])[0]
        assert (np.abs(got - want) <= 2 * terms * np.finfo(np.float32).eps * size).all()


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8", "float64"])
def test_panels(transposed: bool, dtype: str) -> None:
    rng = np.random.default_rng(8)
    for shape, groups in (((33, 5, 3, 2), 1), ((36, 7, 3), 3), ((4, 40), 1), ((6, 3, 0), 1)):
        w = random(rng, shape, np.dtype(dtype))
        graph = region(
            "conv_panels", types_of([w]), {"groups": groups, "lanes": 16, "transposed": transposed}
        )
        (got,), (want,) = native(graph, [w], 3), run(graph, [w])
        assert got.tobytes() == want.tobytes()


@pytest.mark.parametrize("host", [SSE2, AARCH64], ids=["sse2", "aarch64"])
def test_text_compiles_for_other_machines(host: Any) -> None:
    from trilobite.compiler.targets.cpu.contraction.convolution import lower_root
    from trilobite.compiler.targets.cpu.epilogue import epilogue_of

    rng = np.random.default_rng(10)
    for form in FORMS:
        for g in (Geometry(rng, 2, 1), Geometry(rng, 2, 5, channelwise=True)):
            graph, _, _ = case(form, g, rng, float32, float32, host)
            epilogue = epilogue_of(graph, graph.equations[0])
            assert epilogue is not None
            for step in lower_root(graph.equations[0], epilogue, (0, 1), host).steps:
                assert "entry" in assembly(step.kernel.text, step.kernel.level, host)


def test_one_text_serves_all_sizes() -> None:
    rng = np.random.default_rng(11)
    texts = set()
    for _ in range(4):
        graph, _, _ = case("conv_last", Geometry(rng, 2, 1), rng, float32, float32)
        texts |= {s.kernel.text for s in lowered(graph).steps if s.kernel.name == "conv"}
    assert len(texts) == 1
