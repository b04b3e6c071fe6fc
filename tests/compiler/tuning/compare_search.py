"""Does the model find better parameters than drawing by lot, at equal trials? On kernels of this machine.

    python -m tests.compiler.tuning.compare_search

Every point of a space is measured in several rounds, on one thread, and the least of all runs counts; then
both ways of searching are played many times over on these figures, so that noise meets both alike. Printed:
how much longer than the best of all points the best found takes, on average over the plays; and what the
default takes.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import trilobite as tb
from tests.compiler.tuning.by_lot import draw_at_random
from tests.compiler.tuning.subjects import executable
from trilobite.compiler.targets.cpu.tuning.measure import Subject
from trilobite.compiler.targets.cpu.tuning.model import analytic, features
from trilobite.compiler.targets.cpu.tuning.search import Budget, search
from trilobite.compiler.targets.cpu.tuning.spaces import SPACES, Space
from trilobite.native import host
from trilobite.native.pool import set_threads

F = tb.nn.functional
SMALLER = {
    "dot": Space((("m_block", (24, 96, 192, 384)), ("n_block", (128, 512, 2048)),
                  ("direct", (0, 128, 4096)), ("units", (2, 8, 64, 256)))),
    "conv": SPACES["conv"],
}  # fmt: skip
KERNELS: dict[str, tuple[Any, tuple[tuple[int, ...], ...]]] = {
    "128 x 768 by 768 x 384": (lambda a, b: a @ b, ((128, 768), (768, 384))),
    "96 x 256 by 256 x 1024": (lambda a, b: a @ b, ((96, 256), (256, 1024))),
    "1536 x 128 by 128 x 96": (lambda a, b: a @ b, ((1536, 128), (128, 96))),
    "3x3 by 2, 64 to 128, 28": (
        partial(F.conv2d, stride=2, padding=1), ((1, 64, 28, 28), (128, 64, 3, 3)),
    ),
    "1x1, 512 to 128, 14, 8 images": (F.conv2d, ((8, 512, 14, 14), (128, 512, 1, 1))),
    "1x1, 1024 to 256, 7, 8 images": (F.conv2d, ((8, 1024, 7, 7), (256, 1024, 1, 1))),
}  # fmt: skip
PLAYS, TRIALS, ROUNDS = 40, (8, 16, 32), 3


def subject_of(name: str) -> Subject:
    fused = executable(lambda x, w: KERNELS[name][0](x, w), *KERNELS[name][1]).main.fused
    made = [Subject(e) for e in fused.equations if e.attributes["kind"] in ("dot", "conv")]
    return next(s for s in made if s.asked())


def figures(name: str) -> tuple[str, str, dict[str, int], dict[tuple[int, ...], float]]:
    """Kind, problem, default, and seconds of every point."""
    subject = subject_of(name)
    asked = subject.asked()[0]
    default, space = dict(asked.defaults), SMALLER[asked.kind]
    seconds: dict[tuple[int, ...], float] = {}
    for _ in range(ROUNDS):
        for p in (default, *space):
            key = tuple(p.values())
            seconds[key] = min(seconds.get(key, np.inf), subject.seconds(p, limit=0.02))
    return asked.kind, asked.problem, default, seconds


def compare(name: str) -> str:
    kind, problem, default, seconds = figures(name)
    space, machine = SMALLER[kind], host.features()
    least = min(seconds.values())

    def measure(p: dict[str, int]) -> float:
        return seconds[tuple(p.values())]

    cells = [f"{seconds[tuple(default.values())] / least - 1:7.1%}"]
    # Both begin at the point of the space that is nearest to the default.
    first = {name: min(values, key=lambda v: abs(v - default[name])) for name, values in space.values}
    for trials in TRIALS:
        ours, lot = [], []
        for seed in range(PLAYS):
            found = search(
                space, first, measure, lambda p: analytic(kind, problem, p, machine),
                lambda p: features(kind, problem, p, machine), Budget(trials), np.random.default_rng(seed),
            )  # fmt: skip
            ours.append(found.best[1])
            drawn = draw_at_random(space, first, measure, Budget(trials), np.random.default_rng(seed))
            lot.append(drawn.best[1])
        cells += [f"{np.mean(ours) / least - 1:6.2%}", f"{np.mean(lot) / least - 1:6.2%}"]
    return f"| {name} | {len(seconds)} | " + " | ".join(cells) + " |"


def main() -> None:
    set_threads(1)
    heads = [f"{way}, {n} trials" for n in TRIALS for way in ("model", "lot")]
    print("| kernel | points | default | " + " | ".join(heads) + " |")
    print("|---" * (3 + len(heads)) + "|")
    for name in KERNELS:
        print(compare(name), flush=True)


if __name__ == "__main__":
    main()
