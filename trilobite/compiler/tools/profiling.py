"""Where the time of a compiled function goes, as far as its target tells.

Enters: what `tb.jit` gave, and arguments to call it with. Leaves: a profile of the target's own kind: `str`
shows it, `write(directory)` keeps it.
"""

from __future__ import annotations

from typing import Any

from trilobite.base.errors import ArgumentError


def profile(jitted: Any, *args: Any, repeats: int = 20, again: bool = False, **kwargs: Any) -> Any:
    """Run a compiled function and see where its time goes. With `again`, what is known of the machine is
    measured anew.
    """
    if repeats < 1:
        raise ArgumentError(f"a profile of {repeats} repeats", expected="at least 1")
    jitted(*args, **kwargs)
    made = jitted.lower(*args, **kwargs).compile()
    return made.profile(lambda: jitted(*args, **kwargs), repeats, again)
