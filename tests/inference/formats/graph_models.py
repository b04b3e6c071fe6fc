"""Graph-models as TensorFlow.js writes them: the JSON form of frozen graphs, and the shard beside it."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from trilobite.inference.formats.tensorflow.graph import Node, read, tensor
from trilobite.inference.formats.tensorflow_js.graph import _TYPES
from trilobite.inference.formats.wire import Message

Row = dict[str, Any]


def _shape(m: Message) -> Row:
    return {"dim": [{"size": str(d.integer(1))} for d in m.messages(2)], "unknownRank": bool(m.integer(3))}


def _attribute(m: Message) -> Row:
    """As TensorFlow.js writes it: 64-bit integers as texts, texts as base64."""
    out: Row = {}
    for number in m.given():
        if number == 1:
            inner = m.message(1)
            assert inner is not None
            out["list"] = {
                "i": [str(i) for i in inner.integers(3)],
                "s": [base64.b64encode(t.encode()).decode() for t in inner.texts(2)],
            }
        elif number == 7:
            shape = m.message(7)
            assert shape is not None
            out["shape"] = _shape(shape)
        elif number in (2, 3, 4, 5, 6):
            out["..sifb"[number] if number < 6 else "type"] = (
                base64.b64encode(bytes(m.raw(2))).decode() if number == 2
                else m.float(4) if number == 4
                else bool(m.integer(5)) if number == 5
                else _TYPES[m.integer(6)] if number == 6
                else str(m.integer(3))
            )  # fmt: skip
    return out


def _row(n: Node) -> Row:
    inputs = [f"{source}:{k}" if k else source for source, k in n.inputs] + [f"^{name}" for name in n.after]
    return {
        "name": n.name, "op": n.op, "input": inputs,
        "attr": {k: _attribute(m) for k, m in n.attributes.items()},
    }  # fmt: skip


def written(folder: Path, rows: list[Row], arrays: dict[str, Any], outputs: Sequence[str] = ()) -> Path:
    """A model.json with its shard; `arrays` may hold (array, what the manifest says of it)."""
    entries, data = [], b""
    for name, found in arrays.items():
        a, more = found if isinstance(found, tuple) else (found, {})
        entries.append({"name": name, "shape": list(a.shape), "dtype": a.dtype.name, **more})
        data += a.tobytes()
    (folder / "shard.bin").write_bytes(data)
    text: Row = {
        "format": "graph-model", "modelTopology": {"node": rows, "versions": {}},
        "weightsManifest": [{"paths": ["shard.bin"], "weights": entries}],
    }  # fmt: skip
    if outputs:
        text["signature"] = {"outputs": {f"key {k}": {"name": f"{o}:0"} for k, o in enumerate(outputs)}}
    (folder / "model.json").write_text(json.dumps(text))
    return folder / "model.json"


def rows_of(path: Path) -> tuple[list[Row], dict[str, Any]]:
    """The nodes of a frozen graph, and its constants as the manifest has them: 64 bits become 32, halves are
    called quantised.
    """
    nodes, where = read(path)
    arrays: dict[str, Any] = {}
    for n in nodes:
        value = n.attributes["value"].message(8) if n.op == "Const" else None
        array = None if value is None else tensor(value, where)
        if array is not None and array.dtype == np.float16:
            arrays[n.name] = array, {"dtype": "float32", "quantization": {"dtype": "float16"}}
        elif array is not None:
            arrays[n.name] = array.astype(np.int32) if array.dtype == np.int64 else array
    return [_row(n) for n in nodes], arrays
