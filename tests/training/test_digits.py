"""The demo: a network reads handwritten digits, to the stated accuracy in the stated time."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

import trilobite as tb
from trilobite.apps import digits
from trilobite.base.errors import ArgumentError, DataError
from trilobite.framework import data


def test_the_small_digits_are_learned_in_seconds(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    pytest.importorskip("sklearn", reason="the small digits come with scikit-learn")
    digits.main(epochs=3, directory=tmp_path)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "scikit-learn's digits: 1437 digits to learn from, 360 to be tested on"
    assert [line.split(":")[0] for line in lines[1:4]] == ["epoch 1", "epoch 2", "epoch 3"]
    assert float(lines[4].split("%")[0]) > 95.0 and lines[4].endswith("s of training")


def test_the_same_seed_gives_the_same_network() -> None:
    pytest.importorskip("sklearn", reason="the small digits come with scikit-learn")
    small = digits.load(Path("nowhere"))
    part = small._replace(train=(small.train[0][:200], small.train[1][:200]))
    runs = [digits.train(part, 1, seed, progress=False)[0].state_dict() for seed in (0, 0, 1)]
    for name, value in runs[0].items():
        np.testing.assert_array_equal(value.numpy(), runs[1][name].numpy())
    assert any((value.numpy() != runs[2][name].numpy()).any() for name, value in runs[0].items())


def test_mnist_is_read_after_a_few_hundred_digits(mnist: Path) -> None:
    found = digits.load(mnist)
    assert found.source == "MNIST" and found.train[0].shape == (60_000, 1, 28, 28)
    assert found.train[0].dtype == np.float32 and abs(float(found.train[0][:5000].mean())) < 0.05
    part = found._replace(
        train=tuple(a[:3000] for a in found.train), test=tuple(a[:1000] for a in found.test)
    )
    _, history = digits.train(part, 2, progress=False)
    assert history["validation_accuracy"][-1] > 0.88


@pytest.mark.long
@pytest.mark.timeout(600)
def test_mnist_reaches_98_5_percent_within_a_minute(mnist: Path) -> None:
    """Eager training on one core. The time is that of this process, so that others do not count."""
    found = digits.load(mnist)
    began = time.process_time()
    model, history = digits.train(found, progress=False)
    seconds = time.process_time() - began
    assert history["validation_accuracy"][-1] >= 0.985
    assert seconds < 60.0
    with tb.no_grad():
        guesses = np.argmax(model.eval()(tb.tensor(found.test[0][:500])).numpy(), axis=1)
    assert (guesses == found.test[1][:500]).mean() > 0.97


def test_without_digits_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def missing() -> data.ArrayDataset:
        raise DataError("the digits set needs scikit-learn, which is not installed")

    monkeypatch.setattr(digits.data, "digits", missing)
    with pytest.raises(
        DataError, match=r"no digits to learn from[\s\S]*make data[\s\S]*pip install scikit-learn"
    ):
        digits.load(tmp_path)


def test_no_epochs_are_refused() -> None:
    empty = (np.zeros((1, 1, 8, 8), np.float32), np.zeros(1, np.int64))
    with pytest.raises(ArgumentError, match="0 epochs"):
        digits.train(digits.Digits("nothing", empty, empty), 0)
