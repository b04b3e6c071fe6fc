"""Products and convolutions on the matrix unit: mappings, their cost, their search, and kernels from them.

Enters: a group whose root is a sum of products, and a machine. Leaves: a function of kernel IR. `mapping.py`
first (what a mapping says), then `space.py` and `search.py` (which ones there are, which is taken),
`predict.py` (what one costs), `generate.py` (code from one). May import `vector`, `writer` and `interfaces`
of this target, `processor` and `native`. Read `mapping.py` first.
"""

from trilobite.compiler.targets.dlp.contraction.lower import (
    accepts,
    expected_cycles,
    lower_contraction,
    planned,
    preferred,
)

__all__ = ["accepts", "expected_cycles", "lower_contraction", "planned", "preferred"]
