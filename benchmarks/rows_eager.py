"""Overhead of one eager operation.

Tensors so small that the arithmetic costs nothing: what is left is the way through the framework. *Plain*
tensors need no gradient; *recorded* ones do, so the operation also goes onto the tape. NumPy, which records
nothing, is the floor.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks.row import Row, Work

Operation = Callable[[Any, Any, Any], Work]
"""(the system's namespace, x, y) -> the work."""

OPERATIONS: dict[str, Operation] = {
    "add": lambda xp, x, y: lambda: x + y,
    "mul": lambda xp, x, y: lambda: x * y,
    "exp": lambda xp, x, y: partial(xp.exp, x),
    "sum": lambda xp, x, y: partial(xp.sum, x),
    "matmul": lambda xp, x, y: partial(xp.matmul, x, y),
}
ELEMENTWISE = ("add", "mul", "exp")
SHAPES = {"8": (8,), "4×4": (4, 4)}
CALLS_BEFORE = 64
AIM = {"plain": 5e-6, "recorded": 10e-6}


def operands(shape: tuple[int, ...]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    random = np.random.default_rng(7)
    x, y = (random.standard_normal(shape).astype(np.float32) for _ in range(2))
    return x, y


def steady(work: Work) -> Work:
    """The work after its first calls, which make what later ones use: plans, kinds of dispatch."""
    for _ in range(CALLS_BEFORE):
        work()
    return work


def on_numpy(operation: Operation, shape: tuple[int, ...]) -> Work:
    return operation(np, *operands(shape))


def on_torch(operation: Operation, shape: tuple[int, ...], recorded: bool) -> Work:
    import torch

    x, y = (torch.tensor(value, requires_grad=recorded) for value in operands(shape))
    return steady(operation(torch, x, y))


def on_trilobite(operation: Operation, shape: tuple[int, ...], recorded: bool) -> Work:
    import trilobite as tb

    x, y = (tb.tensor(value, requires_grad=recorded) for value in operands(shape))
    return steady(operation(tb, x, y))


def operation_row(name: str, size: str, kind: str) -> Row:
    operation, shape, recorded = OPERATIONS[name], SHAPES[size], kind == "recorded"
    systems: dict[str, Callable[[], Work]] = {
        "trilobite": partial(on_trilobite, operation, shape, recorded),
        "torch": partial(on_torch, operation, shape, recorded),
    }
    if not recorded:
        systems["numpy"] = partial(on_numpy, operation, shape)
    return Row(
        f"{name}, {size}, {kind}",
        systems,
        floor=("numpy",),
        aim=AIM[kind] if name in ELEMENTWISE else None,
        quick=name in ("add", "matmul") and size == "4×4",
    )


def backward(xp: Any, x: Any, y: Any) -> Work:
    return lambda: xp.sum(x * y).backward()


def without_recording(xp: Any, x: Any, y: Any) -> Work:
    def work() -> object:
        with xp.no_grad():
            return x + y

    return work


def pair(name: str, operation: Operation) -> Row:
    """A row for something that NumPy does not have."""
    systems = {
        "trilobite": partial(on_trilobite, operation, (4, 4), True),
        "torch": partial(on_torch, operation, (4, 4), True),
    }
    return Row(name, systems, quick=True)


ROWS = (
    *(
        operation_row(name, size, kind)
        for kind in ("plain", "recorded")
        for size in SHAPES
        for name in OPERATIONS
    ),
    pair("add under no_grad, 4×4", without_recording),
    pair("mul, sum and backward, 4×4", backward),
)
