"""Character models learn the shipped text better than any bigram model could know it."""

from __future__ import annotations

import numpy as np
import pytest
from char_lstm import CharLSTM
from char_transformer import CharTransformer
from characters import TEXT, VOCABULARY, evaluate, learn
from corpus import bigram_bound, notes

import trilobite as tb


def test_the_text_is_what_the_tests_say_it_is() -> None:
    assert len(TEXT) == 60_000 and len(VOCABULARY) == 28 and notes(500) == TEXT[:500]
    assert 1.70 < bigram_bound(TEXT) < 1.72, (
        "nats per character that the best bigram model of this very text needs"
    )
    assert bigram_bound("abababab") == 0.0
    unseen = notes(2000, seed=99)
    assert set(unseen) <= set(TEXT) and unseen not in TEXT


def test_a_small_lstm_passes_the_bigram_bound() -> None:
    tb.manual_seed(0)
    model = CharLSTM(48)
    losses = learn(model, 60, length=24, batch=16, peak=2e-2)
    assert losses[0] > 3.0
    assert evaluate(model, 48) < 1.3 < bigram_bound(TEXT)


def test_a_small_transformer_passes_the_bigram_bound() -> None:
    tb.manual_seed(0)
    model = CharTransformer(32, heads=2, layers=1)
    losses = learn(model, 100, length=32, batch=32, peak=1e-2)
    assert losses[0] > 3.0
    assert evaluate(model, 32) < 1.3 < bigram_bound(TEXT)


def test_compiled_they_learn_the_same() -> None:
    for make in (lambda: CharLSTM(16), lambda: CharTransformer(16, heads=2, layers=1)):
        runs = []
        for jit in (False, True):
            tb.manual_seed(1)
            runs.append(learn(make(), 3, length=8, batch=4, peak=1e-2, jit=jit))
        np.testing.assert_allclose(runs[0], runs[1], rtol=1e-5)


def known_words(text: str) -> float:
    """The share of whole words that the notes know."""
    words = text.replace('"', "").split()[:-1]
    return sum(word in TEXT for word in words) / len(words)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_an_lstm_follows_the_notes() -> None:
    """0.3 nats per character on notes it has not seen: sums, agreement and quotations are learned, not
    letter pairs.
    """
    tb.manual_seed(0)
    model = CharLSTM()
    learn(model, 300, length=48, batch=32, peak=1e-2)
    assert evaluate(model, 96) < 0.3
    assert known_words(model.write("the ", 300)) > 0.9


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_transformer_follows_the_notes() -> None:
    tb.manual_seed(0)
    model = CharTransformer()
    learn(model, 400, length=64, batch=32, peak=4e-3)
    assert evaluate(model, 64) < 0.35
    assert known_words(model.write("the ", 150)) > 0.9
