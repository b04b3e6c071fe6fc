"""Loops from isl's syntax tree.

Enters: a tree that isl made of an order of iterations, and the statements that it calls by number. Leaves:
nodes of the loop IR. Loops here count from 0 or later, so a loop that begins below is shifted; a condition
becomes a loop of at most one iteration.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Any

from trilobite.base.errors import IRError
from trilobite.compiler.targets.cpu.loops.index import (
    Index,
    Quotient,
    Remainder,
    atom_index,
    bounds,
    variable,
)
from trilobite.compiler.targets.cpu.loops.ir import Loop, Node
from trilobite.compiler.targets.cpu.loops.polyhedral.model import Placed, islpy

Scope = Mapping[str, Index]  # isl's iterators -> indices over the variables of our loops


class Reader:
    """Reads one tree. `names[k][depth]` is what statement k calls the loop at a depth."""

    def __init__(self, placed: Sequence[Placed], names: Sequence[Sequence[str]]) -> None:
        self.isl, self.placed, self.names = islpy(), placed, names
        self.kinds, self.ops = self.isl.ast_node_type, self.isl.ast_expr_op_type
        self.ranges: dict[str, int] = {}
        self.taken: set[str] = set()
        self.calls: list[tuple[int, list[Index]]] = []  # in order of the text: statement, iteration

    def nodes(self, tree: Any, scope: Scope) -> tuple[Node, ...]:
        kind = tree.get_type()
        if kind == self.kinds.block:
            children = tree.block_get_children()
            parts = (self.nodes(children.get_at(k), scope) for k in range(children.n_ast_node()))
            return tuple(node for part in parts for node in part)
        if kind == self.kinds.for_:
            return self._loop(tree, scope)
        if kind == self.kinds.if_:
            return self._condition(tree, scope)
        if kind == self.kinds.user:
            return (self._statement(tree.user_get_expr(), scope),)
        raise _unknown(tree)

    # -- nodes ---------------------------------------------------------------------------------------------

    def _loop(self, tree: Any, scope: Scope) -> tuple[Node, ...]:
        iterator = tree.for_get_iterator().get_id().name
        if tree.for_is_degenerate():
            cases = self._cases(tree.for_get_init(), scope)
            parts = (self._where(g, tree.for_get_body(), {**scope, iterator: value}) for g, value in cases)
            return tuple(node for part in parts for node in part)
        first = self._several(tree.for_get_init(), scope, self.ops.max)
        step = tree.for_get_inc().get_val().to_python()
        last = tree.for_get_cond()
        behind = 1 if last.get_op_type() == self.ops.le else 0
        end = [i + behind for i in self._several(last.get_op_arg(1), scope, self.ops.min)]
        var = self._name(self._called(tree, int(iterator[1:])))
        base = self._base(first, step)
        start, extent = ([self._up(i - base, step) for i in each] for each in (first, end))
        high = min(self._span(i)[1] for i in extent)
        if not any(i.is_constant for i in extent):
            extent.append(Index(high))
        self.ranges[var] = max(high, 0)
        body = self.nodes(tree.for_get_body(), {**scope, iterator: variable(var) * step + base})
        return (Loop(var, tuple(extent), body, start=tuple(i for i in start if self._span(i)[1] > 0)),)

    def _base(self, first: list[Index], step: int) -> Index:
        """What iteration 0 of our loop is: not after any of isl's, whose steps all lead to it."""
        low = max(self._span(i)[0] for i in first)
        if all(i.is_constant for i in first):
            return Index(low)
        if step == 1:
            return Index(min(low, 0))
        back = max(self._span(first[0])[1] - low, 0) if len(first) > 1 else 0
        return first[0] - -(-back // step) * step

    def _up(self, index: Index, step: int) -> Index:
        """A quotient, rounded up."""
        return index if step == 1 else self._quotient(index + (step - 1), step)

    def _condition(self, tree: Any, scope: Scope) -> tuple[Node, ...]:
        if tree.if_has_else():
            raise _unknown(tree)
        return self._where([*self._guards(tree.if_get_cond(), scope)], tree.if_get_then(), scope)

    def _where(self, guards: Sequence[Index], tree: Any, scope: Scope) -> tuple[Node, ...]:
        """Nodes that run where no guard is negative."""
        body = self.nodes(tree, scope)
        return (Loop(self._name("if"), (Index(1), *(g + 1 for g in guards)), body),) if guards else body

    def _statement(self, call: Any, scope: Scope) -> Node:
        number = int(call.get_op_arg(0).get_id().name[1:])
        p = self.placed[number]
        at = [self._index(call.get_op_arg(k), scope) for k in range(1, call.get_op_n_arg())]
        self.calls.append((number, at))
        return p.statement.substituted({each.var: i for each, i in zip(p.loops, at, strict=True)})

    def _called(self, tree: Any, depth: int) -> str:
        """What the first statement below calls a loop."""
        while tree.get_type() != self.kinds.user:
            kind = tree.get_type()
            if kind == self.kinds.block:
                tree = tree.block_get_children().get_at(0)
            else:
                tree = tree.for_get_body() if kind == self.kinds.for_ else tree.if_get_then()
        return self.names[int(tree.user_get_expr().get_op_arg(0).get_id().name[1:])][depth]

    def _name(self, wanted: str) -> str:
        """Loops that isl cut in parts are told apart by a number, if no other loop has such a name."""
        free = (f"{wanted}_{k}" for k in count(2))
        name = wanted if wanted not in self.taken else next(n for n in free if n not in self.taken)
        self.taken.add(name)
        return name

    # -- expressions ---------------------------------------------------------------------------------------

    def _span(self, index: Index) -> tuple[int, int]:
        found = bounds(index, self.ranges)
        assert found is not None, index
        return found

    def _several(self, e: Any, scope: Scope, by: Any) -> list[Index]:
        """The arguments of nested minima or maxima."""
        if self._is(e, by):
            return [i for k in range(e.get_op_n_arg()) for i in self._several(e.get_op_arg(k), scope, by)]
        return [self._index(e, scope)]

    def _cases(self, e: Any, scope: Scope) -> Iterator[tuple[list[Index], Index]]:
        """The values of the only iteration of a loop, each with what must not be negative for it."""
        if not self._is(e, self.ops.cond, self.ops.select):
            yield [], self._several(e, scope, self.ops.max)[0]
            return
        holds = list(self._guards(e.get_op_arg(0), scope))
        for more, value in self._cases(e.get_op_arg(1), scope):
            yield [*holds, *more], value
        for k, guard in enumerate(holds):  # the first that does not hold
            for more, value in self._cases(e.get_op_arg(2), scope):
                yield [*holds[:k], guard * -1 - 1, *more], value

    def _is(self, e: Any, *ops: Any) -> bool:
        return e.get_type() == self.isl.ast_expr_type.op and e.get_op_type() in ops

    def _index(self, e: Any, scope: Scope) -> Index:
        if e.get_type() == self.isl.ast_expr_type.int:
            return Index(e.get_val().to_python())
        if e.get_type() == self.isl.ast_expr_type.id:
            return scope[e.get_id().name]
        op, args = e.get_op_type(), [self._index(e.get_op_arg(k), scope) for k in range(e.get_op_n_arg())]
        if op == self.ops.minus:
            return args[0] * -1
        if op == self.ops.add:
            return args[0] + args[1]
        if op == self.ops.sub:
            return args[0] - args[1]
        if op == self.ops.mul:
            a, b = args if args[1].is_constant else (args[1], args[0])
            return a * b.constant
        return self._divided(e, op, args)

    def _divided(self, e: Any, op: Any, args: list[Index]) -> Index:
        """Quotients and remainders, of what machines divide alike: numbers that are not negative."""
        remainder = op in (self.ops.pdiv_r, self.ops.zdiv_r)
        if not remainder and op not in (self.ops.div, self.ops.fdiv_q, self.ops.pdiv_q):
            raise _unknown(e)
        index, by = args[0], args[1].constant
        assert isinstance(by, int)
        if remainder:
            return atom_index(Remainder(index + self._more(index, by) * by, by))
        return self._quotient(index, by)

    def _more(self, index: Index, by: int) -> int:
        return -(min(self._span(index)[0], 0) // by)

    def _quotient(self, index: Index, by: int) -> Index:
        if index.is_constant and isinstance(index.constant, int):
            return Index(index.constant // by)
        more = self._more(index, by)
        return atom_index(Quotient(index + more * by, by)) - more

    def _guards(self, e: Any, scope: Scope) -> Iterator[Index]:
        """What must not be negative for a condition to hold."""
        if self._is(e, self.ops.and_, self.ops.and_then):
            for k in range(e.get_op_n_arg()):
                yield from self._guards(e.get_op_arg(k), scope)
            return
        if not self._is(e, self.ops.le, self.ops.lt, self.ops.ge, self.ops.gt, self.ops.eq):
            raise _unknown(e)
        op, a, b = e.get_op_type(), e.get_op_arg(0), e.get_op_arg(1)
        if op in (self.ops.le, self.ops.lt):
            a, b = b, a
        strict = 1 if op in (self.ops.lt, self.ops.gt) else 0
        for x in self._several(a, scope, self.ops.min):
            for y in self._several(b, scope, self.ops.max):
                yield x - y - strict
        if op == self.ops.eq:
            yield self._index(b, scope) - self._index(a, scope)


def _unknown(tree: Any) -> IRError:
    return IRError(
        f"an order of iterations gives loops of another form: {tree.to_C_str().strip().splitlines()[0]}",
        expected="loops with minima, maxima, quotients and conditions that all hold",
        remedy="choose other rows, for example without multiples of loops",
    )
