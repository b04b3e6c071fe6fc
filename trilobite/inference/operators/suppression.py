"""NonMaxSuppression: of boxes that overlap, the best.

Enters: boxes and scores. Leaves: rows (batch, class, box). `kept_plainly` is the meaning, in NumPy; `kept` is
the same as native code, which looks at one box after the other and compares it with those kept before it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from trilobite.inference.model import Node
from trilobite.inference.operators.native import HostKernel
from trilobite.inference.operators.registry import operator
from trilobite.native.host import features
from trilobite.native.llvm.text import Text, Value, constant, vector

Array = np.ndarray[Any, Any]


@operator("NonMaxSuppression", since=10, host=True, gives="numbers")
def non_max_suppression(
    node: Node, boxes: Array, scores: Array, most: Any = None, overlap: Any = None, least: Any = None
) -> Array:
    """Rows (batch, class, box), best box first; a box that overlaps a better one too much is dropped."""
    limit = 0 if most is None else int(np.reshape(most, ()))
    edge = 0.0 if overlap is None else float(np.reshape(overlap, ()))
    chosen = [np.empty((0, 3), np.int64)]
    for b in range(scores.shape[0]):
        corners = _corners(boxes[b], node.attribute("center_point_box", 0))
        for c, s in enumerate(scores[b]):
            found = np.arange(s.size) if least is None else np.flatnonzero(s > np.reshape(least, ()))
            best = kept(corners, found[np.argsort(-s[found], kind="stable")], limit, edge)
            chosen.append(np.stack([np.full(best.shape, b), np.full(best.shape, c), best], axis=1))
    return np.concatenate(chosen)


def _corners(boxes: Array, center: int) -> Array:
    """Columns x1, y1, x2, y2, the smaller ones first."""
    if center:
        x, y, w, h = boxes.T
        return np.stack([x - w / 2, y - h / 2, x + w / 2, y + h / 2]).astype(np.float32)
    y1, x1, y2, x2 = boxes.T
    low, high = np.minimum, np.maximum
    return np.stack([low(x1, x2), low(y1, y2), high(x1, x2), high(y1, y2)]).astype(np.float32)


def kept_plainly(corners: Array, order: Array, limit: int, edge: float) -> Array:
    """The boxes of `order`, best first, without those that share more than `edge` with one kept before."""
    out: list[int] = []
    area = (corners[2] - corners[0]) * (corners[3] - corners[1])
    while order.size and len(out) < limit:
        best, order = int(order[0]), order[1:]
        out.append(best)
        low = np.maximum(corners[:2, best, None], corners[:2, order])
        high = np.minimum(corners[2:, best, None], corners[2:, order])
        sides = np.maximum(high - low, np.float32(0))
        shared = sides[0] * sides[1]
        with np.errstate(all="ignore"):
            share = shared / (area[best] + area[order] - shared)
        order = order[~((shared > 0) & (share > np.float32(edge)))]
    return np.asarray(out, np.int64)


def kept(corners: Array, order: Array, limit: int, edge: float) -> Array:
    """What `kept_plainly` says, bit for bit."""
    most = min(max(limit, 0), len(order))
    if most == 0:
        return np.empty(0, np.int64)
    boxes = np.ascontiguousarray(corners[:, order])  # in the order in which they are looked at
    room, places, edges = (
        np.zeros((5, _line(most)), np.float32),
        np.empty(most + 1, np.int64),
        np.array([edge], np.float32),
    )
    words = [boxes.ctypes.data, len(order), most, edges.ctypes.data, room.ctypes.data, places.ctypes.data]
    _suppressing()(words, 1)
    return order[places[1 : 1 + places[0]]]


@lru_cache(maxsize=1)
def _suppressing() -> HostKernel:
    return HostKernel(_text(), 3)


def _line(most: int) -> int:
    lanes = features().lanes(4)
    return -(-most // lanes) * lanes


def _text() -> str:
    """Corners and areas of the boxes kept stand in five lines of `room`; their number is the first place.
    Lines are whole vectors: boxes of nothing behind the last one share nothing with any other.
    """
    t = Text(features())
    boxes, count, most, edges, room, places = (
        t.argument(i, "i64" if i in (1, 2) else "ptr") for i in range(6)
    )
    lanes = t.host.lanes(4)
    edge = t.splat(t.load_type("float", edges), lanes)
    line = t.and_(t.add(most, lanes - 1), -lanes)

    def at(pointer: Value, line: int, length: Value, i: Value) -> Value:
        return t.address(pointer, t.mul(t.add(t.mul(length, line), i), 4))

    with t.loop(0, count, carried=[t.constant("i64", 0)], name="box") as box:
        (held,) = box.values
        mine = [t.load_type("float", at(boxes, k, count, box.index)) for k in range(4)]
        area = t.fmul(t.fsub(mine[2], mine[0]), t.fsub(mine[3], mine[1]))
        wide = [t.splat(v, lanes) for v in (*mine, area)]
        compared = t.select(t.icmp("slt", held, most), held, t.constant("i64", 0))
        type = vector("float", lanes)
        with t.loop(0, compared, lanes, carried=[constant(vector("i1", lanes), 0)], name="held") as other:
            x1, y1, x2, y2, its = (t.load_type(type, at(room, k, line, other.index), 4) for k in range(5))
            sides = [
                _positive(t, t.fsub(_less(t, b, wide[k + 2]), _more(t, a, wide[k])))
                for k, (a, b) in enumerate(((x1, x2), (y1, y2)))
            ]
            shared = t.fmul(*sides)
            share = t.fdiv(shared, t.fsub(t.fadd(its, wide[4]), shared))
            much = t.and_(t.fcmp("ogt", shared, 0.0), t.fcmp("ogt", share, edge))
            other.next(t.or_(other.values[0], much))
        free = t.and_(t.not_(t.any_lane(other.results[0])), t.icmp("slt", held, most))
        with t.when(free):
            for k, value in enumerate((*mine, area)):
                t.store_type(value, at(room, k, line, held))
            t.store_type(box.index, t.address(places, t.mul(t.add(held, 1), 8)))
        box.next(t.add(held, t.convert("zext", free, "i64")))
    t.store_type(box.results[0], places)
    return t.module()


def _less(t: Text, a: Value, b: Value) -> Value:
    return t.select(t.fcmp("olt", a, b), a, b)


def _more(t: Text, a: Value, b: Value) -> Value:
    return t.select(t.fcmp("ogt", a, b), a, b)


def _positive(t: Text, a: Value) -> Value:
    return t.select(t.fcmp("ogt", a, 0.0), a, 0.0)
