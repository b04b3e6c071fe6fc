"""Targets by name: `"cpu"`, `"dlp:dlp-m"`, `"dlp:file.yaml"`, or an object such as a machine's description.

Enters: what the user passed as `target`. Leaves: a `Target`, and of a graph on it one `Executable`, made once
and kept with the graph. A family of targets is imported when one of its names is asked for; those of other
packages are entry points of the group `trilobite.targets`.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from trilobite.base.errors import DeviceError
from trilobite.base.locations import user_location
from trilobite.compiler.targets.contract import NO_USAGE, Executable, Target, Usage
from trilobite.ir import evaluate
from trilobite.ir.graph import Graph
from trilobite.ir.transforms import bind as entry

GROUP = "trilobite.targets"
HOST = "cpu"  # what runs operations outside compiled functions
Factory = Callable[[Any], Target]  # takes what stands behind the colon, "" if nothing; or an object

# family -> module and factory
_BUILT_IN = {
    "cpu": "trilobite.compiler.targets.cpu.target:cpu",
    "reference": "trilobite.compiler.targets.reference:reference",
    "dlp": "trilobite.compiler.targets.dlp.target:dlp",
}
_families: dict[str, Factory] = {}
_known: dict[str, Target] = {}


def register(family: str, factory: Factory) -> None:
    """From now on names that begin so are this factory's: `family` and `family:argument`."""
    _families[family] = factory
    for name in [n for n in _known if n.partition(":")[0] == family]:
        del _known[name]


def find(target: object) -> Target:
    """The target that a user means: by name, as an object that belongs to a family (its class says which
    by `__trilobite_target__`), or itself.
    """
    if isinstance(target, Target):
        return _known.setdefault(target.name, target)
    if isinstance(target, str):
        if target in _known and ":" not in target:
            return _known[target]
        family, _, argument = target.partition(":")
        found = _family(family, target)(argument)
    else:
        family = getattr(type(target), "__trilobite_target__", "")
        found = _family(family, target)(target)
    return _known.setdefault(found.name, found)


def _family(family: str, target: object) -> Factory:
    if family not in _families:
        place = _places().get(family) if family not in _BUILT_IN else _BUILT_IN[family]
        if place is None or not _is_there(place):
            raise DeviceError(
                f"there is no target {target!r}",
                where=user_location(),
                expected=f"one of {', '.join(families())}",
                remedy="take cpu, or dlp:MACHINE with one of `trilobite machines`",
            )
        module, _, name = place.partition(":")
        _families[family] = getattr(import_module(module), name)
    return _families[family]


def families() -> tuple[str, ...]:
    """All names that a target's may begin with."""
    there = {name for name, place in (_BUILT_IN | _places()).items() if _is_there(place)}
    return tuple(sorted(there | set(_families)))


def _places() -> dict[str, str]:
    """Of other packages. Looking takes longer than loading a small target, so built-in names come first."""
    from importlib.metadata import entry_points

    return {e.name: e.value for e in entry_points(group=GROUP)}


def _is_there(place: str) -> bool:
    try:
        return find_spec(place.partition(":")[0]) is not None
    except ModuleNotFoundError:
        return False


# -- graphs on targets ---------------------------------------------------------------------------------------


def target_now(target: Target) -> Target:
    """Who runs a graph: while somebody watches all results, the interpreter, which shows them."""
    return target if entry.threads.context.watch is None else find("reference")


def existing(graph: Graph, target: Target, usage: Usage) -> Executable | None:
    """The compiled form if there is one."""
    found: Executable | None = graph.__dict__.get("_executables", {}).get((target.name, usage))
    return found


def executable(graph: Graph, target: Target | str, usage: Usage = NO_USAGE) -> Executable:
    """The compiled form of a graph on a target; compiled once."""
    target = find(target)
    cache: dict[Any, Executable] = graph.__dict__.setdefault("_executables", {})
    key = target.name, usage
    if key not in cache:
        cache[key] = target.load(target.lower(graph, usage))
        cache[key].target = target.name
    return cache[key]


def _elsewhere(graph: Graph, target: str) -> Executable:
    """What the interpreter asks for where a graph calls another that has a target of its own."""
    return executable(graph, target_now(_known.get(target) or find(target)))


evaluate.elsewhere = _elsewhere
