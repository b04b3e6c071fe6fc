"""What copies between tiles and tensors at home on chip cost, for many mappings at once.

Enters: a view with a home, sizes of tiles and parts of dims as arrays. Leaves: cycles of the move engine, of
the bus of a cluster and of the network, and whether tiles lie in the cluster that works on them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trilobite.compiler.targets.dlp.contraction.nest import Nest, View
from trilobite.compiler.targets.dlp.contraction.sharing import Members, busiest_link
from trilobite.processor.machine import Machine

SEARCHED = 16  # cycles of scalar work for each cluster that may have rows of a tile


def is_near(view: object) -> bool:
    return isinstance(view, View) and view.home is not None


def searched_clusters(nest: Nest) -> int:
    """Clusters that copies of all tiles look into."""
    views = (nest.image, nest.other, *nest.extras)
    return sum(v.home.clusters for v in views if isinstance(v, View) and v.home and v.home.clusters > 1)


def is_aligned(nest: Nest, view: View, count: Any, tile: Any, clusters: Any, cores: Any) -> Any:
    """Has each cluster the rows that its cores work on? `count`, `tile` and the parts are those of dim p,
    numbers or arrays of them."""
    assert view.home is not None
    rows = count * tile * cores
    return (clusters == view.home.clusters) & (rows * view.row == view.home.part) & (_sees_own(nest, view))


def _sees_own(nest: Nest, view: View) -> bool:
    """Is row p of the view all that row p of the result needs?"""
    w, e = nest.window, nest.extents
    alone = e["b"] == e["g"] == 1
    if view is not nest.image or nest.kind == "product":
        return alone
    return alone and w.taps == 1 and w.stride == (1, 1) and w.space == w.out


def blocks_of(nest: Nest) -> tuple[int, int] | None:
    """In how many parts rows and columns of images lie in the NRAM of all cores, if any does."""
    views = (nest.image, nest.other, *nest.extras)
    return next((v.home.blocks for v in views if isinstance(v, View) and v.home and v.home.blocks), None)


def is_read_there(nest: Nest, tile_k: Any, tile_q: Any) -> Any:
    """Does the unit read tiles of the left operand where it is at home? They lie there as on chip if its rows
    are taken whole: all channels, and for a window all columns. Numbers or arrays of them."""
    view, w, e = nest.image, nest.window, nest.extents
    whole_k, whole_q = tile_k >= e["k"], tile_q >= e["q"]
    if view.home is None or view.home.space != "nram":
        return whole_k & False
    if nest.kind not in ("product", "forward") or e["g"] > 1:
        return whole_k & False
    row = e["k"] * view.item
    if view.home.blocks is not None:
        columns = e["q"] // view.home.blocks[1]
        steps = (0, row) if nest.kind == "product" else (row, columns * row)
        is_run = view.channel == view.item and (view.column, view.row) == steps
        return whole_k & (tile_q >= columns) & is_run
    if nest.kind == "product":
        return whole_k & (view.channel == view.item and view.row == row)
    last = (w.out[1] - 1) * w.stride[1] + w.reach(1) - w.low[1]
    is_whole = w.low[1] >= 0 and last >= w.space[1] and w.spread == (1, 1)
    in_rows = view.channel == view.item and view.column == row and view.row == w.space[1] * row
    return whole_k & whole_q & (is_whole and in_rows)


def is_kept_there(nest: Nest, view: object, tile_n: Any, tile_q: Any) -> Any:
    """Is a tile of a result, or of what is added to it, worked on where it is at home? It lies in one piece
    in the block of a core, as on chip, if all outputs and columns are taken whole."""
    e, whole = nest.extents, tile_n >= nest.extents["n"]
    if not isinstance(view, View) or view.home is None or view.home.blocks is None or e["g"] > 1:
        return whole & False
    columns, item = e["q"] // view.home.blocks[1], e["n"] * view.item
    steps = (0, item) if nest.kind == "product" else (item, columns * item)
    return whole & (tile_q >= columns) & (view.channel == view.item and (view.column, view.row) == steps)


def near_cycles(machine: Machine, view: View, size: Any, piece: Any, takers: Any, aligned: Any) -> Any:
    """Cycles in which a tile of `size` bytes comes from where it is at home, in pieces of so many bytes,
    while `takers` cores of each cluster get tiles of their own."""
    assert view.home is not None
    engine, m = machine.core.move_dma, machine
    streamed = size / piece * -(-piece // engine.bytes_per_cycle)
    if view.home.space == "nram":
        return engine.setup + np.maximum(streamed, 2 * size / max(1, m.core.nram.bytes_per_cycle))
    bus = max(1, min(m.sram.bus_bytes_per_cycle, m.sram.bytes_per_cycle))
    found = np.maximum(streamed, size * takers / bus)
    if view.home.clusters > 1:
        link = busiest_link(m, Members((view.home.clusters, 1, 1, 1, 1, 1), ()))
        far = size * takers * link / max(1, m.noc.link_bytes_per_cycle)
        found = np.where(aligned, found, np.maximum(found, far))
    return found + engine.setup
