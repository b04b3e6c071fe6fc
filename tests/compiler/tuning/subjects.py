"""Fusions that have parameters, of every kind, as the compiler makes them."""

from __future__ import annotations

from typing import Any

import numpy as np

import trilobite as tb
from trilobite.compiler.graph.pipeline import Options
from trilobite.compiler.targets.cpu.target import Executable, compile_graph
from trilobite.compiler.targets.cpu.tuning.measure import Subject

F = tb.nn.functional


def normal(*shape: int, seed: int = 0, dtype: Any = np.float32) -> Any:
    return tb.tensor(np.random.default_rng(seed).standard_normal(shape).astype(dtype))


def executable(fn: Any, *shapes: tuple[int, ...], dtype: Any = np.float32) -> Executable:
    graph = tb.make_graph(fn)(*(normal(*s, seed=i, dtype=dtype) for i, s in enumerate(shapes)))
    return compile_graph(graph, Options())


def channels_last(x: tb.Tensor, f: Any) -> tb.Tensor:
    """Between pooling, where convolutions are channels last: one that stands alone runs on planes."""
    return F.max_pool2d(f(F.max_pool2d(x, 2, stride=1)), 2, stride=1)


PROGRAMS: dict[str, tuple[Any, tuple[tuple[int, ...], ...], Any]] = {
    "dot": (lambda a, b: tb.maximum(a @ b, 0.0), ((67, 410), (410, 133)), np.float32),
    "dot of columns": (lambda a, b: a.T @ b, ((90, 200), (90, 35)), np.float64),
    "dot of short floats": (lambda a, b: a @ b, ((61, 97), (97, 50)), np.float16),
    "dot in batches": (lambda a, b: a @ b, ((3, 40, 33), (3, 33, 70)), np.float32),
    "conv": (
        lambda x, w: channels_last(x, lambda y: F.conv2d(y, w, stride=2, padding=1)),
        ((2, 5, 19, 23), (37, 5, 3, 3)), np.float32,
    ),
    "conv, deep": (
        lambda x, w: channels_last(x, lambda y: F.conv2d(y, w)),
        ((2, 300, 9, 9), (20, 300, 1, 1)), np.float32,
    ),
    "conv in tiles": (lambda x, w: F.conv2d(x, w, padding=1), ((1, 32, 28, 28), (32, 32, 3, 3)), np.float32),
    "rows": (lambda x: F.max_pool2d(x, 3, 2), ((2, 13, 31, 29),), np.float32),
    "channelwise": (
        lambda x, w: F.conv2d(x, w, padding=1, groups=24), ((1, 24, 17, 17), (24, 1, 3, 3)), np.float32,
    ),
    "loops": (lambda x: tb.exp(x) * 2 + x, ((70_001,),), np.float32),
    "loops over a few long rows": (lambda x, y: x * y[:, None], ((3, 50_000), (3,)), np.float32),
}  # fmt: skip


def subjects(name: str) -> list[Subject]:
    """Those of a program's fusions that ask for parameters."""
    fn, shapes, dtype = PROGRAMS[name]
    fused = executable(fn, *shapes, dtype=dtype).main.fused
    made = [Subject(e) for e in fused.equations if e.primitive.name == "fusion"]
    return [s for s in made if s.asked()]
