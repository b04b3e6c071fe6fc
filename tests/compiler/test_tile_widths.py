"""Tiles of 64 bytes beside tiles of 32: the same bits, and nothing read or written beyond memory's ends.

On a machine without AVX-512 there is one width; the text for the other is still compiled there.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

import trilobite as tb
from tests.compiler.conv import convolutions
from tests.compiler.conv.convolutions import region, types_of
from tests.compiler.conv.test_convolution import FORMS, Geometry, case
from tests.compiler.fences import fenced
from tests.compiler.gemm import products
from tests.compiler.loops.regions import Region
from trilobite.base.dtypes import float32, float64
from trilobite.compiler.targets.cpu.contraction.gemm.tiling import plan_for, plan_of, plans
from trilobite.compiler.targets.cpu.contraction.tiling import tiling_of, tilings
from trilobite.compiler.targets.cpu.nests.lower import lowered
from trilobite.compiler.targets.cpu.passes.bytes import panel_lanes
from trilobite.compiler.targets.cpu.passes.layout import layout
from trilobite.ir.graph import Graph
from trilobite.ir.primitive import table
from trilobite.native.host import Host, features
from trilobite.native.objects import assembly

Array = np.ndarray[Any, Any]
AVX2 = Host("x86_64-unknown-linux-gnu", "x86-64-v3", "+avx2,+fma,+f16c", 32, 16, fma=True, f16c=True)
AVX512 = replace(
    AVX2, cpu="x86-64-v4", features="+avx2,+fma,+f16c,+avx512f,+avx512vl,+avx512bw,+avx512dq", tile_bytes=64
)
both = pytest.mark.skipif(not features().tile_bytes, reason="tiles of this machine have one width")


def narrow_host() -> Host:
    return replace(features(), tile_bytes=0)


@pytest.fixture
def widths(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Sets the width of the machine's tiles."""

    def set_width(bytes: int) -> None:
        monkeypatch.setenv("TRILOBITE_TILE_BYTES", str(bytes))
        features.cache_clear()
        assert max(features().tile_bytes, 32) == bytes

    yield set_width
    monkeypatch.undo()
    features.cache_clear()


# -- which width -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "columns, panel",
    [(1, 16), (10, 16), (16, 16), (17, 32), (24, 32), (40, 16), (64, 32), (80, 16), (144, 32), (1000, 32)],
)
def test_wide_tiles_are_chosen_where_columns_fill_them(columns: int, panel: int) -> None:
    assert tiling_of(AVX512, float32, float32, columns).columns == panel
    assert plan_for(AVX512, float32, columns).columns == panel
    assert tiling_of(AVX2, float32, float32, columns).columns == 16
    assert plan_for(AVX2, float32, columns) == plan_of(AVX2, float32)


def test_integers_have_both_widths_and_depth_is_cut_alike() -> None:
    for operand, result in (("int8", "int32"), ("int32", "int32"), ("int64", "int64")):
        pair = np.dtype(operand), np.dtype(result)
        narrow, wide = tilings(AVX512, *pair)
        assert (narrow,) == tilings(AVX2, *pair) and wide.lanes == 2 * narrow.lanes
    assert [panel_lanes(AVX512, n) for n in (8, 16, 24, 40, 96)] == [16, 16, 32, 16, 32]
    assert [panel_lanes(AVX2, n) for n in (8, 96)] == [16, 16]
    assert plans(AVX512, np.dtype("int32"), True) == plans(AVX2, np.dtype("int32"), True)
    for dtype in (float32, float64):
        narrow_plan, wide_plan = plans(AVX512, dtype)
        assert wide_plan.columns == 2 * narrow_plan.columns and wide_plan.k_block == narrow_plan.k_block


def test_machines_of_two_widths_have_two_names() -> None:
    assert AVX512.name != replace(AVX512, tile_bytes=0).name


