"""What the compiler's commands are given: a network of the zoo with inputs for it, or a graph's text.

Enters: a name or a path, a batch size, inference or training. Leaves: a `Subject`: a compiled function
and its arguments. Weights are as the network draws them; inputs are random.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from trilobite.base.errors import ArgumentError, DataError
from trilobite.compiler.targets.contract import NO_USAGE, Usage
from trilobite.ir.graph import Graph

IMAGE, SMALL, DIGIT = (3, 224, 224), (3, 32, 32), (1, 28, 28)
# name -> (shape of one example, or how many symbols its text has)
EXAMPLES: dict[str, tuple[tuple[int, ...], int]] = {
    "resnet18": (IMAGE, 0),
    "resnet34": (IMAGE, 0),
    "resnet50": (IMAGE, 0),
    "resnet18_32x32": (SMALL, 0),
    "mobilenet_v2": (IMAGE, 0),
    "vgg19": (IMAGE, 0),
    "gpt2": ((128,), 50257),
    "bert_base": ((128,), 30522),
    "mlp": ((784,), 0),
    "lenet": (DIGIT, 0),
    "char_transformer": ((128,), 96),
    "char_lstm": ((64,), 96),
    "alexnet": (IMAGE, 0),
    "googlenet": (IMAGE, 0),
    "efficientnet_lite0": (IMAGE, 0),
    "unet": ((1, 128, 128), 0),
    "tiny_yolov3": (IMAGE, 0),
    "style_transform": (IMAGE, 0),
}


@dataclass(frozen=True)
class Subject:
    """A compiled function with arguments for it."""

    jitted: Any
    args: tuple[Any, ...]
    training: bool

    @contextmanager
    def mode(self) -> Iterator[None]:
        """Inference runs without gradients."""
        import trilobite as tb

        with nullcontext() if self.training else tb.no_grad():
            yield

    def lowered(self) -> tuple[Graph, Usage]:
        with self.mode():
            found = self.jitted.lower(*self.args)
        return found.graph, found.usage


def network(name: str, batch: int, training: bool) -> Subject:
    """A network of the zoo on random examples: its inference, or a whole training step with Adam."""
    import trilobite as tb

    if name not in EXAMPLES:
        raise ArgumentError(
            f"a network named {name!r}",
            expected=f"one of {', '.join(EXAMPLES)}, or the path of a graph's text",
        )
    if batch < 1:
        raise ArgumentError(f"a batch of {batch}", expected="at least 1")
    shape, symbols = EXAMPLES[name]
    rng = np.random.default_rng(0)
    if symbols:
        x = rng.integers(0, symbols, (batch, *shape))
    else:
        x = rng.standard_normal((batch, *shape)).astype(np.float32)
    model: Any = tb.zoo.create(name)
    return subject(model, name, x, training)


def subject(model: Any, name: str, x: np.ndarray[Any, Any], training: bool) -> Subject:
    """A network's inference, or a whole training step with Adam, of these examples."""
    import trilobite as tb

    if not training:
        model.eval()
        run = model.prefill if name == "gpt2" else model
        return Subject(tb.jit(_named(lambda x: run(x), name)), (tb.tensor(x),), False)
    step = _named(_step(model), f"{name}_training")
    return Subject(tb.jit(step), (tb.tensor(x), *_labels(model, x)), True)


def _named(fn: Callable[..., Any], name: str) -> Callable[..., Any]:
    fn.__name__ = name
    return fn


def _labels(model: Any, x: np.ndarray[Any, Any]) -> tuple[Any, ...]:
    """One for every row of scores."""
    import trilobite as tb

    scores = tb.eval_shape(_scores(model), tb.tensor(x))
    rng = np.random.default_rng(1)
    return (tb.tensor(rng.integers(0, scores.shape[-1], int(np.prod(scores.shape[:-1])))),)


def _scores(model: Any) -> Callable[[Any], Any]:
    """What a loss is taken of: the first result of networks that have several, classes last."""

    def scores(x: Any) -> Any:
        out = model(x)
        first = out[0] if isinstance(out, tuple) else out
        return first.permute(0, 2, 3, 1) if first.ndim == 4 else first

    return scores


def _step(model: Any) -> Callable[[Any, Any], Any]:
    import trilobite as tb

    optimizer = tb.optim.Adam(model.parameters(), lr=1e-3)
    forward = _scores(model)

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        scores = forward(x)
        loss = tb.nn.functional.cross_entropy(scores.reshape(-1, scores.shape[-1]), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def recorded(name: str, batch: int, training: bool) -> tuple[Graph, Usage]:
    """The graph of a network, or of a file that holds a graph's text."""
    path = Path(name)
    if not (path.suffix or os.path.exists(path)):
        return network(name, batch, training).lowered()
    from trilobite.ir.text import parse

    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(
            f"the graph cannot be read: {error}",
            where=name,
            expected="text as trilobite compile prints it",
            remedy="check the path",
        ) from error
    return parse(text), NO_USAGE
