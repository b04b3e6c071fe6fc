"""The lowering of `sort` and `top_k`.

Enters: a region of one of them; operands that count along the sorted axis (`iota`: an argsort) may be made
in it. Leaves: one step of one kernel for every size. A lane along the axis becomes 64-bit words, a key above
and the place it came from below; words are sorted, key by key from the last to the first, and every operand
is read in their order. Short lanes are placed by counting, bytes that are sorted alone written from their
counts; where few of a lane are wanted, those alone are sorted that can be among them. Units are ranges of
lanes, each with its own two buffers of words. Complex keys and lanes of 2^32 elements do not occur.
"""

from __future__ import annotations

from functools import lru_cache

from trilobite.base.dtypes import DType, int32, int64, is_complex
from trilobite.base.records import dataclass
from trilobite.compiler.program.kernels import Lowering, Operand, Step
from trilobite.compiler.targets.cpu.contraction.sizes import Product, product
from trilobite.compiler.targets.cpu.contraction.words import Content, W, Words, contents, forms, read
from trilobite.compiler.targets.cpu.kernel import NativeKernel
from trilobite.compiler.targets.cpu.sorting import candidates, counting, lone_bytes, radix, rounds
from trilobite.compiler.targets.cpu.sorting.keys import (
    MASK,
    compared_bits,
    halves,
    key,
    key_bytes,
    signed_key,
)
from trilobite.ir.graph import Equation, Graph, Var
from trilobite.native.host import Host, features
from trilobite.native.llvm.text import Text, Value

ROOTS = ("sort", "top_k")
_UNITS = 16
_SERIAL = 1 << 11  # elements: below, waking another thread costs more than it brings


def accepts(region: Graph) -> str | None:
    """Why this region is no sort that can be lowered; None if it is one."""
    roots = [e for e in region.equations if e.primitive.name in ROOTS]
    if len(roots) != 1:
        return f"{len(roots)} sorts in one region"
    (root,) = roots
    if any(v not in root.outputs for v in region.outputs):
        return "nothing is fused with a sort"
    made = [e for e in region.equations if e is not root]
    if any(not _counts(e, root) for e in made):
        return "an operand of a sort is computed before it"
    keys = root.inputs[: root.attributes.get("keys", 1)]
    if any(is_complex(v.type.dtype) for v in keys) or any(v in e.outputs for e in made for v in keys):
        return "a key that is complex, or a counter"
    if not all(size.fits for size in _sizes(root)):
        return "a size is the product of more than two symbolic sizes"
    return None


def _axis(root: Equation) -> int:
    axis: int = root.attributes.get("axis", -1) % root.inputs[0].type.ndim
    return axis


def _counts(e: Equation, root: Equation) -> bool:
    """An `iota` along the sorted axis that holds every place."""
    if e.primitive.name != "iota" or e.outputs[0].type.dtype not in (int32, int64):
        return False
    return e.attributes["axis"] == _axis(root) and e.outputs[0] in root.inputs


def _sizes(root: Equation) -> tuple[Product, Product, Product]:
    """Elements from one of a lane to the next, lanes, and the words of all units."""
    shape, axis = root.inputs[0].type.shape, _axis(root)
    inner = product(shape[axis + 1 :])
    return inner, product(shape[:axis]) * inner, product([shape[axis]]) * Product(16 * _UNITS)


@dataclass(frozen=True)
class _Form:
    """All that decides a kernel's text."""

    keys: tuple[DType, ...]
    results: tuple[DType, ...]
    falling: bool
    alone: bool  # every result is the only key in order, all of it


@dataclass(frozen=True)
class _ResultWords(Words[W]):
    to: W
    source: W | None  # what is put in order; places where there is none


@dataclass(frozen=True)
class _Words(Words[W]):
    keys: tuple[W, ...]
    results: tuple[_ResultWords[W], ...]
    words: W  # two buffers of them for every unit
    n: W
    kept: W
    inner: W
    lanes: W


def lower(equation: Equation) -> Lowering:
    region: Graph = equation.attributes["region"]
    (root,) = [e for e in region.equations if e.primitive.name in ROOTS]
    return lower_root(root, region.inputs, region.outputs, features())


