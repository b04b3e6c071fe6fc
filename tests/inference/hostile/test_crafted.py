"""Files made to do harm: places outside, links, sizes beyond memory, circles, depth. Each is refused."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trilobite.base.errors import TrilobiteError
from trilobite.inference import load

onnx = pytest.importorskip("onnx")
FLOAT = 1


def info(name: str, shape: Any = (2,)) -> Any:
    return onnx.helper.make_tensor_value_info(name, FLOAT, shape)


def model(nodes: Any, inputs: Any = None, outputs: Any = None, weights: Any = (), **more: Any) -> Any:
    graph = onnx.helper.make_graph(
        nodes, "g", inputs or [info("x")], outputs or [info("y", None)], list(weights)
    )
    return onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid("", 21)], ir_version=10, **more
    )


def node(op: str, inputs: list[str], outputs: list[str], **attrs: Any) -> Any:
    return onnx.helper.make_node(op, inputs, outputs, **attrs)


def refused(made: Any, tmp_path: Path, run: bool = False) -> str:
    path = tmp_path / "m.onnx"
    path.write_bytes(made.SerializeToString())
    with pytest.raises(TrilobiteError) as e:
        session = load(path, target="reference")
        if run:
            session.run({"x": np.ones(2, np.float32)})
    return str(e.value)


# -- external data -------------------------------------------------------------------------------------------


def outside(location: str, offset: int = 0, length: int = 8) -> Any:
    tensor = onnx.TensorProto(name="w", data_type=FLOAT, dims=[2])
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", str(offset)), ("length", str(length))):
        tensor.external_data.add(key=key, value=value)
    return model([node("Add", ["x", "w"], ["y"])], weights=[tensor])


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A file beside the model's own folder that nothing may read."""
    path = tmp_path / "secret.bin"
    path.write_bytes(np.array([3.5, 4.5], np.float32).tobytes())
    (tmp_path / "inside").mkdir()
    return path


