"""Rooms inside of rooms under PyTorch's names, as attributes of the outer one: `tb.utils.data.sampler` need
not be imported first.
"""

from __future__ import annotations

import importlib
from typing import Any


def inner_room(outer: str, name: str) -> Any:
    """The room of that name in `trilobite.<outer>`, or an AttributeError."""
    if not name.startswith("__"):
        inner = f"trilobite.{outer}.{name}"
        try:
            return importlib.import_module(inner)
        except ModuleNotFoundError as error:
            if error.name != inner:
                raise
    raise AttributeError(f"trilobite.{outer} has no {name!r}")
