"""Export: networks, symbolic sizes, control flow, quantised graphs; names, files and errors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import trilobite as tb
from tests.inference.export.running import apart, by_reference, by_runtime
from trilobite.base import pytree
from trilobite.base.errors import ArgumentError, IRError, StateError
from trilobite.framework.tensor import wrap
from trilobite.inference import export, load
from trilobite.ir.primitives import table

onnx = pytest.importorskip("onnx")
Array = np.ndarray[Any, Any]


def rng() -> np.random.Generator:
    return np.random.default_rng(5)


def normal(*shape: int) -> Array:
    return rng().standard_normal(shape).astype(np.float32)


def flat(result: Any) -> list[Array]:
    leaves = pytree.flatten(result, lambda v: isinstance(v, tb.Tensor))[0]
    return [np.asarray(x) for x in leaves if x is not None]


def by_import(model: Any, feeds: dict[str, Array]) -> list[Array]:
    """The importer of this house."""
    return [np.asarray(y) for y in load(model).run(feeds).values()]


def compared(
    f: Callable[..., Any], *inputs: Array, bound: float = 2e-5, run: Any = by_reference, **options: Any
) -> Any:
    """Export, run elsewhere, compare with what the function gives here."""
    with tb.no_grad():
        wanted = flat(f(*(tb.tensor(x) for x in inputs)))
    model = export(f, tuple(tb.tensor(x) for x in inputs), **options)
    found = run(model, {i.name: x for i, x in zip(model.graph.input, inputs, strict=True)})
    assert len(found) == len(wanted)
    for got, want in zip(found, wanted, strict=True):
        assert apart(got, want) < bound
    return model


def operators(graph: Any) -> set[str]:
    """Of a graph and its bodies."""
    found = {n.op_type for n in graph.node}
    for n in graph.node:
        for a in n.attribute:
            found |= operators(a.g) if a.HasField("g") else set()
    return found


# -- networks ------------------------------------------------------------------------------------------------

TINY = {"vocabulary": 61, "context": 16, "width": 24, "heads": 3, "layers": 2}
TOKENS = np.random.default_rng(1).integers(0, 61, (2, 9))
SMALL: dict[str, tuple[dict[str, Any], Array]] = {
    "mlp": ({}, normal(3, 784)),
    "lenet": ({}, normal(2, 1, 28, 28)),
    "char_lstm": ({}, TOKENS),
    "char_transformer": ({}, TOKENS),
    "gpt2": (TINY, TOKENS),
    "bert_base": (TINY, TOKENS),
}
LARGE: dict[str, tuple[dict[str, Any], Array]] = {
    **{n: ({}, normal(1, 3, 64, 64)) for n in ("resnet18", "resnet34", "resnet50", "mobilenet_v2", "vgg19")},
    "resnet18_32x32": ({}, normal(2, 3, 32, 32)),
    "alexnet": ({}, normal(1, 3, 224, 224)),
    "googlenet": ({}, normal(1, 3, 96, 96)),
    "efficientnet_lite0": ({}, normal(1, 3, 64, 64)),
    "unet": ({}, normal(1, 1, 64, 64)),
    "tiny_yolov3": ({}, normal(1, 3, 64, 64)),
    "style_transform": ({}, normal(1, 3, 64, 64)),
}


def network(name: str) -> tuple[tb.nn.Module, Array]:
    options, x = {**SMALL, **LARGE}[name]
    return tb.zoo.create(name, **options).eval(), x


@pytest.mark.parametrize("name", list(SMALL))
def test_small_networks_by_the_reference_evaluator(name: str) -> None:
    model, x = network(name)
    compared(model, x)


@pytest.mark.parametrize("name", list(SMALL))
def test_small_networks_come_back_by_our_own_importer(name: str) -> None:
    model, x = network(name)
    compared(model, x, run=by_import)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", list(LARGE))
def test_large_networks_come_back_by_our_own_importer(name: str) -> None:
    model, x = network(name)
    compared(model, x, run=by_import)


def test_all_networks_of_the_zoo_are_here() -> None:
    assert {*tb.zoo.names()} == {*SMALL, *LARGE}


@pytest.mark.peer
@pytest.mark.timeout(600)
@pytest.mark.parametrize("opset", [21, 23])
@pytest.mark.parametrize("name", [*SMALL, *LARGE])
def test_every_network_by_onnx_runtime(name: str, opset: int) -> None:
    pytest.importorskip("onnxruntime")
    model, x = network(name)
    compared(model, x, run=by_runtime, opset=opset)


def test_weights_keep_their_names_and_bits() -> None:
    model = tb.zoo.create("lenet").eval()
    found = export(model, tb.tensor(normal(1, 1, 28, 28)))
    weights = {t.name: onnx.numpy_helper.to_array(t) for t in found.graph.initializer}
    for name, p in model.named_parameters():
        assert weights[name].tobytes() == np.asarray(p.detach()).tobytes(), name


def test_composites_stay_whole() -> None:
    model, x = network("gpt2")
    found = export(model, (tb.tensor(x),))
    assert {"LayerNormalization", "Gelu"} <= operators(found.graph)
    found = export(model, (tb.tensor(x),), opset=23)
    assert {"LayerNormalization", "Gelu", "Attention"} <= operators(found.graph)


# -- symbolic sizes ------------------------------------------------------------------------------------------


def test_a_symbolic_length() -> None:
    model, _ = network("gpt2")
    t = tb.dim("t", max=16)
    made = export(model, (tb.tensor(TOKENS),), shapes=((2, t),))
    dims = [d.dim_param or d.dim_value for d in made.graph.input[0].type.tensor_type.shape.dim]
    assert dims == [2, "t"]
    for length in (1, 16, 5):
        x = rng().integers(0, 61, (2, length))
        with tb.no_grad():
            wanted = flat(model(tb.tensor(x)))
        (found,) = by_reference(made, {made.graph.input[0].name: x})
        assert apart(found, wanted[0]) < 2e-5


def test_sizes_that_are_sums_of_symbols() -> None:
    n, m = tb.dim("n", max=64), tb.dim("m", max=64)

    def f(x: tb.Tensor, y: tb.Tensor) -> Any:
        both = tb.concat([x, y], axis=0)
        return both.reshape(-1), tb.arange(both.shape[0]) + 1, tb.zeros((2 * x.shape[0], 3)) + 1.5

    made = export(f, (tb.ones((2, 3)), tb.ones((4, 3))), shapes=((n, 3), (2 * m, 3)))
    for a, b in ((1, 2), (5, 8)):
        x, y = normal(a, 3), normal(b, 3)
        wanted = flat(f(tb.tensor(x), tb.tensor(y)))
        found = by_reference(made, {"x": x, "y": y})
        assert [apart(g, w) for g, w in zip(found, wanted, strict=True)] == [0.0] * 3


# -- control flow --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [2.0, -3.0])
def test_cond_is_an_if(value: float) -> None:
    w = tb.tensor(normal(4))

    def f(x: tb.Tensor) -> Any:
        return tb.cond(x.sum() > 0, lambda v: (v * w, v), lambda v: (v - 1.0, w), x)

    made = compared(f, np.full(4, value, np.float32))
    assert "If" in operators(made.graph)


def test_a_branch_within_a_branch_reads_what_is_outside() -> None:
    def f(x: tb.Tensor, y: tb.Tensor) -> Any:
        inner = lambda v: tb.cond(y.sum() > 0, lambda u: u + y, lambda u: u * y, v)  # noqa: E731
        return tb.cond(x.sum() > 0, inner, lambda v: v, x)

    for a, b in ((1.0, 1.0), (1.0, -1.0), (-1.0, 1.0)):
        compared(f, np.full(3, a, np.float32), np.full(3, b, np.float32))


@pytest.mark.parametrize("reverse", [False, pytest.param(True, marks=pytest.mark.peer)])
def test_scan_is_a_scan(reverse: bool) -> None:
    """onnx's evaluator does not run backwards."""
    w = tb.tensor(normal(3, 3))

    def f(h: tb.Tensor, xs: tb.Tensor) -> Any:
        return tb.scan(lambda c, x: ((c @ w + x).tanh(), (c * 2).sum()), h, xs, reverse=reverse)

    run = by_runtime if reverse else by_reference
    made = compared(f, normal(2, 3), rng().standard_normal((5, 2, 3)).astype(np.float32), run=run)
    assert "Scan" in operators(made.graph)


