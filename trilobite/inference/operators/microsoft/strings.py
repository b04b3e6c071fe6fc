"""Words of strings as com.microsoft cuts them, and hashes of elements. They run on the host."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from trilobite.base.errors import ArgumentError
from trilobite.inference.model import Node
from trilobite.inference.operators.microsoft.fused import MS
from trilobite.inference.operators.patterns import Pattern
from trilobite.inference.operators.registry import operator
from trilobite.inference.operators.strings import compiled

Array = np.ndarray[Any, Any]
_START, _END = "\x02", "\x03"


@operator("Tokenizer", domain=MS, host=True, gives="host")
def tokenizer(node: Node, x: Array) -> Array:
    """Each string as a row of words, filled up to the longest row."""
    cut = node.prepared(_cutter)
    if not x.size:
        return np.zeros((*x.shape[:-1], 0) if x.ndim > 1 else (0,), dtype=object)
    words = [cut(_text(v)) for v in x.reshape(-1)]
    words = [[w for w in row if len(w) >= node.attribute("mincharnum", 1)] for row in words]
    if node.attribute("mark", 0) and any(words):
        words = [[_START, *row, _END] for row in words]
    out = np.full((len(words), max(map(len, words))), node.attribute("pad_value", ""), dtype=object)
    for i, row in enumerate(words):
        out[i, : len(row)] = row
    return out.reshape(*x.shape, out.shape[1])


def _text(value: Any) -> str:
    return value.decode("utf-8") if isinstance(value, bytes) else str(value)


def _cutter(node: Node) -> Callable[[str], list[str]]:
    """How a string becomes words: single characters, what a pattern finds, or what separators leave."""
    pattern, separators = node.attribute("tokenexp", ""), node.attribute("separators") or ()
    if bool(pattern) == bool(separators):
        raise ArgumentError(f"{node.label()} with both or none of two", expected="tokenexp or separators")
    if pattern == "." or list(separators) == [""]:
        return list
    if pattern:
        found = compiled(node, pattern)
        return lambda text: [text[a:b] for a, b in found.spans(text)]
    between = [compiled(node, s) for s in separators]

    def cut(text: str) -> list[str]:
        parts = [text]
        for each in between:
            parts = [piece for part in parts for piece in _without(part, each)]
        return [part for part in parts if part]

    return cut


def _without(text: str, separator: Pattern) -> list[str]:
    edges = [0, *(edge for span in separator.spans(text) for edge in span), len(text)]
    return [text[a:b] for a, b in zip(edges[::2], edges[1::2], strict=True)]


@operator("MurmurHash3", domain=MS, host=True, gives="numbers")
def murmur_hash3(node: Node, x: Array) -> Array:
    """32 bits of each element: of its bytes, or of the bytes of a text."""
    seed = node.attribute("seed", 0) & 0xFFFFFFFF
    if x.dtype == object:
        raw = [str(v).encode() if not isinstance(v, bytes) else v for v in x.reshape(-1)]
    else:
        raw = [v.tobytes() for v in x.reshape(-1)]
    out = np.array([_murmur(v, seed) for v in raw], np.uint32).reshape(x.shape)
    return out if node.attribute("positive", 1) else out.view(np.int32)


def _murmur(data: bytes, h: int) -> int:
    mask = 0xFFFFFFFF
    whole = len(data) // 4 * 4
    words = [int.from_bytes(data[i : i + 4], "little") for i in range(0, whole, 4)]
    for word in words:
        h ^= _scrambled(word)
        h = (_rotated(h, 13) * 5 + 0xE6546B64) & mask
    if data[whole:]:
        h ^= _scrambled(int.from_bytes(data[whole:], "little"))
    h ^= len(data)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        h = ((h ^ h >> shift) * factor) & mask
    return h ^ h >> 16


def _scrambled(word: int) -> int:
    return _rotated(word * 0xCC9E2D51 & 0xFFFFFFFF, 15) * 0x1B873593 & 0xFFFFFFFF


def _rotated(word: int, by: int) -> int:
    return (word << by | word >> (32 - by)) & 0xFFFFFFFF
