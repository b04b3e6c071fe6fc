"""Calls whose results `backward()` outside may follow, and most often does not: inference with gradients on.

Enters: a recording and the values of a call, some of them on the ambient tape. Leaves: its outputs on that
tape. The forward pass is the one of a call without gradients, with packed weights and nothing kept; only a
backward pass that does arrive makes it again, with what it needs. From then on calls of this recording keep
what a backward pass needs at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from trilobite.compiler.targets.contract import Target
from trilobite.compiler.targets.registry import executable
from trilobite.framework.recordings import Entry
from trilobite.ir.primitive import Value
from trilobite.ir.primitives import table
from trilobite.ir.transforms import bind as entry
from trilobite.ir.transforms.tape import Pullback
from trilobite.native.ownership import HELD_BY_TAPE


def can_wait(e: Entry, values: Sequence[Value]) -> bool:
    """May the backward half wait until somebody wants it? Not while modules train, nor where the forward
    pass can be noticed when it runs again.
    """
    ctx = entry.threads.context
    if e.differentiated or ctx.recorder is not None or ctx.watch is not None:
        return False
    if e.recording.graph.has_effects or any(training for _, training in e.switches):
        return False
    return all(type(ctx.ambient.strip(v)) is np.ndarray for v in values)


def forward(e: Entry, values: Sequence[Value], target: Target) -> list[Value]:
    """The outputs, each on the tape that is tracked there."""
    tape = entry.threads.context.ambient
    wanted = [tape.tracks(v) for v in values]
    attributes = {**e.attributes, "target": target.name}
    usage = e.usage._replace(donated=(), replaced=())  # the tape keeps what the call reads
    plain = all(type(c.held) is np.ndarray for c in e.recording.cells)
    run = executable(e.recording.graph, target, usage).run

    def whole(operands: Sequence[Value]) -> tuple[Sequence[Value], Pullback]:
        linearize = table["call"].linearize
        assert linearize is not None
        found: tuple[Sequence[Value], Pullback] = linearize(operands, wanted, attributes)
        return found

    def linearize(operands: Sequence[Value]) -> tuple[Sequence[Value], Pullback]:
        if not all(type(v) is np.ndarray for v in operands):  # to be differentiated twice
            return whole(operands)

        def pullback(cotangents: Sequence[Value]) -> Sequence[Any]:
            e.differentiated = True
            return whole(operands)[1](cotangents)

        return run(list(operands), [], HELD_BY_TAPE if plain else 0), pullback

    outs = tape.opaque("call", linearize, values)
    return [o if keep else tape.strip(o) for o, keep in zip(outs, e.recording.tracked, strict=True)]
