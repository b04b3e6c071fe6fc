"""A whole graph as one C file, for reading, porting and checking: `trilobite compile --emit c`.

Enters: a recorded graph and `Options`. Leaves: C11 text with a function per kernel and `run`, which calls
them in order. Passes, fusion of loops, the plan and the arena are those of the CPU target; products,
convolutions and windows are plain loops, one function each, in the layout that the graph has. Inputs are the
graph's, weights included, in its order. What has no loops (sorting, linear algebra, loops of unknown length)
is refused by name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from trilobite.base.dtypes import bfloat16, bool_, float16
from trilobite.base.errors import DeviceError
from trilobite.compiler.graph.fuse import Kind, fuse
from trilobite.compiler.graph.passes import PASSES
from trilobite.compiler.graph.pipeline import Options, run_stages
from trilobite.compiler.program.kernels import Kernel, Lowering, Operand, Step
from trilobite.compiler.program.plan import plan
from trilobite.compiler.program.program import Branch, Call, Loop, Place, Program, While, hosts
from trilobite.compiler.program.program import Step as ProgramStep
from trilobite.compiler.targets.cpu.copying import BLOCK
from trilobite.compiler.targets.cpu.kinds import sized
from trilobite.compiler.targets.cpu.loops import c_scalars as c
from trilobite.compiler.targets.cpu.loops.emit_c import c_function
from trilobite.compiler.targets.cpu.loops.emit_llvm import local_offsets
from trilobite.compiler.targets.cpu.loops.ir import Nest
from trilobite.compiler.targets.cpu.nests.lower import accepts, nests_of
from trilobite.compiler.targets.cpu.nests.lower import lower as lower_loops
from trilobite.compiler.targets.cpu.nests.plain import PLAIN, plain_nests
from trilobite.ir.graph import Equation, Graph
from trilobite.ir.types import TensorType, size_of

_ENTRY = "entry"


class CFunction(NamedTuple):
    """What a kernel is in a C file: the function `entry`, which is renamed there. Equal ones are one."""

    name: str
    text: str
    scratch: int = 0


_COPY = CFunction(
    "copy",
    f"""void {_ENTRY}(const int64_t *args, int64_t begin, int64_t end, char *scratch) {{
    const int64_t size = args[2], low = begin * {BLOCK}, high = end * {BLOCK} < size ? end * {BLOCK} : size;
    memcpy((char *)args[0] + low, (const char *)args[1] + low, (size_t)(high - low));
    (void)scratch;
}}
""",
)


def c_program(graph: Graph, options: Options) -> str:
    """The C file of a graph with known sizes."""
    if graph.symbols:
        raise DeviceError(
            f"{graph.name} has symbolic sizes: {', '.join(sorted(s.name for s in graph.symbols))}",
            where="emitting C",
            expected="sizes that are numbers",
            remedy="record it for the sizes that the C file shall have",
        )
    stages = [(p.name, p) for p in PASSES]
    known = frozenset(name for name, _ in stages)
    plain = options._replace(skip=options.skip & known, claimed=None, donated=())
    policy = sized(_kinds(), dict.fromkeys(PLAIN, "plain"))
    fused = fuse(run_stages(graph, stages, plain).latest, policy)
    return _File(graph, plan(fused, {"loops": _loops, "plain": _plain}, copy=_COPY)).text()


# -- kernels as C --------------------------------------------------------------------------------------------


def _kinds() -> dict[str, Kind]:
    return {"loops": Kind("loops", accepts), "plain": Kind("plain", _accepts_plain)}


def _accepts_plain(region: Graph) -> str | None:
    (root, *others) = region.equations
    if any(v.type.dtype.kind == "c" for v in (*root.inputs, *root.outputs)):
        return "C has no loops for complex numbers here"
    return "in C a product, a convolution or a window is a function of its own" if others else None


def _kernel(nest: Nest, name: str) -> CFunction:
    return CFunction(name, c_function(nest, _ENTRY), scratch=local_offsets(nest)[1])


def _loops(e: Equation) -> Lowering:
    """The loops that run natively, with C for their text."""
    found = lower_loops(e)
    nests = nests_of(e.attributes["region"])
    steps = [
        s._replace(kernel=_kernel(nest, s.kernel.name)) for s, nest in zip(found.steps, nests, strict=True)
    ]
    return replace(found, steps=tuple(steps))


def _plain(e: Equation) -> Lowering:
    region: Graph = e.attributes["region"]
    (inner,) = region.equations
    inputs = [region.inputs.index(v) for v in inner.inputs]  # one value may be several operands
    steps: list[Step] = []
    temporaries: dict[int, Any] = {}
    for nest in plain_nests(inner):
        for b in nest.arguments:
            if b.name[0] == "t":
                temporaries[int(b.name[1:])] = size_of((*b.shape, b.dtype.itemsize))
        named = [(_ROLES[b.name[0]], int(b.name[1:])) for b in nest.arguments]
        args = tuple(Operand(role, inputs[n] if role == "in" else n) for role, n in named)
        steps.append(Step(_kernel(nest, inner.primitive.name), args, 1))
    return Lowering(tuple(steps), tuple(temporaries[i] for i in sorted(temporaries)))


_ROLES: dict[str, Any] = {"x": "in", "y": "out", "t": "temporary"}


# -- the file ------------------------------------------------------------------------------------------------


class _File:
    def __init__(self, graph: Graph, program: Program) -> None:
        self.graph, self.program = graph, program
        _refuse_host_steps(program.steps)
        self.names = {
            k: f"k{n}_{re.sub(r'[^0-9a-zA-Z_]', '_', k.name)}" for n, k in enumerate(program.kernels)
        }

    def text(self) -> str:
        p = self.program
        scratch = max((k.scratch for k in p.kernels), default=0)
        parts = [
            *self._head(), c.PRELUDE,
            f"enum {{ ARENA_BYTES = {p.packing.peak}, SCRATCH_BYTES = {scratch} }};\n",
            *(_constant(n, a) for n, a in enumerate(p.constants)),
            *(self._function(k) for k in p.kernels),
            "void run(const void *const *inputs, void *const *outputs, char *arena, char *scratch) {",
            *self._steps(p.steps, "    "), *self._copies(),
            "    (void)inputs, (void)outputs, (void)arena, (void)scratch;", "}", "",
        ]  # fmt: skip
        return "\n".join(parts)

    def _head(self) -> Iterator[str]:
        yield f"/* {self.graph.name}"
        yield " * run(inputs, outputs, arena, scratch): arena of ARENA_BYTES, scratch of SCRATCH_BYTES,"
        yield " * both aligned to 64 bytes. Compile with -std=gnu11 -O2 -ffp-contract=off -lm."
        yield from self._listed("inputs", self.graph.input_types)
        yield from self._listed("outputs", self.graph.output_types)
        yield " */"

    def _listed(self, name: str, types: Iterable[TensorType]) -> Iterator[str]:
        for i, t in enumerate(types):
            yield f" * {name}[{i}]: {t}"

    def _function(self, kernel: Kernel) -> str:
        assert isinstance(kernel, CFunction), kernel
        return "static " + kernel.text.replace(f"void {_ENTRY}(", f"void {self.names[kernel]}(", 1)

    def _steps(self, steps: Iterable[ProgramStep], pad: str, depth: int = 0) -> Iterator[str]:
        """Lines of steps inside `depth` counted loops."""
        deeper = pad + "    "
        for s in steps:
            match s:
                case Call():
                    words = ", ".join(_word(a) for a in s.args) or "0"
                    yield f"{pad}{self.names[s.kernel]}((const int64_t[]){{{words}}}, 0, {s.units}, scratch);"
                case Loop():
                    yield f"{pad}for (int64_t i{depth} = 0; i{depth} < {s.count}; i{depth}++) {{"
                    yield from self._steps(s.steps, deeper, depth + 1)
                    yield pad + "}"
                case While():
                    yield f"{pad}for (;;) {{"
                    yield from self._steps(s.test, deeper, depth)
                    yield f"{deeper}if (!*(const uint8_t *)({_pointer(s.flag)})) break;"
                    yield from self._steps(s.body, deeper, depth)
                    yield pad + "}"
                case Branch():
                    yield from self._branch(s, pad, depth)

    def _branch(self, s: Branch, pad: str, depth: int) -> Iterator[str]:
        index, last = f"*(const int32_t *)({_pointer(s.index)})", len(s.cases) - 1
        for n, steps in enumerate(s.cases):
            test = f"if ({index} <= {n}) {{" if n == 0 else f"else if ({index} == {n}) {{"
            yield pad + (test if n < last else "else {" if n else "{")
            yield from self._steps(steps, pad + "    ", depth)
            yield pad + "}"

    def _copies(self) -> Iterator[str]:
        """Results that are values the program already has."""
        for k, v in enumerate(self.program.outputs):
            if v.place != Place("output", k):
                size = int(np.prod(v.shape, dtype=np.int64)) * v.dtype.itemsize
                yield f"    memcpy(outputs[{k}], (const char *){_pointer(v.place)}, {size});"


def _refuse_host_steps(steps: Iterable[ProgramStep]) -> None:
    for s in hosts(steps):
        raise DeviceError(
            f"there is no C for {s.equation.primitive.name}: {s.why}",
            where=s.equation.location,
            expected="operations that are loops over elements",
            remedy="compute it outside, or read --emit program",
        )


def _word(a: Place | int) -> str:
    return str(a) if isinstance(a, int) else f"(int64_t)({_pointer(a)})"


def _pointer(place: Place) -> str:
    base = {
        "arena": "arena",
        "input": f"(const char *)inputs[{place.index}]",
        "output": f"(char *)outputs[{place.index}]",
        "constant": f"(const char *)c{place.index}",
    }[place.space]
    moves = "".join(f" + {s} * i{d}" for d, s in enumerate(place.strides) if s)
    return f"{base} + {place.offset}{moves}" if place.offset or moves else base


def _constant(n: int, array: np.ndarray[Any, Any]) -> str:
    """An array of numbers, by their bits where C has no literal for them."""
    flat = array.reshape(-1)
    if array.dtype in (float16, bfloat16):
        word, flat = "uint16_t", flat.view(np.uint16)
    elif array.dtype == bool_:
        word, flat = "uint8_t", flat.view(np.uint8)
    else:
        word = c.memory_word(array.dtype)
    numbers = [c.number(v.item(), flat.dtype) for v in flat] or ["0"]
    lines = [", ".join(numbers[i : i + 8]) for i in range(0, len(numbers), 8)]
    return f"static const _Alignas(64) {word} c{n}[] = {{\n    " + ",\n    ".join(lines) + "\n};\n"
