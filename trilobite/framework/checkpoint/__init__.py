"""Checkpoints and weight files: durable when written, refused when doubtful, nothing in them ever executed.

A run's state is a pytree; `save` and `load` keep one, `Checkpointer` keeps a run's last few. Beside them
stand the formats that others speak: safetensors both ways, NumPy's `.npz` both ways, PyTorch's `.pth`
inwards.

Enters: trees of tensors and arrays; files from anywhere. Leaves: files; trees, or a refusal. May import
`base` and `framework.devices` alone, so files can be read without tensors. Read `directory.py` first, then
`checkpointer.py`.
"""

from trilobite.framework.checkpoint.checkpointer import Checkpointer
from trilobite.framework.checkpoint.directory import load, read_metadata, save, verify
from trilobite.framework.checkpoint.durable import NotFoundError, StorageError
from trilobite.framework.checkpoint.npz import load_npz, save_npz
from trilobite.framework.checkpoint.pth import load_pth
from trilobite.framework.checkpoint.safetensors import (
    load_safetensors,
    read_safetensors_metadata,
    save_safetensors,
)

__all__ = [
    "Checkpointer",
    "NotFoundError",
    "StorageError",
    "load",
    "load_npz",
    "load_pth",
    "load_safetensors",
    "read_metadata",
    "read_safetensors_metadata",
    "save",
    "save_npz",
    "save_safetensors",
    "verify",
]
