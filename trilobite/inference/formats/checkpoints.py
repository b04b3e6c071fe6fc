"""Weights in the formats that checkpoints have: the framework's own readers under the names of this room."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trilobite.framework.checkpoint import load_npz, load_pth, load_safetensors


def safetensors(path: Any) -> Mapping[str, Any]:
    """Mapped, not read."""
    return load_safetensors(path, mmap=True)


def pth(path: Any) -> Mapping[str, Any]:
    """PyTorch's; nothing in it is executed."""
    found: Mapping[str, Any] = load_pth(path)
    return found


def npz(path: Any) -> Mapping[str, Any]:
    found: Mapping[str, Any] = load_npz(path)
    return found
