"""Operations that TFLite, TensorFlow and Keras share, over channels-last tensors, as ONNX nodes.

Each function takes `Layers` and tensors, and numbers that the format states; what a format leaves to the run
is refused by name (`Unknown`) where ONNX needs it fixed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from trilobite.inference.formats.channels_last import Layers, Tensor, to_first

FAR = 2**31 - 1


class Unknown(Exception):
    """Something that a run decides, where it must be known; says what. Importers catch and note it."""


def static(t: Tensor, what: str) -> np.ndarray[Any, Any]:
    if t.array is None:
        raise Unknown(f"{what} that a run decides")
    return t.array


def ints(t: Tensor, what: str) -> list[int]:
    return [int(v) for v in static(t, what).reshape(-1)]


def as_int64(layers: Layers, t: Tensor) -> str:
    """Sizes and indices as ONNX wants them."""
    if t.array is not None:
        return layers.a.constant(t.array.astype(np.int64))
    return layers.a.cast(layers.last(t), np.int64)


# -- shapes --------------------------------------------------------------------------------------------------


def reshape(layers: Layers, x: Tensor, shape: Tensor) -> Tensor:
    if x.array is not None and shape.array is not None:
        return layers.known(x.array.reshape(ints(shape, "a shape")))
    rank = None if shape.array is None else shape.array.size
    zero = shape.array is not None and (shape.array == 0).any()
    out = layers.a.node(
        "Reshape", layers.last(x), as_int64(layers, shape), **({"allowzero": 1} if zero else {})
    )
    return layers.made(out, rank)


def squeeze(layers: Layers, x: Tensor, axes: Sequence[int]) -> Tensor:
    if x.array is not None:
        return layers.known(x.array.squeeze(tuple(axes) or None))
    more = [layers.a.ints(*axes)] if axes else []
    rank = None if x.rank is None or not axes else x.rank - len(axes)
    return layers.made(layers.a.node("Squeeze", layers.last(x), *more), rank)


def expand_dims(layers: Layers, x: Tensor, axis: int) -> Tensor:
    if x.array is not None:
        return layers.known(np.expand_dims(x.array, axis))
    rank = None if x.rank is None else x.rank + 1
    return layers.made(layers.a.node("Unsqueeze", layers.last(x), layers.a.ints(axis)), rank)


def transpose(layers: Layers, x: Tensor, order: Sequence[int]) -> Tensor:
    """To the form with channels first it may be one that is there already."""
    if x.array is not None:
        return layers.known(x.array.transpose(order))
    if x.first and list(order) == to_first(len(order)):
        return layers.made(x.first, len(order))
    return layers.made(layers.a.node("Transpose", layers.last(x), perm=list(order)), len(order))


def concat(layers: Layers, xs: Sequence[Tensor], axis: int) -> Tensor:
    if all(x.array is not None for x in xs):
        return layers.known(np.concatenate([static(x, "") for x in xs], axis))
    rank = next((x.rank for x in xs if x.rank is not None), None)
    if rank is not None and rank > 2 and any(x.first and not x.last for x in xs):
        at = to_first(rank).index(axis % rank)
        return layers.made_first(layers.a.node("Concat", *(layers.first(x, rank) for x in xs), axis=at), rank)
    return layers.made(layers.a.node("Concat", *(layers.last(x) for x in xs), axis=axis), rank)


def split(
    layers: Layers, x: Tensor, axis: int, count: int, sizes: Sequence[int] | None = None
) -> list[Tensor]:
    if not 0 < count <= 1 << 16:
        raise Unknown(f"a split into {count} parts")
    more = [] if sizes is None else [layers.a.ints(*sizes)]
    attrs: dict[str, Any] = {"num_outputs": count} if sizes is None else {}
    names = layers.a.many("Split", [layers.last(x), *more], count, axis=axis, **attrs)
    return [layers.made(n, x.rank) for n in names]


def pack(layers: Layers, xs: Sequence[Tensor], axis: int) -> Tensor:
    if all(x.array is not None for x in xs):
        return layers.known(np.stack([static(x, "") for x in xs], axis))
    out = concat(layers, [expand_dims(layers, x, axis) for x in xs], axis)
    return out


def unpack(layers: Layers, x: Tensor, axis: int, count: int) -> list[Tensor]:
    return [squeeze(layers, part, [axis]) for part in split(layers, x, axis, count)]


def shape(layers: Layers, x: Tensor, dtype: Any) -> Tensor:
    out = layers.a.node("Shape", layers.last(x))
    return layers.made(out if np.dtype(dtype) == np.int64 else layers.a.cast(out, dtype), 1)


def pad(
    layers: Layers, x: Tensor, pads: Tensor, value: Tensor | None = None, mode: str = "constant"
) -> Tensor:
    """`pads`: (rank, 2). The first-channel form stays, where the amounts are known."""
    number = [] if value is None else [layers.last(value)]
    if pads.array is None:
        turned = layers.a.node("Transpose", as_int64(layers, pads), perm=[1, 0])
        flat = layers.a.node("Reshape", turned, layers.a.ints(-1))
        return layers.made(layers.a.node("Pad", layers.last(x), flat, *number, mode=mode), x.rank)
    amounts = pads.array.reshape(-1, 2)
    rank = len(amounts)
    if x.first and not x.last and rank > 2:
        moved = amounts[to_first(rank)]
        out = layers.a.node("Pad", x.first, layers.a.ints(*moved[:, 0], *moved[:, 1]), *number, mode=mode)
        return layers.made_first(out, rank)
    out = layers.a.node(
        "Pad", layers.last(x), layers.a.ints(*amounts[:, 0], *amounts[:, 1]), *number, mode=mode
    )
    return layers.made(out, rank)


def mirror_pad(layers: Layers, x: Tensor, pads: Tensor, symmetric: bool) -> Tensor:
    """Reflection with the edge repeated is put together from turned slices: ONNX has only the other."""
    if not symmetric:
        return pad(layers, x, pads, mode="reflect")
    amounts = static(pads, "mirrored padding").reshape(-1, 2)
    a, name = layers.a, layers.last(x)
    for axis, (low, high) in enumerate(amounts.tolist()):
        parts = []
        if low:
            parts.append(a.node("Slice", name, a.ints(low - 1), a.ints(-FAR), a.ints(axis), a.ints(-1)))
        parts.append(name)
        if high:
            parts.append(a.node("Slice", name, a.ints(-1), a.ints(-high - 1), a.ints(axis), a.ints(-1)))
        name = parts[0] if len(parts) == 1 else a.node("Concat", *parts, axis=axis)
    return layers.made(name, len(amounts))


def gather(layers: Layers, x: Tensor, indices: Tensor, axis: int, batch: int) -> Tensor:
    a = layers.a
    if batch == 0:
        rank = None if x.rank is None or indices.rank is None else x.rank - 1 + indices.rank
        return layers.made(a.node("Gather", layers.last(x), layers.last(indices), axis=axis), rank)
    if axis != batch and axis % (x.rank or 1) != batch:
        raise Unknown("a gather whose axis lies behind its batch")
    points = a.node("Unsqueeze", as_int64(layers, indices), a.ints(-1))
    return layers.made(a.node("GatherND", layers.last(x), points, batch_dims=batch))


def tile(layers: Layers, x: Tensor, repeats: Tensor) -> Tensor:
    return layers.made(layers.a.node("Tile", layers.last(x), as_int64(layers, repeats)), x.rank)


def fill(layers: Layers, dims: Tensor, value: Tensor) -> Tensor:
    rank = None if dims.array is None else dims.array.size
    return layers.made(layers.a.node("Expand", layers.last(value), as_int64(layers, dims)), rank)


def broadcast_to(layers: Layers, x: Tensor, dims: Tensor) -> Tensor:
    return fill(layers, dims, x)


def one_hot(layers: Layers, indices: Tensor, depth: Tensor, on: Tensor, off: Tensor, axis: int) -> Tensor:
    values = layers.a.node(
        "Concat", *(layers.a.node("Reshape", layers.last(t), layers.a.ints(1)) for t in (off, on)), axis=0
    )
    count = layers.a.node("Reshape", as_int64(layers, depth), layers.a.ints(1))
    # places below 0 are none here, and counted from the end in ONNX: they are moved beyond the depth
    places = as_int64(layers, indices)
    zero = layers.a.constant(0, np.int64)
    places = layers.a.node("Where", layers.a.node("Less", places, zero), count, places)
    rank = None if indices.rank is None else indices.rank + 1
    return layers.made(layers.a.node("OneHot", places, count, values, axis=axis), rank)


def space_to_batch(layers: Layers, x: Tensor, block: Sequence[int], pads: Sequence[Sequence[int]]) -> Tensor:
    """Each place within a block becomes a part of the batch, places before the batch."""
    a, n = layers.a, len(block)
    rank = x.rank
    if rank is None or rank < n + 1:
        raise Unknown("space_to_batch of a tensor of unknown rank")
    rest = rank - 1 - n
    low, high = [0, *(p[0] for p in pads), *[0] * rest], [0, *(p[1] for p in pads), *[0] * rest]
    name = a.node("Pad", layers.last(x), a.ints(*low, *high))
    sizes = a.node("Shape", name)
    parts = [a.node("Slice", sizes, a.ints(0), a.ints(1))]
    for i, b in enumerate(block):
        each = a.node("Slice", sizes, a.ints(i + 1), a.ints(i + 2))
        parts += [a.node("Div", each, a.ints(b)), a.ints(b)]
    tail = [a.node("Slice", sizes, a.ints(n + 1), a.ints(FAR))] if rest else []
    name = a.node("Reshape", name, a.node("Concat", *parts, *tail, axis=0))
    inner, outer = [2 + 2 * i for i in range(n)], [1 + 2 * i for i in range(n)]
    name = a.node("Transpose", name, perm=[*inner, 0, *outer, *range(2 * n + 1, 2 * n + 1 + rest)])
    joined = a.node("Mul", parts[0], a.ints(int(np.prod(block))))
    out = a.node("Reshape", name, a.node("Concat", joined, *parts[1::2], *tail, axis=0))
    return layers.made(out, rank)


def batch_to_space(layers: Layers, x: Tensor, block: Sequence[int], crops: Sequence[Sequence[int]]) -> Tensor:
    a, n = layers.a, len(block)
    rank = x.rank
    if rank is None or rank < n + 1:
        raise Unknown("batch_to_space of a tensor of unknown rank")
    rest = rank - 1 - n
    sizes = a.node("Shape", layers.last(x))
    batch = a.node("Div", a.node("Slice", sizes, a.ints(0), a.ints(1)), a.ints(int(np.prod(block))))
    each = [a.node("Slice", sizes, a.ints(i + 1), a.ints(i + 2)) for i in range(n)]
    tail = [a.node("Slice", sizes, a.ints(n + 1), a.ints(FAR))] if rest else []
    name = a.node("Reshape", layers.last(x), a.node("Concat", a.ints(*block), batch, *each, *tail, axis=0))
    mixed = [axis for i in range(n) for axis in (n + 1 + i, i)]
    name = a.node("Transpose", name, perm=[n, *mixed, *range(2 * n + 1, 2 * n + 1 + rest)])
    grown = [a.node("Mul", e, a.ints(b)) for e, b in zip(each, block, strict=True)]
    name = a.node("Reshape", name, a.node("Concat", batch, *grown, *tail, axis=0))
    axes = range(1, n + 1)
    ends = [-int(c[1]) if c[1] else FAR for c in crops]
    name = a.node("Slice", name, a.ints(*(int(c[0]) for c in crops)), a.ints(*ends), a.ints(*axes))
    return layers.made(name, rank)


def depth_to_space(layers: Layers, x: Tensor, block: int) -> Tensor:
    return layers.made_first(layers.a.node("DepthToSpace", layers.first(x), blocksize=block, mode="DCR"), 4)


def space_to_depth(layers: Layers, x: Tensor, block: int) -> Tensor:
    return layers.made_first(layers.a.node("SpaceToDepth", layers.first(x), blocksize=block), 4)


# -- numbers -------------------------------------------------------------------------------------------------


def activation(layers: Layers, x: Tensor, name: str) -> Tensor:
    """By the name that a layer's configuration has for it."""
    if name in ("", "linear", "NONE"):
        return x
    if name not in _ACTIVATIONS:
        raise Unknown(f"the activation {name}")
    found: Tensor = _ACTIVATIONS[name](layers, x)
    return found


