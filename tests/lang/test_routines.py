"""Routines of kernel IR: compiled once, called, with scratchpad places, argument tables and origins."""

from __future__ import annotations

import numpy as np
import pytest
from random_modules import GDRAM, RandomModule, function

from trilobite.base.errors import KernelError
from trilobite.processor import Device
from trilobite.processor.isa.formats import F32, I32, I64
from trilobite.processor.lang import text
from trilobite.processor.lang.builder import Builder
from trilobite.processor.lang.codegen.compile import KernelProgram, compile_module
from trilobite.processor.lang.interpreter import interpret
from trilobite.processor.lang.ir import Buffer, KernelModule, Value
from trilobite.processor.lang.parse import read
from trilobite.processor.lang.verify import verify
from trilobite.processor.tools.line_stalls import line_stalls

MACHINES = ("dlp-s", "dlp-m")


def scale_network(offset: int | None = None) -> KernelModule:
    """x = (x * 2 + 3) * 2 + 3 ... three times, by a routine that has a buffer and calls another one."""
    module = KernelModule("net.py")
    tile = module.add_buffer(Buffer("tile", "nram", 1024, element="f32", offset=offset))
    other = module.add_buffer(Buffer("other", "nram", 1024, element="f32", offset=offset))
    inner = function(module, "inner", [GDRAM, I64], (I64,), routine=True)
    x, n = inner.function.params
    place = inner.address(other)
    inner.origin = ("inner", 1)
    inner.tensor("COPY", [place, x, inner.arithmetic("mul", I64, n, inner.integer(4))])
    inner.tensor("VAS", [place, n, place, inner.constant(F32, 3.0)], [F32])
    inner.tensor("COPY", [x, place, inner.arithmetic("mul", I64, n, inner.integer(4))])
    inner.ret(inner.arithmetic("add", I64, n, inner.integer(0)))
    outer = function(module, "outer", [GDRAM, I64], (I64,), routine=True)
    x, n = outer.function.params
    size = outer.arithmetic("mul", I64, n, outer.integer(4))
    outer.origin = ("outer", 0)
    outer.tensor("COPY", [outer.address(tile), x, size])
    outer.tensor("VMS", [outer.address(tile), n, outer.address(tile), outer.constant(F32, 2.0)], [F32])
    outer.tensor("COPY", [x, outer.address(tile), size])
    (same,) = outer.call("inner", [x, n], [I64])
    outer.ret(outer.arithmetic("add", I64, same, size))
    main = function(module, "main", [GDRAM, I64], entry=True)
    x, n = main.function.params
    total: Value = main.integer(0)
    for _ in range(3):
        (one,) = main.call("outer", [x, n], [I64])
        total = main.arithmetic("add", I64, total, one)
    main.store(I64, total, main.offset(x, main.arithmetic("mul", I64, n, main.integer(4))))
    main.ret()
    return module


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("level", [0, 2])
def test_routines_are_called_and_compiled_once(machine: str, level: int) -> None:
    module, n = scale_network(), 200
    verify(module)
    device = Device(machine)
    program = compile_module(module, device.machine, level)
    names = [i.mnemonic for i in program.instructions]
    assert (names.count("CALL"), names.count("RET"), names.count("VMS")) == (4, 2, 1)
    assert set(program.entries) == {"main"}
    given = np.random.default_rng(1).standard_normal(n + 2).astype(np.float32)
    array = device.array(given)
    device.launch(device.load(program)["main"], [array, n], checks=True)
    wanted = given[:n]
    for _ in range(3):
        wanted = wanted * np.float32(2) + np.float32(3)
    assert np.array_equal(array.numpy()[:n], wanted)
    assert array.numpy()[n:].view(np.int64) == 3 * 5 * n


@pytest.mark.parametrize("level", [0, 2])
def test_places_of_the_compiler_are_kept(level: int) -> None:
    machine = Device("dlp-m").machine
    program = compile_module(scale_network(offset=4096), machine, level)
    assert {b.name: b.offset for b in program.buffers} == {"tile": 4096, "other": 4096}
    assert program.sizes["nram"] == 4096 + 1024


def test_buffers_of_a_caller_stay_clear_of_those_it_calls() -> None:
    program = compile_module(scale_network(), Device("dlp-m").machine)
    places = {b.name: b.offset for b in program.buffers}
    assert sorted(places.values()) == [0, 1024]


def test_buffers_of_routines_that_do_not_meet_share_their_bytes() -> None:
    module = KernelModule()
    main = function(module, "main", [GDRAM], entry=True)
    for name in ("a", "b"):
        buffer = module.add_buffer(Buffer(name, "nram", 2048))
        b = function(module, f"do_{name}", [GDRAM], routine=True)
        b.tensor("COPY", [b.address(buffer), b.function.params[0], b.integer(64)])
        b.tensor("COPY", [b.function.params[0], b.address(buffer), b.integer(64)])
        b.ret()
        main.call(f"do_{name}", [main.function.params[0]], [])
    main.ret()
    program = compile_module(module, Device("dlp-m").machine)
    assert [b.offset for b in program.buffers] == [0, 0]


