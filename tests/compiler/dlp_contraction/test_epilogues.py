"""What follows the sums: on the unit's drain, or as vector instructions on the tile."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tests.compiler.dlp_contraction.harness import (
    Array,
    Case,
    convolution_case,
    launch,
    nest_of_case,
    odd_machine,
    product_case,
    random_mapping,
)
from trilobite.compiler.targets.dlp.contraction import places
from trilobite.compiler.targets.dlp.contraction.mapping import Mapping
from trilobite.compiler.targets.dlp.contraction.places import Plan
from trilobite.compiler.targets.dlp.interfaces import Epilogue, Tensor
from trilobite.processor.isa.formats import F16, F32, I8, I32, Format
from trilobite.processor.lang.builder import Builder
from trilobite.processor.lang.ir import Value
from trilobite.processor.machine import Machine, load_machine


class Body:
    """relu(sum + operands), elementwise, in one format; then converted to the result's."""

    def __init__(self, fmt: Format, result: Format, operands: int) -> None:
        self.fmt, self.result = fmt, result
        self.inputs: Sequence[Any] = [fmt.dtype] * (1 + operands)
        self.outputs: Sequence[Any] = [result.dtype]
        self.fixed_bytes, self.lane_bytes, self.instructions = 0, 4 * (2 + operands), 2 + operands
        self.scales: Sequence[float] = ()

    def scratch_bytes(self, count: int) -> int:
        return 4 * count

    def emit(
        self, builder: Builder, inputs: Sequence[Value], outputs: Sequence[Value], count: int | Value,
        scratch: Value, most: int, places: Any = None,
    ) -> None:  # fmt: skip
        n = builder.integer(count) if isinstance(count, int) else count
        place = outputs[0] if self.result is self.fmt else scratch
        builder.tensor("VRELU", [place, n, inputs[0]], [self.fmt])
        for operand in inputs[1:]:
            builder.tensor("VAV", [place, n, place, operand], [self.fmt])
        if self.result is not self.fmt:
            builder.tensor("VCVT", [outputs[0], n, place], [self.result, self.fmt])


def _bias(case: Case, dtype: Any) -> Tensor:
    """One number for each output, repeated over all places."""
    rank = len(case.out.shape)
    return Tensor(case.out.shape, np.dtype(dtype), (*(0,) * (rank - 1), 1))


def _run(
    case: Case,
    machine: Machine,
    epilogue: Epilogue,
    extras: list[Array],
    mapping: Mapping | None,
    cores: int = 1,
) -> Array:
    out = epilogue.results[0]
    found, _ = launch(case.problem, machine, [*case.arrays, *extras], out, cores, mapping, epilogue)
    return found.reshape(case.expected.shape)


MAPPINGS = (
    None,
    Mapping((1, 1, 4, 5, 6, 9), ("g", "n", "b", "p", "q", "k")),
    Mapping((1, 1, 3, 9, 4, 9), ("g", "b", "p", "q", "n", "k"), 0, 0, 2),
)


@pytest.mark.parametrize("mapping", MAPPINGS)
@pytest.mark.parametrize("name", ["dlp-s", "accumulators"])
def test_the_drain_rounds_scaled_integers_once(mapping: Mapping | None, name: str) -> None:
    machine = load_machine("dlp-s") if name == "dlp-s" else odd_machine(name)
    case = convolution_case(
        "forward", 2, (9, 9), 9, 11, (3, 3), (1, 1), (1, 1), (1, 1), dtype="int8", out="int32"
    )
    rng = np.random.default_rng(3)
    bias, scale = rng.integers(-900, 900, 11).astype(np.int32), (rng.random(11) / 200).astype(np.float32)
    result = Tensor(case.out.shape, np.dtype("int8"), case.out.strides)
    drain = {"bias": 0, "scale": 1, "activation": "relu"}
    epilogue = Epilogue((_bias(case, "int32"), _bias(case, "float32")), (result,), Body(I32, I8, 2), drain)
    wanted = np.rint(np.maximum((case.expected + bias) * scale.astype(np.float64), 0)).clip(-128, 127)
    assert np.array_equal(_run(case, machine, epilogue, [bias, scale], mapping), wanted.astype(np.int8))


