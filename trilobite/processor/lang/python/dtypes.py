"""Element types of Python kernels, and the annotations of their parameters.

`dlp.f32` names a format and, called, converts a scalar to it. `dlp.gm[dlp.f32]` is a pointer into GDRAM,
`dlp.gm[dlp.f32, 128, 256]` one with a shape that is known when the kernel is compiled.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from trilobite.base.errors import KernelError
from trilobite.processor.isa.formats import BY_NAME, Format
from trilobite.processor.lang.python.context import current, is_inside


@dataclass(frozen=True)
class DType:
    """A number format as kernels name it."""

    fmt: Format

    @property
    def name(self) -> str:
        return self.fmt.name

    @property
    def bytes(self) -> int:
        """Bytes of one element (int4 has half of one)."""
        return max(1, self.fmt.bits // 8)

    def __call__(self, value: Any, rounding: str = "rn") -> Any:
        """The value in this format; floats become integers by cutting unless another rounding is named."""
        return current().convert(value, self.fmt, rounding)

    def __repr__(self) -> str:
        return f"dlp.{self.name}"


NAMED = {name: DType(fmt) for name, fmt in BY_NAME.items()}


def dtype_of(given: Any) -> DType:
    """A dtype from itself, its format or its name."""
    if isinstance(given, DType):
        return given
    if isinstance(given, Format):
        return NAMED[given.name]
    if isinstance(given, str) and given in NAMED:
        return NAMED[given]
    what, expected = f"{given!r} is no element type", "one of " + ", ".join(f"dlp.{name}" for name in NAMED)
    remedy = "use a dtype of trilobite.dlp"
    raise (
        current().error(what, expected, remedy)
        if is_inside()
        else KernelError(what, expected=expected, remedy=remedy)
    )


@dataclass(frozen=True)
class GlobalPointer:
    """The annotation of a parameter that points into GDRAM."""

    dtype: DType
    shape: tuple[int, ...] | None = None


class _GlobalMemory:
    """`gm[dtype]` or `gm[dtype, extents...]`."""

    def __getitem__(self, item: Any) -> Any:
        parts = item if isinstance(item, tuple) else (item,)
        extents = parts[1] if len(parts) == 2 and isinstance(parts[1], tuple) else parts[1:]
        return GlobalPointer(dtype_of(parts[0]), tuple(int(e) for e in extents) or None)


gm = _GlobalMemory()
