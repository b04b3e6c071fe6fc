"""Loops of a kernel: while, range, unrolled, pipelined.

Enters: loop statements. Leaves: blocks of the run, or copies of the body. A pipelined loop is written as its
parts, each guarded by whether its iteration exists, with one wait for everything at the end of a step.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from typing import Any

from trilobite.processor.isa.formats import I64
from trilobite.processor.lang.python.building import Stage
from trilobite.processor.lang.python.expressions import Expressions
from trilobite.processor.lang.python.frames import Frame, LoopTargets, Slot
from trilobite.processor.lang.python.loops import Pipeline
from trilobite.processor.lang.python.pipeline import Split
from trilobite.processor.lang.python.symbols import Symbol


class Looping(Expressions):
    """Needs `block`, which goes through statements."""

    def block(self, frame: Frame, statements: list[ast.stmt]) -> None:
        raise NotImplementedError

    def _while(self, frame: Frame, node: ast.While) -> None:
        self._no_else(frame, node)
        function = self.builder.function
        head, body, out = (function.add_block(name) for name in ("while", "body", "behind"))
        self.builder.jump(head)
        self.builder.block = head
        frame.depth += 1
        truth = self.condition(frame, node.test)
        value = truth.value if isinstance(truth, Symbol) else self.builder.integer(int(truth))
        self.builder.branch(value, body, out)
        frame.loops.append(LoopTargets(head, out))
        self.builder.block = body
        self.block(frame, node.body)
        if self.builder.is_open:
            self.builder.jump(head)
        frame.loops.pop()
        frame.depth -= 1
        self.builder.block = out

    def _no_else(self, frame: Frame, node: ast.For | ast.While) -> None:
        if node.orelse:
            raise self.refuse(frame, node, "a loop with `else`", "a plain loop", "use a variable and an if")

    def _for(self, frame: Frame, node: ast.For) -> None:
        self._no_else(frame, node)
        if (
            isinstance(node.iter, ast.Call)
            and isinstance(node.iter.func, ast.Name)
            and node.iter.func.id == "range"
        ):
            args = [self.evaluate(frame, a) for a in node.iter.args]
            if not 1 <= len(args) <= 3 or node.iter.keywords:
                raise self.refuse(
                    frame, node.iter, f"range of {len(args)} arguments", "one to three of them",
                    "correct it",
                )  # fmt: skip
            self._range(frame, node, *_bounds(args))
            return
        over = self.evaluate(frame, node.iter)
        if isinstance(over, Pipeline):
            self._pipeline(frame, node, over)
        elif isinstance(over, Iterable):
            self._unroll(frame, node, over)
        else:
            raise self.refuse(
                frame, node.iter, f"a kernel cannot loop over {ast.unparse(node.iter)}",
                "range, dlp.pipeline, dlp.static_range or a constant tuple", "use one of these",
            )  # fmt: skip

    def _unroll(self, frame: Frame, node: ast.For, over: Iterable[Any]) -> None:
        function, path, depth = self.builder.function, frame.path, frame.depth
        out = function.add_block("behind") if _leaves(node.body) else None
        for number, item in enumerate(self.items(frame, node, over)):
            self.at(frame, node)
            self.bind(frame, node.target, item)
            frame.path = (*path, number)
            if out is None:
                self.block(frame, node.body)
                continue
            onward = function.add_block("next")
            frame.loops.append(LoopTargets(onward, out, frame.depth))
            self.block(frame, node.body)
            frame.loops.pop()
            if self.builder.is_open:
                self.builder.jump(onward)
            self.builder.block = onward
            if self._taken(frame, ast.Break):
                break
        frame.path, frame.depth = path, depth
        if out is not None:
            self.builder.jump(out)
            self.builder.block = out

    def _taken(self, frame: Frame, kind: type[ast.stmt]) -> bool:
        """Whether the compiler took such a way out of a copy; the next copy begins afresh."""
        left = frame.left
        if isinstance(left, (ast.Break, ast.Continue)):
            frame.left = None
        return isinstance(left, kind)

    def _range(self, frame: Frame, node: ast.For, start: Any, stop: Any, step: Any) -> None:
        if isinstance(step, int) and step == 0:
            raise self.refuse(frame, node.iter, "a range with step 0", "a step that moves", "correct it")
        builder = self.builder
        flip = self._direction(step)
        counter = Slot(builder.function.add_variable("(counter)", I64, frame.scope))
        builder.set(counter.variable, self.context.whole(start))
        head, body, onward, out = (builder.function.add_block(n) for n in ("for", "body", "next", "behind"))
        limit = self.context.whole(stop if flip is None else stop ^ flip)
        stride = self.context.whole(step)
        builder.jump(head)
        builder.block = head
        now = self.names.get(counter)
        falling = isinstance(step, int) and step < 0
        reached = now if flip is None else now ^ flip
        builder.branch(builder.arithmetic("gt" if falling else "lt", I64, reached.value, limit), body, out)
        builder.block = body
        frame.depth += 1
        now = self.names.get(counter)
        now.nonnegative = not falling and flip is None and _known_nonnegative(start)
        kept = self._loop_name(frame, node, now)
        frame.loops.append(LoopTargets(onward, out))
        self.block(frame, node.body)
        frame.loops.pop()
        frame.depth -= 1
        if builder.is_open:
            builder.jump(onward)
        builder.block = onward
        self.at(frame, node)
        builder.set(counter.variable, builder.arithmetic("add", I64, builder.get(counter.variable), stride))
        builder.jump(head)
        builder.block = out
        if kept is not None and isinstance(node.target, ast.Name):
            frame.names[node.target.id] = kept

    def _direction(self, step: Any) -> Symbol | None:
        """-1 or 0 where only a run knows whether a loop falls: a > b is ~a < ~b, and ~a is a ^ -1."""
        if not isinstance(step, Symbol) or step.nonnegative:
            return None
        self.context.whole(step)
        self._step_moves(step)
        found = step >> 63
        assert isinstance(found, Symbol)
        return found

    def _step_moves(self, step: Symbol) -> None:
        wrong, fine = (self.builder.function.add_block(n) for n in ("step 0", "steps"))
        self.builder.branch((step != 0).value, fine, wrong)
        self.builder.block = wrong
        self.context.trap("a loop whose step is 0")
        self.builder.jump(fine)
        self.builder.block = fine

    def _loop_name(self, frame: Frame, node: ast.For, now: Symbol) -> Slot | None:
        """Binds the loop's name for the body; what the name is bound to behind the loop."""
        if not isinstance(node.target, ast.Name):
            raise self.refuse(frame, node.target, "a loop over several names", "one name", "use one")
        name = node.target.id
        if name in frame.single:
            # The counter changes only behind the body, so that its value is good wherever the name is used.
            variable = self.builder.function.add_variable(name, I64, frame.scope, self.builder.location)
            self.builder.set(variable, now.value)
            frame.names[name] = now
            return Slot(variable)
        self.names.assign(frame, name, now)
        return None

    def _pipeline(self, frame: Frame, node: ast.For, over: Pipeline) -> None:
        """Loads of iteration t beside the computation of t - 1 and the stores of t - 2."""
        if not isinstance(node.target, ast.Name):
            raise self.refuse(frame, node.target, "a loop over several names", "one name", "use one")
        split = Split(node.body, lambda n, what, want: self.refuse(frame, n, what, want, "use a plain loop"))
        parts = split.used
        start, step = over.start, over.step
        if isinstance(step, int) and step == 0:
            raise self.refuse(frame, node.iter, "a pipeline with step 0", "a step that moves", "correct it")
        trips = self._trips(over)
        shared: dict[object, Any] = {}
        places: dict[tuple[Any, int], dict[str, bool]] = {}

        def body(now: Symbol) -> None:
            for part in [p for p in ("store", "load", "compute") if p in parts]:
                behind = parts.index(part)
                iteration = now - behind if behind else now
                iteration = self._known_nonnegative(iteration)
                stage = Stage(part, iteration, split.slots, shared, places)
                self._guarded_part(frame, node, stage, now, behind, trips, start + iteration * step, split)

        self._counted(frame, trips + (len(parts) - 1), body)

    def _known_nonnegative(self, value: Any) -> Any:
        if isinstance(value, Symbol):
            value.nonnegative = True
        return value

    def _trips(self, over: Pipeline) -> Any:
        span = over.stop - over.start
        if isinstance(span, int) and isinstance(over.step, int):
            return max(0, -(-span // over.step))
        step = over.step
        if isinstance(step, Symbol) and not step.nonnegative:
            self._step_moves(step)
            trips: Any = -(-span // step)
        elif isinstance(step, int) and step < 0:
            trips = ((-step - 1) - span) // -step
        else:
            trips = (span + (step - 1)) // step
        return self.context.extreme("max", trips, 0)

    def _guarded_part(
        self,
        frame: Frame,
        node: ast.For,
        stage: Stage,
        now: Any,
        behind: int,
        trips: Any,
        index: Any,
        split: Split,
    ) -> None:
        """One part, if its iteration exists."""
        function = self.builder.function
        run, skip = function.add_block(stage.name), function.add_block("next part")
        inside = now < trips + behind
        if behind:
            inside = self.both(now >= behind, inside)
        self.builder.branch(inside.value, run, skip)
        self.builder.block = run
        frame.depth += 1
        outer, self.context.stage = self.context.stage, stage
        assert isinstance(node.target, ast.Name)
        frame.names.pop(node.target.id, None)
        variable = function.add_variable(node.target.id, I64, frame.scope, self.builder.location)
        self.builder.set(variable, self.context.whole(index))
        frame.names[node.target.id] = index
        self.block(frame, split.parts[stage.name])
        frame.names[node.target.id] = Slot(variable)
        self.context.stage = outer
        frame.depth -= 1
        self.at(frame, node)
        self.builder.jump(skip)
        self.builder.block = skip

    def _counted(self, frame: Frame, trips: Any, body: Callable[[Symbol], None]) -> None:
        builder = self.builder
        counter = Slot(builder.function.add_variable("(step)", I64, frame.scope))
        builder.set(counter.variable, builder.integer(0))
        head, inner, out = (builder.function.add_block(n) for n in ("pipeline", "step", "drained"))
        limit = self.context.whole(trips)
        builder.jump(head)
        builder.block = head
        builder.branch(builder.arithmetic("lt", I64, builder.get(counter.variable), limit), inner, out)
        builder.block = inner
        now = self.names.get(counter)
        now.nonnegative = True
        body(now)
        builder.sync()
        builder.set(counter.variable, builder.arithmetic("add", I64, now.value, builder.integer(1)))
        builder.jump(head)
        builder.block = out


def _leaves(body: list[ast.stmt]) -> bool:
    """Whether `break` or `continue` of the loop with this body stands in it."""
    for statement in body:
        if isinstance(statement, (ast.Break, ast.Continue)):
            return True
        if isinstance(statement, ast.If) and (_leaves(statement.body) or _leaves(statement.orelse)):
            return True
    return False


def _bounds(args: list[Any]) -> tuple[Any, Any, Any]:
    if len(args) == 1:
        return 0, args[0], 1
    return (args[0], args[1], args[2]) if len(args) == 3 else (args[0], args[1], 1)


def _known_nonnegative(value: Any) -> bool:
    return value.nonnegative if isinstance(value, Symbol) else value >= 0
