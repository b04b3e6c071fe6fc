"""Weights in the formats that checkpoints have: the framework's own readers under the names of this room."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trilobite.framework.checkpoint import load_npz, load_pth, load_safetensors


def safetensors(path: Any) -> Mapping[str, Any]:
    """Mapped, not read."""
    return load_safetensors(path, mmap=True)


def pth(path: Any) -> Mapping[str, Any]:
    """PyTorch's; nothing in it is executed. Arrays within dictionaries and lists have the names of the way to
    them, joined by dots; what is no array is left out.
    """
    found: dict[str, Any] = {}
    pending: list[tuple[str, Any]] = [("", load_pth(path))]
    while pending:
        name, value = pending.pop()
        if isinstance(value, Mapping):
            rows = list(value.items())
        elif isinstance(value, list | tuple):
            rows = list(enumerate(value))
        else:
            if hasattr(value, "shape"):
                found[name] = value
            continue
        pending += [(f"{name}.{key}" if name else str(key), inner) for key, inner in reversed(rows)]
    return found


def npz(path: Any) -> Mapping[str, Any]:
    found: Mapping[str, Any] = load_npz(path)
    return found
