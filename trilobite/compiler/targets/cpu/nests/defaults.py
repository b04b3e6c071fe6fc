"""Default schedules: how a nest runs when nobody has searched for better.

The innermost loop runs in vectors. The outer ones become one parallel loop. Whoever calls a kernel cuts the
range of units; what a unit computes and in which order depends on the shapes alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

from trilobite.base.dtypes import accumulator, bool_
from trilobite.compiler.targets.cpu.emit.math import FUNCTIONS
from trilobite.compiler.targets.cpu.kernel import NativeKernel
from trilobite.compiler.targets.cpu.loops.emit_llvm import emit, local_offsets
from trilobite.compiler.targets.cpu.loops.emit_values import linear
from trilobite.compiler.targets.cpu.loops.index import Index, lower, upper
from trilobite.compiler.targets.cpu.loops.ir import (
    Kind,
    Loop,
    Nest,
    Node,
    Statement,
    leaf_dtype,
    rewritten,
    statements,
)
from trilobite.compiler.targets.cpu.loops.transform import extent_of, fuse_pair, split_loop
from trilobite.compiler.targets.cpu.nests.sizes import sized
from trilobite.ir.primitives.call import graph_flops
from trilobite.native.host import Host

BLOCK = 16384  # element operations that one unit is worth at least
_BLOCKS = 6  # of vectors that a loop has at least whose vectors go in pairs
SHORT = 32  # a row shorter than this does not pay for taking a unit's number apart


def vectorised(nest: Nest, host: Host) -> Nest:
    """Innermost loops in vectors, as many at once as the body leaves registers for."""

    def change(node: Node) -> tuple[Node, ...]:
        if not isinstance(node, Loop) or not all(isinstance(n, Statement) for n in node.body):
            return (node,)
        if node.kind not in ("serial", "parallel") or not _runs_in_vectors(node):
            return (node,)
        lanes = _lanes(nest, node, host)
        kind: Kind = "vector" if node.kind == "serial" else "parallel"
        unroll = _unroll(node, lanes)
        pairs = _in_pairs(node, lanes * unroll, host) and unroll % 2 == 0
        return (replace(node, kind=kind, lanes=lanes, unroll=unroll, pairs=pairs),)

    return replace(nest, body=rewritten(nest.body, change))


def _runs_in_vectors(node: Loop) -> bool:
    """No result of one iteration is read or overwritten by another, except by combining."""
    (*body,) = (n for n in node.body if isinstance(n, Statement))
    written = {t.buffer for s in body for t in s.targets}
    for s in body:
        for t in s.targets:
            moves = any(node.var in i.variables for i in t.index)
            if not moves and t.combine is None:
                return False
            if moves and not all(linear(i, node.var) for i in t.index):
                return False  # two iterations may write one element
        for load in s.loads():
            same = [t for o in body for t in o.targets if t.buffer == load.buffer]
            if load.buffer in written and any(t.index != load.index for t in same):
                return False
            if load.buffer in written and all(node.var not in i.variables for i in load.index):
                return False
    return True


def _lanes(nest: Nest, node: Loop, host: Host) -> int:
    """By the widest number that the body computes with."""
    width = 1
    for s in node.body:
        assert isinstance(s, Statement)
        dtypes = [leaf_dtype(nest, leaf) for leaf in s.leaves]
        dtypes += [v.type.dtype for e in s.body.equations for v in e.outputs]
        dtypes += [nest.buffer(t.buffer).dtype for t in s.targets]
        width = max([width, *(accumulator(d).itemsize for d in dtypes if d != bool_)])
    lanes = host.tile_lanes(width) if _is_map(node) and _has_functions(node) else host.lanes(width)
    longest = extent_of(node)
    while longest is not None and lanes > 4 and upper(longest) < lanes:
        lanes //= 2
    return lanes


def _is_map(node: Loop) -> bool:
    """Has every lane results of its own? Then they are the same in vectors of any width."""
    return all(t.combine is None for s in node.body if isinstance(s, Statement) for t in s.targets)


def _has_functions(node: Loop) -> bool:
    """Does the body compute rather than move data? Only then wider vectors are quicker."""
    equations = [e for s in node.body if isinstance(s, Statement) for e in s.body.equations]
    return any(e.primitive.name in FUNCTIONS for e in equations)


def _in_pairs(node: Loop, block: int, host: Host) -> bool:
    """Do two vectors of sums go as one where there is AVX-512? Each lane takes what it took before, so the
    bits are the same. It pays where functions are computed, and extremes, which carry three things, but not
    in short loops: in the end the halves are parted.
    """
    by = {t.combine for s in node.body if isinstance(s, Statement) for t in s.targets} - {None}
    longest = extent_of(node)
    long = longest is None or upper(longest) >= _BLOCKS * block
    wide = host.tile_lanes(1) >= 2 * host.lanes(1)
    return long and wide and bool(by) and (_has_functions(node) or by <= {"maximum", "minimum"})


def _unroll(node: Loop, lanes: int) -> int:
    size = sum(len(s.body.equations) + len(s.leaves) for s in node.body if isinstance(s, Statement))

    most = 4 if size <= 14 else 2 if size <= 40 else 1
    longest = extent_of(node)
    if isinstance(longest, int) and longest % lanes == 0 and 0 < longest // lanes <= 4 and size <= 24:
        return longest // lanes  # the whole loop, written out
    while longest is not None and most > 1 and upper(longest) < lanes * most:
        most //= 2
    return most


# -- parallel loops ----------------------------------------------------------------------------------------


def work(nest: Nest) -> float:
    """Element operations of a nest, at the largest sizes."""
    return _total(nest.body, _work)


def _work(s: Statement) -> float:
    return 1.0 + len(s.leaves) + graph_flops(s.body)


def flops(nest: Nest) -> float:
    """Arithmetic of a nest at the largest sizes: its scalar graphs, and one operation to combine."""
    return _total(nest.body, lambda s: graph_flops(s.body) + sum(t.combine is not None for t in s.targets))


def _total(nodes: tuple[Node, ...], each: Callable[[Statement], float]) -> float:
    """What all iterations of all statements come to."""
    total = 0.0
    for node in nodes:
        if isinstance(node, Loop):
            known = [upper(e.constant) for e in node.extent if e.is_constant]
            total += min(known, default=1) * _total(node.body, each)
        else:
            total += each(node) if isinstance(node, Statement) else _total(node.meaning, each)
    return total


def parallelised(nest: Nest, block: int = BLOCK) -> Nest:
    """The outermost loops as one parallel loop; a row that is cut gives units of about `block` operations."""
    if len(nest.body) != 1 or not isinstance(nest.body[0], Loop):
        return nest
    top = nest.body[0]
    if all(isinstance(n, Statement) for n in top.body):
        return replace(nest, body=(_blocks(top, block),))
    while True:
        fused = _fused(top)
        if fused is None:
            break
        top = fused
    if _few_long_rows(top):
        (row,) = top.body
        assert isinstance(row, Loop)
        blocked = fuse_pair(replace(top, body=(split_loop(row, _block_size(row, block)),)))
        top = blocked if blocked is not None else top
    if extent_of(top) is None:  # how many units there are must be known without other loops
        return nest
    return replace(nest, body=(replace(top, kind="parallel"),))


def _fused(top: Loop) -> Loop | None:
    """The two outermost loops as one, if a loop of some length remains inside."""
    if len(top.body) != 1 or not isinstance(top.body[0], Loop):
        return None
    child = top.body[0]
    rows = [n for n in child.body if isinstance(n, Loop)]
    if not rows or any(not _long(r) for r in rows if all(isinstance(n, Statement) for n in r.body)):
        return None
    return fuse_pair(top)


def _long(row: Loop) -> bool:
    n = extent_of(row)
    return n is None or upper(n) >= SHORT


def _few_long_rows(top: Loop) -> bool:
    if len(top.body) != 1 or not isinstance(top.body[0], Loop) or top.body[0].kind == "parallel":
        return False
    row = top.body[0]
    if not all(isinstance(n, Statement) for n in row.body) or _reduces(row):
        return False
    m, n = extent_of(top), extent_of(row)
    return m is not None and n is not None and upper(m) < 16 and lower(n) >= 2 * BLOCK


def _reduces(row: Loop) -> bool:
    return any(t.combine is not None for s in statements(row.body) for t in s.targets)


def _block_size(row: Loop, block: int) -> int:
    """Iterations that make one unit, a multiple of the longest vectors."""
    each = _total(row.body, _work)
    return max(int(4 * block / each) // 256, 4) * 256


def _blocks(row: Loop, least: int) -> Loop:
    """A single loop: blocks of fixed size, or of symbolic sizes the elements themselves are units."""
    n = extent_of(row)
    if _reduces(row) or n is None:
        return row
    if not isinstance(n, int):
        return replace(row, kind="parallel")
    block = _block_size(row, least)
    if n <= block:
        return row
    return replace(split_loop(row, block), kind="parallel")


def kernel(nest: Nest, host: Host) -> tuple[NativeKernel, tuple[int, ...]]:
    """The kernel of a nest, and the sizes that a run passes to it after buffers and symbols."""
    form, sizes = sized(nest)
    text, scratch = _written(form, host)
    return NativeKernel(nest.name, text, 0, scratch, str(nest)), sizes


@lru_cache(maxsize=512)
def _written(form: Nest, host: Host) -> tuple[str, int]:
    return emit(form, host), local_offsets(form)[1]


def units(nest: Nest) -> Index:
    """How many iterations the parallel loop has; one if there is none."""
    top = nest.body[0] if len(nest.body) == 1 else None
    if isinstance(top, Loop) and top.kind == "parallel":
        return top.extent[0]
    return Index(1)
