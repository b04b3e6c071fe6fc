"""JSON from strangers: parsed so that one text has one meaning.

Enters: bytes of a file. Leaves: plain Python values. Refused: duplicate keys, NaN and infinities, numbers out
of range, bad UTF-8, nesting deep enough to exhaust the parser. Knows nothing of what the values are for.
"""

from __future__ import annotations

import json
import math
from typing import Any

from trilobite.framework.checkpoint.refusal import corrupt, shown


def parse(data: bytes, where: str) -> Any:
    try:
        text = data.decode("utf-8")
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse, parse_float=_finite)
    except RecursionError:
        raise corrupt("the JSON is nested too deeply", where, "a few levels") from None
    except ValueError as error:
        reason = str(error).splitlines()[0][:200]
        raise corrupt(f"the JSON cannot be read: {reason}", where, "strict JSON in UTF-8") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"the key {shown(key)} stands there twice")
        found[key] = value
    return found


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is no JSON number")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"the number {text[:40]} is out of range")
    return value
