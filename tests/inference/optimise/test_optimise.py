"""`trilobite optimize`: each rewrite before and after, results equal, and what must not be touched."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from trilobite.base.errors import FileError
from trilobite.cli import COMMANDS
from trilobite.cli.application import application
from trilobite.inference import load, optimize

onnx = pytest.importorskip("onnx")
helper, numpy_helper = onnx.helper, onnx.numpy_helper
FLOAT, INT64 = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64
RNG = np.random.default_rng(7)


def array(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def model(
    nodes: Sequence[Any],
    inputs: Mapping[str, Sequence[Any]],
    outputs: Mapping[str, Sequence[Any] | None],
    constants: Mapping[str, np.ndarray] | None = None,
    opset: int = 17,
) -> Any:
    given = [helper.make_tensor_value_info(n, FLOAT, s) for n, s in inputs.items()]
    made = [helper.make_tensor_value_info(n, FLOAT, s) for n, s in outputs.items()]
    tensors = [numpy_helper.from_array(np.asarray(a), n) for n, a in (constants or {}).items()]
    graph = helper.make_graph(list(nodes), "g", given, made, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


def same(proto: Any, feeds: Mapping[str, np.ndarray], exact: bool = True) -> list[str]:
    """Operators that are left; the results of both are compared on the way."""
    kept = proto.SerializeToString()
    found = optimize(proto)
    assert proto.SerializeToString() == kept  # the given model is not changed
    onnx.checker.check_model(found.model, full_check=True)
    before = load(proto, target="reference").run(feeds)
    after = load(found.model, target="reference").run(feeds)
    assert list(before) == list(after)
    for name, value in before.items():
        if exact:
            assert np.array_equal(value, after[name]), name
        else:
            np.testing.assert_allclose(value, after[name], rtol=2e-5, atol=2e-5)
    assert found.after == len(found.model.graph.node)
    return [n.op_type for n in found.model.graph.node]


def node(op: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: Any) -> Any:
    return helper.make_node(op, inputs, outputs, **attributes)


def test_shape_arithmetic_with_one_open_size_is_folded_where_it_is_known() -> None:
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Gather", ["s", "one"], ["c"], axis=0),
        node("Unsqueeze", ["c", "zero"], ["cu"]),
        node("Concat", ["minus", "cu"], ["target"], axis=0),
        node("Reshape", ["x", "target"], ["y"]),
    ]
    constants = {"one": np.array(1), "zero": np.array([0]), "minus": np.array([-1])}
    proto = model(nodes, {"x": ["n", 6, 2]}, {"y": [None, 6]}, constants)
    assert same(proto, {"x": array(3, 6, 2)}) == ["Reshape"]


def test_open_sizes_stay_computed() -> None:
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Gather", ["s", "zero"], ["n"], axis=0),
        node("Concat", ["n", "minus"], ["target"], axis=0),
        node("Reshape", ["x", "target"], ["y"]),
    ]
    constants = {"zero": np.array([0]), "minus": np.array([-1])}
    proto = model(nodes, {"x": ["n", 6, 2]}, {"y": [None, 12]}, constants)
    assert same(proto, {"x": array(3, 6, 2)}) == ["Shape", "Gather", "Concat", "Reshape"]


def test_pairs_that_undo_each_other() -> None:
    nodes = [
        node("Transpose", ["x"], ["a"], perm=[2, 0, 1]),
        node("Transpose", ["a"], ["b"], perm=[1, 2, 0]),
        node("Cast", ["b"], ["c"], to=onnx.TensorProto.DOUBLE),
        node("Cast", ["c"], ["d"], to=FLOAT),
        node("Reshape", ["d", "flat"], ["e"]),
        node("Reshape", ["e", "back"], ["f"]),
        node("Identity", ["f"], ["g"]),
        node("Dropout", ["g"], ["h"]),
        node("Relu", ["h"], ["y"]),
    ]
    constants = {"flat": np.array([-1]), "back": np.array([2, 3, 4])}
    proto = model(nodes, {"x": [2, 3, 4]}, {"y": [2, 3, 4]}, constants)
    assert same(proto, {"x": array(2, 3, 4)}) == ["Relu"]


def test_casts_that_lose_something_stay() -> None:
    nodes = [
        node("Cast", ["x"], ["a"], to=INT64),
        node("Cast", ["a"], ["y"], to=FLOAT),
    ]
    assert same(model(nodes, {"x": [4]}, {"y": [4]}), {"x": array(4) * 5}) == ["Cast", "Cast"]


def test_transposes_that_do_not_cancel_become_one() -> None:
    nodes = [
        node("Transpose", ["x"], ["a"], perm=[2, 0, 1]),
        node("Transpose", ["a"], ["y"], perm=[0, 2, 1]),
    ]
    assert same(model(nodes, {"x": [2, 3, 4]}, {"y": [4, 3, 2]}), {"x": array(2, 3, 4)}) == ["Transpose"]


@pytest.mark.parametrize("op", ["Conv", "ConvTranspose"])
@pytest.mark.parametrize("bias", [True, False])
def test_normalisation_scale_and_bias_go_into_the_layer(op: str, bias: bool) -> None:
    w = array(6, 2, 3, 3) if op == "Conv" else array(4, 3, 3, 3)
    nodes = [
        node(op, ["x", "w", *(["b"] if bias else [])], ["a"], group=2),
        node("BatchNormalization", ["a", "s", "t", "m", "v"], ["c"], epsilon=1e-3),
        node("Mul", ["c", "k"], ["d"]),
        node("Add", ["l", "d"], ["y"]),
    ]
    constants = {"w": w, "b": array(6), "s": array(6), "t": array(6), "m": array(6), "v": array(6) ** 2 + 0.1,
                 "k": array(1, 6, 1, 1), "l": array(6, 1, 1)}  # fmt: skip
    size = 5 if op == "Conv" else 9
    proto = model(nodes, {"x": [1, 4, 7, 7]}, {"y": [1, 6, size, size]}, constants)
    assert same(proto, {"x": array(1, 4, 7, 7)}, exact=False) == [op]


@pytest.mark.parametrize("across", [0, 1])
def test_products_of_matrices_take_their_bias_and_scale(across: int) -> None:
    weight = array(8, 5) if across else array(5, 8)
    nodes = [
        node("Gemm", ["x", "w", "b"], ["a"], transB=across),
        node("BatchNormalization", ["a", "s", "t", "m", "v"], ["c"]),
        node("MatMul", ["c", "u"], ["d"]),
        node("Add", ["d", "e"], ["y"]),
    ]
    constants = {"w": weight, "b": array(8), "s": array(8), "t": array(8), "m": array(8), "v": array(8) ** 2,
                 "u": array(8, 3), "e": array(3)}  # fmt: skip
    proto = model(nodes, {"x": [2, 5]}, {"y": [2, 3]}, constants)
    assert same(proto, {"x": array(2, 5)}, exact=False) == ["Gemm", "Gemm"]


def test_a_layer_that_others_read_keeps_its_normalisation() -> None:
    nodes = [
        node("Conv", ["x", "w"], ["a"]),
        node("Mul", ["a", "k"], ["b"]),
        node("Add", ["a", "b"], ["y"]),
    ]
    proto = model(
        nodes, {"x": [1, 2, 5, 5]}, {"y": [1, 3, 3, 3]}, {"w": array(3, 2, 3, 3), "k": array(3, 1, 1)}
    )
    assert same(proto, {"x": array(1, 2, 5, 5)}) == ["Conv", "Mul", "Add"]


def test_a_factor_for_each_pixel_is_no_factor_for_each_channel() -> None:
    nodes = [node("Conv", ["x", "w"], ["a"]), node("Mul", ["a", "k"], ["y"])]
    proto = model(nodes, {"x": [1, 2, 5, 5]}, {"y": [1, 3, 3, 3]}, {"w": array(3, 2, 3, 3), "k": array(3)})
    assert same(proto, {"x": array(1, 2, 5, 5)}) == ["Conv", "Mul"]


@pytest.mark.parametrize(("value", "left"), [(0.0, ["Conv"]), (1.0, ["Pad", "Conv"])])
def test_zeros_around_pixels_are_the_convolutions_own(value: float, left: list[str]) -> None:
    nodes = [
        node("Pad", ["x", "pads", "value"], ["a"]),
        node("Conv", ["a", "w"], ["y"], pads=[0, 1, 0, 0], strides=[2, 1]),
    ]
    constants = {
        "pads": np.array([0, 0, 1, 2, 0, 0, 3, 0]),
        "value": np.float32(value),
        "w": array(3, 2, 3, 3),
    }
    proto = model(nodes, {"x": [1, 2, 5, 5]}, {"y": [1, 3, None, None]}, constants)
    assert same(proto, {"x": array(1, 2, 5, 5)}) == left


def test_equal_nodes_and_constants_are_one() -> None:
    nodes = [
        node("Mul", ["x", "k"], ["a"]),
        node("Mul", ["x", "l"], ["b"]),
        node("Sub", ["a", "b"], ["c"]),
        node("RandomNormalLike", ["x"], ["r"]),
        node("RandomNormalLike", ["x"], ["q"]),
        node("Sub", ["r", "r"], ["z"]),
        node("Sub", ["q", "q"], ["p"]),
        node("Sum", ["c", "z", "p"], ["y"]),
    ]
    k = array(4)
    proto = model(nodes, {"x": [4]}, {"y": [4]}, {"k": k, "l": k.copy(), "unused": array(9)})
    left = same(proto, {"x": array(4)})
    assert left.count("RandomNormalLike") == 2
    assert left.count("Mul") == 1
    assert [t.name for t in optimize(proto).model.graph.initializer] == ["k"]


def test_outputs_keep_their_names_and_inputs_may_be_outputs() -> None:
    nodes = [
        node("Relu", ["x"], ["a"]),
        node("Identity", ["a"], ["y"]),
        node("Identity", ["a"], ["z"]),
        node("Identity", ["x"], ["w"]),
    ]
    proto = model(nodes, {"x": [4]}, {"y": [4], "z": [4], "w": [4]})
    same(proto, {"x": array(4)})
    single = model(nodes[:2], {"x": [4]}, {"y": [4]})
    assert same(single, {"x": array(4)}) == ["Relu"]


def test_bodies_are_rewritten_and_see_constants_from_outside() -> None:
    def branch(name: str, op: str) -> Any:
        nodes = [
            node("Identity", ["k"], ["i" + name]),
            node("Neg", ["i" + name], ["n" + name]),
            node(op, ["h", "n" + name], ["o" + name]),
        ]
        return helper.make_graph(nodes, name, [], [helper.make_tensor_value_info("o" + name, FLOAT, [4])])

    nodes = [
        node("Identity", ["x"], ["h"]),
        node("ReduceSum", ["x"], ["sum"], keepdims=0),
        node("Greater", ["sum", "zero"], ["up"]),
        node("If", ["up"], ["y"], then_branch=branch("a", "Add"), else_branch=branch("b", "Mul")),
    ]
    proto = model(nodes, {"x": [4]}, {"y": [4]}, {"k": array(4), "zero": np.float32(0)})
    for feeds in ({"x": np.abs(array(4))}, {"x": -np.abs(array(4))}):
        found = optimize(proto)
        onnx.checker.check_model(found.model, full_check=True)
        want, got = (load(m, target="reference").run(feeds)["y"] for m in (proto, found.model))
        assert np.array_equal(want, got)
    (last,) = [n for n in found.model.graph.node if n.op_type == "If"]
    assert [[n.op_type for n in a.g.node] for a in last.attribute] in ([["Add"], ["Mul"]], [["Mul"], ["Add"]])
    assert not any(n.op_type == "Identity" for n in found.model.graph.node)


def test_operators_that_nobody_knows_stay() -> None:
    nodes = [
        node("Mystery", ["x"], ["a"], domain="some.where", depth=3),
        node("Identity", ["a"], ["b"]),
        node("Mystery", ["b"], ["y"], domain="some.where", depth=3),
    ]
    proto = model(nodes, {"x": [4]}, {"y": [4]})
    proto.opset_import.append(helper.make_opsetid("some.where", 1))
    assert [n.op_type for n in optimize(proto).model.graph.node] == ["Mystery", "Mystery"]


def test_old_files_lose_the_list_of_their_constants() -> None:
    nodes = [node("Conv", ["x", "w"], ["a"]), node("BatchNormalization", ["a", "s", "t", "m", "v"], ["y"])]
    constants = {"w": array(3, 2, 3, 3), "s": array(3), "t": array(3), "m": array(3), "v": array(3) ** 2}
    shapes = {"x": [1, 2, 5, 5], **{n: list(a.shape) for n, a in constants.items()}}
    proto = model(nodes, shapes, {"y": [1, 3, 3, 3]}, constants, opset=8)
    proto.ir_version = 3
    found = optimize(proto).model
    assert [i.name for i in found.graph.input] == ["x"]
    assert [n.op_type for n in found.graph.node] == ["Conv"]
    proto.ir_version = 9  # here the list means that others may be given: nothing may be computed with them
    assert [n.op_type for n in optimize(proto).model.graph.node] == ["Conv", "BatchNormalization"]


def test_quantised_weights_stay_integers() -> None:
    nodes = [
        node("DequantizeLinear", ["q", "scale"], ["w"]),
        node("Conv", ["x", "w"], ["y"]),
    ]
    constants = {"q": RNG.integers(-128, 127, (3, 2, 3, 3)).astype(np.int8), "scale": np.float32(0.02)}
    proto = model(nodes, {"x": [1, 2, 5, 5]}, {"y": [1, 3, 3, 3]}, constants)
    assert same(proto, {"x": array(1, 2, 5, 5)}) == ["DequantizeLinear", "Conv"]


def test_the_command_writes_counts_and_compares(tmp_path: Path) -> None:
    nodes = [node("Conv", ["x", "w"], ["a"]), node("Mul", ["a", "k"], ["y"])]
    proto = model(
        nodes, {"x": [1, 2, 5, 5]}, {"y": [1, 3, 3, 3]}, {"w": array(3, 2, 3, 3), "k": array(3, 1, 1)}
    )
    source, out = tmp_path / "m.onnx", tmp_path / "small.onnx"
    onnx.save(proto, source)
    words = ["optimize", str(source), "-o", str(out)]
    done = CliRunner().invoke(application(COMMANDS), words)
    assert done.exit_code == 0, done.output
    assert "2 nodes became 1" in done.output
    facts = json.loads(CliRunner().invoke(application(COMMANDS), [*words, "--json"]).output)
    assert facts["nodes"] == 1
    assert facts["rewrites"]["nodes joined with layers"] == 1
    assert facts["outputs"][0]["agrees"]
    assert [n.op_type for n in onnx.load(out).graph.node] == ["Conv"]


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "damaged.onnx"
    path.write_bytes(b"\x08\x09nonsense" * 9)
    with pytest.raises(FileError):
        optimize(path)


BIASES = {  # weight, bias, shape of the first operand, whether both are one Gemm
    "matrices": ((5, 4), (4,), [3, 5], True),
    "batches": ((5, 4), (4,), [2, 3, 5], False),
    "batches of weights": ((2, 5, 4), (4,), [2, 3, 5], False),
    "a bias of rows": ((5, 4), (3, 1), [3, 5], False),
    "a bias of one number": ((5, 4), (1,), [3, 5], False),
    "a bias that widens": ((5, 1), (4,), [3, 5], False),
}


@pytest.mark.parametrize("name", BIASES)
@pytest.mark.parametrize("first", [True, False])
def test_a_product_takes_a_bias_of_its_columns_alone(name: str, first: bool) -> None:
    weight, bias, shape, joined = BIASES[name]
    nodes = [
        node("MatMul", ["x", "w"], ["a"]),
        node("Add", ["a", "b"] if first else ["b", "a"], ["y"]),
    ]
    proto = model(nodes, {"x": shape}, {"y": [*shape[:-1], 4]}, {"w": array(*weight), "b": array(*bias)})
    assert same(proto, {"x": array(*shape)}, exact=False) == (["Gemm"] if joined else ["MatMul", "Add"])
