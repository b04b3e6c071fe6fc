"""A pickle read as data: an interpreter of pickle's opcodes that can call nothing.

Enters: a stream of opcodes. Leaves: numbers, strings, lists, dicts, and what the caller's table of known
globals makes. A global is looked up in that table by its name and is refused if it is not there; nothing is
imported, no attribute of anything is followed, no object is built but by the table. Opcodes that only serve
classes are refused by name. Work and memory are bounded: bytes, values, stack, memo. Does not know tensors;
`torch_values` has the table.
"""

from __future__ import annotations

import struct
from collections import OrderedDict
from collections.abc import Callable
from typing import IO, Any, NamedTuple

from trilobite.base.errors import FileError

MAX_BYTES = 1 << 27
MAX_VALUES = 4_000_000
MAX_STACK = 1_000_000
_MAX_LINE = 1 << 16
_MAX_KEY_DEPTH = 4
# Larger integers can be chosen to hash alike, which turns a dict quadratic.
_MAX_KEY_INT = 2**60


class Constructor(NamedTuple):
    """A known global: what REDUCE may do with it. `build` takes the tuple of arguments."""

    name: str
    build: Callable[[tuple[Any, ...]], Any]


Lookup = Callable[[str, str], Any]
Persistent = Callable[[Any], Any]


def refused(what: str, where: str, expected: str = "numbers, strings, containers and tensors") -> FileError:
    return FileError(
        what,
        where=where,
        expected=expected,
        remedy="save a plain state dict (torch.save(model.state_dict(), path)) or convert to safetensors",
    )


def fit_key(value: Any, where: str, depth: int = 0) -> Any:
    """A value that may be hashed: a scalar, or a shallow tuple of them (hashing recurses)."""
    if type(value) is tuple and depth < _MAX_KEY_DEPTH:
        for part in value:
            fit_key(part, where, depth + 1)
    elif type(value) is int and abs(value) >= _MAX_KEY_INT:
        raise refused("an integer of more than 60 bits is used as a key", where)
    elif value is not None and type(value) not in (bool, int, float, str, bytes):
        raise refused(f"a {type(value).__name__} is used as a key", where)
    return value


