"""A generator learns to draw digits on demand; a classifier that never saw a drawn one reads them."""

from __future__ import annotations

import pytest

pytest.importorskip("sklearn", reason="the digits come with scikit-learn")

from digits_gan import Generator, classifier, recognised, train


def test_a_short_game_already_helps() -> None:
    """Chance is one in ten."""
    reader, accuracy = classifier(epochs=3)
    assert accuracy > 0.9
    assert recognised(Generator(), reader)["recognised"] < 0.2
    assert recognised(train(250), reader)["recognised"] > 0.27


@pytest.mark.long
@pytest.mark.timeout(900)
def test_drawn_digits_are_recognised() -> None:
    reader, accuracy = classifier()
    assert accuracy > 0.96
    found = recognised(train(), reader)
    assert found["recognised"] > 0.9, "of 50 drawings of each digit"
    assert found["confidence"] > 0.85
    assert found["variety"] > 0.3, "the drawings of one digit are not one drawing"
