"""Control flow: counted loops that carry values, branches that merge values. All of it phis, no memory.

Enters: bounds, conditions, Python code that emits the bodies. Leaves: blocks in the open function.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from types import TracebackType
from typing import TypeVar

from trilobite.base.errors import IRError
from trilobite.native.host import Host
from trilobite.native.llvm.memory import Memory
from trilobite.native.llvm.types import Index, Value, constant

T = TypeVar("T")


class Flow(Memory):
    """The part of `Text` that branches."""

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self._block_name = "start"

    def _label(self, name: str) -> None:
        self.line(f"{name}:")
        self._block_name = name

    def _jump(self, name: str) -> None:
        self.line(f"br label %{name}")

    def loop(
        self, start: Index, stop: Index, step: Index = 1, carried: Sequence[Value] = (), name: str = "i",
        mark: str = "", as_written: bool = False,
    ) -> Loop:  # fmt: skip
        """`with t.loop(0, n, 8, carried=[zero]) as loop:` runs for loop.index = start, start+step, ... below
        stop. `loop.values` are the carried values at the top of the body; the body calls
        `loop.next(...)` with their successors; afterwards `loop.results` are their last values. A `mark` is
        what its branch back says to LLVM. `as_written`: addresses stay as the body makes them from the
        index; on x86 LLVM else looks for better ones, which takes long in a body of many and finds none.
        """
        return Loop(self, start, stop, step, tuple(carried), name, mark, as_written)

    @contextmanager
    def when(self, condition: Value) -> Iterator[None]:
        """Emit what stands inside so that it runs only if the condition holds."""
        if condition.number:  # known to be true
            yield
            return
        inside, after = self.fresh("then"), self.fresh("after")
        self.line(f"br i1 {condition}, label %{inside}, label %{after}")
        self._label(inside)
        yield
        self._jump(after)
        self._label(after)

    def side_by_side(self, bodies: Sequence[Callable[[], T]]) -> list[T]:
        """Pieces that do not depend on each other, line by line in turn: a processor looks ahead less far
        than the chains of a mathematical function are long. Pieces with branches stay one after the other.
        """
        results: list[T] = []
        pieces: list[list[str]] = []
        for body in bodies:
            start = len(self.lines)
            results.append(body())
            pieces.append(self.lines[start:])
            del self.lines[start:]
        straight = not any(line.startswith(("br ", "switch ")) for piece in pieces for line in piece)
        turns = zip_longest(*pieces) if straight else pieces
        self.lines += [line for turn in turns for line in turn if line is not None]
        return results

    def either(
        self,
        condition: Value,
        then: Callable[[], Sequence[Value] | None],
        otherwise: Callable[[], Sequence[Value] | None],
    ) -> list[Value]:
        """One of two bodies; the values that they return, merged pairwise."""
        if condition.number is not None:
            return list((then() if condition.number else otherwise()) or ())
        names = self.fresh("then"), self.fresh("else")
        after = self.fresh("after")
        self.line(f"br i1 {condition}, label %{names[0]}, label %{names[1]}")
        ends: list[tuple[Sequence[Value], str]] = []
        for label, body in zip(names, (then, otherwise), strict=True):
            self._label(label)
            ends.append((body() or (), self._block_name))
            self._jump(after)
        self._label(after)
        (a, at_a), (b, at_b) = ends
        return [
            self.define(x.type, f"phi {x.type} [ {x}, %{at_a} ], [ {y}, %{at_b} ]")
            for x, y in zip(a, b, strict=True)
        ]


class Loop:
    """A counted loop while its body is emitted. One that runs exactly once, as its constants say, is none."""

    index: Value
    values: list[Value]

    def __init__(
        self, text: Flow, start: Index, stop: Index, step: Index, carried: tuple[Value, ...], name: str,
        mark: str, as_written: bool,
    ) -> None:  # fmt: skip
        self._text, self._carried, self._name, self._mark = text, carried, name, mark
        self._opaque = as_written and text.host.triple.startswith("x86_64")
        self._start, self._stop, self._step = (
            v if isinstance(v, Value) else constant("i64", v) for v in (start, stop, step)
        )
        self._next: list[Value] = list(carried)

    @property
    def results(self) -> list[Value]:
        """The carried values after the last round."""
        return self._next if self._once else self.values

    @property
    def _once(self) -> bool:
        a, b, s = self._start.number, self._stop.number, self._step.number
        return a is not None and b is not None and s is not None and 0 < b - a <= s

    def next(self, *values: Value) -> None:
        if len(values) != len(self._carried):
            raise IRError(
                f"a loop's next() was given {len(values)} values",
                expected=f"one for each of the {len(self._carried)} that it carries",
            )
        self._next = list(values)

    def __enter__(self) -> Loop:
        if self._once:
            self.index, self.values = self._start, list(self._carried)
            return self
        t = self._text
        head, body, self._exit = (t.fresh(f"{self._name}.{w}") for w in ("head", "body", "exit"))
        self._before, self._head = t._block_name, head
        t._jump(head)
        t._label(head)
        self._phis = len(t.lines)
        self.index, *self.values = (
            t.define(v.type, "phi") for v in (self._start, *self._carried)
        )  # the incoming values are filled in when the body is known
        t.line(f"br i1 {t.icmp('slt', self.index, self._stop)}, label %{body}, label %{self._exit}")
        t._label(body)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None or self._once:
            return
        t = self._text
        after = t.add(self.index, self._step)
        if self._opaque:  # what is frozen is no known function of the rounds
            after = t.define("i64", f"freeze i64 {after}")
        nexts = (after, *self._next)
        starts = (self._start, *self._carried)
        phis = zip((self.index, *self.values), starts, nexts, strict=True)
        for i, (phi, first, later) in enumerate(phis):
            incoming = f"[ {first}, %{self._before} ], [ {later}, %{t._block_name} ]"
            t.lines[self._phis + i] = f"{phi} = phi {phi.type} {incoming}"
        t.line(f"br label %{self._head}{self._mark}")
        t._label(self._exit)
