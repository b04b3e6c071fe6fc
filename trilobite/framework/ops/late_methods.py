"""Methods of Tensor whose functions stand in rooms that come in late: draws in place, signals."""

from __future__ import annotations

import importlib
from typing import Any

from trilobite.framework.ops.registry import methods

LATE = {
    "trilobite.framework.random.calls": (
        "uniform_ normal_ bernoulli_ exponential_ log_normal_ cauchy_ geometric_ random_ "
        "multinomial bernoulli"
    ),
    "trilobite.framework.ops.signals": "stft istft",
    "trilobite.framework.ops.special": "i0 polygamma mvlgamma",
    "trilobite.framework.ops.pytorch_names": (
        "flipud fliplr split_with_sizes unsafe_split unsafe_chunk frexp nanquantile index_reduce "
        "as_strided_scatter triangular_solve"
    ),
    "trilobite.framework.nn.functional": "prelu hardshrink",
}


def _late(room: str, name: str) -> Any:
    def method(x: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(importlib.import_module(room), name)(x, *args, **kwargs)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"`{name}` of {room.removeprefix('trilobite.framework.')}."
    return method


def _at(x: Any) -> Any:
    from trilobite.framework.functional_updates import At

    return At(x)


def install() -> None:
    for room, names in LATE.items():
        for name in names.split():
            methods[name] = _late(room, name)
