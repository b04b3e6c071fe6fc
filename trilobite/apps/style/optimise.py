"""Style transfer by optimisation: the picture itself is trained until a network sees both pictures in it.

Gatys, Ecker and Bethge, "A neural algorithm of artistic style", 2015. Enters: content and style pixels, an
extractor, how far to go. Leaves: pixels of the content's size. One step is one compiled function on any
target of `jit`; both optimisers are the framework's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import trilobite as tb
from trilobite.apps.style.features import Extractor, gram, total_variation
from trilobite.apps.style.pictures import Pixels
from trilobite.base.errors import ArgumentError
from trilobite.framework import optim
from trilobite.framework.tensor import Tensor


@dataclass(frozen=True)
class Settings:
    """How strongly each part counts, and how the search goes. The picture starts as the content."""

    steps: int = 200
    style_weight: float = 1e4
    content_weight: float = 1.0
    smoothness: float = 1e-2
    optimiser: str = "adam"
    rate: float = 0.03
    # Each term as a share of its goal's size: for networks whose values are of all sizes
    balanced: bool = False
    target: Any = "cpu"

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise ArgumentError(f"{self.steps} steps", expected="at least 1")
        if self.optimiser not in ("adam", "lbfgs"):
            raise ArgumentError(f"an optimiser {self.optimiser!r}", expected="adam or lbfgs")


def stylise(
    content: Pixels,
    style: Pixels,
    extractor: Extractor,
    settings: Settings | None = None,
    watch: Callable[[int, float, Pixels], None] | None = None,
) -> Pixels:
    """`watch` is told the step, its loss and the picture so far, after every step."""
    settings = settings or Settings()
    picture = _tensor(content)
    for number, loss in enumerate(_steps(picture, _tensor(style), extractor, settings), start=1):
        if watch is not None:
            watch(number, loss, _pixels(picture))
    return _pixels(picture)


def _tensor(pixels: Pixels) -> Tensor:
    return tb.tensor(np.ascontiguousarray(pixels.transpose(2, 0, 1)[None], np.float32))


def _pixels(picture: Tensor) -> Pixels:
    values = np.asarray(picture.detach().numpy())[0].transpose(1, 2, 0)
    return np.asarray(np.clip(values, 0, 1), np.float32)


def _steps(picture: Tensor, style: Tensor, extractor: Extractor, settings: Settings) -> Iterator[float]:
    with tb.no_grad():
        content_goal = {name: extractor(picture)[name].detach() for name in extractor.content}
        style_goal = {name: gram(extractor(style)[name]).detach() for name in extractor.style}
    picture.requires_grad_(True)
    content_share, style_share = (
        {name: weight / (_size(goal) if settings.balanced else 1.0) for name, goal in goals.items()}
        for weight, goals in ((settings.content_weight, content_goal), (settings.style_weight, style_goal))
    )

    def loss_of() -> Tensor:
        seen = extractor(picture)
        loss: Tensor = settings.smoothness * total_variation(picture)
        for name, goal in content_goal.items():
            loss = loss + content_share[name] * _square(seen[name] - goal)
        for name, goal in style_goal.items():
            loss = loss + style_share[name] * _square(gram(seen[name]) - goal)
        return loss

    make = _adam_step if settings.optimiser == "adam" else _lbfgs_step
    take = make(picture, loss_of, settings)
    for _ in range(settings.steps):
        yield take()


def _size(goal: Tensor) -> float:
    return max(float(np.square(goal.numpy(), dtype=np.float64).mean()), 1e-30)


def _square(difference: Tensor) -> Tensor:
    result: Tensor = (difference * difference).mean()
    return result


def _adam_step(picture: Tensor, loss_of: Callable[[], Tensor], settings: Settings) -> Callable[[], float]:
    optimiser = optim.Adam([picture], lr=settings.rate)

    def step() -> Tensor:
        optimiser.zero_grad()
        loss = loss_of()
        loss.backward()
        optimiser.step()
        with tb.no_grad():
            picture[...] = tb.clip(picture, 0.0, 1.0)
        return loss.detach()

    compiled = tb.jit(step, target=settings.target)
    return lambda: float(compiled())


def _lbfgs_step(picture: Tensor, loss_of: Callable[[], Tensor], settings: Settings) -> Callable[[], float]:
    optimiser = optim.LBFGS(
        [picture], lr=1.0, max_iter=1, max_eval=25, history_size=20, line_search_fn="strong_wolfe"
    )

    def forward() -> Tensor:
        picture.grad = None
        loss = loss_of()
        loss.backward()
        return loss.detach()

    compiled = tb.jit(forward, target=settings.target)
    return lambda: float(optimiser.step(compiled))
