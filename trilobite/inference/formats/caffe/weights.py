"""The arrays of a caffemodel, by layer.

Enters: a path. Leaves: for each layer's name its blobs, mapped. Files of both generations are read (`layers`
and `layer`). Does not look at the layers' settings: the prototxt says those.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trilobite.framework.checkpoint.arrays import checked_bytes
from trilobite.framework.checkpoint.refusal import corrupt, shown
from trilobite.inference.formats.mapped import Array, mapped
from trilobite.inference.formats.wire import Message


def read(path: Any) -> dict[str, list[Array]]:
    data, where = mapped(path)
    net = Message(data, where)
    found: dict[str, list[Array]] = {}
    for layer, name, blobs in (
        *((m, 4, 6) for m in net.messages(2)),
        *((m, 1, 7) for m in net.messages(100)),
    ):
        arrays = [_blob(b, f"{where}, layer {shown(layer.text(name))}") for b in layer.messages(blobs)]
        if arrays:
            found[layer.text(name)] = arrays
    if not found:
        raise corrupt("the file holds no weights", where, "a caffemodel")
    return found


def named(path: Any) -> dict[str, Array]:
    """All blobs: `layer.0`, `layer.1`, ..."""
    return {f"{layer}.{i}": a for layer, found in read(path).items() for i, a in enumerate(found)}


def _blob(b: Message, where: str) -> Array:
    shape = b.message(7)
    sizes = shape.integers(1) if shape is not None else [b.integer(i) for i in (1, 2, 3, 4) if b.has(i)]
    if any(d < 0 for d in sizes) or len(sizes) > 32:
        raise corrupt(f"a blob has the shape {sizes[:32]}", where, "sizes")
    checked_bytes(sizes, 8, where)
    array = b.numbers(8, np.float64).astype(np.float32) if b.has(8) else b.numbers(5, np.float32)
    count = int(np.prod(sizes, dtype=object))
    if len(array) != count:
        raise corrupt(f"a blob has {len(array)} numbers", where, f"{count} for {sizes}")
    return array.reshape(sizes)