@pytest.mark.parametrize("text", ["16", "wide", "0"])
def test_a_width_that_makes_no_sense_is_an_error(text: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from trilobite.native.host import features; features()"],
        env={**os.environ, "TRILOBITE_TILE_BYTES": text}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert f"TRILOBITE_TILE_BYTES is '{text}'" in done.stderr and "on a machine with AVX-512" in done.stderr


# -- products ----------------------------------------------------------------------------------------------


@both
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_products_have_the_same_bits(dtype: str) -> None:
    """Panels that are cut off at every place, and depth of several blocks."""
    shapes = [(7, 17, 5), (6, 32, 8), (13, 63, 70), (5, 95, 401), (37, 130, 33), (2, 31, 1), (4, 64, 0)]
    for (m, n, k), turned in product(shapes, (False, True)):
        graph = products.matrices(m, n, k, dtype, ta=turned, tb=turned)
        values = products.matrices_of(graph, n)
        with fenced(values) as closed:
            (wide,) = products.native(graph, closed, (0.3,))
        (narrow,) = products.native(graph, values, host=narrow_host())
        assert wide.tobytes() == narrow.tobytes(), (m, n, k)


@both
@pytest.mark.parametrize("columns", [21, 32, 61])
def test_packed_products_have_the_same_bits(columns: int) -> None:
    rng = np.random.default_rng(columns)
    x, y = (rng.standard_normal(s).astype(np.float32) for s in ((9, 40), (40, columns)))
    found = []
    for plan in plans(features(), float32):
        panels = table["gemm_pack"].evaluate(y, contract=0, width=plan.columns)
        graph = products.graph_of(
            lambda a, b: table["dot_packed"](a, b, columns=columns, dtype=float32),
            (x.shape, "float32"), (panels.shape, "float32"),
        )  # fmt: skip
        with fenced([x, panels]) as closed:
            found.append(products.native(graph, closed, (0.5,))[0].tobytes())
    assert len(found) == 2 and found[0] == found[1]


# -- convolutions ------------------------------------------------------------------------------------------


def results(graph: Graph, values: list[Array]) -> bytes:
    with fenced(values) as closed:
        return b"".join(r.tobytes() for r in convolutions.native(graph, closed, 3, closed=True))


@both
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("groups", [1, 3])
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "int8", "int32"])
def test_convolutions_have_the_same_bits(form: str, groups: int, dtype: str, widths: Any) -> None:
    """The widest panels of either machine, over the same random geometry."""
    found: list[list[bytes]] = []
    for bytes in (64, 32):
        widths(bytes)
        rng, kind = np.random.default_rng([groups, len(form)]), np.dtype(dtype)
        cases = [case(form, Geometry(rng, 2, groups), rng, kind, kind) for _ in range(3)]
        found.append([results(graph, values) for graph, values, _ in cases])
    assert found[0] == found[1]


@both
@pytest.mark.parametrize("tile", [2, 4])
@pytest.mark.parametrize("filters", [7, 33, 48, 64])
def test_tiled_convolutions_have_the_same_bits(tile: int, filters: int) -> None:
    rng = np.random.default_rng(filters)
    x, w = (rng.standard_normal(s).astype(np.float32) for s in ((2, 9, 11, 37), (filters, 37, 3, 3)))
    found = []
    for kind in tilings(features(), float32, float32):
        panels = table["conv_panels"].evaluate(w, groups=1, lanes=kind.columns, transposed=False)
        window = {"tile": tile, "factor": (1, 1), "low": (1, 1), "high": (1, 0), "columns": filters,
                  "transposed": False, "dtype": float32}  # fmt: skip
        found.append(results(region("conv_winograd", types_of([x, panels]), window), [x, panels]))
    assert len(found) == 2 and found[0] == found[1]


@both
@pytest.mark.parametrize("tile", [2, 4])
def test_tiled_weight_gradients_have_the_same_bits(tile: int, widths: Any) -> None:
    rng = np.random.default_rng(tile)
    x, y = (rng.standard_normal(s).astype(np.float32) for s in ((3, 13, 10, 20), (3, 13, 10, 61)))
    window = {"tile": tile, "low": (1, 1), "high": (1, 1), "dtype": float32}
    graph = region("conv_winograd_weight_grad", types_of([x, y]), window)
    found = []
    for bytes in (64, 32):
        widths(bytes)
        found.append(results(graph, [x, y]))
    assert found[0] == found[1]


@both
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_attention_has_the_same_bits(dtype: str, masked: bool, widths: Any) -> None:
    """A query has a lane of its own, in vectors of either width."""
    rng = np.random.default_rng(3)
    shapes = (2, 3, 49, 40), (2, 3, 130, 40), (2, 3, 130, 32), (3, 49, 130)
    q, k, v, bias = (tb.tensor(rng.standard_normal(s).astype(dtype)) for s in shapes)
    attention = tb.nn.functional.scaled_dot_product_attention
    found = []
    for bytes in (64, 32):
        widths(bytes)
        f = tb.jit(lambda q, k, v, b: attention(q, k, v, b if masked else None, is_causal=not masked))
        found.append(f(q, k, v, bias).numpy().tobytes())
    assert found[0] == found[1]


# -- on any machine ----------------------------------------------------------------------------------------


