"""ONNX Runtime: a network becomes an ONNX graph with its weights inside."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from benchmarks.fresh import MODEL_FILE
from benchmarks.peers.networks import Network
from benchmarks.row import Job

ELEMENT = {"float32": TensorProto.FLOAT, "int64": TensorProto.INT64, "uint8": TensorProto.UINT8}
EMBEDDINGS = ("wte.", "wpe.", "embed", "position")


class Value(str):
    """The name of a value, with its shape as far as networks ask for it."""

    shape: tuple[int, ...]

    def __new__(cls, name: str, shape: Sequence[int] = ()) -> Value:
        self = super().__new__(cls, name)
        self.shape = tuple(shape)
        return self


class Ops:
    """What networks are written with; see `networks`. Collects nodes. Linear weights: (inputs, outputs)."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.stored: list[Any] = []

    def node(self, kind: str, *inputs: str, shape: Sequence[int] = (), **attributes: Any) -> Value:
        out = Value(f"v{len(self.nodes)}", shape)
        self.nodes.append(helper.make_node(kind, list(inputs), [out], **attributes))
        return out

    def constant(self, value: Any, name: str | None = None) -> Value:
        array = np.asarray(value)
        out = Value(name or f"c{len(self.stored)}", array.shape)
        self.stored.append(numpy_helper.from_array(np.ascontiguousarray(array), out))
        return out

    def size(self, x: Value, axis: int) -> int:
        return x.shape[axis]

    def conv(self, x: Value, w: Value, b: Value, stride: int, pad: int, groups: int) -> Value:
        return self.node("Conv", x, w, b, strides=[stride] * 2, pads=[pad] * 4, group=groups)

    def relu(self, x: Value) -> Value:
        return self.node("Relu", x, shape=x.shape)

    def relu6(self, x: Value) -> Value:
        return self.node("Clip", x, self.constant(np.float32(0)), self.constant(np.float32(6)))

    def add(self, x: Value, y: Value) -> Value:
        return self.node("Add", x, y, shape=x.shape)

    def max_pool(self, x: Value, size: int, stride: int, pad: int) -> Value:
        return self.node("MaxPool", x, kernel_shape=[size] * 2, strides=[stride] * 2, pads=[pad] * 4)

    def mean_of_pixels(self, x: Value) -> Value:
        return self.node("Flatten", self.node("GlobalAveragePool", x))

    def flatten(self, x: Value) -> Value:
        return self.node("Flatten", x)

    def linear(self, x: Value, w: Value, b: Value | None) -> Value:
        shape = (x.shape[0] if x.shape else 0, w.shape[1])
        return (
            self.node("MatMul", x, w, shape=shape) if b is None else self.node("Gemm", x, w, b, shape=shape)
        )

    def layer_norm(self, x: Value, scale: Value, shift: Value, eps: float) -> Value:
        return self.node("LayerNormalization", x, scale, shift, shape=x.shape, epsilon=eps)

    def gelu(self, x: Value, tanh: bool) -> Value:
        return self.node("Gelu", x, shape=x.shape, approximate="tanh" if tanh else "none")

    def softmax(self, x: Value) -> Value:
        return self.node("Softmax", x, axis=-1)

    def embedding(self, table: Value, tokens: Value) -> Value:
        count = int(np.prod(tokens.shape))
        flat = self.reshape(tokens, (count,))
        return self.node("Gather", table, flat, shape=(count, table.shape[1]))

    def reshape(self, x: Value, shape: Sequence[int]) -> Value:
        return self.node("Reshape", x, self.constant(np.array(shape, np.int64)), shape=shape)

    def part(self, x: Value, axis: int, start: int, stop: int) -> Value:
        ends = [self.constant(np.array([n], np.int64)) for n in (start, stop, axis)]
        shape = (*x.shape[:axis], stop - start, *x.shape[axis + 1 :])
        return self.node("Slice", x, *ends, shape=shape)

    def first_rows(self, table: Value, count: int) -> Value:
        return self.part(table, 0, 0, count)

    def row(self, table: Value, at: int) -> Value:
        return self.part(table, 0, at, at + 1)

    def add_to_each(self, x: Value, rows: Value, batch: int) -> Value:
        apart = self.reshape(x, (batch, *rows.shape))
        return self.reshape(self.add(apart, rows), x.shape)

    def thirds(self, x: Value) -> list[Value]:
        width = x.shape[1] // 3
        return [self.part(x, 1, i * width, (i + 1) * width) for i in range(3)]

    def transpose(self, x: Value, *axes: int) -> Value:
        return self.node("Transpose", x, perm=axes, shape=[x.shape[a] for a in axes])

    def heads(self, x: Value, batch: int, heads: int) -> Value:
        shape = (batch, x.shape[0] // batch, heads, x.shape[1] // heads)
        return self.transpose(self.reshape(x, shape), 0, 2, 1, 3)

    def rows(self, x: Value) -> Value:
        batch, heads, length, features = x.shape
        return self.reshape(self.transpose(x, 0, 2, 1, 3), (batch * length, heads * features))

    def attention(self, q: Value, k: Value, v: Value, causal: bool) -> Value:
        scaled = self.node("Mul", q, self.constant(np.float32(q.shape[-1] ** -0.5)))
        scores = self.node("MatMul", scaled, self.transpose(k, 0, 1, 3, 2))
        if causal:
            length = q.shape[2]
            scores = self.node("Add", scores, self.constant(np.triu(np.full((length, length), -1e9, "f"), 1)))
        return self.node("MatMul", self.node("Softmax", scores, axis=-1), v, shape=q.shape)

    def extended(self, cache: Value, new: Value, position: int) -> Value:
        return self.node("Concat", cache, new, axis=2, shape=(*cache.shape[:2], position + 1, cache.shape[3]))


def stored_weights(ops: Ops, weights: Mapping[str, Any]) -> dict[str, Value]:
    return {
        name: ops.constant(value.T if value.ndim == 2 and not name.startswith(EMBEDDINGS) else value, name)
        for name, value in weights.items()
    }


def model_of(build: Callable[[Ops, list[Value]], Any], inputs: Mapping[str, Any]) -> bytes:
    """The serialised model of a graph that `build` writes; arrays give inputs their types."""
    ops = Ops()
    out = build(ops, [Value(name, value.shape) for name, value in inputs.items()])
    outs = out if isinstance(out, list) else [out]
    graph = helper.make_graph(
        ops.nodes,
        "row",
        [
            helper.make_tensor_value_info(name, ELEMENT[str(value.dtype)], value.shape)
            for name, value in inputs.items()
        ],
        [helper.make_empty_tensor_value_info(o) for o in outs],
        ops.stored,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    found: bytes = model.SerializeToString()
    return found


def session(model: bytes | Path) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = len(os.sched_getaffinity(0))
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    given = str(model) if isinstance(model, Path) else model
    return onnxruntime.InferenceSession(given, options, providers=["CPUExecutionProvider"])


def job(build: Callable[[Ops, list[Value]], Any], inputs: Mapping[str, Any]) -> Job:
    """The file that MODEL_FILE names takes the place of building, once it is there."""
    path = Path(os.environ.get(MODEL_FILE, ""))
    if MODEL_FILE in os.environ and not path.is_file():
        path.write_bytes(model_of(build, inputs))
    running = session(path if path.is_file() else model_of(build, inputs))
    given = dict(inputs)

    def work() -> Any:
        return running.run(None, given)

    return Job(work, lambda: [work()[0]])


Weights = Callable[[], Mapping[str, Any]]
"""Drawn only if a model has to be built."""


def inference(network: Network, weights: Weights, x: Any) -> Job:
    return job(lambda ops, given: network(ops, stored_weights(ops, weights()), given[0]), {"x": x})


def decoding(network: Any, weights: Weights, token: Any, caches: Any) -> Job:
    """The caches go in as they are and come out one place longer."""
    position = caches[0].shape[2] - 1
    inputs = {"x": token, **{f"cache{i}": np.ascontiguousarray(c[:, :, :-1]) for i, c in enumerate(caches)}}

    def build(ops: Ops, given: list[Value]) -> list[Value]:
        scores, new = network(ops, stored_weights(ops, weights()), given[0], given[1:], position)
        return [scores, *new]

    return job(build, inputs)
