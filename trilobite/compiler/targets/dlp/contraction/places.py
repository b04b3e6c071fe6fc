"""Where things lie and how large they are: what a kernel needs to know about its tiles.

Enters: a nest, a mapping, a machine and what is done behind the sums. Leaves: a `Plan`: formats of sums and
results, the residence of every operand, and the bytes of every buffer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

from trilobite.base.dtypes import float32, int32
from trilobite.compiler.targets.dlp.contraction.formats import RESULTS, is_product
from trilobite.compiler.targets.dlp.contraction.mapping import (
    Mapping,
    Residence,
    aligned,
    fewest,
    residence,
    result_level,
    tile_elements,
    trips,
)
from trilobite.compiler.targets.dlp.contraction.near import is_kept_there, is_near, is_read_there
from trilobite.compiler.targets.dlp.contraction.nest import DIMS, Nest, View
from trilobite.compiler.targets.dlp.contraction.sharing import (
    OPERANDS,
    Sharing,
    Turns,
    launched_clusters,
    pieces_of,
    sharing_of,
    turns_of,
)
from trilobite.compiler.targets.dlp.interfaces import Epilogue, VectorBody
from trilobite.processor.isa.formats import I32, Format
from trilobite.processor.lang.scratchpad import room_of
from trilobite.processor.machine import Machine

CHUNK = 1 << 11  # elements that vector instructions finish at a time, where they keep much beside them
HEAVY = 6  # bytes beside an element
VECTOR_SHARE = 16  # a bias stays on chip whole while it takes no more than this part of NRAM


@dataclass(frozen=True)
class Room:
    """One buffer: `slots` places of `tile` bytes in a memory."""

    name: str
    space: str
    tile: int
    slots: int

    @property
    def bytes(self) -> int:
        return self.tile * self.slots


@dataclass(frozen=True)
class Drain:
    """What the unit does as sums leave it: numbers of the epilogue's operands, or -1, and the activation."""

    bias: int = -1
    scale: int = -1
    activation: str = ""
    result: Format = I32


def drain_of(nest: Nest, epilogue: Epilogue | None, split: bool) -> Drain | None:
    """What of the epilogue a drain does, if the unit can; sums in parts only in their own format."""
    if epilogue is None or not epilogue.drain or nest.kind not in ("product", "forward"):
        return None
    wanted = epilogue.drain
    result = RESULTS.get(epilogue.drained or epilogue.results[0].dtype)
    if result is None or len(epilogue.results) != 1 or (split and result is not nest.accumulate):
        return None
    numbers = {name: int(wanted.get(name, -1)) for name in ("bias", "scale")}
    dtypes = {"bias": float32 if nest.left.kind == "float" else int32, "scale": float32}
    for name, number in numbers.items():
        if number >= 0 and not (
            epilogue.operands[number].dtype == dtypes[name]
            and (is_vector(nest.extras[number]) or is_scalar(nest.extras[number]))
        ):
            return None
    if not is_product(result, nest.left, nest.left):
        return None
    return Drain(numbers["bias"], numbers["scale"], str(wanted.get("activation", "")), result)


def body_of(epilogue: Epilogue, drain: Drain | None) -> tuple[VectorBody | None, tuple[int, ...]]:
    """The vector instructions behind the sums, and the operands that they read."""
    if drain is None:
        return epilogue.body, tuple(range(len(epilogue.operands)))
    return epilogue.rest, epilogue.rest_operands


def is_vector(view: object) -> bool:
    """One number for each output: the same at every place."""
    return isinstance(view, View) and view.image == view.row == view.column == 0 and view.channel == view.item


def is_scalar(view: object) -> bool:
    """One number for all."""
    return isinstance(view, View) and not (
        view.image or view.row or view.column or view.channel or view.group
    )


