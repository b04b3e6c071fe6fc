"""ONNX files are read from their wire form, as the onnx package reads them, and without it."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from tests.inference.conftest import model, node, onnx
from trilobite.base.errors import FileError
from trilobite.inference.model import Graph, Node
from trilobite.inference.protocol import ATTRIBUTE_KINDS, SCHEMAS, Proto
from trilobite.inference.reader import read
from trilobite.inference.tensors import DTYPES, to_array

NAMES = {
    "Opset": "OperatorSetIdProto", "Entry": "StringStringEntryProto", "TensorType": "TypeProto.Tensor",
    "Elements": "TypeProto.Sequence", "Map": "TypeProto.Map", "Shape": "TensorShapeProto",
    "Dimension": "TensorShapeProto.Dimension",
}  # fmt: skip


@pytest.mark.parametrize("kind", SCHEMAS)
def test_fields_have_the_numbers_of_onnx(kind: str) -> None:
    found: Any = onnx
    for part in NAMES.get(kind, f"{kind}Proto").split("."):
        found = getattr(found, part)
    fields = found.DESCRIPTOR.fields_by_name
    for name, field in SCHEMAS[kind].items():
        assert fields[name].number == field.number
        assert fields[name].is_repeated == field.repeated, name


def test_attributes_have_the_kinds_of_onnx() -> None:
    for number, name in enumerate(ATTRIBUTE_KINDS):
        assert onnx.AttributeProto.AttributeType.Name(number) == name


@pytest.mark.parametrize("raw", [False, True])
@pytest.mark.parametrize("code", [c for c in DTYPES if c != 8])
def test_tensors_of_every_dtype(code: int, raw: bool) -> None:
    rng = np.random.default_rng(code)
    numbers = rng.standard_normal((3, 5)) * 3
    array = (np.abs(numbers) if DTYPES[code].kind in "u" else numbers).astype(DTYPES[code])
    tensor = onnx.numpy_helper.from_array(array, "t")
    if not raw and code not in (25, 26, 27, 28):
        flat = array.reshape(-1)
        tensor = onnx.helper.make_tensor("t", code, array.shape, list(flat.astype(np.complex128) if
                                         DTYPES[code].kind == "c" else flat.astype(np.float64)))  # fmt: skip
    expected = onnx.numpy_helper.to_array(tensor)
    found = to_array(Proto("Tensor", memoryview(tensor.SerializeToString()), "here"), None)
    assert found.dtype == expected.dtype and found.shape == (3, 5)
    assert found.tobytes() == expected.tobytes()


def test_large_and_negative_integers() -> None:
    values = [0, -1, 127, 128, 2**31, -(2**31), 2**63 - 1, -(2**63)]
    for count in (1, 400):
        tensor = onnx.TensorProto(data_type=7, dims=[8 * count], int64_data=values * count)
        found = to_array(Proto("Tensor", memoryview(tensor.SerializeToString()), "here"), None)
        np.testing.assert_array_equal(found, np.array(values * count))


def same(a: Any, b: Any) -> bool:
    if isinstance(a, Graph):
        pairs = zip(a.nodes, b.nodes, strict=True)
        alike = all(map(lambda p: same(*p), pairs)) and same(a.constants, b.constants)
        return alike and (a.name, a.inputs, a.outputs) == (b.name, b.inputs, b.outputs)
    if isinstance(a, Node):
        words = [(n.op, n.inputs, n.outputs, n.domain, n.version, n.name) for n in (a, b)]
        return words[0] == words[1] and same(dict(a.attributes), dict(b.attributes))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    return bool(a == b)


def everything() -> Any:
    body = onnx.helper.make_graph(
        [node("Neg", "x", "n")], "inner", [], [onnx.ValueInfoProto(name="n")]
    )  # fmt: skip
    nodes = [
        node("If", "c", "i", then_branch=body, else_branch=body),
        node("Conv", "x w", "y", strides=[1, 2], auto_pad="SAME_UPPER", kernel_shape=[3, 3]),
        node("LeakyRelu", "y", "z", alpha=0.25), node("Constant", "", "k", value_floats=[1.5, -2.0]),
        node("Constant", "", "t", value=onnx.numpy_helper.from_array(np.arange(6).reshape(2, 3))),
        node("Optional", "", "o", type=onnx.helper.make_tensor_type_proto(1, [2, "n", None])),
    ]  # fmt: skip
    constants = {"w": np.random.default_rng(0).standard_normal((4, 3, 3, 3)).astype(np.float32)}
    inputs = {"x": (np.float32, [1, 3, "height", None]), "c": (np.bool_, [])}
    return model(nodes, inputs, ["i", "z", "k", "t", "o"], constants, producer_name="someone")


def test_a_model_is_what_the_package_reads() -> None:
    proto = everything()
    ours, theirs = read(proto.SerializeToString()), read(proto)
    assert same(ours.graph, theirs.graph)
    assert (ours.opsets, ours.producer) == (theirs.opsets, theirs.producer)


def test_parts_of_one_message_are_taken_together() -> None:
    proto = everything()
    data = proto.SerializeToString()
    more = onnx.ModelProto(graph=onnx.GraphProto(node=[node("Abs", "z", "a")])).SerializeToString()
    both = read(data + more)
    assert [n.op for n in both.graph.nodes][-1] == "Abs"


def test_cut_files_are_refused() -> None:
    data = everything().SerializeToString()
    for end in range(1, len(data), 7):
        try:
            read(data[:end])
        except FileError:
            continue
        onnx.ModelProto.FromString(data[:end])  # the package reads it, too


def test_reading_needs_no_onnx_package() -> None:
    data = everything().SerializeToString()
    text = "import sys\nfrom trilobite.inference.reader import read\nread(sys.stdin.buffer.read())\n"
    done = subprocess.run(
        [sys.executable, "-c", text + "print('onnx' in sys.modules)"], input=data, capture_output=True
    )
    assert done.stdout.strip() == b"False", done.stderr.decode()
