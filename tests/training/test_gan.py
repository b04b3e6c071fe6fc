"""A generator learns to draw digits on demand; a classifier that never saw a drawn one reads them."""

from __future__ import annotations

import numpy as np
import pytest

import trilobite as tb

pytest.importorskip("sklearn", reason="the digits come with scikit-learn")

from digits_gan import NOISE, Generator, classifier, one_hot, picture, real_digits, recognised, train


def likeness(generator: Generator) -> float:
    """How much the mean drawing looks like the mean digit: a correlation."""
    wanted = np.arange(200) % 10
    tb.manual_seed(3)
    with tb.no_grad():
        drawn = generator(tb.randn((200, NOISE)), one_hot(wanted)).numpy()
    return float(np.corrcoef(drawn.mean(axis=0), real_digits()[0].mean(axis=0))[0, 1])


def test_a_short_game_already_gives_drawings_a_shape() -> None:
    tb.manual_seed(0)
    assert abs(likeness(Generator())) < 0.5
    generator = train(100)
    assert likeness(generator) > 0.75
    assert len(picture(real_digits()[0][0]).splitlines()) == 8


def test_the_game_is_the_same_again() -> None:
    a, b = (train(3).state_dict() for _ in range(2))
    for name, value in a.items():
        np.testing.assert_array_equal(value.numpy(), b[name].numpy())


def test_the_classifier_reads_real_digits_and_no_noise() -> None:
    reader, accuracy = classifier(epochs=3)
    assert accuracy > 0.9
    assert recognised(Generator(), reader)["recognised"] < 0.25, "chance is one in ten"


@pytest.mark.long
@pytest.mark.timeout(900)
def test_drawn_digits_are_recognised() -> None:
    reader, accuracy = classifier()
    assert accuracy > 0.96
    found = recognised(train(), reader)
    assert found["recognised"] > 0.9, "of 50 drawings of each digit"
    assert found["confidence"] > 0.85
    assert found["variety"] > 0.3, "the drawings of one digit are not one drawing"
