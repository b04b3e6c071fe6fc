"""Split tensors: what a user holds of a tensor whose parts lie on the ranks of a mesh.

A split tensor has the shape and dtype of the whole (the global view). Its numbers are spread over ranks:
who looks at them on one rank (`item`, `numpy`, an eager operation) is told so. `whole(x)` gathers them on
all ranks, `local(x)` gives this rank's part, and functions made by `sharded` compute with them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from trilobite.base.errors import ArgumentError, ClusterError
from trilobite.base.locations import user_location
from trilobite.cluster.meshes import Mesh
from trilobite.cluster.sharding.conversion import Converter, Costs
from trilobite.cluster.sharding.placements import (
    Placement,
    canonical,
    fits,
    local_type,
    ranges,
)
from trilobite.cluster.sharding.placements import (
    whole as all_whole,
)
from trilobite.framework.nn.module import Module
from trilobite.framework.optim.optimizer import Optimizer
from trilobite.framework.tensor import Tensor, wrap
from trilobite.ir.evaluate import run
from trilobite.ir.graph import Equation, Graph, Var
from trilobite.ir.primitive import table
from trilobite.ir.transforms import cells
from trilobite.ir.transforms.cells import Cell
from trilobite.ir.types import TensorType, type_of

Array = np.ndarray[Any, Any]


@dataclass(eq=False)
class Parts:
    """This rank's part of a split tensor, and how it lies. With a `home`, only the ranks at that place of a
    side have it: the parameters of a pipeline's stage.
    """

    mesh: Mesh
    type: TensorType  # of the whole
    placement: Placement
    local: Array
    home: tuple[str, int] | None = None

    @property
    def here(self) -> bool:
        """Has this rank a part of it?"""
        return self.home is None or self.mesh.place[self.home[0]] == self.home[1]

    @property
    def text(self) -> str:
        lies = self.placement.text(self.mesh.names)
        return lies if self.home is None else f"{self.home[0]} {self.home[1]}, {lies}"


_pins: WeakKeyDictionary[Cell, tuple[Mesh, Placement]] = WeakKeyDictionary()


def parts_of(cell: Cell) -> Parts | None:
    """What a cell holds, if it is split."""
    who = cells.kept_by(cell)
    return who if isinstance(who, Parts) else None


def pin_of(cell: Cell, mesh: Mesh) -> Placement | None:
    """Where its owner said that it lies."""
    found = _pins.get(cell)
    if found is not None and found[0] != mesh:
        raise ClusterError(
            f"a tensor that lies on {found[0]} in a function that is split over {mesh}",
            where=user_location(),
            expected="one mesh",
        )
    return None if found is None else found[1]


def coordinates(mesh: Mesh) -> tuple[int, ...]:
    return tuple(mesh.place[name] for name in mesh.names)


def stand_in(t: TensorType) -> Array:
    """Of the right shape and dtype, without memory."""
    return np.broadcast_to(np.zeros((), t.dtype), t.shape)  # type: ignore[arg-type]


def put(cell: Cell, parts: Parts) -> None:
    """From now on a cell holds a part alone."""
    if type(cell) is not Cell:
        cell.value = stand_in(parts.type)
    array = cell.held = stand_in(parts.type)

    def bring() -> Array:
        raise ClusterError(
            f"a tensor {parts.type} that is split over ranks ({parts.text}) was "
            "read as a whole on one of them",
            where=user_location(),
            expected="operations inside a function made by tb.cluster.sharded",
            remedy="tb.cluster.whole(x) on all ranks gathers it; tb.cluster.local(x) is this rank's part",
        )

    cells.put_away(cell, array, parts, bring)


def placement(t: TensorType, mesh: Mesh, sides: Mapping[str, int | None]) -> Placement:
    """A placement as users say it: for sides of the mesh, the dimension that each splits."""
    axes: list[Any] = [None] * len(mesh.names)
    for name, dimension in sides.items():
        if name not in mesh.names or (dimension is not None and not -t.ndim <= dimension < t.ndim):
            raise ArgumentError(
                f"a tensor {t} with dimension {dimension} split along {name!r}",
                where=user_location(),
                expected=f"sides {mesh.names} and dimensions from {-t.ndim} to {t.ndim - 1}",
            )
        axes[mesh.names.index(name)] = None if dimension is None else dimension % t.ndim
    found = canonical(t, Placement(tuple(axes), (1,) * t.ndim), mesh.shape)
    if not fits(t, found, mesh.shape):
        raise ArgumentError(
            f"a tensor {t} split as {found.text(mesh.names)} over a mesh of {mesh.shape}",
            where=user_location(),
            expected="at least one element of every dimension for every rank",
            remedy="split a larger dimension, or leave this one whole: tb.cluster.shard(x, mesh)",
        )
    return found


def shard(
    x: Any, mesh: Mesh, rules: Mapping[str, Mapping[str, int | None]] | None = None, **sides: int | None
) -> Any:
    """Split a tensor in place: `shard(w, mesh, model=0)` leaves each rank along "model" its rows. All ranks
    hold the same whole tensor before. Without sides it stays whole, and functions leave it so. A module takes
    `rules`: of its parameters and buffers, those whose names match:
    `{"*.up.weight": {"model": 0}}`.
    """
    if isinstance(x, Module):
        _shard_module(x, mesh, rules or {}, sides)
        return x
    if not isinstance(x, Tensor) or x._view is not None or rules is not None:
        raise ArgumentError(
            f"shard of {type(x).__name__}",
            where=user_location(),
            expected="a tensor that is no view of another, or a module with rules",
        )
    t = type_of(x._cell.held)
    p = placement(t, mesh, sides)
    if parts_of(x._cell) is not None:
        unshard(x)
    _pins[x._cell] = mesh, p
    if not p.is_whole:
        put(x._cell, Parts(mesh, t, p, own_part(Parts(mesh, t, p, x._cell.value), x._cell.value)))
    return x


def own_part(parts: Parts, whole: Array) -> Array:
    """This rank's part of an array that lies as `parts` does; without memory if it has none."""
    if not parts.here:
        return stand_in(local_type(parts.type, parts.placement, parts.mesh.shape, coordinates(parts.mesh)))
    at = ranges(parts.type.shape, parts.placement, parts.mesh.shape, coordinates(parts.mesh))  # type: ignore[arg-type]
    return np.ascontiguousarray(whole[tuple(slice(r.begin, r.end) for r in at)]).copy()


