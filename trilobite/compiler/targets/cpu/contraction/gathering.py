"""What kernels over gathered rows begin with.

Enters: a `Text` with the kernel's words, dtypes, an epilogue. Leaves: the code that finds rows (`gather`) and
the code that stores results (`finish`). What is computed from rows is the algorithm's.
"""

from __future__ import annotations

from typing import Any

from trilobite.compiler.targets.cpu.contraction.finish import Finish
from trilobite.compiler.targets.cpu.contraction.gather import Gather
from trilobite.compiler.targets.cpu.contraction.tiling import Tiling
from trilobite.compiler.targets.cpu.epilogue import Epilogue
from trilobite.native.llvm.text import Text


class Gathering:
    """The beginning of one kernel. Scratch holds the table of places at the word `places_at`."""

    w: Any  # the record of words, of which every algorithm has its own

    def __init__(self, t: Text, tiling: Tiling, epilogue: Epilogue, w: Any) -> None:
        self.t, self.tiling, self.epilogue, self.w = t, tiling, epilogue, w
        self.gather = Gather(t, w, tiling.operand)
        self.finish = Finish(t, tiling, epilogue, w.epilogue, w.width)
        self.places = t.address(t.scratch, w.places_at)

    def emit(self) -> None:
        raise NotImplementedError
