"""Types of the source as debug data describes them: what a debugger needs to read a variable's bytes.

Enters: debug metadata and the number of a variable or a type. Leaves: the parts of an array or a struct, each
with its path (`corner.x`, `[3].tag`), its place in bytes, its format and, for scalars in an array, extents.
Unions and bit-fields, whose bytes mean several things, are left out.
"""

from __future__ import annotations

import re
from dataclasses import replace
from math import prod

from trilobite.processor.isa.formats import BY_NAME, Format
from trilobite.processor.lang.bang.llvm.debug import Debug
from trilobite.processor.lang.ir import Member
from trilobite.processor.lang.types import Type

MOST = 64  # parts that one variable is shown in
_NUMBERS = re.compile(r"!(\d+)")
_ENCODINGS = {
    "DW_ATE_signed": "i", "DW_ATE_signed_char": "i", "DW_ATE_unsigned": "u", "DW_ATE_unsigned_char": "u",
    "DW_ATE_boolean": "u", "DW_ATE_float": "f",
}  # fmt: skip
_TRANSPARENT = ("DW_TAG_typedef", "DW_TAG_const_type", "DW_TAG_volatile_type", "DW_TAG_restrict_type")


def unsigned_format(debug: Debug, variable: int, kind: Type) -> str:
    """The format of an unsigned variable that a register holds as signed; else nothing."""
    found = members(debug, debug.reference(variable, "type"))
    name = found[0].format if len(found) == 1 else ""
    is_wrapped = isinstance(kind, Format) and kind.kind == "int" and name == f"u{kind.bits}"
    return name if is_wrapped else ""


def members(debug: Debug, number: int | None) -> tuple[Member, ...]:
    """The parts of a value of this type; none if it cannot be shown."""
    if number is None:
        return ()
    if number not in debug.members:
        found = _members(debug, number)
        debug.members[number] = tuple(found) if len(found) <= MOST else ()
    return debug.members[number]


def _members(debug: Debug, number: int | None) -> list[Member]:
    while number is not None and debug.fields(number).get("tag") in _TRANSPARENT:
        number = debug.reference(number, "baseType")
    if number is None:
        return []
    fields = debug.fields(number)
    if debug.kind(number) == "DIBasicType":
        return _scalar(fields)
    match fields.get("tag"):
        case "DW_TAG_pointer_type" | "DW_TAG_reference_type":
            return [Member("", 0, "u64")]
        case "DW_TAG_enumeration_type":
            return _members(debug, debug.reference(number, "baseType"))
        case "DW_TAG_structure_type" | "DW_TAG_class_type":
            return _struct(debug, number)
        case "DW_TAG_array_type":
            return _array(debug, number)
    return []


def _scalar(fields: dict[str, str]) -> list[Member]:
    name = _ENCODINGS.get(fields.get("encoding", ""), "?") + fields.get("size", "")
    if fields.get("name") == "__bf16":
        name = "bf16"
    return [Member("", 0, name)] if name in BY_NAME else []


def _elements(debug: Debug, number: int) -> list[int]:
    listed = debug.reference(number, "elements")
    return [int(found) for found in _NUMBERS.findall(debug.text(listed))] if listed is not None else []


def _struct(debug: Debug, number: int) -> list[Member]:
    found: list[Member] = []
    for element in _elements(debug, number):
        fields = debug.fields(element)
        flags = fields.get("flags", "")
        is_plain = "DIFlagBitField" not in flags and "DIFlagStaticMember" not in flags
        if fields.get("tag") in ("DW_TAG_inheritance", "DW_TAG_member") and is_plain:
            name, offset = fields.get("name", ""), int(fields.get("offset", "0")) // 8
            inner = _members(debug, debug.reference(element, "baseType"))
            found += [replace(m, path=_below(name, m.path), offset=offset + m.offset) for m in inner]
    return found


def _below(name: str, path: str) -> str:
    """The path of a member's part; what is inherited has no name of its own."""
    return name + (path if not path or path.startswith("[") or not name else f".{path}")


def _array(debug: Debug, number: int) -> list[Member]:
    counts = [int(debug.fields(e).get("count", "0")) for e in _elements(debug, number)]
    inner = _members(debug, debug.reference(number, "baseType"))
    if not inner or not all(count > 0 for count in counts):
        return []
    if len(inner) == 1 and not inner[0].path:
        return [replace(inner[0], shape=(*counts, *inner[0].shape))]
    total = prod(counts)
    if total * len(inner) > MOST:
        return []
    step = int(debug.fields(number).get("size", "0")) // 8 // total
    return [
        replace(m, path=_below(f"[{place}]", m.path), offset=place * step + m.offset)
        for place in range(total)
        for m in inner
    ]