def test_buffers_without_a_place_avoid_those_that_have_one() -> None:
    module = KernelModule()
    b = function(module, "main", [GDRAM], entry=True)
    fixed = module.add_buffer(Buffer("fixed", "nram", 128, offset=64))
    free = module.add_buffer(Buffer("free", "nram", 128))
    for buffer in (fixed, free):
        b.tensor("COPY", [b.address(buffer), b.function.params[0], b.integer(64)])
    b.tensor("COPY", [b.function.params[0], b.address(fixed), b.integer(64)])
    b.ret()
    program = compile_module(module, Device("dlp-m").machine)
    assert {b.name: b.offset for b in program.buffers} == {"fixed": 64, "free": 192}


@pytest.mark.parametrize("is_handed", [True, False])
def test_what_one_routine_hands_to_the_next_lies_on_others(is_handed: bool) -> None:
    """first fills `given` for second; a third, which does not use it, may lie there if it is handed."""
    module = KernelModule()
    given = module.add_buffer(Buffer("given", "nram", 256, handed=is_handed))
    mine = {n: module.add_buffer(Buffer(n, "nram", 256)) for n in ("first", "second", "third")}
    for name, buffer in mine.items():
        b = function(module, f"do_{name}", [GDRAM], routine=True)
        for used in (buffer, given) if name != "third" else (buffer,):
            b.tensor("COPY", [b.address(used), b.function.params[0], b.integer(256)], is_async=True)
        b.ret()
    main = function(module, "main", [GDRAM], entry=True)
    for name in mine:
        main.call(f"do_{name}", [main.function.params[0]], [])
    main.ret()
    again = read(text.write(module))
    assert again.buffers["given"].handed == is_handed
    places = {b.name: b.offset for b in compile_module(again, Device("dlp-m").machine).buffers}
    assert abs(places["given"] - places["first"]) >= 256 <= abs(places["given"] - places["second"])
    assert (abs(places["given"] - places["third"]) < 256) == is_handed


def test_text_keeps_routines_places_and_origins() -> None:
    module = scale_network(offset=64)
    written = text.write(module)
    assert "routine @inner" in written and "at 64" in written and 'of ["inner", 1]' in written
    again = read(written)
    verify(again)
    assert text.write(again) == written
    assert again.functions["inner"].blocks[0].ops[2].origin == ("inner", 1)


def test_origins_reach_instructions_and_reports() -> None:
    device = Device("dlp-m")
    program = compile_module(scale_network(), device.machine)
    scaled = next(p for p, i in enumerate(program.instructions) if i.mnemonic == "VMS")
    assert program.origin(scaled) == ("outer", 0) and program.where(scaled) == "net.py:1"
    run = device.launch(device.load(program), [device.empty(202), 200])
    rows = {name: (count, busy) for name, count, busy, _ in run.origins()}
    assert rows[("inner", 1)][0] == rows[("outer", 0)][0] == 9
    assert sum(busy for _, busy in rows.values()) == sum(row[2] for row in run.lines())
    by_origin = line_stalls(run, by_origin=True)
    assert {"inner 1", "outer 0"} <= {row.line for row in by_origin}
    assert sum(row.total for row in by_origin) == sum(row.total for row in line_stalls(run))


def test_programs_of_the_kernel_languages_have_no_origins() -> None:
    module = KernelModule()
    function(module, "main", [], entry=True).ret()
    assert compile_module(module, Device("dlp-s").machine).origins == ()


@pytest.mark.parametrize("count", [33, 100])
@pytest.mark.parametrize("level", [0, 2])
def test_many_arguments_come_through_a_table(count: int, level: int) -> None:
    """Arrays, integers and floats; sum of i * argument i."""
    module = KernelModule()
    kinds = [GDRAM, *(F32 if place % 3 == 0 else I32 if place % 3 == 1 else I64 for place in range(1, count))]
    b = function(module, "main", kinds, entry=True)
    for place, parameter in enumerate(b.function.params[1:], 1):
        fmt = kinds[place]
        b.store(fmt, parameter, b.function.params[0], 8 * place)
    b.ret()
    device = Device("dlp-m")
    program = compile_module(module, device.machine, level)
    out = device.array(np.zeros(count, np.int64))
    given = [1.5 * p if p % 3 == 0 else -p if p % 3 == 1 else p << 40 for p in range(count)]
    device.launch(device.load(program), [out, *given[1:]], checks=True)
    words = out.numpy()
    for place in range(1, count):
        found = words[place : place + 1]
        wanted = np.array([given[place]], {0: np.float32, 1: np.int32, 2: np.int64}[place % 3])
        assert found.view(wanted.dtype)[0] == wanted[0]
    again = device.array(np.zeros(count, np.int64))
    device.launch(device.load(program), [again, *given[1:]])
    assert np.array_equal(again.numpy(), words)


