"""The debugger on Python kernels: source lines, variables, buffers, at both levels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from harness import EXAMPLES, example

from tests.lang.test_fuzz import Writer, load
from trilobite import dlp
from trilobite.base.errors import ArgumentError
from trilobite.processor import Device
from trilobite.processor.lang.inspection import OPTIMISED_AWAY, buffer, variables
from trilobite.processor.tools.debugger import Debugger


@dlp.kernel
def count(x: dlp.gm[dlp.f32], out: dlp.gm[dlp.i64], n: int, limit: float):
    tile = dlp.nram(64, dlp.f32)
    dlp.copy(tile[:n], x[:n])
    found = 0
    for i in range(n):
        value = tile[i]
        if value > limit:
            found += 1
    out[0] = found


def line_of(text: str) -> int:
    source = Path(__file__).read_text(encoding="utf-8").splitlines()
    return next(n for n, line in enumerate(source, 1) if line.strip() == text)


def held(level: int, text: str) -> Debugger:
    dev = Device("dlp-m")
    x = dev.array(np.array([1.5, -2.0, 4.25, 8.0], np.float32))
    out = dev.array(np.zeros(1, np.int64))
    debug = Debugger(dev, dev.load(count.at_level(level))["count"], [x, out, 4, 1.0])
    debug.break_at(f"{line_of(text)}")
    debug.run()
    return debug


def test_every_variable_is_there_at_level_0() -> None:
    debug = held(0, "found += 1")
    seen = variables(debug)
    assert {"n": 4, "limit": 1.0, "i": 0, "value": 1.5, "found": 0}.items() <= seen.items()
    debug.run()
    seen = variables(debug)
    assert (seen["i"], seen["value"], seen["found"]) == (2, 4.25, 1)
    assert buffer(debug, "tile")[:4].tolist() == [1.5, -2.0, 4.25, 8.0]


def test_values_that_exist_are_there_at_level_2() -> None:
    debug = held(2, "found += 1")
    seen = variables(debug)
    assert seen["found"] == 0 and seen["i"] == 0
    assert (
        str(seen["n"]) == "<optimised away>"
    )  # the loop ends at an address, and another value has its register
    debug.run()
    seen = variables(debug)
    assert seen["found"] == 1 and seen["i"] == 2


@dlp.kernel
def leftovers(x: dlp.gm[dlp.f32], out: dlp.gm[dlp.i64], n: int, limit: float):
    steps = 3
    for i in range(n):
        scaled = i * steps + 1  # noqa: F841 (what the debugger makes of it)
        lost = x[i]  # noqa: F841
        out[i] = i


def test_what_is_no_longer_computed_is_computed_by_the_debugger_or_said_to_be_gone() -> None:
    dev = Device("dlp-m")
    x, out = dev.array(np.zeros(4, np.float32)), dev.array(np.zeros(4, np.int64))
    debug = Debugger(dev, dev.load(leftovers)["leftovers"], [x, out, 4, 1.0])
    debug.break_at(f"{line_of('out[i] = i')}")
    for i in range(3):
        debug.run()
        seen = variables(debug)
        assert (seen["i"], seen["scaled"], seen["steps"]) == (i, 3 * i + 1, 3)
        assert seen["lost"] is OPTIMISED_AWAY and repr(seen["lost"]) == "<optimised away>"


def stores(debug: Debugger, text: str) -> list[str]:
    """Instructions that write to memory in lines that begin like this."""
    lines = {n for n, line in enumerate(text.splitlines(), 1) if line.strip().startswith("data[")}
    return [
        f"*{place}"
        for place, instruction in enumerate(debug.program.instructions)
        if instruction.row.mnemonic == "SSTORE"
        and instruction.line in lines
        and instruction.registers[1] != 62
    ]


def seen_at_stores(kernel: Any, text: str, level: int, most: int = 40) -> list[dict[str, Any]]:
    dev = Device("dlp-s")
    data = dev.array(np.random.default_rng(1).integers(-1000, 1000, 12))
    reals = dev.array(np.random.default_rng(2).normal(size=10).astype(np.float32))
    debug = Debugger(dev, dev.load(kernel.at_level(level))["kernel"], [data, reals, 17, -31, 5, 1.5])
    for place in stores(debug, text):
        debug.break_at(place)
    found = []
    while len(found) < most and "breakpoint" in debug.run().reason:
        found.append(variables(debug))
    return found


@pytest.mark.parametrize("seed", range(12))
def test_level_2_never_shows_a_wrong_value(seed: int, tmp_path: Path) -> None:
    text = Writer(seed).source()
    kernel = load(tmp_path / f"random_{seed}.py", text)
    plain, optimised = (seen_at_stores(kernel, text, level) for level in (0, 2))
    assert len(plain) == len(optimised) > 0
    shown = 0
    for number, (right, given) in enumerate(zip(plain, optimised, strict=True)):
        for name, value in given.items():
            if value is not OPTIMISED_AWAY:
                shown += 1
                assert np.array(value).tobytes() == np.array(right[name]).tobytes(), (number, name)
    assert shown > 0.35 * sum(len(given) for given in optimised)


def test_steps_follow_source_lines() -> None:
    debug = held(0, "value = tile[i]")
    first = line_of("value = tile[i]")
    debug.step_line()
    assert debug.program.where(debug.core.pc).endswith(f":{first + 1}")


def test_a_device_functions_variables_carry_its_name() -> None:
    dev = Device("dlp-m")
    a = np.arange(12, dtype=np.float32).reshape(3, 4)
    program = dev.load(example("rows").softmax.meta(tile=16).at_level(0))
    debug = Debugger(dev, program["softmax"], [dev.array(a), dev.array(a * 0), 3, 4])
    text = (EXAMPLES / "rows.py").read_text(encoding="utf-8").splitlines()
    debug.break_at(str(1 + next(n for n, line in enumerate(text) if "dlp.exp(a[:m], a[:m])" in line)))
    debug.run()
    assert any(name.startswith("softmax_short.") for name in variables(debug))


def test_an_unknown_buffer_is_refused_by_name() -> None:
    debug = held(2, "out[0] = found")
    with pytest.raises(ArgumentError, match="the kernel has no buffer 'nothing'"):
        buffer(debug, "nothing")
