"""`tb.fft`: the Fourier extension of the array API standard. The functions are written, over values, in
`fourier`; here stand those that tensors use, from the operator table.
"""

from __future__ import annotations

from typing import Any

from trilobite.framework.ops import fourier
from trilobite.framework.ops.registry import operators

_PREFIX = f"{fourier.G}."
functions: dict[str, Any] = {
    name.removeprefix(_PREFIX): row.public for name, row in operators.items() if name.startswith(_PREFIX)
}
globals().update(functions)


def __getattr__(name: str) -> Any:
    raise AttributeError(f"trilobite.fft has no {name!r}; it has {', '.join(sorted(functions))}")


def __dir__() -> list[str]:
    return sorted(functions)
