"""One run of training: what it works with, where it stands, and its parts in the order they happen.

Enters: what `fit` was given, put in order. Leaves: a `History`. A batch is a step; after an epoch come
validation, logs, the schedule, the question whether it is enough, and a checkpoint of everything the rest
of the run depends on.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import field
from typing import Any, Literal

import numpy as np

from trilobite.base import pytree
from trilobite.base.dtypes import DType
from trilobite.base.errors import ArgumentError, StateError
from trilobite.base.locations import user_location
from trilobite.base.records import dataclass
from trilobite.framework import random
from trilobite.framework.autocast import autocast
from trilobite.framework.checkpoint import Checkpointer
from trilobite.framework.logs import Logger
from trilobite.framework.metrics import Mean
from trilobite.framework.modes import no_grad
from trilobite.framework.optim import ReduceLROnPlateau, clip_grad_norm_
from trilobite.framework.progress import Progress
from trilobite.framework.tensor import Tensor, wrap
from trilobite.ir.ranks import is_first

Batch = Any
Row = dict[str, float]
Predict = Callable[[Any, Batch], tuple[Any, Any]]


@dataclass
class EarlyStopping:
    """Stop after `patience` epochs without a better `monitor`; with restore_best, go back to the best
    weights.
    """

    monitor: str = "validation_loss"
    patience: int = 5
    min_delta: float = 0.0
    mode: Literal["min", "max"] = "min"
    restore_best: bool = True

    def __post_init__(self) -> None:
        if self.mode not in ("min", "max") or self.patience < 1 or self.min_delta < 0:
            raise ArgumentError(
                f"{self}",
                where=user_location(),
                expected="mode 'min' or 'max', patience >= 1, min_delta >= 0",
            )

    def better(self, value: float, best: float) -> bool:
        if math.isnan(best):
            return not math.isnan(value)
        return (best - value if self.mode == "min" else value - best) > self.min_delta


@dataclass
class History:
    """One row per epoch: loss, validation_loss, metrics, lr, seconds. `stopped`: it ended before its time."""

    rows: list[Row] = field(default_factory=list)
    stopped: bool = False

    def __getitem__(self, name: str) -> list[float]:
        return [row[name] for row in self.rows]


@dataclass
class Loop:
    """One run: what it works with, where it stands, and its parts in the order they happen."""

    parts: dict[str, Any]
    loss: Callable[[Any, Any], Tensor]
    train: Any
    predict: Predict
    half: DType | None
    schedule_every: str
    clip_norm: float | None
    validation: Any
    metrics: dict[str, Any]
    stopping: EarlyStopping | None
    checkpointer: Checkpointer | None
    save_every: int | None
    log_every: int | None
    each_epoch: Callable[[Row], Any] | None
    logs: list[Logger] = field(default_factory=list)
    bar: Progress = field(default_factory=lambda: Progress(False))
    epoch: int = 0
    step: int = 0
    running: Mean = field(default_factory=Mean)
    history: History = field(default_factory=History)
    best: float = math.nan
    waited: int = 0
    best_model: dict[str, Any] | None = None
    advance: Callable[[Batch], Tensor] = field(init=False)

    def __post_init__(self) -> None:
        self.advance = self.train_step

    def check(self) -> None:
        if self.schedule_every not in ("epoch", "step"):
            raise ArgumentError(
                f"fit: schedule_every is {self.schedule_every!r}",
                where=user_location(),
                expected="'epoch' or 'step'",
            )
        if self.save_every is not None and not hasattr(self.train, "state_dict"):
            raise ArgumentError(
                f"fit: save_every with a {type(self.train).__name__}, which cannot resume within an epoch",
                where=user_location(),
                expected="a Loader",
            )

    # -- training ------------------------------------------------------------------------------------

    def run(self, epochs: int) -> History:
        while self.epoch < epochs and not self.history.stopped:
            self._run_epoch()
        if self.history.stopped and self.best_model is not None:
            self.parts["model"].load_state_dict(self.best_model)
        return self.history

    def _run_epoch(self) -> None:
        started = time.perf_counter()
        self.parts["model"].train()
        done = self.train.state_dict()["batch"] if hasattr(self.train, "state_dict") else 0
        self.bar.start(f"epoch {self.epoch + 1}", _length(self.train), done)
        for batch in self.train:
            self._take(_tensors(batch))
        row = {"loss": self.running.compute(), **self._validate()}
        if hasattr(self.parts["model"], "mean_over_ranks"):  # all of them decide alike what follows
            row = self.parts["model"].mean_over_ranks(row)
        row["lr"] = self.parts["optimizer"].param_groups[0]["lr"].item()
        self._end_epoch({**row, "seconds": time.perf_counter() - started})

    def _take(self, batch: Batch) -> None:
        """One batch: a step, and what belongs to it."""
        loss = float(self.advance(batch))
        self.step += 1
        if not math.isfinite(loss) and self.parts["scaler"] is None:
            raise StateError(
                f"the loss is {loss} at step {self.step}",
                where=user_location(),
                expected="a finite loss",
                remedy="a lower learning rate, or clip_norm; tb.debug.detect_anomaly() names the line",
            )
        self.running.update(loss, _items(batch))
        self.bar.advance({"loss": self.running.compute()})
        if self.log_every and self.step % self.log_every == 0:
            self._log({"step_loss": loss})
        if self.save_every and self.step % self.save_every == 0 and not self._at_the_end():
            self.save()

    def _at_the_end(self) -> bool:
        """Was that the epoch's last batch? Then what follows it is saved with it."""
        done: int = self.train.state_dict()["batch"]
        return done == _length(self.train)

    def train_step(self, batch: Batch) -> Tensor:
        """Forward, backward, update: all that is compiled when `jit` is asked for."""
        optimizer, scaler, average = (self.parts[n] for n in ("optimizer", "scaler", "average"))
        optimizer.zero_grad()
        loss = self._loss(batch)
        (loss if scaler is None else scaler.scale(loss)).backward()
        if hasattr(self.parts["model"], "reduce_gradients"):  # one of many ranks
            self.parts["model"].reduce_gradients()
        if self.clip_norm is not None:
            if scaler is not None:
                scaler.unscale_(optimizer)
            clip_grad_norm_(optimizer.state, self.clip_norm)
        if scaler is None:
            optimizer.step()
        else:
            scaler.step(optimizer)
            scaler.update()
        if average is not None:
            average.update()
        if self.parts["schedule"] is not None and self.schedule_every == "step":
            self.parts["schedule"].step()
        return loss.detach()

    def _loss(self, batch: Batch) -> Tensor:
        with nullcontext() if self.half is None else autocast(self.half):
            return self.loss(*self.predict(self.parts["model"], batch))

    # -- between epochs ------------------------------------------------------------------------------

    def _validate(self) -> Row:
        if self.validation is None:
            return {}
        average, total = self.parts["average"], Mean()
        for metric in self.metrics.values():
            metric.reset()
        self.parts["model"].eval()
        with no_grad(), nullcontext() if average is None else average.applied():
            for raw in self.validation:
                batch = _tensors(raw)
                prediction, target = self.predict(self.parts["model"], batch)
                total.update(float(self.loss(prediction, target)), _items(batch))
                for metric in self.metrics.values():
                    metric.update(prediction, target)
        found = {f"validation_{name}": float(metric.compute()) for name, metric in self.metrics.items()}
        return {"validation_loss": total.compute(), **found}

    def _end_epoch(self, row: Row) -> None:
        self.epoch += 1
        self.running.reset()
        self.history.rows.append(row)
        self._advance_schedule(row)
        self._log({**row, "epoch": self.epoch})
        self.bar.finish({k: v for k, v in row.items() if k not in ("lr", "seconds")})
        asked = self.each_epoch is not None and bool(self.each_epoch(row))
        self.history.stopped = self._is_enough(row) or asked
        self.save()

    def _advance_schedule(self, row: Row) -> None:
        schedule = self.parts["schedule"]
        if schedule is None or self.schedule_every == "step":
            return
        if isinstance(schedule, ReduceLROnPlateau):
            schedule.step(row.get("validation_loss", row["loss"]))
        else:
            schedule.step()

    def _is_enough(self, row: Row) -> bool:
        if self.stopping is None:
            return False
        value = row.get(self.stopping.monitor)
        if value is None:
            raise ArgumentError(
                f"early stopping watches {self.stopping.monitor!r}, which no epoch has",
                where=user_location(),
                expected=f"one of {', '.join(row)}",
            )
        if self.stopping.better(value, self.best):
            self.best, self.waited = value, 0
            if self.stopping.restore_best:
                self.best_model = _arrays(self.parts["model"].state_dict())
        else:
            self.waited += 1
        return self.waited >= self.stopping.patience

    def _log(self, row: Mapping[str, float]) -> None:
        for log in self.logs:
            log.log(self.step, row)

    # -- saving and going on -------------------------------------------------------------------------

    def save(self) -> None:
        """Everything the rest of the run depends on, if there is a place for it."""
        if self.checkpointer is not None and is_first():
            self.checkpointer.save(self.step, self._state())

    def _state(self) -> dict[str, Any]:
        resumable = {"train": self.train, "validation": self.validation}
        return {
            "parts": {name: part.state_dict() for name, part in self.parts.items() if part is not None},
            "loaders": {n: x.state_dict() for n, x in resumable.items() if hasattr(x, "state_dict")},
            "random": random.get_state().numpy(),
            "run": {"epoch": self.epoch, "step": self.step, "best": self.best, "waited": self.waited,
                    "rows": self.history.rows, "stopped": self.history.stopped},
            "running": self.running.state_dict(),
            "best_model": self.best_model,
        }  # fmt: skip

    def restore(self) -> None:
        """Go on from the newest checkpoint, if there is one."""
        if self.checkpointer is None or self.checkpointer.latest() is None:
            return
        state, mine = self.checkpointer.load(), self._state()
        for name in ("parts", "loaders"):
            if state[name].keys() != mine[name].keys():
                raise StateError(
                    f"the checkpoint is of a run with {sorted(state[name])}",
                    where=self.checkpointer.directory,
                    expected=f"{sorted(mine[name])}: the same arguments to fit",
                    remedy="pass the same, or another checkpoint directory",
                )
        for name, part in self.parts.items():
            if part is not None:
                part.load_state_dict(state["parts"][name])
        for name in mine["loaders"]:
            getattr(self, name).load_state_dict(state["loaders"][name])
        random.set_state(wrap(state["random"]))
        run = state["run"]
        self.epoch, self.step, self.best, self.waited = (run[n] for n in ("epoch", "step", "best", "waited"))
        self.history = History(run["rows"], run["stopped"])
        self.running.load_state_dict(state["running"])
        self.best_model = state["best_model"]


def _tensors(batch: Batch) -> Batch:
    """A batch with its arrays as tensors."""
    return pytree.map(
        lambda x: wrap(x) if isinstance(x, np.ndarray) else x, batch, is_leaf=lambda x: isinstance(x, Tensor)
    )


def _items(batch: Batch) -> int:
    """How many items a batch has: the extent of its first tensor."""
    for leaf in pytree.leaves(batch, lambda x: isinstance(x, Tensor)):
        if isinstance(leaf, Tensor) and leaf.shape:
            return int(leaf.shape[0])
    return 1


def _length(batches: Any) -> int | None:
    try:
        return len(batches)
    except TypeError:
        return None


def _arrays(state: Mapping[str, Tensor]) -> dict[str, Any]:
    return {name: t.detach().numpy().copy() for name, t in state.items()}
