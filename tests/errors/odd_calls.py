"""Calls beside those that work: one argument at a time is another number, another kind, another shape.

Enters: subjects, each a callable with arguments that it takes. Leaves: for each argument and each odd value
what the call does: `!` it is refused, with a digest of the error's text, or `=` it is taken, with a digest of
what comes out (types and shapes, settings of layers, never numbers that a rounding could move).
`python -m tests.errors.odd_calls` keeps `odd_calls.txt` anew.
"""

from __future__ import annotations

import inspect
import re
import sys
import warnings
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import trilobite as tb
from trilobite.base.errors import TrilobiteError

KEPT = Path(__file__).with_name("odd_calls.txt")
_PLACE = re.compile(r"\n  where: .*|0x[0-9a-f]+|<[\w.]+ object at .*?>")
Call = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]
OTHERS: dict[type, tuple[Any, ...]] = {
    bool: (None, "x", 2),
    int: (0, -1, 2.5, "x", None, (2, 2), True),
    float: (0.0, -1.0, 1.0, 1.5, float("nan"), float("inf"), "x", None),
    str: ("nonsense", "", 3, None),
    type(None): (0, -1, 1.5, "x", True),
}


def odd(value: Any) -> Iterator[tuple[str, Any]]:
    """(what was done, another value)."""
    if isinstance(value, np.ndarray):
        yield from _odd_arrays(value)
    elif isinstance(value, (tuple, list)) and all(isinstance(v, (bool, int, float)) for v in value):
        kind = type(value)
        for i in range(min(len(value), 2)):
            for name, other in (("-", value[i] - 1), ("+", value[i] + 1), ("neg", -1 - value[i])):
                yield f"[{i}]{name}", kind([*value[:i], other, *value[i + 1 :]])
        yield from (
            ("short", kind(value[:-1])),
            ("long", kind([*value, *value[-1:]])),
            ("'x'", "x"),
            ("None", None),
        )
    elif type(value) in OTHERS:
        for other in OTHERS[type(value)]:
            if not (type(other) is type(value) and other == value):
                yield repr(other).replace(" ", ""), other
        if type(value) is int:
            yield from (("+", value + 1), ("-", value - 1), ("neg", -1 - value))


def _odd_arrays(x: np.ndarray[Any, Any]) -> Iterator[tuple[str, Any]]:
    for kind in ("f4", "i8", "bool", "c8"):
        if x.dtype != np.dtype(kind):
            yield kind, np.real(x).astype(kind) if kind != "c8" else x.astype(kind)
    yield "axis", x[None]
    if x.ndim:
        yield "first", x[0] if len(x) else x.sum(0)
    for axis in range(min(x.ndim, 3)):
        yield f"cut{axis}", np.take(x, range(max(x.shape[axis] - 1, 0)), axis)
    yield "None", None
    yield "'x'", "x"


def neighbours(call: Call) -> Iterator[tuple[str, Call]]:
    function, args, named = call
    for i, value in enumerate(args):
        for what, other in odd(value):
            yield f"{i}:{what}", (function, (*args[:i], other, *args[i + 1 :]), named)
    for name, value in (_defaults(function, args, named) | named).items():
        for what, other in odd(value):
            yield f"{name}:{what}", (function, args, {**named, name: other})
    yield "nonsense=1", (function, args, {**named, "nonsense": 1})
    yield "more", (function, (*args, 1), named)
    if args:
        yield "less", (function, args[:-1], named)


def _defaults(function: Any, args: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, Any]:
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return {}
    left = parameters[len(args) :]
    return {
        p.name: p.default
        for p in left
        if p.default is not p.empty and p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
    }


def outcome(call: Call) -> str:
    function, args, named = call
    tb.manual_seed(0)
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            found = function(*map(_given, args), **{k: _given(v) for k, v in named.items()})
        return f"={_digest(told(found))}"
    except TrilobiteError as error:
        return f"!{_digest(type(error).__name__ + _PLACE.sub('', str(error)))}"
    except Exception as error:
        return f"?{type(error).__name__}"  # texts of Python's own change with its version


def _given(x: Any) -> Any:
    if isinstance(x, np.ndarray):
        return tb.tensor(x)
    if isinstance(x, (tuple, list)) and any(isinstance(v, np.ndarray) for v in x):
        return type(x)(map(_given, x))
    return x


def told(x: Any) -> str:
    """Types, shapes and settings."""
    if isinstance(x, tb.Tensor):
        whole = x.numpy().tolist() if x.dtype in (tb.bool, tb.int64, tb.int32, tb.uint8) else ""
        return f"{x.dtype}{tuple(x.shape)}{x.requires_grad}{whole}"
    if isinstance(x, np.ndarray):
        return f"array {x.dtype}{x.shape}"
    if isinstance(x, (tuple, list)):
        return f"{type(x).__name__}({', '.join(map(told, x))})"
    if isinstance(x, tb.nn.Module):
        kinds = [f"{name}{tuple(p.shape)}" for name, p in x.named_parameters()]
        return f"{x!r} {kinds}"
    if isinstance(x, (bool, int, str, type(None))):
        return repr(x)
    if isinstance(x, float):
        return "a float"
    shapes = [str(getattr(x, name, "")) for name in ("batch_shape", "event_shape")]
    return f"{type(x).__name__} {sorted(getattr(x, '__dict__', ()))} {shapes}"


def _digest(text: str) -> str:
    return f"{zlib.crc32(text.encode()) & 0xFFFF:04x}"


def line(name: str, call: Call) -> str:
    codes = [f"{what}{outcome(other)}" for what, other in neighbours(call)]
    return f"{name}: {outcome(call)} {' '.join(codes)}"


def kept() -> dict[str, str]:
    rows = (row.split(": ", 1) for row in KEPT.read_text(encoding="utf-8").splitlines())
    return {name: codes for name, codes in rows}


if __name__ == "__main__":
    from tests.errors.odd_subjects import subjects

    KEPT.write_text("".join(f"{line(name, call)}\n" for name, call in subjects()), encoding="utf-8")
    sys.exit(0)
