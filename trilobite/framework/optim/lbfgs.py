"""L-BFGS: a quasi-Newton method that remembers the last few steps. Eager only.

Enters: a closure that computes the loss and its gradients; it is called several times a step. Leaves: the
parameters moved. How often depends on what the loss turns out to be, which a recording cannot know.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, ClassVar

import numpy as np

from trilobite.base.dtypes import accumulator, real_of
from trilobite.base.errors import ArgumentError, TraceError
from trilobite.base.locations import user_location
from trilobite.base.records import dataclass
from trilobite.framework.modes import enable_grad, no_grad
from trilobite.framework.optim.arithmetic import as_real, from_real
from trilobite.framework.optim.group import AT_LEAST_0, Group, Rule
from trilobite.framework.optim.line_search import Array, Point, Search
from trilobite.framework.optim.optimizer import Optimizer, need_closure
from trilobite.framework.optim.state import mismatch, names_fit, plain
from trilobite.framework.tensor import Tensor
from trilobite.ir.transforms import bind as entry


@dataclass
class Memory:
    """What is known of the curvature: the last moves, and how the gradient changed along each."""

    count: int = 0
    move: Array | None = None
    gradient: Array | None = None
    moves: list[Array] = field(default_factory=list)
    changes: list[Array] = field(default_factory=list)
    curvature: float = 1.0

    def learn(self, gradient: Array, size: int) -> None:
        """Take in what the last move did to the gradient."""
        if self.move is None or self.gradient is None:
            return
        change = gradient - self.gradient
        bend = float(change @ self.move)
        if bend > 1e-10:
            self.moves, self.changes = [*self.moves, self.move][-size:], [*self.changes, change][-size:]
            self.curvature = bend / float(change @ change)

    def direction(self, gradient: Array) -> Array:
        """Minus the inverse Hessian, as far as it is known, times the gradient (two loops over the moves)."""
        q: Array = -gradient
        shares = []
        pairs = list(zip(self.moves, self.changes, strict=True))
        for move, change in reversed(pairs):
            share = float(move @ q) / float(change @ move)
            q = q - change.dtype.type(share) * change
            shares.append(share)
        q = q * q.dtype.type(self.curvature)
        for (move, change), share in zip(pairs, reversed(shares), strict=True):
            q = q + move.dtype.type(share - float(change @ q) / float(change @ move)) * move
        return q

    def as_dict(self) -> dict[str, Any]:
        return {
            "count": self.count,
            "move": None if self.move is None else self.move.copy(),
            "gradient": None if self.gradient is None else self.gradient.copy(),
            "moves": [m.copy() for m in self.moves],
            "changes": [c.copy() for c in self.changes],
            "curvature": self.curvature,
        }


class LBFGS(Optimizer):
    """L-BFGS (Liu, Nocedal 1989). One group; `step(closure)` does up to max_iter iterations.

    line_search_fn "strong_wolfe" chooses the length of every move; None takes lr. It stops early when the
    gradient is nowhere above tolerance_grad, or a move changes the loss or the parameters by less than
    tolerance_change.
    """

    rules: ClassVar[Mapping[str, Rule]] = {
        "lr": AT_LEAST_0,
        "tolerance_grad": AT_LEAST_0,
        "tolerance_change": AT_LEAST_0,
    }

    def __init__(
        self,
        params: Any,
        lr: Any = 1.0,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        limit = max_iter * 5 // 4 if max_eval is None else max_eval
        switches = {
            "max_iter": max_iter,
            "max_eval": limit,
            "history_size": history_size,
            "line_search_fn": line_search_fn,
        }
        self._memory = Memory()
        super().__init__(
            params,
            {"lr": lr, "tolerance_grad": tolerance_grad, "tolerance_change": tolerance_change},
            switches,
        )

    def check_group(self, group: Group) -> None:
        if any(g is not group for g in self.param_groups):
            raise ArgumentError(
                "LBFGS with several parameter groups",
                where=user_location(),
                expected="one: the parameters form one vector",
            )
        if group["line_search_fn"] not in (None, "strong_wolfe"):
            raise ArgumentError(
                f"LBFGS: line_search_fn is {group['line_search_fn']!r}",
                where=user_location(),
                expected="'strong_wolfe' or None",
            )
        for name in ("max_iter", "max_eval", "history_size"):
            if type(group[name]) is not int or group[name] < 1:
                raise ArgumentError(
                    f"LBFGS: {name} is {group[name]!r}", where=user_location(), expected="an integer from 1"
                )

    def slots(self, group: Group) -> dict[str, float | None]:
        return {}

    # -- the parameters as one vector ----------------------------------------------------------------

    def _dtype(self) -> Any:
        return max((accumulator(real_of(p.dtype)) for p in self.state), key=lambda d: d.itemsize)

    def _gather(self, of: Callable[[Tensor], Any]) -> Array:
        with no_grad():
            rows = [np.asarray(as_real(of(p))).astype(self._dtype()).ravel() for p in self.state]
        return np.concatenate(rows)

    def _position(self) -> Array:
        return self._gather(lambda p: p._read())

    def _gradient(self) -> Array:
        return self._gather(
            lambda p: np.zeros(p.shape, p.dtype) if p.grad is None else p.grad.detach()._read()
        )

    def _move_to(self, vector: Array) -> None:
        at = 0
        for p in self.state:
            shape = as_real(p._read()).shape
            size = math.prod(shape)
            real = vector[at : at + size].reshape(shape).astype(accumulator(real_of(p.dtype)))
            p._store(from_real(real, p.dtype))
            at += size

    # -- the method ------------------------------------------------------------------------------------

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Minimise for up to max_iter iterations; returns the loss at the start."""
        if entry.context().recorder is not None:
            raise TraceError(
                "LBFGS.step() while a function is being recorded",
                where=user_location(),
                expected="LBFGS runs eagerly: how often it calls the closure depends on the losses",
                remedy="jit the closure's own computation and call step outside, or use another optimiser",
            )
        need_closure("LBFGS", closure)
        assert closure is not None
        with no_grad():
            return self._minimise(closure)

    def _evaluate(self, closure: Callable[[], Any]) -> tuple[float, Array, Any]:
        with enable_grad():
            loss = closure()
        return float(loss), self._gradient(), loss

    def _minimise(self, closure: Callable[[], Any]) -> Any:
        group, memory = self.param_groups[0], self._memory
        lr, flat, still = (group[n].item() for n in ("lr", "tolerance_grad", "tolerance_change"))
        value, gradient, first_loss = self._evaluate(closure)
        evaluations = 1
        for iteration in range(1, group["max_iter"] + 1):
            if evaluations >= group["max_eval"] or float(np.abs(gradient).max(initial=0.0)) <= flat:
                break
            memory.learn(gradient, group["history_size"])
            direction = memory.direction(gradient)
            slope = float(gradient @ direction)
            if not slope < -still:
                break
            start, memory.count = self._position(), memory.count + 1
            length = lr if memory.moves else min(1.0, 1.0 / float(np.abs(gradient).sum())) * lr
            if group["line_search_fn"] is None and iteration == group["max_iter"]:
                memory.move, memory.gradient = direction.dtype.type(length) * direction, gradient
                self._move_to(start + memory.move)
                break  # the next step asks what the loss is there
            origin = Point(0.0, value, slope, gradient)
            found, used = self._advance(closure, start, direction, origin, length)
            memory.move, memory.gradient = direction.dtype.type(found.step) * direction, gradient
            evaluations += used
            fell, value, gradient = abs(found.value - value), found.value, found.gradient
            if float(np.abs(memory.move).max(initial=0.0)) <= still or fell < still:
                break
        return first_loss

    def _advance(
        self, closure: Callable[[], Any], start: Array, direction: Array, origin: Point, length: float
    ) -> tuple[Point, int]:
        """Move along the direction; where we are then, and how many evaluations it took."""
        group = self.param_groups[0]

        def at(step: float) -> tuple[float, float, Array]:
            self._move_to(start + direction.dtype.type(step) * direction)
            value, gradient, _ = self._evaluate(closure)
            return value, float(gradient @ direction), gradient

        if group["line_search_fn"] is None:
            return Point(length, *at(length)), 1
        reach = float(np.abs(direction).max(initial=0.0))
        search = Search(at, origin, 25, group["tolerance_change"].item() / max(reach, 1e-300))
        found = search.run(length)
        self._move_to(start + direction.dtype.type(found.step) * direction)
        return found, search.evaluations

    # -- saving ------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "memory": self._memory.as_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        names_fit("LBFGS", "it", state, ("state", "param_groups", "memory"))
        memory = state["memory"]
        names_fit("LBFGS", "its memory", memory, list(Memory().as_dict()))
        size = self._position().shape
        arrays = [plain(a) for a in (memory["move"], memory["gradient"]) if a is not None]
        arrays += [plain(a) for a in (*memory["moves"], *memory["changes"])]
        if any(a.shape != size or a.dtype != self._dtype() for a in arrays):
            raise mismatch(
                "LBFGS", "its memory is of other parameters", f"vectors {self._dtype()}{list(size)}"
            )
        super().load_state_dict({k: v for k, v in state.items() if k != "memory"})
        self._memory = Memory(
            int(memory["count"]),
            None if memory["move"] is None else plain(memory["move"]).copy(),
            None if memory["gradient"] is None else plain(memory["gradient"]).copy(),
            [plain(m).copy() for m in memory["moves"]],
            [plain(c).copy() for c in memory["changes"]],
            float(memory["curvature"]),
        )

    def numbers(self, group: Group, count: Any) -> Sequence[Any]:
        return ()
