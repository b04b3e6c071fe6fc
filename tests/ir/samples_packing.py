"""Operands and attributes for the table test: matrices in panels."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from trilobite.ir.primitive import table

Array = np.ndarray[Any, Any]
Rows = Iterable[tuple[list[Array], dict[str, Any]]]
Rng = np.random.Generator


def _gemm_pack(rng: Rng) -> Rows:
    for k, n in ((3, 7), (5, 4), (2, 1)):
        for contract in (0, 1):
            shape = (k, n) if contract == 0 else (n, k)
            yield [rng.standard_normal(shape)], {"contract": contract, "width": 4}


def _dot_packed(rng: Rng) -> Rows:
    for lead, k, n in (((3,), 5, 7), ((), 4, 4), ((2, 3), 2, 9)):
        panels = table["gemm_pack"].evaluate(rng.standard_normal((k, n)), contract=0, width=4)
        x = rng.standard_normal((*lead, k))
        yield [x, panels], {"columns": n, "dtype": np.dtype(np.float64)}


samples = {"gemm_pack": _gemm_pack, "dot_packed": _dot_packed}