FUNCTIONS: dict[str, Any] = {
    "exp": tb.exp, "log1p": lambda x: tb.log1p(tb.abs(x)), "tanh": tb.tanh, "sin": tb.sin, "erf": tb.erf,
    "sigmoid": tb.sigmoid, "gelu": tb.nn.functional.gelu, "pow": lambda x: tb.abs(x) ** 1.7,
    "atan2": lambda x: tb.atan2(x, tb.flip(x, axis=-1)), "lgamma": tb.lgamma,
    "padded": lambda x: tb.pad(tb.exp(x), ((1, 2), (3, 1))),
    "turned": lambda x: tb.tanh(tb.matrix_transpose(x)) + 1,
    "strided": lambda x: tb.exp(x[:, ::3]) * x[:, :1],
    "summed": lambda x: tb.sum(tb.exp(x), axis=-1),
    "softmax": lambda x: tb.softmax(x, -1),
    "mixed": lambda x: tb.exp(x).astype(tb.int32) + tb.tanh(x).astype(tb.int8),
    "chosen": lambda x: tb.where(x > 0, tb.log(x), tb.exp(x)),
}  # fmt: skip


@both
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_maps_of_functions_have_the_same_bits(function: str, dtype: str, widths: Any) -> None:
    rng = np.random.default_rng(7)
    for shape in ((1, 1), (3, 7), (5, 16), (9, 131)):
        x = rng.normal(0, 4, shape)
        special = [np.nan, np.inf, -np.inf, -0.0, 1e4][: x.size]
        x.flat[: len(special)] = special
        found = []
        for bytes in (32, 64):
            widths(bytes)
            compiled = tb.jit(FUNCTIONS[function], target="cpu")
            found.append(compiled(tb.asarray(x).astype(getattr(tb, dtype))))
        narrow, wide = (np.ascontiguousarray(y.numpy()) for y in found)
        np.testing.assert_array_equal(narrow.view(np.uint8), wide.view(np.uint8))


ROWS: dict[str, Any] = {
    "softmax": lambda x: tb.softmax(x, -1),
    "log softmax": lambda x: tb.nn.functional.log_softmax(x, -1),
    "logsumexp": lambda x: tb.logsumexp(x, -1),
    "most": lambda x: tb.max(x, axis=-1),
    "least": lambda x: tb.min(x, axis=-1),
    "sum of functions": lambda x: tb.sum(tb.tanh(x), axis=-1),
    "two sums": lambda x: (tb.sum(tb.exp(x), axis=-1), tb.max(tb.exp(-x), axis=-1)),
    "product": lambda x: tb.prod(1 + tb.exp(x), axis=-1),
    "whole": lambda x: tb.sum(tb.exp(x)),
}  # fmt: skip


@both
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("function", ROWS)
def test_rows_whose_vectors_go_in_pairs_have_the_same_bits(function: str, dtype: str, widths: Any) -> None:
    """Rows long enough, with whole blocks and all that may remain, with odd numbers and without."""
    rng = np.random.default_rng(8)
    for length in (191, 192, 193, 224, 255, 256, 263, 1000):
        x = rng.normal(0, 2, (4, length))
        x[1, [0, length // 2, -1]] = -0.0, np.inf, -np.inf
        x[2, length // 3] = np.nan
        found: list[Any] = []
        for bytes in (32, 64):
            widths(bytes)
            made = tb.jit(ROWS[function], target="cpu")(tb.asarray(x).astype(getattr(tb, dtype)))
            found.append([y.numpy().tobytes() for y in (made if isinstance(made, tuple) else (made,))])
        assert found[0] == found[1], length


def test_long_rows_of_functions_go_in_pairs_and_short_ones_do_not() -> None:
    for host, length, pairs in ((AVX512, 256, True), (AVX512, 128, False), (AVX2, 256, False)):
        r = Region()
        rows = r.graph(r.reduce_sum(r.exp(r.input((4, length))), axes=(1,)))
        (step,) = lowered(rows, host).steps
        assert ("in pairs" in step.kernel.notes) == pairs
        assert ("<16 x float>" in step.kernel.text) == pairs


def test_wide_text_uses_wide_registers_and_narrow_text_none() -> None:
    graph = products.matrices(12, 64, 16)
    for host, wide in ((AVX512, True), (AVX2, False)):
        (step,) = products.lowered(graph, host).steps
        assert ("zmm" in assembly(step.kernel.text, step.kernel.level, host)) == wide


def test_the_layout_pass_cuts_panels_by_columns() -> None:
    from tests.compiler.conv.test_winograd import recorded

    for host, filters, kernel, panel in (
        (AVX512, 80, 5, 32), (AVX512, 64, 5, 32), (AVX2, 64, 5, 16),  # what is left takes tiles of one vector
        (AVX512, 40, 3, 16), (AVX512, 64, 3, 32), (AVX2, 64, 3, 16),  # tiles of outputs have no such tile
    ):  # fmt: skip
        graph = recorded(64, filters, 14, kernel=kernel, stride=kernel // 2, pad=kernel // 2, batch=8)
        names = {e.primitive.name: e.attributes for e in layout(graph, host=host).equations}
        assert names["conv_panels"]["lanes"] == panel
        assert ("conv_winograd" in names) == (kernel == 3)
