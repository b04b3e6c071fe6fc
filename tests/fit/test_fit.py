"""The training loop: it learns, what it reports is right, and nothing happens that was not asked for."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fit_subjects import Run, loss, points

import trilobite as tb
from trilobite.base.errors import ArgumentError, StateError
from trilobite.framework import data, logs, metrics, optim
from trilobite.framework.fit import EarlyStopping, fit

ROOT = Path(__file__).resolve().parents[2]


def test_it_learns_and_reports() -> None:
    run = Run()
    history = fit(
        **run.arguments(epochs=25, validation=run.validation, metrics={"accuracy": metrics.Accuracy()})
    )
    assert len(history.rows) == 25 and not history.stopped
    assert set(history.rows[0]) == {"loss", "validation_loss", "validation_accuracy", "lr", "seconds"}
    assert history["loss"][-1] < 0.5 * history["loss"][0]
    assert history["validation_accuracy"][-1] > 0.85
    assert history["validation_loss"][-1] < 0.6 * history["validation_loss"][0]


def test_the_losses_are_weighted_by_the_size_of_a_batch() -> None:
    """Where nothing is learned, an epoch's loss is the mean over all items: the last batch is a short one."""
    run = Run(lr=0.0)
    run.model = run.model[4]
    run.train = data.Loader(
        data.ArrayDataset(points(70, 3)[0].repeat(6, axis=1)[:, :16], points(70, 3)[1]), 16
    )
    history = fit(**run.arguments(epochs=1, validation=run.train))
    x, y = (tb.tensor(a) for a in next(iter(data.Loader(run.train.dataset, 70))))
    want = loss(run.model(x), y).item()
    assert history["loss"] == history["validation_loss"] == pytest.approx([want], rel=1e-5)


def test_compiled_it_is_the_same_bit_for_bit() -> None:
    runs = []
    for jit in (False, True):
        run = Run()
        schedule = optim.OneCycleLR(run.optimizer, 0.03, 30)
        fit(**run.arguments(epochs=6, jit=jit, schedule=schedule, schedule_every="step", clip_norm=0.5))
        runs.append(run.bits())
    assert runs[0] == runs[1]


def test_compiled_with_loss_scaling_it_is_the_same() -> None:
    runs = []
    for jit in (False, "reference"):
        run = Run()
        fit(**run.arguments(epochs=2, jit=jit, precision="float16", clip_norm=1.0))
        runs.append(run.bits())
    assert runs[0] == runs[1]


def test_a_loader_may_give_tensors_itself() -> None:
    plain, converted = Run(), Run()
    converted.train.to = tb.asarray
    for run in (plain, converted):
        tb.manual_seed(0)
        fit(**run.arguments(epochs=1))
    assert plain.bits() == converted.bits()


def test_by_hand_it_is_the_same() -> None:
    run = Run()
    fit(**run.arguments(epochs=3, clip_norm=1.0))
    other = Run()
    other.model.train()
    for _ in range(3):
        for x, y in other.train:
            value = loss(other.model(tb.tensor(x)), tb.tensor(y))
            other.optimizer.zero_grad()
            value.backward()
            optim.clip_grad_norm_(other.model.parameters(), 1.0)
            other.optimizer.step()
    assert run.bits() == other.bits()


def test_the_schedule_moves_by_epoch_or_by_step() -> None:
    by_epoch, by_step = Run(), Run()
    fit(**by_epoch.arguments(epochs=3, schedule=optim.ExponentialLR(by_epoch.optimizer, 0.5)))
    assert by_epoch.optimizer.param_groups[0]["lr"].item() == pytest.approx(0.02 * 0.5**3)
    fit(
        **by_step.arguments(
            epochs=3, schedule=optim.ExponentialLR(by_step.optimizer, 0.5), schedule_every="step"
        )
    )
    assert by_step.optimizer.param_groups[0]["lr"].item() == pytest.approx(0.02 * 0.5**15)


def test_a_plateau_is_told_the_validation_loss() -> None:
    run = Run(lr=0.0)
    schedule = optim.ReduceLROnPlateau(run.optimizer, patience=0)
    history = fit(**run.arguments(epochs=1, validation=run.validation, schedule=schedule))
    assert schedule.best.item() == history["validation_loss"][0]


def test_validation_uses_the_averages_and_training_does_not() -> None:
    run, still = Run(), Run(lr=0.0)
    average = optim.ExponentialMovingAverage(run.model, 0.9999999)
    history = fit(**run.arguments(epochs=3, validation=run.validation, average=average))
    assert min(history["loss"][1:]) < history["loss"][0], "the model itself has learned"
    for own, first in zip(average.averages, still.model.parameters(), strict=True):
        np.testing.assert_allclose(own.numpy(), first.detach().numpy(), atol=1e-5)
    still.model.load_state_dict({**run.model.state_dict(), **dict(still.model.named_parameters())})
    still.model.eval()
    with tb.no_grad():
        x, y = (tb.tensor(a) for a in points(40, 4))
        want = loss(still.model(x), y).item()
    assert history["validation_loss"][-1] == pytest.approx(want, rel=1e-3)


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_mixed_precision_learns(precision: str) -> None:
    run = Run()
    history = fit(**run.arguments(epochs=25, precision=precision, clip_norm=5.0))
    assert history["loss"][-1] < 0.6 * history["loss"][0]
    assert all(p.dtype == tb.float32 for p in run.model.parameters())


# ---- ending early ----


