"""Random numbers of Python and NumPy that a function drew while it was recorded.

They are numbers like others to the recording, which from then on uses the same ones in every call. Nothing
can guard that, so it is said, where the function was called.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

REMEDY = {
    "random": "tb.rand(()), or draw it outside and pass it as an argument",
    "numpy.random": "tb.rand and its kin, or draw it outside and pass it as an argument",
}
FRESH = {"random": (624,), "numpy.random": (623, 624, None)}
"""Where a generator stands that nobody has drawn from, NumPy's unseeded or seeded; None: it does not tell."""


@contextmanager
def told_if_drawn(fn: Any) -> Iterator[None]:
    """Warns if the function draws from the global generators of `random` or `numpy.random`."""
    before = _states()
    yield
    for name, state in _states().items():
        if before.get(name, state if state[0] in FRESH[name] else None) != state:
            warnings.warn(
                f"{getattr(fn, '__name__', type(fn).__name__)} drew from {name} while it was recorded: every "
                f"call from now on uses that same number; instead: {REMEDY[name]}",
                RuntimeWarning,
                stacklevel=9,
            )


def _states() -> dict[str, Any]:
    found: dict[str, Any] = {}
    python_random: Any = sys.modules.get("random")  # one that nobody imported nobody draws from
    if python_random is not None:
        state = python_random.getstate()[1]
        found["random"] = state[-1], state
    numpy_random: Any = sys.modules.get("numpy.random")
    if numpy_random is not None:
        state = numpy_random.get_state(legacy=False)
        inner = state["state"]
        found["numpy.random"] = (inner.get("pos"), bytes(inner["key"]) if "key" in inner else str(inner))
    return found
