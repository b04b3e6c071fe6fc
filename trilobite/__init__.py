"""Trilobite: a whole AI computing system in one package. `import trilobite as tb`.

tb.tensor, tb.zeros, tb.arange, ...     tensors, as the Python array API standard has them    (framework/ops)
tb.float32, tb.bfloat16, tb.int4, ...   dtypes: NumPy's own and those of ml_dtypes            (base/dtypes)
tb.grad, tb.vmap, tb.jvp, tb.jit, ...   transforms of functions                               (framework)
tb.cond, tb.scan, tb.while_loop, ...    control flow that transforms see                      (framework)
tb.linalg, tb.fft, tb.random            further functions of tensors
tb.nn, tb.optim, tb.data, tb.metrics    what a training is made of
tb.fit, tb.save, tb.load, ...           a plain training loop; files
"""

from __future__ import annotations

from typing import Any

__version__ = "0.1.0"
__array_api_version__ = "2025.12"

_OFFERED_DUNDERS = frozenset({"__array_namespace_info__", "__all__"})


def __getattr__(name: str) -> Any:
    """The framework comes in with the first name that is asked for: `trilobite.processor` does without it."""
    if name.startswith("__") and name not in _OFFERED_DUNDERS:
        raise AttributeError(f"trilobite has no {name!r}")
    from trilobite.framework import namespace

    found = globals()
    if "tensor" not in found:
        found.update(namespace.names())
        found["__all__"] = sorted(n for n in (*namespace.names(), *namespace.ROOMS) if not n.startswith("_"))
    if name not in found:
        found[name] = namespace.later(name)
    return found[name]


def __dir__() -> list[str]:
    from trilobite.framework import namespace

    return sorted({*globals(), *namespace.names(), *namespace.ROOMS, *namespace.LATER})
