"""Other orders of iterations: by rows that somebody gives, or found in the manner of Pluto.

Enters: a nest of plain loops with affine bounds. Leaves: the nest whose loops run its iterations in
another order, or the dependence that forbids it. `transformed` takes rows, affine in the loops that they
replace. `tiled` lets isl's scheduler look for rows by which every dependence runs forward in each loop of a
band (so that all of its loops may be cut into blocks), skews and fuses where that is needed, and cuts them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from trilobite.base.errors import IRError
from trilobite.compiler.targets.cpu.loops.dependence import Dependence
from trilobite.compiler.targets.cpu.loops.index import Index
from trilobite.compiler.targets.cpu.loops.ir import Loop, Nest
from trilobite.compiler.targets.cpu.loops.polyhedral.generate import Reader
from trilobite.compiler.targets.cpu.loops.polyhedral.model import affine, islpy, parts
from trilobite.compiler.targets.cpu.loops.polyhedral.relations import Relations, written_time
from trilobite.compiler.targets.cpu.loops.polyhedral.search import NotFound, order_of
from trilobite.compiler.targets.cpu.loops.polyhedral.shadows import shadow

WRITING = 4_000_000  # steps of isl before what comes before and after the search is given up


def transformed(nest: Nest, chain: Sequence[Loop], rows: Mapping[str, Index]) -> Nest | Dependence:
    """Loops directly inside each other replaced by others, whose iterations are the rows."""
    found = Relations(nest)
    depth = next(p.loops.index(chain[0]) for p in found.placed if chain[0] in p.loops)
    times, names = [], []
    for p in found.placed:
        time, called = written_time(p), [each.var for each in p.loops]
        if chain[0] in p.loops:
            texts = [affine(row, p.names()) for row in rows.values()]
            for k, (text, name) in enumerate(zip(texts, rows, strict=True)):
                assert text is not None
                time[2 * (depth + k) + 1], called[depth + k] = text, name
        times.append(time)
        names.append([word for each in called for word in ("", each)] + [""])
    order = found.order(times)
    broken = found.broken(order)
    if broken is not None:
        return broken
    return _written(found, _build(found).node_from_schedule_map(order), names)


def _written(found: Relations, tree: Any, names: Sequence[Sequence[str]]) -> Nest:
    """The loops of a syntax tree, after a look at whether they do what was asked: isl errs now and then."""
    reader = Reader(found.placed, names)
    body = reader.nodes(tree, {})
    order = found.generated(body, reader.calls)
    if not found.runs_all(order) or found.broken(order) is not None:
        raise IRError(
            "the loops that isl wrote for an order leave out iterations, repeat them or break a dependence",
            where=f"nest {found.nest.name}",
            expected="every iteration once, in an order that every dependence allows",
            remedy="this is a fault of islpy; use rows or sizes that differ, or split, skew and reorder",
        )
    return replace(found.nest, body=body)


def _build(found: Relations) -> Any:
    found.context.set_ast_build_allow_else(0)
    found.context.set_ast_build_allow_or(0)
    return found.isl.AstBuild.from_context(found.isl.Set.read_from_str(found.context, "{ : }"))


def tiled(nest: Nest, sizes: Sequence[int]) -> Nest:
    """The whole nest in an order that isl finds, bands of two loops and more in blocks of these sizes."""
    found = Relations(nest)
    context = found.context
    context.set_tile_scale_tile_loops(0)
    context.set_tile_shift_point_loops(1)
    context.set_max_operations(WRITING)
    try:
        return _tiled(found, sizes)
    except (NotFound, found.isl.Error) as error:
        raise IRError(
            "no affine order was found that carries every dependence",
            where=f"nest {nest.name}",
            expected=f"loops that isl's scheduler can order: {error}",
            remedy="tile, skew and reorder by hand, or cut the nest into several",
        ) from None


def _tiled(found: Relations, sizes: Sequence[int]) -> Nest:
    pairs = found.dependences
    text = order_of(str(found.domain), str(shadow(pairs)), str(pairs))
    order = found.isl.Schedule.read_from_str(found.context, text)
    bands = _Bands(found, sizes)
    bands.collect(order.get_root(), [_number(each) for each in parts(found.domain.get_set_list())])
    order = order.get_root().map_descendant_bottom_up(bands.tile).get_schedule()
    return _written(found, _build(found).node_from_schedule(order), bands.names)


class _Bands:
    """Names the loops of bands as `skew` and `split` would, and cuts them into blocks."""

    def __init__(self, found: Relations, sizes: Sequence[int]) -> None:
        self.found, self.sizes, self.isl = found, sizes, islpy()
        self.names: list[list[str]] = [[] for _ in found.placed]

    def _is_band(self, node: Any) -> bool:
        return bool(node.get_type() == self.isl.schedule_node_type.band)

    def _is_cut(self, band: Any) -> bool:
        return bool(band.band_get_permutable()) and band.band_n_member() > 1

    def tile(self, node: Any) -> Any:
        if not self._is_band(node):
            return node
        if not self._is_cut(node):
            return self._apart(node)
        sizes = self.isl.MultiVal.zero(node.band_get_space())
        for k in range(node.band_n_member()):
            size = self.sizes[min(k, len(self.sizes) - 1)]
            sizes = sizes.set_val(k, self.isl.Val.int_from_si(self.found.context, size))
        return self._apart(node.band_tile(sizes).child(0)).parent()

    def _apart(self, node: Any) -> Any:
        """Where statements share a loop but not all of its iterations, several loops instead of
        conditions.
        """
        last = node.band_n_member() - 1
        return node.band_member_set_ast_loop_type(last, self.isl.ast_loop_type.separate)

    def collect(self, node: Any, numbers: Sequence[int]) -> None:
        """The names of the loops around each statement that runs at all, from the outside."""
        if node.get_type() == self.isl.schedule_node_type.filter:
            inside = {_number(s) for s in parts(node.filter_get_filter().get_set_list())}
            numbers = [n for n in numbers if n in inside]
        elif self._is_band(node):
            for n in numbers:
                named = self._row_names(node.band_get_partial_schedule(), n)
                ends = ("_o", "_i") if self._is_cut(node) else ("",)
                self.names[n] += [name + end for end in ends for name in named]
        for k in range(node.n_children()):
            self.collect(node.child(k), numbers)

    def _row_names(self, rows: Any, number: int) -> list[str]:
        """`x` for a row that is the loop x alone, `x_t` for one that is skewed by t."""
        out = []
        loops = self.found.placed[number].loops
        for k in range(rows.dim(self.isl.dim_type.out)):
            each = parts(rows.get_union_pw_aff(k).get_pw_aff_list())
            row = next(r for r in each if _number(r.domain()) == number)
            used = [v.var for j, v in enumerate(loops) if row.involves_dims(self.isl.dim_type.in_, j, 1)]
            out.append("_".join(reversed(used)) or "once")
        return out


def _number(iterations: Any) -> int:
    return int(iterations.get_tuple_name()[1:])
