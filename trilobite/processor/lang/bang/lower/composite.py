"""Intrinsics that are more than a fixed sequence of rows: copies, fills, extremes, products, synchronisation.

Each function takes a call and the words behind its name in the table, and gives what the intrinsic returns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from trilobite.processor.isa.formats import F16, F32, F64, I16, I32, I64, U16, Format
from trilobite.processor.lang.bang.lower.contracts import place_of
from trilobite.processor.lang.bang.lower.function import FunctionLowering
from trilobite.processor.lang.bang.lower.lanes import direction_of, in_lanes, plain_copy, product
from trilobite.processor.lang.bang.lower.memory_core import DIRECTION
from trilobite.processor.lang.bang.lower.tensor import Call
from trilobite.processor.lang.bounds import CALL
from trilobite.processor.lang.ir import Block, Constant, Value

Composite = Callable[[FunctionLowering, Call, Sequence[str]], Value | None]


# copies and fills
def copy(f: FunctionLowering, call: Call, flags: Sequence[str]) -> None:
    plain_copy(f, call)
    _copied(f, call, "COPY", [call.args[name] for name in ("dst", "src", "n")], flags)


def copy2(f: FunctionLowering, call: Call, flags: Sequence[str]) -> None:
    """Segments are counted without the first."""
    a, b = call.args, f.builder
    count = b.arithmetic("add", I64, a["segments"], b.integer(1))
    dst, step = in_lanes(f, call, a["dst_stride"], count, a["n"])
    operands = [dst, a["src"], a["n"], step, a["src_stride"], count]
    _copied(f, call, "COPY2", operands, flags)


_CUBE = ("dst", "src", "n", "d0", "s0", "c0", "d1", "s1", "c1")


def copy3(f: FunctionLowering, call: Call, flags: Sequence[str]) -> None:
    a, b = call.args, f.builder
    one = b.arithmetic("le", I64, a["c1"], b.integer(1))
    slots = b.select(one, a["n"], b.arithmetic("mul", I64, a["c1"], a["d1"]))
    dst, step = in_lanes(f, call, a["d0"], a["c0"], slots)
    _copied(f, call, "COPY3", [dst, *(step if name == "d0" else a[name] for name in _CUBE[1:])], flags)


def _copied(f: FunctionLowering, call: Call, row: str, operands: list[Value], flags: Sequence[str]) -> None:
    direction = direction_of(call)
    if direction:
        _check_direction(f, call, direction)
    f.builder.tensor(row, operands, is_async="async" in flags)
    made = f.builder.block.ops[-1]
    made.attrs[DIRECTION] = direction
    made.attrs[CALL] = (call.form.name, (("dst", "dst"), ("a", "src")), True, "pieces")


def _check_direction(f: FunctionLowering, call: Call, name: str) -> None:
    """A direction that contradicts the memory of an operand is refused where both are known."""
    for operand, wanted in zip(("src", "dst"), name.lower().split("2"), strict=True):
        found = f.owner.space_of(call.args[operand])
        if found and found != wanted and {found, wanted} != {"gdram", "ldram"}:  # one memory off the chip
            f.refuse(f"{call.form.name} with {name}: {operand} lies in {found}, the direction says {wanted}")


def fill(f: FunctionLowering, call: Call, flags: Sequence[str]) -> None:
    """NRAM: the element is as wide as the value; a double is taken as a float."""
    fmt, value = _element(f, call)
    f.builder.tensor("VSET", [call.args["dst"], call.args["n"], value], [fmt])


def fill_any(f: FunctionLowering, call: Call, flags: Sequence[str]) -> None:
    from trilobite.processor.lang.bang.lower.memory import repeat

    fmt, value = _element(f, call)
    repeat(f, call.args["dst"], fmt, value, call.args["n"])


def _element(f: FunctionLowering, call: Call) -> tuple[Format, Value]:
    fmt, value = call.formats["T"], call.args["value"]
    if fmt is not F64:
        return fmt, value
    if isinstance(value, Constant):
        return F32, Constant(F32, value.value)
    return F32, f.builder.convert(value, F32)


def nothing(f: FunctionLowering, call: Call, flags: Sequence[str]) -> None:
    return None


# reductions
def extreme(f: FunctionLowering, call: Call, flags: Sequence[str]) -> None:
    """The value first, then its place: 32 bits behind a 32-bit value, 16 and 16 bits behind a 16-bit one."""
    b, fmt = f.builder, call.formats["T"]
    dst, src, n = call.args["dst"], call.args["src"], call.args["n"]
    cell = f.owner.cell(f)
    b.tensor(f"VARG{flags[0].upper()}", [cell, n, src], [fmt])
    b.tensor(f"V{flags[0].upper()}", [dst, n, src], [fmt])
    place = b.load(I32, cell)
    if fmt.bits == 32:
        b.store(I32, place, dst, 4)
        return
    step = fmt.bits // 8
    b.store(U16 if step == 2 else I16, b.cast(place, U16 if step == 2 else I16), dst, 2)
    high = b.arithmetic("shr", I32, place, Constant(I32, 16))
    b.store(U16, b.cast(high, U16), dst, 4)


def total(f: FunctionLowering, call: Call, flags: Sequence[str]) -> Value:
    b, fmt = f.builder, call.formats["T"]
    cell = f.owner.cell(f)
    b.tensor("VSUM", [cell, call.args["n"], call.args["src"]], [fmt])
    return b.load(fmt, cell)


def random(f: FunctionLowering, call: Call, flags: Sequence[str]) -> None:
    """Random numbers in [0, 1) as halves, stretched over 16 bits in their own place."""
    b, dst, n = f.builder, call.args["dst"], call.args["n"]
    b.tensor("RV", [dst, n], [F16])
    b.tensor("VMS", [dst, n, dst, Constant(F16, 32767.0)], [F16])
    b.tensor("VCVT", [dst, n, dst], [I16, F16], ["rz"])


# products
def _scale(f: FunctionLowering, call: Call, count: Value) -> None:
    """A fix position multiplies the result by a power of two."""
    position = call.args.get("position")
    fmt = call.formats["D"]
    if position is None or fmt.kind != "float" or (isinstance(position, Constant) and position.integer == 0):
        return
    if call.formats["S"].kind == "float":
        return
    b = f.builder
    bits = b.arithmetic("shl", I64, b.arithmetic("add", I64, position, b.integer(1023)), b.integer(52))
    power = b.convert(b.cast(bits, F64), fmt)
    b.tensor("VMS", [call.args["dst"], count, call.args["dst"], power], [fmt])


def _formats(call: Call) -> list[Format]:
    return [call.formats[letter] for letter in "DSI"]


def matmul(f: FunctionLowering, call: Call, flags: Sequence[str]) -> None:
    a, b = call.args, f.builder
    none = Constant(a["dst"].type, 0)
    operands = [a["dst"], a["left"], a["right"], a["m"], a["n"], a["k"], none, none]
    product(f, "MM", operands, _formats(call), ["", "", "", "", "", "tb", "lanes"], a["k"])
    _scale(f, call, b.arithmetic("mul", I64, a["m"], a["n"]))


def _drained(call: Call) -> bool:
    """Whether the unit itself adds a bias or goes on with a sum: both are float32 there."""
    return call.formats["S"].kind == "float" and call.formats["D"] is F32


def mlp(f: FunctionLowering, call: Call, flags: Sequence[str]) -> None:
    a, b = call.args, f.builder
    none = Constant(a["dst"].type, 0)
    bias = "bias" if "bias" in a and _drained(call) else ""
    operands = [a["dst"], a["src"], a["right"], b.integer(1), a["height"], a["width"]]
    operands += [a["bias"] if bias else none, none]
    product(f, "MM", operands, _formats(call), ["", bias, "", "", "", "tb", "lanes"], a["width"])
    _scale(f, call, a["height"])
    if "bias" in a and not bias:
        b.tensor("VAV", [a["dst"], a["height"], a["dst"], a["bias"]], [call.formats["D"]])


def conv(f: FunctionLowering, call: Call, flags: Sequence[str]) -> None:
    a, b = call.args, f.builder
    none, one, zero = Constant(a["dst"].type, 0), b.integer(1), b.integer(0)
    bias = "bias" if "bias" in a and _drained(call) else ""
    going_on = "partial" in a and _drained(call) and place_of(a["dst"]) == place_of(a["partial"])
    operands = [
        a["dst"], a["src"], a["right"], a["h"], a["w"], a["ci"], a["kh"], a["kw"], a["co"], a["sh"], a["sw"],
        a.get("dh", one), a.get("dw", one), zero, zero, zero, zero, one, a["bias"] if bias else none, none,
    ]  # fmt: skip
    taps = b.arithmetic("mul", I64, b.arithmetic("mul", I64, a["kh"], a["kw"]), a["ci"]) if f.lanes else one
    product(f, "CONV", operands, _formats(call), ["acc" if going_on else "", bias, "", "", "lanes"], taps)
    rows = b.arithmetic("mul", I64, _outputs(f, call, "h"), _outputs(f, call, "w"))
    count = b.arithmetic("mul", I64, rows, a["co"])
    _scale(f, call, count)
    if "bias" in a and not bias:
        b.tensor("VCAV", [a["dst"], count, a["dst"], a["bias"], a["co"]], [call.formats["D"]])
    if "partial" in a and not going_on:
        b.tensor("VAV", [a["dst"], count, a["dst"], a["partial"]], [call.formats["D"]])


def _outputs(f: FunctionLowering, call: Call, axis: str) -> Value:
    """(extent - dilation (kernel - 1) - 1) / stride + 1."""
    a, b = call.args, f.builder
    reach = b.arithmetic("sub", I64, a[f"k{axis}"], b.integer(1))
    if f"d{axis}" in a:
        reach = b.arithmetic("mul", I64, reach, a[f"d{axis}"])
    room = b.arithmetic("sub", I64, b.arithmetic("sub", I64, a[axis], reach), b.integer(1))
    return b.arithmetic("add", I64, b.arithmetic("div", I64, room, a[f"s{axis}"]), b.integer(1))


# order, traps, the core
def sync(f: FunctionLowering, call: Call, flags: Sequence[str]) -> None:
    f.builder.sync(*flags)


def barrier(f: FunctionLowering, call: Call, flags: Sequence[str]) -> None:
    """Sources rely on a barrier to complete their copies first."""
    f.builder.sync()
    f.builder.barrier(flags[0], flags[1] if len(flags) > 1 else "")


def trap(f: FunctionLowering, call: Call, flags: Sequence[str]) -> None:
    trap_here(f, "__abort")


def trap_here(f: FunctionLowering, message: str) -> None:
    """Stops the launch; what LLVM writes behind it is never reached."""
    f.builder.trap(1, message)
    following = Block("behind")
    f.function.blocks.insert(f.function.blocks.index(f.builder.block) + 1, following)
    f.builder.block = following


def special(f: FunctionLowering, call: Call, flags: Sequence[str]) -> Value:
    return f.builder.special(flags[0])


def clock(f: FunctionLowering, call: Call, flags: Sequence[str]) -> Value:
    return f.builder.emit("clock", results=[I64]).result


def atomic(f: FunctionLowering, call: Call, flags: Sequence[str]) -> Value:
    return f.builder.atomic(flags[0], call.formats["T"], call.args["p"], call.args["value"])


def cas(f: FunctionLowering, call: Call, flags: Sequence[str]) -> Value:
    a = call.args
    return f.builder.cas(call.formats["T"], a["p"], a["expected"], a["value"])


def convert(f: FunctionLowering, call: Call, flags: Sequence[str]) -> Value:
    from trilobite.processor.isa.formats import BY_NAME

    source, target = call.format_of("x"), BY_NAME[call.form.returns]
    value = call.args["x"]
    if source.kind == "uint":
        value = f.builder.cast(value, source)
    return f.builder.convert(value, target, flags[0])


COMPOSITES: dict[str, Composite] = {
    "copy": copy, "copy2": copy2, "copy3": copy3, "fill": fill, "fill_any": fill_any, "nothing": nothing,
    "extreme": extreme, "sum": total, "random": random, "matmul": matmul, "mlp": mlp, "conv": conv,
    "sync": sync,
    "barrier": barrier, "trap": trap, "special": special, "clock": clock, "atomic": atomic, "cas": cas,
    "convert": convert,
}  # fmt: skip
