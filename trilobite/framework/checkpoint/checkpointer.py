"""The checkpoints of a training run: one directory per step, the newest few kept.

Enters: a step number and a pytree. Leaves: `directory/step-00000017`, whole or not there; the tree of a step
back. A corrupt checkpoint is reported with the remedy, never skipped. How one checkpoint is written is
`directory`'s work.
"""

from __future__ import annotations

import os
import re
from typing import Any

from trilobite.base.errors import ArgumentError, FileError, StateError
from trilobite.base.wrong_use import explains
from trilobite.framework.checkpoint import directory as checkpoint
from trilobite.framework.checkpoint import durable

_STEP = re.compile(r"step-(\d{8,18})", re.ASCII)
_RUN = "run"  # the lock that orders writers of a whole run; never a step's name


class Checkpointer:
    """Saves a run's steps into one directory and keeps the newest `keep` of them (None keeps all)."""

    @explains
    def __init__(self, directory: Any, keep: int | None = 3) -> None:
        if keep is not None and (type(keep) is not int or keep < 1):
            raise ArgumentError(
                f"keep is {keep!r}",
                expected="None, or at least 1 checkpoint",
                remedy="Checkpointer(path, keep=3)",
            )
        self.directory = os.path.abspath(os.fsdecode(os.fspath(directory)))
        self.keep = keep

    def path(self, step: int) -> str:
        """Where the checkpoint of a step stands, or would stand."""
        if type(step) is not int or not 0 <= step < 10**18:
            raise ArgumentError(
                f"{step!r} is no step", expected="an integer from 0", remedy="pass the number of steps done"
            )
        return os.path.join(self.directory, f"step-{step:08d}")

    def steps(self) -> list[int]:
        """The steps that have a checkpoint, oldest first."""
        with durable.storage_errors(
            "the checkpoints could not be listed", self.directory, "a readable directory"
        ):
            names = os.listdir(self.directory) if os.path.lexists(self.directory) else []
        found = (match for name in names if (match := _STEP.fullmatch(name)))
        return sorted(int(m.group(1)) for m in found if m.group() == f"step-{int(m.group(1)):08d}")

    def latest(self, whole: bool = False) -> int | None:
        """The newest step, or None. With `whole`, the newest one that proves intact when read to its last
        byte."""
        for step in reversed(self.steps()):
            if not whole or self._is_whole(step):
                return step
        return None

    def _is_whole(self, step: int) -> bool:
        try:
            checkpoint.verify(self.path(step))
        except (FileError, durable.NotFoundError):
            return False
        return True

    def save(self, step: int, tree: Any, *, metadata: Any = None) -> str:
        """Save a step and remove the oldest beyond `keep`. Saving the newest step again replaces it."""
        target = self.path(step)
        self._refuse_past(step)
        with durable.storage_errors("the checkpoint could not be saved", target):
            durable.make_directories(self.directory)
            with durable.lock(self.directory, _RUN):
                self._refuse_past(step)
                self._sweep()
                checkpoint.save(target, tree, metadata=metadata)
                if self.keep is not None:
                    self._remove(self.steps()[: -self.keep])
        return target

    def load(self, step: int | None = None, like: Any = None) -> Any:
        """The tree of a step, by default the newest; see `load` for `like`."""
        chosen = self.latest() if step is None else step
        if chosen is None:
            raise durable.NotFoundError(
                "there is no checkpoint yet",
                where=self.directory,
                expected="at least one saved step",
                remedy="save one first, or check the directory",
            )
        try:
            return checkpoint.load(self.path(chosen), like)
        except (FileError, durable.NotFoundError) as error:
            steps = self.steps()
            if isinstance(error, FileError) and chosen in steps:
                raise self._corrupt(chosen, error) from error
            if step is None and steps and steps[-1] != chosen:  # a writer has moved on and removed it
                return self.load(None, like)
            raise durable.NotFoundError(
                f"there is no checkpoint of step {chosen}",
                where=self.directory,
                expected=f"one of the steps {steps}",
                remedy="load one of those",
            ) from error

    def _corrupt(self, step: int, error: FileError) -> FileError:
        earlier = [other for other in self.steps() if other < step]
        offer = f"load(step={earlier[-1]}) is the one before; " if earlier else ""
        return FileError(
            f"the checkpoint of step {step} is corrupt: {error.what}",
            where=error.where,
            expected=error.expected,
            remedy=f"{offer}latest(whole=True) finds the newest intact one, rewind(step) drops all after it",
        )

    def rewind(self, step: int) -> None:
        """Remove every checkpoint after `step`, to go on from there."""
        self.path(step)
        if step not in self.steps():
            raise StateError(
                f"there is no checkpoint of step {step}",
                where=self.directory,
                expected=f"one of the steps {self.steps()}",
                remedy="rewind to one of those",
            )
        # Newest first: wherever this is interrupted, the run's history has no hole.
        trouble = durable.storage_errors(
            "later checkpoints could not be removed", self.directory, "write access"
        )
        with trouble, durable.lock(self.directory, _RUN):
            self._remove([later for later in reversed(self.steps()) if later > step])

    def _refuse_past(self, step: int) -> None:
        newest = self.latest()
        if newest is not None and step < newest:
            raise StateError(
                f"step {step} is older than the newest checkpoint, of step {newest}",
                where=self.directory,
                expected=f"a step of at least {newest}: a resumed run would otherwise take up the other one",
                remedy="rewind(step) to the checkpoint this run began from, or use another directory",
            )

    def _remove(self, steps: list[int]) -> None:
        with durable.storage_errors("old checkpoints could not be removed", self.directory, "write access"):
            for step in steps:
                durable.remove_whole(self.directory, os.path.basename(self.path(step)))

    def _sweep(self) -> None:
        """Remove what killed writers left. A step that someone is writing at this moment is locked: not
        touched."""
        for name in durable.leftovers(self.directory):
            if _STEP.fullmatch(name):
                with durable.try_lock(self.directory, name) as free:
                    if free:
                        durable.sweep(self.directory, name)
