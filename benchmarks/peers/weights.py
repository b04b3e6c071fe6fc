"""Weights and inputs that every system gets alike: drawn by name, never stored.

The zoo says which names and shapes a network has; nothing of it is computed, so a peer's process stays a
peer's.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
EMBEDDINGS = ("wte.", "wpe.", "embed", "position")


def shapes(name: str, **options: Any) -> dict[str, tuple[int, ...]]:
    """Every parameter and buffer of a zoo network with its shape."""
    import trilobite as tb

    def state() -> dict[str, Any]:
        return tb.zoo.create(name, initialise=False, **options).state_dict()

    return {key: tuple(t.shape) for key, t in tb.eval_shape(state).items()}


def drawn(name: str, shape: tuple[int, ...]) -> Array:
    """Values as after some training: nothing is 0 or 1 exactly, and signals neither vanish nor explode."""
    random = np.random.default_rng(zlib.crc32(name.encode()))
    if name.endswith("num_batches_tracked"):
        return np.zeros(shape, np.int64)
    values: Array = random.standard_normal(shape, dtype=np.float32)
    if name.endswith("running_var"):
        return 1 + np.abs(values) / 4
    if len(shape) == 1:
        scale = name.endswith("weight")  # of a normalisation; all other vectors are shifts
        return 1 + values / 10 if scale else values / 20
    if name.startswith(EMBEDDINGS):
        return values / 10
    fan = int(np.prod(shape[1:]))
    return values * np.float32((2 / fan if len(shape) == 4 else 1 / fan) ** 0.5)


def each(name: str, **options: Any) -> Iterator[tuple[str, Array]]:
    """All weights of a network, one after the other, so that memory holds them once."""
    for key, shape in shapes(name, **options).items():
        yield key, drawn(key, shape)


def trained(name: str, **options: Any) -> dict[str, Array]:
    """The parameters of a network in training: without running statistics."""
    running = ("running_mean", "running_var", "num_batches_tracked")
    return {key: value for key, value in each(name, **options) if not key.endswith(running)}


def folded(name: str, **options: Any) -> dict[str, Array]:
    """For inference: batch normalisation is in the convolution before it; a tied last layer has a name."""
    found = dict(each(name, **options))
    for key in [k for k in found if k.endswith("running_mean")]:
        norm = key.removesuffix(".running_mean")
        fold_one(found, convolution_before(norm), norm)
    if "wte.weight" in found:
        found["head.weight"] = found["wte.weight"]
    return found


def convolution_before(norm: str) -> str:
    """bn1 stands behind conv1; in a sequence, a norm stands behind the number before its own."""
    stem, _, last = norm.rpartition(".")
    if last.isdigit():
        return f"{stem}.{int(last) - 1}"
    return f"{stem}.{last.replace('bn', 'conv')}".lstrip(".")


def fold_one(found: dict[str, Array], conv: str, norm: str, eps: float = 1e-5) -> None:
    mean, var, scale, shift = (
        found.pop(f"{norm}.{part}").astype(np.float64)
        for part in ("running_mean", "running_var", "weight", "bias")
    )
    found.pop(f"{norm}.num_batches_tracked")
    factor = scale / np.sqrt(var + eps)
    kernel = found[f"{conv}.weight"].astype(np.float64)
    found[f"{conv}.weight"] = (kernel * factor[:, None, None, None]).astype(np.float32)
    found[f"{conv}.bias"] = (shift - mean * factor).astype(np.float32)


def images(*shape: int, seed: int = 1) -> Array:
    """Inputs about as large as normalised images."""
    values: Array = np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)
    return values


def labels(count: int, *shape: int, seed: int = 2) -> Array:
    """Numbers below `count`: classes, or tokens of a text."""
    values: Array = np.random.default_rng(seed).integers(0, count, shape)
    return values
