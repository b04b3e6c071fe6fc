"""How tensors show themselves: as text, in format strings, and as a table in notebooks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from trilobite.base import dtypes as dt
from trilobite.framework.tensor import Tensor
from trilobite.ir.primitive import Value
from trilobite.ir.transforms.bind import Traced
from trilobite.ir.types import short_name

_SILENT = frozenset({dt.default_float, dt.default_int, dt.default_complex, dt.bool_})
_WORDS = {
    "Recorded": "recorded",
    "Batched": "mapped by vmap",
    "Taped": "followed by grad",
    "Dual": "followed by jvp",
}
_EDGE = 4  # rows and columns of a large table shown at each side
_LIMIT = 10


def _memory(value: Value) -> np.ndarray[Any, Any] | None:
    """The numbers behind a value, if there are any yet: what a tape or a jvp follows is known."""
    while isinstance(value, Traced) and type(value).__name__ in ("Taped", "Dual"):
        value = value.primal  # type: ignore[attr-defined]
    return value if isinstance(value, np.ndarray) else None


def _printable(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """In a dtype that NumPy can print."""
    if array.dtype.isbuiltin == 1:
        return array
    return array.astype(np.int8 if array.dtype in dt.INTEGERS else np.float32)


def _digits(array: np.ndarray[Any, Any]) -> int:
    return 4 if array.dtype.itemsize <= 4 or array.dtype == np.complex64 else 8


def _numbers(array: np.ndarray[Any, Any], prefix: str) -> str:
    shown = _printable(array)
    with np.errstate(all="ignore"):
        return np.array2string(
            shown,
            separator=", ",
            prefix=prefix,
            precision=_digits(array),
            threshold=1000,
            edgeitems=3,
            suffix=")",
        )


def _notes(x: Tensor, value: Value) -> list[str]:
    """What a reader should know beside the numbers."""
    notes = []
    if 0 in value.shape and value.shape != (0,):
        notes.append(f"shape={tuple(value.shape)}")
    if value.dtype not in _SILENT:
        notes.append(f"dtype={value.dtype}")
    if x.requires_grad:
        made = x.grad_fn
        notes.append("requires_grad=True" if made is None else f"grad_fn={made.name}")
    return notes


def text(x: Tensor) -> str:
    """`tensor([1., 2.])`; inside a transform, the type and who holds the values."""
    value = x._read()
    array = _memory(value)
    if array is None:
        return f"tensor({short_name(value.dtype)}{list(value.shape)}, {_WORDS[type(value).__name__]})"
    return f"tensor({', '.join([_numbers(array, 'tensor('), *_notes(x, value)])})"


def formatted(x: Tensor, spec: str) -> str:
    """In a format string, a tensor of one element is its number."""
    array = _memory(x._read())
    if spec and array is not None and array.size == 1:
        return format(x.item(), spec)
    return format(text(x), spec)


# -- notebooks -------------------------------------------------------------------------------------------


def _picked(size: int) -> list[int | None]:
    """Which rows or columns to show; None is the gap."""
    if size <= _LIMIT:
        return list(range(size))
    return [*range(_EDGE), None, *range(size - _EDGE, size)]


def _cell(value: Any) -> str:
    if isinstance(value, (bool, np.bool_, int, np.integer)):
        return str(value)
    return f"{value:.4g}"


def escape(text: str) -> str:
    """Text as HTML shows it. (The `html` package would load every entity there is.)"""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _table(array: np.ndarray[Any, Any]) -> str:
    rows = []
    columns = _picked(array.shape[1])
    for r in _picked(array.shape[0]):
        cells = ["⋮" if r is None else "⋯" if c is None else escape(_cell(array[r, c])) for c in columns]
        rows.append("<tr>" + "".join(f'<td style="text-align:right">{c}</td>' for c in cells) + "</tr>")
    return "<table>" + "".join(rows) + "</table>"


def html(x: Tensor) -> str:
    """A caption, and the numbers as a table (one or two dimensions) or as text."""
    value = x._read()
    sizes = " × ".join(map(str, value.shape)) or "one number"
    caption = f"<b>tensor</b> {escape(str(value.dtype))} · {escape(sizes)}"
    caption += " · requires_grad" if x.requires_grad else ""
    array = _memory(value)
    if array is None:
        return f"<div>{caption} · {_WORDS[type(value).__name__]}</div>"
    if array.ndim in (1, 2) and array.size:
        return f"<div>{caption}{_table(_printable(array.reshape(-1, array.shape[-1])))}</div>"
    return f"<div>{caption}<pre>{escape(_numbers(array, ''))}</pre></div>"


METHODS: dict[str, Callable[..., Any]] = {
    "__repr__": text,
    "__str__": text,
    "__format__": formatted,
    "_repr_html_": html,
}
