"""Sound files of each format, small, to be damaged; and how each is opened."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from tests.inference.formats.gguf_files import blocks, gguf

FILES = Path(__file__).parents[1] / "formats" / "files"


def onnx_model() -> bytes:
    """Weights, a convolution, shapes, an If and a function: most kinds of messages."""
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(0)
    branch = [
        helper.make_graph(
            [helper.make_node(op, ["c"], [out])], out, [], [helper.make_tensor_value_info(out, 1, None)]
        )
        for op, out in (("Relu", "yes"), ("Neg", "no"))
    ]
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        helper.make_node("ReduceMax", ["c"], ["top"], keepdims=0),
        helper.make_node("Greater", ["top", "zero"], ["p"]),
        helper.make_node("If", ["p"], ["d"], then_branch=branch[0], else_branch=branch[1]),
        helper.make_node("Shape", ["d"], ["s"]),
        helper.make_node("Double", ["d"], ["e"], domain="own"),
        helper.make_node("Reshape", ["e", "flat"], ["y"]),
    ]
    weights = {
        "w": rng.standard_normal((4, 3, 3, 3)).astype(np.float32),
        "b": rng.standard_normal(4).astype(np.float32),
        "zero": np.float32(0),
        "flat": np.array([1, -1], np.int64),
    }
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 8, "w"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in weights.items()],
    )  # fmt: skip
    double = helper.make_function(
        "own", "Double", ["a"], ["z"], [helper.make_node("Add", ["a", "a"], ["z"])],
        [helper.make_opsetid("", 21)],
    )  # fmt: skip
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("own", 1)]
    found: bytes = helper.make_model(
        graph, functions=[double], opset_imports=imports, ir_version=10
    ).SerializeToString()
    return found


def gguf_file() -> bytes:
    from trilobite.inference.formats.gguf.types import TYPES

    tensors: dict[str, Any] = {"a": ((3, 4), 0, np.arange(12, dtype=np.float32).tobytes())}
    for kind in (2, 8, 12, 14, 16, 23):
        t = TYPES[kind]
        tensors[f"q{kind}"] = ((2, t.block), kind, blocks(kind, t.record, 2).tobytes())
    metadata = {"general.alignment": (4, 32), "names": (9, (8, ["a", "b"])), "n": (9, (5, [1, 2]))}
    return gguf(metadata, tensors)


def safetensors_file() -> bytes:
    from trilobite.framework.checkpoint.safetensors import chunks

    arrays = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.arange(4, dtype=np.int8)}
    return b"".join(chunks(arrays, {"note": "x"}))


def _open_onnx(path: Path) -> None:
    from trilobite.inference import load

    load(path, target="reference")


def _open_gguf(path: Path) -> None:
    from trilobite.inference.formats.gguf import GGUF

    for array in GGUF(path).values():
        array.sum()


def _open_safetensors(path: Path) -> None:
    from trilobite.framework.checkpoint import load_safetensors

    for mmap in (False, True):
        load_safetensors(path, mmap=mmap)


def _open_tflite(path: Path) -> None:
    from trilobite.inference.formats.tflite import convert

    convert(path)


def _open_pb(path: Path) -> None:
    from trilobite.inference.formats.tensorflow import convert

    convert(path)


@cache
def _texts() -> tuple[list[bytes], dict[str, bytes]]:
    """Graph-models and a layers-model of TensorFlow.js, and their shards by name."""
    import tempfile

    from tests.inference.formats.graph_models import rows_of, written
    from trilobite.inference.formats.keras import weights
    from trilobite.inference.formats.keras.archive import read

    texts, shards = [], {}
    with tempfile.TemporaryDirectory() as folder:
        for name in ("cnn", "shapes", "layers"):
            if name == "layers":
                arrays = {k: np.asarray(v) for k, v in weights(FILES / "sequential.h5").items()}
                path = written(Path(folder), [], arrays)
            else:
                path = written(Path(folder), *rows_of(FILES / f"{name}.pb"))
            text = json.loads(path.read_text())
            if name == "layers":
                text["modelTopology"] = {"model_config": read(FILES / "sequential.h5").config}
            text["weightsManifest"][0]["paths"] = [f"{name}.bin"]
            texts.append(json.dumps(text).encode())
            shards[f"{name}.bin"] = path.with_name("shard.bin").read_bytes()
    return texts, shards


def _open_json(path: Path) -> None:
    from trilobite.inference.formats.tensorflow_js import convert, weights

    for name, data in _texts()[1].items():
        if not path.with_name(name).exists():
            path.with_name(name).write_bytes(data)
    convert(path)
    for array in weights(path).values():
        array.sum()


def _open_caffe(path: Path) -> None:
    from trilobite.inference.formats.caffe import convert

    convert(FILES / "caffe_layers.prototxt", path)


def _open_prototxt(path: Path) -> None:
    from trilobite.inference.formats.caffe import convert

    convert(path, FILES / "caffe_layers.caffemodel")


def bundle_file() -> bytes:
    """Without code: what is damaged must not run."""
    import tempfile

    from trilobite.inference.bundle.container import write
    from trilobite.native.disk import FORMAT
    from trilobite.native.host import features, llvm_version

    facts = {"target": "reference", "cpu": features().name, "llvm": llvm_version(), "cache": FORMAT.decode()}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.tbm"
        write(path, {**facts, "weights": {"w": ["float32", [4, 3, 3, 3]]}}, _bundle_sections())
        return path.read_bytes()


def _bundle_sections() -> dict[str, Any]:
    import onnx

    proto = onnx.ModelProto()
    proto.ParseFromString(onnx_model())
    (w,) = [t for t in proto.graph.initializer if t.name == "w"]
    array = onnx.numpy_helper.to_array(w)
    w.Clear()
    w.name, w.data_type = "w", 1
    w.dims.append(0)
    return {"model": proto.SerializeToString(), "weight/w": array}


def _open_bundle(path: Path) -> None:
    from trilobite.inference import open_bundle

    open_bundle(path, verify=True)


def _open_keras(path: Path) -> None:
    from trilobite.inference.formats.keras import convert

    convert(path)


def _open_hdf5(path: Path) -> None:
    from trilobite.inference.formats.keras import weights

    for array in weights(path).values():
        array.sum()


FORMATS: dict[str, tuple[Callable[[], list[bytes]], Callable[[Path], None]]] = {
    "onnx": (lambda: [onnx_model()], _open_onnx),
    "gguf": (lambda: [gguf_file()], _open_gguf),
    "safetensors": (lambda: [safetensors_file()], _open_safetensors),
    "tflite": (
        lambda: [(FILES / f"{n}.tflite").read_bytes() for n in ("products", "cnn_int8", "branches", "lstm")],
        _open_tflite,
    ),
    "json": (lambda: _texts()[0], _open_json),
    "pb": (lambda: [(FILES / f"{n}.pb").read_bytes() for n in ("cnn", "shapes")], _open_pb),
    "caffemodel": (lambda: [(FILES / "caffe_layers.caffemodel").read_bytes()], _open_caffe),
    "keras": (
        lambda: [(FILES / n).read_bytes() for n in ("sequential.keras", "sequential.h5")],
        _open_keras,
    ),
    "hdf5": (lambda: [(FILES / n).read_bytes() for n in ("forms.hdf5", "sequential.h5")], _open_hdf5),
    "tbm": (lambda: [bundle_file()], _open_bundle),
    "prototxt": (lambda: [(FILES / "caffe_layers.prototxt").read_bytes()], _open_prototxt),
}
"""By name: sound files, and what opens one."""