class PickleReader:
    """Reads one pickle from a stream of at most `limit` bytes."""

    def __init__(
        self, stream: IO[bytes], limit: int, where: str, lookup: Lookup, persistent: Persistent
    ) -> None:
        self._stream, self._left, self._where = stream, min(limit, MAX_BYTES), where
        self._lookup, self._persistent = lookup, persistent
        self._stack: list[Any] = []
        self._marks: list[list[Any]] = []
        self._memo: dict[int, Any] = {}
        self._values = 0

    def read(self) -> Any:
        """The value that the pickle describes. The stream is left after its STOP."""
        while (code := self._take(1)) != b".":
            step = _STEPS.get(code)
            if step is None:
                raise self._refuse(f"the pickle has the opcode {_REFUSED.get(code, repr(code))}")
            step(self)
            if len(self._stack) > MAX_STACK:
                raise self._refuse("the pickle's stack is too deep")
        if len(self._stack) != 1 or self._marks:
            raise self._refuse("the pickle does not leave exactly one value")
        return self._stack[0]

    # -- input, stack, memo

    def _refuse(self, what: str) -> FileError:
        return refused(what, self._where)

    def _take(self, count: int) -> bytes:
        if count > self._left:
            raise self._refuse("the pickle ends early or is too large")
        data = self._stream.read(count)
        if len(data) != count:
            raise self._refuse("the pickle ends early")
        self._left -= count
        return data

    def _unsigned(self, width: int) -> int:
        return int.from_bytes(self._take(width), "little")

    def _line(self) -> str:
        data = self._stream.readline(min(_MAX_LINE, self._left))
        if not data.endswith(b"\n"):
            raise self._refuse("a line of the pickle does not end")
        self._left -= len(data)
        return self._text(data[:-1], "ascii")

    def _text(self, data: bytes, encoding: str = "utf-8") -> str:
        try:
            return data.decode(encoding, "surrogatepass" if encoding == "utf-8" else "strict")
        except UnicodeDecodeError:
            raise self._refuse("the pickle holds text that is no text") from None

    def _count(self) -> None:
        self._values += 1
        if self._values > MAX_VALUES:
            raise self._refuse(f"the pickle makes more than {MAX_VALUES} values")

    def _push(self, value: Any) -> None:
        self._count()
        self._stack.append(value)

    def _pop(self) -> Any:
        if not self._stack:
            raise self._refuse("the pickle takes from an empty stack")
        return self._stack.pop()

    def _duplicate(self) -> None:
        value = self._pop()
        self._stack.append(value)
        self._push(value)

    def _top(self, kind: type) -> Any:
        if not self._stack or not isinstance(self._stack[-1], kind):
            raise self._refuse(f"the pickle fills a {kind.__name__} that is not there")
        return self._stack[-1]

    def _mark(self) -> None:
        if len(self._marks) >= MAX_STACK:
            raise self._refuse("the pickle has too many open marks")
        self._marks.append(self._stack)
        self._stack = []

    def _pop_mark(self) -> list[Any]:
        if not self._marks:
            raise self._refuse("the pickle closes a mark that is not open")
        items, self._stack = self._stack, self._marks.pop()
        return items

    def _put(self, index: int) -> None:
        if not self._stack:
            raise self._refuse("the pickle stores a value that is not there")
        self._count()
        self._memo[index] = self._stack[-1]

    def _get(self, index: int) -> None:
        if index not in self._memo:
            raise self._refuse(f"the pickle recalls the value {index}, which it never stored")
        self._push(self._memo[index])

    # -- numbers

    def _int_line(self) -> None:
        text = self._line()
        self._push({"00": False, "01": True}.get(text) if text in ("00", "01") else self._integer(text))

    def _integer(self, text: str) -> int:
        digits = text.removeprefix("-")
        if not (digits.isdecimal() and len(digits) <= 4000):
            raise self._refuse(f"the pickle has {text[:40]!r} for an integer")
        return int(text)

    def _float_line(self) -> None:
        text = self._line()
        try:
            self._push(float(text))
        except ValueError:
            raise self._refuse(f"the pickle has {text[:40]!r} for a number") from None

    def _long(self, width: int) -> None:
        self._push(int.from_bytes(self._take(self._unsigned(width)), "little", signed=True))

    # -- containers

    def _set_items(self, items: list[Any]) -> None:
        target = self._top(dict)
        if len(items) % 2:
            raise self._refuse("the pickle has a key without a value")
        for key, value in zip(items[::2], items[1::2], strict=True):
            target[fit_key(key, self._where)] = value

    def _dict(self) -> None:
        items = self._pop_mark()
        self._push({})
        self._set_items(items)

    def _set_item(self) -> None:
        value, key = self._pop(), self._pop()
        self._set_items([key, value])

    def _append(self) -> None:
        value = self._pop()
        self._top(list).append(value)

    def _add_items(self) -> None:
        items = self._pop_mark()
        self._top(set).update(fit_key(item, self._where) for item in items)

    def _tuple(self, count: int) -> None:
        items = [self._pop() for _ in range(count)]
        self._push(tuple(reversed(items)))

    # -- globals

    def _global_line(self) -> None:
        module = self._line()
        self._push(self._lookup(module, self._line()))

    def _stack_global(self) -> None:
        name, module = self._pop(), self._pop()
        if type(name) is not str or type(module) is not str:
            raise self._refuse("the pickle names a global with something that is no string")
        self._push(self._lookup(module, name))

    def _reduce(self) -> None:
        arguments, function = self._pop(), self._pop()
        if type(function) is not Constructor or type(arguments) is not tuple:
            raise self._refuse(f"the pickle calls a {type(function).__name__}")
        self._push(function.build(arguments))

    def _build(self) -> None:
        """Only a state dict's `_metadata` (versions of its modules) is set this way; it is dropped."""
        state, target = self._pop(), self._top(object)
        if type(target) is not OrderedDict or type(state) is not dict or set(state) != {"_metadata"}:
            raise self._refuse(f"the pickle sets the state of a {type(target).__name__} (BUILD)")

    def _persistent_id(self) -> None:
        self._push(self._persistent(self._pop()))


