"""What the array API standard's inspection asks: devices, dtypes, defaults, capabilities."""

from __future__ import annotations

from typing import Any

from trilobite.base import dtypes as dt
from trilobite.base.dtypes import DType
from trilobite.base.errors import ArgumentError
from trilobite.base.locations import user_location
from trilobite.framework.ops.conversion import check_device
from trilobite.framework.ops.dtypes import KINDS

DEVICE = "cpu"
MAX_DIMENSIONS = 64  # NumPy's limit
STANDARD: dict[str, dt.dtype] = {
    d.name: dt.shown(d)
    for d in (
        dt.bool_, dt.int8, dt.int16, dt.int32, dt.int64, dt.uint8, dt.uint16, dt.uint32, dt.uint64,
        dt.float32, dt.float64, dt.complex64, dt.complex128,
    )
}  # fmt: skip
"""The dtypes that the standard names; tensors may have others as well."""


class NamespaceInfo:
    """The answers. An object of this class is what `tb.__array_namespace_info__()` returns."""

    def capabilities(self) -> dict[str, Any]:
        """What the namespace can do that not every one can."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": MAX_DIMENSIONS}

    def default_device(self) -> str:
        return DEVICE

    def devices(self) -> tuple[str, ...]:
        return (DEVICE,)

    def default_dtypes(self, *, device: Any = None) -> dict[str, dt.dtype]:
        """The dtype that Python numbers and new tensors get, per kind."""
        check_device(device)
        found = {
            "real floating": dt.default_float, "complex floating": dt.default_complex,
            "integral": dt.default_int, "indexing": dt.int64,
        }  # fmt: skip
        return {kind: dt.shown(d) for kind, d in found.items()}

    def dtypes(self, *, device: Any = None, kind: str | tuple[str, ...] | None = None) -> dict[str, dt.dtype]:
        """The standard's dtypes by name: all, or those of a kind."""
        check_device(device)
        if kind is None:
            return dict(STANDARD)
        chosen: frozenset[DType] = frozenset()
        for k in kind if isinstance(kind, tuple) else (kind,):
            if k not in KINDS:
                raise ArgumentError(
                    f"dtypes of the kind {k!r}", where=user_location(), expected=f"one of {', '.join(KINDS)}"
                )
            chosen |= KINDS[k]
        return {name: d for name, d in STANDARD.items() if d in chosen}
