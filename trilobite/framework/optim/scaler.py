"""Dynamic loss scaling: gradients in float16 neither vanish nor overflow.

The loss is multiplied by a scale before backward, the gradients are divided by it before the step, and a
step whose gradients are not all finite is left out. The scale halves then, and doubles after a while
without such an accident. All of that is in tensors, so it works inside `jit`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from trilobite.base import pytree
from trilobite.base.dtypes import accumulator, bool_, float32, int64, real_of
from trilobite.base.errors import ArgumentError, StateError
from trilobite.base.locations import user_location
from trilobite.base.wrong_use import explain_room
from trilobite.framework.control import cond
from trilobite.framework.modes import no_grad
from trilobite.framework.optim.arithmetic import add, as_real, cast, div, from_real, mul, scale, select
from trilobite.framework.optim.clipping import gradients
from trilobite.framework.optim.guard import Guarded
from trilobite.framework.optim.optimizer import Optimizer
from trilobite.framework.optim.state import fitting, names_fit, snapshot, write
from trilobite.framework.promotion import promote
from trilobite.framework.tensor import Tensor, wrap
from trilobite.ir.primitive import Value
from trilobite.ir.primitives import table
from trilobite.ir.transforms import bind as entry
from trilobite.ir.transforms import cells
from trilobite.ir.transforms.composite import composite


@composite("unscale")
def unscale(g: Value, inverse: Value) -> tuple[Value, Value]:
    """g · inverse, and whether all of it is finite. The product is formed in float32 and rounded once."""
    x = scale(cast(as_real(g), accumulator(real_of(g.dtype))), inverse)
    out = from_real(x, g.dtype)
    finite = table["is_finite"](as_real(out))
    return out, table["reduce_and"](finite, axes=tuple(range(finite.ndim)))


class GradScaler(Guarded):
    """`scale(loss).backward()`, `step(optimizer)`, `update()`. With enabled=False all of it does nothing."""

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        if not (init_scale > 0 and growth_factor > 1 and 0 < backoff_factor < 1 and growth_interval >= 1):
            raise ArgumentError(
                f"GradScaler(init_scale={init_scale}, growth_factor={growth_factor}, "
                f"backoff_factor={backoff_factor}, growth_interval={growth_interval})",
                where=user_location(),
                expected="init_scale > 0, growth_factor > 1, 0 < backoff_factor < 1, growth_interval >= 1",
            )
        self.enabled = bool(enabled)
        self.growth_factor, self.backoff_factor = float(growth_factor), float(backoff_factor)
        self.growth_interval = int(growth_interval)
        self._scale = wrap(np.asarray(init_scale, float32))
        self._good_steps = wrap(np.zeros((), int64))
        self._finite = wrap(np.ones((), bool_))
        # Optimisers between unscale_ and step: the recording it was called in, and whether all was finite.
        self._unscaled: dict[Optimizer, tuple[Any, Tensor]] = {}

    def scale(self, loss: Any) -> Any:
        """The loss, or a tree of losses, times the scale."""
        if not self.enabled:
            return loss
        return pytree.map(self._times, loss, is_leaf=lambda x: isinstance(x, Tensor))

    def _times(self, loss: Tensor) -> Tensor:
        value = loss._read()
        dtype = promote(value.dtype, float32)  # a scale of 2¹⁶ is beyond float16
        return wrap(scale(cast(value, dtype), cast(self._scale._read(), dtype)))

    def unscale_(self, optimizer: Optimizer) -> None:
        """Divide the gradients by the scale now, for example to clip them; `step` will not do it again."""
        if not self.enabled:
            return
        if optimizer in self._unscaled:
            raise self._order("unscale_() a second time since the last step()")
        finite: Value = np.ones((), bool_)
        with no_grad():
            inverse = div(np.asarray(1.0, float32), self._scale._read())
            for grad in gradients(optimizer.state):
                g = grad._read()
                new, fine = unscale(g, cast(inverse, accumulator(real_of(g.dtype))))
                grad._store(new)
                finite = table["and"](finite, fine)
            if optimizer.agreed is not None:
                finite = optimizer.agreed(wrap(finite))._read()
            cells.write(self._finite._cell, table["and"](self._finite._read(), finite))
        self._unscaled[optimizer] = (entry.context().recorder, wrap(finite))

    def step(self, optimizer: Optimizer, closure: Any = None) -> None:
        """The optimiser's step, unless a gradient is infinite or not a number."""
        if closure is not None:
            raise ArgumentError(
                "GradScaler.step() with a closure",
                where=user_location(),
                expected="gradients that are computed before, by scale(loss).backward()",
            )
        if not self.enabled:
            optimizer.step()
            return
        here = entry.context().recorder
        if optimizer not in self._unscaled:
            self.unscale_(optimizer)
        where, finite = self._unscaled.pop(optimizer)
        if where is not here:
            raise self._order("step() and unscale_() are not in the same recorded function")
        if here is not None:
            with no_grad():
                cond(finite, lambda: _stepped(optimizer), lambda: None)
        elif bool(finite):
            optimizer.step()

    def update(self, new_scale: float | Tensor | None = None) -> None:
        """Adapt the scale to how the steps since the last update went, or set it."""
        if not self.enabled:
            return
        with no_grad():
            if new_scale is not None:
                self._scale.copy_(new_scale)
            else:
                self._adapt()
            cells.write(self._finite._cell, np.ones((), bool_))

    def _adapt(self) -> None:
        old, finite = self._scale._read(), self._finite._read()
        good = add(self._good_steps._read(), np.asarray(1, int64))
        full = table["ge"](good, np.asarray(self.growth_interval, int64))
        grown = mul(old, np.asarray(self.growth_factor, float32))
        # A scale that would overflow stays where it is.
        grown = select(table["and"](full, table["is_finite"](grown)), grown, old)
        zero = np.zeros((), int64)
        lowered = mul(old, np.asarray(self.backoff_factor, float32))
        cells.write(self._scale._cell, select(finite, grown, lowered))
        cells.write(self._good_steps._cell, select(finite, select(full, zero, good), zero))

    def get_scale(self) -> float:
        """The scale, or 1 when scaling is off."""
        return float(self._scale.item()) if self.enabled else 1.0

    @staticmethod
    def _order(what: str) -> StateError:
        return StateError(
            f"GradScaler: {what}",
            where=user_location(),
            expected="scale(loss).backward(), perhaps unscale_(opt), step(opt), update(), in one function",
        )

    def state_dict(self) -> dict[str, Any]:
        return {name: snapshot(t) for name, t in self._tensors().items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what state_dict() returned."""
        self.refuse_recorded("load_state_dict")
        tensors = self._tensors()
        names_fit("GradScaler", "it", state, list(tensors))
        arrays = {name: fitting("GradScaler", name, state[name], t) for name, t in tensors.items()}
        for name, t in tensors.items():
            write(t, arrays[name])

    def _tensors(self) -> dict[str, Tensor]:
        return {"scale": self._scale, "good_steps": self._good_steps, "finite": self._finite}


def _stepped(optimizer: Optimizer) -> None:
    optimizer.step()


explain_room(globals())
