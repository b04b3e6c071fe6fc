"""Files that lie, are damaged, or reach for what is not theirs: one clear error each, and nothing touched."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import trilobite as tb
from tests.inference.conftest import model, node

onnx = pytest.importorskip("onnx")
W = np.arange(12, dtype=np.float32).reshape(3, 4)


def plain() -> Any:
    return model([node("MatMul", "x w", "y")], {"x": (np.float32, [2, 3])}, ["y"], {"w": W})


def external(location: str, offset: int = 0, length: int = W.nbytes) -> Any:
    """The model with its weight in another file."""
    proto = plain()
    tensor = proto.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", str(offset)), ("length", str(length))):
        tensor.external_data.add(key=key, value=value)
    return proto


def saved(folder: Path, proto: Any) -> Path:
    path = folder / "model.onnx"
    path.write_bytes(proto.SerializeToString())
    return path


def test_data_beside_the_model_is_read(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "w.bin").write_bytes(b"head" + W.tobytes())
    session = tb.inference.load(saved(tmp_path, external("sub/w.bin", 4)), target="reference")
    x = np.ones((2, 3), np.float32)
    np.testing.assert_array_equal(session.run({"x": x})["y"], x @ W)


@pytest.mark.parametrize(
    "location",
    [
        "../secret.bin",
        "/etc/passwd",
        "sub/../../secret.bin",
        "link.bin",
        "linked/w.bin",
        "",
        ".",
        "C:\\w.bin",
        "a\0b",
    ],
)
def test_data_elsewhere_is_refused(tmp_path: Path, location: str) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "secret.bin").write_bytes(W.tobytes())
    (folder / "sub").mkdir()
    os.symlink(tmp_path / "secret.bin", folder / "link.bin")
    os.symlink(tmp_path, folder / "linked")
    with pytest.raises(tb.errors.FileError, match=r"a plain file beside the model|is not there"):
        tb.inference.load(saved(folder, external(location)))


@pytest.mark.parametrize(
    ("offset", "length", "text"),
    [
        (8, W.nbytes, "at most the file's 48 bytes"),
        (0, 12, "another length"),
        (2**62, W.nbytes, "number of bytes"),
    ],
)
def test_data_that_is_not_all_there(tmp_path: Path, offset: int, length: int, text: str) -> None:
    (tmp_path / "w.bin").write_bytes(W.tobytes())
    with pytest.raises(tb.errors.FileError, match=text):
        tb.inference.load(saved(tmp_path, external("w.bin", offset, length)))


def test_data_beside_a_model_in_memory() -> None:
    with pytest.raises(tb.errors.FileError, match="without a folder"):
        tb.inference.load(external("w.bin"))


def changed(**what: Any) -> Any:
    proto = plain()
    tensor = proto.graph.initializer[0]
    for name, value in what.items():
        if name == "dims":
            del tensor.dims[:]
            tensor.dims.extend(value)
        else:
            setattr(tensor, name, value)
    return proto


@pytest.mark.parametrize(
    ("proto", "text"),
    [
        (changed(dims=[2**40, 2**40]), "fits memory"),
        (changed(dims=[-3, 4]), "sizes from 0 on"),
        (changed(dims=[3, 5]), "another length"),
        (changed(raw_data=b"abc"), "another length"),
        (changed(data_type=99), "element type 99"),
    ],
)
def test_tensors_that_lie(proto: Any, text: str) -> None:
    with pytest.raises(tb.errors.FileError, match=text):
        tb.inference.load(proto)


def graph_of(*nodes: Any) -> Any:
    return model(nodes, {"x": (np.float32, [2])}, ["y"])


def called_by_itself() -> Any:
    proto = graph_of(onnx.helper.make_node("F", ["x"], ["y"], domain="own"))
    proto.functions.append(
        onnx.helper.make_function(
            "own", "F", ["a"], ["b"], [onnx.helper.make_node("F", ["a"], ["b"], domain="own")],
            [onnx.helper.make_opsetid("own", 1)],
        )
    )  # fmt: skip
    return proto


@pytest.mark.parametrize(
    ("proto", "text"),
    [
        (
            graph_of(node("Relu", "a", "y"), node("Relu", "x", "a")),
            "reads 'a', which nothing before it makes",
        ),
        (graph_of(node("Add", "x y", "y")), "reads 'y'"),
        (graph_of(node("Relu", "x", "z")), "gives 'y', which nothing makes"),
        (graph_of(node("Relu", "x", "y"), node("Abs", "x", "y")), "is there already"),
        (called_by_itself(), "calls itself"),
    ],
)
def test_graphs_that_cannot_be(proto: Any, text: str) -> None:
    with pytest.raises(tb.errors.FileError, match=text):
        tb.inference.load(proto)


def test_nesting_without_end() -> None:
    proto = graph_of(node("Identity", "x", "y"))
    inner = onnx.helper.make_graph([node("Identity", "x", "o")], "g", [], [onnx.ValueInfoProto(name="o")])
    for _ in range(20):
        one = onnx.helper.make_node("If", ["x"], ["o"], then_branch=inner)
        inner = onnx.helper.make_graph([one], "g", [], [onnx.ValueInfoProto(name="o")])
    proto.graph.node.append(onnx.helper.make_node("If", ["x"], ["q"], then_branch=inner))
    with pytest.raises(tb.errors.FileError, match="nested"):
        tb.inference.load(proto)


def test_bytes_cut_off_or_changed_give_an_error_of_the_house() -> None:
    """Every prefix, and bytes turned over at random: a model that still reads, or one clear error."""
    data = plain().SerializeToString()
    rng = np.random.default_rng(0)
    mutants = [data[:n] for n in range(0, len(data), 5)]
    for _ in range(300):
        bent = bytearray(data)
        for at in rng.integers(0, len(data), rng.integers(1, 6)):
            bent[at] = rng.integers(0, 256)
        mutants.append(bytes(bent))
    x = {"x": np.ones((2, 3), np.float32)}
    for mutant in mutants:
        try:
            tb.inference.load(mutant, target="reference").run(x)
        except tb.errors.TrilobiteError as error:
            assert str(error)