class Plan:
    """Everything a kernel needs to know before its first instruction is written."""

    def __init__(self, nest: Nest, mapping: Mapping, machine: Machine, epilogue: Epilogue | None) -> None:
        self.nest, self.mapping, self.machine, self.epilogue = nest, mapping, machine, epilogue
        self.count, self.least = trips(nest, mapping), fewest(nest, mapping)
        self.shared = tuple(name for name in OPERANDS if name in mapping.shared or name in mapping.across)
        # what is at home on chip is in SRAM already: cores only give it to each other
        self.filled = tuple(name for name in self.shared if name != "left" or nest.image.home is None)
        if self.shared:  # then all cores go equally many steps
            self.least = self.count
        self.elements = tile_elements(nest, mapping)
        self.left_there = bool(is_read_there(nest, mapping.tile("k"), mapping.tile("q")))
        self.there = frozenset(n for n, v in enumerate(nest.extras) if self._is_kept_there(v))
        self.waits = machine.interlock != "ranges"
        self.split = any(self.count[d] > 1 for d in nest.reduced)
        self.drain = drain_of(nest, epilogue, self.split)
        self.body, self.read = body_of(epilogue, self.drain) if epilogue is not None else (None, ())
        self.has_body = self.body is not None
        self.sums = self._sum_format()
        self.depth = mapping.lead + 1
        # where nothing orders the units, the vector unit finishes a tile while the next one is multiplied
        self.is_apart = self.waits and mapping.lead > 0 and self.has_body and not self.is_single

    def _is_kept_there(self, view: object) -> bool:
        return bool(is_kept_there(self.nest, view, self.mapping.tile("n"), self.mapping.tile("q")))

    def is_made_there(self, number: int) -> bool:
        """Is this result written where it is at home?"""
        if self.epilogue is None:
            return self._is_kept_there(self.nest.other)
        return len(self.epilogue.operands) + number in self.there

    def _sum_format(self) -> Format:
        """What the unit writes: the result itself wherever one instruction makes it."""
        nest = self.nest
        if self.drain is not None:
            return self.drain.result
        whole = not self.split and nest.left.kind == "float" and is_product(nest.out, nest.left, nest.left)
        return nest.out if whole else nest.accumulate

    @cached_property
    def chunk_rows(self) -> int:
        """Places of a tile that vector instructions finish at a time, so that what they keep beside it stays
        small; 0 where they take the tile at once. Where hardware orders ranges the unit would wait for
        control, which waits for a queue full of them."""
        if self.body is None or self.nest.kind == "weight_grad" or not self.waits:
            return 0
        spread = sum(self.nest.extras[n].item for n in self.read if self.is_spread(n))
        rows = CHUNK // self._outputs
        is_heavy = spread + self.body.scratch_bytes(CHUNK) / CHUNK >= HEAVY
        return rows if is_heavy and 0 < rows * self._outputs < self.elements["out"] else 0

    @property
    def chunk(self) -> int:
        """Elements that vector instructions finish at a time."""
        return self.chunk_rows * self._outputs or self.elements["out"]

    @property
    def _outputs(self) -> int:
        """Elements of one place of a tile."""
        return min(self.mapping.tile("n"), self.nest.extents["n"]) * self.mapping.tile("g")

    @property
    def is_direct(self) -> bool:
        """What the unit writes is stored as it is."""
        return not self.has_body and (self.drain is not None or self.sums is self.nest.out)

    @property
    def is_async(self) -> bool:
        """Does only the end of a step wait for the matrix instruction?"""
        return self.is_apart or (self.waits and self.mapping.lead > 0 and self.is_direct)

    @property
    def is_narrowed(self) -> bool:
        """Sums become the problem's own result before anything else is done to them."""
        return self.drain is None and self.sums is not self.nest.out

    @property
    def result_items(self) -> tuple[int, ...]:
        """Bytes of an element of each result."""
        if self.epilogue is not None:
            return tuple(t.dtype.itemsize for t in self.epilogue.results)
        return (self.nest.out_dtype.itemsize,)

    @cached_property
    def residences(self) -> dict[str, Residence]:
        nest, m = self.nest, self.mapping
        own, order = nest.own, m.order
        found = {
            "parts": Residence((), len(order), (), (), 1, 1 if self.is_single or not self.filled else 2),
            "left": residence(own["left"], order, self.count, self.least, m.keep_left, self.depth),
            "right": residence(own["right"], order, self.count, self.least, m.keep_right, self.depth),
            "sums": self._sums(),
        }
        if not self.is_direct:
            found["results"] = Residence(own["out"], len(order), (), (), 1, 2 if m.lead else 1)
        for number, _ in enumerate(self.epilogue.operands if self.epilogue else ()):
            found[f"extra{number}"] = self._extra(number)
        return found

    def _sums(self) -> Residence:
        """Sums stay until their last part is added; then, if stored from there, until they are stored."""
        m, own = self.mapping, self.nest.own["out"]
        level = result_level(self.nest, m, self.count)
        inside = tuple(d for d in m.order[level:] if d in own and self.count[d] > 1)
        places, sure = prod(self.count[d] for d in inside), prod(self.least[d] for d in inside)
        twice = m.lead > 0 and (self.is_direct or not self.waits or self.is_apart)
        return Residence(own, level, inside, (), places, -(-2 // sure) if twice and level else 1)

    def is_spread(self, number: int) -> bool:
        """An operand of the body with one number for each output: it is repeated on chip."""
        return self.nest.kind != "weight_grad" and is_vector(self.nest.extras[number])

    def _extra(self, number: int) -> Residence:
        order, m = self.mapping.order, self.mapping
        assert self.epilogue is not None
        if is_scalar(self.nest.extras[number]):
            return residence((), order, self.count, self.least, 0, 1)
        if self.is_spread(number):
            whole = (
                self.nest.extents["n"]
                * self.nest.extents["g"]
                * self.epilogue.operands[number].dtype.itemsize
            )
            small = whole * VECTOR_SHARE <= room_of(self.machine, "nram")
            depth, level = self.depth + self.is_apart, 0 if small else len(DIMS)
            return residence(("g", "n"), order, self.count, self.least, level, depth)
        own, ahead = self.nest.own["out"], 1 if m.lead else 0
        return residence(own, order, self.count, self.least, len(DIMS), self.depth + ahead)

    @cached_property
    def rooms(self) -> dict[str, Room]:
        """Every buffer by its name."""
        e, r, left = self.elements, self.residences, self.nest.left
        found = [
            Room("left", "nram", aligned(left.bytes(e["left"])), r["left"].slots),
            Room("right", self._right_space(), aligned(left.bytes(e["right"])), r["right"].slots),
        ]
        if not (self.is_direct and self.is_made_there(0)):
            sums = aligned(self.sums.bytes(e["out"]))
            found.append(Room("sums", self._sum_space(), sums, r["sums"].slots))
        for name in self.filled:
            tile, kinds = (
                aligned(left.bytes(e[name])),
                self.sharing(name).kinds(self.machine.cores_per_cluster),
            )
            found.append(Room(f"parts_{name}", "sram", tile * kinds, 1 if self.is_single else 2))
        if self.has_body and self.is_narrowed:
            found.append(Room("narrow", "nram", aligned(self.nest.out.bytes(self.chunk)), 1))
        if not self.is_direct:
            for number, item in enumerate(self.result_items):
                if not self.is_made_there(number):
                    size = aligned(item * e["out"])
                    found.append(Room(f"result{number}", "nram", size, r["results"].slots))
        if self.epilogue is not None:
            found += self._epilogue_rooms()
        return {room.name: room for room in found if room.name != "left" or not self.left_there}

    def sharing(self, name: str) -> Sharing:
        return sharing_of(self.nest, self.mapping, name)

    @cached_property
    def pieces(self) -> int:
        """In how many pieces the first shared tiles come, so that cores take one while the next is loaded."""
        m, rooms = self.machine, {name: self.rooms[f"parts_{name}"].tile for name in self.filled}
        bus = max(1, min(m.sram.bus_bytes_per_cycle, m.sram.bytes_per_cycle))
        each = launched_clusters(m) / m.dram_bytes_per_cycle
        load = {name: tile * each / self.sharing(name).homes for name, tile in rooms.items()}
        inner = next((d for d in reversed(self.mapping.order) if self.count[d] > 1), "")
        again = [name for name in self.filled if inner and inner not in self.residences[name].zero]
        second = sum(load[name] for name in again)
        return int(pieces_of(sum(load.values()), sum(rooms.values()) / bus, second))

    @cached_property
    def turns(self) -> Turns | None:
        return turns_of(self.nest, self.mapping, self.machine) if self.count["k"] > 1 else None

    @cached_property
    def is_quiet(self) -> bool:
        """DRAM gives weights and what each output needs once, and is left alone from then on."""
        return self.is_at_home and all(self.count[d] == 1 for d in ("g", "n", "k"))

    def is_still(self, prefetched: Sequence[int]) -> bool:
        """Is DRAM left alone altogether where all of the right operand and these operands of the epilogue
        are there before it begins?"""
        short = [n for n, _ in enumerate(self.nest.extras) if self._is_short_extra(n)]
        return self.is_at_home and self.is_whole and set(short) <= set(prefetched)

    @cached_property
    def is_at_home(self) -> bool:
        """Are all images and results on chip?"""
        views = [v for n, v in enumerate(self.nest.extras) if not (self._is_short_extra(n))]
        near = [self.nest.image, *(views or [self.nest.other])]
        return self.nest.kind != "weight_grad" and all(is_near(v) for v in near)

    def _is_short_extra(self, number: int) -> bool:
        view = self.nest.extras[number]
        return is_vector(view) or is_scalar(view)

    @property
    def is_whole(self) -> bool:
        """Do all tiles of the right operand lie on chip at once, so that each is loaded once, in few copies?
        Of a shared one SRAM holds a single tile."""
        found = self.residences["right"]
        most = 1 if "right" in self.shared else self.machine.core.queues.depth // 2
        return found.level == 0 and found.places <= most

    @property
    def short_extras(self) -> tuple[int, ...]:
        """Operands of the epilogue with a number for each output, all of which lie on chip at once."""
        numbers = range(len(self.epilogue.operands) if self.epilogue else 0)
        few = {n: self.residences[f"extra{n}"] for n in numbers if self.is_spread(n)}
        return tuple(n for n, r in few.items() if r.level == 0 and r.places == 1)

    @property
    def is_single(self) -> bool:
        """One step does everything."""
        return all(count == 1 for count in self.count.values())

    def _right_space(self) -> str:
        """WRAM; an image that is spread by zeros lies where the vector unit can write them."""
        spread = self.nest.kind == "weight_grad" and self.nest.window.spread != (1, 1)
        return "nram" if spread else "wram"

    def _sum_space(self) -> str:
        """Accumulators of their own where the machine has them and nothing else must read the sums."""
        whole = aligned(self.sums.bytes(self.elements["out"])) * self.residences["sums"].slots
        fits = whole <= room_of(self.machine, "acc")
        return "acc" if self.is_direct and fits and self.nest.kind in ("product", "forward") else "nram"

    def _epilogue_rooms(self) -> list[Room]:
        assert self.epilogue is not None
        found = []
        for number, tensor in enumerate(self.epilogue.operands):
            slots, item = self.residences[f"extra{number}"].slots, tensor.dtype.itemsize
            is_short = self.is_spread(number) or (number not in self.read)
            count = self._outputs if is_short else self.elements["out"]
            if number not in self.there:
                found.append(Room(f"extra{number}", "nram", aligned(item * count), slots))
            if self.is_spread(number) and number in self.read and self.has_body:
                found.append(Room(f"spread{number}", "nram", aligned(item * self.chunk), 1))
        if self.body is not None:
            need = self.body.scratch_bytes(self.chunk)
            found.append(Room("scratch", "nram", aligned(max(need, 1)), 1))
        return found

    def used(self) -> dict[str, int]:
        """Bytes of each memory."""
        found: dict[str, int] = {}
        for room in self.rooms.values():
            found[room.space] = found.get(room.space, 0) + room.bytes
        return found

    def overflow(self) -> str | None:
        """Which memory is too small, or None."""
        for space, need in self.used().items():
            room = room_of(self.machine, space)
            if need > room:
                return f"{space} would need {need} bytes of {room}"
        pool, both = self.machine.core.pool_kib * 1024, sum(self.used().get(s, 0) for s in ("nram", "wram"))
        return f"nram and wram would need {both} bytes of a pool of {pool}" if pool and both > pool else None
