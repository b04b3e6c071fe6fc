"""Graph-models of TensorFlow.js: the stored TensorFlow graphs in their JSON form, beside what TensorFlow
gave; layers joined with what follows them, beside the same layers apart.
"""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.inference.formats.graph_models import Row, rows_of, written
from trilobite.base.errors import ArgumentError, FileError
from trilobite.inference import load
from trilobite.inference.formats import to_onnx, weights

onnx = pytest.importorskip("onnx")
FILES = Path(__file__).parent / "files"
NAMES = sorted(p.stem for p in FILES.glob("*.pb"))


@pytest.mark.parametrize("name", NAMES)
def test_graphs_give_what_tensorflow_gives(name: str, tmp_path: Path) -> None:
    rows, arrays = rows_of(FILES / f"{name}.pb")
    with np.load(FILES / f"{name}_pb.npz") as found:
        kept = {k: found[k] for k in found.files}
    outputs = [str(n).removesuffix(":0") for n in kept["names"]]
    model = to_onnx(written(tmp_path, rows, arrays, outputs))
    onnx.checker.check_model(model, full_check=True)
    feeds = {str(name): kept[f"in{k}"] for k, name in enumerate(kept["inputs"])}
    results = load(model, target="reference").run(feeds)
    assert list(results) == outputs
    for k, got in enumerate(map(np.asarray, results.values())):
        want = kept[f"out{k}"]
        assert got.shape == want.shape, k
        size = max(1.0, float(np.abs(want.astype(np.float64)).max(initial=0)))
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-6 * size, err_msg=f"output {k}")


def texts(*values: str) -> Row:
    return {"list": {"s": [base64.b64encode(v.encode()).decode() for v in values]}}


WINDOW = {"strides": {"list": {"i": ["1", "2", "1", "1"]}}, "padding": {"s": list(b"SAME")}}
FOLLOWING: dict[str, tuple[list[str], Row]] = {
    "nothing": ([], {}),
    "bias": (["BiasAdd"], {}),
    "relu6": (["BiasAdd", "Relu6"], {}),
    "leaky": (["BiasAdd", "LeakyRelu"], {"leakyrelu_alpha": {"f": 0.3}}),
    "slopes": (["BiasAdd", "Prelu"], {}),
    "normalised": (["FusedBatchNorm", "Elu"], {"epsilon": {"f": 0.01}}),
    "gelu": (["BiasAdd", "GeluApproximate"], {}),
}


JOINED = [(op, case) for op in ("_FusedConv2D", "FusedDepthwiseConv2dNative") for case in FOLLOWING]
JOINED += [("_FusedMatMul", case) for case in FOLLOWING if case != "normalised"]


@pytest.mark.parametrize(("op", "case"), JOINED)
def test_layers_joined_with_what_follows_them(op: str, case: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(len(op) + len(case))
    names, more = FOLLOWING[case]
    product = op == "_FusedMatMul"
    shape = (6, 5) if product else (3, 2, 4, 5) if op == "_FusedConv2D" else (3, 2, 5, 1)
    channels = 6 if product else 5
    arrays: dict[str, Any] = {"w": rng.standard_normal(shape).astype(np.float32)}
    many = {"BiasAdd": 1, "Prelu": 1, "FusedBatchNorm": 4}
    for k in range(sum(many.get(name, 0) for name in names)):
        arrays[f"p{k}"] = rng.uniform(0.1, 0.9, channels).astype(np.float32)
    ways = {"transpose_b": {"b": True}} if product else WINDOW
    size = (2, 5) if product else (2, 6, 7, 4 if op == "_FusedConv2D" else 5)
    rows: list[Row] = [
        {"name": "x", "op": "Placeholder", "attr": {
            "dtype": {"type": "DT_FLOAT"}, "shape": {"shape": {"dim": [{"size": n} for n in size]}}}},
        *({"name": name, "op": "Const", "attr": {"dtype": {"type": "DT_FLOAT"}}} for name in arrays),
        {"name": "y", "op": op, "input": ["x", *arrays],
         "attr": {**ways, **more, "fused_ops": texts(*names), "T": {"type": "DT_FLOAT"}}},
    ]  # fmt: skip
    x = rng.standard_normal(size).astype(np.float32)
    whole = load(to_onnx(written(tmp_path, rows, arrays)), target="reference").run({"x": x})["y"]
    apart = {"_FusedConv2D": "Conv2D", "_FusedMatMul": "MatMul"}.get(op, "DepthwiseConv2dNative")
    rows[-1] = {"name": "y", "op": apart, "input": ["x", "w"], "attr": ways}
    plain = load(to_onnx(written(tmp_path, rows, arrays)), target="reference").run({"x": x})["y"]
    np.testing.assert_allclose(whole, followed(plain, names, [*arrays.values()][1:]), rtol=1e-4, atol=1e-5)


def followed(y: Any, names: list[str], parts: list[Any]) -> Any:
    for name in names:
        if name == "BiasAdd":
            y = y + parts.pop(0)
        elif name == "Prelu":
            y = np.where(y < 0, y * parts.pop(0), y)
        elif name == "FusedBatchNorm":
            scale, shift, mean, variance = parts
            y = (y - mean) / np.sqrt(variance + 0.01) * scale + shift
        else:
            y = {
                "Relu6": lambda v: np.clip(v, 0, 6),
                "LeakyRelu": lambda v: np.where(v < 0, v * 0.3, v),
                "Elu": lambda v: np.where(v < 0, np.expm1(v), v),
                "GeluApproximate": lambda v: (
                    v / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (v + 0.044715 * v**3)))
                ),
            }[name](y)
    return y