def lower_root(root: Equation, inputs: tuple[Var, ...], outputs: tuple[Var, ...], host: Host) -> Lowering:
    """The sort of these inputs of the fusion; of its results those that are outputs of the fusion."""
    axis, shape = _axis(root), root.inputs[0].type.shape
    inner, lanes, room = _sizes(root)
    keys = root.inputs[: root.attributes.get("keys", 1)]
    sources = (root.inputs[0], None) if root.primitive.name == "top_k" else root.inputs
    wanted = [(v, sources[root.outputs.index(v)]) for v in outputs]
    results = tuple(out.type.dtype for out, _ in wanted)
    length = product([shape[axis]])
    kept = product([root.outputs[0].type.shape[axis]])
    words: _Words[Content] = _Words(
        tuple(Operand("in", inputs.index(v)) for v in keys),
        tuple(
            _ResultWords(Operand("out", i), Operand("in", inputs.index(v)) if v in inputs else None)
            for i, (_, v) in enumerate(wanted)
        ),
        Operand("temporary", 0), length, kept, inner, lanes,
    )  # fmt: skip
    falling = root.primitive.name == "top_k"
    alone = not falling and len(keys) == 1 and all(source is keys[0] for _, source in wanted)
    form = _Form(tuple(v.type.dtype for v in keys), results, falling, alone)
    kernel = _kernel(form, forms(words), host)
    elements = (lanes * length).known
    units = 0 if elements == 0 else _UNITS
    step = Step(kernel, contents(words), units, serial=elements is not None and elements < _SERIAL)
    why = "words of a key and a place, sorted byte by byte"
    return Lowering((step,), (room.words[0],), why=why)


@lru_cache(maxsize=256)
def _kernel(form: _Form, words: _Words[str], host: Host) -> NativeKernel:
    t = Text(host)
    radix.emit_arrange(t)
    for bits in sorted({compared_bits(dtype) for dtype in form.keys}):
        counting.emit_rank(t, bits)
    _Sorting(t, form, read(t, words)).emit()
    room = max(radix.ROOM, lone_bytes.ROOM, 5 * counting.ROOM)
    return NativeKernel("top_k" if form.falling else "sort", t.module(), scratch=room)


