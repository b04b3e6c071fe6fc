"""Frozen TensorFlow graphs: small ones that hold most operations, beside what TensorFlow gave."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from trilobite.base.errors import ArgumentError, FileError
from trilobite.inference import load
from trilobite.inference.formats.tensorflow import convert
from trilobite.inference.formats.tensorflow.graph import read
from trilobite.inference.formats.tensorflow.rules import RULES

onnx = pytest.importorskip("onnx")
FILES = Path(__file__).parent / "files"
NAMES = sorted(p.stem for p in FILES.glob("*.pb"))


@pytest.mark.parametrize("name", NAMES)
def test_graphs_give_what_tensorflow_gives(name: str) -> None:
    with np.load(FILES / f"{name}_pb.npz") as found:
        kept = {k: found[k] for k in found.files}
    outputs = [str(n).removesuffix(":0") for n in kept["names"]]
    model = convert(FILES / f"{name}.pb", outputs)
    onnx.checker.check_model(model, full_check=True)
    feeds = {str(name): kept[f"in{k}"] for k, name in enumerate(kept["inputs"])}
    results = load(model, target="reference").run(feeds)
    assert list(results) == outputs
    for k, got in enumerate(map(np.asarray, results.values())):
        want = kept[f"out{k}"]
        assert got.shape == want.shape and got.dtype == want.dtype, k
        if want.dtype.kind == "f":
            size = max(1.0, float(np.abs(want).max(initial=0)))
            np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-6 * size, err_msg=f"output {k}")
        else:
            assert np.array_equal(got, want), k


def test_how_many_operations_are_tried_here() -> None:
    tried = {n.op for name in NAMES for n in read(FILES / f"{name}.pb")[0]}
    assert len(RULES) >= 100 and len(tried & {*RULES}) >= 90


def test_outputs_are_the_last_nodes_or_those_that_are_named() -> None:
    model = convert(FILES / "cnn.pb")
    assert len(model.graph.output) == 1
    with pytest.raises(ArgumentError, match="no node 'nothing'"):
        convert(FILES / "cnn.pb", ["nothing"])


def text(number: int, value: bytes) -> bytes:
    return bytes([number << 3 | 2, len(value)]) + value


def node(name: bytes, op: bytes, *inputs: bytes) -> bytes:
    return text(1, text(1, name) + text(2, op) + b"".join(text(3, i) for i in inputs))


REFUSED = {
    "empty": (b"", "the file is empty"),
    "text": (b"hello world, no graph", "number|kind|field|graph"),
    "cycle": (node(b"a", b"Relu", b"b") + node(b"b", b"Relu", b"a"), "goes round"),
    "itself": (node(b"a", b"Relu", b"a"), "goes round"),
    "missing": (node(b"a", b"Relu", b"z"), "nothing makes 'z'"),
    "unknown": (
        node(b"x", b"Placeholder") + node(b"a", b"Magic", b"x") + node(b"b", b"Spell", b"a"),
        "2 kinds.*Magic.*Spell",
    ),
    "cut": (node(b"a", b"Relu", b"b")[:-2], "takes"),
}


@pytest.mark.parametrize("fault", list(REFUSED))
def test_doubtful_graphs_are_refused(fault: str, tmp_path: Path) -> None:
    raw, message = REFUSED[fault]
    path = tmp_path / "m.pb"
    path.write_bytes(raw)
    with pytest.raises(FileError, match=message):
        convert(path)
