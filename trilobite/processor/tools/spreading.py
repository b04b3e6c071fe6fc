"""How undefined elements spread through tensor instructions: which results depend on them.

Enters: the operands of an instruction and, per array it reads, a mask of its undefined elements. Leaves: a
mask per array that it writes. Elementwise, by windows and by rows of products the answer is exact; a result
that mixes all inputs is undefined as a whole. Arrangements run their own meaning on the mask.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import lru_cache
from typing import Any

import ml_dtypes
import numpy as np

from trilobite.processor.isa.formats import U8, Array
from trilobite.processor.isa.row import DMA, IO, MOVE, Operands, Row
from trilobite.processor.isa.rows.matrix import in_order
from trilobite.processor.isa.rows.window import col2im, im2col, pooled, unrolled

Masks = Sequence[Array]
Read = Callable[[int], Array]  # the values of the array with this number
# They stand for whatever an undefined element may be, together with the ends of its format.
PROBES = (0.0, 1.0, -2.5, 96.0, -37.0)
TURNS = len(PROBES) + 4
PLACES = frozenset("dst a b g table index mask base n m".split())  # operands that say where, and how many
MOST_LANES = 1 << 12
_LANES: dict[Hashable, bool] = {}
Rule = Callable[[Row, Operands, Masks, Read], Sequence[Array]]


def spread(row: Row, o: Operands, masks: Masks, read: Read) -> Sequence[Array]:
    """The masks of the results, in the order of `row.writes`, then those of its scalar results."""
    if row.queue in (IO, MOVE, DMA):
        return [masks[0]] * (o.mask.bit_count() if row.mnemonic == "COPYX" else 1)
    rule = RULES.get(row.mnemonic)
    if rule is not None:
        return rule(row, o, masks, read)
    return _elements(row, o, masks, read)


def is_elementwise(row: Row) -> bool:
    """Whether element i of the result depends on elements i of the operands alone."""
    return row.queue not in (IO, MOVE, DMA) and row.mnemonic not in RULES and row.meaning is not None


def _elements(row: Row, o: Operands, masks: Masks, read: Read) -> Sequence[Array]:
    """Element by element: those whose result is the same whatever finite numbers the undefined ones are, as
    of 0 * x, x + INF or a choice that leaves them out, are defined."""
    found = np.logical_or.reduce(list(masks))
    places = np.flatnonzero(found)
    if places.size == 0 or not masks or row.meaning is None or found.ndim != 1:
        return [found]
    if all(mask[places].all() for mask in masks):  # no value matters
        found[places] = _lane_depends(
            row, o, lambda: [read(number)[places[:1]] for number in range(len(masks))]
        )
        return [found]
    few = Operands({**o.values, "n": int(places.size)})
    values = [read(number)[places] for number in range(len(masks))]
    found[places] = _depends(row, few, values, [mask[places] for mask in masks])
    return [found]


def _lane_depends(row: Row, o: Operands, values: Callable[[], Sequence[Array]]) -> bool:
    """Whether a result depends on operands that are all undefined: one answer for all lanes and launches."""
    key = (row.opcode, *((name, value) for name, value in o.values.items() if name not in PLACES))
    known = _LANES.get(key)
    if known is None:
        if len(_LANES) >= MOST_LANES:
            _LANES.clear()
        given = values()
        undefined = [np.ones(1, bool) for _ in given]
        known = _LANES[key] = bool(_depends(row, Operands({**o.values, "n": 1}), given, undefined)[0])
    return known


def _depends(row: Row, o: Operands, values: Sequence[Array], masks: Masks) -> Array:
    """Per element, whether the result changes with what stands in the undefined places."""
    assert row.meaning is not None
    results = []
    with np.errstate(all="ignore"):
        for turn in range(TURNS):
            given = [_probed(value, mask, turn * (place + 1) + place) for place, (value, mask)
                     in enumerate(zip(values, masks, strict=True))]  # fmt: skip
            results.append(np.asarray(row.meaning(o, *given)[0]))
    first = results[0]
    same = np.ones(first.shape, bool)
    for other in results[1:]:
        same &= (other == first) | ((other != other) & (first != first))
    return ~same


def _probed(value: Array, mask: Array, turn: int) -> Array:
    """The values, with one of the probes in every undefined place."""
    out = value.copy()
    out[mask] = _probes(value.dtype)[turn % TURNS]
    return out


@lru_cache(maxsize=64)
def _probes(dtype: np.dtype[Any]) -> Array:
    """Finite numbers of one format: some usual ones, the largest and smallest, those next to 0."""
    if dtype.kind in "iu":
        ends = np.iinfo(dtype)
        whole = [int(p) % 251 if dtype.kind == "u" else int(p) for p in PROBES]
        return np.array([*whole, ends.min, ends.max, ends.max // 2, 3]).astype(dtype)
    if dtype.kind == "b":
        return np.resize(np.array([False, True]), TURNS)
    facts: Any = ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]
    ends_of = [facts.max, facts.min, facts.smallest_subnormal, -facts.smallest_subnormal]
    return np.array([*PROBES, *(float(e) for e in ends_of)]).astype(dtype)


def _cyclic(row: Row, o: Operands, masks: Masks, read: Read) -> Sequence[Array]:
    found = masks[0] | np.resize(masks[1], masks[0].shape)
    if row.meaning is None or found.ndim != 1 or not found.any():
        return [found]
    return [found & _depends(row, o, [read(0), read(1)], masks)]


def _filter(row: Row, o: Operands, masks: Masks, read: Read) -> Sequence[Array]:
    values, chosen = masks
    if chosen.any():
        return [np.ones_like(values), np.array(True)]
    kept = values[read(1) != 0]
    result = np.zeros_like(values)
    result[: kept.size] = kept
    return [result, np.array(False)]


def _pack(row: Row, o: Operands, masks: Masks, read: Read) -> Sequence[Array]:
    values, chosen, rest = masks
    if chosen.any():
        return [np.ones_like(values), np.array(True)]
    kept = values[read(1) != 0]
    return [np.concatenate([kept, rest[kept.size :]]), np.array(False)]


def _whole(row: Row, o: Operands, masks: Masks, read: Read) -> Sequence[Array]:
    return [np.array([any(mask.any() for mask in masks)])]


def _axis(row: Row, o: Operands, masks: Masks, read: Read) -> Sequence[Array]:
    return [np.asarray(masks[0].any(axis=1))]


def _scan(row: Row, o: Operands, masks: Masks, read: Read) -> Sequence[Array]:
    return [np.logical_or.accumulate(masks[0])]


def _sort(row: Row, o: Operands, masks: Masks, read: Read) -> Sequence[Array]:
    both = np.full(masks[0].shape, masks[0].any())
    return [both, both]


def _gather(row: Row, o: Operands, masks: Masks, read: Read) -> Sequence[Array]:
    table, index = masks
    places = np.clip(read(1).astype(np.int64), 0, max(o.m - 1, 0))
    return [(table[places] if table.size else np.zeros(places.shape, bool)) | index]


def _scatter(row: Row, o: Operands, masks: Masks, read: Read) -> Sequence[Array]:
    table, values, index = masks
    if index.any():
        return [np.ones_like(table)]
    result = table.copy()
    places = np.clip(read(2).astype(np.int64), 0, max(o.m - 1, 0))
    if o.op == "set":
        result[places] = values
    else:
        np.logical_or.at(result, places, values)
    return [result]


def _rearranged(row: Row, o: Operands, masks: Masks, read: Read) -> Sequence[Array]:
    assert row.meaning is not None
    quiet = Operands({**o.values, "f0": U8, "value": 0})
    return [np.asarray(result != 0) for result in row.meaning(quiet, masks[0].astype(np.uint8))]


def _pool(row: Row, o: Operands, masks: Masks, read: Read) -> Sequence[Array]:
    any_tap = Operands({**o.values, "f0": U8, "op": "max", "dh": 1, "dw": 1, "top": 0, "bottom": 0,
                        "left": 0, "right": 0})  # fmt: skip
    p, q, c = pooled(o)
    windows = np.asarray(im2col(any_tap, masks[0]).reshape(p, q, o.kh * o.kw, c).any(axis=2))
    return [windows, windows]


def _unpool(row: Row, o: Operands, masks: Masks, read: Read) -> Sequence[Array]:
    """An undefined share or index may land anywhere in its window."""
    from trilobite.processor.isa.rows.window import taps

    p, q, _ = pooled(o)
    source = np.logical_or.reduce(list(masks))
    result = np.zeros((o.h, o.w, o.c), bool)
    for rows, cols in taps(o.kh, o.kw, o.sh, o.sw, 1, 1, p, q):
        result[rows, cols] |= source
    return [result]


def _columns(row: Row, o: Operands, masks: Masks, read: Read) -> Sequence[Array]:
    return [im2col(o, masks[0])]


def _image(row: Row, o: Operands, masks: Masks, read: Read) -> Sequence[Array]:
    return [col2im(o, masks[0].astype(np.float32), o.c) != 0]


def _product(a: Array, b: Array, rest: Masks, shape: tuple[int, ...]) -> Array:
    """Row i of a and column j of b make result [i][j]; what the drain reads is broadcast over it."""
    result = np.asarray(a.any(axis=1, keepdims=True) | b.any(axis=0, keepdims=True)).reshape(shape)
    for mask in rest:
        result = np.asarray(result | mask)
    return result


def _mm(row: Row, o: Operands, masks: Masks, read: Read) -> Sequence[Array]:
    a, b, *rest = masks
    return [_product(a.T if o.ta else a, in_order(o, b).T if o.tb else b, rest, (o.m, o.n))]


def _mmtop(row: Row, o: Operands, masks: Masks, read: Read) -> Sequence[Array]:
    (found,) = _mm(row, Operands({**o.values, "lanes": ""}), masks, read)
    return [found, np.asarray(found.any(axis=0))]


def _weights(row: Row, o: Operands, masks: Masks, read: Read) -> Sequence[Array]:
    scores, top, total = masks
    found = np.asarray(scores | top)
    return [found, np.asarray(total | found.any(axis=0))]


def _mmv(row: Row, o: Operands, masks: Masks, read: Read) -> Sequence[Array]:
    return [_product(masks[0], masks[1].reshape(-1, 1), masks[2:], (o.m,))]


def _vmm(row: Row, o: Operands, masks: Masks, read: Read) -> Sequence[Array]:
    return [_product(masks[0].reshape(1, -1), masks[1], masks[2:], (o.n,))]


def _conv(row: Row, o: Operands, masks: Masks, read: Read) -> Sequence[Array]:
    """Per output place the windows it sees in its group, per output channel its filter."""
    x, w, *rest = masks
    p, q = unrolled(o)
    result = np.zeros((p, q, o.co), bool)
    filters = in_order(o, w.reshape(o.co, -1)).any(axis=1)
    width = o.co // o.groups
    for group, part in enumerate(np.split(x, o.groups, axis=-1)):
        seen = im2col(o, part).any(axis=1).reshape(p, q, 1)
        result[..., group * width : (group + 1) * width] = seen
    result |= filters
    for mask in rest:
        result = result | mask
    return [result]


def _conv_dx(row: Row, o: Operands, masks: Masks, read: Read) -> Sequence[Array]:
    """A gradient place reaches the window below it; an undefined weight may reach everything."""
    g, w, *rest = masks
    p, q = unrolled(o)
    columns = np.repeat(g.any(axis=2).reshape(p * q, 1), o.kh * o.kw, axis=1).astype(np.float32)
    image = np.repeat(col2im(o, columns, 1) != 0, o.ci, axis=2)
    for mask in (np.full(image.shape, w.any()), *rest):
        image = image | mask
    return [image]


def _conv_dw(row: Row, o: Operands, masks: Masks, read: Read) -> Sequence[Array]:
    """Every weight of an output channel sums over all its gradient places; any input may reach them."""
    g, x, *rest = masks
    shape = (o.co, o.kh, o.kw, o.ci // o.groups)
    channel = np.asarray(g.any(axis=(0, 1)) | x.any())
    result = np.broadcast_to(channel[:, None, None, None], shape)
    for mask in rest:
        result = result | mask
    return [np.array(result)]


def _outer(row: Row, o: Operands, masks: Masks, read: Read) -> Sequence[Array]:
    return [masks[0][:, None] | masks[1][None, :]]


def _made(row: Row, o: Operands, masks: Masks, read: Read) -> Sequence[Array]:
    """Reads no array: the result is made of registers alone."""
    return [np.zeros(o.n, bool)]


CYCLIC = tuple(f"VC{name}" for name in "AV SV MV DV GTM LTM GT GE E NE LT LE AND OR".split())
RULES: dict[str, Rule] = {
    **dict.fromkeys(CYCLIC, _cyclic), **dict.fromkeys(("VSET", "VIOTA", "RV"), _made),
    **dict.fromkeys(("VSUM", "VMAX", "VMIN", "VPROD", "VARGMAX", "VARGMIN", "VDP"), _whole),
    **dict.fromkeys(("VTRANS", "VPAD", "VMIRROR", "VRSHF"), _rearranged),
    **dict.fromkeys(("VUNPOOL", "VUNPOOLA"), _unpool),
    "VFILT": _filter, "VPACK": _pack,
    "VREDUCE": _axis, "VSCAN": _scan, "VSORT": _sort, "VGATH": _gather, "VSCAT": _scatter,
    "VPOOL": lambda row, o, masks, read: _pool(row, o, masks, read)[:1], "VPOOLX": _pool,
    "VIM2COL": _columns, "VCOL2IM": _image, "MM": _mm, "MMV": _mmv, "VMM": _vmm, "CONV": _conv,
    "MMTOP": _mmtop, "VSOFT": _weights, "CONVDX": _conv_dx, "CONVDW": _conv_dw, "OP": _outer,
}  # fmt: skip

__all__ = ["is_elementwise", "spread"]
