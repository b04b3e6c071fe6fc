"""Operators on strings. They run on the host."""

from __future__ import annotations

from typing import Any

import numpy as np

from trilobite.base.errors import ArgumentError
from trilobite.inference.model import Node
from trilobite.inference.operators.patterns import Pattern, PatternError
from trilobite.inference.operators.registry import operator

Array = np.ndarray[Any, Any]


def texts(items: Any, shape: Any = None) -> Array:
    """Strings as an array of objects."""
    out = np.empty(len(items), dtype=object)
    out[:] = list(items)
    return out if shape is None else out.reshape(shape)


@operator("StringConcat", since=20, host=True)
def string_concat(node: Node, x: Array, y: Array) -> Array:
    a, b = np.broadcast_arrays(x, y)
    return texts([s + t for s, t in zip(a.reshape(-1), b.reshape(-1), strict=True)], a.shape)


@operator("StringSplit", since=20, host=True)
def string_split(node: Node, x: Array) -> tuple[Array, Array]:
    """Parts on a new last axis, filled up with empty strings, and how many each string has."""
    separator, most = node.attribute("delimiter") or None, node.attribute("maxsplit", -1)
    parts = [s.split(separator, most) for s in x.reshape(-1)]
    widest = max(map(len, parts), default=0)
    flat = [p for row in parts for p in (*row, *[""] * (widest - len(row)))]
    counts = np.asarray([len(p) for p in parts], np.int64).reshape(x.shape)
    return texts(flat, (*x.shape, widest)), counts


@operator("RegexFullMatch", since=20, host=True, gives="numbers")
def regex_full_match(node: Node, x: Array) -> Array:
    pattern = node.prepared(_pattern)
    found = [pattern.longest(s) == len(s) for s in x.reshape(-1)]
    return np.asarray(found, dtype=bool).reshape(x.shape)


def _pattern(node: Node) -> Pattern:
    return compiled(node, node.attributes["pattern"])


def compiled(node: Node, pattern: str) -> Pattern:
    try:
        return Pattern(pattern)
    except PatternError as error:
        raise ArgumentError(f"{node.label()} has a pattern that is none: {error}") from error


@operator("StringNormalizer", since=10, host=True)
def string_normalizer(node: Node, x: Array) -> Array:
    """Without stop words, in upper or lower case; [""] if nothing is left."""
    change = {"LOWER": str.lower, "UPPER": str.upper}.get(node.attribute("case_change_action", "NONE"))
    exact = bool(node.attribute("is_case_sensitive", 0))
    stops = set(node.attribute("stopwords") or ())
    stops = stops if exact else {s.lower() for s in stops}
    kept = [s for s in x.reshape(-1) if (s if exact else s.lower()) not in stops]
    kept = [change(s) for s in kept] if change else kept
    shape = (-1,) if x.ndim == 1 else (1, -1)
    return texts(kept or [""]).reshape(shape)


@operator("TfIdfVectorizer", since=9, host=True, gives="numbers")
def tf_idf_vectorizer(node: Node, x: Array) -> Array:
    """How often n-grams of a pool occur, with gaps of up to a number of items between theirs."""
    rows = x.reshape(1, -1) if x.ndim < 2 else x
    grams, width = _pool(node), max(node.attributes["ngram_indexes"]) + 1
    counts = np.zeros((len(rows), width), np.float32)
    shortest, longest = node.attributes["min_gram_length"], node.attributes["max_gram_length"]
    for i, row in enumerate(rows):
        items = [v if isinstance(v, str) else int(v) for v in row.tolist()]
        for n in range(shortest, longest + 1):
            for skip in range(node.attributes["max_skip_count"] + 1 if n > 1 else 1):
                for start in range(len(items) - (n - 1) * (skip + 1)):
                    at = grams.get(tuple(items[start : start + (n - 1) * (skip + 1) + 1 : skip + 1]))
                    if at is not None:
                        counts[i, at] += 1
    out = _weighted(node, counts)
    return out[0] if x.ndim < 2 else out


def _pool(node: Node) -> dict[tuple[Any, ...], int]:
    items = node.attribute("pool_strings") or node.attribute("pool_int64s") or ()
    starts, columns = node.attributes["ngram_counts"], iter(node.attributes["ngram_indexes"])
    out: dict[tuple[Any, ...], int] = {}
    for n, (start, end) in enumerate(zip(starts, (*starts[1:], len(items)), strict=True), 1):
        for i in range(start, end, n):
            out[tuple(items[i : i + n])] = next(columns)
    return out


def _weighted(node: Node, counts: Array) -> Array:
    weights = np.ones(counts.shape[1], np.float32)
    for column, w in zip(node.attributes["ngram_indexes"], node.attribute("weights") or (), strict=False):
        weights[column] = w
    mode = node.attributes["mode"]
    if mode == "TF":
        return counts
    return (counts > 0) * weights if mode == "IDF" else counts * weights


@operator("ImageDecoder", since=20, host=True, gives="numbers")
def image_decoder(node: Node, data: Array) -> Array:
    """A file of an image as bytes, decoded: (height, width, channels); empty if it cannot be read."""
    import io

    from PIL import Image

    wanted = node.attribute("pixel_format", "RGB")
    try:
        with Image.open(io.BytesIO(data.tobytes())) as image:
            pixels = np.asarray(image.convert("L" if wanted == "Grayscale" else "RGB"))
    except (OSError, ValueError, Image.DecompressionBombError):
        return np.empty((0, 0, 0), np.uint8)
    if wanted == "Grayscale":
        return pixels[:, :, None]
    return np.ascontiguousarray(pixels[:, :, ::-1]) if wanted == "BGR" else pixels
