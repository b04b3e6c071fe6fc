"""Regular expressions of model files: the same matches as Python's own, the longest one, and never a hang."""

from __future__ import annotations

import random
import re
from typing import Any

import numpy as np
import onnx
import pytest

import trilobite as tb
from tests.inference.conftest import model, node
from trilobite.inference.operators.patterns import Pattern, PatternError

LEAVES = ["a", "b", "c", "[ab]", "[^a]", ".", r"\d", r"\w", r"\W", r"\s", r"\b", "^", r"\z", "[a-c]",
          r"\.", "x", "1", r"[^\d\n]", "(?i:[^b]c?)", r"\x41"]  # fmt: skip


def some_pattern(draw: random.Random, depth: int = 0) -> str:
    kind = draw.random()
    if kind < 0.45 or depth > 3:
        return draw.choice(LEAVES)
    parts = [some_pattern(draw, depth + 1) for _ in "ab"]
    if kind < 0.6:
        return "".join(parts)
    if kind < 0.75:
        return f"({draw.choice(['', '?:', '?i:'])}{parts[0]}|{parts[1]})"
    return f"(?:{parts[0]}){draw.choice(['*', '+', '?', '{2}', '{1,3}', '{0,}', '*?'])}"


@pytest.mark.parametrize("seed", range(4))
def test_the_same_texts_match_as_with_another_engine(seed: int) -> None:
    draw = random.Random(seed)
    for _ in range(150):
        text = some_pattern(draw)
        other, mine = re.compile(text.replace(r"\z", r"\Z"), re.ASCII), Pattern(text)
        for _ in range(5):
            word = "".join(draw.choice("abcA1 .x\n") for _ in range(draw.randint(0, 7)))
            assert (mine.longest(word) == len(word)) == (other.fullmatch(word) is not None), (text, word)


def test_the_longest_of_several_matches_is_taken() -> None:
    assert list(Pattern("a|aa|b+").spans("aaabbb")) == [(0, 2), (2, 3), (3, 6)]
    assert list(Pattern("x*").spans("axxb")) == [(1, 3)]
    assert Pattern("ab?").longest("cab", 1) == 3 and Pattern("ab?").longest("cab") == -1


@pytest.mark.parametrize(
    ("pattern", "matches", "fails"),
    [
        (r"\pL+", "äß", "a1"),
        (r"\P{L}[[:digit:]x]\Q.*\E", "!7.*", "a7.*"),
        (r"(?i)GRÜN|(?-i:a)", "grün", "A"),
        (r"(?s).(?-s:.)", "\nx", "x\n"),
        (r"(?m)a$\n^b", "a\nb", "ab"),
        (r"[]a^-]{3}", "]-^", "]-b"),
        (r"\x{1F600}|\101", "\U0001f600", "x"),
        ("x{,3}", "x{,3}", "xx"),
        (r"a\Bb\b", "ab", "a"),
    ],
)
def test_the_syntax_of_re2(pattern: str, matches: str, fails: str) -> None:
    assert Pattern(pattern).longest(matches) == len(matches)
    assert Pattern(pattern).longest(fails) != len(fails)


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("(", "not closed"), ("a)", "not opened"), ("*", "repetition of nothing"), ("[z-a]", "without order"),
        ("a**", "repetition of a repetition"), ("[a", "not closed"), ("(?=a)", "unknown kind"),
        (r"\1", r"escape \\1"), ("\\", "escape"), ("a{2,1}", "2 to 1"), ("a{1001}", "1000 is the most"),
        ("(((a{99}){99}){99})", "20,000 states"), ("(" * 500 + "a" + ")" * 500, "deeper than 100"),
        ("[[:foo:]]", "not known"), (r"\x{110000}", "0x110000"), (r"[a-\d]", "without order"),
    ],
)  # fmt: skip
def test_what_is_no_pattern_is_told(pattern: str, said: str) -> None:
    with pytest.raises(PatternError, match=said):
        Pattern(pattern)


def matched(pattern: str, texts: list[str]) -> Any:
    one = node("RegexFullMatch", "x", "y", pattern=pattern)
    proto = model([one], {"x": (np.dtype(object), (len(texts),))}, ["y"], opset=20)
    proto.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.BOOL
    return tb.inference.load(proto).run({"x": np.array(texts, dtype=object)})["y"].tolist()


def test_a_pattern_of_a_model_cannot_make_it_hang() -> None:
    """Engines that try one way after the other need 2 ** 4000 steps here."""
    assert matched("(a+)+b", ["a" * 4000, "aab"]) == [False, True]


def test_a_model_with_a_pattern_that_is_none_is_refused() -> None:
    with pytest.raises(tb.errors.ArgumentError, match=r"RegexFullMatch.*a pattern that is none: a group"):
        matched("(a", ["a"])
