"""Linking of object code: what code refers to is where it says, wherever the code is put."""

from __future__ import annotations

import ctypes
import gc
import mmap

import numpy as np
import pytest

from tests.native.kernels import AFFINE, loop
from trilobite.base.errors import IRError
from trilobite.native.elf import Elf
from trilobite.native.host import AARCH64, features
from trilobite.native.images import Image, Memory, can_link, link
from trilobite.native.objects import compile_object, load, load_by_engine, prepare, symbol

ENTRY = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)
pytestmark = pytest.mark.skipif(not features().triple.startswith("x86_64"), reason="linked by LLVM elsewhere")

# y[i] = pointers[x[i]](i): addresses of functions in a constant table, and a function that calls another
TABLE = (
    loop(
        """  %xp = getelementptr i64, ptr %a0, i64 %i
  %yp = getelementptr i64, ptr %a1, i64 %i
  %x = load i64, ptr %xp
  %fp = getelementptr ptr, ptr @table, i64 %x
  %f = load ptr, ptr %fp
  %y = call i64 %f(i64 %i)
  store i64 %y, ptr %yp""",
        2,
    )
    + """
@table = internal constant [3 x ptr] [ptr @square, ptr @fourth, ptr @labs]
declare i64 @labs(i64)
define internal i64 @square(i64 %x) noinline {
  %y = mul i64 %x, %x
  ret i64 %y
}
define internal i64 @fourth(i64 %x) noinline {
  %y = call i64 @square(i64 %x)
  %z = call i64 @square(i64 %y)
  ret i64 %z
}
"""
)
OPERATIONS = "add mul sub xor or and add mul sub xor or and".split()
CHOOSE = "\n".join(
    [
        "define internal i64 @choose(i64 %x) noinline {",
        "  switch i64 %x, label %none [",
        *(f"    i64 {i}, label %c{i}" for i in range(12)),
        "  ]",
        *(f"c{i}:\n  %r{i} = {op} i64 %x, {7 * i + 1}\n  ret i64 %r{i}" for i, op in enumerate(OPERATIONS)),
        "none:\n  ret i64 -1\n}\n",
    ]
)
# y[i] = a different operation for each x[i]: a jump table
CASES = CHOOSE + loop(
    """  %xp = getelementptr i64, ptr %a0, i64 %i
  %yp = getelementptr i64, ptr %a1, i64 %i
  %x = load i64, ptr %xp
  %y = call i64 @choose(i64 %x)
  store i64 %y, ptr %yp""",
    2,
)
# y[i] = the address of malloc
ADDRESS = "declare ptr @malloc(i64)\n" + loop(
    """  %yp = getelementptr ptr, ptr %a1, i64 %i
  store ptr @malloc, ptr %yp""",
    2,
)
# y[i] = |x[i]|, by a call of a function elsewhere
CALL = "declare i64 @labs(i64)\n" + loop(
    """  %xp = getelementptr i64, ptr %a0, i64 %i
  %yp = getelementptr i64, ptr %a1, i64 %i
  %x = load i64, ptr %xp
  %y = call i64 @labs(i64 %x)
  store i64 %y, ptr %yp""",
    2,
)


def _run(address: int, x: np.ndarray, units: int) -> list[int]:
    y = np.full(units, -77, np.int64)
    args = np.array([x.ctypes.data, y.ctypes.data], np.int64)
    ENTRY(address)(args.ctypes.data, 0, units, None)
    return y.tolist()


def _expected_cases(x: int) -> int:
    if not 0 <= x < 12:
        return -1
    c = 7 * x + 1
    results = {"add": x + c, "mul": x * c, "sub": x - c, "xor": x ^ c, "or": x | c, "and": x & c}
    return results[OPERATIONS[x]]


@pytest.mark.parametrize("level", [0, 2])
@pytest.mark.parametrize("ours", [True, False], ids=["image", "engine"])
def test_tables_of_functions_and_calls_between_them(level: int, ours: bool) -> None:
    name, code = symbol(TABLE, level), compile_object(TABLE, level, features())
    library = load({name: code}) if ours else load_by_engine({name: code})
    x = np.array([0, 1, 2, 1, 0, 2, 1], np.int64)
    assert _run(library[name], x, 7) == [0, 1, 2, 81, 16, 5, 1296]


