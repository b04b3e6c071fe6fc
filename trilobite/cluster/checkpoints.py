"""Checkpoints of any strategy and number of ranks, for any other: whole tensors by their names in the model.

Enters: a model with its optimiser, split in whatever way (`DataParallel`, `Zero`, split layers). Leaves: a
tree of whole arrays, which `tb.save` writes and one process reads as well; or, the other way, each rank's
parts taken out of it. Names are those that the model has in one process. Gathering holds one whole copy on
every member; the first rank writes it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from trilobite.base.errors import StateError
from trilobite.base.locations import user_location
from trilobite.cluster import collectives as c
from trilobite.cluster.gradients import DataParallel
from trilobite.cluster.groups import Group, part_of, rank
from trilobite.cluster.sequence import share_parameters
from trilobite.cluster.tensor_parallel import ColumnLinear, RowLinear, VocabularyEmbedding
from trilobite.cluster.zero import Zero
from trilobite.framework.modes import no_grad
from trilobite.framework.nn.module import Module
from trilobite.framework.optim.optimizer import Optimizer
from trilobite.framework.tensor import Tensor, wrap

Array = np.ndarray[Any, Any]


class Split(NamedTuple):
    """How members share a tensor: along an axis, each of so many equal blocks alone. `line`: its elements are
    one line, of a tensor of this shape.
    """

    group: Group
    axis: int
    size: int
    blocks: int = 1
    line: tuple[int, ...] | None = None

    def whole(self, t: Tensor) -> Array:
        """The tensor of which every member gives its part."""
        rows = t.detach().moveaxis(self.axis, 0)
        stacked = rows.reshape((self.blocks, -1, *rows.shape[1:]))
        joined = c.all_gather(stacked, 1, group=self.group, size=self.size // self.blocks).numpy()
        out = np.moveaxis(joined.reshape((-1, *joined.shape[2:])), 0, self.axis)
        return np.ascontiguousarray(out if self.line is None else out.reshape(self.line))

    def part(self, whole: Array) -> Array:
        """This member's part."""
        rows = whole.reshape(-1) if self.line is not None else whole
        each = self.size // self.blocks
        begin, end = part_of(each, self.group)
        at = [r for b in range(self.blocks) for r in range(b * each + begin, b * each + end)]
        return np.ascontiguousarray(rows.take(at, axis=self.axis))


class Held(NamedTuple):
    """A parameter as a rank holds it: its name in the model, the tensor, and how it is split, if it is."""

    name: str
    tensor: Tensor
    split: Split | None


def held(module: Module) -> Iterator[Held]:
    """All parameters of a model, whatever stands around or instead of its layers."""
    if isinstance(module, Zero):
        for (name, _), shard, shape in zip(
            module.module.named_parameters(), module.shards, module._shapes, strict=True
        ):
            total = int(np.prod([int(d) for d in shape], dtype=np.int64))
            yield Held(name, shard, Split(module.group, 0, total, line=tuple(int(d) for d in shape)))
        return
    owners = {id(p): m for m in module.modules() for p in m.__dict__.values() if isinstance(p, Tensor)}
    for name, p in module.named_parameters():
        yield Held(_plain(module, name), p, _split_of(owners.get(id(p)), p))


def _plain(module: Module, name: str) -> str:
    """The name without the modules that only stand around others."""
    out, at = [], module
    for part in name.split("."):
        if not isinstance(at, (DataParallel, share_parameters)):
            out.append(part)
        at = getattr(at, part)
    return ".".join(out)


def _split_of(owner: Any, p: Tensor) -> Split | None:
    if isinstance(owner, ColumnLinear):
        return Split(owner.group, 0, owner.size, owner.blocks)
    if isinstance(owner, RowLinear) and p is owner.weight:
        return Split(owner.group, 1, owner.size)
    if isinstance(owner, VocabularyEmbedding):
        return Split(owner.group, 0, owner.vocabulary)
    return None


