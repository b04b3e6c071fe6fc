"""Run NumPy without floating-point warnings, at a tenth of `np.errstate`'s cost.

Overflow to infinity, division by zero and NaN are results here, not accidents. `np.errstate` takes about 2
µs, more than a small operation itself, so its context variable is set directly where NumPy has it (2.x), in a
way that never outlives the call and so never changes what the user's own NumPy code sees.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

_umath: Any = getattr(np, "_core", np).umath
# None for a NumPy that keeps its error state elsewhere.
_STATE: Any = getattr(_umath, "_extobj_contextvar", None)
_IGNORE: Any = None if _STATE is None else _umath._make_extobj(all="ignore")

_settings: Any = np.seterr
begin: Callable[[], Any] = (
    partial(_settings, all="ignore") if _STATE is None else partial(_STATE.set, _IGNORE)
)
"""Warnings are off from here on, until `end` is called with what this returns: in a `finally`."""
end: Callable[[Any], object] = (lambda before: _settings(**before)) if _STATE is None else _STATE.reset


def quiet(fn: Callable[..., Any]) -> Callable[..., Any]:
    """`fn` with floating-point warnings off while it runs."""
    if _STATE is None:

        def slow(*args: Any, **kwargs: Any) -> Any:
            with np.errstate(all="ignore"):
                return fn(*args, **kwargs)

        return slow
    enter, leave, ignore = _STATE.set, _STATE.reset, _IGNORE

    def fast(*args: Any, **kwargs: Any) -> Any:
        token = enter(ignore)
        try:
            return fn(*args, **kwargs)
        finally:
            leave(token)

    return fast


def array_rule(fn: Callable[..., Any]) -> Callable[..., Any]:
    """`fn` as the meaning of a primitive: quiet, and its result an array even when it has no dimensions."""
    ndarray, asarray = np.ndarray, np.asarray
    if _STATE is None:
        calm = quiet(fn)
        return lambda *args, **kwargs: asarray(calm(*args, **kwargs))
    enter, leave, ignore = _STATE.set, _STATE.reset, _IGNORE

    def rule(*args: Any, **kwargs: Any) -> Any:
        token = enter(ignore)
        try:
            out = fn(*args, **kwargs)
        finally:
            leave(token)
        return out if type(out) is ndarray else asarray(out)

    rule.plain = fn  # type: ignore[attr-defined]  # for who calls many in a row (framework/replay/calls.py)
    return rule
