"""TFLite's operations on tensors as ONNX, and the table of all operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from trilobite.inference.formats import slices
from trilobite.inference.formats import tensor_ops as ops
from trilobite.inference.formats.channels_last import Tensor
from trilobite.inference.formats.tensor_ops import Unknown
from trilobite.inference.formats.tflite import control, layers, spectra, variables
from trilobite.inference.formats.tflite.convert import Converter, Rule, integers
from trilobite.inference.formats.tflite.file import Operator


def _unary(op: str, **attrs: Any) -> Rule:
    return lambda c, o: c.out(o, c.layers.unary(op, c.x(o, 0), **attrs))


def _binary(op: str, fused: int | None = None) -> Rule:
    return lambda c, o: c.out(o, c.layers.pointwise(op, c.x(o, 0), c.x(o, 1)), fused=fused)


def _activation(name: str) -> Rule:
    return lambda c, o: c.out(o, ops.activation(c.layers, c.x(o, 0), name))


def _stored(c: Converter, o: Operator, k: int) -> Tensor:
    return c.stored(o.inputs[k])


def moved(write: Callable[[Converter, Operator, Tensor], Tensor]) -> Rule:
    """An operation that moves numbers: integers stay as they are, where both sides mean the same by them."""

    def rule(c: Converter, o: Operator) -> None:
        if c.is_complex(o, 0):
            c.pairs[o.outputs[0]] = spectra.each(c, o, write)
            return
        a, b = integers(c.info(o, 0)), integers(c.out_info(o))
        same = (a is None and b is None) or (
            a is not None
            and b is not None
            and np.array_equal(a.scale, b.scale)
            and np.array_equal(a.zero, b.zero)
        )
        if same and (a is None or len(a.scale) == 1):
            c.keep(o, write(c, o, _stored(c, o, 0)))
        else:
            c.out(o, write(c, o, c.x(o, 0)))

    return rule


# -- arithmetic ----------------------------------------------------------------------------------------------


def _squared_difference(c: Converter, o: Operator) -> None:
    d = c.layers.pointwise("Sub", c.x(o, 0), c.x(o, 1))
    c.out(o, c.layers.pointwise("Mul", d, d))


def _square(c: Converter, o: Operator) -> None:
    x = c.x(o, 0)
    c.out(o, c.layers.pointwise("Mul", x, x))


def _add_n(c: Converter, o: Operator) -> None:
    total = c.x(o, 0)
    for k in range(1, len(o.inputs)):
        total = c.layers.pointwise("Add", total, c.x(o, k))
    c.out(o, total)


def _not_equal(c: Converter, o: Operator) -> None:
    c.out(o, c.layers.unary("Not", c.layers.pointwise("Equal", c.x(o, 0), c.x(o, 1))))


def _select(c: Converter, o: Operator) -> None:
    """The older form chooses whole rows by a list of choices."""
    p, x, y = c.x(o, 0), c.x(o, 1), c.x(o, 2)
    if o.name == "SELECT" and p.rank == 1 and (x.rank or 0) > 1:
        more = c.a.ints(*range(1, x.rank or 1))
        p = c.layers.made(c.a.node("Unsqueeze", c.layers.last(p), more), x.rank)
    c.out(o, c.layers.pointwise("Where", p, x, y))


def _leaky(c: Converter, o: Operator) -> None:
    c.out(o, c.layers.unary("LeakyRelu", c.x(o, 0), alpha=float(c.option(o, 0, "f"))))


def _gelu(c: Converter, o: Operator) -> None:
    how = "tanh" if c.option(o, 0, "?", False) else "none"
    c.out(o, c.layers.unary("Gelu", c.x(o, 0), approximate=how))


def _cast(c: Converter, o: Operator) -> None:
    if c.is_complex(o, 0):
        return spectra.cast(c, o)
    dtype = c.out_info(o).dtype
    x = c.x(o, 0)
    if x.first and not x.last and x.rank is not None:
        c.keep(o, c.layers.made_first(c.a.cast(x.first, dtype), x.rank))
    else:
        c.keep(o, c.layers.made(c.a.cast(c.layers.last(x), dtype), x.rank))


def _quantize(c: Converter, o: Operator) -> None:
    c.out(o, c.x(o, 0))


def _dequantize(c: Converter, o: Operator) -> None:
    """Of halves that stand in the file: the same numbers as floats."""
    v = c.info(o, 0)
    t = _stored(c, o, 0)
    if v.dtype == np.float16 and t.array is not None:
        c.keep(o, Tensor(array=t.array.astype(np.float32)))
    elif v.dtype == np.float16:
        _cast(c, o)
    else:
        c.out(o, c.x(o, 0))


def _fake_quant(c: Converter, o: Operator) -> None:
    low, high = float(c.option(o, 0, "f")), float(c.option(o, 1, "f"))
    steps = 2 ** int(c.option(o, 2, "i")) - 1 - int(c.option(o, 3, "?", False))
    scale = (high - low) / steps
    if not scale > 0:
        raise Unknown(f"FAKE_QUANT from {low} to {high}")
    first = round(low / scale) * scale
    n, layers = c.layers.number, c.layers
    level = layers.unary(
        "Round", layers.pointwise("Div", layers.clip(c.x(o, 0), first, first + steps * scale), n(scale))
    )
    c.out(o, layers.pointwise("Mul", level, n(scale)))


# -- reductions ----------------------------------------------------------------------------------------------


def _reduce(op: str) -> Rule:
    def rule(c: Converter, o: Operator) -> None:
        axes, keep = c.ints(o, 1, "axes"), bool(c.option(o, 0, "?", False))
        x = c.x(o, 0)
        if op in ("any", "all"):
            number = c.layers.made(c.a.cast(c.layers.last(x), np.int32), x.rank)
            t = c.layers.reduce("ReduceMax" if op == "any" else "ReduceMin", number, axes, keep)
            c.keep(o, c.layers.made(c.a.cast(c.layers.last(t), np.bool_), t.rank))
        else:
            c.out(o, c.layers.reduce(op, x, axes, keep))

    return rule


def _arg(op: str) -> Rule:
    def rule(c: Converter, o: Operator) -> None:
        axis = c.ints(o, 1, "an axis")[0]
        c.keep(o, ops.arg(c.layers, op, c.x(o, 0), axis, c.out_info(o).dtype))

    return rule


# -- moving --------------------------------------------------------------------------------------------------


def _reshape(c: Converter, o: Operator, x: Tensor) -> Tensor:
    if c.given(o, 1):
        wanted = _stored(c, o, 1)
    elif o.options is not None and o.options.has(0):
        wanted = c.layers.known(np.array(o.options.ints(0), np.int64))
    else:
        wanted = c.layers.known(np.array(c.out_info(o).shape, np.int64))
    return ops.reshape(c.layers, x, wanted)


def _squeeze(c: Converter, o: Operator, x: Tensor) -> Tensor:
    axes = o.options.ints(0) if o.options is not None else []
    if not axes:
        axes = [i for i, d in enumerate(c.info(o, 0).shape) if d == 1]
    return ops.squeeze(c.layers, x, axes)


def _concat(c: Converter, o: Operator) -> None:
    axis = int(c.option(o, 0, "i"))
    c.out(o, ops.concat(c.layers, [c.x(o, k) for k in range(len(o.inputs))], axis), fused=1)


def _split(c: Converter, o: Operator) -> None:
    axis = c.ints(o, 0, "an axis")[0]
    for k, t in enumerate(ops.split(c.layers, c.x(o, 1), axis, len(o.outputs))):
        c.out(o, t, k)


def _split_v(c: Converter, o: Operator) -> None:
    wanted, axis = c.ints(o, 1, "sizes"), c.ints(o, 2, "an axis")[0]
    if -1 in wanted:
        whole = c.info(o, 0).shape[axis]
        wanted[wanted.index(-1)] = whole - sum(wanted) - 1
    for k, t in enumerate(ops.split(c.layers, c.x(o, 0), axis, len(o.outputs), wanted)):
        c.out(o, t, k)


def _pack(c: Converter, o: Operator) -> None:
    parts = [c.x(o, k) for k in range(len(o.inputs))]
    c.out(o, ops.pack(c.layers, parts, int(c.option(o, 1, "i"))))


def _unpack(c: Converter, o: Operator) -> None:
    axis = int(c.option(o, 1, "i"))
    for k, t in enumerate(ops.unpack(c.layers, c.x(o, 0), axis, len(o.outputs))):
        c.out(o, t, k)


def _strided_slice(c: Converter, o: Operator, x: Tensor) -> Tensor:
    if c.option(o, 5, "?", False):
        raise Unknown("STRIDED_SLICE whose ends are offsets")
    masks = [int(c.option(o, slot, "i")) for slot in range(5)]
    begin, end, strides = (_stored(c, o, k) for k in (1, 2, 3))
    return slices.strided_slice(c.layers, x, begin, end, strides, masks)


def _gather(c: Converter, o: Operator, x: Tensor) -> Tensor:
    return ops.gather(c.layers, x, _stored(c, o, 1), int(c.option(o, 0, "i")), int(c.option(o, 1, "i")))


def _embedding(c: Converter, o: Operator) -> None:
    """Indices first, then the table."""
    c.out(o, ops.gather(c.layers, c.x(o, 1), _stored(c, o, 0), 0, 0))


def _gather_nd(c: Converter, o: Operator, x: Tensor) -> Tensor:
    return c.layers.made(c.a.node("GatherND", c.layers.last(x), ops.as_int64(c.layers, _stored(c, o, 1))))


def _scatter_nd(c: Converter, o: Operator) -> None:
    """Places that come more than once add up."""
    a, wanted = c.a, ops.as_int64(c.layers, _stored(c, o, 2))
    blank = a.node("Expand", a.constant(0, c.info(o, 1).dtype), wanted)
    places = ops.as_int64(c.layers, _stored(c, o, 0))
    out = a.node("ScatterND", blank, places, c.layers.last(_stored(c, o, 1)), reduction="add")
    c.keep(o, c.layers.made(out, len(c.out_info(o).shape)))


def _pad(c: Converter, o: Operator) -> None:
    value = c.x(o, 2) if c.given(o, 2) else None
    c.out(o, ops.pad(c.layers, c.x(o, 0), _stored(c, o, 1), value))


def _mirror_pad(c: Converter, o: Operator, x: Tensor) -> Tensor:
    return ops.mirror_pad(c.layers, x, _stored(c, o, 1), bool(c.option(o, 0, "b")))


def _space_to_batch(c: Converter, o: Operator, x: Tensor) -> Tensor:
    pads = c.array(o, 2, "padding").reshape(-1, 2).tolist()
    return ops.space_to_batch(c.layers, x, c.ints(o, 1, "a block"), pads)


def _batch_to_space(c: Converter, o: Operator, x: Tensor) -> Tensor:
    crops = c.array(o, 2, "crops").reshape(-1, 2).tolist()
    return ops.batch_to_space(c.layers, x, c.ints(o, 1, "a block"), crops)


def _shape(c: Converter, o: Operator) -> None:
    dims = c.info(o, 0).shape
    dtype = c.out_info(o).dtype
    if all(d >= 0 for d in dims):
        c.keep(o, c.layers.known(np.array(dims, dtype)))
    else:
        c.keep(o, ops.shape(c.layers, _stored(c, o, 0), dtype))


def _rank(c: Converter, o: Operator) -> None:
    c.keep(o, c.layers.known(np.array(len(c.info(o, 0).shape), c.out_info(o).dtype)))


def _zeros_like(c: Converter, o: Operator) -> None:
    c.out(o, c.layers.pointwise("Mul", c.x(o, 0), c.layers.number(0, c.info(o, 0).dtype)))


def _one_hot(c: Converter, o: Operator) -> None:
    parts = [_stored(c, o, k) for k in range(4)]
    c.out(o, ops.one_hot(c.layers, parts[0], parts[1], c.x(o, 2), c.x(o, 3), int(c.option(o, 0, "i"))))


def _top_k(c: Converter, o: Operator) -> None:
    values, places = ops.top_k(c.layers, c.x(o, 0), _stored(c, o, 1), c.graph.values[o.outputs[1]].dtype)
    c.out(o, values)
    c.keep(o, places, 1)


def _where(c: Converter, o: Operator) -> None:
    found = c.a.node("NonZero", c.layers.last(_stored(c, o, 0)))
    c.keep(o, c.layers.made(c.a.node("Transpose", found, perm=[1, 0]), 2))


def _cumsum(c: Converter, o: Operator) -> None:
    axis = c.ints(o, 1, "an axis")[0]
    t = ops.cumsum(
        c.layers, c.x(o, 0), axis, bool(c.option(o, 0, "?", False)), bool(c.option(o, 1, "?", False))
    )
    c.out(o, t)


def _reverse_sequence(c: Converter, o: Operator) -> None:
    seq, batch = int(c.option(o, 0, "i")), int(c.option(o, 1, "i"))
    lengths = ops.as_int64(c.layers, _stored(c, o, 1))
    out = c.a.node("ReverseSequence", c.layers.last(c.x(o, 0)), lengths, time_axis=seq, batch_axis=batch)
    c.out(o, c.layers.made(out, c.x(o, 0).rank))


def _floored(of: Any) -> Rule:
    return lambda c, o: c.out(o, of(c.layers, c.x(o, 0), c.x(o, 1), c.info(o, 0).dtype))


def _rows(table: str, make: Callable[[str], Rule]) -> dict[str, Rule]:
    return {name: make(op) for name, op in (row.split(":") for row in table.split())}


RULES: dict[str, Rule] = {
    **layers.ROWS,
    **spectra.ROWS,
    **variables.ROWS,
    **_rows("ADD:Add SUB:Sub MUL:Mul DIV:Div", lambda op: _binary(op, fused=0)),
    **_rows(
        "MAXIMUM:Max MINIMUM:Min POW:Pow LESS:Less LESS_EQUAL:LessOrEqual GREATER:Greater "
        "GREATER_EQUAL:GreaterOrEqual EQUAL:Equal LOGICAL_AND:And LOGICAL_OR:Or BITWISE_XOR:BitwiseXor",
        _binary,
    ),
    **_rows(
        "ABS:Abs NEG:Neg SQRT:Sqrt EXP:Exp LOG:Log SIN:Sin COS:Cos TANH:Tanh LOGISTIC:Sigmoid RELU:Relu "
        "ELU:Elu HARD_SWISH:HardSwish CEIL:Ceil FLOOR:Floor ROUND:Round SIGN:Sign LOGICAL_NOT:Not",
        _unary,
    ),
    **_rows("RELU6:relu6 RELU_N1_TO_1:relu_n1_to_1", _activation),
    **_rows(
        "MEAN:ReduceMean SUM:ReduceSum REDUCE_PROD:ReduceProd REDUCE_MAX:ReduceMax REDUCE_MIN:ReduceMin "
        "REDUCE_ANY:any REDUCE_ALL:all",
        _reduce,
    ),
    **_rows("ARG_MAX:ArgMax ARG_MIN:ArgMin", _arg),
    "SQUARED_DIFFERENCE": _squared_difference,
    "SQUARE": _square,
    "RSQRT": lambda c, o: c.out(o, c.layers.unary("Reciprocal", c.layers.unary("Sqrt", c.x(o, 0)))),
    "RELU_0_TO_1": lambda c, o: c.out(o, c.layers.clip(c.x(o, 0), 0.0, 1.0)),
    "FLOOR_DIV": _floored(ops.floor_div),
    "FLOOR_MOD": _floored(ops.floor_mod),
    "ADD_N": _add_n,
    "NOT_EQUAL": _not_equal,
    "SELECT": _select,
    "SELECT_V2": _select,
    "LEAKY_RELU": _leaky,
    "GELU": _gelu,
    "CAST": _cast,
    "QUANTIZE": _quantize,
    "DEQUANTIZE": _dequantize,
    "DENSIFY": lambda c, o: c.keep(o, _stored(c, o, 0)),
    "FAKE_QUANT": _fake_quant,
    "RESHAPE": moved(_reshape),
    "SQUEEZE": moved(_squeeze),
    "EXPAND_DIMS": moved(lambda c, o, x: ops.expand_dims(c.layers, x, c.ints(o, 1, "an axis")[0])),
    "TRANSPOSE": moved(lambda c, o, x: ops.transpose(c.layers, x, c.ints(o, 1, "an order"))),
    "STRIDED_SLICE": moved(_strided_slice),
    "SLICE": moved(lambda c, o, x: slices.slice_(c.layers, x, _stored(c, o, 1), _stored(c, o, 2))),
    "GATHER": moved(_gather),
    "GATHER_ND": moved(_gather_nd),
    "TILE": moved(lambda c, o, x: ops.tile(c.layers, x, _stored(c, o, 1))),
    "MIRROR_PAD": moved(_mirror_pad),
    "REVERSE_V2": moved(lambda c, o, x: ops.reverse(c.layers, x, c.ints(o, 1, "axes"))),
    "BROADCAST_TO": moved(lambda c, o, x: ops.broadcast_to(c.layers, x, _stored(c, o, 1))),
    "SPACE_TO_DEPTH": moved(lambda c, o, x: ops.space_to_depth(c.layers, x, int(c.option(o, 0, "i")))),
    "DEPTH_TO_SPACE": moved(lambda c, o, x: ops.depth_to_space(c.layers, x, int(c.option(o, 0, "i")))),
    "SPACE_TO_BATCH_ND": moved(_space_to_batch),
    "BATCH_TO_SPACE_ND": moved(_batch_to_space),
    "CONCATENATION": _concat,
    "SPLIT": _split,
    "SPLIT_V": _split_v,
    "PACK": _pack,
    "UNPACK": _unpack,
    "EMBEDDING_LOOKUP": _embedding,
    "SCATTER_ND": _scatter_nd,
    "PAD": _pad,
    "PADV2": _pad,
    "FILL": lambda c, o: c.keep(o, ops.fill(c.layers, _stored(c, o, 0), _stored(c, o, 1))),
    "SHAPE": _shape,
    "RANK": _rank,
    "RANGE": lambda c, o: c.keep(o, ops.range_(c.layers, *(_stored(c, o, k) for k in range(3)))),
    "ZEROS_LIKE": _zeros_like,
    "ONE_HOT": _one_hot,
    "TOPK_V2": _top_k,
    "WHERE": _where,
    "CUMSUM": _cumsum,
    "REVERSE_SEQUENCE": _reverse_sequence,
    **control.rows(lambda: RULES),
}