_ACTIVATIONS: dict[str, Any] = {
    "relu": lambda layers, x: layers.unary("Relu", x),
    "relu6": lambda layers, x: layers.clip(x, 0.0, 6.0),
    "relu_n1_to_1": lambda layers, x: layers.clip(x, -1.0, 1.0),
    "tanh": lambda layers, x: layers.unary("Tanh", x),
    "sigmoid": lambda layers, x: layers.unary("Sigmoid", x),
    "elu": lambda layers, x: layers.unary("Elu", x),
    "selu": lambda layers, x: layers.unary("Selu", x),
    "softplus": lambda layers, x: layers.unary("Softplus", x),
    "softsign": lambda layers, x: layers.unary("Softsign", x),
    "gelu": lambda layers, x: layers.unary("Gelu", x),
    "exponential": lambda layers, x: layers.unary("Exp", x),
    "swish": lambda layers, x: layers.pointwise("Mul", x, layers.unary("Sigmoid", x)),
    "silu": lambda layers, x: layers.pointwise("Mul", x, layers.unary("Sigmoid", x)),
    "mish": lambda layers, x: layers.unary("Mish", x),
    "hard_sigmoid": lambda layers, x: layers.unary("HardSigmoid", x, alpha=1 / 6, beta=0.5),
    "hard_swish": lambda layers, x: layers.unary("HardSwish", x),
    "hard_silu": lambda layers, x: layers.unary("HardSwish", x),
    "leaky_relu": lambda layers, x: layers.unary("LeakyRelu", x, alpha=0.2),
    "softmax": lambda layers, x: softmax(layers, x),
    "log_softmax": lambda layers, x: softmax(layers, x, op="LogSoftmax"),
}


