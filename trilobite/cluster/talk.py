"""What ranks tell each other besides tensors: texts of any length, and errors that all raise together."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from trilobite.base.errors import ClusterError, TrilobiteError
from trilobite.base.locations import user_location
from trilobite.cluster import collectives as c

T = TypeVar("T")


def texts(own: bytes) -> list[bytes]:
    """The text of every rank."""
    line = np.frombuffer(own, np.uint8)
    sizes = c.all_gather(np.array([line.size], np.int64)).tolist()
    padded = np.zeros(max(sizes), np.uint8)
    padded[: line.size] = line
    rows = c.all_gather(padded).numpy().reshape(len(sizes), -1)
    return [rows[k, :n].tobytes() for k, n in enumerate(sizes)]


def told(own: Any) -> list[Any]:
    """What every rank says, as JSON has it."""
    return [json.loads(text) for text in texts(json.dumps(own).encode())]


def together(do: Callable[[], T]) -> T:
    """All ranks call it, each to do its part. Where one fails it raises that error, and the others say so:
    nobody waits for a rank that has given up.
    """
    error: Exception | None = None
    try:
        done = do()
    except Exception as raised:
        error = raised
    said = told(None if error is None else f"{type(error).__name__}: {_first_line(error)}")
    if error is not None:
        raise error
    failed = {k: text for k, text in enumerate(said) if text is not None}
    if failed:
        lines = "\n    ".join(f"rank {k}: {text}" for k, text in failed.items())
        raise ClusterError(f"another rank could not do its part\n    {lines}", where=user_location())
    return done


def _first_line(error: Exception) -> str:
    return error.what if isinstance(error, TrilobiteError) else str(error).partition("\n")[0]
