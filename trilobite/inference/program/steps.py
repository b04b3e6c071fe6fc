"""The steps of a program: a compiled graph, or one operation on the host.

Enters: placed nodes. Leaves: objects with `reads`, `makes` and `run`. A compiled step records its nodes
once per kind of operands and keeps a bounded number of these; which, and how often it had to compile, it
can tell.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from trilobite.base.errors import TrilobiteError
from trilobite.base.forks import renewed_in_child
from trilobite.base.locations import Location, told
from trilobite.compiler.targets.contract import Executable
from trilobite.framework.jit import Jitted, jit
from trilobite.framework.tensor import Tensor, wrap
from trilobite.inference.model import Node
from trilobite.inference.operators.registry import Row
from trilobite.inference.program.apply import apply, call_now, is_quantised
from trilobite.inference.program.foreign import is_foreign, on_codes
from trilobite.inference.program.partition import makes_foreign
from trilobite.inference.program.symbolic import BOUNDS, UNBOUNDED, Key, Pattern, fits, pattern_of
from trilobite.inference.program.values import Known, as_array, as_tensor

Values = Mapping[str, Any]
Pair = tuple[Node, Row]
KEPT = 64  # sizes a compiled step remembers


class Step(Protocol):
    """Part of a program: takes values by name, gives values by name."""

    @property
    def reads(self) -> Sequence[str]: ...

    @property
    def makes(self) -> Sequence[str]: ...

    def run(self, values: Values) -> Sequence[Any]: ...

    def describe(self) -> list[str]: ...


class Compiled:
    """Nodes that are one graph for the target."""

    def __init__(
        self,
        nodes: Sequence[Pair],
        reads: Sequence[str],
        makes: Sequence[str],
        constants: Mapping[str, Known],
        target: str,
        options: Mapping[str, Any] | None = None,
        name: str = "graph",
    ) -> None:
        self.nodes, self.reads, self.makes, self.constants = (
            list(nodes),
            tuple(reads),
            tuple(makes),
            constants,
        )
        self.target, self.options, self.name = target, options, name
        if any(is_quantised(node) for node, _ in self.nodes):
            for known in constants.values():
                known.in_quantised()
        self.functions: OrderedDict[Key, Jitted] = OrderedDict()
        self.symbolic: list[tuple[Pattern, Jitted]] = []
        self.latest: Jitted | None = None  # what the last run called
        self.refusal = ""  # why sizes cannot be symbols here
        self.compilations, self.seconds = 0, 0.0
        self._lock = renewed_in_child(threading.Lock())

    def run(self, values: Values) -> Sequence[Any]:
        operands = [np.asarray(values[n]) for n in self.reads]
        key: Key = tuple([(a.shape, a.dtype) for a in operands])
        function = self.functions.get(key)
        if function is None:
            return self._first(key, [wrap(a) for a in operands])
        self.latest = function
        return function.on_arrays(operands)

    def _first(self, key: Key, operands: Sequence[Tensor]) -> Sequence[Any]:
        """A size that was not met before: a graph over symbols serves it, or it gets a graph of its own."""
        started = time.perf_counter()
        for pattern, function in self.symbolic:
            if fits(pattern, key):
                return self._kept(key, function, [o.numpy() for o in function(*operands)])
        outs = self._over_symbols(key, operands) if self.functions and not self.refusal else None
        if outs is None:
            function = jit(self._recorded(), target=self.target, options=self.options)
            outs = self._kept(key, function, [o.numpy() for o in function(*operands)])
        self.compilations += 1
        self.seconds += time.perf_counter() - started
        return outs

    def _over_symbols(self, key: Key, operands: Sequence[Tensor]) -> Sequence[Any] | None:
        """The step as one graph for all sizes like those met so far; None, and why, if that is refused."""
        known = [k for k in self.functions if pattern_of([k, key]) is not None]
        for bounds in BOUNDS if known else ():
            if self.refusal and bounds.upper != UNBOUNDED and "depends on" not in self.refusal:
                break
            pattern = pattern_of([*known, key], bounds)
            assert pattern is not None
            function = jit(self._recorded(), target=self.target, options=self.options, shapes=pattern)
            try:
                function.lower(*operands)
                outs = [o.numpy() for o in function(*operands)]
            except TrilobiteError as error:
                where = [n.strip() for n in getattr(error, "__notes__", ())]
                self.refusal = "; ".join([error.what.splitlines()[0], *where])
                continue
            self.refusal = ""
            self.symbolic.append((pattern, function))
            return self._kept(key, function, outs)
        return None

    def _kept(self, key: Key, function: Jitted, outs: Sequence[Any]) -> Sequence[Any]:
        with self._lock:
            self.functions[key] = self.latest = function
            if len(self.functions) > KEPT:
                self.functions.popitem(last=False)
        return outs

    def _recorded(self) -> Any:
        def graph(*operands: Tensor) -> tuple[Tensor, ...]:
            return self.trace(dict(zip(self.reads, operands, strict=True)))

        graph.__name__ = self.name
        return graph

    def trace(self, values: dict[str, Any]) -> tuple[Tensor, ...]:
        """The nodes in order, on tensors that are being recorded."""
        look = {**self.constants, **values}
        for i, (node, row) in enumerate(self.nodes):
            with told(Location(self.name, i, node.label(), node.scope)):
                results = apply(node, row, [look[n] if n else None for n in node.reads_in_order()])
            look.update(zip(node.outputs, results, strict=False))
        return tuple(as_tensor(look[n]) for n in self.makes)

    def executable(self, values: Values) -> Executable:
        """What runs operands of these sizes."""
        operands = [np.asarray(values[n]) for n in self.reads]
        key: Key = tuple([(a.shape, a.dtype) for a in operands])
        found: Executable = self.functions[key].lower(*map(wrap, operands)).compile()
        return found

    def describe(self) -> list[str]:
        own = [k for k, f in self.functions.items() if all(f is not g for _, g in self.symbolic)]
        sizes = [" ".join(f"{d}{list(s)}" for s, d in key) for key in own]
        head = f"compiled for {self.target}: {len(self.nodes)} nodes, {self.compilations} compilations"
        anything = [" ".join(str(list(p)) for p in pattern) for pattern, _ in self.symbolic]
        why = [f"  one graph per size, because: {self.refusal}"] if self.refusal else []
        return [head, *(f"  for all {s}" for s in anything), *(f"  for {s}" for s in sizes), *why]


class Host:
    """One node on values that are there."""

    def __init__(self, pair: Pair, constants: Mapping[str, Known]) -> None:
        self.node, self.row = pair
        self.constants = constants
        self.reads = tuple(n for n in self.node.reads() if n not in constants)
        self.makes = tuple(n for n in self.node.outputs if n)
        self._operands = self.node.reads_in_order()
        self.narrows = makes_foreign(self.node)

    def run(self, values: Values) -> Sequence[Any]:
        operands = [self._operand(n, values) for n in self._operands]
        if not self.row.host and (self.narrows or any(map(is_foreign, operands))):
            results = on_codes(self.node, self.row, operands)
        else:
            results = call_now(self.node, self.row, operands)
        return [as_array(r) for n, r in zip(self.node.outputs, results, strict=False) if n]

    def _operand(self, name: str, values: Values) -> Any:
        if not name:
            return None
        found = self.constants.get(name)
        return values[name] if found is None else found.array

    def describe(self) -> list[str]:
        return [f"host: {self.node.label()}"]
