"""The lab `autodiff`: a tape of the student's own, on random programs, beside the framework's gradients.

A program is a list of steps over earlier values. It runs on the student's `Variable` and, in doubles, on
tensors of the framework; a program of n steps begins as the one of n - 1 steps, so shrinking drops the last.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

import numpy as np

import trilobite as tb
from trilobite.apps.labs.task import Fault, Inputs, Lab, Part, Sizes, compare, first

TOLERANCE = 1e-8
Step = tuple[str, int, int]
Operations = Mapping[str, Callable[[Any, Any], Any]]
ARITHMETIC: Operations = {
    "{a} + {b}": lambda a, b: a + b,
    "{a} - {b}": lambda a, b: a - b,
    "{a} * {b}": lambda a, b: a * b,
    "-{a}": lambda a, b: -a,
}
FUNCTIONS: Operations = {
    **ARITHMETIC,
    "({a} * 0.1).exp()": lambda a, b: (a * 0.1).exp(),
    "({a} * {a} + 1.0).log()": lambda a, b: (a * a + 1.0).log(),
    "{a}.relu()": lambda a, b: a.relu(),
    "{a} / ({b} * {b} + 1.0)": lambda a, b: a / (b * b + 1.0),
}
MATRICES: Operations = {
    **FUNCTIONS,
    "{a} @ {b}.T @ {a} * 0.1": lambda a, b: a @ b.T @ a * 0.1,
}


def _program(operations: Operations, broadcast: bool) -> Callable[[np.random.Generator, Sizes], Inputs]:
    def make(rng: np.random.Generator, s: Sizes) -> Inputs:
        names = list(operations)
        shape = (s["rows"], s["columns"])
        v0, v1 = rng.normal(size=shape), rng.normal(size=_narrow(rng, shape) if broadcast else shape)
        if broadcast:
            names = [name for name in names if "@" not in name]
        steps: list[Step] = []
        while len(steps) < s["steps"]:
            known = 2 + len(steps)
            a = int(rng.integers(known)) if steps else 0
            steps.append((names[int(rng.integers(len(names)))], a, int(rng.integers(known))))
        return {"program": _text(steps), "v0": v0, "v1": v1, "_steps": steps}

    return make


def _narrow(rng: np.random.Generator, shape: tuple[int, int]) -> tuple[int, ...]:
    """A shape that is spread over another: along rows, along columns, along both."""
    rows, columns = shape
    return ((columns,), (1, columns), (rows, 1), (1, 1), ())[int(rng.integers(5))]


def _text(steps: list[Step]) -> str:
    lines = [f"v{k + 2} = " + name.format(a=f"v{a}", b=f"v{b}") for k, (name, a, b) in enumerate(steps)]
    return "; ".join([*lines, f"v{len(steps) + 1}.sum().backward()"])


def _run(steps: list[Step], leaves: list[Any], operations: Operations) -> Any:
    values = list(leaves)
    for name, a, b in steps:
        values.append(operations[name](values[a], values[b]))
    return values[-1].sum()


def _judge(operations: Operations) -> Callable[[ModuleType, Inputs], Fault | None]:
    def judge(student: ModuleType, i: Inputs) -> Fault | None:
        mine = [student.Variable(i[name].copy()) for name in ("v0", "v1")]
        theirs = [tb.tensor(i[name], requires_grad=True) for name in ("v0", "v1")]
        out, wanted = _run(i["_steps"], mine, operations), _run(i["_steps"], theirs, operations)
        wrong = compare("the result", out.value, np.asarray(wanted.item()), TOLERANCE)
        if wrong is not None:
            return wrong
        wanted.backward()
        out.backward()
        return first(*(_slope(name, m, t) for name, m, t in zip(("v0", "v1"), mine, theirs, strict=True)))

    return judge


def _slope(name: str, mine: Any, theirs: Any) -> Fault | None:
    grad = theirs.grad
    wanted = np.zeros(tuple(theirs.shape)) if grad is None else np.asarray(grad.numpy())
    hint = "a value that is used twice gets the sum of both gradients; one that was spread is summed back"
    return compare(f"{name}.grad", mine.grad, wanted, TOLERANCE, hint)


def _part(name: str, task: str, operations: Operations, broadcast: bool = False) -> Part:
    sizes = {"steps": (1, 9), "rows": (1, 3), "columns": (1, 3)}
    make = _program(operations, broadcast)
    return Part(name, task, make, _judge(operations), sizes, cases=40, plain=("v0", "v1"))


def _long(student: ModuleType, i: Inputs) -> Fault | None:
    x = student.Variable(np.array([i["start"]]))
    value = x
    for _ in range(i["length"]):
        value = value + x
    value.sum().backward()
    hint = "walk over a list of nodes in order; a function that calls itself runs out of stack"
    return compare("x.grad", x.grad, np.array([i["length"] + 1.0]), TOLERANCE, hint)


LAB = Lab(
    "autodiff",
    "automatic differentiation by hand",
    (
        _part(
            "arithmetic",
            "Variable with +, -, * and backward(): gradients of shared values add up",
            ARITHMETIC,
        ),
        _part("functions", "exp, log, relu and division, numbers among the operands", FUNCTIONS),
        _part("matrices", "@ and .T", MATRICES),
        _part(
            "broadcasting",
            "operands of different shapes: what was spread is summed back",
            FUNCTIONS,
            broadcast=True,
        ),
        Part(
            "depth",
            "a chain of thousands of steps, without running out of stack",
            lambda rng, s: {"start": float(rng.normal()), "length": s["length"]},
            _long,
            {"length": (1, 5000)},
            cases=4,
        ),
    ),
)
