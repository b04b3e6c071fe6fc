"""Which mappings there are: what is legal, and the candidates that the search looks at."""

from __future__ import annotations

from trilobite.compiler.targets.dlp.contraction.mapping import Mapping
from trilobite.compiler.targets.dlp.contraction.nest import Nest


def is_legal(nest: Nest, m: Mapping) -> bool:
    """Several groups at once only whole; whole images where a window may lie in the frame."""
    whole = m.tile("n") >= nest.extents["n"] and m.tile("k") >= nest.extents["k"]
    if m.tile("g") > 1 and not whole:
        return False
    return not nest.whole_images or (m.tile("p") >= nest.extents["p"] and m.tile("q") >= nest.extents["q"])
