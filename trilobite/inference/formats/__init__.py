"""Files of other formats: networks as ONNX models, weights as arrays by name.

`to_onnx(path)` gives a ModelProto for a network, `weights(path)` a mapping from names to arrays, which are
read when they are asked for. The ending of a path says the format. docs/formats.md says what of each is
covered.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from trilobite.base.errors import ArgumentError

__all__ = ["NETWORKS", "WEIGHTS", "to_onnx", "weights"]

_HERE = "trilobite.inference.formats"
# ending -> function, where the modules of formats are imported when one is used
NETWORKS = {
    ".tflite": f"{_HERE}.tflite:convert",
    ".pb": f"{_HERE}.tensorflow:convert",
    ".prototxt": f"{_HERE}.caffe:convert",
    ".h5": f"{_HERE}.keras:convert",
    ".hdf5": f"{_HERE}.keras:convert",
    ".keras": f"{_HERE}.keras:convert",
    ".json": f"{_HERE}.tensorflow_js:convert",
}
WEIGHTS = {
    ".gguf": f"{_HERE}.gguf:GGUF",
    ".h5": f"{_HERE}.keras:weights",
    ".hdf5": f"{_HERE}.keras:weights",
    ".keras": f"{_HERE}.keras:weights",
    ".json": f"{_HERE}.tensorflow_js:weights",
    ".caffemodel": f"{_HERE}.caffe:weights",
    ".safetensors": f"{_HERE}.checkpoints:safetensors",
    ".pth": f"{_HERE}.checkpoints:pth",
    ".pt": f"{_HERE}.checkpoints:pth",
    ".ckpt": f"{_HERE}.checkpoints:pth",
    ".bin": f"{_HERE}.checkpoints:pth",
    ".npz": f"{_HERE}.checkpoints:npz",
}


def _reader(path: Any, table: Mapping[str, str], what: str) -> Any:
    ending = os.path.splitext(os.fspath(path))[1].lower()
    if ending not in table:
        raise ArgumentError(
            f"a file that ends in {ending!r} is no {what} that is read here",
            where=os.fspath(path),
            expected=", ".join(table),
        )
    module, _, name = table[ending].partition(":")
    return getattr(import_module(module), name)


def to_onnx(path: Any, **options: Any) -> Any:
    """A network of another format as an ONNX ModelProto. `weights=` names the caffemodel of a prototxt
    (without it, the one beside it is meant), `outputs=` the nodes of a TensorFlow graph.
    """
    return _reader(path, NETWORKS, "network")(path, **options)


def weights(path: Any) -> Mapping[str, Any]:
    """The weights of a file by name; each is read when it is asked for, where the format allows that."""
    found: Mapping[str, Any] = _reader(path, WEIGHTS, "file of weights")(path)
    return found
