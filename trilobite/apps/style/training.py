"""Trains a transform network for one style on a folder of pictures, with checkpoints and resume.

Enters: a folder, a style picture, an extractor. Leaves: the trained network; its checkpoints lie in a
directory from which the same run goes on, bit for bit, if it was stopped. Pictures are cut to squares; which
square of which picture comes at which step follows from seed and step alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

import numpy as np

import trilobite as tb
from trilobite import zoo
from trilobite.apps.style.features import Extractor, gram, total_variation
from trilobite.apps.style.pictures import EXTENSIONS, Pixels, read, resized
from trilobite.base.errors import ArgumentError, DataError, FileError
from trilobite.framework import nn, optim
from trilobite.framework.tensor import Tensor


@dataclass(frozen=True)
class Plan:
    """How long, how large, and how strongly each loss counts."""

    steps: int = 2000
    batch: int = 4
    side: int = 256
    rate: float = 1e-3
    style_weight: float = 1e5
    content_weight: float = 1.0
    smoothness: float = 1e-1
    width: int = 32
    blocks: int = 5
    seed: int = 0
    keep_every: int = 100
    balanced: bool = False  # each term as a share of its goal's size
    target: Any = "cpu"

    def __post_init__(self) -> None:
        if self.steps < 1 or self.batch < 1:
            raise ArgumentError(f"{self.steps} steps of {self.batch} pictures", expected="at least 1 of each")
        if self.side < 16 or self.side % 4:
            raise ArgumentError(f"squares of {self.side} pixels", expected="a multiple of 4, at least 16")


@dataclass(frozen=True)
class Report:
    """The losses of one step."""

    step: int
    content: float
    style: float


class Squares:
    """Batches of random squares of pictures, by step."""

    def __init__(self, folder: str | Path, plan: Plan) -> None:
        self.plan = plan
        self.files = sorted(p for p in Path(folder).rglob("*") if p.suffix.lower() in EXTENSIONS)
        if not self.files:
            raise DataError(
                "there are no pictures to learn from",
                where=folder,
                expected=f"files {', '.join(EXTENSIONS[:5])}",
            )

    def batch(self, step: int) -> np.ndarray[Any, np.dtype[np.float32]]:
        """(N, 3, side, side)"""
        rng = np.random.default_rng((self.plan.seed, step))
        chosen = rng.integers(0, len(self.files), self.plan.batch)
        squares = [self._square(self.files[int(i)], rng) for i in chosen]
        return np.ascontiguousarray(np.stack(squares).transpose(0, 3, 1, 2), np.float32)

    def _square(self, path: Path, rng: np.random.Generator) -> Pixels:
        side = self.plan.side
        pixels = read(path, largest_side=4 * side).pixels
        scale = max(side / min(pixels.shape[:2]), 0.0)
        if scale > 1:
            pixels = resized(pixels, *(max(side, round(s * scale)) for s in pixels.shape[:2]))
        top, left = (int(rng.integers(0, extent - side + 1)) for extent in pixels.shape[:2])
        square = pixels[top : top + side, left : left + side]
        return square[:, ::-1] if rng.random() < 0.5 else square


def train(
    folder: str | Path,
    style: Pixels,
    extractor: Extractor,
    plan: Plan | None = None,
    checkpoints: str | Path | None = None,
    watch: Callable[[Report], None] | None = None,
) -> nn.Module:
    """The network after `plan.steps`. If there are checkpoints, the run goes on from the last."""
    plan = plan or Plan()
    tb.manual_seed(plan.seed)
    squares = Squares(folder, plan)
    network = zoo.create("style_transform", width=plan.width, blocks=plan.blocks)
    optimiser = optim.Adam(network.parameters(), lr=plan.rate)
    keeper = None if checkpoints is None else tb.Checkpointer(checkpoints)
    done = 0 if keeper is None else _resumed(keeper, network, optimiser)
    step = _step(network, optimiser, extractor, _goals(style, extractor), plan)
    for number in range(done + 1, plan.steps + 1):
        content_loss, style_loss = step(tb.tensor(squares.batch(number)))
        if watch is not None:
            watch(Report(number, float(content_loss), float(style_loss)))
        if keeper is not None and (number % plan.keep_every == 0 or number == plan.steps):
            keeper.save(number, {"network": network.state_dict(), "optimiser": optimiser.state_dict()})
    return network


def save_network(path: str | Path, network: nn.Module) -> None:
    """Its arrays as .safetensors; width and blocks follow from their shapes."""
    from trilobite.framework.checkpoint.safetensors import save_safetensors

    save_safetensors(path, {name: np.asarray(t.detach().numpy()) for name, t in network.state_dict().items()})


def load_network(path: str | Path) -> nn.Module:
    """A transform network as `save_network` wrote it, in any of the forms of `load_weights`."""
    from trilobite.apps.style.weights import load_weights

    state = load_weights(path)
    try:
        width = state["last.weight"].shape[1]
        blocks = len({name.split(".")[1] for name in state if name.startswith("blocks.")})
    except (KeyError, IndexError):
        raise FileError(
            "the file holds no transform network",
            where=path,
            expected="one that `trilobite style-train` wrote",
        ) from None
    network: nn.Module = zoo.create("style_transform", width=width, blocks=blocks)
    network.load_state_dict(state)
    return network.eval()


def _resumed(keeper: Any, network: nn.Module, optimiser: optim.Optimizer) -> int:
    """The step that was done last; network and optimiser are as they were behind it."""
    latest = keeper.latest()
    if latest is None:
        return 0
    kept = keeper.load(latest)
    network.load_state_dict(kept["network"])
    optimiser.load_state_dict(kept["optimiser"])
    return int(latest)


def _goals(style: Pixels, extractor: Extractor) -> list[Tensor]:
    with tb.no_grad():
        seen = extractor(tb.tensor(np.ascontiguousarray(style.transpose(2, 0, 1)[None])))
    return [gram(seen[name]).detach() for name in extractor.style]


def _distance(found: Tensor, goal: Tensor, balanced: bool) -> Tensor:
    """The mean square of what lies between them; `balanced`, as a share of the goal's own."""
    apart: Tensor = ((found - goal) ** 2).mean()
    return apart / (goal * goal).mean() if balanced else apart


def _summed(terms: Iterable[Tensor]) -> Tensor:
    return reduce(add, terms)


def _step(
    network: nn.Module, optimiser: optim.Optimizer, extractor: Extractor, goals: Sequence[Tensor], plan: Plan
) -> Callable[[Tensor], tuple[Tensor, Tensor]]:
    def step(images: Tensor) -> tuple[Tensor, Tensor]:
        optimiser.zero_grad()
        painted = network(images)
        seen, wanted = extractor(painted), extractor(images)
        content = _summed(_distance(seen[n], wanted[n].detach(), plan.balanced) for n in extractor.content)
        pairs = zip(extractor.style, goals, strict=True)
        style = _summed(_distance(gram(seen[n]), goal, plan.balanced) for n, goal in pairs)
        loss = plan.content_weight * content + plan.style_weight * style
        (loss + plan.smoothness * total_variation(painted)).backward()
        optimiser.step()
        return content.detach(), style.detach()

    compiled: Callable[[Tensor], tuple[Tensor, Tensor]] = tb.jit(step, target=plan.target)
    return compiled
