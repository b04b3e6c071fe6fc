"""What `save` and `load` do with streams in memory, and with arguments in PyTorch's order.

A stream gets one safetensors image of a flat dict; nests are for checkpoints on disk.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from trilobite.base.errors import ArgumentError
from trilobite.base.locations import user_location
from trilobite.framework.devices import check_device

_HINTS = frozenset({"weights_only", "mmap", "pickle_module", "pickle_protocol"})
_FORMS = frozenset({"pickle_module", "pickle_protocol", "_use_new_zipfile_serialization"})  # PyTorch's


def in_order(path: Any, tree: Any) -> tuple[Any, Any]:
    """(path, tree), whichever came first: only one of the two can be a place."""
    if not _is_place(path) and _is_place(tree):
        return tree, path
    return path, tree


def _is_place(x: Any) -> bool:
    return isinstance(x, (str, bytes, os.PathLike)) or hasattr(x, "write")


def refuse_module(tree: Any) -> None:
    networks = sys.modules.get("trilobite.framework.nn.module")  # whoever has a module has imported them
    if networks is not None and isinstance(tree, networks.Module):
        raise ArgumentError(
            f"a {type(tree).__name__} cannot be saved: its code is no data",
            where=user_location(),
            expected="its state",
            remedy="save model.state_dict(), and load it with model.load_state_dict(tb.load(path))",
        )


def check_settings(map_location: Any, settings: dict[str, Any]) -> None:
    if isinstance(map_location, str):
        check_device(map_location)
    unknown = settings.keys() - _HINTS
    if unknown:
        raise ArgumentError(
            f"load({sorted(unknown)[0]}=...)", where=user_location(), expected="like or map_location"
        )


def check_forms(settings: dict[str, Any]) -> None:
    unknown = settings.keys() - _FORMS
    if unknown:
        raise ArgumentError(
            f"save({sorted(unknown)[0]}=...)",
            where=user_location(),
            expected="metadata, and no more",
        )


def write(stream: Any, tree: Any, metadata: Any) -> None:
    import tempfile

    from trilobite.framework.checkpoint.safetensors import save_safetensors

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "state.safetensors")
        save_safetensors(path, tree, metadata=metadata)
        with open(path, "rb") as file:
            stream.write(file.read())


def read(stream: Any) -> Any:
    import tempfile

    from trilobite.framework.checkpoint.safetensors import load_safetensors

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "state.safetensors")
        with open(path, "wb") as file:
            file.write(stream.read())
        return {name: array.copy() for name, array in load_safetensors(path).items()}
