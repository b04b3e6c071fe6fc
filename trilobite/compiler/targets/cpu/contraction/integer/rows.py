"""Activations as the words that integer convolutions read: bytes filled up to fours, or 16-bit numbers.

Enters: a source of bytes, [positions, groups · depth]. Leaves: the step that writes, for every position and
group, `quads` fours: of bytes if the weight is of form 1, of 16-bit numbers if of form 2. Where the depth is
a multiple of four, form 1 reads the source itself and this step does nothing.
"""

from __future__ import annotations

from functools import lru_cache

from trilobite.base.dtypes import uint8
from trilobite.compiler.program.kernels import Operand, Step
from trilobite.compiler.targets.cpu.contraction.words import Words, read_words
from trilobite.compiler.targets.cpu.emit.text import Text, Value
from trilobite.compiler.targets.cpu.kernel import NativeKernel
from trilobite.ir.types import Dim
from trilobite.native.host import Host


def rows_step(
    host: Host, buffers: tuple[Operand, Operand, Operand], positions: Dim, each: int, units: Dim,
    groups: int, depth: int,
) -> Step:  # fmt: skip
    """`buffers`: the source, the weight, where words go. A unit is `each` positions; the last one may be
    short.
    """
    words = Words()
    for name, operand in zip(("x", "w", "out"), buffers, strict=True):
        words.add(name, operand)
    for name, value in (("positions", positions), ("each", each), ("groups", groups), ("depth", depth)):
        words.add(name, value)
    kernel = _kernel(host, depth % 4 == 0, tuple(words.names))
    return Step(kernel, tuple(words.contents), units)


@lru_cache(maxsize=64)
def _kernel(host: Host, aligned: bool, names: tuple[str, ...]) -> NativeKernel:
    t = Text(host)
    w = read_words(t, names)
    bytes = t.icmp("eq", t.load_type("i32", w["w"]), 1)

    def write(size: int) -> None:
        with t.loop(t.begin, t.end, name="unit") as unit:
            first = t.mul(unit.index, w["each"])
            count = t.smin(t.sub(w["positions"], first), w["each"])
            lines, first = t.mul(count, w["groups"]), t.mul(first, w["groups"])
            source = t.address(w["x"], t.mul(first, w["depth"]))
            if aligned:
                target = t.address(w["out"], t.mul(t.mul(first, w["depth"]), size))
                _widened(t, source, target, t.mul(lines, w["depth"]), size)
                return
            whole = t.mul(t.ceil_div(w["depth"], 4), 4)
            with t.loop(0, lines, name="line") as line:
                at = t.mul(t.add(first, line.index), t.mul(whole, size))
                here = t.address(source, t.mul(line.index, w["depth"]))
                target = t.address(w["out"], at)
                _widened(t, here, target, w["depth"], size)
                _zero(t, t.address(target, t.mul(w["depth"], size)), t.sub(whole, w["depth"]), size)

    with t.when(t.not_(bytes)):
        write(2)
    if not aligned:
        with t.when(bytes):
            write(1)
    return NativeKernel("conv_integer_rows", t.module())


def _widened(t: Text, source: Value, target: Value, count: Value, size: int) -> None:
    """`count` bytes as numbers of `size` bytes: whole vectors, then single ones."""
    lanes = t.host.vector_bytes // 2
    whole = t.and_(count, -lanes)
    for first, last, step, several in ((t.constant("i64", 0), whole, lanes, lanes), (whole, count, 1, 0)):
        with t.loop(first, last, step, name="byte") as i:
            value = t.load(uint8, t.address(source, i.index), several)
            wide = t.convert("zext", value, "i16") if size == 2 else value
            t.store_type(wide, t.address(target, t.mul(i.index, size)), size)


def _zero(t: Text, target: Value, count: Value, size: int) -> None:
    zero = t.constant(f"i{8 * size}", 0)
    with t.loop(0, count, name="zero") as i:
        t.store_type(zero, t.address(target, t.mul(i.index, size)))
