"""Runs a whole program in one native call: a table of steps, walked by machine code (`driver.ll`).

Enters: rows, the words they read their arguments from, and patches that tell which words are addresses of
the caller's arrays. Leaves: a `Table`; `run` takes the arrays. It plans nothing: addresses, offsets and order
are the caller's. A table runs once at a time; who calls it meanwhile waits.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from trilobite.base.errors import ArgumentError
from trilobite.base.records import dataclass
from trilobite.native.interruptible import Apart, by_the_caller, is_wanted
from trilobite.native.pool import pool, remember
from trilobite.native.runtime import Words, runtime


class Call(NamedTuple):
    """Runs a kernel over all its units. Its arguments begin at the word `args`."""

    function: int  # an address
    args: int
    units: int
    serial: bool = False
    whole: bool = False  # a thread's part of the units is not cut further
    overwrites: bool = False  # what the caller holds: from here on the run goes through to its end


class Jump(NamedTuple):
    target: int  # a row; the number of rows means the end


class JumpIfZero(NamedTuple):
    """Reads a bool (1 byte), int32 (4) or int64 (8) at the address that the word `flag` holds."""

    flag: int
    bytes: int
    target: int


@dataclass(frozen=True)
class Choose:
    """Goes on at one of the rows, as the int32 at the address that the word `index` holds says: at the first
    or the last of them if it names none.
    """

    index: int
    targets: tuple[int, ...]


@dataclass(frozen=True)
class Repeat:
    """The rows up to its `Again` run `count` times; not at all if that is 0."""

    count: int
    again: int  # the row of the Again


class Again(NamedTuple):
    """Adds a stride to words before each further round, and takes all back after the last."""

    repeat: int  # the row of the Repeat
    bumps: tuple[tuple[int, int], ...] = ()  # (word, bytes)


class Swap(NamedTuple):
    """Exchanges words: what was written becomes what is read."""

    pairs: tuple[tuple[int, int], ...]


class Set(NamedTuple):
    """Copies words: (to, from)."""

    pairs: tuple[tuple[int, int], ...]


class Host(NamedTuple):
    """Calls a Python function without arguments between native rows; what it raises, the run raises."""

    function: Callable[[], object]


Row = Call | Jump | JumpIfZero | Choose | Repeat | Again | Swap | Set | Host


class Patch(NamedTuple):
    """The word becomes the address of array `array` plus `offset` bytes, at the beginning of every run."""

    word: int
    array: int
    offset: int = 0


_OPS = {Call: 0, Jump: 1, JumpIfZero: 2, Repeat: 3, Again: 4, Swap: 5, Set: 6, Host: 7, Choose: 8}
_LONG, _BUSY, _IN_USE, _STALE, _NO_TUPLE, _STOPPED, _NO_ARRAY = 1, -1, -2, -3, -4, -6, -16
_STOP, _MOST_AT_ONCE, _JUMPS = 12, 13, 14  # words of the header
_ALL, _LOOKS = 255, 1024  # pieces at once; jumps back between two looks at signals
# Operations and bytes, these four times, of a run that somebody may want to interrupt: some 0.1 s
_WORK = 4e9
_LOOK_WORK = 1e8  # the same between two looks at signals
_ONE_ARGUMENT = 8  # METH_O
_CallOn = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object, ctypes.py_object, ctypes.c_void_p)


class Method(ctypes.Structure):
    """PyMethodDef: what `builtin` makes a Python function of."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


_METHOD_WORDS = ctypes.sizeof(Method) // 8


def words_of_method(count: int) -> Words:
    """Words that are the `self` of a method, with room for its description behind them."""
    return np.zeros(count + _METHOD_WORDS, np.int64)[:count]


def described(words: Words, name: bytes, function: int, flags: int) -> Method:
    """The description of a method, behind its words: Python reads it once more when it frees the method, just
    before it lets go of the words, and an attribute of the method's owner may be gone by then.
    """
    method = Method.from_address(words.ctypes.data + words.nbytes)
    method.name, method.function, method.flags = name, function, flags
    return method


