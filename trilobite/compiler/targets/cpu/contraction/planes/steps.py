"""Sizes of the convolution of planes: its tables, how it is cut into units, and the words of its steps.

Enters: a `conv_planes` and its epilogue. Leaves: kernels and steps. One kernel text serves all sizes of a
combination of dtype and epilogue; a source that is padded or of which a stride leaves pixels out is copied
first (`planes_source`).
"""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np

from trilobite.base.records import dataclass
from trilobite.compiler.program.kernels import Lowering, Operand, Step
from trilobite.compiler.targets.cpu.contraction.finish import epilogue_words, plain_stride
from trilobite.compiler.targets.cpu.contraction.planes.kernel import (
    PLACES,
    Planes,
    PlaneWords,
    packed_bytes,
    pixels_of,
    tile_bytes,
)
from trilobite.compiler.targets.cpu.contraction.planes.source import source_step
from trilobite.compiler.targets.cpu.contraction.planes.tile import FILTERS, VECTORS, are_filled
from trilobite.compiler.targets.cpu.contraction.tables import Array, runs_of
from trilobite.compiler.targets.cpu.contraction.tiling import Tiling, tilings
from trilobite.compiler.targets.cpu.contraction.words import Content, Form, contents, forms
from trilobite.compiler.targets.cpu.epilogue import Epilogue
from trilobite.compiler.targets.cpu.kernel import NativeKernel
from trilobite.ir.graph import Equation
from trilobite.ir.types import Affine, Dim
from trilobite.native.host import Host

# Of a block: 24 pixels of it are 18 KiB, so that weights pass through the first-level cache, too
_DEPTH = 192
_WEIGHTS = 192 << 10  # bytes of a run of filters by a block of depth: they stay in the second-level cache,
_SUMS = 128 << 10  # and so do the sums that wait for the next block
_PANELS = 16  # of pixels that a block has at most
_SERIAL = 1 << 15  # multiplications: below, waking another thread costs more than it brings


@dataclass(frozen=True)
class Geometry:
    """Where pixels and taps lie in a plane, in elements."""

    plane: int
    pixels: Array  # of each output pixel its first tap
    taps: Array  # how far each tap is from that


def lower_planes(e: Equation, epilogue: Epilogue, inputs: tuple[int, int], host: Host) -> Lowering:
    """A `conv_planes` whose operands are these inputs of the fusion."""
    x, y, a = e.inputs[0].type, e.outputs[0].type, e.attributes
    tile = tile_of(e, host)
    kernel: tuple[int, ...] = tuple(a["kernel"])
    space, out = (tuple(int(n) for n in t.shape[2:]) for t in (x, y))
    source = Operand("in", inputs[0])
    steps: list[Step] = []
    temporaries: tuple[Dim, ...] = ()
    in_place = _in_place(a, kernel, space, out)
    if in_place is not None and (as_it_lies(e) or _stays_inside(in_place, tile.lanes)):
        geometry = in_place
    else:
        geometry, axes, length = _copied(a, kernel, space, out, tile.lanes)
        copy, planes = Operand("temporary", 0), x.shape[0] * x.shape[1]
        steps.append(source_step(host, x.dtype, source, copy, planes, axes, a["stride"][-1], length))
        source = copy
        temporaries = ((planes * geometry.plane + pixels_of(tile)) * x.dtype.itemsize,)
    tables = _tables(geometry, int(x.shape[1]), tile.lanes, tile.size)
    if int(y.shape[1]) and len(geometry.pixels):
        buffers = source, Operand("in", inputs[1])
        steps.append(_step(e, geometry, tile, epilogue, buffers, host))
    why = f"planes: {len(geometry.taps)} taps of {x.shape[1]} channels, tiles of {FILTERS} filters"
    return Lowering(tuple(steps), temporaries, tables, why=f"{why} x {pixels_of(tile)} pixels")


def tile_of(e: Equation, host: Host) -> Tiling:
    """With the widest vectors that lines of pixels fill: one holds the ends of two lines at most."""
    plain, *wide = tilings(host, e.inputs[0].type.dtype, e.attributes["dtype"])
    shape = [int(n) for n in e.outputs[0].type.shape[2:]]
    return next((t for t in wide if are_filled(t.lanes, shape)), plain)


def as_it_lies(e: Equation) -> bool:
    """Does every output pixel read the one source pixel with its own number?"""
    a = e.attributes
    ones = (*a["kernel"], *a["stride"])
    return all(n == 1 for n in ones) and not any((*a["low"], *a["high"]))


def _in_place(
    a: Any, kernel: tuple[int, ...], space: tuple[int, ...], out: tuple[int, ...]
) -> Geometry | None:
    """The geometry of the source itself, if no pixel has a tap outside and neighbours have neighbours."""
    if a["stride"][-1] != 1 or any((*a["low"], *a["high"])):
        return None
    steps = [math.prod(space[i + 1 :]) for i in range(len(space))]
    pixels, taps = (
        sum(
            np.meshgrid(*(np.arange(n) * s * step for n, s, step in zip(*each, strict=True)), indexing="ij"),
            np.zeros((), np.int64),
        ).ravel()
        for each in ((out, a["stride"], steps), (kernel, a["w_dilation"], steps))
    )
    return Geometry(math.prod(space), pixels, taps)


