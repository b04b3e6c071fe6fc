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

from trilobite.framework import namespace as _namespace

__version__ = "0.1.0"
__array_api_version__ = _namespace.ARRAY_API_VERSION

globals().update(_namespace.names())


def __getattr__(name: str) -> Any:
    found = _namespace.later(name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_namespace.ROOMS, *_namespace.LATER})
