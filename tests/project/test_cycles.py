"""Import cycles that an import within a function hides are those that decision 0017 names, with a reason."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import grimp

Edges = Mapping[str, Sequence[str]]


def reached(start: str, edges: Edges) -> set[str]:
    """What a module imports, directly or through others."""
    found: set[str] = set()
    left = [start]
    while left:
        for name in edges[left.pop()]:
            if name not in found:
                found.add(name)
                left.append(name)
    return found


def cycles(edges: Edges) -> list[frozenset[str]]:
    """Groups of modules of which each imports all others, directly or through them."""
    left = {name: set(names) for name, names in edges.items()}
    while True:  # what nobody imports, or what imports nobody, is in no cycle
        imported = set().union(*left.values()) if left else set()
        outside = {name for name, names in left.items() if not names or name not in imported}
        if not outside:
            break
        left = {name: names - outside for name, names in left.items() if name not in outside}
    far = {name: reached(name, {k: sorted(v) for k, v in left.items()}) for name in left}
    return list({frozenset(b for b in far[a] if a in far[b]) for a in far if a in far[a]})


def test_cycles_are_found() -> None:
    edges = {"a": ["b"], "b": ["c", "d"], "c": ["a"], "d": ["e"], "e": [], "f": ["a"], "g": ["h"], "h": ["g"]}
    assert sorted(map(sorted, cycles(edges))) == [["a", "b", "c"], ["g", "h"]]


def covers(row: Sequence[str], module: str) -> bool:
    return any(module == name or module.startswith(f"{name}.") for name in row)


def test_the_decision_names_every_cycle(root: Path) -> None:
    graph = grimp.build_graph("trilobite", exclude_type_checking_imports=True, cache_dir=None)
    edges = {m: sorted(graph.find_modules_directly_imported_by(m)) for m in graph.modules}
    found = [{m.removeprefix("trilobite.") for m in cycle} for cycle in cycles(edges)]
    text = (root / "docs/decisions/0017-a-wall-around-each-target.md").read_text()
    table = text[text.index("| cycle | why it stays |") :].splitlines()[2:]
    rows = [re.findall(r"`([a-z0-9_.]+)`", line.split("|")[1]) for line in table if line.startswith("|")]
    assert all(rows)
    unnamed = [sorted(cycle) for cycle in found if not any(all(covers(r, m) for m in cycle) for r in rows)]
    gone = [row for row in rows if not any(all(covers(row, m) for m in cycle) for cycle in found)]
    stale = [name for row in rows for name in row if not any(covers([name], m) for c in found for m in c)]
    assert (unnamed, gone, stale) == ([], [], [])