Step = Callable[[PickleReader], Any]


def _number(layout: str) -> Step:
    size = struct.calcsize(layout)
    return lambda r: r._push(struct.unpack(layout, r._take(size))[0])


def _string(width: int) -> Step:
    return lambda r: r._push(r._text(r._take(r._unsigned(width))))


def _bytes(width: int, kind: type) -> Step:
    return lambda r: r._push(kind(r._take(r._unsigned(width))))


_STEPS: dict[bytes, Step] = {
    b"\x80": lambda r: r._take(1),  # PROTO
    b"\x95": lambda r: r._take(8),  # FRAME
    b"(": PickleReader._mark,
    b"0": PickleReader._pop,
    b"1": PickleReader._pop_mark,
    b"2": PickleReader._duplicate,
    b"N": lambda r: r._push(None),
    b"\x88": lambda r: r._push(True),
    b"\x89": lambda r: r._push(False),
    b"I": PickleReader._int_line,
    b"L": lambda r: r._push(r._integer(r._line().removesuffix("L"))),
    b"J": _number("<i"),
    b"K": _number("<B"),
    b"M": _number("<H"),
    b"G": _number(">d"),
    b"F": PickleReader._float_line,
    b"\x8a": lambda r: r._long(1),
    b"\x8b": lambda r: r._long(4),
    b"T": _string(4),
    b"U": _string(1),
    b"X": _string(4),
    b"\x8c": _string(1),
    b"\x8d": _string(8),
    b"B": _bytes(4, bytes),
    b"C": _bytes(1, bytes),
    b"\x8e": _bytes(8, bytes),
    b"\x96": _bytes(8, bytearray),
    b"]": lambda r: r._push([]),
    b"l": lambda r: r._push(r._pop_mark()),
    b"a": PickleReader._append,
    b"e": lambda r: (items := r._pop_mark(), r._top(list).extend(items)),
    b")": lambda r: r._push(()),
    b"t": lambda r: r._push(tuple(r._pop_mark())),
    b"\x85": lambda r: r._tuple(1),
    b"\x86": lambda r: r._tuple(2),
    b"\x87": lambda r: r._tuple(3),
    b"}": lambda r: r._push({}),
    b"d": PickleReader._dict,
    b"s": PickleReader._set_item,
    b"u": lambda r: r._set_items(r._pop_mark()),
    b"\x8f": lambda r: r._push(set()),
    b"\x90": PickleReader._add_items,
    b"\x91": lambda r: r._push(frozenset(fit_key(item, r._where) for item in r._pop_mark())),
    b"g": lambda r: r._get(r._integer(r._line())),
    b"h": lambda r: r._get(r._unsigned(1)),
    b"j": lambda r: r._get(r._unsigned(4)),
    b"p": lambda r: r._put(r._integer(r._line())),
    b"q": lambda r: r._put(r._unsigned(1)),
    b"r": lambda r: r._put(r._unsigned(4)),
    b"\x94": lambda r: r._put(len(r._memo)),
    b"c": PickleReader._global_line,
    b"\x93": PickleReader._stack_global,
    b"R": PickleReader._reduce,
    b"b": PickleReader._build,
    b"Q": PickleReader._persistent_id,
}

_REFUSED = {
    **{b"i": "INST", b"o": "OBJ", b"\x81": "NEWOBJ", b"\x92": "NEWOBJ_EX", b"P": "PERSID", b"S": "STRING"},
    **{b"V": "UNICODE", b"\x82": "EXT1", b"\x83": "EXT2", b"\x84": "EXT4"},
    **{b"\x97": "NEXT_BUFFER", b"\x98": "READONLY_BUFFER"},
}
