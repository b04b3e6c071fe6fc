"""The mapping of a problem: for now, the largest tiles that fit, split over rows or outputs."""

from __future__ import annotations

from trilobite.base.errors import KernelError
from trilobite.compiler.targets.dlp.contraction.mapping import Mapping, ceil_div
from trilobite.compiler.targets.dlp.contraction.nest import DIMS, Nest
from trilobite.compiler.targets.dlp.contraction.places import Plan
from trilobite.compiler.targets.dlp.contraction.space import is_legal
from trilobite.compiler.targets.dlp.interfaces import Epilogue
from trilobite.processor.machine import Machine


def default_mapping(nest: Nest, machine: Machine, cores: int, epilogue: Epilogue | None) -> Mapping:
    """Begins with the whole problem and halves the dim whose tile weighs most until it fits."""
    tiles = {d: nest.extents[d] for d in DIMS}
    tiles["b"] = 1
    if nest.kind == "product":
        tiles["g"] = 1
    clusters, within = _division(nest, machine, cores)
    for dim, parts, more in zip(DIMS, clusters, within, strict=True):
        tiles[dim] = max(1, ceil_div(tiles[dim], parts * more))
    while True:
        m = Mapping(tuple(tiles[d] for d in DIMS), ("g", "n", "b", "p", "q", "k"), 6, 6, 1, clusters, within)
        if nest.kind == "weight_grad":
            m = Mapping(m.tiles, ("g", "n", "k", "b", "p", "q"), 6, 6, 1, clusters, within)
        if is_legal(nest, m) and Plan(nest, m, machine, epilogue).overflow() is None:
            return m
        if not _shrink(nest, tiles):
            raise KernelError(
                f"no tile of the problem fits {machine.name}: {Plan(nest, m, machine, epilogue).overflow()}",
                expected="scratchpads that hold one place of each operand",
                remedy="use a machine with more",
            )


def _division(nest: Nest, machine: Machine, cores: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    clusters = cores // machine.cores_per_cluster if cores > 1 else 1
    within = machine.cores_per_cluster if cores > 1 else 1
    dim = "n" if nest.kind == "weight_grad" or nest.extents["p"] < cores else "p"
    place = DIMS.index(dim)
    return tuple(clusters if i == place else 1 for i in range(6)), tuple(
        within if i == place else 1 for i in range(6)
    )


def _shrink(nest: Nest, tiles: dict[str, int]) -> bool:
    if tiles["g"] > 1:
        tiles["g"] = ceil_div(tiles["g"], 2)
        return True
    dims = ("n", "k") if nest.whole_images else ("p", "q", "n", "k")
    dim = max(dims, key=lambda d: tiles[d])
    if tiles[dim] == 1:
        return False
    tiles[dim] = ceil_div(tiles[dim], 2)
    return True


def choose(nest: Nest, machine: Machine, cores: int, epilogue: Epilogue | None) -> Mapping:
    return default_mapping(nest, machine, cores, epilogue)
