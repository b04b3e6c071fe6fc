"""`tb.quantize` and what it is made of: schemes, grids, calibration, the rewriting of a recorded model.

A model is recorded, its batch norms are folded, its values are observed while it runs on data, and its
convolutions and products are written anew on integers. What leaves is a module like any other.

Enters: a module and batches of data. Leaves: a module on integers. May import `framework`, `compiler.graph`,
`compiler.targets.registry`, `ir` and `base`. Read `api.py` first.
"""

from __future__ import annotations

from trilobite.framework.quantization.api import quantize
from trilobite.framework.quantization.grids import Grid
from trilobite.framework.quantization.module import QuantizedModule
from trilobite.framework.quantization.scheme import Scheme

__all__ = ["Grid", "QuantizedModule", "Scheme", "quantize"]
