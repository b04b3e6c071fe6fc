"""The one entry: `bind(primitive, *values, **attributes)`, and the per-thread context that decides who
interprets it.

A value is an ndarray or a `Traced` value of some interpreter. The interpreter with the highest level among
the values' and the recorder's processes the primitive, usually by binding again with simpler values, down to
NumPy.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from trilobite.base.errors import TraceError
from trilobite.base.locations import user_location
from trilobite.ir.primitive import Attributes, Primitive, Value, set_entry
from trilobite.ir.types import Shape

if TYPE_CHECKING:
    from trilobite.base.dtypes import DType
    from trilobite.ir.transforms.record import Recorder

ndarray = np.ndarray


class Interpreter:
    """One way to process primitives. `level` is its place on the stack, `alive` ends with its transform."""

    __slots__ = ("alive", "level")

    def __init__(self, level: int) -> None:
        self.level, self.alive = level, True

    def process(self, primitive: Primitive, values: Sequence[Value], attributes: Attributes) -> Any:
        raise NotImplementedError

    def check_alive(self, what: str) -> None:
        if not self.alive:
            raise TraceError(
                f"a value of {what} is used after {what} has ended",
                where=user_location(),
                expected="values that belong to a transform stay inside the function it transforms",
                remedy="return the value from the function instead of keeping it in a variable outside",
            )


class Traced:
    """A value of an interpreter. Subclasses set `interpreter`, `shape`, `dtype`."""

    __slots__ = ("dtype", "interpreter", "shape")
    interpreter: Interpreter
    shape: Shape
    dtype: DType

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __bool__(self) -> bool:
        raise TraceError("a traced value has no truth value")


class Context:
    """What one thread is in the middle of."""

    __slots__ = ("ambient", "autocast", "depth", "grad_off", "recorder", "undo", "vmaps", "watch", "writes")

    def __init__(self) -> None:
        self.recorder: Recorder | None = None  # the innermost recording, if any
        self.depth = 1  # the highest level in use; level 1 is the thread's ambient tape
        self.ambient: Any = None  # the tape that `backward()` walks; set by the tape module
        self.grad_off = 0  # tapes up to this level do not record
        self.autocast: DType | None = None  # the 16-bit format of mixed precision, if it is on
        self.watch: Any = None  # called with (primitive, values, result) in anomaly mode
        self.undo: Any = None  # while a function runs again for its gradient: what the tensors it writes held
        self.writes: Any = None  # cells written inside the innermost functional transform
        self.vmaps: tuple[Any, ...] = ()  # active batch interpreters, for randomness


class _Threads(threading.local):
    def __init__(self) -> None:
        self.context = Context()
        self.context.ambient = ambient_tape


ambient_tape: Any = None
threads: Any = None


def install_ambient(tape: Interpreter) -> None:
    """Called once, by the tape module: every thread starts with this tape at level 1."""
    global ambient_tape, threads
    ambient_tape = tape
    threads = _Threads()


def context() -> Context:
    found: Context = threads.context
    return found


def bind(primitive: Primitive, *values: Value, **attributes: Any) -> Any:
    """Apply a primitive to values; the topmost interpreter concerned processes it."""
    ctx = threads.context
    top = ctx.recorder
    level = 0 if top is None else top.level
    for v in values:
        if type(v) is not ndarray and v.interpreter.level > level:
            top = v.interpreter
            level = top.level
    if top is not None:
        return top.process(primitive, values, attributes)
    out = (primitive.eager or primitive.evaluate)(*values, **attributes)
    if ctx.watch is not None:
        ctx.watch(primitive, values, out)
    return out


set_entry(bind)


@contextmanager
def deeper(ctx: Context) -> Iterator[int]:
    """A new level on top of the stack, for as long as a transform runs."""
    ctx.depth += 1
    try:
        yield ctx.depth
    finally:
        ctx.depth -= 1
