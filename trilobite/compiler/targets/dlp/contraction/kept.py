"""Mappings on disk: what a search has found for a problem, a machine and cores, found again in any process.

Enters: all that decides a search. Leaves: what it found, if it was kept by the same compiler: the files of
everything that writes and times kernels are part of the key. Whatever is read is looked at like a candidate:
what does not fit is searched anew.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, fields
from typing import Any

from trilobite.compiler.targets.dlp.contraction.mapping import Mapping
from trilobite.compiler.targets.dlp.contraction.search import Found
from trilobite.native import sources
from trilobite.native.disk import shared

_ROOMS = ("compiler/targets/dlp", "processor/lang", "processor/isa", "processor/sim", "processor/machine")


def name_of(*decides: object) -> str | None:
    """The name of an entry; None where nothing can be kept."""
    compiler = sources.digest(_ROOMS)  # so that no change of the compiler goes unnoticed
    if compiler is None or shared("mappings").place is None:
        return None
    return hashlib.sha256(f"{compiler} {decides!r}".encode()).hexdigest()


def get(name: str | None) -> Found | None:
    kept = shared("mappings").get(name) if name is not None else None
    if kept is None:
        return None
    try:
        return _read(json.loads(kept))
    except (ValueError, TypeError, KeyError):  # whole, but not what this compiler writes
        return None


def put(name: str | None, found: Found) -> None:
    if name is not None:
        cache = shared("mappings")
        cache.put(name, json.dumps(asdict(found)).encode())
        cache.trim()


def _read(values: dict[str, Any]) -> Found:
    given = values.pop("mapping")
    chosen = {f.name: given[f.name] for f in fields(Mapping)}
    listed: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in chosen.items()}
    return Found(Mapping(**listed), **values)
