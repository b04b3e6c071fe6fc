"""Fast paths: an overlay {mnemonic: kernel} on the instruction table.

A kernel takes what the row's meaning takes and gives the same bits; deleting it changes only speed.
"""

from __future__ import annotations

from trilobite.processor.sim.core import Kernel

KERNELS: dict[str, Kernel] = {}