@pytest.mark.parametrize("level", [0, 1, 2, 3])
def test_jump_tables(level: int) -> None:
    name = symbol(CASES, level)
    library = load({name: compile_object(CASES, level, features())})
    x = np.arange(-2, 15)
    assert _run(library[name], x, len(x)) == [_expected_cases(int(v)) for v in x]


def test_functions_elsewhere_are_called() -> None:
    name = symbol(CALL, 0)
    library = load({name: compile_object(CALL, 0, features())})
    assert _run(library[name], np.array([-(2**40), 3, -1]), 3) == [2**40, 3, 1]


def test_addresses_of_functions_elsewhere() -> None:
    name = symbol(ADDRESS, 0)
    library = load({name: compile_object(ADDRESS, 0, features())})
    malloc = ctypes.cast(ctypes.CDLL(None).malloc, ctypes.c_void_p).value
    assert _run(library[name], np.zeros(1), 2) == [malloc, malloc]


def test_the_kinds_of_relocations_above_are_those_of_the_standard() -> None:
    kinds = {
        relocation.type
        for text in (TABLE, CASES, ADDRESS, CALL)
        for relocation in Elf(compile_object(text, 0, features())).relocations
    }
    assert {1, 2, 4} <= kinds and kinds & {9, 41, 42}


def test_images_are_written_and_read_back() -> None:
    for text in (TABLE, CASES, ADDRESS, AFFINE):
        image = link(compile_object(text, 0, features()), symbol(text, 0))
        assert Image.unpack(image.pack()) == image
    assert image.externals == image.absolutes == ()  # of the last one, which is most like a kernel


def test_many_images_stand_side_by_side_and_are_not_writable() -> None:
    texts = [TABLE, CASES, *(AFFINE.replace("2.0", f"{i}.0") for i in range(50))]
    objects = {symbol(t, 0): prepare(compile_object(t, 0, features()), symbol(t, 0)) for t in texts}
    library = load(objects)
    addresses = [library[symbol(t, 0)] for t in texts]
    assert len(set(addresses)) == 52 and max(addresses) - min(addresses) < 52 * 1024
    assert _run(addresses[0], np.array([1, 1, 1, 1], np.int64), 4) == [0, 1, 16, 81]
    assert _run(addresses[1], np.array([3, 99]), 2) == [_expected_cases(3), -1]
    with open("/proc/self/maps") as lines:
        ranges = [(*line.split()[0].split("-"), line.split()[1]) for line in lines]
    (rights,) = [r for begin, end, r in ranges if int(begin, 16) <= addresses[5] < int(end, 16)]
    assert rights.startswith("r-x")


def test_memory_is_unmapped_with_its_library() -> None:
    name = symbol(AFFINE, 0)
    objects = {name: prepare(compile_object(AFFINE, 0, features()), name)}
    gc.collect()

    def runnable(addresses: list[int]) -> int:
        with open("/proc/self/maps") as lines:
            ranges = [line.split()[0].split("-") for line in lines if "r-xp" in line]
        spans = [(int(begin, 16), int(end, 16)) for begin, end in ranges]
        return sum(any(begin <= address < end for begin, end in spans) for address in addresses)

    libraries = [load(objects) for _ in range(40)]
    addresses = [library[name] for library in libraries]
    assert len(set(addresses)) == runnable(addresses) == 40
    del libraries
    gc.collect()
    assert runnable(addresses) == 0


def test_a_kernel_with_a_variable_of_its_own_is_refused() -> None:
    text = loop("  store i64 %i, ptr @state", 0) + "@state = internal global i64 0\n"
    with pytest.raises(IRError, match=r"a kernel has a variable of its own, in section \.bss"):
        load({symbol(text, 0): compile_object(text, 0, features())})


def test_an_object_that_defines_something_else_is_refused() -> None:
    code = compile_object(AFFINE, 0, features())
    for loader in (load, load_by_engine):
        with pytest.raises(IRError, match="does not define what it is said to: other"):
            loader({"other": code})


def test_objects_of_other_machines_are_left_to_llvm() -> None:
    code = compile_object(AFFINE, 0, AARCH64)
    assert not can_link(code) and prepare(code, symbol(AFFINE, 0)) == code
    assert not can_link(b"\xcf\xfa\xed\xfe and so on")


def test_a_system_that_refuses_executable_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mmap, "PROT_EXEC", 1 << 30)
    image = link(compile_object(AFFINE, 0, features()), symbol(AFFINE, 0))
    with pytest.raises(OSError, match="the system refuses memory for machine code"):
        Memory({"k": image}, lambda name: 0)
