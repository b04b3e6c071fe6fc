"""Parameters through memory: an entry with more of them than registers takes one pointer to a table.

Enters: an entry. Leaves: the same entry with one parameter, and a load for each of the old ones where it
begins. Word i of the table is what parameter i would have been in its register.
"""

from __future__ import annotations

from trilobite.processor.isa.formats import I64, Format
from trilobite.processor.lang.ir import Argument, Function, Op, Value
from trilobite.processor.lang.types import Pointer

WORD = 8


def take_from_table(function: Function) -> None:
    """The table lies in device memory; whoever launches the entry has put it there."""
    first = function.blocks[0]
    old, first.args = first.args, []
    table = first.add_argument(Pointer("gdram"), "arguments")
    mapping: dict[Value, Value] = {}
    made: list[Op] = []
    for place, parameter in enumerate(old):
        made += _load(function, table, place, parameter)
        mapping[parameter] = made[-1].result
    for op in function.ops():
        op.replace_uses(mapping)
    for op in made:
        op.block = first
    first.ops[:0] = made


def _load(function: Function, table: Argument, place: int, parameter: Argument) -> list[Op]:
    kind, where = parameter.type, function.location
    fmt = kind if isinstance(kind, Format) else I64
    load = Op("load", [table], {"fmt": fmt, "offset": place * WORD}, [fmt], where)
    if isinstance(kind, Format):
        return [load]
    return [load, Op("cast", [load.result], {"type": kind}, [kind], where)]
