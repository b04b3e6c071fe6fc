"""TensorFlow's operations as ONNX: one row each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from trilobite.inference.formats import slices
from trilobite.inference.formats import tensor_ops as ops
from trilobite.inference.formats.channels_last import Layers, Tensor
from trilobite.inference.formats.tensor_ops import Unknown, static
from trilobite.inference.formats.tensorflow.convert import Converter, Rule
from trilobite.inference.formats.tensorflow.graph import Node
from trilobite.inference.formats.tensorflow.windows import (
    back,
    batch_norm,
    bias,
    conv,
    conv_transposed,
    depthwise,
    image,
    lrn,
    pool,
    resize,
)


def _unary(op: str, **attrs: Any) -> Rule:
    return lambda c, n: c.layers.unary(op, c.x(n, 0), **attrs)


def _binary(op: str) -> Rule:
    return lambda c, n: c.layers.pointwise(op, c.x(n, 0), c.x(n, 1))


def _activation(name: str) -> Rule:
    return lambda c, n: ops.activation(c.layers, c.x(n, 0), name)


def _same(c: Converter, n: Node) -> Tensor:
    return c.x(n, 0)


# -- products ------------------------------------------------------------------------------------------------


def matmul(c: Converter, n: Node) -> Tensor:
    names = ("transpose_a", "transpose_b") if n.op == "MatMul" else ("adj_x", "adj_y")
    x, y = c.x(n, 0), c.x(n, 1)
    if n.op == "MatMul":
        x, y = (t if t.rank is not None else c.layers.made(c.layers.last(t), 2) for t in (x, y))
    return ops.matmul(c.layers, x, y, c.flag(n, names[0]), c.flag(n, names[1]))


# -- moving --------------------------------------------------------------------------------------------------


def _concat(c: Converter, n: Node) -> Tensor:
    at = 0 if n.op == "Concat" else len(n.inputs) - 1
    axis = ops.ints(c.x(n, at), "an axis")[0]
    parts = [c.x(n, k) for k in range(len(n.inputs)) if k != at]
    if axis < 0 and parts[0].rank is not None:
        axis += parts[0].rank
    return ops.concat(c.layers, parts, axis)


def _split(c: Converter, n: Node) -> list[Tensor]:
    axis = ops.ints(c.x(n, 0), "an axis")[0]
    return ops.split(c.layers, c.x(n, 1), axis, c.integer(n, "num_split"))


def _split_v(c: Converter, n: Node) -> list[Tensor]:
    sizes, axis = ops.ints(c.x(n, 1), "sizes"), ops.ints(c.x(n, 2), "an axis")[0]
    if -1 in sizes:
        raise Unknown("SplitV with a size that is left open")
    return ops.split(c.layers, c.x(n, 0), axis, len(sizes), sizes)


def _pack(c: Converter, n: Node) -> Tensor:
    return ops.pack(c.layers, [c.x(n, k) for k in range(len(n.inputs))], c.integer(n, "axis"))


def _strided_slice(c: Converter, n: Node) -> Tensor:
    names = "begin_mask end_mask ellipsis_mask new_axis_mask shrink_axis_mask".split()
    begin, end, strides = (c.x(n, k) for k in (1, 2, 3))
    return slices.strided_slice(c.layers, c.x(n, 0), begin, end, strides, [c.integer(n, m) for m in names])


def _gather(c: Converter, n: Node) -> Tensor:
    axis = ops.ints(c.x(n, 2), "an axis")[0] if n.op == "GatherV2" else 0
    return ops.gather(c.layers, c.x(n, 0), c.x(n, 1), axis, c.integer(n, "batch_dims"))


def _pad(c: Converter, n: Node) -> Tensor:
    return ops.pad(c.layers, c.x(n, 0), c.x(n, 1), c.x(n, 2) if n.op == "PadV2" else None)


def _mirror_pad(c: Converter, n: Node) -> Tensor:
    return ops.mirror_pad(c.layers, c.x(n, 0), c.x(n, 1), c.text(n, "mode", "REFLECT") == "SYMMETRIC")


def _blocks(of: Any) -> Rule:
    def rule(c: Converter, n: Node) -> Tensor:
        pads = static(c.x(n, 2), "amounts").reshape(-1, 2).tolist()
        found: Tensor = of(c.layers, c.x(n, 0), ops.ints(c.x(n, 1), "a block"), pads)
        return found

    return rule


def _depth(of: Callable[[Layers, Tensor, int], Tensor]) -> Rule:
    return lambda c, n: back(c, n, of(c.layers, image(c, n), c.integer(n, "block_size")))


def _reduce(op: str) -> Rule:
    def rule(c: Converter, n: Node) -> Tensor:
        x, keep = c.x(n, 0), c.flag(n, "keep_dims")
        axes = ops.ints(c.x(n, 1), "axes")
        if op not in ("any", "all"):
            return c.layers.reduce(op, x, axes, keep)
        number = c.layers.made(c.a.cast(c.layers.last(x), np.int32), x.rank)
        t = c.layers.reduce("ReduceMax" if op == "any" else "ReduceMin", number, axes, keep)
        return c.layers.made(c.a.cast(c.layers.last(t), np.bool_), t.rank)

    return rule


def _arg(op: str) -> Rule:
    def rule(c: Converter, n: Node) -> Tensor:
        axis = ops.ints(c.x(n, 1), "an axis")[0]
        return ops.arg(c.layers, op, c.x(n, 0), axis, c.type(n, "output_type", np.int64))

    return rule


def _cast(c: Converter, n: Node) -> Tensor:
    x = c.x(n, 0)
    return c.layers.made(c.a.cast(c.layers.last(x), c.type(n, "DstT")), x.rank)


def _clip(c: Converter, n: Node) -> Tensor:
    return c.layers.pointwise("Min", c.layers.pointwise("Max", c.x(n, 0), c.x(n, 1)), c.x(n, 2))


def _select(c: Converter, n: Node) -> Tensor:
    return c.layers.pointwise("Where", c.x(n, 0), c.x(n, 1), c.x(n, 2))


def _squared_difference(c: Converter, n: Node) -> Tensor:
    d = c.layers.pointwise("Sub", c.x(n, 0), c.x(n, 1))
    return c.layers.pointwise("Mul", d, d)


def _add_n(c: Converter, n: Node) -> Tensor:
    total = c.x(n, 0)
    for k in range(1, len(n.inputs)):
        total = c.layers.pointwise("Add", total, c.x(n, k))
    return total


def _filled(value: float) -> Rule:
    def rule(c: Converter, n: Node) -> Tensor:
        sizes = c.a.node("Shape", c.layers.last(c.x(n, 0)))
        return c.layers.made(c.a.node("Expand", c.a.constant(value, c.type(n, "T")), sizes), c.x(n, 0).rank)

    return rule


def _switch(c: Converter, n: Node) -> list[Tensor]:
    """The data behind the one of its two results that the test, which must be known, chooses."""
    chosen = bool(static(c.x(n, 1), "a test").reshape(-1)[0])
    c.dead.add((n.name, int(not chosen)))
    return [c.x(n, 0), c.x(n, 0)]


def _merge(c: Converter, n: Node) -> Tensor:
    live = [k for k, source in enumerate(n.inputs) if source not in c.dead]
    if len(live) != 1:
        raise Unknown("Merge of results that a run chooses")
    return c.x(n, live[0])


def _rank(c: Converter, n: Node) -> Tensor:
    rank = c.x(n, 0).rank
    if rank is None:
        raise Unknown("Rank of a tensor of unknown rank")
    return c.layers.known(np.array(rank, np.int32))


def _size(c: Converter, n: Node) -> Tensor:
    return c.layers.made(
        c.a.cast(c.a.node("Size", c.layers.last(c.x(n, 0))), c.type(n, "out_type", np.int32)), 0
    )


def _squeeze(c: Converter, n: Node) -> Tensor:
    return ops.squeeze(c.layers, c.x(n, 0), c.list_of(n, "squeeze_dims"))


def _one_hot(c: Converter, n: Node) -> Tensor:
    parts = [c.x(n, k) for k in range(4)]
    return ops.one_hot(c.layers, parts[0], parts[1], parts[2], parts[3], c.integer(n, "axis", -1))


def _top_k(c: Converter, n: Node) -> list[Tensor]:
    c.dtypes[n.name, 1] = np.dtype(np.int32)
    return ops.top_k(c.layers, c.x(n, 0), c.x(n, 1), np.int32)


def _cumsum(c: Converter, n: Node) -> Tensor:
    axis = ops.ints(c.x(n, 1), "an axis")[0]
    return ops.cumsum(c.layers, c.x(n, 0), axis, c.flag(n, "exclusive"), c.flag(n, "reverse"))


def _whole(of: Any) -> Rule:
    return lambda c, n: of(c.layers, c.x(n, 0), c.x(n, 1), c.type(n, "T"))


def _with(of: Callable[..., Tensor], count: int) -> Rule:
    """An operation that takes nothing but its inputs."""
    return lambda c, n: of(c.layers, *(c.x(n, k) for k in range(count)))


def _rows(table: str, make: Callable[[str], Rule]) -> dict[str, Rule]:
    return {name: make(op) for name, op in (row.split(":") for row in table.split())}


def _ints_of(c: Converter, n: Node, what: str) -> Sequence[int]:
    return ops.ints(c.x(n, 1), what)


RULES: dict[str, Rule] = {
    **_rows("Identity:x StopGradient:x CheckNumerics:x PreventGradient:x Snapshot:x", lambda _: _same),
    **_rows(
        "Relu:Relu Elu:Elu Selu:Selu Sigmoid:Sigmoid Tanh:Tanh Softplus:Softplus Softsign:Softsign Abs:Abs "
        "Neg:Neg Sqrt:Sqrt Exp:Exp Log:Log Sin:Sin Cos:Cos Erf:Erf Ceil:Ceil Floor:Floor Rint:Round "
        "Round:Round Sign:Sign LogicalNot:Not Reciprocal:Reciprocal Inv:Reciprocal IsNan:IsNaN IsInf:IsInf "
        "Tan:Tan Asin:Asin Acos:Acos Atan:Atan Sinh:Sinh Cosh:Cosh Asinh:Asinh Acosh:Acosh Atanh:Atanh",
        _unary,
    ),
    **_rows(
        "Add:Add AddV2:Add Sub:Sub Mul:Mul Div:Div RealDiv:Div Pow:Pow Maximum:Max Minimum:Min Less:Less "
        "LessEqual:LessOrEqual Greater:Greater GreaterEqual:GreaterOrEqual Equal:Equal LogicalAnd:And "
        "LogicalOr:Or",
        _binary,
    ),
    **_rows(
        "Mean:ReduceMean Sum:ReduceSum Max:ReduceMax Min:ReduceMin Prod:ReduceProd All:all Any:any", _reduce
    ),
    **_rows("ArgMax:ArgMax ArgMin:ArgMin", _arg),
    **_rows("MaxPool:MaxPool AvgPool:AveragePool MaxPool3D:MaxPool AvgPool3D:AveragePool", pool),
    **_rows("Relu6:relu6 Softmax:softmax LogSoftmax:log_softmax", _activation),
    **_rows("ResizeBilinear:linear ResizeNearestNeighbor:nearest", resize),
    **dict.fromkeys(("Conv2D", "Conv3D"), conv),
    **dict.fromkeys(("MatMul", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3"), matmul),
    **dict.fromkeys(("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"), batch_norm),
    **dict.fromkeys(("Concat", "ConcatV2"), _concat),
    **dict.fromkeys(("Gather", "GatherV2", "ResourceGather"), _gather),
    **dict.fromkeys(("Pad", "PadV2"), _pad),
    **dict.fromkeys(("Select", "SelectV2"), _select),
    **dict.fromkeys(("Conv2DBackpropInput", "Conv3DBackpropInputV2"), conv_transposed),
    "Switch": _switch,
    "Merge": _merge,
    "DepthwiseConv2dNative": depthwise,
    "BiasAdd": bias,
    "LRN": lrn,
    "LeakyRelu": lambda c, n: c.layers.unary("LeakyRelu", c.x(n, 0), alpha=c.number(n, "alpha", 0.2)),
    "Rsqrt": lambda c, n: c.layers.unary("Reciprocal", c.layers.unary("Sqrt", c.x(n, 0))),
    "Square": lambda c, n: c.layers.pointwise("Mul", c.x(n, 0), c.x(n, 0)),
    "SquaredDifference": _squared_difference,
    "AddN": _add_n,
    "FloorDiv": _whole(ops.floor_div),
    "FloorMod": _whole(ops.floor_mod),
    "NotEqual": lambda c, n: c.layers.unary("Not", c.layers.pointwise("Equal", c.x(n, 0), c.x(n, 1))),
    "ClipByValue": _clip,
    "Cast": _cast,
    "Reshape": _with(ops.reshape, 2),
    "Squeeze": _squeeze,
    "ExpandDims": lambda c, n: ops.expand_dims(c.layers, c.x(n, 0), _ints_of(c, n, "an axis")[0]),
    "Transpose": lambda c, n: ops.transpose(c.layers, c.x(n, 0), _ints_of(c, n, "an order")),
    "Pack": _pack,
    "Unpack": lambda c, n: ops.unpack(c.layers, c.x(n, 0), c.integer(n, "axis"), c.integer(n, "num")),
    "Split": _split,
    "SplitV": _split_v,
    "Slice": _with(slices.slice_, 3),
    "StridedSlice": _strided_slice,
    "GatherNd": lambda c, n: c.layers.made(
        c.a.node("GatherND", c.layers.last(c.x(n, 0)), ops.as_int64(c.layers, c.x(n, 1)))
    ),
    "MirrorPad": _mirror_pad,
    "Tile": _with(ops.tile, 2),
    "Fill": _with(ops.fill, 2),
    "BroadcastTo": _with(ops.broadcast_to, 2),
    "Shape": lambda c, n: ops.shape(c.layers, c.x(n, 0), c.type(n, "out_type", np.int32)),
    "Rank": _rank,
    "Size": _size,
    "Range": _with(ops.range_, 3),
    "OneHot": _one_hot,
    "TopKV2": _top_k,
    "Cumsum": _cumsum,
    "ZerosLike": _filled(0.0),
    "OnesLike": _filled(1.0),
    "ReverseV2": lambda c, n: ops.reverse(c.layers, c.x(n, 0), _ints_of(c, n, "axes")),
    "SpaceToDepth": _depth(ops.space_to_depth),
    "DepthToSpace": _depth(ops.depth_to_space),
    "SpaceToBatchND": _blocks(ops.space_to_batch),
    "BatchToSpaceND": _blocks(ops.batch_to_space),
}
