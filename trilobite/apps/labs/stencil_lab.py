"""The lab `stencil`: a schedule for a blur of 3×3 in two stages, judged by a model of a core with a cache.

The nest is the compiler's own loop IR; `Schedule` refuses what a dependence forbids. The model counts what an
execution in the order of the schedule costs: a statement one cycle, or its share of a vector of neighbours; a
line of 64 bytes that is not among the last 256 ten cycles more; iterations of a parallel outermost loop go
to four cores. It is a model, so that the verdict is the same on every machine.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from functools import cache
from types import ModuleType

import numpy as np

from trilobite.apps.labs.launching import reference
from trilobite.apps.labs.task import Array, Fault, Inputs, Lab, Part, Sizes, compare, first
from trilobite.base.dtypes import float32
from trilobite.compiler.targets.cpu.loops.index import Index, evaluate, variable
from trilobite.compiler.targets.cpu.loops.interpret import interpret
from trilobite.compiler.targets.cpu.loops.ir import (
    Buffer,
    Load,
    Loop,
    Nest,
    Node,
    Statement,
    Target,
    loop,
    loops,
)
from trilobite.compiler.targets.cpu.loops.schedule import Schedule
from trilobite.ir.graph import Equation, Graph, Var
from trilobite.ir.primitives import table
from trilobite.ir.transforms import tape as _tape  # noqa: F401  interpreting needs the tape to be known
from trilobite.ir.types import TensorType

LINE, LINES, MISS, CORES, WIDEST = 16, 256, 10, 4, 8  # elements of a line, lines, cycles, cores, lanes
SLOWER = 1.1
SHAPE = (16, 512)


def _sum_of_three() -> Graph:
    scalar = TensorType((), float32)
    a, b, c, ab, abc = (Var(scalar) for _ in range(5))
    add = table["add"]
    return Graph(
        (a, b, c), [Equation(add, (a, b), {}, (ab,)), Equation(add, (ab, c), {}, (abc,))], (abc,), "sum3"
    )


def blur(height: int, width: int) -> Nest:
    """t = x + x one row below + x two rows below; out = t + t one to the right + t two to the right."""
    i, j, r, c = (variable(name) for name in "ijrc")
    total = _sum_of_three()
    down = Statement(tuple(Load("x", (i + k, j)) for k in range(3)), total, (Target("t", (i, j)),))
    right = Statement(tuple(Load("t", (r, c + k)) for k in range(3)), total, (Target("out", (r, c)),))
    wide = width + 2
    shapes = {"x": (height + 2, wide), "t": (height, wide), "out": (height, width)}
    buffers = tuple(Buffer(name, float32, shape) for name, shape in shapes.items())
    first_stage = loop("j", wide, loop("i", height, down))
    second_stage = loop("c", width, loop("r", height, right))
    return Nest("blur", buffers, (first_stage, second_stage))


def scheduled(student: ModuleType, nest: Nest) -> Nest:
    found = student.schedule(Schedule(nest))
    if not isinstance(found, Schedule):
        raise TypeError(f"schedule gives {type(found).__name__}; the Schedule that it was given was expected")
    return found.nest


# -- the model ---------------------------------------------------------------------------------------------


Steps = dict[str, tuple[int, ...]]  # of a buffer, how far apart neighbours along each axis lie


def _accesses(statement: Statement) -> list[Load | Target]:
    return [each for each in (*statement.leaves, *statement.targets) if isinstance(each, (Load, Target))]


def _place(access: Load | Target, at: dict[str, int], steps: Steps) -> int:
    return sum(_at(x, at) * s for x, s in zip(access.index, steps[access.buffer], strict=True))


def _lanes(node: Loop, at: dict[str, int], steps: Steps) -> int:
    """Lanes that share a cycle in a vector loop: one where its iterations are not neighbours in memory."""
    here, there = {**at, node.var: 0}, {**at, node.var: 1}
    every = [a for n in node.body if isinstance(n, Statement) for a in _accesses(n)]
    near = all(_place(a, there, steps) - _place(a, here, steps) in (0, 1) for a in every)
    return min(node.lanes, WIDEST) if near else 1


def _statements(
    nodes: tuple[Node, ...], at: dict[str, int], lanes: int, steps: Steps
) -> Iterator[tuple[Statement, dict[str, int], int]]:
    """Every execution of a statement, in order, with how many lanes share its cycle."""
    for node in nodes:
        if isinstance(node, Statement):
            yield node, at, lanes
        elif isinstance(node, Loop):
            iterations = min(_at(e, at) for e in node.extent)
            inside = _lanes(node, at, steps) if node.kind == "vector" else lanes
            for iteration in range(iterations):
                yield from _statements(node.body, {**at, node.var: iteration}, inside, steps)


def _at(index: Index, variables: dict[str, int]) -> int:
    return evaluate(index, variables, {}, _nothing_loaded)


def _nothing_loaded(load: Load) -> int:
    raise ValueError(f"the index depends on {load}")


def cycles(nest: Nest) -> float:
    """What the model says of one run."""
    steps = {b.name: tuple(int(s) for s in b.steps) for b in nest.buffers}
    held: OrderedDict[tuple[str, int], None] = OrderedDict()
    work, misses = 0.0, 0
    for statement, at, lanes in _statements(nest.body, {}, 1, steps):
        work += 1 / lanes
        for access in _accesses(statement):
            key = (access.buffer, _place(access, at, steps) // LINE)
            if key in held:
                held.move_to_end(key)
                continue
            misses += 1
            held[key] = None
            if len(held) > LINES:
                held.popitem(last=False)
    top = nest.body[0]
    parallel = len(nest.body) == 1 and isinstance(top, Loop) and top.kind == "parallel"
    return (work + MISS * misses) / (CORES if parallel else 1)


@cache
def _best() -> float:
    return cycles(scheduled(reference("stencil"), blur(*SHAPE)))


# -- judging -----------------------------------------------------------------------------------------------


def _image(rng: np.random.Generator, s: Sizes) -> Inputs:
    return {
        "height": s["height"],
        "width": s["width"],
        "_x": rng.normal(size=(s["height"] + 2, s["width"] + 2)),
    }


def _meaning(student: ModuleType, i: Inputs) -> Fault | None:
    nest = scheduled(student, blur(i["height"], i["width"]))
    x = i["_x"].astype(np.float32)
    arrays: list[Array] = [
        x,
        *(np.full([int(d) for d in b.shape], np.nan, np.float32) for b in nest.arguments[1:]),
    ]
    interpret(nest, arrays)
    t = x[:-2] + x[1:-1] + x[2:]
    return first(compare("out", arrays[2], t[:, :-2] + t[:, 1:-1] + t[:, 2:]))


def _speed(student: ModuleType, _: Inputs) -> Fault | None:
    nest = scheduled(student, blur(*SHAPE))
    found, most = cycles(nest), SLOWER * _best()
    if found <= most:
        return None
    return Fault(
        f"a blur of {SHAPE[0]} × {SHAPE[1]} takes {found:.0f} cycles of the model",
        f"at most {most:.0f}",
        "; ".join(_advice(nest)),
        str(nest),
    )


def _advice(nest: Nest) -> Iterator[str]:
    """What the nest lacks, in words."""
    found = {each.var: each for each in loops(nest.body)}
    if len(nest.body) > 1:
        yield "the first stage is done before the second begins: t leaves the cache in between (compute_at)"
    for each in found.values():
        if all(isinstance(node, Statement) for node in each.body) and each.kind != "vector":
            yield f"the innermost loop {each.var} runs element by element (vectorise)"
    top = nest.body[0]
    if not isinstance(top, Loop) or top.kind != "parallel":
        yield "one core does everything (parallelise)"
    if any(
        each.var.startswith(("i", "r")) and not any(isinstance(n, Loop) for n in each.body)
        for each in found.values()
    ):
        yield "an innermost loop walks down a column: every element is another line (reorder)"


LAB = Lab(
    "stencil",
    "a schedule for a stencil",
    (
        Part(
            "meaning",
            "schedule(s): any schedule that keeps the result",
            _image,
            _meaning,
            {"height": (1, 9), "width": (1, 20)},
            cases=8,
        ),
        Part(
            "speed",
            f"at most {SLOWER:g} times the cycles of the reference, by the model of the page",
            lambda rng, s: {},
            _speed,
            cases=1,
        ),
    ),
)
