"""What is left of a module when calls are resolved: entries, and the routines that they reach.

Enters: a module. Leaves: a module of its own in which only routines are called.
"""

from __future__ import annotations

from trilobite.processor.lang.calls import callers_first
from trilobite.processor.lang.ir import KernelModule
from trilobite.processor.lang.passes.clone import clone_module
from trilobite.processor.lang.passes.frames import give_frames
from trilobite.processor.lang.passes.inline import inline


def linked(module: KernelModule) -> KernelModule:
    """Functions that are no routines stand in the place of their calls; callers come first."""
    work = clone_module(module)
    routines = work.routines
    for function in work.entries:
        give_frames(work, function)
        inline(work, function, kept=routines)
    for function in routines.values():
        inline(work, function, kept=routines)
    work.functions = {function.name: function for function in callers_first(work)}
    return work
