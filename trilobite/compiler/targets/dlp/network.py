"""The network as one program: an entry that calls the groups' functions in order, and the memory they use.

Enters: a graph of fusions, a machine, a number of cores. Leaves: a `Network`: a kernel module with one entry,
whose only parameter is a table of addresses (arena, results, inputs, the block of constants), the size of the
arena, and the constants. Values are placed as the entry is written: a value takes memory when its group is
called and gives it back behind its last reader. Loops and choices are loops and branches of the entry.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from trilobite.base.locations import UNKNOWN, Location
from trilobite.compiler.targets.dlp.ahead import DEPTH, Call, Handing, plan_call
from trilobite.compiler.targets.dlp.arena import GRAIN, Arena
from trilobite.compiler.targets.dlp.arranged import arranged
from trilobite.compiler.targets.dlp.control import CONTROL, pointer_of, unfused
from trilobite.compiler.targets.dlp.demand import demands_behind
from trilobite.compiler.targets.dlp.interfaces import LoweredGroup, Place
from trilobite.compiler.targets.dlp.kernels.strided import Axis, shared_copy
from trilobite.compiler.targets.dlp.layouts import Layout, Order, plain, result_order, row_major, strides_in
from trilobite.compiler.targets.dlp.lower import Setting, lower_copy, lower_group, operands_of
from trilobite.compiler.targets.dlp.onchip import Near, near_values
from trilobite.compiler.targets.dlp.parts import (
    Array,
    At,
    Called,
    Network,
    Packed,
    bytes_of,
    line_of,
    reads_of,
)
from trilobite.compiler.targets.dlp.shapes import extents
from trilobite.compiler.targets.dlp.writer import GDRAM, Writer
from trilobite.ir.graph import Equation, Graph, Var
from trilobite.processor.isa.formats import I64
from trilobite.processor.lang.ir import Buffer, KernelModule, Op, Value
from trilobite.processor.machine import Machine

ENTRY = "network"
SMALL = 4 << 20  # bytes of a weight that is kept beside the packed ones even where its order is right


class Assembler:
    """The entry while it is written."""

    def __init__(
        self, graph: Graph, machine: Machine, cores: int, share: bool, stable: frozenset[int], ahead: bool,
        near: bool,
    ) -> None:  # fmt: skip
        self.graph, self.machine, self.cores, self.share = graph, machine, cores, share
        self.stable = {v: i for i, v in enumerate(graph.inputs) if i in stable}
        self.orders: dict[Var, Order] = {}
        self.copies: dict[tuple[Var, Order, int], Var] = {}  # of values in another order, by region
        self.module = KernelModule(graph.name)
        self.near = near_values(graph, machine, cores) if near else Near()
        self.setting = Setting(self.module, self.near.machine_of(machine), cores)
        self.made: dict[Any, LoweredGroup] = {}
        self.w = Writer(self.module, ENTRY, [GDRAM], machine, cores, entry=True)
        self.arena = Arena()
        self.constants: list[Array | Packed] = []
        self.offsets: list[int] = []  # of the constants in their block
        self.kept = 0  # bytes of that block
        self.calls: list[Called] = []
        self.env: dict[Var, At] = {}
        self.owner: dict[Var, Var] = {}  # whose memory an alias has
        self.results: dict[Var, int] = {}  # results that their groups write where the caller wants them
        self.largest: list[tuple[int, str]] = []
        self.released: set[Var] = set()
        self.region_of: dict[Var, Graph] = {}
        self.current, self.waiting = graph, list[Call]()
        self.place = UNKNOWN  # of the equation whose operands are being arranged
        self.near_bases = dict[str, Value]()  # of what stays on chip
        whole = self.near.buffer  # parts of it, where there are any, stand among the buffers of calls
        is_near = whole is not None and whole.space == "nram" and not self.near.parts
        self.handing = Handing(machine, is_near)
        self.ahead = ahead and machine.interlock != "ranges"

    # -- places ----------------------------------------------------------------------------------------------

    def argument(self, index: int) -> Value:
        """The pointer at a place of the table."""
        word = self.w.load(I64, self.w.params[0], 8 * index)
        return self.w.b.cast(word, GDRAM)

    def pointer(self, v: Var) -> Value:
        place = self.env[v].place
        if v in self.stable and place is not None and place.space == "argument" and bytes_of(v) <= SMALL:
            self._keep(v, Packed(self.stable[v], row_major(len(v.type.shape))))
        return pointer_of(self, self.env[v])

    def take(self, v: Var) -> None:
        """Memory for a value that is about to be written, again where a region is written twice."""
        self.region_of[v] = self.current
        self.released.discard(v)
        if v in self.results:
            self.env[v] = At(Place("argument", self.results[v]))
            return
        place = self.near.place(v)
        if place is not None:
            self.env[v] = At(place)
            return
        self.env[v] = At(Place("arena", 0, self.arena.take(bytes_of(v))))
        self.owner[v] = v
        self.largest.append((bytes_of(v), str(v.type)))

    def give(self, v: Var) -> None:
        place = self.env[v].place
        if place is not None and place.space == "arena":
            self.arena.give(place.offset, bytes_of(v))

    # -- running through a graph -----------------------------------------------------------------------------

    def run(self, graph: Graph) -> None:
        """All equations. Inputs are placed; what the graph's outputs need stays."""
        self.copies = {
            k: copy for k, copy in self.copies.items() if k[2] != id(graph)
        }  # it was written before
        uses = reads_of(graph)
        kept = {self.owner.get(v, v) for v in graph.inputs} | set(graph.outputs)
        demands = demands_behind(graph, self.machine, self.cores)
        for e, (self.later, self.price) in zip(graph.equations, demands, strict=True):
            self._equation(e)
            for v in dict.fromkeys((*e.inputs, *e.outputs)):
                if v in e.inputs:
                    uses[v] -= e.inputs.count(v)
            self._release(e, uses, kept)

    def _release(self, e: Equation, uses: dict[Var, int], kept: set[Var]) -> None:
        """An owner's memory is free when neither it nor any alias of it is read again."""
        for v in dict.fromkeys((*e.inputs, *e.outputs)):
            mine = self.owner.get(v)
            if mine is None or mine in kept or mine in self.released:
                continue
            family = [a for a, o in self.owner.items() if o is mine]
            if any(uses.get(a, 0) > 0 or a in kept for a in family):
                continue
            if all(a in uses or a is mine for a in family) and self.region_of.get(mine) is self.current:
                self._free(mine)
                self._forget_copies(family)

    def _free(self, v: Var) -> None:
        """Its memory is another's from here on: who wants a copy again gets a new one."""
        self.give(v)
        self.released.add(v)
        for key in [k for k, copy in self.copies.items() if copy is v]:
            del self.copies[key]

    base: Value  # of the arena
    block: Value  # of what is loaded with the program

    def _forget_copies(self, family: Sequence[Var]) -> None:
        """Copies of a value go with it."""
        for key in [k for k in self.copies if k[0] in family and k[2] == id(self.current)]:
            copy = self.copies.pop(key)
            renamed = any(o is copy and a is not copy for a, o in self.owner.items())
            if copy in self.owner and not renamed:
                self._free(copy)

    def _equation(self, e: Equation) -> None:
        name = e.primitive.name
        if name == "constant":
            self._constant(e.outputs[0], e.attributes["value"].array)
            return
        kind, region = e.attributes["kind"], e.attributes["region"]
        if kind == "alias":
            self._rename(e.outputs[0], self.ordered(e.inputs[0], row_major(len(e.inputs[0].type.shape))))
        elif kind in CONTROL:
            inner = unfused(e, region)
            plain_inputs = tuple(self.ordered(v, row_major(len(v.type.shape))) for v in inner.inputs)
            self.settle()
            CONTROL[kind](
                self, Equation(inner.primitive, plain_inputs, inner.attributes, inner.outputs, e.location)
            )
        elif region.equations[-1].primitive.name == "transpose" and e.outputs[0] not in self.results:
            (x,) = e.inputs
            self._rename(e.outputs[0], x)
            self._note_order(e.outputs[0], result_order(region.equations[-1], [self.order(x)]))
        elif region.equations[-1].primitive.name == "constant":
            self._constant(e.outputs[0], region.equations[-1].attributes["value"].array)
        else:
            self._call(e, kind, region)

    def _constant(self, v: Var, array: Array) -> None:
        self._keep(v, np.ascontiguousarray(array))

    def _keep(self, v: Var, what: Array | Packed) -> None:
        """A value that is loaded with the program: all lie in one block, so that their addresses are known
        but for its own. A word of the table takes as long to read as a small tile."""
        self.env[v] = At(Place("kept", 0, self.kept))
        self.constants.append(what)
        self.offsets.append(self.kept)
        self.kept += -(-max(bytes_of(v), 1) // GRAIN) * GRAIN

    def _rename(self, v: Var, source: Var) -> None:
        """The same memory under another name."""
        self.env[v] = self.env[source]
        if source in self.owner:
            self.owner[v] = self.owner[source]

    def order(self, v: Var) -> Order:
        return self.orders.get(v, row_major(len(v.type.shape)))

    def _note_order(self, v: Var, order: Order) -> None:
        order = plain(v, order)
        if order != row_major(len(order)):
            self.orders[v] = order

    def ordered(self, v: Var, order: Order) -> Var:
        """The value with its axes in this order: itself, a packed weight, or a copy."""
        if plain(v, order) == self.order(v) or not bytes_of(v):
            return v
        key = (v, order, id(self.current))
        if key not in self.copies:
            copy = self.copies[key] = Var(v.type)
            self._note_order(copy, order)
            if v in self.stable and v not in self.orders:
                self._keep(copy, Packed(self.stable[v], order))
            else:
                self.take(copy)
                self._reorder(v, copy)
        return self.copies[key]

    def _reorder(self, v: Var, copy: Var) -> None:
        """A call that copies a value into another order."""
        assert self.near.home(v) is self.near.home(copy) is None, "only contractions read on chip"
        shape, item = extents(v), v.type.dtype.itemsize
        strides = strides_in(shape, self.order(v)), strides_in(shape, self.order(copy))
        key = ("reorder", shape, item, strides)
        if key not in self.made or not self.share:
            self.named += 1
            self.made[key] = lower_copy(self.setting, f"g{self.named}_reorder", shape, item, strides)
        self.flush()
        self._emit(self.made[key], [v, copy], "reorder", ("transpose",), self.place)

    def _call(self, e: Equation, kind: str, region: Graph) -> None:
        if all(bytes_of(v) == 0 for v in e.outputs):
            for v in e.outputs:
                self.take(v)
            return
        self.place = e.location
        inputs, result = arranged(self, e, kind, region)
        is_weight = region.equations[-1].primitive.name == "conv_weight_grad"
        outputs = [self._place(v, result, is_weight) for v in e.outputs]
        known = {
            **{v: self.order(w) for v, w in zip(region.inputs, inputs, strict=True)},
            **{v: self.order(w) for v, w in zip(region.outputs, outputs, strict=True)},
        }
        assert not any(self.owner.get(v) in self.released for v in inputs), "memory of an operand is given"
        chosen = [inputs[i] for i in operands_of(kind, region)]
        self.setting.machine = self.near.machine_of(self.machine, e)
        pairs = (*zip(region.inputs, inputs, strict=True), *zip(region.outputs, outputs, strict=True))
        homes = {v: home for v, w in pairs if (home := self.near.home(w)) is not None}
        layout, room = Layout(known, homes), self.setting.machine
        call = Call(kind, region, layout, [*chosen, *outputs], e.location, room)
        call.beside = () if call.is_passive else self.near.parts_of(e)
        plan_call(self, call)
        if len(self.waiting) == DEPTH:
            self._write(self.waiting.pop(0))
        self.waiting.append(call)
        for v, written in zip(e.outputs, outputs, strict=True):
            if written is not v:
                self._reorder(written, v)
                self._free(written)

    def _place(self, v: Var, order: Order, is_weight: bool) -> Var:
        """Memory for a result in this order. One that somebody wants row-major is written elsewhere first."""
        fixed = v in self.results or is_weight
        if fixed and plain(v, order) != row_major(len(order)):
            self.take(v)
            v = Var(v.type)
        self.take(v)
        self._note_order(v, order)
        return v

    def flush(self) -> None:
        """The calls that wait for their places in the entry: they may prefetch something for later ones."""
        calls, self.waiting = self.waiting, []
        for call in calls:
            self._write(call)

    def _write(self, call: Call) -> None:
        values = [*call.values, *(to.value(n) for early, to in call.prefetches for n in early.operands)]
        names = tuple(x.primitive.name for x in call.region.equations)
        self._emit(self._function(call), values, call.region.name, names, call.location)

    def _emit(
        self, group: LoweredGroup, values: Sequence[Var], name: str, names: tuple[str, ...], at: Location
    ) -> None:
        if not group.meets and self.is_open:
            self._meet()
        self.w.b.location = line_of(at)
        pointers = [self.pointer(v) for v in values]
        self.w.b.call(group.function, pointers, [])
        self.calls.append(Called(len(self.calls), group, name, names, at))
        self.is_open = True

    def _function(self, call: Call) -> LoweredGroup:
        key = call.routine
        if key in self.made and self.share:
            return self.made[key]
        self.named += 1
        name = f"g{self.named}_{call.region.name}"
        early = [e for e, _ in call.prefetches]
        chosen = {"mapping": call.found, "prefetched": call.prefetched, "following": early}
        setting = Setting(self.module, call.machine, self.cores)
        self.made[key] = lower_group(setting, name, call.kind, call.region, call.layout, **chosen)
        function = self.module.functions[self.made[key].function]
        for part in call.beside:
            function.blocks[0].insert(Op("keep", (), {"buffer": self._part(part)}))
        self._locate(self.made[key], call.location, call.region.name)
        return self.made[key]

    def _part(self, part: Buffer) -> Buffer:
        """Part of what keeps values in SRAM, as a buffer of the module."""
        known = self.module.buffers.get(part.name)
        return self.module.add_buffer(part) if known is None else known

    def _locate(self, group: LoweredGroup, at: Location, name: str) -> None:
        """Every instruction of a routine knows the user's line that first asked for it, and the group."""
        place = replace(line_of(at), origin=(group.function, name))
        for op in self.module.functions[group.function].ops():
            op.location = place

    named = -1
    later, price = 0.0, 0  # cycles of DRAM for the next group's weights, and what one costs: see `Beside`

    is_open = False  # the group that was called last may still be storing its results

    def settle(self) -> None:
        """What groups have written is there for all cores."""
        self.flush()
        if self.is_open:
            self._meet()

    def meet(self) -> None:
        """What any core has written before is there for all behind."""
        self.flush()
        self._meet()

    def _meet(self) -> None:
        if self.is_open:
            self.w.b.sync()
            self.is_open = False
        if self.cores > 1:
            self.w.b.barrier("chip", "ipu")

    def copy(self, dst: Value, src: Value, size: int) -> None:
        self.settle()
        if size:
            shared_copy(self.w, dst, src, [Axis(size, 1, 1)], 1)

    # -- the whole -------------------------------------------------------------------------------------------

    def network(self) -> Network:
        w = self.w
        if self.machine.memory_core and self.cores > 1:
            stay, go = w.function.add_block("memory_core"), w.function.add_block("compute")
            w.b.branch(w.b.special("isMpu"), stay, go)
            w.b.block = stay
            w.b.ret()
            w.b.block = go
        self.near_bases = {b.space: w.b.address(self.module.add_buffer(b)) for b in self.near.buffers}
        first = len(self.graph.outputs)
        self.base, self.block = self.argument(0), self.argument(1 + first + len(self.graph.inputs))
        for i, v in enumerate(self.graph.inputs):
            self.env[v] = At(Place("argument", first + i))
        made = {v for e in self.graph.equations for v in e.outputs}
        for i, v in enumerate(self.graph.outputs):
            if v in made and self.near.home(v) is None:
                self.results.setdefault(v, i)
        self.run(self.graph)
        self._copy_results()
        self.settle()
        w.finish()
        arguments = first + len(self.graph.inputs) + 1
        largest = tuple(sorted(self.largest, reverse=True)[:5])
        return Network(
            self.module, self.machine, self.cores, self.arena.peak, arguments, tuple(self.constants),
            tuple(self.offsets), self.kept, self.calls, largest,
        )  # fmt: skip

    def _copy_results(self) -> None:
        """Results that are inputs, constants, aliases, on chip or named twice."""
        for i, v in enumerate(self.graph.outputs):
            goal = At(Place("argument", i))
            if self.env[v] != goal:
                v = self.ordered(v, row_major(len(v.type.shape)))
                self.copy(pointer_of(self, goal), self.pointer(v), bytes_of(v))


def assemble(
    graph: Graph,
    machine: Machine,
    cores: int,
    share: bool = True,
    stable: frozenset[int] = frozenset(),
    ahead: bool = True,
    near: bool = True,
) -> Network:
    """A graph of fusions as one program. Without `share` equal groups have functions of their own, so that a
    profile can tell them apart. Without `ahead` no group loads weights for the next, without `near` all
    values between groups go through DRAM.
    """
    return Assembler(graph, machine, cores, share, stable, ahead, near).network()
