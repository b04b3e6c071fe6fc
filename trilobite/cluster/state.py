"""The state of a training whose parts lie on ranks: every tensor by its path in the tree of a checkpoint.

Enters: a model with its optimiser, split in whatever way. Leaves: places, each a tensor that this rank holds
and how it lies in the whole one; whole arrays, gathered one at a time, each kept by one rank that has it (or
by several), so that no rank ever holds all of them; and the way back. Names are those of one process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any, NamedTuple

import numpy as np

from trilobite.base.dtypes import BY_NAME
from trilobite.base.errors import StateError
from trilobite.base.locations import user_location
from trilobite.cluster.gradients import DataParallel
from trilobite.cluster.pipelines import Pipeline
from trilobite.cluster.sequence import share_parameters
from trilobite.cluster.server import ParameterServer
from trilobite.cluster.sharding.tensors import gathered, own_part, parts_of, put
from trilobite.cluster.splits import Split, Steps, steps_of
from trilobite.cluster.talk import told
from trilobite.cluster.zero import Zero
from trilobite.framework.modes import no_grad
from trilobite.framework.nn.module import Module
from trilobite.framework.optim.optimizer import Optimizer
from trilobite.framework.tensor import Tensor, wrap

Array = np.ndarray[Any, Any]
Path = tuple[str, ...]
SAMPLES = 16  # elements of an array that ranks compare
_WHOLE = Steps()


class Place(NamedTuple):
    """A tensor that this rank holds, or its part of it."""

    path: Path
    tensor: Tensor
    steps: Steps

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the whole: a tensor of a mesh shows it itself."""
        return self.steps.shape(self.tensor.shape)

    def whole(self) -> Array:
        """The whole array; a collective where it is split."""
        found = parts_of(self.tensor._cell)
        if found is not None:
            return gathered(found)
        return self.steps.whole(np.array(self.tensor.detach().numpy()))

    def part(self, whole: Array) -> Array:
        """This rank's part of it, as the tensor holds it."""
        if tuple(whole.shape) != self.shape:
            raise StateError(
                f"a saved tensor of {list(whole.shape)}",
                where=f"{'.'.join(self.path)}, at {user_location()}",
                expected=f"{list(self.shape)}",
            )
        found = parts_of(self.tensor._cell)
        part = self.steps.part(whole) if found is None else own_part(found, whole)
        return part.astype(self.tensor.dtype)

    def take(self, part: Array) -> None:
        found = parts_of(self.tensor._cell)
        if found is None:
            self.tensor._store(wrap(part)._read())
        else:
            put(
                self.tensor._cell,
                replace(found, local=np.ascontiguousarray(part) if found.here else found.local),
            )


class Held(NamedTuple):
    """A parameter as a rank holds it, with its name in one process."""

    name: str
    tensor: Tensor
    steps: Steps


def held(module: Module) -> Iterator[Held]:
    """All parameters of a model, whatever stands around or instead of its layers."""
    inner = module.module if isinstance(module, Zero) else module
    steps = steps_of(inner)
    rows: Iterable[tuple[str, Tensor]] = inner.named_parameters()
    if not isinstance(module, Zero):
        for name, p in rows:
            yield Held(_plain(inner, name), p, steps.get(id(p), _WHOLE))
        return
    for (name, p), shard, shape in zip(rows, module.shards, module._shapes, strict=True):
        sizes = tuple(int(d) for d in shape)
        line = Split(module.group, 0, prod(sizes), line=sizes)
        yield Held(_plain(inner, name), shard, Steps((line, *steps.get(id(p), _WHOLE))))


def _plain(module: Module, name: str) -> str:
    """The name without the modules that only stand around others."""
    out, at = [], module
    for part in name.split("."):
        if isinstance(at, Pipeline):
            out.append(part.removeprefix("stage"))  # as nn.Sequential(*stages) calls it
        elif not isinstance(at, (DataParallel, share_parameters, ParameterServer)):
            out.append(part)
        at = getattr(at, part)
    return ".".join(out)


def places(module: Module, optimizer: Optimizer | None) -> Iterator[Place]:
    """Parameters, the optimiser's state of each, and buffers. No optimiser: a worker of a server."""
    for name, p, steps in held(module):
        yield Place(("model", name), p, steps)
        for key, t in ({} if optimizer is None else optimizer.state[p]).items():
            yield Place(("state", name, key), t, _state_steps(name, key, t, p, steps))
    inner = module.module if isinstance(module, Zero) else module
    for name, t in inner.named_buffers():
        yield Place(("buffers", _plain(inner, name)), t, _WHOLE)


def _state_steps(name: str, key: str, t: Tensor, p: Tensor, steps: Steps) -> Steps:
    if tuple(t.shape) == tuple(p.shape):
        return steps
    if steps and t.ndim:
        raise StateError(
            f"{key} of the part of {name} on this rank has the shape {list(t.shape)}",
            where=user_location(),
            expected="state as the parameter's, or numbers, where the parameter is split",
            remedy="an optimiser that treats every element alone, or a parameter that is whole",
        )
    return _WHOLE


