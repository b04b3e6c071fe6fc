"""What kernels over gathered rows begin with.

Enters: dtypes, rank, an epilogue, the names of words. Leaves: a `Text` with the words read, the code that
finds rows (`gather`) and the code that stores results (`finish`). What is computed from rows is the room's.
"""

from __future__ import annotations

from trilobite.compiler.targets.cpu.contraction.finish import Finish
from trilobite.compiler.targets.cpu.contraction.gather import Gather
from trilobite.compiler.targets.cpu.contraction.tiling import Tiling
from trilobite.compiler.targets.cpu.contraction.words import read_words
from trilobite.compiler.targets.cpu.emit.text import Text

from trilobite.compiler.targets.cpu.epilogue import Epilogue  # isort: skip
from trilobite.native.host import Host


class Gathering:
    """The beginning of one kernel. Scratch holds the table of places at the word `places_at`."""

    def __init__(
        self, host: Host, tiling: Tiling, rank: int, epilogue: Epilogue, names: tuple[str, ...]
    ) -> None:
        self.t, self.tiling, self.rank, self.epilogue = Text(host), tiling, rank, epilogue
        self.w = read_words(self.t, names)
        self.gather = Gather(self.t, self.w, rank, tiling.operand)
        self.finish = Finish(self.t, tiling, epilogue, self.w)
        self.places = self.t.address(self.t.scratch, self.w["places_at"])
