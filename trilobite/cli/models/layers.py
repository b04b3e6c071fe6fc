"""How far two engines are apart after every layer of a model, and where that begins.

Enters: a model file, two engines, inputs. Leaves: a row for every value that a node makes, in the order of
the nodes. The model is run once more on each side with all these values as outputs, so that what a compiler
joins otherwise is seen one by one: the sums of joined layers may round in other places.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from trilobite.base.errors import ArgumentError
from trilobite.cli.models.subject import Array

_MOST = 1 << 30  # bytes of all values; what a larger model makes does not fit beside itself


def with_all_values(model: str) -> tuple[Any, list[tuple[str, str, str]]]:
    """The model with every value as an output; and of each its name, its operator and its node's name."""
    from trilobite.inference.formats import NETWORKS, to_onnx
    from trilobite.inference.reader import onnx_module

    onnx = onnx_module()
    path = Path(model)
    if path.suffix.lower() not in (*NETWORKS, ".onnx"):
        raise ArgumentError(f"the layers of {model}", expected="a model file that is read as ONNX")
    proto = to_onnx(path) if path.suffix.lower() in NETWORKS else onnx.load(path)
    inferred = onnx.shape_inference.infer_shapes(proto)
    types = {v.name: v for v in (*inferred.graph.value_info, *inferred.graph.output)}
    rows = [
        (name, node.op_type, node.name)
        for node in proto.graph.node
        for name in node.output
        if name in types and types[name].type.HasField("tensor_type")
    ]
    given = {o.name for o in proto.graph.output}
    proto.graph.output.extend(types[name] for name, _, _ in rows if name not in given)
    return proto, rows


def other_engine(model: bytes | str, name: str) -> Any:
    """A function of feeds: a model in another engine that is installed here."""
    if name != "onnxruntime":
        raise ArgumentError(f"another engine named {name!r}", expected="onnxruntime")
    from importlib import import_module, util

    if util.find_spec(name) is None:
        raise ArgumentError("ONNX Runtime is not installed here", remedy="pip install onnxruntime")
    engine: Any = import_module(name)
    session = engine.InferenceSession(model, providers=["CPUExecutionProvider"])
    outputs = [o.name for o in session.get_outputs()]
    return lambda values: dict(zip(outputs, session.run(outputs, dict(values)), strict=True))


def layers_apart(
    model: str, targets: Sequence[str], against: str, values: Mapping[str, Array], tolerance: float
) -> list[dict[str, Any]]:
    """A row for each value, in order."""
    from trilobite import inference
    from trilobite.cli.models.verbs import apart

    proto, rows = with_all_values(model)
    left = inference.load(proto, target=targets[0]).run(values)
    if sum(np.asarray(v).nbytes for v in left.values()) > _MOST:
        raise ArgumentError(
            f"all values of {model} do not fit into memory twice", remedy="compare it at a smaller size"
        )
    if against:
        right = other_engine(proto.SerializeToString(), against)(values)
    else:
        right = inference.load(proto, target=targets[1]).run(values)
    return [
        {
            **apart(name, np.asarray(left[name]), np.asarray(right[name]), tolerance),
            "operator": op,
            "node": node,
        }
        for name, op, node in rows
    ]


def first_apart(rows: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    return next((row for row in rows if not row["agrees"]), None)
