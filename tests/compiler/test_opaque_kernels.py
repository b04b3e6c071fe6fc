"""A plan takes kernels of any form: here those of an invented machine, whose code is a list of words."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest

import trilobite as tb
from trilobite.base.errors import DataError
from trilobite.compiler.graph.fuse import FusionPolicy, Kind, fuse
from trilobite.compiler.program.kernels import Kernel, Lowering, Step, inputs, outputs
from trilobite.compiler.program.plan import plan
from trilobite.compiler.program.program import Call, Loop, Program, walk
from trilobite.compiler.program.program_file import decode, encode
from trilobite.ir.graph import Equation, Graph


class Words(NamedTuple):
    """A kernel as an invented machine has it: no text, no level."""

    name: str
    code: tuple[int, ...]
    scratch: int = 0


COPY = Words("move", (7,))


def lowering(e: Equation) -> Lowering:
    names = [inner.primitive.name for inner in e.attributes["region"].equations]
    kernel = Words("_".join(names), tuple(map(len, names)), scratch=16 * len(names))
    return Lowering((Step(kernel, (*inputs(len(e.inputs)), *outputs(len(e.outputs))), 3),))


def planned(fn: Any, *values: Any) -> Program:
    graph: Graph = tb.jit(fn, target="reference").lower(*map(tb.tensor, values)).graph
    policy = FusionPolicy({"loops": Kind("loops", lambda region: None)}, {}, 8, 4, 1 << 20, 1 << 10, 2)
    return plan(fuse(graph, policy), {"loops": lowering}, copy=COPY)


def pack(kernels: Sequence[Kernel]) -> bytes:
    return json.dumps(kernels).encode()


def unpack(data: bytes) -> list[Words]:
    return [Words(name, tuple(code), scratch) for name, code, scratch in json.loads(data)]


def test_equal_kernels_are_one_kernel_and_are_named_in_the_program() -> None:
    x = np.arange(6, dtype=np.float32)
    program = planned(lambda x: (tb.exp(x).sum(), tb.exp(x * 2).sum()), x)
    assert all(isinstance(k, Words) for k in program.kernels)
    assert len(program.kernels) == len(set(program.kernels)) <= len(program.steps)
    assert all(k.name in str(program) for k in program.kernels)


def test_control_flow_copies_by_the_kernel_that_it_is_given() -> None:
    xs = np.arange(12, dtype=np.float32).reshape(4, 3)
    program = planned(lambda xs: tb.scan(lambda c, x: (x, tb.sin(c)), tb.zeros(3), xs), xs)
    assert any(isinstance(s, Loop) for s in program.steps)
    assert COPY in [s.kernel for s in walk(program.steps) if isinstance(s, Call)]


def test_the_target_says_how_its_kernels_lie_on_disk() -> None:
    xs = np.arange(12, dtype=np.float32).reshape(4, 3)
    program = planned(lambda xs: tb.scan(lambda c, x: (tb.sin(c) + x, c * x), tb.zeros(3), xs), xs)
    data = encode(program, pack)
    assert data is not None
    again = decode(data, unpack)
    assert again.steps == program.steps and again.kernels == program.kernels
    with pytest.raises(DataError, match="bytes are no program"):
        decode(data.replace(b'"move"', b'"move '), unpack)
