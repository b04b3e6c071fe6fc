"""Maps that read across rows: tiles, turned in registers, so that both sides are walked through along rows.

Enters and leaves: a nest of loops around one statement. Where a load moves along another loop than the
innermost one, both loops are cut into tiles, each tile is packed into a local square by the `transpose`
micro-kernel, and the statement reads that.
"""

from __future__ import annotations

from dataclasses import replace

from trilobite.compiler.targets.cpu.loops.index import Index, substitute, variable
from trilobite.compiler.targets.cpu.loops.ir import Buffer, Load, Loop, Micro, Nest, Node, Statement, Target
from trilobite.compiler.targets.cpu.loops.pack import identity_graph
from trilobite.compiler.targets.cpu.loops.transform import extent_of

SHORTEST = 8  # loops below this are not worth a tile


def tiled(nest: Nest) -> Nest:
    """The nest with tiles where they help."""
    around, statement = _perfect(nest)
    if statement is None or len(around) < 2:
        return nest
    inner = around[-1]
    across = _across(nest, around, statement)
    if across is None or any(not _fixed(each) for each in (across, inner)):
        return nest
    loads = [
        leaf for leaf in statement.leaves if isinstance(leaf, Load) and _turns(leaf, across.var, inner.var)
    ]
    return _rebuilt(nest, around, across, loads, statement)


def _perfect(nest: Nest) -> tuple[list[Loop], Statement | None]:
    around: list[Loop] = []
    body = nest.body
    while len(body) == 1 and isinstance(body[0], Loop) and extent_of(body[0]) is not None:
        around.append(body[0])
        body = body[0].body
    only = body[0] if len(body) == 1 else None
    return around, only if isinstance(only, Statement) else None


def _fixed(node: Loop) -> bool:
    n = extent_of(node)
    return isinstance(n, int) and n >= SHORTEST


def _turns(load: Load, across: str, inner: str) -> bool:
    return not load.guards and _unit(load, across) and _strided(load, inner)


def _unit(load: Load, var: str) -> bool:
    (index,) = load.index
    return index.coefficient(var) == 1 and all(isinstance(atom, str) for atom, _ in index.terms)


def _strided(load: Load, var: str) -> bool:
    (index,) = load.index
    return index.coefficient(var) not in (0, 1, -1)


def _across(nest: Nest, around: list[Loop], statement: Statement) -> Loop | None:
    """The loop along the rows of a load that the innermost loop strides through."""
    if any(t.combine for t in statement.targets):
        return None
    for leaf in statement.leaves:
        if isinstance(leaf, Load) and not leaf.guards and _strided(leaf, around[-1].var):
            for each in around[:-1]:
                if _unit(leaf, each.var):
                    return each
    return None


def _rebuilt(nest: Nest, around: list[Loop], across: Loop, loads: list[Load], statement: Statement) -> Nest:
    inner = around[-1]
    side = 8 if max(nest.buffer(load.buffer).dtype.itemsize for load in loads) == 8 else 16
    o, i = across.var, inner.var
    place = {
        o: variable(f"{o}_t") * side + variable(f"{o}_i"),
        i: variable(f"{i}_t") * side + variable(f"{i}_i"),
    }
    extents = {each.var: _cut(each, side) for each in (across, inner)}
    tiles: list[Buffer] = []
    packs: list[Node] = []
    leaves = list(statement.leaves)
    for load in loads:
        source = nest.buffer(load.buffer)
        tile = Buffer(f"tile{len(tiles)}", source.dtype, (side * side,), kind="local")
        tiles.append(tile)
        packs.append(_turned(load, source, tile, across, inner, side, extents))
        at = variable(f"{o}_i") * side + variable(f"{i}_i")
        leaves[leaves.index(load)] = Load(tile.name, (at,))
    body: Node = replace(statement, leaves=tuple(leaves)).substituted(place)
    for each in (inner, across):
        body = Loop(f"{each.var}_i", extents[each.var], (body,))
    nodes: tuple[Node, ...] = (*packs, body)
    outer = [(each.var, each.extent) for each in around[:-1] if each is not across]
    # Along the shorter side first: what the other side's lines get until they are full stays in the cache.
    longer_first = sorted((across, inner), key=lambda each: -_tiles(each, side).constant)
    outer += [(f"{each.var}_t", (_tiles(each, side),)) for each in longer_first]
    for var, extent in reversed(outer):
        nodes = (Loop(var, extent, nodes),)
    return replace(nest, buffers=(*nest.buffers, *tiles), body=nodes)


def _tiles(node: Loop, side: int) -> Index:
    n = extent_of(node)
    assert isinstance(n, int)
    return Index(-(-n // side))


def _cut(node: Loop, side: int) -> tuple[Index, ...]:
    n = extent_of(node)
    assert isinstance(n, int)
    return (Index(side),) if n % side == 0 else (Index(side), Index(n) - variable(f"{node.var}_t") * side)


def _turned(
    load: Load, source: Buffer, tile: Buffer, across: Loop, inner: Loop, side: int,
    extents: dict[str, tuple[Index, ...]],
) -> Micro:  # fmt: skip
    o, i, number = across.var, inner.var, tile.name
    a, b = f"{number}_{o}", f"{number}_{i}"
    place = {o: variable(f"{o}_t") * side + variable(a), i: variable(f"{i}_t") * side + variable(b)}
    read = Load(load.buffer, tuple(substitute(k, place) for k in load.index))
    write = Target(tile.name, (variable(a) * side + variable(b),))
    copy = Statement((read,), identity_graph(source), (write,))
    return Micro("transpose", (Loop(b, extents[i], (Loop(a, extents[o], (copy,)),)),))