def test_division_that_may_be_by_zero(tmp_path: Path) -> None:
    rows = [
        {"name": "x", "op": "Placeholder", "attr": {"dtype": {"type": 1}}},
        {"name": "d", "op": "Const"},
        {"name": "y", "op": "DivNoNan", "input": ["x", "d"], "attr": {"T": {"type": "DT_FLOAT"}}},
    ]
    path = written(tmp_path, rows, {"d": np.array([0, 2, 0], np.float32)})
    found = load(path, target="reference").run({"x": np.array([3, 3, 0], np.float32)})["y"]
    assert found.tolist() == [0, 1.5, 0]


def test_integers_that_were_quantised_are_integers(tmp_path: Path) -> None:
    stored = np.array([0, 3, 255], np.uint8)
    row = {"dtype": "int32", "quantization": {"dtype": "uint8", "min": -10, "scale": 0.5}}
    path = written(tmp_path, [], {"w": (stored, row)})
    found = weights(path)["w"]
    assert found.dtype == np.int32 and found.tolist() == [-10, -8, 118]


RELU = {"name": "y", "op": "Relu", "input": ["w"]}
CONST = {"name": "w", "op": "Const"}
REFUSED: dict[str, tuple[list[Any], str]] = {
    "no numbers": ([{"name": "v", "op": "Const"}, RELU | {"input": ["v"]}], "'v' has no numbers"),
    "unknown": ([CONST, RELU | {"op": "Magic"}], "Magic"),
    "cycle": ([RELU | {"input": ["y"]}], "goes round"),
    "loop": ([CONST, RELU | {"op": "NextIteration"}], "has a loop"),
    "not a node": ([CONST, 7], "malformed"),
    "no name": ([CONST, {"op": "Relu"}], "malformed"),
    "no operation": ([CONST, RELU | {"op": ""}], "malformed"),
    "attributes": ([CONST, RELU | {"attr": [1]}], "malformed"),
    "attribute": ([CONST, RELU | {"attr": {"T": {"type": "DT_NONE"}}}], "malformed"),
    "text": ([CONST, RELU | {"attr": {"T": {"s": "%%%"}}}], "malformed"),
    "letters": ([CONST, RELU | {"attr": {"T": {"s": [900]}}}], "malformed"),
    "number": ([CONST, RELU | {"attr": {"T": {"f": 1e300}}}], "malformed"),
    "list": ([CONST, RELU | {"attr": {"T": {"list": {"i": 4}}}}], "malformed"),
    "following": ([CONST, {"name": "y", "op": "_FusedMatMul", "input": ["w", "w"],
                           "attr": {"fused_ops": texts("Magic")}}], "MatMul with Magic"),
    "too few": ([CONST, {"name": "y", "op": "_FusedMatMul", "input": ["w", "w"],
                         "attr": {"fused_ops": texts("BiasAdd")}}], "MatMul with 2 inputs"),
}  # fmt: skip


@pytest.mark.parametrize("fault", list(REFUSED))
def test_doubtful_graphs_are_refused(fault: str, tmp_path: Path) -> None:
    rows, message = REFUSED[fault]
    with pytest.raises(FileError, match=message):
        to_onnx(written(tmp_path, rows, {"w": np.ones((2, 2), np.float32)}))


def test_outputs_that_are_not_there(tmp_path: Path) -> None:
    path = written(tmp_path, [CONST, RELU], {"w": np.ones(3, np.float32)}, ["z"])
    with pytest.raises(ArgumentError, match="no node 'z'"):
        to_onnx(path)
    assert [o.name for o in to_onnx(path, outputs=["y"]).graph.output] == ["y"]
