"""Writes docs/search.md: the search's winner of twenty layers beside random legal mappings and a default.

    python -m tools.search_pays                       # all twenty layers, 2,000 mappings each
    python -m tools.search_pays --layers 0,1 --mappings 200

Layers are of ResNet-50 and VGG19 with bias and ReLU (int8: requantised, too), on dlp-s at batch 1. Random
mappings are drawn from all that is legal, not only from the space that is searched: any tile sizes, orders of
loops, levels, buffers. Each is predicted by T0; those beyond four times the winner's T0 count as worse, all
others are timed by T1 without data. The default is greedy: loops in the order places, outputs, inputs, and
tiles of one granule that grow along inputs, outputs and places as long as they fit.

Figures of each layer are kept in a JSON file below `out/`, so that a run that was stopped goes on.
"""

from __future__ import annotations

import argparse
import json
import random
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.chip_layers import FORMATS, Layer, problem_of, resnet50, vgg19
from trilobite.compiler.targets.dlp.contraction.choose import choose
from trilobite.compiler.targets.dlp.contraction.function import cycles_of
from trilobite.compiler.targets.dlp.contraction.lower import nest_for
from trilobite.compiler.targets.dlp.contraction.mapping import Mapping
from trilobite.compiler.targets.dlp.contraction.nest import DIMS, Nest
from trilobite.compiler.targets.dlp.contraction.places import Plan
from trilobite.compiler.targets.dlp.contraction.predict import predicted
from trilobite.compiler.targets.dlp.contraction.search import shape_of
from trilobite.compiler.targets.dlp.contraction.space import granules, is_legal
from trilobite.compiler.targets.dlp.interfaces import Epilogue
from trilobite.processor.machine import Machine, load_machine

PAGE = Path(__file__).resolve().parents[1] / "docs" / "search.md"
MACHINE = "dlp-s"
NAMES = {
    "resnet50": ("conv1", "layer1.conv1", "layer1.conv2", "layer1.conv3", "layer2.0.conv2", "layer2.conv2",
                 "layer3.0.downsample", "layer3.conv1", "layer3.conv2", "layer4.conv2", "layer4.conv3", "fc"),
    "vgg19": ("conv1_1", "conv2_2", "conv4_1", "conv5_2"),
}  # fmt: skip
WIDER = (("resnet50", "layer3.conv2", "float32"), ("resnet50", "layer2.conv3", "float16"),
         ("vgg19", "conv3_2", "float32"), ("vgg19", "fc8", "float16"))  # fmt: skip
HEAD = """# What the search of mappings is worth

Written by `python -m tools.search_pays`. Twenty layers of ResNet-50 and VGG19 on dlp-s, batch 1, each with
its bias and ReLU (int8: requantised, too); cycles by T1 without data, launch excluded. *Best of random* is
the quickest of {mappings:,} legal mappings drawn at random from everything that is legal (any tiles, orders,
levels, buffers); those whose T0 exceeds four times the winner's count as worse and are not timed. *Greedy* is
a default without search: tiles of one granule that grow as long as they fit. Aim: within 3% of the best.
"""


@dataclass(frozen=True)
class Result:
    """One layer: cycles of the winner, of the best of the random mappings, of the greedy default."""

    network: str
    layer: str
    dtype: str
    candidates: int
    timed: int
    winner: int
    best: int
    greedy: int
    mapping: str
    better: str  # the mapping that is quicker than the winner, if there is one

    @property
    def excess(self) -> float:
        return 100 * (self.winner / min(self.best, self.winner) - 1)


def layers() -> list[tuple[str, Layer, str]]:
    known = {"resnet50": {x.name: x for x in resnet50()}, "vgg19": {x.name: x for x in vgg19()}}
    plain = [(net, known[net][name], "int8") for net, names in NAMES.items() for name in names]
    return plain + [(net, known[net][name], dtype) for net, name, dtype in WIDER]


def drawn(nest: Nest, machine: Machine, epilogue: Epilogue | None, count: int, seed: int) -> list[Mapping]:
    """Different legal mappings that fit, by chance."""
    rnd, found = random.Random(seed), dict[Mapping, None]()
    for _ in range(400 * count):
        order = tuple(rnd.sample(DIMS, len(DIMS)))
        levels = rnd.randint(0, 6), rnd.randint(0, 6)
        m = Mapping(
            tuple(_tile(nest, machine, d, rnd) for d in DIMS), order, *levels, rnd.choice((0, 1, 1, 2))
        )
        if (
            m not in found
            and is_legal(nest, m, machine)
            and Plan(nest, m, machine, epilogue).overflow() is None
        ):
            found[m] = None
            if len(found) == count:
                break
    return list(found)


