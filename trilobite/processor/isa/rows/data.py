"""Data rows: loads, stores and moves between memories, strided and multicast copies.

The published loads and stores count elements and take one direction; COPY counts bytes and takes any. A
copy with a DRAM end runs in the io queue, any other in the move queue. Source bytes are read whole before
they are written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from trilobite.processor.isa.formats import E4M3, E5M2, F16, F32, FLOATS, I4, INTEGERS, TF32, U8, Array
from trilobite.processor.isa.row import (
    ACC,
    CODE,
    DMA,
    GDRAM,
    IO,
    LDRAM,
    MOVE,
    NRAM,
    SRAM,
    WRAM,
    IllegalOperands,
    Operands,
    Region,
    Row,
    check_sizes,
    each,
    operands,
    region,
    signed,
)

MASK = (1 << 64) - 1
ANY = each(F32, F16, *(f for f in (*FLOATS, *INTEGERS, I4, E4M3, E5M2, TF32) if f not in (F32, F16)))
DRAM = GDRAM + LDRAM + CODE
EVERYWHERE = GDRAM + LDRAM + NRAM + WRAM + SRAM + ACC


def _same(o: Operands, a: Array) -> Sequence[Array]:
    return (a,)


def _base(o: Operands) -> int:
    offset: int = o.offset
    return (int(o.base) + signed(offset, 32)) & MASK if "base" in o.values else offset & 0xFFFFFFFF


def _load(
    spaces: str,
) -> tuple[Callable[[Operands], Sequence[Region]], Callable[[Operands], Sequence[Region]]]:
    return (lambda o: [region(_base(o), o.f0, (o.n,), DRAM)], lambda o: [region(o.dst, o.f0, (o.n,), spaces)])


def _store(
    spaces: str,
) -> tuple[Callable[[Operands], Sequence[Region]], Callable[[Operands], Sequence[Region]]]:
    return (lambda o: [region(o.a, o.f0, (o.n,), spaces)],
            lambda o: [region(_base(o), o.f0, (o.n,), GDRAM + LDRAM)])  # fmt: skip


def _transfer(mnemonic: str, near: str, spaces: str, load: bool, what: str) -> list[Row]:
    reads, writes = _load(spaces) if load else _store(spaces)
    line = (
        f"{near} = {what} of n elements at base + offset in DRAM"
        if load
        else (f"{what} of n elements at base + offset in DRAM = {near}")
    )
    return [
        Row(mnemonic, operands(f"{near} n base #offset"), ANY, IO, "dma", line, _same, reads, writes),
        Row(
            mnemonic,
            operands(f"{near} n #offset"),
            ANY,
            IO,
            "dma",
            line + "; the base is 0",
            _same,
            reads,
            writes,
        ),
    ]


def _move(mnemonic: str, spaces: str, what: str) -> Row:
    return Row(mnemonic, operands("dst n a"), ANY, MOVE, "dma", f"dst = {what} of n elements at a, on chip",
               _same,
               lambda o: [region(o.a, o.f0, (o.n,), NRAM + WRAM + SRAM + ACC)],
               lambda o: [region(o.dst, o.f0, (o.n,), spaces)])  # fmt: skip


def _bytes(o: Operands, address: int, spaces: str) -> list[Region]:
    return [region(address, U8, (o.n,), spaces)]


def _strided(address: int, shape: tuple[int, ...], strides: tuple[int, ...], spaces: str) -> list[Region]:
    check_sizes(shape)
    return [Region(address, U8, shape, tuple(signed(s) for s in strides), spaces)]


def _multicast_writes(o: Operands) -> Sequence[Region]:
    """The same NRAM or WRAM place in every core of the mask; an address names cores from 1 on."""
    mask, n = o.mask, o.n
    if not mask or mask >> 127:
        raise IllegalOperands(f"the mask {mask:#x} names no core")
    cores = [i for i in range(min(mask.bit_length(), 64)) if mask >> i & 1]
    base = o.dst & ~(0xFF << 40) & MASK
    return [region(base | (core + 1) << 40, U8, (n,), NRAM + WRAM) for core in cores]


def _multicast(o: Operands, a: Array) -> Sequence[Array]:
    return [a] * o.mask.bit_count()


_READABLE = EVERYWHERE + CODE
ROWS = (
    *_transfer("VLOAD", "dst", NRAM + SRAM, True, "vector"),
    *_transfer("VSTORE", "a", NRAM + SRAM + ACC, False, "vector"),
    *_transfer("MLOAD", "dst", WRAM, True, "matrix"),
    *_transfer("MSTORE", "a", WRAM, False, "matrix"),
    _move("VMOVE", NRAM + SRAM + ACC, "vector"),
    _move("MMOVE", WRAM, "matrix"),
    Row("COPY", operands("dst a n"), (), DMA, "dma", "n bytes from a to dst, between any two memories", _same,
        lambda o: _bytes(o, o.a, _READABLE), lambda o: _bytes(o, o.dst, EVERYWHERE)),
    Row("COPY2", operands("dst a n run:dst_stride,a_stride,count"), (), DMA, "dma",
        "count pieces of n bytes, dst_stride and a_stride bytes apart; a stride 0 repeats the source",
        _same, lambda o: _strided(o.a, (o.count, o.n), (o.a_stride, 1), _READABLE),
        lambda o: _strided(o.dst, (o.count, o.n), (o.dst_stride, 1), EVERYWHERE)),
    Row("COPY3", operands("dst a n run:dst_stride0,a_stride0,count0,dst_stride1,a_stride1,count1"), (), DMA,
        "dma", "count1 groups of count0 pieces of n bytes", _same,
        lambda o: _strided(o.a, (o.count1, o.count0, o.n), (o.a_stride1, o.a_stride0, 1), _READABLE),
        lambda o: _strided(o.dst, (o.count1, o.count0, o.n), (o.dst_stride1, o.dst_stride0, 1), EVERYWHERE)),
    Row("COPYX", operands("dst a n mask"), (), MOVE, "multicast",
        "n bytes from SRAM at a to the place dst of every core of the cluster in the mask", _multicast,
        lambda o: _bytes(o, o.a, SRAM), _multicast_writes),
)  # fmt: skip