def softmax(layers: Layers, x: Tensor, beta: float = 1.0, op: str = "Softmax") -> Tensor:
    if beta != 1.0:
        x = layers.pointwise("Mul", x, layers.number(beta))
    if x.first and not x.last and x.rank is not None:
        return layers.made_first(layers.a.node(op, x.first, axis=1), x.rank)
    return layers.made(layers.a.node(op, layers.last(x), axis=-1), x.rank)


def l2_normalised(layers: Layers, x: Tensor, eps: float) -> Tensor:
    square = layers.pointwise("Mul", x, x)
    rank = x.rank
    if rank is not None and x.first and not x.last:
        total = layers.made_first(
            layers.a.node("ReduceSum", square.first, layers.a.ints(1), keepdims=1), rank
        )
    else:
        total = layers.made(
            layers.a.node("ReduceSum", layers.last(square), layers.a.ints(-1), keepdims=1), rank
        )
    floor = layers.pointwise("Max", total, layers.number(eps))
    return layers.pointwise("Div", x, layers.unary("Sqrt", floor))


def local_response(layers: Layers, x: Tensor, radius: int, bias: float, alpha: float, beta: float) -> Tensor:
    """ONNX divides alpha by the size of the window, TensorFlow does not."""
    size = 2 * radius + 1
    out = layers.a.node("LRN", layers.first(x), size=size, bias=bias, alpha=alpha * size, beta=beta)
    return layers.made_first(out, 4)