def groups_of(module: Module, optimizer: Optimizer | None) -> list[dict[str, Any]]:
    """The names and numbers of the optimiser's groups, of this rank's parameters."""
    names = {id(h.tensor): h.name for h in held(module)}
    return [
        {
            "names": [names[id(p)] for p in g["params"]],
            "numbers": {k: v.item() for k, v in g.numbers().items()},
        }
        for g in ([] if optimizer is None else optimizer.param_groups)
    ]


def joined_groups(rows: Iterable[Sequence[Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """Those of all ranks: each has the names of its own parameters."""
    out: list[dict[str, Any]] = []
    for groups in rows:
        for k, g in enumerate(groups):
            if k == len(out):
                out.append({"names": [], "numbers": g["numbers"]})
            out[k]["names"] += [n for n in g["names"] if n not in out[k]["names"]]
    return out


def load_numbers(module: Module, optimizer: Optimizer | None, groups: Sequence[Mapping[str, Any]]) -> None:
    numbers = {name: g["numbers"] for g in groups for name in g["names"]}
    names = {id(h.tensor): h.name for h in held(module)}
    for g in () if optimizer is None else optimizer.param_groups:
        for k, t in g.numbers().items():
            value = np.asarray(numbers[names[id(g["params"][0])]][k]).astype(t.dtype)
            t._store(wrap(value)._read())


# -- whole arrays, each on one rank --------------------------------------------------------------------------


class Outline(NamedTuple):
    """What all ranks together hold: whole arrays by path, and who keeps which."""

    types: dict[Path, tuple[str, tuple[int, ...]]]
    holders: dict[Path, list[int]]  # ranks that have it whole, or a part of it
    keepers: dict[Path, int]
    groups: list[dict[str, Any]]


def outline(rows: Sequence[Place], groups: list[dict[str, Any]]) -> Outline:
    """A collective: who has what. Each array is kept by the rank that has it and the fewest bytes so far."""
    own = [[list(p.path), p.tensor.dtype.name, list(p.shape)] for p in rows]
    said = told([own, groups])
    types: dict[Path, tuple[str, tuple[int, ...]]] = {}
    holders: dict[Path, list[int]] = {}
    for rank, (described, _) in enumerate(said):
        for path, dtype, shape in described:
            key, kind = tuple(path), (dtype, tuple(shape))
            if types.setdefault(key, kind) != kind:
                raise _differs(key, holders[key][0], rank, f"{types[key]} and {kind}")
            holders.setdefault(key, []).append(rank)
    load = [0] * len(said)
    keepers = {}
    for key, (dtype, shape) in types.items():
        keepers[key] = min(holders[key], key=lambda r: (load[r], r))
        load[keepers[key]] += prod(shape) * BY_NAME[dtype].itemsize
    return Outline(types, holders, keepers, joined_groups(g for _, g in said))


def kept(rows: Sequence[Place], wanted: Callable[[Path], bool]) -> dict[Path, Array]:
    """A collective: of all whole arrays that this rank has a part in, those that it wants."""
    out: dict[Path, Array] = {}
    samples: dict[str, list[float]] = {}
    with no_grad():
        for p in rows:
            whole = p.whole()
            if p.path[0] != "buffers":  # ranks may see other batches
                samples["\0".join(p.path)] = _sample(whole)
            if wanted(p.path):
                out[p.path] = whole
    _compare(told(samples))
    return out


def _sample(whole: Array) -> list[float]:
    """Some elements, as far apart as can be."""
    at = np.linspace(0, max(whole.size - 1, 0), min(SAMPLES, whole.size)).astype(int)
    return [float(v) for v in np.abs(whole.reshape(-1)[at].astype(np.complex128))]


def _compare(said: Sequence[Mapping[str, list[float]]]) -> None:
    """What several ranks hold as a whole must be one thing; roundings may differ."""
    first: dict[str, tuple[int, list[float]]] = {}
    for rank, samples in enumerate(said):
        for key, own in samples.items():
            other, wanted = first.setdefault(key, (rank, own))
            near = 1e-2 * max((x for x in wanted if np.isfinite(x)), default=0.0)
            if not np.allclose(own, wanted, rtol=1e-2, atol=near, equal_nan=True):
                raise _differs(tuple(key.split("\0")), other, rank, "other numbers")


def _differs(path: Path, a: int, b: int, how: str) -> StateError:
    return StateError(
        f"{'.'.join(path)} is not the same on the ranks {a} and {b}: {how}",
        where=user_location(),
        expected="parameters that are whole on every rank, or a layer whose splits() says how they lie",
        remedy="return from the layer's splits(): {'weight': (tb.cluster.Split(group, axis, size),)}",
    )
