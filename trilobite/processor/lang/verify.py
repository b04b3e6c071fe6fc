"""Whether a module of kernel IR makes sense: operand patterns, types, spaces, dominance, terminators, calls.

Enters: a module. Leaves: nothing, or a `KernelError` that lists everything that is wrong, with its place.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator

from trilobite.base.errors import KernelError
from trilobite.processor.isa.formats import I64, Format
from trilobite.processor.isa.row import DMA, MATRIX, VALUE_FIELDS, value_format
from trilobite.processor.isa.rows.control import SPECIAL_REGISTERS
from trilobite.processor.lang.calls import reached
from trilobite.processor.lang.cfg import Graph
from trilobite.processor.lang.intrinsics import TENSOR_ROWS, contract, lawful
from trilobite.processor.lang.ir import (
    TERMINATORS,
    Argument,
    Block,
    Constant,
    Function,
    KernelModule,
    Op,
    Result,
    Value,
)
from trilobite.processor.lang.ops import OPS
from trilobite.processor.lang.types import (
    ANY_SPACE,
    LETTER_OF,
    STACK,
    Pointer,
    Type,
    bits_of,
    is_integer,
    is_pointer,
    same_register_bits,
)

MOST_WORDS = 32  # that a call passes in registers
QUEUES = ("io", "move", "matrix", "vector")
# Operations whose types say whether they make sense, and the signatures of which that is known.
_TYPED = frozenset(("fmt", "source", "type", "rounding", "offset"))
_PLAIN = frozenset(row.opcode for row in OPS.values() if row.results in ("f", "i", "t", "p")
                   and row.attrs and _TYPED.issuperset(row.attrs))  # fmt: skip
_FINE: set[Hashable] = set()


def verify(module: KernelModule) -> None:
    """Raises a `KernelError` with every fault of the module."""
    wrong = [text for function in module.functions.values() for text in _faults(module, function)]
    wrong += [*_linkage(module), *_places(module)]
    if wrong:
        raise KernelError(
            "the kernel IR is malformed:\n  " + "\n  ".join(wrong[:20]),
            where=module.source,
            expected="IR as trilobite.processor.lang.ops describes it",
            remedy="correct the front end or the pass that wrote it",
        )


def _linkage(module: KernelModule) -> Iterator[str]:
    """What holds for routines and the functions that call them."""
    for name, routine in module.routines.items():
        if routine.is_entry:
            yield f"{name}: an entry cannot be a routine"
        if name in reached(module, name):
            yield f"{name}: a routine that calls itself has no frame for it"
        if max(len(routine.params), len(routine.results)) > MOST_WORDS:
            yield f"{name}: a routine takes and gives at most {MOST_WORDS} values; pass a pointer to a table"


def _places(module: KernelModule) -> Iterator[str]:
    for buffer in module.buffers.values():
        if buffer.offset is not None and buffer.space == STACK:
            yield f"buffer {buffer.name}: the frame's buffers have no place of their own"
        elif buffer.offset is not None and (buffer.offset < 0 or buffer.offset % buffer.align):
            yield f"buffer {buffer.name}: its offset {buffer.offset} is no multiple of {buffer.align}"


def _faults(module: KernelModule, function: Function) -> Iterator[str]:
    name = function.name
    if not function.blocks:
        yield f"{name}: it has no block"
        return
    own = set(function.blocks)
    for block in function.blocks:
        if block.terminator is None:
            yield f"{name}: block {block.name!r} does not end in a terminator"
            return
        if any(op.opcode in TERMINATORS for op in block.ops[:-1]):
            yield f"{name}: block {block.name!r} goes on behind a terminator"
            return
        if any(target.block not in own for target in block.ops[-1].targets):
            yield f"{name}: block {block.name!r} goes to a block of another function"
            return
    for op in function.ops():
        signature = _signature(op) if op.opcode in _PLAIN else None
        if signature in _FINE:
            continue
        wrong = (*_shape(module, function, op), *_types(op))
        yield from (f"{name} at {op.location}: {op.opcode}: {what}" for what in wrong)
        if signature is not None and not wrong:
            _FINE.add(signature)
    yield from (f"{name}: {what}" for what in _dominance(function))


def _signature(op: Op) -> Hashable:
    """Everything that the checks of a plain operation look at."""
    attrs = op.attrs
    kinds = (attrs.get("fmt"), attrs.get("source"), attrs.get("type"))
    taken, given = [value.type for value in op.operands], [result.type for result in op.results]
    return (op.opcode, len(op.targets), *attrs, *kinds, len(taken), *taken, *given)


def _shape(module: KernelModule, function: Function, op: Op) -> Iterator[str]:
    row = OPS.get(op.opcode)
    if row is None:
        yield "there is no such operation"
        return
    missing = [attr for attr in row.attrs if attr not in op.attrs]
    if missing:
        yield "it lacks " + ", ".join(missing)
    if "*" not in row.operands and len(op.operands) != len(row.operands):
        yield f"{len(op.operands)} operands where {len(row.operands)} are needed"
    wanted = {"jump": 1, "branch": 2}.get(op.opcode, 0)
    if len(op.targets) != wanted:
        yield f"{len(op.targets)} targets where {wanted} are needed"
    for target in op.targets:
        yield from _passes(target.args, [arg.type for arg in target.block.args], "passes")
    if op.opcode == "return":
        yield from _passes(op.operands, list(function.results), "returns")
    if op.opcode == "call":
        yield from _call(module, op)


def _passes(values: list[Value], kinds: list[Type], word: str) -> Iterator[str]:
    if len(values) != len(kinds):
        yield f"it {word} {len(values)} values where {len(kinds)} are expected"
        return
    for value, kind in zip(values, kinds, strict=True):
        if not _same(value.type, kind):
            yield f"it {word} {value.type.name} where {kind.name} is expected"


def _same(given: Type, wanted: Type) -> bool:
    """Equal, or both pointers: a word that is passed on stays extended as its type says."""
    return given == wanted or (is_pointer(given) and is_pointer(wanted))


def _call(module: KernelModule, op: Op) -> Iterator[str]:
    called = module.functions.get(op.attrs.get("function", ""))
    if called is None:
        yield f"there is no function {op.attrs.get('function')!r}"
        return
    yield from _passes(op.operands, [arg.type for arg in called.params], "passes")
    if [result.type for result in op.results] != list(called.results):
        yield f"its results are not those of {called.name}"


def _types(op: Op) -> Iterator[str]:
    row = OPS.get(op.opcode)
    if row is None or any(attr not in op.attrs for attr in row.attrs):
        return
    if op.opcode == "tensor":
        yield from _tensor(op)
        return
    if "*" not in row.operands and len(op.operands) == len(row.operands):
        for letter, value in zip(row.operands, op.operands, strict=True):
            yield from _operand(op, letter, value)
    yield from _attributes(op)
    expected = {"f": op.attrs.get("fmt"), "i": I64, "p": op.attrs.get("type"), "t": op.attrs.get("type")}
    if len(row.results) == 1 and (len(op.results) != 1 or op.result.type != expected[row.results]):
        yield f"its result is not the {expected[row.results]} it should be"


def _operand(op: Op, letter: str, value: Value) -> Iterator[str]:
    wanted = {"f": op.attrs.get("fmt"), "F": op.attrs.get("source"), "i": I64}.get(letter)
    if letter == "p" and not is_pointer(value.type):
        yield f"{value.type.name} where a pointer is needed"
    elif isinstance(wanted, Format) and not same_register_bits(value.type, wanted):
        yield f"{value.type.name} where {wanted.name} is needed"
    elif letter == "i" and is_pointer(value.type):
        yield "a pointer where i64 is needed"


def _attributes(op: Op) -> Iterator[str]:
    if op.opcode == "special" and op.attrs["name"] not in SPECIAL_REGISTERS[:-2]:
        yield f"there is no built-in {op.attrs['name']!r}"
    if op.opcode == "sync" and any(queue not in QUEUES for queue in op.attrs["queues"]):
        yield f"the queues are {', '.join(QUEUES)}, not {op.attrs['queues']}"
    if op.opcode == "select" and not _same(op.operands[1].type, op.operands[2].type):
        yield f"it chooses between {op.operands[1].type.name} and {op.operands[2].type.name}"
    if op.opcode == "set" and not _same(op.operands[0].type, op.attrs["variable"].type):
        yield f"{op.operands[0].type.name} into a variable of {op.attrs['variable'].type.name}"
    if op.opcode == "cast":
        given, wanted = op.operands[0].type, op.attrs["type"]
        whole = (is_integer(given) or is_pointer(given)) and (is_integer(wanted) or is_pointer(wanted))
        if not whole and bits_of(given) != bits_of(wanted):
            yield f"the bits of {given.name} are not those of {wanted.name}"


def _tensor(op: Op) -> Iterator[str]:
    mnemonic = op.attrs["row"]
    if mnemonic not in TENSOR_ROWS:
        yield f"there is no tensor row {mnemonic!r}"
        return
    promise = contract(mnemonic)
    wrong = lawful(promise.row, op.attrs["formats"], op.attrs["flags"])
    if wrong:
        yield wrong
        return
    if len(op.operands) != len(promise.fields) or len(op.results) != len(promise.results):
        yield f"{mnemonic} takes {', '.join(promise.fields)}"
        return
    if op.attrs["async"] and promise.row.queue not in (DMA, MATRIX) and mnemonic != "COPYX":
        yield f"{mnemonic} is neither a copy nor a product, only these are asynchronous"
    for field, value in zip(promise.fields, op.operands, strict=True):
        yield from _field(op, field, value)


def _field(op: Op, field: str, value: Value) -> Iterator[str]:
    access = contract(op.attrs["row"]).access(field)
    if access is not None:
        if not is_pointer(value.type):
            yield f"{field} is {value.type.name}, not a pointer"
        elif isinstance(value.type, Pointer) and not _may_lie(value, access.spaces):
            names = [name for name, letter in LETTER_OF.items() if letter in access.spaces]
            yield f"{field} lies in {value.type.space}, the instruction takes {' or '.join(names)}"
    elif field in VALUE_FIELDS:
        fmt = value_format(field, op.attrs["formats"])
        if not same_register_bits(value.type, fmt):
            yield f"{field} is {value.type.name}, not {fmt.name}"
    elif not (is_integer(value.type) and bits_of(value.type) == 64):
        yield f"{field} is {value.type.name}, not i64"


def _may_lie(value: Value, spaces: str) -> bool:
    assert isinstance(value.type, Pointer)
    if value.type.space == ANY_SPACE or (isinstance(value, Constant) and value.value == 0):
        return True
    return LETTER_OF[value.type.space] in spaces


def _dominance(function: Function) -> Iterator[str]:
    graph = Graph(function)
    place = {op: number for block in graph.order for number, op in enumerate(block.ops)}
    for block in graph.order:
        for op in block.ops:
            for value in op.uses():
                if not isinstance(value, Constant) and not _visible(graph, place, value, op, block):
                    yield f"{op.opcode} at {op.location} uses a value before it is defined"


def drop_blind_notes(function: Function) -> None:
    """Takes out notes for the debugger whose value is not there on every way to them."""
    if not any(op.opcode == "note" for op in function.ops()):
        return
    graph = Graph(function)
    place = {op: number for block in graph.order for number, op in enumerate(block.ops)}
    for block in graph.order:
        block.ops = [
            op for op in block.ops
            if op.opcode != "note" or all(_visible(graph, place, value, op, block) for value in op.operands)
        ]  # fmt: skip


def _visible(graph: Graph, place: dict[Op, int], value: Value, op: Op, block: Block) -> bool:
    if isinstance(value, Constant):
        return True
    if isinstance(value, Argument):
        return value.block in graph.number and graph.dominates(value.block, block)
    assert isinstance(value, Result)
    home = value.op.block
    if home is None or home not in graph.number or value.op not in place:
        return False
    return place[value.op] < place[op] if home is block else graph.dominates(home, block)