def floor_mod(layers: Layers, x: Tensor, y: Tensor, dtype: Any) -> Tensor:
    if np.dtype(dtype).kind in "iu":
        return layers.pointwise("Mod", x, y)
    whole = layers.unary("Floor", layers.pointwise("Div", x, y))
    return layers.pointwise("Sub", x, layers.pointwise("Mul", whole, y))


def floor_div(layers: Layers, x: Tensor, y: Tensor, dtype: Any) -> Tensor:
    if np.dtype(dtype).kind in "iu":
        rest = layers.pointwise("Mod", x, y)
        return layers.pointwise("Div", layers.pointwise("Sub", x, rest), y)
    return layers.unary("Floor", layers.pointwise("Div", x, y))


def matmul(layers: Layers, x: Tensor, y: Tensor, turn_x: bool, turn_y: bool) -> Tensor:
    names = []
    for t, turned in ((x, turn_x), (y, turn_y)):
        name = layers.last(t)
        if turned:
            if t.rank is None:
                raise Unknown("a transposed product of unknown rank")
            order = [*range(t.rank - 2), t.rank - 1, t.rank - 2]
            name = layers.a.node("Transpose", name, perm=order)
        names.append(name)
    rank = None if x.rank is None or y.rank is None else max(x.rank, y.rank)
    return layers.made(layers.a.node("MatMul", *names), rank)


def top_k(layers: Layers, x: Tensor, k: Tensor, places_in: Any) -> list[Tensor]:
    count = layers.a.node("Reshape", as_int64(layers, k), layers.a.ints(1))
    values, places = layers.a.many("TopK", [layers.last(x), count], 2, axis=-1)
    return [layers.made(values, x.rank), layers.made(layers.a.cast(places, places_in), x.rank)]


def arg(layers: Layers, op: str, x: Tensor, axis: int, dtype: Any) -> Tensor:
    out = layers.a.node(op, layers.last(x), axis=axis, keepdims=0)
    return layers.made(layers.a.cast(out, dtype), None if x.rank is None else x.rank - 1)


def range_(layers: Layers, start: Tensor, limit: Tensor, delta: Tensor) -> Tensor:
    return layers.made(layers.a.node("Range", *(layers.last(t) for t in (start, limit, delta))), 1)


def reverse(layers: Layers, x: Tensor, axes: Sequence[int]) -> Tensor:
    a, n = layers.a, len(axes)
    if not n:
        return x
    out = a.node(
        "Slice", layers.last(x), a.ints(*[-1] * n), a.ints(*[-FAR] * n), a.ints(*axes), a.ints(*[-1] * n)
    )
    return layers.made(out, x.rank)


def cumsum(layers: Layers, x: Tensor, axis: int, exclusive: bool, backwards: bool) -> Tensor:
    out = layers.a.node(
        "CumSum",
        layers.last(x),
        layers.a.constant(axis, np.int64),
        exclusive=int(exclusive),
        reverse=int(backwards),
    )
    return layers.made(out, x.rank)
