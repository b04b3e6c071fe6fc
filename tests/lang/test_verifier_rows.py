"""Every row of kernel IR as it should be, and with each of its parts wrong: the verifier says which."""

from __future__ import annotations

from typing import Any

import pytest

from trilobite.base.errors import KernelError
from trilobite.processor.isa.formats import BF16, F16, F32, F64, I8, I32, I64, U8, U32, U64
from trilobite.processor.isa.rows.control import SPECIAL_REGISTERS
from trilobite.processor.lang.builder import Builder
from trilobite.processor.lang.ir import Constant, Function, KernelModule, Op, Value
from trilobite.processor.lang.ops import OPS
from trilobite.processor.lang.types import Pointer
from trilobite.processor.lang.verify import QUEUES, verify

GDRAM, NRAM = Pointer("gdram"), Pointer("nram")
ROWS = [row for row in OPS.values() if row.mnemonic and row.attrs and row.attrs[0] == "fmt"]


def module_of(op: Op) -> KernelModule:
    """A function with this operation alone."""
    module = KernelModule("one.py")
    function = module.add_function(Function("one", entry=True))
    b = Builder(module, function)
    function.blocks[0].append(op)
    b.ret()
    return module


def faults(op: Op) -> str:
    try:
        verify(module_of(op))
    except KernelError as error:
        return str(error)
    return ""


def value(kind: Any) -> Value:
    return Constant(kind, 0)


def made(opcode: str, fmt: Any = F32, operands: list[Any] | None = None, result: Any = ...) -> Op:
    """The row as it should be, but for what is given."""
    row = OPS[opcode]
    kinds = {"f": fmt, "F": I32, "i": I64, "p": GDRAM, "v": fmt}
    taken = [kinds[letter] for letter in row.operands] if operands is None else operands
    given = {"f": fmt, "i": I64, "": None}[row.results] if result is ... else result
    attrs = {"fmt": fmt, "source": I32, "rounding": "rn", "offset": 0, "op": "add"}
    return Op(opcode, [value(k) for k in taken], {name: attrs[name] for name in row.attrs},
              [] if given is None else [given])  # fmt: skip


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.opcode)
@pytest.mark.parametrize("fmt", [F32, I32, I64], ids=lambda f: f.name)
def test_each_part_of_a_scalar_row(row: Any, fmt: Any) -> None:
    assert faults(made(row.opcode, fmt)) == ""
    letters = row.operands
    kinds = {"f": fmt, "F": I32, "i": I64, "p": GDRAM}
    right = [kinds[letter] for letter in letters]
    for place, letter in enumerate(letters):
        other = F64 if letter != "p" else I64
        wrong = [*right[:place], other, *right[place + 1 :]]
        wanted = {"f": fmt, "F": I32}.get(letter)
        said = f"{other.name} where {'a pointer' if letter == 'p' else wanted.name} is needed"  # type: ignore[union-attr]
        assert said in faults(made(row.opcode, fmt, wrong)), (place, letter)
    assert f"{len(letters) - 1} operands where {len(letters)} are needed" in faults(
        made(row.opcode, fmt, right[1:])
    )
    assert f"{len(letters) + 1} operands" in faults(made(row.opcode, fmt, [*right, fmt]))
    if row.results:
        want = fmt if row.results == "f" else I64
        for kind in (F64, U8, GDRAM, None):
            assert f"its result is not the {want}" in faults(made(row.opcode, fmt, None, kind)), kind
    for attr in row.attrs:
        lacking = made(row.opcode, fmt)
        del lacking.attrs[attr]
        assert f"it lacks {attr}" in faults(lacking)


@pytest.mark.parametrize(
    "given", [I8, U8, I32, U32, I64, U64, F16, BF16, F32, F64, GDRAM, NRAM], ids=lambda f: f.name
)
@pytest.mark.parametrize("wanted", [I8, I32, U64, F16, F32, F64, GDRAM], ids=lambda f: f.name)
def test_casts_between_whole_numbers_and_between_equal_bits(given: Any, wanted: Any) -> None:
    def width(kind: Any) -> int:
        return 64 if isinstance(kind, Pointer) else int(kind.bits)

    whole = all(isinstance(kind, Pointer) or kind.kind != "float" for kind in (given, wanted))
    found = faults(Op("cast", [value(given)], {"type": wanted}, [wanted]))
    assert bool(found) == (not whole and width(given) != width(wanted))
    assert not found or f"the bits of {given.name} are not those of {wanted.name}" in found


def test_built_ins_are_those_of_kernels() -> None:
    for number, name in enumerate(SPECIAL_REGISTERS):
        found = faults(Op("special", [], {"name": name}, [I64]))
        assert bool(found) == (number >= len(SPECIAL_REGISTERS) - 2), name
    assert "there is no built-in 'taskIdW'" in faults(Op("special", [], {"name": "taskIdW"}, [I64]))


@pytest.mark.parametrize("queues", [(), ("io",), QUEUES, ("vector", "dma"), ("all",)])
def test_queues_that_are_waited_for(queues: tuple[str, ...]) -> None:
    found = faults(Op("sync", [], {"queues": queues}, []))
    assert bool(found) == (not set(queues) <= set(QUEUES))


@pytest.mark.parametrize(
    ("first", "second", "right"),
    [(F32, F32, True), (F32, I32, False), (GDRAM, NRAM, True), (GDRAM, I64, False), (I64, U64, False)],
)
def test_what_is_chosen_and_what_is_set_have_one_type(first: Any, second: Any, right: bool) -> None:
    choice = Op("select", [value(I64), value(first), value(second)], {"type": first}, [first])
    assert bool(faults(choice)) == (not right)
    assert right or f"it chooses between {first.name} and {second.name}" in faults(choice)
    module = KernelModule("one.py")
    function = module.add_function(Function("one", entry=True))
    b = Builder(module, function)
    variable = function.add_variable("v", second)
    b.block.append(Op("set", [value(first)], {"variable": variable}, []))
    b.ret()
    if right:
        verify(module)
        return
    with pytest.raises(KernelError, match=f"{first.name} into a variable of {second.name}"):
        verify(module)