@pytest.mark.parametrize("machine", ["dlp-s", "dlp-m"])
def test_a_float_drain_of_sums_in_parts_waits_for_the_last(machine: str) -> None:
    case = product_case(1, 30, 21, 50)
    bias = np.random.default_rng(1).standard_normal(21).astype(np.float32)
    drain = {"bias": 0, "activation": "relu"}
    epilogue = Epilogue((_bias(case, "float32"),), (case.out,), Body(F32, F32, 1), drain)
    mapping = Mapping((1, 1, 7, 1, 8, 13), ("g", "n", "b", "p", "q", "k"))
    got = _run(case, load_machine(machine), epilogue, [bias], mapping)
    assert np.allclose(got, np.maximum(case.expected + bias, 0), atol=1e-4)


def _body_case(case: Case, seed: int, fmt: Format = F32) -> tuple[Epilogue, list[Array], Array]:
    """relu(sum) + a bias + a tensor of the result's shape, all in one format."""
    rng = np.random.default_rng(seed)
    bias = rng.standard_normal(case.out.shape[-1]).astype(fmt.dtype)
    other = rng.standard_normal(case.out.shape).astype(fmt.dtype)
    epilogue = Epilogue((_bias(case, fmt.dtype), case.out), (case.out,), Body(fmt, fmt, 2))
    return epilogue, [bias, other], np.maximum(case.expected, 0) + bias + other


@pytest.mark.parametrize(("name", "cores"), [("dlp-s", 1), ("dlp-m", 16), ("odd", 1)])
def test_a_body_sees_its_operands_tile_by_tile(name: str, cores: int) -> None:
    machine = odd_machine("plain") if name == "odd" else load_machine(name)
    rnd = random.Random(name)
    window = ((3, 3), (2, 2), (1, 1), (1, 1))
    cases = [
        product_case(3, 17, 13, 11),
        convolution_case("forward", 2, (9, 7), 6, 8, *window, groups=2),
        convolution_case("input_grad", 2, (9, 7), 6, 8, *window),
    ]
    for seed, case in enumerate(cases):
        epilogue, extras, wanted = _body_case(case, seed)
        for _ in range(2):
            mapping = random_mapping(nest_of_case(case, epilogue), machine, cores, rnd, epilogue)
            assert np.allclose(_run(case, machine, epilogue, extras, mapping, cores), wanted, atol=1e-4)


@pytest.mark.parametrize(("name", "cores"), [("dlp-s", 1), ("dlp-m", 16)])
@pytest.mark.parametrize("fmt", [F32, F16], ids=lambda fmt: fmt.name)
def test_a_body_takes_a_tile_a_few_places_at_a_time(
    name: str, cores: int, fmt: Format, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sums of halves are rounded before, as many at a time."""
    monkeypatch.setattr(places, "CHUNK", 24)
    machine, rnd, chunked, dtype = load_machine(name), random.Random(name), 0, str(fmt.dtype)
    cases = [
        product_case(3, 17, 13, 11, dtype),
        convolution_case("forward", 2, (9, 7), 6, 8, (3, 3), (2, 2), (1, 1), (1, 1), groups=2, dtype=dtype),
        convolution_case("input_grad", 2, (9, 7), 6, 8, (3, 3), (2, 2), (1, 1), (1, 1), dtype=dtype),
    ]
    for seed, case in enumerate(cases):
        epilogue, extras, wanted = _body_case(case, seed, fmt)
        nest = nest_of_case(case, epilogue)
        for _ in range(4):
            mapping = random_mapping(nest, machine, cores, rnd, epilogue)
            assert mapping is not None
            chunked += Plan(nest, mapping, machine, epilogue).chunk_rows > 0
            got = _run(case, machine, epilogue, extras, mapping, cores)
            assert np.allclose(got, wanted, atol=1e-4 if fmt is F32 else 0.1)
    assert chunked >= 4 if name == "dlp-m" else not chunked