@pytest.mark.parametrize("reverse", [False, True])
def test_a_scan_over_a_length_is_a_loop(reverse: bool) -> None:
    def f(h: tb.Tensor) -> Any:
        return tb.scan(lambda c, _: (c * 1.5 - 1.0, c * c), h, length=4, reverse=reverse)

    made = compared(f, normal(3))
    assert "Loop" in operators(made.graph)


@pytest.mark.parametrize("value", [0.5, 3.0, 90.0])
def test_while_is_a_loop(value: float) -> None:
    step = tb.tensor(1.25)

    def f(x: tb.Tensor) -> Any:
        return tb.while_loop(
            lambda s: s[0].sum() < 20, lambda s: (s[0] * step + 1.0, s[1] + 1), (x, tb.tensor(0))
        )

    made = compared(f, np.full(2, value, np.float32))
    assert "Loop" in operators(made.graph)


# -- quantised graphs ----------------------------------------------------------------------------------------


def quantised_layer(x: tb.Tensor) -> tb.Tensor:
    """Integers from end to end: quantised input, integer product, scale at the end."""
    weight = rng().integers(-128, 128, (16, 8)).astype(np.int8)
    scale, zero = np.float32(0.05), np.int8(3)
    q = table["quantise"](x._read(), np.asarray(scale), np.asarray(zero), axis=None, dtype=np.dtype(np.int8))
    total = table["dot"](q, weight, contract=((1,), (0,)), batch=((), ()), dtype=np.dtype(np.int32))
    return wrap(
        table["mul"](
            table["cast"](total, dtype=np.dtype(np.float32)),
            table["full"](shape=(4, 8), dtype=np.dtype(np.float32), value=0.001),
        )
    )


