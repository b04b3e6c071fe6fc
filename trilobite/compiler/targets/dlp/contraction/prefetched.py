"""What routines prefetch for those behind them: weights, and a number for each output, while they compute.

Enters: a plan, and what it finds on chip when it begins. Leaves: the buffers that this takes, of the routine
that finds it and of those that prefetch it. What a cluster shares takes two routines: one fills SRAM, a later
one gives it to the cores. Routines in between keep what is there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from trilobite.compiler.targets.dlp.contraction.places import Plan

WHOLE = 8  # parts in which several routines load it
Does = Literal["load", "fill", "keep", "give", "hold"]


@dataclass(frozen=True)
class Prefetched:
    """What is there when a routine begins, in buffers of this name: its right operand (all of it, or the
    first tile), and operands of its epilogue. `is_given`: a shared operand is with the cores, not in SRAM."""

    name: str
    extras: tuple[int, ...] = ()
    is_given: bool = False

    def rooms(self, plan: Plan) -> list[str]:
        """Those that the routine itself uses."""
        right = ["right"] if self.is_given or "right" not in plan.shared else ["right", "parts_right"]
        return [*right, *(f"extra{n}" for n in self.extras)]


@dataclass(frozen=True)
class Early:
    """What one routine does for another with this plan: `load` what it finds when it begins, or, where that
    is given out before, `fill` SRAM and later `give`; `keep` what is there, and `hold` what was given."""

    prefetched: Prefetched
    plan: Plan
    does: Does = "load"
    share: tuple[int, int] = (0, WHOLE)  # of what is to be loaded: from where to where

    @property
    def is_last(self) -> bool:
        """Does it load the end?"""
        return self.share[1] == WHOLE

    @property
    def rooms(self) -> list[str]:
        """Of the buffers that it touches or keeps."""
        extras = [f"extra{n}" for n in self.prefetched.extras]
        if self.does in ("give", "hold"):
            return ["right", *(["parts_right"] if self.does == "give" else []), *extras]
        return [
            "parts_right" if "right" in self.plan.shared else "right",
            *(extras if self.has_extras else ()),
        ]

    @property
    def has_extras(self) -> bool:
        """Are operands of the epilogue there behind it? They come with the last of the right one."""
        return self.does in ("give", "hold") or (self.is_last and not self.prefetched.is_given)

    @property
    def operands(self) -> list[int]:
        """Numbers of the values that it reads: 1 is the right operand, the epilogue's begin with 2."""
        right = [1] if self.does in ("load", "fill") else []
        prefetches = self.does in ("load", "give") and self.has_extras
        return [*right, *(2 + n for n in self.prefetched.extras if prefetches)]
