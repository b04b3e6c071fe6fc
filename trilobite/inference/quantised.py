"""Products between DequantizeLinear and QuantizeLinear as what they mean: sums of integers, rounded once.

Enters: a graph. Leaves: the graph in which every Conv, MatMul and Gemm whose operand is dequantised from 8
bits and whose weights are 8-bit constants multiplies int8, and how many there are. The bias becomes integers
of the same scale, and takes back what the operand's zero point adds. Sums are rounded by `requantise` where
a QuantizeLinear reads them (through Relu or Clip, which hold codes instead of numbers), and by one
multiplication where numbers are read. Such results are the same bits on every target, and within one step
of those that sums of dequantised floats give, which depend on the order of additions.
Left as they are: scales that are computed, sums that 32 bits may not hold, weights that are not constants
or need more than int8 when their zero points are taken off.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from trilobite.inference.model import Graph, Node
from trilobite.inference.recognise import DOMAIN, View

Array = np.ndarray[Any, Any]
_BYTES = (np.dtype(np.int8), np.dtype(np.uint8))
_PRODUCTS = {"Conv": "SumsOfConv", "MatMul": "SumsOfMatMul", "Gemm": "SumsOfMatMul"}
_MOST = 2**31 - 1


@dataclass(frozen=True)
class _Codes:
    """Integers by name and the grid they are on: one scale, or one for each place on `axis`."""

    name: str
    scale: Array
    zero: Array
    axis: int | None


@dataclass(frozen=True)
class _End:
    """What follows sums up to where they are codes again: all nodes, the codes' grid and their bounds."""

    nodes: Sequence[Node]
    grid: _Codes
    low: float
    high: float


@dataclass
class _Writing:
    view: View
    constants: dict[str, Any]
    nodes: list[Node] = field(default_factory=list)

    def constant(self, name: str, value: Array) -> str:
        """A new constant under a name that nobody has."""
        while name in self.constants or name in self.view.made:
            name += "_"
        self.constants[name] = value
        return name

    def node(self, op: str, inputs: Sequence[str], output: str, like: Node, **rest: Any) -> str:
        domain, version = rest.pop("domain", ""), rest.pop("version", 13)
        self.nodes.append(Node(op, tuple(inputs), (output,), rest, domain, version, like.name))
        return output


def on_integers(graph: Graph) -> tuple[Graph, int]:
    """The graph with products of dequantised numbers on integers, and how many."""
    view = View.of(graph)
    constants = dict(graph.constants)
    replaced: dict[int, list[Node]] = {}
    gone: set[int] = set()
    for node in graph.nodes:
        if node.op in _PRODUCTS and not node.domain:
            writing = _Writing(view, constants)
            ended = _written(node, writing)
            if ended is not None:
                replaced[id(node)] = writing.nodes
                gone.update(map(id, ended))
    nodes = [n for old in graph.nodes if id(old) not in gone for n in replaced.get(id(old), [old])]
    return Graph(graph.name, graph.inputs, graph.outputs, nodes, constants), len(replaced)


def _written(node: Node, w: _Writing) -> Sequence[Node] | None:
    """Writes the nodes for a product; the nodes behind it that they stand for besides, None if it stays."""
    x, weights = (_codes(name, w.view) for name in node.inputs[:2])
    if x is None or x.axis is not None or weights is None or not _is_plain(node):
        return None
    codes = w.view.constants.get(weights.name)
    if codes is None or not _is_by_output(node, weights, codes.ndim):
        return None
    filters = _by_output(node, codes) - weights.zero.astype(np.int64).reshape(-1, *[1] * (codes.ndim - 1))
    scale = np.float64(x.scale) * np.broadcast_to(np.float64(weights.scale), len(filters))
    bias = _bias(node, w.view, scale)
    if bias is None or not _fits(filters, bias):
        return None
    sums = _sums(node, x, filters.astype(np.int8), bias, w)
    axis = 1 if node.op == "Conv" else -1
    end = _end(node.outputs[0], w.view)
    if end is None:
        by = w.constant(f"{sums}.scale", scale.astype(np.float32))
        w.node("DequantizeLinear", [sums, by], node.outputs[0], node, axis=axis)
        return ()
    factor = w.constant(f"{sums}.rescale", (scale / np.float64(end.grid.scale)).astype(np.float32))
    _drained(node, sums, factor, axis, end, w)
    return end.nodes


