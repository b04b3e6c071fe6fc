"""The mapping of a problem: searched once for each problem, machine and number of cores, then remembered, in
the process and on disk."""

from __future__ import annotations

from collections.abc import Callable

from trilobite.compiler.targets.dlp.contraction import kept
from trilobite.compiler.targets.dlp.contraction.behind import Beside
from trilobite.compiler.targets.dlp.contraction.function import cycles_of
from trilobite.compiler.targets.dlp.contraction.mapping import Mapping
from trilobite.compiler.targets.dlp.contraction.nest import Nest
from trilobite.compiler.targets.dlp.contraction.places import Plan
from trilobite.compiler.targets.dlp.contraction.predict import owed
from trilobite.compiler.targets.dlp.contraction.search import (
    FINALISTS,
    MEASURED,
    NOTHING,
    Found,
    nothing_fits,
    search,
    shape_of,
)
from trilobite.compiler.targets.dlp.contraction.space import is_legal
from trilobite.compiler.targets.dlp.interfaces import Epilogue
from trilobite.processor.machine import Machine

FEW = 3  # that T1 times where a launch has many cores: one costs a quarter of a second

_KNOWN: dict[tuple[object, ...], Found] = {}


def choose(
    nest: Nest, machine: Machine, cores: int, epilogue: Epilogue | None, beside: Beside = NOTHING
) -> Found:
    """The best mapping of the space, with its predicted cycles. `beside`: what other groups do for it, and
    want of it."""

    def timer(mapping: Mapping) -> int:
        is_early = beside.dram > 0
        alone = cycles_of(Plan(nest, mapping, machine, epilogue), cores, is_early)
        return alone + (owed(nest, machine, shape_of(nest, epilogue), mapping, beside) if is_early else 0)

    key = (nest.key, machine, cores, _epilogue_key(epilogue), beside)
    if key not in _KNOWN:
        name = kept.name_of(*key)
        found = kept.get(name)
        if found is None or not _is_usable(nest, found.mapping, machine, epilogue):
            found = _searched(nest, machine, cores, epilogue, timer, beside)
            kept.put(name, found)
        _KNOWN[key] = found
    return _KNOWN[key]


def _is_usable(nest: Nest, mapping: Mapping, machine: Machine, epilogue: Epilogue | None) -> bool:
    return is_legal(nest, mapping, machine) and Plan(nest, mapping, machine, epilogue).overflow() is None


def _searched(
    nest: Nest, machine: Machine, cores: int, epilogue: Epilogue | None, timer: Callable[[Mapping], int],
    beside: Beside,
) -> Found:  # fmt: skip
    found = search(nest, machine, cores, epilogue, timer, FINALISTS if cores == 1 else FEW, beside)
    if not found.best:
        raise nothing_fits(machine, found.smallest)
    return found.best[0]


def _epilogue_key(epilogue: Epilogue | None) -> object:
    """What the cost of an epilogue depends on."""
    if epilogue is None:
        return None
    drain = tuple(sorted((k, str(v)) for k, v in epilogue.drain.items()))
    bodies = [
        (b.lane_bytes, b.instructions, b.scratch_bytes(MEASURED)) for b in (epilogue.body, epilogue.rest) if b
    ]
    return epilogue.operands, epilogue.results, drain, str(epilogue.drained), epilogue.rest_operands, *bodies