def _shard_module(
    module: Module, mesh: Mesh, rules: Mapping[str, Mapping[str, int | None]], sides: Mapping[str, int | None]
) -> None:
    named = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    for pattern, wanted in rules.items():
        found = [t for name, t in named.items() if fnmatchcase(name, pattern)]
        if not found:
            raise ArgumentError(
                f"no parameter matches {pattern!r}",
                where=user_location(),
                expected=f"some of {sorted(named)}",
            )
        for t in found:
            shard(t, mesh, None, **wanted)
    if sides or not rules:
        raise ArgumentError(
            "shard of a module", where=user_location(), expected="rules: {pattern: {side: dimension}}"
        )


def from_local(x: Any, mesh: Mesh, size: int | None = None, **sides: int | None) -> Tensor:
    """A split tensor made of what each rank has: `from_local(rows, mesh, data=0)`. `size` is that of the
    whole dimension where parts are uneven; they must be as `shard` cuts them.
    """
    local = x.detach().numpy() if isinstance(x, Tensor) else np.asarray(x)
    shape = list(local.shape)
    for name, dimension in sides.items():
        if dimension is not None:
            shape[dimension] = shape[dimension] * mesh.size(name) if size is None else size
    t = TensorType(tuple(shape), local.dtype)
    p = placement(t, mesh, sides)
    expected = local_type(t, p, mesh.shape, coordinates(mesh))
    if expected.shape != local.shape:
        raise ArgumentError(
            f"a part {list(local.shape)} of a tensor {t}",
            where=user_location(),
            expected=f"{list(expected.shape)}",
        )
    out = wrap(stand_in(t))
    put(out._cell, Parts(mesh, t, p, np.ascontiguousarray(local)))
    return out


def is_split(x: Tensor) -> bool:
    return parts_of(x._cell) is not None


def local(x: Tensor) -> Tensor:
    """This rank's part (a copy); all of a tensor that is not split."""
    found = parts_of(x._cell)
    if found is not None and not found.here:
        raise ClusterError(
            f"the part of a tensor {found.type} ({found.text}) on a rank that has none",
            where=user_location(),
            expected="a rank of that stage",
            remedy="tb.cluster.whole(x) on all ranks gathers it",
        )
    return x.detach().clone() if found is None else wrap(found.local.copy())


def gathered(parts: Parts) -> Array:
    """The whole array, on all ranks: a collective."""
    at = coordinates(parts.mesh)
    converter = Converter(parts.mesh.shape, at, Costs())
    target = all_whole(len(parts.mesh.shape), parts.type.ndim)
    x = Var(type_of(parts.local))
    now, equations = x, []
    for s in converter.steps(parts.type, parts.placement, target):
        equations.append(Equation.of(s.primitive, (now,), s.attributes, user_location()))
        (now,) = equations[-1].outputs
    found: Array = np.array(run(Graph([x], equations, [now]), [np.ascontiguousarray(parts.local)])[0])
    if parts.home is None:
        return found
    side, root = parts.home
    return np.array(table["cluster_broadcast"](found, groups=parts.mesh[side].groups, root=root))


def whole(x: Tensor) -> Tensor:
    """The whole tensor on every rank. All ranks call it."""
    found = parts_of(x._cell)
    return x.detach().clone() if found is None else wrap(gathered(found))


def unshard(*things: Any) -> None:
    """Tensors, parameters of modules, gradients and state of optimisers become whole again, in place, on all
    ranks: for checkpoints, and for code that knows nothing of meshes. All ranks call it.
    """
    for t in _tensors(things):
        found = parts_of(t._cell)
        if found is not None:
            t._cell.value = gathered(found)
        _pins.pop(t._cell, None)


def _tensors(things: Iterable[Any]) -> Iterable[Tensor]:
    for x in things:
        if isinstance(x, Tensor):
            yield x
            if x.grad is not None:
                yield x.grad
        elif isinstance(x, Module):
            yield from _tensors([*x.parameters(), *x.buffers()])
        elif isinstance(x, Optimizer):
            yield from _tensors(x.state.values())
        elif isinstance(x, Mapping):
            yield from _tensors(x.values())
        elif isinstance(x, list | tuple):
            yield from _tensors(x)
