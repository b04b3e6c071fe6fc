"""Checkpoints of any strategy and number of ranks, for any other: whole tensors by their names in the model.

Enters: a model with its optimiser, split in whatever way (`state.py`). Leaves: the directory that `tb.save`
writes, with a file of each rank: every whole array is gathered by those who share it, and one of them writes
it. One process reads it as well. On the way back each rank takes its parts out of one file at a time.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from trilobite.base.dtypes import BY_NAME
from trilobite.base.errors import StateError
from trilobite.base.locations import user_location
from trilobite.cluster import state as s
from trilobite.cluster.groups import rank
from trilobite.cluster.state import Array, Outline, Place
from trilobite.cluster.talk import together, told
from trilobite.cluster.zero import Zero
from trilobite.framework.checkpoint import directory
from trilobite.framework.checkpoint.durable import Written
from trilobite.framework.checkpoint.manifest import Manifest
from trilobite.framework.checkpoint.structure import Encoder, Slot, fill, slots
from trilobite.framework.modes import no_grad
from trilobite.framework.nn.module import Module
from trilobite.framework.optim.optimizer import Optimizer


def whole_state(module: Module, optimizer: Optimizer | None) -> dict[str, Any]:
    """Parameters, buffers and optimiser state as one process has them: those that this rank has parts of."""
    rows = list(s.places(module, optimizer))
    arrays = s.kept(rows, lambda path: True)
    return _tree(arrays, s.groups_of(module, optimizer))


def _tree(leaves: Mapping[s.Path, Any], groups: list[dict[str, Any]]) -> dict[str, Any]:
    """Arrays, or what stands for them, by their paths."""
    out: dict[str, Any] = {"model": {}, "buffers": {}, "state": {}, "groups": groups}
    for path, leaf in leaves.items():
        at = out
        for key in path[:-1]:
            at = at.setdefault(key, {})
        at[path[-1]] = leaf
    for path in leaves:
        if path[0] == "model":
            out["state"].setdefault(path[1], {})
    return out


# -- saving --------------------------------------------------------------------------------------------------


def save(path: str | Path, module: Module, optimizer: Optimizer | None, extra: Any = None) -> None:
    """Writes a checkpoint that any strategy on any number of ranks can `load`. All ranks call it; when it
    returns, the files are there. They need a directory that all ranks see. `extra` is the first rank's.
    """
    rows = list(s.places(module, optimizer))
    found = s.outline(rows, s.groups_of(module, optimizer))
    own = s.kept(rows, lambda p: found.keepers[p] == rank())
    first = rank() == 0
    with ExitStack() as stack:
        tree, arrays = together(lambda: _encoded(found, own, extra if first else None))
        work = told(together(lambda: stack.enter_context(directory.place_for(path)) if first else ""))[0]
        files = told(together(lambda: directory.write_arrays(work, arrays, rank())))
        manifest = Manifest({n: Written(*w) for rows in files for n, w in rows.items()}, tree, None)
        together(lambda: directory.put_in_place(work, path, manifest) if first else None)
    if first:
        _note(path)


def _encoded(found: Outline, own: Mapping[s.Path, Array], extra: Any) -> tuple[Any, dict[str, Array]]:
    """The tree, and what this rank writes of it, by the names that arrays have in files."""
    shown = {
        # Without memory, one object each: the tree says where they lie and what they are.
        p: np.broadcast_to(np.zeros((), BY_NAME[dtype]), shape)
        for p, (dtype, shape) in found.types.items()
    }
    encoder = Encoder()
    tree = encoder.encode({**_tree(shown, found.groups), "extra": extra})
    names = {id(a): name for name, a in encoder.arrays.items()}
    arrays = {names.pop(id(a)): own.get(p) for p, a in shown.items()}
    besides = {name: encoder.arrays[name] for name in names.values()}  # those of `extra`
    return tree, {n: a for n, a in {**arrays, **besides}.items() if a is not None}


# -- loading -------------------------------------------------------------------------------------------------


def load(path: str | Path, module: Module, optimizer: Optimizer | None) -> Any:
    """Takes over what `save` wrote, and gives what was `extra` there. Nothing changes unless all is well."""
    rows = list(s.places(module, optimizer))
    parts: list[tuple[Place, Array]] = []
    with directory.stream(path) as (nest, files):
        wanted = _wanted(nest, rows)
        rest = {slot.array for slot in slots(nest["extra"])}
        others: dict[str, Array] = {}
        for arrays in files:
            parts += [(p, p.part(a)) for name, a in arrays.items() for p in wanted.get(name, ())]
            others |= {name: a for name, a in arrays.items() if name in rest}
    take(module, optimizer, parts, nest["groups"])
    if rank() == 0:
        _note(path)
    return fill(nest["extra"], others)


def _wanted(nest: Mapping[str, Any], rows: list[Place]) -> dict[str, list[Place]]:
    """Which arrays of the files this rank needs."""
    check_names(set(nest["model"]), rows)
    out: dict[str, list[Place]] = {}
    for p in rows:
        slot: Slot = _at(nest, p.path)
        out.setdefault(slot.array, []).append(p)
    return out


def load_whole_state(module: Module, optimizer: Optimizer | None, saved: Mapping[str, Any]) -> None:
    """Takes this rank's parts out of what `whole_state` gave, on however many ranks that was."""
    rows = list(s.places(module, optimizer))
    check_names(set(saved["model"]), rows)
    parts = [(p, p.part(np.asarray(_at(saved, p.path)))) for p in rows]
    take(module, optimizer, parts, saved["groups"])


def take(module: Module, optimizer: Optimizer | None, parts: list[tuple[Place, Array]], groups: Any) -> None:
    """Every place gets its part, the optimiser its numbers."""
    with no_grad():
        for place, part in parts:
            place.take(part)
        s.load_numbers(module, optimizer, groups)
        if isinstance(module, Zero) and module.stage < 3:
            module.gather_parameters()


def _at(tree: Mapping[str, Any], path: s.Path) -> Any:
    found: Any = tree
    for key in path:
        if key not in found:
            raise StateError(
                f"the checkpoint has no {'.'.join(path)}",
                where=user_location(),
                expected="what this model and its optimiser hold",
            )
        found = found[key]
    return found


def check_names(saved: set[str], rows: list[Place]) -> None:
    """All names that the ranks have together, and those alone, are saved."""
    own = {name for names in told([p.path[1] for p in rows if p.path[0] == "model"]) for name in names}
    if own != saved:
        raise StateError(
            f"the checkpoint lacks {sorted(own - saved)} and has {sorted(saved - own)} besides",
            where=user_location(),
            expected="the parameters of this model",
        )


def _note(path: str | Path) -> None:
    """The launcher names this checkpoint if the job ends too soon."""
    note = os.environ.get("TRILOBITE_JOB")
    if note:
        Path(note).write_text(str(Path(path).resolve()))