def _buffers(module: Module) -> dict[str, Tensor]:
    inner = module.module if isinstance(module, Zero) else module
    return {_plain(inner, name): t for name, t in inner.named_buffers()}


def whole_state(module: Module, optimizer: Optimizer) -> dict[str, Any]:
    """Parameters, buffers and optimiser state as one process has them, on every rank."""
    state: dict[str, dict[str, Any]] = {}
    model: dict[str, Array] = {}
    with no_grad():
        for name, p, split in held(module):
            model[name] = _whole(p, split)
            rows = optimizer.state[p]
            same = {k: t for k, t in rows.items() if tuple(t.shape) == tuple(p.shape)}
            state[name] = {k: _whole(t, split if k in same else None) for k, t in rows.items()}
    names = {id(h.tensor): h.name for h in held(module)}
    groups = [
        {
            "names": [names[id(p)] for p in g["params"]],
            "numbers": {k: v.item() for k, v in g.numbers().items()},
        }
        for g in optimizer.param_groups
    ]
    buffers = {name: np.array(t.detach().numpy()) for name, t in _buffers(module).items()}
    return {"model": model, "buffers": buffers, "state": state, "groups": groups}


def _whole(t: Tensor, split: Split | None) -> Array:
    return np.array(t.detach().numpy()) if split is None else split.whole(t)


def load_whole_state(module: Module, optimizer: Optimizer, saved: Mapping[str, Any]) -> None:
    """Takes this rank's parts out of what `whole_state` gave, on however many ranks that was."""
    mine = list(held(module))
    _check_names({h.name for h in mine}, set(saved["model"]))
    numbers = {name: g["numbers"] for g in saved["groups"] for name in g["names"]}
    names = {id(h.tensor): h.name for h in mine}
    with no_grad():
        for name, p, split in mine:
            was = tuple(np.asarray(saved["model"][name]).shape)
            _put(p, saved["model"][name], split)
            for k, t in optimizer.state[p].items():
                whole = np.asarray(saved["state"][name][k])
                _put(t, whole, split if tuple(whole.shape) == was else None)
        for name, t in _buffers(module).items():
            _put(t, saved["buffers"][name], None)
        for g in optimizer.param_groups:
            for k, t in g.numbers().items():
                _put(t, numbers[names[id(g["params"][0])]][k], None)
        if isinstance(module, Zero) and module.stage < 3:
            module.gather_parameters()


def _put(t: Tensor, whole: Any, split: Split | None) -> None:
    array = np.asarray(whole)
    part = array if split is None else split.part(array)
    if tuple(part.shape) != tuple(t.shape):
        raise StateError(
            f"a saved tensor of {list(array.shape)}",
            where=user_location(),
            expected=f"one whose part here is {list(t.shape)}",
        )
    t._store(wrap(part.astype(t.dtype))._read())


def _check_names(own: set[str], saved: set[str]) -> None:
    if own != saved:
        raise StateError(
            f"the checkpoint lacks {sorted(own - saved)} and has {sorted(saved - own)} besides",
            where=user_location(),
            expected="the parameters of this model",
        )


def save(path: str | Path, module: Module, optimizer: Optimizer, extra: Any = None) -> None:
    """Writes a checkpoint that any strategy on any number of ranks can `load`. All ranks call it; when it
    returns, the file is there.
    """
    from trilobite.framework.checkpoint import save as write

    state = whole_state(module, optimizer)
    if rank() == 0:
        write(path, {**state, "extra": extra})
        _note(path)
    c.barrier()


def load(path: str | Path, module: Module, optimizer: Optimizer) -> Any:
    """Takes over what `save` wrote, and gives what was `extra` there."""
    from trilobite.framework.checkpoint import load as read

    found = read(path)
    load_whole_state(module, optimizer, found)
    if rank() == 0:
        _note(path)
    return found["extra"]


def _note(path: str | Path) -> None:
    """The launcher names this checkpoint if the job ends too soon."""
    note = os.environ.get("TRILOBITE_JOB")
    if note:
        Path(note).write_text(str(Path(path).resolve()))
