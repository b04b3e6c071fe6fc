"""What a metric is: it takes batches, and can be asked, cleared, merged with another and saved.

In: predictions and targets, batch by batch. Out: `compute()`, which gives the same for any division into
batches. The state of a metric is a dict of NumPy arrays: counts that add up, or rows that follow each other.
Nothing here averages averages.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from trilobite.base.errors import StateError

Array = npt.NDArray[Any]


class Metric(ABC):
    """`update` with each batch, `compute` at any time, `reset` to start anew.

    `merge` takes over what another metric of the same kind and settings has seen, in this or another process:
    its state travels as `state_dict()`.
    """

    @abstractmethod
    def compute(self) -> Any: ...

    @abstractmethod
    def reset(self) -> None: ...

    @abstractmethod
    def state_dict(self) -> dict[str, Array]: ...

    @abstractmethod
    def load_state_dict(self, state: dict[str, Array]) -> None: ...

    @abstractmethod
    def _add(self, state: dict[str, Array]) -> None: ...

    def merge(self, other: Self) -> None:
        if type(other) is not type(self) or self._settings() != other._settings():
            raise StateError(
                f"{type(self).__name__} cannot be merged with {type(other).__name__} of other settings",
                where=f"{self._settings()} and {other._settings()}",
                expected="metrics made by the same call",
            )
        self._add(other.state_dict())

    def _settings(self) -> dict[str, str]:
        return {name: repr(value) for name, value in vars(self).items() if not name.startswith("_")}

    def _check(self, state: Any, wanted: dict[str, tuple[np.dtype[Any], tuple[int | None, ...]]]) -> None:
        """Refuse a state with other names, dtypes or shapes than this metric's (None: any extent)."""
        found = {name: (np.asarray(a).dtype, np.shape(a)) for name, a in state.items()}
        fits = found.keys() == wanted.keys() and all(
            found[name][0] == dtype
            and len(found[name][1]) == len(shape)
            and all(w in (None, n) for n, w in zip(found[name][1], shape, strict=True))
            for name, (dtype, shape) in wanted.items()
        )
        if not fits:
            raise StateError(
                f"the state does not fit {type(self).__name__}",
                where=f"found {_told(found)}",
                expected=_told(wanted),
                remedy="load what state_dict() of a metric made by the same call has returned",
            )


def _told(fields: dict[str, tuple[Any, Any]]) -> str:
    return ", ".join(f"{name}: {dtype} {shape}" for name, (dtype, shape) in fields.items())


class Counting(Metric):
    """A metric whose state is a few arrays that add up. Subclasses say which in `_zeros`."""

    def __init__(self) -> None:
        self._state = self._zeros()

    @abstractmethod
    def _zeros(self) -> dict[str, Array]: ...

    def reset(self) -> None:
        self._state = self._zeros()

    def state_dict(self) -> dict[str, Array]:
        return {name: a.copy() for name, a in self._state.items()}

    def load_state_dict(self, state: dict[str, Array]) -> None:
        self._check(state, {name: (a.dtype, a.shape) for name, a in self._zeros().items()})
        self._state = {name: np.array(state[name]) for name in self._state}

    def _add(self, state: dict[str, Array]) -> None:
        for name, a in state.items():
            self._state[name] = self._state[name] + a


class Gathering(Metric):
    """A metric that must keep all rows. `_fields`: dtype and shape of one row of each column."""

    _fields: dict[str, tuple[npt.DTypeLike, tuple[int, ...]]]

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self._rows: dict[str, list[Array]] = {name: [] for name in self._fields}

    def state_dict(self) -> dict[str, Array]:
        return {
            name: np.concatenate([np.empty((0, *shape), dtype), *self._rows[name]])
            for name, (dtype, shape) in self._fields.items()
        }

    def load_state_dict(self, state: dict[str, Array]) -> None:
        self._check(state, {name: (np.dtype(d), (None, *shape)) for name, (d, shape) in self._fields.items()})
        self._rows = {name: [np.array(state[name])] for name in self._fields}

    def _add(self, state: dict[str, Array]) -> None:
        for name, (dtype, _) in self._fields.items():
            self._rows[name].append(np.array(state[name], dtype))
