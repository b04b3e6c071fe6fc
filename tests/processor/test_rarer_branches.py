"""Where programs rarely go: atomics of every kind beside Python, ends of memories, printing without
registers, ways through networks.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest

from trilobite.base.errors import ArgumentError, MachineError, ProcessorFault
from trilobite.processor.device import Device
from trilobite.processor.isa.address import address
from trilobite.processor.isa.row import ACC, NRAM, SRAM, WRAM
from trilobite.processor.isa.rows.scalar import ATOMICS
from trilobite.processor.machine import load_machine
from trilobite.processor.machine.description import Noc
from trilobite.processor.machine.noc import routes, unreachable


def launch(source: str, arrays: Any = (), machine: str = "dlp-m", **options: Any) -> Any:
    device = Device(machine)
    given = [device.array(a) for a in arrays]
    run = device.launch(device.load(source), given, checks=False, **options)
    return run, [a.numpy() for a in given]


def meaning(op: str, old: Any, given: Any, dtype: Any) -> Any:
    """One atomic, in Python's own numbers."""
    if dtype == np.float32:
        plain = {
            "add": np.float32(old) + np.float32(given),
            "exch": given,
            "max": max(old, given),
            "min": min(old, given),
        }
        plain |= {"inc": 0 if old >= given else old + 1, "dec": given if old == 0 or old > given else old - 1}
        return plain[op]
    bits = np.iinfo(dtype).bits
    found = {
        "add": old + given, "exch": given, "and": old & given, "or": old | given, "xor": old ^ given,
        "max": max(old, given), "min": min(old, given), "inc": 0 if old >= given else old + 1,
        "dec": given if old == 0 or old > given else old - 1,
    }[op]  # fmt: skip
    found &= (1 << bits) - 1
    return found - (1 << bits) if np.iinfo(dtype).min < 0 and found >> (bits - 1) else found


BITS = ("and", "or", "xor")  # of integers alone
KINDS = [
    (op, fmt)
    for op in ATOMICS
    for fmt in ("i32", "i64", "u32", "u64", "f32")
    if (op, fmt[0]) not in product(BITS, "f")
]


@pytest.mark.parametrize(("op", "fmt"), KINDS)
def test_atomics_beside_python(op: str, fmt: str) -> None:
    dtype = np.dtype({"i": "int", "u": "uint", "f": "float"}[fmt[0]] + fmt[1:])
    if fmt == "f32":
        values = [0.0, 1.0, 2.5, -3.0, 7.0, 1e30]
    else:
        info = np.iinfo(dtype)
        values = [0, 1, 5, 6, info.max, info.max - 1] + (
            [-1, -6, info.min] if info.min else [1 << (info.bits - 1)]
        )
    pairs = [(a, b) for a in values for b in values]
    memory = np.array(pairs, dtype)
    size = dtype.itemsize
    source = f"""
        SMOVE $5, #{len(pairs)}
        again: SLOAD.{fmt} $2, $0, #{size}
        ATOMIC.{fmt}.{op} $3, $0, $2
        SSTORE.{fmt} $3, $0, #{size}
        SADD $0, $0, #{2 * size}
        SADD $5, $5, #-1
        CB #again, $5
    """
    _, (found,) = launch(source, [memory])
    for (old, given), (new, told) in zip(pairs, found.tolist(), strict=True):
        assert told == np.array(old, dtype) and new == np.array(meaning(op, old, given, dtype), dtype), (
            old,
            given,
        )


@pytest.mark.parametrize(("fmt", "dtype"), [("i16", np.int16), ("i32", np.int32), ("i64", np.int64)])
def test_a_swap_needs_the_expected_number(fmt: str, dtype: Any) -> None:
    rows = np.array([[5, 5, 9], [5, 6, 9], [-1, -1, 7], [-1, 1, 7], [0, 0, -8]], dtype)
    size = rows.itemsize
    source = f"""
        SMOVE $5, #{len(rows)}
        again: SLOAD.{fmt} $2, $0, #{size}
        SLOAD.{fmt} $3, $0, #{2 * size}
        CAS.{fmt} $4, $0, $2, $3
        SSTORE.{fmt} $4, $0, #{size}
        SADD $0, $0, #{3 * size}
        SADD $5, $5, #-1
        CB #again, $5
    """
    _, (found,) = launch(source, [rows])
    for (old, expected, given), (new, told, _) in zip(rows.tolist(), found.tolist(), strict=True):
        assert told == old and new == (given if old == expected else old)


@pytest.mark.parametrize(("registers", "values"), [("$62", 2), ("$63", 1), ("$62", 3), ("$63", 2)])
def test_printing_ends_with_the_registers(registers: str, values: int) -> None:
    text = "".join("%d " for _ in range(values))
    source = (
        f'.data\ntext: .ascii "{text}\\0"\n.text\nLA $1, text\nSMOVE {registers}, #7\nPRINT $1, {registers}'
    )
    if int(registers[1:]) + values <= 64:
        run, _ = launch(source)
        assert run.printed[0].startswith("7")
    else:
        with pytest.raises(ProcessorFault, match="takes more values than there are registers"):
            launch(source)


