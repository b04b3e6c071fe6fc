"""What a launch tells to whoever watches it: checkers, the debugger.

Enters: nothing. Leaves: a protocol. A launch without an observer does not pay for it; with one, every
instruction is interpreted, unless the observer brings translated code of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from trilobite.processor.isa.row import Operands, Region

if TYPE_CHECKING:
    from trilobite.processor.sim.core import Core, NativeCode
    from trilobite.processor.sim.prepared import Prepared


class Observer(Protocol):
    """Called in the order of execution, always before the next instruction of any core."""

    def began(self, cores: Sequence[Core]) -> None:
        """A task was put on these cores, which are all free: registers and program counters are set."""

    def before(self, core: Core) -> None:
        """The instruction at the program counter is about to be executed."""

    def tensor(
        self,
        core: Core,
        prepared: Prepared,
        operands: Operands,
        reads: Sequence[Region],
        writes: Sequence[Region],
    ) -> None:
        """Its operands are lawful and lie inside their memories; nothing is changed yet."""

    def after(self, core: Core) -> None:
        """It was executed; a barrier has only been reached."""

    def met(self, cores: Sequence[Core]) -> None:
        """All members of a barrier came, and go on behind it."""

    def native(self, core: Core) -> NativeCode | None:
        """Translated scalar code that does its own watching, or None: interpret everything."""