class _Sorting:
    """Emits one kernel."""

    def __init__(self, t: Text, form: _Form, words: _Words[Value]) -> None:
        self.t, self.form, self.w = t, form, words

    def emit(self) -> None:
        t, w = self.t, self.w
        with t.loop(t.begin, t.end, name="unit") as unit:
            start, stop = (t.udiv(t.mul(w.lanes, u), _UNITS) for u in (unit.index, t.add(unit.index, 1)))
            size = t.mul(w.n, 8)
            buffer = t.address(w.words, t.mul(t.mul(unit.index, size), 2))
            with t.loop(start, stop, name="lane") as lane:
                self._lane(lane.index, buffer, t.address(buffer, size))

    def _lane(self, lane: Value, words: Value, spare: Value) -> None:
        t, w = self.t, self.w
        outer, at = t.udiv(lane, w.inner), t.urem(lane, w.inner)
        source = t.add(t.mul(t.mul(outer, w.n), w.inner), at)
        target = t.add(t.mul(t.mul(outer, w.kept), w.inner), at)
        lanes = [t.address(at, source, d) for at, d in zip(w.keys, self.form.keys, strict=True)]
        few = t.icmp("sle", w.n, counting.FEW_BYTES if self._of_bytes else counting.FEW)

        def write(order: Value) -> None:
            for i, dtype in enumerate(self.form.results):
                self._write(i, dtype, order, source, target)

        def ordered() -> list[Value]:
            return t.either(few, lambda: [self._few(lanes)], lambda: [self._many(lanes, words, spare)])

        def bytes_alone() -> None:
            for i in range(len(self.form.results)):
                result = t.address(w.results[i].to, target)
                lone_bytes.emit_bytes(t, self.form.keys[0], lanes[0], result, w.n, w.inner, t.scratch)

        if self.form.alone and self.form.keys[0] in lone_bytes.BYTES:
            t.either(few, lambda: write(self._few(lanes)), bytes_alone)
            return
        if not self.form.falling:
            write(*ordered())
            return

        def first() -> list[Value]:
            worth = candidates.is_worth(t, w.n, w.kept)
            return t.either(worth, lambda: [self._first(lanes[0], words, spare)], ordered)

        one_by_one = rounds.is_worth(t, w.n, w.kept)
        write(*t.either(one_by_one, lambda: [self._one_by_one(lanes[0], words)], first))

    @property
    def _of_bytes(self) -> bool:
        return all(key_bytes(dtype) == 1 for dtype in self.form.keys)

    def _fill(self, lane: Value, keys: Value) -> int:
        """Signed keys that rise, one after the other; of how many bits."""
        t, w, dtype = self.t, self.w, self.form.keys[0]
        bits = compared_bits(dtype)

        def read(place: Value, together: int) -> Value:
            value = t.load(dtype, t.address(lane, t.mul(place, w.inner), dtype), together)
            return signed_key(t, value, dtype, falling=False)

        candidates.fill(t, bits, read, w.n, t.icmp("eq", w.inner, 1), keys)
        return bits

    def _one_by_one(self, lane: Value, words: Value) -> Value:
        """Words in order of those that are wanted."""
        t, w = self.t, self.w
        keys = rounds.keys_behind(t, words, w.kept)
        rounds.emit_rounds(t, self._fill(lane, keys), keys, w.n, w.kept, words)
        return words

    def _first(self, lane: Value, words: Value, spare: Value) -> Value:
        """Words in order of those that can be wanted."""
        t, w = self.t, self.w
        bits = self._fill(lane, spare)
        n = candidates.emit_candidates(t, bits, spare, w.n, w.kept, words)
        few = t.icmp("sle", n, counting.FEW)
        (order,) = t.either(
            few,
            lambda: [self._few([lane], words, n)],
            lambda: [self._by_bytes([lane], words, spare, n, filled=True)],
        )
        return order

    def _many(self, lanes: list[Value], words: Value, spare: Value) -> Value:
        return self._by_bytes(lanes, words, spare, self.w.n, filled=False)

    def _by_bytes(
        self, lanes: list[Value], words: Value, spare: Value, n: Value, *, filled: bool
    ) -> Value:  # fmt: skip
        """Words in order, a place in the lower half of each; whether places are there already."""
        t = self.t
        for lane, dtype in zip(reversed(lanes), reversed(self.form.keys), strict=True):
            for half in halves(dtype):
                with t.loop(0, n, name="fill") as i:
                    at = t.address(words, i.index, int64)
                    place = t.and_(t.load_type("i64", at), MASK) if filled else i.index
                    found = key(t, self._load(lane, place, dtype), dtype, half, self.form.falling)
                    t.store_type(t.or_(t.shl(found, 32), place), at)
                count = t.constant("i64", key_bytes(dtype))
                ready = t.call("arrange", words, spare, n, count, t.scratch, result="ptr")
                words, spare = ready, t.select(t.icmp("eq", ready, spare), words, spare)
                filled = True
        return words

    def _few(self, lanes: list[Value], given: Value | None = None, count: Value | None = None) -> Value:
        """Places in order, of all or of those given; everything is in scratch."""
        t, n = self.t, self.w.n if count is None else count
        keys, places, target, room = (t.address(t.scratch, i * counting.ROOM) for i in range(4))
        with t.loop(0, n, name="place") as i:
            place = i.index if given is None else t.load_type("i64", t.address(given, i.index, int64))
            t.store_type(place, t.address(places, i.index, int64))
        for lane, dtype in zip(reversed(lanes), reversed(self.form.keys), strict=True):
            bits = compared_bits(dtype)
            counting.fill_up(t, keys, n, bits)
            with t.loop(0, n, name="fill") as i:
                place = t.load_type("i64", t.address(places, i.index, int64))
                found = signed_key(t, self._load(lane, place, dtype), dtype, self.form.falling)
                t.store_type(found, t.address(keys, t.mul(i.index, bits // 8)))
            t.call(f"rank{bits}", keys, n, places, target, room)
            places, target = target, places
        return places

    def _load(self, lane: Value, place: Value, dtype: DType) -> Value:
        t = self.t
        return t.load(dtype, t.address(lane, t.mul(place, self.w.inner), dtype))

    def _write(self, result: int, dtype: DType, words: Value, source: Value, target: Value) -> None:
        """One result of a lane: an operand in the order of the words, or their places themselves."""
        t, w = self.t, self.w
        bits = f"i{8 * dtype.itemsize}"
        out = t.address(w.results[result].to, t.mul(target, dtype.itemsize))
        operand = w.results[result].source
        with t.loop(0, w.kept, name="write") as i:
            place = t.and_(t.load_type("i64", t.address(words, t.mul(i.index, 8))), MASK)
            if operand is not None:
                at = t.add(source, t.mul(place, w.inner))
                value = t.load_type(bits, t.address(operand, t.mul(at, dtype.itemsize)))
            else:
                value = t.convert("trunc", place, bits)
            step = t.mul(t.mul(i.index, w.inner), dtype.itemsize)
            t.store_type(value, t.address(out, step))