PLACES: dict[str, tuple[int, str]] = {
    "the last cluster's SRAM": (address(SRAM, 0, 3), ""),
    "a cluster too many": (address(SRAM, 0, 4), "no such cluster or core"),
    "the last core": (address(NRAM, 0, None, 3), ""),
    "a core too many": (address(NRAM, 0, None, 4), "no such cluster or core"),
    "another cluster's NRAM": (address(NRAM, 0, 1, 0), "another cluster's nram cannot be reached"),
    "another cluster's WRAM": (address(WRAM, 0, 1, 0), "another cluster's wram cannot be reached"),
    "its own by number": (address(NRAM, 0, 0, 0), ""),
    "the end": (0, ""),
    "beyond the end": (0, "reach outside the nram"),
    "accumulators": (address(ACC, 0), "acc"),
}


@pytest.mark.parametrize("name", PLACES)
def test_ends_of_memories(name: str) -> None:
    at, text = PLACES[name]
    machine = load_machine("dlp-m")
    assert (machine.clusters, machine.cores_per_cluster) == (4, 4)
    if name.endswith("the end"):
        at = address(NRAM, machine.core.nram.bytes - 8 * (name == "the end"))
    source = f"LI $1, #{at}\nSMOVE $2, #5\nSSTORE.i64 $2, $1, #0\nSLOAD.i64 $3, $1, #0\nSSTORE.i64 $3, $0, #0"
    if text:
        with pytest.raises(ProcessorFault, match=text):
            launch(source, [np.zeros(1, np.int64)])
    else:
        _, (found,) = launch(source, [np.zeros(1, np.int64)])
        assert found[0] == 5


def test_launches_that_look_at_time_have_one_time() -> None:
    device = Device("dlp-m")
    for source in ("SREAD $1, #clock", "SMOVE $1, #1\nATOMIC.i64.add $2, $0, $1"):
        run = device.launch(device.load(source), [device.array(np.zeros(1, np.int64))], checks=False)
        with pytest.raises(ArgumentError, match="reads clocks or atomics"):
            run.replay("dlp-m")
    plain = device.launch(device.load("SMOVE $1, #1"), checks=False)
    assert plain.replay("dlp-m").cycles == plain.cycles
    for field, value in (("clusters", 1), ("cores_per_cluster", 2), ("memory_core", False)):
        other = replace(
            device.machine, **{field: value}, **({"noc": Noc("none")} if field == "clusters" else {})
        )
        with pytest.raises(ArgumentError, match=f"{field} is structural"):
            plain.replay(other)


def test_links_carry_something() -> None:
    base = load_machine("dlp-m")
    with pytest.raises(MachineError, match="the links of the network carry nothing"):
        replace(base, noc=replace(base.noc, link_bytes_per_cycle=0))


@pytest.mark.parametrize(
    ("kind", "shape", "clusters"),
    [("ring", (), 1), ("ring", (), 2), ("ring", (), 5), ("ring", (), 6), ("mesh", (2, 3), 6),
     ("mesh", (3, 3), 7), ("torus", (3, 4), 12), ("torus", (2, 2), 4), ("mesh", (1, 4), 4)],
)  # fmt: skip
def test_ways_are_the_shortest(kind: str, shape: Any, clusters: int) -> None:
    noc = Noc(kind, shape=shape, link_bytes_per_cycle=8)
    table = routes(noc, clusters)
    columns = shape[1] if shape else clusters

    def apart(a: int, b: int) -> int:
        if kind == "ring":
            return min((a - b) % clusters, (b - a) % clusters)
        rows = [abs(a // columns - b // columns), abs(a % columns - b % columns)]
        if kind == "torus":
            rows = [min(d, n - d) for d, n in zip(rows, shape, strict=True)]
        return sum(rows)

    assert not unreachable(noc, clusters)
    for (a, b), way in table.items():
        assert (
            len(way) == apart(a, b)
            if clusters == (shape[0] * shape[1] if shape else clusters)
            else len(way) >= apart(a, b)
        )
        assert not way or (way[0][0] == a and way[-1][1] == b)
        assert all(x[1] == y[0] and x[1] < clusters for x, y in pairwise(way))


def test_boxes_are_as_wide_as_their_longest_line() -> None:
    from trilobite.processor.machine.drawing import _box

    assert _box(["a", "three", "do"]) == "+-------+\n| a     |\n| three |\n| do    |\n+-------+\n"


def test_sources_are_loaded_by_their_ending(tmp_path: Any) -> None:
    from trilobite.base.errors import DeviceError, TrilobiteError
    from trilobite.processor.lang.bang.clang import find_clang

    device = Device("mlu370-x4")
    (tmp_path / "a.s").write_text(".entry one\none: SMOVE $1, #1\n", encoding="utf-8")
    assert device.load(tmp_path / "a.s").names == device.load(str(tmp_path / "a.s")).names == ["one"]
    with pytest.raises(DeviceError, match="cannot be read"):
        device.load(tmp_path / "b.s")
    for ending in ("dlp", "mlu"):
        with pytest.raises((TrilobiteError, OSError)):
            device.load(tmp_path / f"b.{ending}")
    if find_clang() is None:
        pytest.skip("there is no clang here")
    text = "#include <bang.h>\n__mlu_global__ void two(int *x) { x[0] = 7; }\n"
    (tmp_path / "c.mlu").write_text(text, encoding="utf-8")
    x = device.array(np.zeros(1, np.int32))
    device.launch(device.load(tmp_path / "c.mlu")["two"], [x])
    assert x.numpy().tolist() == [7]