def test_integer_products_keep_their_integers() -> None:
    made = compared(quantised_layer, normal(4, 16) * 3)
    assert {"QuantizeLinear", "MatMulInteger"} <= operators(made.graph)
    assert {t.data_type for t in made.graph.initializer if len(t.dims) == 2} == {onnx.TensorProto.INT8}


@pytest.mark.parametrize("axis", [None, 0])
def test_dequantised_weights_stay_integers(axis: int | None) -> None:
    q = rng().integers(-8, 8, (6, 5)).astype(np.int8)
    scale = (np.abs(normal(6)) + 0.1) if axis == 0 else np.float32(0.3)
    zero = np.arange(6, dtype=np.int8) if axis == 0 else np.int8(1)

    def f(x: tb.Tensor) -> tb.Tensor:
        w = table["dequantise"](q, np.asarray(scale), np.asarray(zero), axis=axis)
        return x @ wrap(w)

    made = compared(f, normal(3, 6))
    assert {t.data_type for t in made.graph.initializer if tuple(t.dims) == (6, 5)} == {onnx.TensorProto.INT8}


# -- names, files, errors ------------------------------------------------------------------------------------


def test_names_come_from_the_function_and_can_be_given() -> None:
    def f(image: tb.Tensor, pair: tuple[tb.Tensor, tb.Tensor]) -> Any:
        return {"a": image + pair[0], "b": pair[1] * 2}

    x = tb.ones(2)
    made = export(f, (x, (x, x)))
    assert [i.name for i in made.graph.input] == ["image", "pair_0", "pair_1"]
    assert [o.name for o in made.graph.output] == ["output_0", "output_1"]
    made = export(f, (x, (x, x)), input_names=["i", "j", "k"], output_names=["sum", "double"])
    assert [i.name for i in made.graph.input] == ["i", "j", "k"]
    assert [o.name for o in made.graph.output] == ["sum", "double"]
    with pytest.raises(ArgumentError, match="2 names"):
        export(f, (x, (x, x)), input_names=["i", "j"])
    with pytest.raises(ArgumentError, match="for 2 outputs"):
        export(f, (x, (x, x)), output_names=["i", "i"])


def test_an_output_that_is_an_input_or_stands_twice() -> None:
    made = compared(lambda x: (x, x, x + 1, x.reshape(2, 2)), normal(4))
    assert len({o.name for o in made.graph.output}) == 4


def test_a_file_is_written(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    export(lambda x: x.sin(), tb.ones(3), path)
    (found,) = by_reference(onnx.load(path), {"x": normal(3)})
    assert apart(found, np.sin(normal(3))) < 1e-6


def test_weights_beyond_a_gigabyte_stand_beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from trilobite.inference.export import api

    monkeypatch.setattr(api, "_INLINE", 1 << 12)
    w = tb.tensor(normal(64, 64))
    export(lambda x: x @ w, tb.ones((1, 64)), tmp_path / "m.onnx")
    assert (tmp_path / "m.onnx.data").stat().st_size >= 4 * 64 * 64
    (found,) = by_reference(onnx.load(tmp_path / "m.onnx"), {"x": normal(1, 64)})
    assert apart(found, normal(1, 64) @ np.asarray(w)) < 1e-5


def test_what_has_no_form_is_refused_all_at_once() -> None:
    def f(x: tb.Tensor) -> Any:
        return tb.linalg.cholesky(x), tb.linalg.svdvals(x)

    with pytest.raises(IRError, match="2 equations have no form there") as e:
        export(f, tb.eye(3))
    assert (
        "cholesky at " in str(e.value) and "svdvals at " in str(e.value) and "test_export.py" in str(e.value)
    )


def test_a_model_that_writes_state_is_refused() -> None:
    with pytest.raises(StateError, match=r"(?s)BatchNorm2d writes state.*eval\(\)"):
        export(tb.nn.BatchNorm2d(3), tb.ones((2, 3, 4, 4)))


def test_an_opset_that_is_not_written() -> None:
    with pytest.raises(ArgumentError, match=r"(?s)export to opset 9.*21, 22, 23"):
        export(lambda x: x, tb.ones(1), opset=9)


def test_what_a_gradient_computes_is_exported_too() -> None:
    w = tb.tensor(normal(5, 5))
    compared(tb.grad(lambda x: ((x @ w).tanh() ** 2).sum()), normal(3, 5), bound=5e-5)
