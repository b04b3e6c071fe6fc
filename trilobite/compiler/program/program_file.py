"""Programs as bytes, to be kept on disk: JSON with the arrays behind it.

Enters: a `Program`, and how its target puts kernels into bytes. Leaves: bytes, and the same Program from
them; None for a program with host steps, which hold equations of a graph. Whoever keeps the bytes makes sure
that they come back as they were: what is read is trusted in what it says, not in its form, so anything that
is no program raises `DataError`.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from trilobite.base.dtypes import BY_NAME
from trilobite.base.errors import DataError
from trilobite.base.locations import Location
from trilobite.compiler.program.kernels import Kernel
from trilobite.compiler.program.memory import Packing
from trilobite.compiler.program.program import (
    Arrival,
    Branch,
    Call,
    Exchange,
    Loop,
    Place,
    Program,
    Step,
    Value,
    While,
    hosts,
)
from trilobite.native.memory import empty

_HEAD = struct.Struct("<QQ")  # bytes of the compressed JSON, and of the kernels as their target packs them
_SPACES = ("arena", "input", "output", "constant")
_QUICK = 1  # zlib's level: text shrinks to a fifth all the same

Pack = Callable[[Sequence[Kernel]], bytes]
Unpack = Callable[[bytes], Sequence[Kernel]]


def encode(program: Program, pack: Pack) -> bytes | None:
    """The program as bytes, if all its steps are native."""
    if any(hosts(program.steps)):
        return None
    number = {k: n for n, k in enumerate(program.kernels)}
    p = program.packing
    content = {
        "steps": [_step(s, number) for s in program.steps],
        "outputs": [_value(v) for v in program.outputs],
        "constants": [[c.shape, c.dtype.name] for c in program.constants],
        "packing": [p.offsets, p.peak, p.bound, p.naive],
        "reuses": list(program.reuses.items()),
        "locations": program.locations,
    }
    whole = zlib.compress(json.dumps(content, separators=(",", ":")).encode(), _QUICK)
    kernels = pack(list(number))
    head = _HEAD.pack(len(whole), len(kernels))
    return b"".join([head, whole, kernels, *(c.tobytes() for c in program.constants)])


def decode(data: bytes, unpack: Unpack) -> Program:
    """The program that was encoded; `unpack` is the other half of what packed its kernels."""
    try:
        return _decode(data, unpack)
    except (zlib.error, struct.error, ValueError, KeyError, TypeError, IndexError) as error:
        raise DataError(f"these {len(data)} bytes are no program: {error}") from error


# -- steps ---------------------------------------------------------------------------------------------------


def _step(s: Step, number: Mapping[Kernel, int]) -> list[Any]:
    """A row that begins with the step's name; a call, of which there are most, with its kernel's number."""

    def rows(steps: Sequence[Step]) -> list[list[Any]]:
        return [_step(inner, number) for inner in steps]

    match s:
        case Loop():
            return ["loop", s.fusion, s.count, rows(s.steps)]
        case While():
            return ["while", s.fusion, rows(s.test), _place(s.flag), rows(s.body)]
        case Branch():
            return ["branch", s.fusion, _place(s.index), [rows(case) for case in s.cases]]
        case Exchange():
            values = [_value(v) for v in (*s.inputs, s.output)]
            return ["exchange", s.fusion, s.name, s.attributes, values, s.number, s.location]
        case Arrival():
            return ["arrival", s.fusion, s.number]
        case _:
            assert isinstance(s, Call)
            args = [_place(a) if isinstance(a, Place) else int(a) for a in s.args]
            return [number[s.kernel], s.fusion, args, s.units, s.flops, s.bytes, s.serial, s.whole]


def _read_step(row: Sequence[Any], kernels: Sequence[Kernel]) -> Step:
    def steps(rows: Sequence[Any]) -> tuple[Step, ...]:
        return tuple(_read_step(inner, kernels) for inner in rows)

    if type(row[0]) is int:  # nearly all of them
        kernel, fusion, args, units, flops, size, serial, whole = row
        places = tuple([a if type(a) is int else _read_place(a) for a in args])
        return Call(kernels[kernel], places, units, fusion, flops, size, serial, whole)

    match row:
        case "loop", fusion, count, body:
            return Loop(count, steps(body), fusion)
        case "while", fusion, test, flag, body:
            return While(steps(test), _read_place(flag), steps(body), fusion)
        case "branch", fusion, index, cases:
            return Branch(_read_place(index), tuple(map(steps, cases)), fusion)
        case "exchange", fusion, name, attributes, values, number, location:
            *ins, out = map(_read_value, values)
            plain = {k: _tuples(v) for k, v in attributes.items()}
            return Exchange(name, plain, tuple(ins), out, number, Location(*location), fusion)
        case "arrival", fusion, number:
            return Arrival(number, fusion)
        case _:
            raise ValueError(f"there is no step {row[0]}")


def _value(v: Value) -> list[Any]:
    return [_place(v.place), v.shape, v.dtype.name]


def _read_value(row: Sequence[Any]) -> Value:
    place, shape, name = row
    return Value(_read_place(place), tuple(shape), BY_NAME[name])


def _tuples(value: Any) -> Any:
    """An attribute as it was: JSON knows lists alone."""
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def _place(p: Place) -> list[int]:
    return [_SPACES.index(p.space), p.index, p.offset, *p.strides]


def _read_place(row: Sequence[int]) -> Place:
    space, index, offset, *strides = row
    return Place(_SPACES[space], index, offset, tuple(strides))  # type: ignore[arg-type]


# -- the whole -----------------------------------------------------------------------------------------------


def _decode(data: bytes, unpack: Unpack) -> Program:
    length, more = _HEAD.unpack_from(data)
    middle = _HEAD.size + length
    behind = middle + more
    if behind > len(data):
        raise ValueError("its end is missing")
    content = json.loads(zlib.decompress(data[_HEAD.size : middle]))
    kernels = unpack(data[middle:behind])
    offsets, peak, bound, naive = content["packing"]
    return Program(
        tuple(_read_step(row, kernels) for row in content["steps"]),
        tuple(map(_read_value, content["outputs"])),
        tuple(_read_arrays(data, behind, content["constants"])),
        Packing(tuple(offsets), peak, bound, naive),
        dict(content["reuses"]),
        tuple(Location(*row) for row in content["locations"]),
    )


def _read_arrays(data: bytes, at: int, rows: Sequence[Any]) -> list[np.ndarray[Any, Any]]:
    out = []
    for shape, name in rows:
        array = empty(shape, BY_NAME[name])
        array[...] = np.frombuffer(data, array.dtype, array.size, at).reshape(shape)
        out.append(array)
        at += array.nbytes
    return out