def test_early_stopping_goes_back_to_the_best() -> None:
    run = Run()
    seen: list[dict[str, Any]] = []

    def look(row: dict[str, float]) -> None:
        seen.append({k: v.numpy().copy() for k, v in run.model.state_dict().items()})
        if len(seen) == 3:
            run.optimizer.param_groups[0]["lr"] = 5.0  # ruins what was learned

    history = fit(
        **run.arguments(
            epochs=50, validation=run.validation, each_epoch=look, early_stopping=EarlyStopping(patience=4)
        )
    )
    losses = history["validation_loss"]
    best = int(np.argmin(losses))
    assert history.stopped and len(losses) == best + 5 < 50
    for name, value in run.model.state_dict().items():
        np.testing.assert_array_equal(value.numpy(), seen[best][name])


def test_early_stopping_by_a_metric_that_grows() -> None:
    run = Run(lr=0.0)
    stop = EarlyStopping("validation_accuracy", patience=2, mode="max", restore_best=False)
    history = fit(
        **run.arguments(
            epochs=9, validation=run.validation, metrics={"accuracy": metrics.Accuracy()}, early_stopping=stop
        )
    )
    best = int(np.argmax(history["validation_accuracy"]))
    assert history.stopped == (len(history.rows) < 9) and len(history.rows) == min(best + 3, 9)


def test_a_number_of_epochs_says_it_shortly() -> None:
    run = Run(lr=0.0)
    run.model.eval()
    run.model.train = lambda mode=True: run.model  # statistics stay, so nothing ever improves
    history = fit(**run.arguments(epochs=9, validation=run.validation, early_stopping=2))
    assert history.stopped and len(history.rows) == 3


def test_each_epoch_may_end_it() -> None:
    run = Run()
    history = fit(**run.arguments(epochs=9, each_epoch=lambda row: row["loss"] < 99))
    assert history.stopped and len(history.rows) == 1


def test_a_loss_that_is_no_number_is_an_error() -> None:
    run = Run()
    with tb.no_grad():
        run.model[4].weight.copy_(float("nan"))
    with pytest.raises(StateError, match=r"the loss is (nan|inf) at step \d+[\s\S]*detect_anomaly"):
        fit(**run.arguments(epochs=9))


# ---- logs ----


def test_logs_get_a_row_per_epoch_and_the_loss_of_steps(tmp_path: Path) -> None:
    run = Run()
    files = [tmp_path / "log.csv", str(tmp_path / "log.jsonl"), tmp_path / "board"]
    history = fit(**run.arguments(epochs=2, validation=run.validation, logs=files, log_every=2))
    rows = logs.read_csv(tmp_path / "log.csv")
    assert rows == logs.read_jsonl(tmp_path / "log.jsonl")
    assert [r["step"] for r in rows] == [2, 4, 5, 6, 8, 10]
    assert rows[2]["validation_loss"] == history["validation_loss"][0] and rows[2]["epoch"] == 1
    assert "step_loss" in rows[0] and "loss" not in rows[0] and {"step_loss", "loss"} <= set(rows[5])
    assert len(list((tmp_path / "board").iterdir())) == 1


def test_a_logger_of_ones_own_stays_open(tmp_path: Path) -> None:
    run = Run()
    with logs.CSVLogger(tmp_path / "x.csv") as log:
        fit(**run.arguments(epochs=1, logs=[log]))
        log.log(99, {"more": 1})


# ---- the bar ----

_ON_A_TERMINAL = """
import sys
sys.path[:0] = [{here!r}, {root!r}]
from fit_subjects import Run
from trilobite.framework.fit import fit
run = Run()
fit(**run.arguments(epochs=2, validation=run.validation, progress={wanted}))
print("rich" in sys.modules)
"""


def _on_a_terminal(wanted: bool, terminal: bool) -> str:
    text = _ON_A_TERMINAL.format(here=str(Path(__file__).parent), root=str(ROOT), wanted=wanted)
    if not terminal:
        done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
        return done.stdout + done.stderr
    import pty

    master, slave = pty.openpty()
    with subprocess.Popen([sys.executable, "-c", text], stdout=slave, stderr=slave, stdin=slave) as program:
        os.close(slave)
        out = b""
        while True:
            try:
                out += (piece := os.read(master, 65536))
            except OSError:
                break
            if not piece:
                break
    os.close(master)
    assert program.returncode == 0, out
    return out.decode()


def test_the_bar_shows_on_a_terminal_and_nowhere_else() -> None:
    shown = _on_a_terminal(wanted=True, terminal=True)
    assert (
        "epoch 2" in shown
        and "validation_loss" in shown
        and "5/5" in shown
        and shown.rstrip().endswith("True")
    )
    assert _on_a_terminal(wanted=True, terminal=False) == "False\n"


# ---- wrong uses ----


def test_wrong_uses(tmp_path: Path) -> None:
    run = Run()
    with pytest.raises(ArgumentError, match="schedule_every is 'day'"):
        fit(**run.arguments(epochs=1, schedule_every="day"))
    with pytest.raises(ArgumentError, match=r"save_every with a list[\s\S]*expected: a Loader"):
        fit(**{**run.arguments(epochs=1, save_every=2), "train": [1]})
    with pytest.raises(ArgumentError, match=r"a log '.*log.txt'"):
        fit(**run.arguments(epochs=1, logs=[tmp_path / "log.txt"]))
    with pytest.raises(ArgumentError, match=r"early stopping watches 'validation_loss'[\s\S]*one of loss"):
        fit(**run.arguments(epochs=1, early_stopping=EarlyStopping()))
    with pytest.raises(ArgumentError, match="patience >= 1"):
        EarlyStopping(patience=0)
    with pytest.raises(ArgumentError, match="bfloat16 or float16"):
        fit(**run.arguments(epochs=1, precision="float64"))