@pytest.mark.parametrize("kind", ["parent", "absolute", "dots", "link", "folder link", "proc"])
def test_data_outside_of_the_folder_are_not_read(kind: str, secret: Path, tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    os.symlink(secret, inside / "link")
    os.symlink(tmp_path, inside / "up")
    location = {
        "parent": "../secret.bin", "absolute": str(secret), "dots": "./sub/../../secret.bin", "link": "link",
        "folder link": "up/secret.bin", "proc": "/proc/self/environ",
    }[kind]  # fmt: skip
    refused(outside(location), inside)


@pytest.mark.parametrize(("offset", "length"), [(4, 8), (2**62, 8), (-4, 8), (0, 2**62), (0, 4)])
def test_data_beyond_the_file_are_refused(offset: int, length: int, tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(bytes(8))
    refused(outside("w.bin", offset, length), tmp_path)


def test_a_pipe_in_the_place_of_data_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "w.bin")
    refused(outside("w.bin"), tmp_path)


# -- sizes ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dims", [[2**40, 2**40], [2**62], [-1], [2**31, 2**31, 4], [3], [0, 2**62]])
def test_weights_of_impossible_sizes_are_refused(dims: list[int], tmp_path: Path) -> None:
    tensor = onnx.TensorProto(name="w", data_type=FLOAT, dims=dims, raw_data=bytes(8))
    refused(model([node("Add", ["x", "w"], ["y"])], weights=[tensor]), tmp_path)


def test_a_small_file_does_not_make_a_large_array(tmp_path: Path) -> None:
    """A shape that a run computes: 2**60 numbers from 8 bytes."""
    shape = onnx.numpy_helper.from_array(np.array([2**30, 2**30], np.int64), "s")
    made = model([node("ConstantOfShape", ["s"], ["z"]), node("Add", ["x", "z"], ["y"])], weights=[shape])
    refused(made, tmp_path, run=True)


# -- shapes of graphs ----------------------------------------------------------------------------------------

GRAPHS = {
    "circle": [node("Add", ["x", "b"], ["a"]), node("Relu", ["a"], ["b"]), node("Relu", ["b"], ["y"])],
    "itself": [node("Add", ["x", "y"], ["y"])],
    "missing": [node("Add", ["x", "nothing"], ["y"])],
    "twice": [node("Relu", ["x"], ["y"]), node("Neg", ["x"], ["y"])],
    "output": [node("Relu", ["x"], ["z"])],
    "operator": [node("NoSuchOperator", ["x"], ["y"])],
    "domain": [node("Relu", ["x"], ["y"], domain="no.such.domain")],
    "branches": [node("If", ["x"], ["y"])],
    "body": [node("Loop", ["", "", "x"], ["y"])],
}


@pytest.mark.parametrize("fault", list(GRAPHS))
def test_graphs_that_do_not_hold_together_are_refused(fault: str, tmp_path: Path) -> None:
    assert len(refused(model(GRAPHS[fault]), tmp_path)) > 20


def field(number: int, value: bytes) -> bytes:
    size, length = b"", len(value)
    while length > 127:
        size, length = size + bytes([length & 127 | 128]), length >> 7
    return bytes([number << 3 | 2]) + size + bytes([length]) + value


@pytest.mark.parametrize("depth", [33, 200, 2000])
def test_bodies_within_bodies_without_end_are_refused(depth: int, tmp_path: Path) -> None:
    """Written byte by byte: onnx's own helpers do not go so deep."""
    graph = field(1, field(1, b"x") + field(2, b"r") + field(4, b"Relu")) + field(12, field(1, b"r"))
    for _ in range(depth):
        branches = b"".join(
            field(5, field(1, name) + field(6, graph if name == b"then_branch" else b"") + b"\xa0\x01\x05")
            for name in (b"then_branch", b"else_branch")
        )
        graph = field(1, field(1, b"p") + field(2, b"r") + field(4, b"If") + branches) + field(
            12, field(1, b"r")
        )
    path = tmp_path / "m.onnx"
    path.write_bytes(b"\x08\x0a" + field(7, graph) + field(8, b"\x10\x15"))
    with pytest.raises(TrilobiteError):
        load(path, target="reference")


def test_a_function_that_calls_itself_is_refused(tmp_path: Path) -> None:
    again = onnx.helper.make_function(
        "own",
        "F",
        ["a"],
        ["b"],
        [node("F", ["a"], ["b"], domain="own")],
        [onnx.helper.make_opsetid("own", 1)],
    )
    made = model([node("F", ["x"], ["y"], domain="own")], functions=[again])
    made.opset_import.append(onnx.helper.make_opsetid("own", 1))
    refused(made, tmp_path)


@pytest.mark.long
def test_functions_that_double_each_other_do_not_fill_the_memory(tmp_path: Path) -> None:
    """Forty functions, each calling the next one twice: 2**40 nodes from 3 kB."""
    made_of = [onnx.helper.make_opsetid("own", 1), onnx.helper.make_opsetid("", 21)]
    functions = []
    for i in range(40):
        op, domain = (f"F{i + 1}", "own") if i < 39 else ("Relu", "")
        body = [node(op, ["a"], ["m"], domain=domain), node(op, ["m"], ["b"], domain=domain)]
        functions.append(onnx.helper.make_function("own", f"F{i}", ["a"], ["b"], body, made_of))
    made = model([node("F0", ["x"], ["y"], domain="own")], functions=functions)
    made.opset_import.append(onnx.helper.make_opsetid("own", 1))
    refused(made, tmp_path)


def test_a_folder_a_link_to_nothing_and_a_pipe_are_no_models(tmp_path: Path) -> None:
    os.symlink(tmp_path / "nothing", tmp_path / "link.onnx")
    os.mkfifo(tmp_path / "pipe.onnx")
    for name in (".", "link.onnx", "pipe.onnx", "not-there.onnx"):
        with pytest.raises((TrilobiteError, OSError)):
            load(tmp_path / name)
