"""How a model is quantised: formats, calibration, and which layers stay in floating point."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any

from trilobite.base.dtypes import DType, as_dtype, int8, int16, int32, int64
from trilobite.base.errors import ArgumentError
from trilobite.base.locations import user_location
from trilobite.base.records import dataclass

CALIBRATIONS = ("minmax", "percentile", "entropy")
_FORMATS = (int8, int16)


@dataclass(frozen=True)
class Scheme:
    """`dtype`: of weights and activations, int8 or int16. `calibration`: how an activation's range is found:
    "minmax" (all that was seen), "percentile" (of what was seen), "entropy" (the least loss of information).
    `per_channel`: a scale for each output channel of a weight, or one for all. `symmetric`: activations
    without zero points. `keep`: layers that stay in floating point, by name ("fc", "layer4.*") or by class.
    """

    dtype: Any = "int8"
    calibration: str = "minmax"
    percentile: float = 99.99
    per_channel: bool = True
    symmetric: bool = True
    keep: Sequence[str | type] = ()

    def __post_init__(self) -> None:
        try:
            dtype = as_dtype(self.dtype)
        except (TypeError, ValueError):
            dtype = None
        if dtype not in _FORMATS:
            raise _wrong("dtype", self.dtype, "int8 or int16")
        if self.calibration not in CALIBRATIONS:
            raise _wrong("calibration", self.calibration, f"one of {', '.join(CALIBRATIONS)}")
        if not 50 < self.percentile <= 100:
            raise _wrong("percentile", self.percentile, "above 50, at most 100")
        keep = (self.keep,) if isinstance(self.keep, (str, type)) else tuple(self.keep)
        if not all(isinstance(k, (str, type)) for k in keep):
            raise _wrong("keep", self.keep, "names of layers, patterns of names, or classes")
        object.__setattr__(self, "dtype", dtype)
        object.__setattr__(self, "keep", keep)

    @staticmethod
    def of(given: Any) -> Scheme:
        """A scheme, or the name of a format in place of one."""
        if isinstance(given, Scheme):
            return given
        if given is None:
            return Scheme()
        return Scheme(dtype=given)

    @property
    def sums(self) -> DType:
        """What products of codes are added up in."""
        return int32 if self.dtype == int8 else int64

    def keeps(self, name: str, layer: object) -> bool:
        """Does the layer stay in floating point? A name also keeps what lies under it."""
        for k in self.keep:
            if isinstance(k, type) and isinstance(layer, k):
                return True
            if isinstance(k, str) and (fnmatchcase(name, k) or fnmatchcase(name, f"{k}.*")):
                return True
        return False

    def __str__(self) -> str:
        weights = "channel" if self.per_channel else "tensor"
        return f"{self.dtype.name}, {self.calibration}, weights per {weights}" + (
            "" if self.symmetric else ", with zero points"
        )


def _wrong(field: str, value: object, expected: str) -> ArgumentError:
    return ArgumentError(f"a scheme with {field}={value!r}", where=user_location(), expected=expected)
