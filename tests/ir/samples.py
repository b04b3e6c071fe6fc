"""Sample operands and attributes for every primitive: what `test_primitive_table` walks.

A row is a generator `rng -> (operands, attributes), ...`. Float operands are double and lie where the
primitive is smooth.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import samples_data
import samples_elementwise

Array = np.ndarray[Any, Any]
Row = Callable[[np.random.Generator], Iterable[tuple[list[Array], dict[str, Any]]]]

samples: dict[str, Row] = {**samples_elementwise.samples, **samples_data.samples}
