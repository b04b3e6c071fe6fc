"""The mapping of a problem: searched once for each problem, machine and number of cores, then remembered."""

from __future__ import annotations

from trilobite.compiler.targets.dlp.contraction.function import cycles_of
from trilobite.compiler.targets.dlp.contraction.mapping import Mapping
from trilobite.compiler.targets.dlp.contraction.nest import Nest
from trilobite.compiler.targets.dlp.contraction.places import Plan
from trilobite.compiler.targets.dlp.contraction.search import FINALISTS, Found, nothing_fits, search
from trilobite.compiler.targets.dlp.interfaces import Epilogue
from trilobite.processor.machine import Machine

FEW = 3  # that T1 times where a launch has many cores: one costs a quarter of a second

_KNOWN: dict[tuple[object, ...], Found] = {}


def choose(nest: Nest, machine: Machine, cores: int, epilogue: Epilogue | None) -> Found:
    """The best mapping of the space, with its predicted cycles."""

    def timer(mapping: Mapping) -> int:
        return cycles_of(Plan(nest, mapping, machine, epilogue), cores)

    key = (nest.key, machine, cores, _epilogue_key(epilogue))
    if key not in _KNOWN:
        found = search(nest, machine, cores, epilogue, timer, FINALISTS if cores == 1 else FEW)
        if not found.best:
            raise nothing_fits(machine, found.smallest)
        _KNOWN[key] = found.best[0]
    return _KNOWN[key]


def _epilogue_key(epilogue: Epilogue | None) -> object:
    """What the cost of an epilogue depends on."""
    if epilogue is None:
        return None
    return epilogue.operands, epilogue.results, tuple(sorted((k, str(v)) for k, v in epilogue.drain.items()))
