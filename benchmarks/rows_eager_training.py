"""Training steps without compilation.

The same steps as above, define-by-run on both sides.
"""

from __future__ import annotations

from functools import partial

from benchmarks.row import Row, both_thread_counts
from benchmarks.rows_training import on_torch, on_trilobite

ROWS = both_thread_counts(
    [
        Row(
            f"eager {shown}",
            {
                "trilobite": partial(on_trilobite, shown, eager=True),
                "torch": partial(on_torch, shown, "eager"),
            },
            unit="ms",
            aim_ratio=1 / 0.7,
        )
        for shown in ("LeNet b64", "character transformer b16")
    ]
)
