"""A training loop for those who want one: plain code over models, optimisers, loaders, checkpoints and
logs.

Enters: a model, an optimiser, a loss and a loader. Leaves: the model trained, and a `History`. With a
checkpoint directory, a run that was stopped at any moment goes on bit for bit: weights, optimiser,
schedule, random state and the loader's position come back. What is not asked for does not happen. The
loop itself: `loop`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Literal

from trilobite.base.dtypes import as_dtype, float16
from trilobite.base.errors import ArgumentError
from trilobite.base.locations import user_location
from trilobite.framework.checkpoint import Checkpointer
from trilobite.framework.jit import jit as compiled
from trilobite.framework.logs import CSVLogger, JSONLLogger, Logger, TensorBoardLogger
from trilobite.framework.loop import Batch, EarlyStopping, History, Loop, Predict, Row
from trilobite.framework.optim import GradScaler, Optimizer, ParameterAverage, Schedule
from trilobite.framework.progress import Progress
from trilobite.framework.tensor import Tensor
from trilobite.ir.ranks import is_first

__all__ = ["EarlyStopping", "History", "fit", "supervised"]


def supervised(model: Any, batch: Batch) -> tuple[Any, Any]:
    """The usual batch: inputs, then the target."""
    *inputs, target = batch
    return model(*inputs), target


def fit(
    model: Any,
    optimizer: Optimizer,
    loss: Callable[[Any, Any], Tensor],
    train: Iterable[Batch],
    *,
    epochs: int,
    validation: Iterable[Batch] | None = None,
    metrics: Mapping[str, Any] | None = None,
    predict: Predict = supervised,
    schedule: Schedule | None = None,
    schedule_every: Literal["epoch", "step"] = "epoch",
    clip_norm: float | None = None,
    average: ParameterAverage | None = None,
    precision: Any = None,
    jit: bool | str = False,
    early_stopping: EarlyStopping | int | None = None,
    checkpoint: Checkpointer | str | Path | None = None,
    save_every: int | None = None,
    logs: Sequence[Logger | str | Path] = (),
    log_every: int | None = None,
    progress: bool = True,
    each_epoch: Callable[[Row], Any] | None = None,
) -> History:
    """Train for `epochs` epochs in all; with `checkpoint`, go on from the newest one there.

    - `predict(model, batch)` gives (prediction, target); `loss(prediction, target)` a scalar.
    - After every epoch `validation` gives validation_loss and, by `metrics`, validation_<name>: with
      `average`, of the averaged parameters. `each_epoch(row)` may look; returning True ends training.
    - `precision`: bfloat16, or float16 (then with loss scaling). `jit`: True, or the name of a target.
    - `early_stopping`: how it is enough, or just for how many epochs validation_loss may not improve.
    - `checkpoint` saves after every epoch, and every `save_every` steps if the loader can resume.
    - With many processes, `model` is a `cluster.DataParallel`; the first rank writes logs and checkpoints.
    - `logs`: loggers, or paths: *.csv, *.jsonl, or a directory for TensorBoard. They get a row per epoch,
      and the loss every `log_every` steps.
    """
    stopping = EarlyStopping(patience=early_stopping) if isinstance(early_stopping, int) else early_stopping
    half = None if precision is None else as_dtype(precision)
    parts: dict[str, Any] = {"model": model, "optimizer": optimizer, "schedule": schedule, "average": average}
    parts["scaler"] = GradScaler() if half == float16 else None
    loop = Loop(
        parts, loss, train, predict, half, schedule_every, clip_norm, validation, dict(metrics or {}),
        stopping, _checkpointer(checkpoint), save_every, log_every, each_epoch,
    )  # fmt: skip
    loop.check()
    if jit:
        loop.advance = compiled(loop.train_step, target="reference" if jit is True else jit)
    loop.restore()
    with ExitStack() as closing:
        loop.logs = [_opened(log, loop, closing) for log in logs if is_first()]
        loop.bar = closing.enter_context(Progress(progress))
        return loop.run(epochs)


def _checkpointer(given: Any) -> Checkpointer | None:
    return given if given is None or isinstance(given, Checkpointer) else Checkpointer(given)


def _opened(log: Any, loop: Loop, closing: ExitStack) -> Logger:
    """A log by its path. One that belongs to a run with checkpoints goes on where the run does."""
    if isinstance(log, Logger):
        return log
    kind: Any = {".csv": CSVLogger, ".jsonl": JSONLLogger, "": TensorBoardLogger}.get(Path(log).suffix)
    if kind is None:
        raise ArgumentError(
            f"a log {str(log)!r}",
            where=user_location(),
            expected="*.csv, *.jsonl, or a directory for TensorBoard",
        )
    resume = None if loop.checkpointer is None else loop.step
    made: Logger = closing.enter_context(kind(log, resume=resume))
    return made
