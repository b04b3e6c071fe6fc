"""Runs a contraction on a device and beside NumPy, with any mapping, under the race and memory checkers."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from trilobite.compiler.targets.dlp.contraction.lower import lower_contraction, nest_for
from trilobite.compiler.targets.dlp.contraction.mapping import Mapping, ceil_div
from trilobite.compiler.targets.dlp.contraction.nest import DIMS, Nest
from trilobite.compiler.targets.dlp.contraction.places import Plan
from trilobite.compiler.targets.dlp.contraction.space import is_legal
from trilobite.compiler.targets.dlp.interfaces import (
    Convolution,
    Epilogue,
    Problem,
    Product,
    Tensor,
    row_major,
)
from trilobite.ir.primitives.conv_blocks import convolve, input_gradient, weight_gradient
from trilobite.ir.primitives.conv_geometry import geometry
from trilobite.processor import Device, Run
from trilobite.processor.lang.builder import Builder
from trilobite.processor.lang.codegen.compile import KernelProgram, compile_module
from trilobite.processor.lang.ir import Function, KernelModule
from trilobite.processor.lang.types import Pointer
from trilobite.processor.machine import Machine, load_machine
from trilobite.processor.machine.description import Scratchpad

Array = np.ndarray[Any, Any]


def program_of(
    problem: Problem, machine: Machine, cores: int, mapping: Mapping | None, epilogue: Epilogue | None = None
) -> KernelProgram:
    module = KernelModule("group")
    lower_contraction(module, "group", problem, epilogue, machine, cores, mapping)
    main = module.add_function(Function("main", entry=True))
    builder = Builder(module, main)
    stay, go = main.add_block("memory_core"), main.add_block("compute")
    builder.branch(builder.special("isMpu"), stay, go)
    count = len(module.functions["group"].params)
    args = [builder.block.add_argument(Pointer("gdram"), f"a{number}") for number in range(count)]
    builder.block = stay
    builder.ret()
    builder.block = go
    builder.call("group", args, ())
    builder.ret()
    return compile_module(module, machine)


def launch(
    problem: Problem, machine: Machine, arrays: list[Array], out: Tensor, cores: int = 1,
    mapping: Mapping | None = None, epilogue: Epilogue | None = None, checks: bool = True,
) -> tuple[Array, Run]:  # fmt: skip
    """The result as it lies in memory, as a flat array."""
    device = Device(machine)
    module = device.load(program_of(problem, machine, cores, mapping, epilogue))
    result = device.empty((out.size,), out.dtype)
    given = [*(device.array(a) for a in arrays), result]
    task = f"union{machine.clusters}" if cores > 1 else "block"
    run = device.launch(module["main"], given, dim=(cores, 1, 1), task=task, checks=checks)
    return result.numpy(), run


@dataclass(frozen=True)
class Case:
    """A problem with operands as they lie in memory, and what must come out (in float64 or int64)."""

    problem: Problem
    arrays: list[Array]
    out: Tensor
    expected: Array

    def check(self, machine: Machine, cores: int = 1, mapping: Mapping | None = None) -> Run:
        got, run = launch(self.problem, machine, self.arrays, self.out, cores, mapping)
        assert_close(got.reshape(self.expected.shape), self.expected)
        return run


def assert_close(got: Array, expected: Array) -> None:
    """Integers modulo their width; floats within the rounding of a chain of sums."""
    if got.dtype.kind == "i":
        assert np.array_equal(got, expected.astype(got.dtype))
        return
    bound = {"float32": 2e-5, "float16": 2e-3}.get(str(got.dtype), 2e-2) * (np.abs(expected).max() + 1)
    assert np.abs(got.astype(np.float64) - expected).max() <= bound


def _values(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    if dtype.kind == "i":
        return rng.integers(-50, 50, shape).astype(dtype)
    return rng.standard_normal(shape).astype(dtype)


def product_case(
    b: int, m: int, n: int, k: int, dtype: Any = "float32", out: Any = None, turned: str = "", seed: int = 0
) -> Case:
    """`turned` names the operands whose last two axes are swapped in memory: x, y, o."""
    rng, given = np.random.default_rng(seed), np.dtype(dtype)
    result = np.dtype(out or dtype)
    accumulate = np.dtype("int64" if str(result) == "int64" else "int32" if given.kind == "i" else "float32")
    x, y = _values(rng, (b, m, k), given), _values(rng, (b, k, n), given)
    tensors = [_laid(s, d, name in turned) for s, d, name in
               (((b, m, k), given, "x"), ((b, k, n), given, "y"), ((b, m, n), result, "o"))]  # fmt: skip
    wide = np.int64 if given.kind == "i" else np.float64
    expected = x.astype(wide) @ y.astype(wide)
    arrays = [a.swapaxes(1, 2) if name in turned else a for a, name in ((x, "x"), (y, "y"))]
    shown = expected.swapaxes(1, 2) if "o" in turned else expected
    return Case(Product(tensors[0], tensors[1], tensors[2], accumulate), arrays, tensors[2], shown)


def _laid(shape: tuple[int, ...], dtype: np.dtype[Any], turned: bool) -> Tensor:
    _, rows, cols = shape
    return Tensor(shape, dtype, (rows * cols, 1, rows)) if turned else row_major(shape, dtype)


def convolution_case(
    kind: Any, batch: int, space: tuple[int, ...], inputs: int, outputs: int, kernel: tuple[int, ...],
    stride: tuple[int, ...], low: tuple[int, ...], high: tuple[int, ...], spread: int = 1, dilation: int = 1,
    groups: int = 1, dtype: Any = "float32", out: Any = None, seed: int = 0,
) -> Case:  # fmt: skip
    given, result, rng = np.dtype(dtype), np.dtype(out or dtype), np.random.default_rng(seed)
    rank = len(space)
    window = (stride, low, high, (spread,) * rank, (dilation,) * rank)
    g = geometry("conv", (batch, inputs, *space), (outputs, inputs // groups, *kernel), *window, groups)
    x, w, y = (_values(rng, shape, given) for shape in (g.x_shape, g.w_shape, g.y_shape))
    dtypes = {"forward": (given, given, result), "input_grad": (result, given, given),
              "weight_grad": (given, result, given)}[kind]  # fmt: skip
    tensors = [row_major(_last(a).shape, d) for a, d in zip((x, w, y), dtypes, strict=True)]
    wide = np.dtype("int64" if given.kind == "i" else "float64")
    accumulate = np.dtype("int32" if given.kind == "i" else "float32")
    problem = Convolution(kind, *tensors, *window, groups, accumulate)
    a, b, meaning = {"forward": (x, w, convolve), "input_grad": (y, w, input_gradient),
                     "weight_grad": (x, y, weight_gradient)}[kind]  # fmt: skip
    expected = _last(meaning(a.astype(wide), b.astype(wide), g, wide))
    place = {"forward": 2, "input_grad": 0, "weight_grad": 1}[kind]
    return Case(problem, [_last(a), _last(b)], tensors[place], expected)


def _last(a: Array) -> Array:
    return np.ascontiguousarray(np.moveaxis(a, 1, -1))


# -- machines and mappings -----------------------------------------------------------------------------------


def odd_machine(name: str) -> Machine:
    """dlp-s with scratchpads of a few KiB and a unit of prime sizes."""
    base = load_machine("dlp-s")
    mfu = base.core.mfu
    pads = {"nram": Scratchpad(14, 16, 256, 2), "wram": Scratchpad(7, 16, 512)}
    parts: dict[str, Any] = {
        "plain": {},
        "accumulators": {"acc": Scratchpad(5, 1, 64)},
        "pool": {"pool_kib": 14},
        "tree": {"mfu": replace(mfu, geometry="adder-tree", rows=13, cols=7, macs_per_cycle={"fp16": 91})},
        "stationary": {
            "mfu": replace(
                mfu, geometry="systolic-os", rows=7, cols=5, macs_per_cycle={"int8": 35, "fp32": 35}
            )
        },
    }[name]
    return replace(base, name=f"odd-{name}", core=replace(base.core, **{**pads, **parts}))


def random_mapping(
    nest: Nest, machine: Machine, cores: int, rnd: random.Random, epilogue: Epilogue | None = None
) -> Mapping | None:
    """Any legal mapping that fits; None if none was found."""
    split = [d for d in DIMS if d not in nest.reduced]
    for _ in range(1000):
        tiles = [_tile(nest, d, rnd) for d in DIMS]
        order = rnd.sample(DIMS, len(DIMS))
        parts = [
            _parts(n if cores > 1 else 1, split, rnd) for n in (machine.clusters, machine.cores_per_cluster)
        ]
        levels = rnd.randint(0, 6), rnd.randint(0, 6)
        names = ("", "left", "right", "left+right") if cores > 1 else ("",)
        shared, across = rnd.choice(names), rnd.choice(names)
        m = Mapping(tuple(tiles), tuple(order), *levels, rnd.choice((0, 1, 1, 2)), *parts, shared, across)
        for fewer in ({"across": ""}, {"shared": ""}):
            if not is_legal(nest, m, machine):
                m = replace(m, **fewer)
        steps = np.prod([ceil_div(nest.extents[d], m.tile(d)) for d in DIMS])
        if is_legal(nest, m, machine) and steps <= 40 and Plan(nest, m, machine, epilogue).overflow() is None:
            return m
    return None


def _tile(nest: Nest, dim: str, rnd: random.Random) -> int:
    if dim == "b" or (dim == "g" and nest.kind == "product"):
        return 1
    extent = nest.extents[dim]
    return rnd.choice((extent, max(1, extent // 2), rnd.randint(1, extent)))


def _parts(total: int, dims: list[str], rnd: random.Random) -> tuple[int, ...]:
    parts = dict.fromkeys(DIMS, 1)
    parts[rnd.choice(dims)] = rnd.choice((1, 2, rnd.randint(1, total))) if total > 1 else 1
    first = rnd.choice(dims)
    while prod_of(parts) * 2 <= total:
        parts[first] *= 2
    return tuple(parts[d] for d in DIMS)


def prod_of(parts: dict[str, int]) -> int:
    return int(np.prod(list(parts.values())))


def nest_of_case(case: Case, epilogue: Epilogue | None = None) -> Nest:
    return nest_for(case.problem, epilogue)