def _wrong(change: str) -> KernelModule:
    module = scale_network()
    if change == "circle":
        b = Builder(module, module.functions["inner"])
        b.block.ops.pop()
        b.call("outer", module.functions["inner"].params, [I64])
        b.ret(b.integer(0))
    elif change == "parameters":
        function(module, "wide", [I64] * 33, routine=True).ret()
    elif change == "place":
        module.add_buffer(Buffer("odd", "nram", 64, offset=32))
    elif change == "frame":
        module.add_buffer(Buffer("odd", "stack", 64, offset=64))
    else:
        module.functions["main"].is_routine = True
    return module


@pytest.mark.parametrize(
    "change, words",
    [
        ("circle", "inner: a routine that calls itself has no frame for it"),
        ("parameters", "wide: a routine takes and gives at most 32 values; pass a pointer to a table"),
        ("place", "buffer odd: its offset 32 is no multiple of 64"),
        ("frame", "buffer odd: the frame's buffers have no place of their own"),
        ("entry", "main: an entry cannot be a routine"),
    ],
)
def test_the_verifier_knows_routines(change: str, words: str) -> None:
    with pytest.raises(KernelError) as caught:
        verify(_wrong(change))
    assert words in str(caught.value)


def test_a_place_beyond_its_memory_is_refused() -> None:
    machine = Device("dlp-m").machine
    module = scale_network(offset=machine.core.nram.bytes - 512)
    with pytest.raises(KernelError, match="nram overflows"):
        compile_module(module, machine)


def outcome(module: KernelModule, machine: str, way: str) -> bytes:
    device = Device(machine)
    given = np.random.default_rng(3).standard_normal(96).astype(np.float32)
    array = device.array(given)
    if way == "ir":
        interpret(module, "main", device.machine, device.memory, [array.address, 3, 4])
    else:
        program = compile_module(module, device.machine, int(way))
        device.launch(device.load(program), [array, 3, 4], checks=way == "2")
    return array.numpy().tobytes()


@pytest.mark.parametrize("seed", range(24))
def test_random_modules_agree(seed: int) -> None:
    module = RandomModule(seed).module
    verify(module)
    assert text.write(read(text.write(module))) == text.write(module)
    machine = MACHINES[seed % 2]
    wanted = outcome(module, machine, "ir")
    assert outcome(module, machine, "0") == wanted
    assert outcome(module, machine, "2") == wanted


def test_a_long_chain_of_calls_compiles_in_linear_time() -> None:
    """Two thousand calls with values that live across all of them."""
    module = scale_network()
    main = function(module, "long", [GDRAM, I64], entry=True)
    x, n = main.function.params
    total: Value = n
    for _ in range(2000):
        (one,) = main.call("outer", [x, n], [I64])
        total = main.arithmetic("add", I64, total, one)
    main.store(I64, total, x)
    main.ret()
    program = compile_module(module, Device("dlp-m").machine)
    assert isinstance(program, KernelProgram)
    assert len(program.instructions) < 2000 * 8


def pressed(values: int, inner: int, seed: int) -> KernelModule:
    """An entry that needs many values behind calls of a routine which computes with many itself."""
    rng, module = np.random.default_rng(seed), KernelModule("net.py")
    b = function(module, "busy", [I64, I64], (I64,), routine=True)
    terms = [b.arithmetic("mul", I64, b.function.params[n % 2], b.integer(n + 3)) for n in range(inner)]
    total: Value = b.function.params[1]
    for n in rng.permutation(inner):
        total = b.arithmetic("xor", I64, total, terms[int(n)])
    b.ret(total)
    main = function(module, "main", [GDRAM, I64, I64], entry=True)
    x, first, second = main.function.params
    early = [main.arithmetic("add", I64, (first, second)[n % 2], main.integer(7 * n)) for n in range(values)]
    for turn in range(3):
        (found,) = main.call("busy", [early[turn % values], second], [I64])
        early[int(rng.integers(values))] = found
    for n, value in enumerate(early):
        main.store(I64, value, x, 8 * n)
    main.ret()
    return module


@pytest.mark.parametrize(("values", "inner"), [(1, 3), (3, 60), (30, 10), (30, 60), (70, 5), (70, 60)])
def test_values_outlive_calls_in_registers_and_in_the_frame(values: int, inner: int) -> None:
    for seed in range(3):
        module = pressed(values, inner, seed)
        found = []
        for level in (None, 0, 2):
            dev = Device("dlp-m")
            out = dev.array(np.zeros(values, np.int64))
            if level is None:
                interpret(module, "main", dev.machine, dev.memory, [out.address, 11, -5])
            else:
                dev.launch(dev.load(compile_module(module, dev.machine, level)), [out, 11, -5])
            found.append(out.numpy().tolist())
        assert found[0] == found[1] == found[2] != [0] * values


def test_what_an_entry_needs_behind_calls_stays_in_registers() -> None:
    """Where the routine leaves some alone, nothing of it goes through the frame."""
    program = compile_module(pressed(20, 10, 0), Device("dlp-m").machine)
    main = program.listing().splitlines()[: program.symbols["busy"].offset]
    assert not [line for line in main if "$62" in line]