# -- what stands around a product ---------------------------------------------------------------------------


def _codes(name: str, view: View) -> _Codes | None:
    """The 8-bit integers that a value is dequantised from."""
    node = view.made.get(name)
    if node is None or node.op != "DequantizeLinear" or node.domain:
        return None
    grid = _grid(node, view)
    zero = None if grid is None else grid.zero
    return grid if zero is not None and zero.dtype in _BYTES else None


def _grid(node: Node, view: View) -> _Codes | None:
    """The grid of a QuantizeLinear or DequantizeLinear whose scales are known float32 numbers."""
    known = [view.constants.get(n) for n in node.inputs[1:3]]
    if len(known) < 2 or any(v is None for v in known) or node.attribute("block_size", 0):
        return None
    scale, zero = (np.asarray(v) for v in known)
    if scale.dtype != np.float32 or scale.ndim > 1 or not (np.isfinite(scale) & (scale > 0)).all():
        return None
    if scale.size == 1:
        return _Codes(node.inputs[0], scale.reshape(()), zero.reshape(()), None)
    return _Codes(node.inputs[0], scale, zero, node.attribute("axis", 1))


def _is_plain(node: Node) -> bool:
    if node.op != "Gemm":
        return True
    plain = node.attribute("alpha", 1.0) == 1 and (len(node.inputs) < 3 or node.attribute("beta", 1.0) == 1)
    return plain and not node.attribute("transA", 0)


def _is_by_output(node: Node, weights: _Codes, rank: int) -> bool:
    """One scale of the weights for each output, or one for all."""
    if node.op != "Conv" and rank != 2:
        return False
    outputs = 0 if node.op == "Conv" or node.attribute("transB", 0) else 1
    return weights.axis is None or weights.axis % rank == outputs


def _by_output(node: Node, codes: Array) -> Array:
    """The weights, outputs first."""
    turned = node.op == "Conv" or node.attribute("transB", 0)
    return (codes if turned else codes.T).astype(np.int64)


def _bias(node: Node, view: View, scale: Array) -> Array | None:
    """The bias in steps of the sums, zeros where there is none, None where it is not known."""
    if len(node.inputs) < 3 or not node.inputs[2]:
        return np.zeros(len(scale), np.int64)
    steps = _exact_bias(view.made.get(node.inputs[2]), view, scale)
    if steps is None:
        value = view.constants.get(node.inputs[2])
        if value is None or value.dtype != np.float32 or not np.isfinite(value).all():
            return None
        steps = np.rint(np.clip(np.float64(value) / _like(value, scale), -_MOST, _MOST)).astype(np.int64)
    flat = steps.reshape(-1)
    return flat if flat.size == len(scale) else np.full(len(scale), flat[0]) if flat.size == 1 else None


def _like(value: Array, scale: Array) -> Array:
    return scale if value.size == scale.size else scale[:1]


def _exact_bias(made: Node | None, view: View, scale: Array) -> Array | None:
    """Integers that were dequantised by the scales of the sums, as converters write a bias."""
    if made is None or made.op != "DequantizeLinear" or made.domain or len(made.inputs) < 2:
        return None
    codes, by = (view.constants.get(n) for n in made.inputs[:2])
    zero = view.constants.get(made.inputs[2]) if len(made.inputs) > 2 else np.zeros(())
    if codes is None or by is None or zero is None or codes.dtype != np.int32 or np.any(zero):
        return None
    if by.size not in (1, scale.size) or not np.allclose(np.float64(by).reshape(-1), scale, 1e-5, 0):
        steps = np.float64(codes) * np.float64(by) / scale
        return np.rint(np.clip(steps, -_MOST, _MOST)).astype(np.int64) if by.size in (1, scale.size) else None
    return np.asarray(codes.astype(np.int64))


