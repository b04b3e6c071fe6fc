"""`tb.linalg`: the linear algebra extension of the array API standard, and what NumPy and PyTorch users
expect beside it.

The public functions are those of the operator table under `linalg.`; they are written, over values, in the
parts. Products that also stand in the main namespace are the same functions.
"""

from __future__ import annotations

from functools import wraps
from typing import Any

from numpy.linalg import LinAlgError

from trilobite.framework.ops import linalg_factoring, linalg_more, linalg_norms, linalg_solving
from trilobite.framework.ops.registry import operators

PARTS = (linalg_factoring, linalg_solving, linalg_norms, linalg_more)
SHARED = ("matmul", "matrix_transpose", "outer", "tensordot", "vecdot")
_PREFIX = "linalg."

functions: dict[str, Any] = {
    **{name.removeprefix(_PREFIX): row.public for name, row in operators.items() if name.startswith(_PREFIX)},
    **{name: operators[name].public for name in SHARED},
}
results: dict[str, Any] = {
    name: kind
    for part in PARTS
    for name, kind in vars(part).items()
    if isinstance(kind, type) and hasattr(kind, "_fields") and kind.__module__ == part.__name__
}


def _with_info(fn: Any) -> Any:
    """`inv_ex(x)`: the result, and 0 for every matrix: what is singular is an error here, or inf."""

    @wraps(fn)
    def public(*args: Any, check_errors: bool = False, **named: Any) -> Any:
        from trilobite.framework.ops.pairs import Pair

        found = fn(*args, **named)
        first = found[0] if isinstance(found, tuple) else found
        info = operators["zeros"].public(tuple(first.shape[:-2]), dtype="int32")
        return (*found, info) if isinstance(found, tuple) else Pair(found, info)

    return public


functions |= {f"{name}_ex": _with_info(functions[name]) for name in ("inv", "solve", "lu_factor")}
results["LinAlgError"] = LinAlgError
globals().update({**functions, **results})


def __getattr__(name: str) -> Any:
    raise AttributeError(f"trilobite.linalg has no {name!r}; it has {', '.join(sorted(functions))}")


def __dir__() -> list[str]:
    return sorted([*functions, *results])