def _stays_inside(g: Geometry, lanes: int) -> bool:
    """Are whole vectors read where pixels are alone? A panel that is one run reads nothing else; of others
    a vector may go on behind the last pixel, where memory may end.
    """
    if not len(g.pixels):
        return False
    places = _tables(g, 0, lanes, 1)[1]
    begins = places[places[:, 0] == 0, 1:].reshape(-1, 3)[:, :2]
    return bool((begins >= 0).all() and (begins + lanes <= g.pixels[-1] + 1).all())


def _copied(
    a: Any, kernel: tuple[int, ...], space: tuple[int, ...], out: tuple[int, ...], lanes: int
) -> tuple[Geometry, list[tuple[int, int, int]], int]:
    """The geometry of a copy, its axes for `source_step`, and the length of a part of its lines."""
    stride, dilation = a["stride"], a["w_dilation"]
    needed = [
        max((n - 1) * s + (k - 1) * d + 1, 1)
        for n, s, k, d in zip(out, stride, kernel, dilation, strict=True)
    ]
    length = -(-needed[-1] // (stride[-1] * lanes)) * lanes
    whole = [*needed[:-1], stride[-1] * length]
    steps = [math.prod(whole[i + 1 :]) for i in range(len(whole))]
    places = [np.arange(n) * s * step for n, s, step in zip(out, stride, steps, strict=True)]
    places[-1] = np.arange(out[-1])
    taps = []
    for tap in product(*(range(k) for k in kernel)):
        at = [t * d for t, d in zip(tap, dilation, strict=True)]
        part, along = at[-1] % stride[-1], at[-1] // stride[-1]
        taps.append(
            sum(n * step for n, step in zip(at[:-1], steps[:-1], strict=True)) + part * length + along
        )
    pixels = sum(np.meshgrid(*places, indexing="ij"), np.zeros((), np.int64)).ravel()
    axes = list(zip(space, whole, a["low"], strict=True))
    return Geometry(math.prod(whole), pixels, np.array(taps, np.int64)), axes, length


def _tables(g: Geometry, channels: int, lanes: int, size: int) -> tuple[Array, Array]:
    """In bytes: of each channel and tap how far its row is; of each panel of pixels `PLACES`."""
    offsets = (g.taps + np.arange(channels)[:, None] * g.plane).ravel() * size
    vectors = -(-len(g.pixels) // (lanes * VECTORS)) * VECTORS
    filled = np.pad(g.pixels, (0, vectors * lanes - len(g.pixels)), "edge").reshape(vectors, lanes)
    # What is beyond the last pixel counts as going on: nothing reads the sums.
    beyond = np.arange(vectors * lanes).reshape(vectors, lanes) >= len(g.pixels)
    steps = (filled - filled[:, :1] == np.arange(lanes)) | beyond
    mine = steps.sum(1)
    after = filled[np.arange(vectors), np.minimum(mine, lanes - 1)]
    after = np.where(mine < lanes, after - mine, filled[:, 0])
    places = np.zeros((vectors // VECTORS, PLACES), np.int64)
    for i, column in enumerate((filled[:, 0] * size, after * size, mine)):
        places[:, 1 + i :: 3] = column.reshape(-1, VECTORS)
    firsts = filled[:, 0].reshape(-1, VECTORS)
    running = (firsts - firsts[:, :1] == np.arange(VECTORS) * lanes) | beyond[:, 0].reshape(-1, VECTORS)
    places[:, 0] = running.all(1) & (mine.reshape(-1, VECTORS) == lanes).all(1)
    rows: Array = offsets if len(offsets) else np.zeros(1, np.int64)
    return rows.astype(np.int64), places


def _step(
    e: Equation, g: Geometry, tile: Tiling, epilogue: Epilogue, buffers: tuple[Operand, Operand], host: Host
) -> Step:
    x, y = e.inputs[0].type, e.outputs[0].type
    channels, filters = int(x.shape[1]), int(y.shape[1])
    depth, pixels = channels * len(g.taps), len(g.pixels)
    panels, filter_panels = -(-pixels // pixels_of(tile)), -(-filters // FILTERS)
    pieces = max(-(-depth // _DEPTH), 1)
    depth_block = max(-(-depth // (4 * pieces)) * 4, 4)
    wanted = -(-filter_panels * FILTERS * depth_block * tile.size // _WEIGHTS)
    runs, run = runs_of(filter_panels, wanted)
    kept = tile_bytes(tile) if pieces > 1 else 0
    block = max(min(_PANELS, _SUMS // max(kept * run, 1)), 1)
    sums_at = packed_bytes(tile, depth_block)
    words: PlaneWords[Content] = PlaneWords(
        *buffers, Operand("constant", 0), Operand("constant", 1), epilogue_words(epilogue),
        tuple(plain_stride(o.batch_stride) for o in epilogue.operands),
        sums_at=sums_at, kept=kept, runs=runs, run=run, filter_panels=filter_panels, filters=filters,
        panels=panels, block=block, pixels=pixels, depth=depth, depth_block=depth_block,
        image=channels * g.plane,
    )  # fmt: skip
    scratch = sums_at + max(kept * run * block, 2 * tile_bytes(tile))
    text = _text(host, tile, epilogue, forms(words))
    kernel = NativeKernel(epilogue.named("conv_planes"), text, scratch=scratch)
    images = 1 if isinstance(x.shape[0], Affine) else x.shape[0]
    work = 2.0 * images * pixels * depth * filters
    return Step(kernel, contents(words), x.shape[0] * (runs * panels), work, work < 2 * _SERIAL)


@lru_cache(maxsize=256)
def _text(host: Host, tile: Tiling, epilogue: Epilogue, words: PlaneWords[Form]) -> str:
    return Planes(host, tile, epilogue, words).text()