def _tile(nest: Nest, machine: Machine, dim: str, rnd: random.Random) -> int:
    """Of one place, whole, cut evenly, a multiple of the granule, or of any size."""
    extent = nest.extents[dim]
    if dim in ("b", "g"):
        return 1 if dim == "b" or nest.kind == "product" else rnd.choice((1, extent))
    granule = granules(nest, machine)[dim]
    whole = min(extent, granule * rnd.randint(1, -(-extent // granule)))
    return rnd.choice((extent, -(-extent // rnd.randint(1, 8)), whole, rnd.randint(1, extent)))


def greedy(nest: Nest, machine: Machine, epilogue: Epilogue | None) -> Mapping:
    """Tiles that grow from a granule, inputs first, as long as everything fits."""
    grain = granules(nest, machine)
    tiles = {d: min(grain[d], nest.extents[d]) for d in DIMS}
    tiles["q"] = nest.extents["q"]

    def made() -> Mapping:
        return Mapping(tuple(tiles[d] for d in DIMS))

    def fits() -> bool:
        return is_legal(nest, made(), machine) and Plan(nest, made(), machine, epilogue).overflow() is None

    if not fits():
        tiles["q"] = 1
    for dim in ("k", "n", "p"):
        while tiles[dim] < nest.extents[dim]:
            before = tiles[dim]
            tiles[dim] = min(nest.extents[dim], 2 * before)
            if not fits():
                tiles[dim] = before
                break
    return made()


def result_of(network: str, layer: Layer, dtype: str, machine: Machine, count: int) -> Result:
    problem, epilogue = problem_of(layer, 1, FORMATS[dtype], machine)
    nest = nest_for(problem, epilogue)
    shape = shape_of(nest, epilogue)

    def t1(mapping: Mapping) -> int:
        return cycles_of(Plan(nest, mapping, machine, epilogue), 1)

    found = choose(nest, machine, 1, epilogue)
    winner = found.timed or t1(found.mapping)
    limit = 4 * predicted(nest, machine, shape, found.mapping)
    mappings = drawn(nest, machine, epilogue, count, seed=1)
    near = [m for m in mappings if predicted(nest, machine, shape, m) <= limit]
    times = [(t1(m), str(m)) for m in near]
    best, text = min(times, default=(winner, ""))
    default = t1(greedy(nest, machine, epilogue))
    better = text if best < winner else ""
    return Result(
        network,
        layer.name,
        dtype,
        len(mappings),
        len(near),
        winner,
        best,
        default,
        str(found.mapping),
        better,
    )


def page(found: list[Result]) -> str:
    lines = [HEAD.format(mappings=max(r.candidates for r in found))]
    lines += ["| layer | format | winner | best of random | winner over best | timed | greedy | gain |",
              "|---|---|---:|---:|---:|---:|---:|---:|"]  # fmt: skip
    lines += [
        f"| {r.network} {r.layer} | {r.dtype} | {r.winner:,} | {r.best:,} | {r.excess:+.1f}% | {r.timed} "
        f"| {r.greedy:,} | x {r.greedy / r.winner:.2f} |"
        for r in found
    ]
    within = sum(r.excess <= 3 for r in found)
    product = 1.0
    for r in found:
        product *= r.greedy / r.winner
    gain = product ** (1 / len(found))
    lines += ["", f"{within} of {len(found)} within 3%; against greedy x {gain:.2f} (geometric mean)."]
    worse = [r for r in found if r.excess > 3]
    lines += [f"\nBeaten: {r.network} {r.layer} {r.dtype}: `{r.mapping}` by `{r.better}`." for r in worse]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--mappings", type=int, default=2000)
    parser.add_argument("--layers", default="", help="numbers, with commas between")
    parser.add_argument("--keep", default="out/search_pays.json", help="file of figures that are there")
    given = parser.parse_args()
    path, machine = Path(given.keep), load_machine(MACHINE)
    kept: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    every = layers()
    for number in map(int, given.layers.split(",")) if given.layers else range(len(every)):
        network, layer, dtype = every[number]
        key = f"{number} {network} {layer.name} {dtype} {given.mappings}"
        if key not in kept:
            kept[key] = asdict(result_of(network, layer, dtype, machine, given.mappings))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(kept, indent=1), encoding="utf-8")
        r = Result(**kept[key])
        print(
            f"{key}: {r.winner} best {r.best} {r.excess:+.1f}% greedy {r.greedy} timed {r.timed}", flush=True
        )
    found = [Result(**v) for _, v in sorted(kept.items(), key=lambda item: int(item[0].split()[0]))]
    if len(found) == len(every):
        PAGE.write_text(page(found), encoding="utf-8")


if __name__ == "__main__":
    main()
