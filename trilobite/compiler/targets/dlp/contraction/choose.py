"""The mapping of a problem: searched once for each problem, machine and number of cores, then remembered."""

from __future__ import annotations

from trilobite.compiler.targets.dlp.contraction.nest import Nest
from trilobite.compiler.targets.dlp.contraction.search import Found, nothing_fits, search
from trilobite.compiler.targets.dlp.interfaces import Epilogue
from trilobite.processor.machine import Machine

_KNOWN: dict[tuple[object, ...], Found] = {}


def choose(nest: Nest, machine: Machine, cores: int, epilogue: Epilogue | None) -> Found:
    """The best mapping of the space, with its predicted cycles."""
    key = (nest.key, machine, cores, _epilogue_key(epilogue))
    if key not in _KNOWN:
        found = search(nest, machine, cores, epilogue)
        if not found.best:
            raise nothing_fits(machine, found.smallest)
        _KNOWN[key] = found.best[0]
    return _KNOWN[key]


def _epilogue_key(epilogue: Epilogue | None) -> object:
    """What the cost of an epilogue depends on."""
    if epilogue is None:
        return None
    return epilogue.operands, epilogue.results, tuple(sorted((k, str(v)) for k, v in epilogue.drain.items()))