def _fits(filters: Array, bias: Array) -> bool:
    """Whether int8 holds the weights, and 32 bits every sum, also before zero points are taken back."""
    if not filters.size or filters.min() < -128 or filters.max() > 127:
        return False
    total = np.abs(filters).reshape(len(filters), -1).sum(1) * 256 + np.abs(bias)
    return bool(total.max() <= _MOST)


def _end(name: str, view: View) -> _End | None:
    """The QuantizeLinear that alone reads a value, perhaps through Relu or Clip by known bounds."""
    nodes: list[Node] = []
    low, high = -np.inf, np.inf
    while True:
        node = view.only_reader(name)
        if node is None or node.domain:
            return None
        nodes.append(node)
        if node.op == "QuantizeLinear":
            grid = _grid(node, view)
            fits = grid is not None and grid.axis is None and grid.zero.dtype in _BYTES
            return _End(nodes, grid, low, high) if grid is not None and fits else None
        bounds = _bounds(node, view)
        if bounds is None:
            return None
        low, high = (min(max(v, bounds[0]), bounds[1]) for v in (low, high))
        name = node.outputs[0]


def _bounds(node: Node, view: View) -> tuple[float, float] | None:
    if node.op == "Relu":
        return 0.0, np.inf
    if node.op != "Clip":
        return None
    low, high = (_bound(node, view, *given) for given in ((1, "min", -np.inf), (2, "max", np.inf)))
    return None if low is None or high is None or not low <= high else (low, high)


def _bound(node: Node, view: View, place: int, key: str, default: float) -> float | None:
    """A bound of Clip: an operand in newer versions, an attribute in older ones."""
    given = node.inputs[place] if len(node.inputs) > place else ""
    return view.number(given) if given else float(node.attribute(key, default))


# -- writing -----------------------------------------------------------------------------------------------


def _sums(node: Node, x: _Codes, filters: Array, bias: Array, w: _Writing) -> str:
    """Writes the product of integers and its bias; the name of the sums."""
    sums = f"{node.outputs[0]}.sums"
    zero = int(x.zero) - (128 if x.zero.dtype == np.uint8 else 0)
    shift = bias - zero * filters.astype(np.int64).reshape(len(filters), -1).sum(1)
    weights = filters if node.op == "Conv" else np.ascontiguousarray(filters.T)
    given = [x.name, w.constant(f"{sums}.weights", weights)]
    given += [w.constant(f"{sums}.bias", shift.astype(np.int32))] if shift.any() else []
    attributes: Mapping[str, Any] = node.attributes if node.op == "Conv" else {}
    rest = {**attributes, "x_zero": zero}
    return w.node(_PRODUCTS[node.op], given, sums, node, domain=DOMAIN, version=1, **rest)


def _drained(node: Node, sums: str, factor: str, axis: int, end: _End, w: _Writing) -> None:
    """Writes the one rounding of sums to codes, held between the codes of the bounds."""
    last, zero = end.nodes[-1], end.grid.zero
    info = np.iinfo(zero.dtype)
    codes = [_code(end.grid, v) for v in (end.low, end.high)]
    held = [
        (op, np.asarray(code, zero.dtype))
        for op, code, rest in (("Max", codes[0], info.min), ("Min", codes[1], info.max))
        if code != rest
    ]
    names = [f"{sums}.codes{i}" for i in range(len(held))] + [last.outputs[0]]
    point = w.constant(f"{sums}.zero", zero)
    w.node("Requantise", [sums, factor, point], names[0], node, domain=DOMAIN, version=1, axis=axis)
    for (op, bound), given, made in zip(held, names, names[1:], strict=False):
        w.node(op, [given, w.constant(f"{sums}.{op}", bound)], made, node)


def _code(grid: _Codes, number: float) -> int:
    """The code of a number, as QuantizeLinear has it."""
    info = np.iinfo(grid.zero.dtype)
    if not np.isfinite(number):
        return int(info.max if number > 0 else info.min)
    steps = np.float32(number) / np.float32(grid.scale)
    return int(np.clip(np.rint(steps) + np.float32(grid.zero), info.min, info.max))
