"""Ways to damage a file: the same ones for the same seed."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import numpy as np

_ODD = [
    None, True, -1, 0, 3, 1 << 31, 1 << 70, 1e308, float("nan"), "", "x", "../x", "DT_INT64", "SAME", [], {},
    [0], [[-1]], {"list": {}}, "x" * 5000, [2] * 3000,
]  # fmt: skip
_EXTREMES = [
    b"\xff\xff\xff\xff", b"\xff\xff\xff\x7f", b"\x00\x00\x00\x80", b"\xff" * 8, b"\xff" * 7 + b"\x7f",
    b"\x00" * 4, b"\x00" * 8, b"\x01" + b"\x00" * 7, b"\x00\x00\x00\x40", b"\xfe\xff\xff\xff",
]  # fmt: skip


def mutated(raw: bytes, count: int, seed: int) -> Iterator[tuple[str, bytes]]:
    """`count` damaged files with a word on each."""
    rng = np.random.default_rng(seed)
    ways = (_cut, _flip, _extreme, _noise, _repeat, _remove, _swap)
    if raw[:1] == b"{":  # a text of JSON: bytes mostly make it none
        ways = (*ways, *[_branch] * 3 * len(ways))
    for i in range(count):
        way = ways[i % len(ways)]
        data = way(raw, rng)
        if rng.random() < 0.3:
            data = ways[int(rng.integers(len(ways)))](data, rng)
        yield f"{way.__name__[1:]} {i}", data


def _at(raw: bytes, rng: np.random.Generator) -> int:
    """Near the front more often: headers are there."""
    if not raw:
        return 0
    limit = len(raw) if rng.random() < 0.5 else min(len(raw), 512)
    return int(rng.integers(limit))


def _cut(raw: bytes, rng: np.random.Generator) -> bytes:
    return raw[: int(rng.integers(len(raw) + 1))]


def _flip(raw: bytes, rng: np.random.Generator) -> bytes:
    out = bytearray(raw)
    for _ in range(int(rng.integers(1, 6))):
        if out:
            out[_at(raw, rng)] ^= 1 << int(rng.integers(8))
    return bytes(out)


def _extreme(raw: bytes, rng: np.random.Generator) -> bytes:
    value, at = _EXTREMES[int(rng.integers(len(_EXTREMES)))], _at(raw, rng)
    at -= at % 4 if rng.random() < 0.5 else 0
    return raw[:at] + value + raw[at + len(value) :]


def _noise(raw: bytes, rng: np.random.Generator) -> bytes:
    at, n = _at(raw, rng), int(rng.integers(1, 40))
    return raw[:at] + rng.bytes(n) + raw[at + n :]


def _repeat(raw: bytes, rng: np.random.Generator) -> bytes:
    at, n = _at(raw, rng), int(rng.integers(1, 200))
    return raw[: at + n] + raw[at : at + n] * int(rng.integers(1, 4)) + raw[at + n :]


def _remove(raw: bytes, rng: np.random.Generator) -> bytes:
    at, n = _at(raw, rng), int(rng.integers(1, 60))
    return raw[:at] + raw[at + n :]


def _swap(raw: bytes, rng: np.random.Generator) -> bytes:
    a, b, n = _at(raw, rng), _at(raw, rng), int(rng.integers(1, 16))
    out = bytearray(raw)
    out[a : a + n], out[b : b + n] = raw[b : b + n], raw[a : a + n]
    return bytes(out)


def _branch(raw: bytes, rng: np.random.Generator) -> bytes:
    """Some branches of a tree of JSON become odd values, are left out, or take each other's place."""
    try:
        tree = json.loads(raw)
    except ValueError:
        return raw
    for _ in range(int(rng.integers(1, 4))):
        places = list(_places(tree))
        if not places:
            break
        (holder, key), (other, at) = (places[int(rng.integers(len(places)))] for _ in range(2))
        what = int(rng.integers(4))
        if what == 0:
            del holder[key]
        elif what == 1:
            holder[key] = copy.deepcopy(other[at])
        else:
            holder[key] = copy.deepcopy(_ODD[int(rng.integers(len(_ODD)))])
    return json.dumps(tree).encode()


def _places(tree: Any) -> Iterator[tuple[Any, Any]]:
    """Every holder of a value, and under what it holds it."""
    stack = [tree]
    while stack:
        holder = stack.pop()
        keys = list(holder) if isinstance(holder, dict) else range(len(holder))
        for key in keys:
            yield holder, key
            if isinstance(holder[key], (dict, list)):
                stack.append(holder[key])
