"""A text to learn from: the field notes of a fossil hunter, spoken by a small grammar.

Enters: a seed and a length. Leaves: a string over 30 characters. What makes it worth learning is far
apart: verbs agree with subjects that stand several words before, sums are right, and every quotation that
opens closes. A model that sees only the character before cannot follow any of that; `bigram_bound` says
how well the best such model does.
"""

from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise

import numpy as np

NUMBERS = "no one two three four five six seven eight nine ten eleven twelve".split()
ADJECTIVES = "black smooth broken small folded ancient silver".split()
NOUNS = "trilobite shell fern ammonite leaf tooth".split()
PLURALS = {"leaf": "leaves", "tooth": "teeth"}
FINDERS = "diver quarryman teacher sailor child".split()
PLACES = "under the red cliff,by the river,in the quarry,near the harbour,below the chalk".split(",")


def plural(noun: str) -> str:
    return PLURALS.get(noun, noun + "s")


class Notes:
    """One writer, with a generator of their own."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def one(self, words: list[str]) -> str:
        return words[int(self.rng.integers(len(words)))]

    def subject(self) -> tuple[str, bool]:
        """A phrase, and whether it is many things."""
        count, noun, adjective = int(self.rng.integers(1, 7)), self.one(NOUNS), self.one(ADJECTIVES)
        many = count > 1
        head = f"the {NUMBERS[count]} {adjective} {plural(noun)}" if many else f"the {adjective} {noun}"
        return f"{head} that the {self.one(FINDERS)} found {self.one(PLACES)}", many

    def finding(self) -> str:
        phrase, many = self.subject()
        return f"{phrase} {'were' if many else 'was'} {self.one(ADJECTIVES)}."

    def sum(self) -> str:
        a, b = (int(self.rng.integers(1, 7)) for _ in range(2))
        noun = plural(self.one(NOUNS))
        return f"{NUMBERS[a]} {noun} and {NUMBERS[b]} {noun} make {NUMBERS[a + b]} {noun}."

    def saying(self) -> str:
        return f'the {self.one(FINDERS)} said "{self.finding()[:-1]}", and nobody doubted it.'

    def sentence(self) -> str:
        return (self.finding, self.sum, self.saying)[int(self.rng.integers(3))]()


def notes(characters: int, seed: int = 0) -> str:
    """The first `characters` characters of the notes of one writer."""
    writer, out, length = Notes(seed), [], 0
    while length < characters:
        out.append(writer.sentence())
        length += len(out[-1]) + 1
    return "\n".join(out)[:characters]


def bigram_bound(text: str) -> float:
    """Nats per character of the best model of this very text that sees only the character before."""
    pairs, firsts = Counter(pairwise(text)), Counter(text[:-1])
    return -sum(n * math.log(n / firsts[a]) for (a, _), n in pairs.items()) / (len(text) - 1)
