"""Control flow as loops and branches of the network's entry.

Enters: an assembler that writes the entry, and a `cond`, `while` or `scan` on placed values. Leaves: its
code.
All cores run the same branches: what they read to decide was written before a barrier, and none overwrites it
before the next. Carries have memory of their own; a region's results are copied there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from trilobite.compiler.targets.dlp.interfaces import Place
from trilobite.compiler.targets.dlp.layouts import row_major
from trilobite.compiler.targets.dlp.parts import At, bytes_of
from trilobite.compiler.targets.dlp.writer import Int
from trilobite.ir.graph import Equation, Graph, Var
from trilobite.processor.isa.formats import I32, I64, U8
from trilobite.processor.lang.ir import Value

if TYPE_CHECKING:
    from trilobite.compiler.targets.dlp.network import Assembler


def _inside(a: Assembler, graph: Graph, given: Sequence[At]) -> list[At]:
    """A region's code, its inputs at these places; where its outputs lie."""
    outer, a.current = a.current, graph
    for v, at in zip(graph.inputs, given, strict=True):
        a.env[v] = at
    a.run(graph)
    found = [a.env[a.ordered(v, row_major(len(v.type.shape)))] for v in graph.outputs]
    a.settle()
    a.current = outer
    return found


def _give_all(a: Assembler, graph: Graph) -> None:
    """Memory of what a region still holds."""
    for v, region in list(a.region_of.items()):
        if region is graph and v not in a.released:
            a.give(v)
            a.released.add(v)


def pointer_of(a: Assembler, at: At) -> Value:
    if at.pointer is not None:
        return at.pointer
    assert at.place is not None
    known = {"arena": a.base, "kept": a.block, **a.near_bases}.get(at.place.space)
    return a.w.at(known or a.argument(1 + at.place.index), at.place.offset)


def _settle(a: Assembler, values: Sequence[Var], where: Sequence[At], to: Sequence[At]) -> None:
    """Results of a region to the places of what carries them. All are copied aside first if one of them
    lies where another goes.
    """
    sources = list(where)
    spots = {(t.place.space, t.place.index, t.place.offset) for t in to if t.place is not None}
    held: list[tuple[int, int]] = []
    for i, (v, at) in enumerate(zip(values, where, strict=True)):
        place = at.place
        moves = place is not None and (place.space, place.index, place.offset) in spots and at != to[i]
        if moves and bytes_of(v):
            aside = a.arena.take(bytes_of(v))
            held.append((aside, bytes_of(v)))
            sources[i] = At(Place("arena", 0, aside))
            a.copy(pointer_of(a, sources[i]), pointer_of(a, at), bytes_of(v))
    if held:
        a.meet()
    for v, at, goal in zip(values, sources, to, strict=True):
        if at != goal:
            a.copy(pointer_of(a, goal), pointer_of(a, at), bytes_of(v))
    a.meet()
    for block in held:
        a.arena.give(*block)


def unfused(e: Equation, region: Graph) -> Equation:
    """The control equation of a group, on the values around it."""
    (inner,) = region.equations
    given = dict(zip(region.inputs, e.inputs, strict=True))
    wanted = dict(zip(region.outputs, e.outputs, strict=True))
    outputs = tuple(wanted.get(v) or Var(v.type) for v in inner.outputs)
    return Equation(
        inner.primitive, tuple(given[v] for v in inner.inputs), inner.attributes, outputs, e.location
    )


def _cond(a: Assembler, e: Equation) -> None:
    w = a.w
    branches: tuple[Graph, ...] = e.attributes["branches"]
    for v in e.outputs:
        a.take(v)
    index = w.b.convert(w.load(I32, a.pointer(e.inputs[0])), I64)
    a.meet()
    chosen = w.most(0, w.least(index, len(branches) - 1))
    done = w.function.add_block("chosen")
    for number, graph in enumerate(branches):
        yes, no = w.function.add_block(f"case{number}"), w.function.add_block("else")
        w.b.branch(w.compare("eq", chosen, number), yes, no)
        w.b.block = yes
        found = _inside(a, graph, [a.env[v] for v in e.inputs[1:]])
        _settle(a, e.outputs, found, [a.env[v] for v in e.outputs])
        _give_all(a, graph)
        w.b.jump(done)
        w.b.block = no
    w.b.jump(done)
    w.b.block = done


def _carried(a: Assembler, values: Sequence[Var], results: Sequence[Var]) -> list[At]:
    """Memory of carries, filled with what they begin with."""
    for v in results:
        a.take(v)
    carries = [a.env[v] for v in results]
    for v, at in zip(values, carries, strict=True):
        a.copy(pointer_of(a, at), a.pointer(v), bytes_of(v))
    a.meet()
    return carries


def _while(a: Assembler, e: Equation) -> None:
    w = a.w
    test, body, (m, n) = (e.attributes[k] for k in ("test", "body", "consts"))
    for_test, for_body = e.inputs[:m], e.inputs[m : m + n]
    carries = _carried(a, e.inputs[m + n :], e.outputs)
    head, inside, done = (w.function.add_block(s) for s in ("while", "do", "done"))
    w.b.jump(head)
    w.b.block = head
    found = _inside(a, test, [*(a.env[v] for v in for_test), *carries])
    truth = w.b.convert(w.load(U8, pointer_of(a, found[0])), I64)
    a.meet()
    _give_all(a, test)
    w.b.branch(truth, inside, done)
    w.b.block = inside
    found = _inside(a, body, [*(a.env[v] for v in for_body), *carries])
    _settle(a, body.outputs, found, carries)
    _give_all(a, body)
    w.b.jump(head)
    w.b.block = done


def _scan(a: Assembler, e: Equation) -> None:
    w = a.w
    names = ("body", "consts", "carries", "length", "reverse")
    body, n, c, length, backwards = (e.attributes[k] for k in names)
    consts, first, xs = e.inputs[:n], e.inputs[n : n + c], e.inputs[n + c :]
    carries = _carried(a, first, e.outputs[:c])
    for v in e.outputs[c:]:
        a.take(v)
    if length == 0:
        return
    with w.loop(0, length) as step:
        index: Int = w.sub(length - 1, step) if backwards else step
        elements = [_element(a, v, index, length) for v in xs]
        found = _inside(a, body, [*(a.env[v] for v in consts), *carries, *elements])
        for v, out, at in zip(e.outputs[c:], body.outputs[c:], found[c:], strict=True):
            goal = _element(a, v, index, length)
            a.copy(pointer_of(a, goal), pointer_of(a, at), bytes_of(out))
        _settle(a, body.outputs[:c], found[:c], carries)
        _give_all(a, body)


def _element(a: Assembler, v: Var, index: Int, length: int) -> At:
    return At(None, a.w.at(a.pointer(v), a.w.mul(index, bytes_of(v) // length)))


CONTROL: Mapping[str, Any] = {"cond": _cond, "while": _while, "scan": _scan}
