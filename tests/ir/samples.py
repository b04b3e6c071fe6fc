"""Sample operands and attributes for every primitive: what `test_primitive_table` walks.

A row is a generator `rng -> (operands, attributes), ...`. Float operands are double and lie where the
primitive is smooth. The modules `samples_*` beside this one hold the rows, and where sums need more room,
`BOUNDS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Row = Callable[[np.random.Generator], Iterable[tuple[list[Array], dict[str, Any]]]]

samples: dict[str, Row] = {}
BOUNDS: dict[str, tuple[float, str]] = {}
for path in sorted(Path(__file__).parent.glob("samples_*.py")):
    module = import_module(path.stem)
    samples |= module.samples
    BOUNDS |= getattr(module, "BOUNDS", {})
