"""The examples run as they stand."""

from __future__ import annotations

from pathlib import Path

import char_lstm
import char_transformer
import mnist_cnn
import pytest

import trilobite as tb


@pytest.mark.parametrize("example", [char_lstm, char_transformer], ids=["lstm", "transformer"])
def test_character_models_print_what_they_promise(
    example: object, capsys: pytest.CaptureFixture[str]
) -> None:
    example.main(steps=2)
    first, *_, last = capsys.readouterr().out.splitlines()
    assert "nats per character on new notes; no bigram model gets below 1.7" in first and last.endswith(" s")


def test_mnist_by_hand_learns(mnist: Path, capsys: pytest.CaptureFixture[str]) -> None:
    few = tb.data.Subset(tb.data.MNIST(mnist), range(2500))
    model = mnist_cnn.train(few, epochs=2, batch=64)
    assert mnist_cnn.accuracy(model, tb.data.Subset(tb.data.MNIST(mnist, "test"), range(500))) > 0.85
    assert capsys.readouterr().out.startswith("epoch 1: loss ")
