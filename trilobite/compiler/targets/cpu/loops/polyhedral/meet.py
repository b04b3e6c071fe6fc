"""Do two accesses meet in iterations that are a given way apart? Exact for affine nests.

Enters: a nest, a dependence that the test by distances found possible, and the sign of the distance in each
common loop. Leaves: that dependence with the distances of a pair of iterations that really meet, or None.
It says nothing about orders: who asks knows which signs forbid what it wants to do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from trilobite.compiler.targets.cpu.loops.dependence import Access, Dependence, Sign
from trilobite.compiler.targets.cpu.loops.ir import Nest
from trilobite.compiler.targets.cpu.loops.polyhedral.model import Names, affine, islpy, placed


def meeting(nest: Nest, d: Dependence, signs: Mapping[str, Sign]) -> Dependence | None:
    """The dependence at a distance at which it occurs, with such signs; None where no two iterations meet
    so.
    """
    isl, found = islpy(), placed(nest)
    first, second = found[d.first.order], found[d.second.order]
    v, w = first.names("v"), second.names("w")
    holds = [*first.iterations(v), *second.iterations(w), *_same_place(d.first, v, d.second, w)]
    holds += [*_reached(d.first, v), *_reached(d.second, w)]
    holds += [f"{w[var]} - {v[var]} {sign}" for var, sign in signs.items()]
    common = [var for var, _ in d.distance]
    far = ", ".join(f"{w[var]} - {v[var]}" for var in common)
    text = f"{{ [{', '.join((*v.values(), *w.values()))}] -> [{far}] : {' and '.join(holds) or '0 = 0'} }}"
    box = isl.Map.read_from_str(isl.Context(), text).range()
    if box.is_empty():
        return None
    point = box.sample_point()
    at = [point.get_coordinate_val(isl.dim_type.set, k).to_python() for k in range(len(common))]
    return replace(d, distance=tuple(zip(common, at, strict=True)))


def _same_place(a: Access, v: Names, b: Access, w: Names) -> list[str]:
    pairs = [(affine(x, v), affine(y, w)) for x, y in zip(a.index, b.index, strict=True)]
    return [f"{x} = {y}" for x, y in pairs if x is not None and y is not None]


def _reached(a: Access, names: Names) -> list[str]:
    """A guarded read touches memory only where no guard is negative."""
    texts = (affine(g, names) for g in a.guards)
    return [f"{t} >= 0" for t in texts if t is not None]