class Table:
    """A program, ready to run.

    `arrays` is how many arrays a run takes; `scratch` the most bytes per thread that a kernel wants. `alive`
    is whatever the addresses in it stand on: machine code, arenas, constants. `brief` programs take so little
    time that giving up the interpreter's lock for them would be the larger part of it. `work` is how many
    operations and bytes, these four times, a run takes, and `loop_work` a round of its loops: long runs can
    be interrupted, unless they are bound to their thread (`stays`).
    """

    def __init__(
        self,
        rows: Sequence[Row],
        words: Sequence[int] | Words,
        patches: Sequence[Patch] = (),
        *,
        arrays: int = 0,
        scratch: int = 0,
        alive: object = None,
        brief: bool = False,
        work: float = 0.0,
        loop_work: float = 0.0,
        stays: bool = False,
    ) -> None:
        self._stays, self._is_long, self.is_left_behind = stays, work >= _WORK, False
        if not stays:
            rows = [Host(by_the_caller(r.function)) if isinstance(r, Host) else r for r in rows]
        self.words: Words = np.array(words, np.int64)
        self._first = self.words.copy()
        self._base = int(self.words.ctypes.data)
        self._lists: list[Words] = []
        self._alive = alive, [row.function for row in rows if isinstance(row, Host)]
        _check(rows, patches, len(self.words), arrays)
        self.rows: Words = np.zeros((len(rows), 8), np.int64)
        for i, row in enumerate(rows):
            fields = (_OPS[type(row)], *self._fields(row))
            self.rows[i, : len(fields)] = fields
        self._patches: Words = np.array(
            [(self._word(p.word), p.array, p.offset) for p in patches], np.int64
        ).reshape(-1, 3)
        self._pool = pool()
        self._pool.reserve(scratch)
        self.header = words_of_method(15)
        looks = min(max(_LOOK_WORK // max(loop_work, 1), 1), _LOOKS)
        self.header[[_MOST_AT_ONCE, _JUMPS]] = _ALL, looks
        self.header[1:3] = self.rows.ctypes.data, len(rows)
        self.header[3:5] = self._patches.ctypes.data, len(patches)
        self.header[5] = any(isinstance(row, Call) and not row.serial for row in rows)
        self.header[9:11] = arrays, self._pool.control.ctypes.data
        code = runtime()
        self._call_on = _CallOn(code["call_on"])
        function = code["call_brief" if brief else "call"]
        self._method = described(self.header, b"run", function, _ONE_ARGUMENT)
        self._call: Callable[[tuple[Any, ...]], int] = builtin(ctypes.byref(self._method), self.header, None)
        remember(self)

    def run(self, arrays: tuple[np.ndarray[Any, Any], ...] = ()) -> None:
        """One run. The arrays are row-major; that they have the right shapes and dtypes is for the caller."""
        if self._is_long and not self._stays and is_wanted():
            self._run_apart(arrays)
            return
        try:
            code = self._call(arrays)
        except BaseException:
            self._take_back()
            raise
        if code:
            self._go_on(code, arrays)

    def _run_apart(self, arrays: tuple[np.ndarray[Any, Any], ...]) -> None:
        """On another thread, so that this one hears of signals."""
        self.header[[_STOP, _MOST_AT_ONCE]] = 0, 1
        run = Apart(partial(self.run, arrays), self._stop)
        try:
            run()
        finally:
            self.is_left_behind = run.is_left_behind
            if not run.is_left_behind:
                self.header[[_STOP, _MOST_AT_ONCE]] = 0, _ALL

    def _stop(self) -> bool:
        """Tells a run to stop; False if it overwrites what the caller holds, and has to come to its end."""
        at = self.header.ctypes.data + 8 * _STOP
        return bool(self._pool.seize(at)) or self.header[_STOP] == 1

    def _take_back(self) -> None:
        """Rounds that did not end have moved words."""
        self.words[:] = self._first

    def set_units(self, row: int, units: int) -> None:
        """Another number of units of a Call, or of rounds of a Repeat."""
        self.rows[row, 3 if self.rows[row, 0] == 0 else 1] = units

    def time(self, room: int) -> Words:
        """From now on notes (row, begin, end) of each kernel, in nanoseconds; 0 ends it. See `events`."""
        self._events: Words = np.zeros((room, 3), np.int64)
        self.header[6:9] = self._events.ctypes.data if room else 0, room, 0
        return self._events

    @property
    def noted(self) -> Words:
        """The room of `time`, as it fills."""
        return self._events

    def events(self) -> Words:
        """What was noted since `time` or since the last call; what did not fit is lost."""
        noted = self._events[: self.header[8]].copy()
        self.header[8] = 0
        return noted

    def _go_on(self, code: int, arrays: tuple[Any, ...]) -> None:
        """Everything but the plain case: starts the pool, waits for the table, runs alone."""
        while code:
            if code == _LONG:
                self._is_long = True
                return
            if code == _STOPPED:
                self._take_back()
                return
            if code == _STALE:
                self._pool.start()
            elif code == _IN_USE:
                time.sleep(50e-6)
            elif code != _BUSY:
                raise _refusal(code, arrays, int(self.header[9]))
            try:
                if code == _BUSY:
                    code = self._call_on(self.header, arrays, self._pool.alone().ctypes.data)
                else:
                    code = self._call(arrays)
            except BaseException:
                self._take_back()
                raise

    def _word(self, index: int) -> int:
        return self._base + 8 * index

    def _pairs(self, pairs: Sequence[tuple[int, int]]) -> tuple[int, int]:
        """Address and number of a list that lives as long as the table."""
        self._lists.append(np.array(pairs, np.int64).reshape(-1, 2))
        return int(self._lists[-1].ctypes.data), len(pairs)

    def _fields(self, row: Row) -> tuple[int, ...]:
        match row:
            case Call(function, args, units, serial, whole, overwrites):
                return function, self._word(args), units, 1 if serial else 2 * whole, 0, int(overwrites)
            case Jump(target):
                return (target,)
            case JumpIfZero(flag, width, target):
                return self._word(flag), width, target
            case Choose(index, targets):
                self._lists.append(np.array(targets, np.int64))
                return self._word(index), int(self._lists[-1].ctypes.data), len(targets)
            case Repeat(count, again):
                return count, again + 1
            case Again(repeat, bumps):
                return repeat, *self._pairs([(self._word(word), stride) for word, stride in bumps])
            case Swap(pairs) | Set(pairs):
                return self._pairs([(self._word(a), self._word(b)) for a, b in pairs])
            case Host(function):
                return (id(function),)


def _targets(row: Row) -> tuple[int, ...]:
    match row:
        case Jump(target) | JumpIfZero(_, _, target):
            return (target,)
        case Choose(_, targets):
            return targets
        case Repeat(_, again):
            return (again,)
        case Again(repeat, _):
            return (repeat,)
        case _:
            return ()


def _words(row: Row) -> list[int]:
    match row:
        case Call(args=args):
            return [args]
        case JumpIfZero(flag, _, _):
            return [flag]
        case Choose(index, _):
            return [index]
        case Again(_, bumps):
            return [word for word, _ in bumps]
        case Swap(pairs) | Set(pairs):
            return [word for pair in pairs for word in pair]
        case _:
            return []


def _check(rows: Sequence[Row], patches: Sequence[Patch], words: int, arrays: int) -> None:
    """Machine code believes what it reads, so nothing may point outside."""
    for i, row in enumerate(rows):
        outside = [t for t in _targets(row) if not 0 <= t <= len(rows)]
        # a kernel without arguments may begin behind the last word
        outside += [w for w in _words(row) if not 0 <= w < words + isinstance(row, Call)]
        if outside:
            raise ArgumentError(
                f"row {i} of a step table points to {outside[0]}, which is not there",
                where=row,
                expected=f"one of {len(rows)} rows and {words} words",
            )
    for patch in patches:
        if not (0 <= patch.word < words and 0 <= patch.array < arrays):
            raise ArgumentError(
                "a patch of a step table points outside",
                where=patch,
                expected=f"one of {words} words and {arrays} arrays",
            )


def _refusal(code: int, arrays: object, expected: int) -> ArgumentError:
    if code == _NO_TUPLE:
        size = len(arrays) if isinstance(arrays, tuple) else type(arrays).__name__
        return ArgumentError(f"a program was run with {size}", expected=f"a tuple of {expected} arrays")
    number = _NO_ARRAY - code
    return ArgumentError(
        f"array {number} of a program is not a row-major NumPy array", expected="a contiguous numpy.ndarray"
    )


builtin: Any = ctypes.pythonapi.PyCFunction_NewEx
builtin.restype = ctypes.py_object
builtin.argtypes = (ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
