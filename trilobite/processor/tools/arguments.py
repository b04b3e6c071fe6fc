"""Kernel arguments written as words: how a command line or a test corpus names them.

    5  -3  0x40                an integer
    0.5                        a float, passed as fp32
    random:f32:8x4             an array of random numbers, the same every time, another for every argument
    zeros:i32:16               an array of zeros; C's names serve too: zeros:int:16, random:half:64
    empty:f16:3x3              an array that nobody filled
    weights.npy                an array from a NumPy file
    struct:i32=7,f32=0.25,i8=1 a C struct by value, its members in order (BANG C kernels)

Enters: a device and a word. Leaves: what `Device.launch` takes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from trilobite.base.errors import ArgumentError
from trilobite.processor.device import Device
from trilobite.processor.isa.formats import BY_NAME, I4, Format

SEED = 11
KINDS = ("random", "zeros", "empty")
_C_NAMES = {
    "float": "f32", "half": "f16", "double": "f64", "bfloat16_t": "bf16", "bool": "u8", "char": "i8",
    "short": "i16", "int": "i32", "long": "i64", "unsigned": "u32", "size_t": "u64", "int8_t": "i8",
    "int16_t": "i16", "int32_t": "i32", "int64_t": "i64", "uint8_t": "u8", "uint16_t": "u16",
    "uint32_t": "u32", "uint64_t": "u64",
}  # fmt: skip


def argument(device: Device, word: str, place: int = 0) -> Any:
    """`place` is the argument's number: random arrays of one launch differ."""
    word = word.strip()
    if word.endswith(".npy"):
        return device.array(_file(word))
    if word.startswith("struct:"):
        return _struct(word)
    if ":" in word:
        return _array(device, word, place)
    try:
        return int(word, 0)
    except ValueError:
        pass
    try:
        return float(word)
    except ValueError:
        raise _misunderstood(word) from None


def shape_of(word: str) -> tuple[int, ...]:
    """8x4 as (8, 4); 8,4 is the same."""
    parts = word.replace(",", "x").split("x")
    if not all(part.isdecimal() for part in parts):
        raise ArgumentError(f"{word!r} is no shape", expected="extents such as 8x4", remedy="correct it")
    return tuple(int(part) for part in parts)


def _misunderstood(word: str) -> ArgumentError:
    return ArgumentError(
        f"{word!r} is no argument",
        expected="a number, random:f32:8x4, zeros:i32:16, empty:f16:64, struct:i32=7,f32=0.25,"
        " or the path of a .npy file",
        remedy="correct it",
    )


def _struct(word: str) -> bytes:
    """Members by format and value, laid out as C aligns them."""
    members = [member.partition("=")[::2] for member in word.removeprefix("struct:").split(",")]
    formats = [_format(name) for name, _ in members]
    try:
        values = tuple(float(text) if "." in text else int(text, 0) for _, text in members)
    except ValueError:
        raise _misunderstood(word) from None
    if any(fmt is None or fmt is I4 for fmt in formats):
        raise _misunderstood(word)
    layout = np.dtype([(f"m{i}", fmt.dtype) for i, fmt in enumerate(formats) if fmt], align=True)
    try:
        return np.array(values, layout).tobytes()
    except OverflowError as error:
        raise ArgumentError(
            f"{word!r}: {error}", expected="values that their formats hold", remedy="correct it"
        ) from error


def _format(name: str) -> Format | None:
    return BY_NAME.get(_C_NAMES.get(name.strip(), name.strip()))


def _array(device: Device, word: str, place: int) -> Any:
    kind, _, rest = word.partition(":")
    name, _, extents = rest.partition(":")
    fmt = _format(name)
    if kind not in KINDS or fmt is None or fmt is I4 or not extents:
        raise _misunderstood(word)
    shape = shape_of(extents)
    if kind == "empty":
        return device.empty(shape, fmt.dtype)
    if kind == "zeros":
        return device.array(np.zeros(shape, fmt.dtype))
    rng = np.random.default_rng([SEED, place] if place else SEED)
    values = rng.standard_normal(shape) * 4 if fmt.kind == "float" else rng.integers(0, 100, shape)
    return device.array(values.astype(fmt.dtype))


def _file(path: str) -> Any:
    try:
        return np.load(Path(path), allow_pickle=False)
    except (OSError, ValueError) as error:
        raise ArgumentError(
            f"the array cannot be read: {error}", where=path, expected="a .npy file", remedy="check the path"
        ) from error
