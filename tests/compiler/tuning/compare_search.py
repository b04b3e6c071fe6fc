"""Does the model find better parameters than drawing by lot, at equal trials? On kernels of this machine.

    python -m tests.compiler.tuning.compare_search

Every point of a space is measured once (the least of many runs); then both ways of searching are played
many times over on these figures, so that noise meets both alike. Printed: how much longer than the best of
all points the best found takes, on average over the plays; and what the default takes.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import trilobite as tb
from tests.compiler.tuning.subjects import executable
from trilobite.compiler.cpu.tuning.measure import Subject
from trilobite.compiler.cpu.tuning.model import analytic, features
from trilobite.compiler.cpu.tuning.search import Budget, draw_at_random, search
from trilobite.compiler.cpu.tuning.spaces import SPACES, Space
from trilobite.native import host

F = tb.nn.functional
SMALLER = {
    "dot": Space((("m_block", (24, 96, 192, 384)), ("n_block", (128, 512, 2048)),
                  ("direct", (0, 128, 4096)), ("units", (2, 8, 64, 256)))),
    "conv": SPACES["conv"],
}  # fmt: skip
KERNELS: dict[str, tuple[Any, tuple[tuple[int, ...], ...]]] = {
    "128 x 768 by 768 x 3072": (lambda a, b: a @ b, ((128, 768), (768, 3072))),
    "512 x 512 by 512 x 512": (lambda a, b: a @ b, ((512, 512), (512, 512))),
    "2048 x 256 by 256 x 96": (lambda a, b: a @ b, ((2048, 256), (256, 96))),
    "3x3 by 2, 64 to 128, 56": (
        partial(F.conv2d, stride=2, padding=1), ((1, 64, 56, 56), (128, 64, 3, 3)),
    ),
    "1x1, 256 to 64, 56": (F.conv2d, ((1, 256, 56, 56), (64, 256, 1, 1))),
    "1x1, 512 to 128, 28": (F.conv2d, ((1, 512, 28, 28), (128, 512, 1, 1))),
    "1x1, 1024 to 256, 14": (F.conv2d, ((1, 1024, 14, 14), (256, 1024, 1, 1))),
}  # fmt: skip
PLAYS, TRIALS = 60, (8, 16, 32)


def subject_of(name: str) -> Subject:
    fused = executable(lambda x, w: KERNELS[name][0](x, w), *KERNELS[name][1]).main.fused
    made = [Subject(e) for e in fused.equations if e.attributes["kind"] in ("dot", "conv")]
    return next(s for s in made if s.asked())


def figures(name: str) -> tuple[str, str, dict[str, int], dict[tuple[int, ...], float]]:
    """Kind, problem, default, and seconds of every point; two rounds, so that no disturbance stays."""
    subject = subject_of(name)
    asked = subject.asked()[0]
    default, space = dict(asked.defaults), SMALLER[asked.kind]
    seconds: dict[tuple[int, ...], float] = {}
    for _ in range(2):
        for p in (default, *space):
            key = tuple(p.values())
            seconds[key] = min(seconds.get(key, np.inf), subject.seconds(p, limit=0.008))
    return asked.kind, asked.problem, default, seconds


def compare(name: str) -> str:
    kind, problem, default, seconds = figures(name)
    space, machine = SMALLER[kind], host.features()
    least = min(seconds.values())

    def measure(p: dict[str, int]) -> float:
        return seconds[tuple(p.values())]

    cells = [f"{seconds[tuple(default.values())] / least - 1:7.1%}"]
    for trials in TRIALS:
        ours, lot = [], []
        for seed in range(PLAYS):
            found = search(
                space, default, measure, lambda p: analytic(kind, problem, p, machine),
                lambda p: features(kind, problem, p, machine), Budget(trials), np.random.default_rng(seed),
            )  # fmt: skip
            ours.append(found.best[1])
            drawn = draw_at_random(space, default, measure, Budget(trials), np.random.default_rng(seed))
            lot.append(drawn.best[1])
        cells += [f"{np.mean(ours) / least - 1:6.2%}", f"{np.mean(lot) / least - 1:6.2%}"]
    return f"| {name} | {len(seconds)} | " + " | ".join(cells) + " |"


def main() -> None:
    heads = [f"{way}, {n} trials" for n in TRIALS for way in ("model", "lot")]
    print("| kernel | points | default | " + " | ".join(heads) + " |")
    print("|---" * (3 + len(heads)) + "|")
    for name in KERNELS:
        print(compare(name), flush=True)


if __name__ == "__main__":
    main()
