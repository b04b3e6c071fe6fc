"""Initialisers: fill a tensor in place, from the global generator unless `key=` is given."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from trilobite.base.errors import ArgumentError, ShapeError
from trilobite.base.locations import user_location
from trilobite.base.wrong_use import explain_room as _explain_room
from trilobite.framework import random
from trilobite.framework.nn.functional.calling import write
from trilobite.framework.tensor import Tensor, wrap
from trilobite.ir.primitive import Value
from trilobite.ir.primitives import table

Key = Any
"""A random key, a generator, or None for the global one."""
_skips: ContextVar[bool] = ContextVar("skips", default=False)


@contextmanager
def skipped() -> Iterator[None]:
    """Nothing is drawn inside: tensors keep their values, for weights that are loaded anyway."""
    token = _skips.set(True)
    try:
        yield
    finally:
        _skips.reset(token)


def _either(key: Key, generator: Key) -> Key:
    return generator if key is None else key


def _fill(tensor: Tensor, values: Any) -> Tensor:
    write(tensor, values)
    return tensor


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """How much a nonlinearity shrinks the deviation of what passes it, as a factor to make up for it."""
    if nonlinearity == "leaky_relu":
        return math.sqrt(2.0 / (1 + (0.01 if param is None else param) ** 2))
    gains = {"tanh": 5.0 / 3, "relu": math.sqrt(2.0), "selu": 3.0 / 4, "sigmoid": 1.0, "linear": 1.0}
    name = "linear" if nonlinearity.startswith("conv") else nonlinearity
    if name not in gains:
        raise ArgumentError(
            f"a nonlinearity {nonlinearity!r}",
            where=user_location(),
            expected=f"one of leaky_relu, {', '.join(gains)}",
        )
    return gains[name]


def _calculate_fan_in_and_fan_out(tensor: Tensor) -> tuple[int, int]:
    """How many inputs reach one output, and how many outputs one input."""
    if tensor.ndim < 2:
        raise ShapeError(
            f"the fans of a tensor of shape {tuple(tensor.shape)}",
            where=user_location(),
            expected="at least 2 axes: outputs, inputs, and a kernel's",
        )
    kernel = math.prod(tensor.shape[2:])
    return int(tensor.shape[1]) * kernel, int(tensor.shape[0]) * kernel


def _calculate_correct_fan(tensor: Tensor, mode: str) -> int:
    """The fan that is meant: `fan_in` or `fan_out`."""
    found = dict(zip(("fan_in", "fan_out"), _calculate_fan_in_and_fan_out(tensor), strict=True))
    if mode.lower() not in found:
        raise ArgumentError(f"a fan of mode {mode!r}", where=user_location(), expected="fan_in or fan_out")
    return found[mode.lower()]


_fans = _calculate_fan_in_and_fan_out

# -- plain ---------------------------------------------------------------------------------------------------


def uniform_(
    tensor: Tensor, a: float = 0.0, b: float = 1.0, key: Key = None, *, generator: Key = None
) -> Tensor:
    """Uniform in [a, b)."""
    if _skips.get():
        return tensor
    return _fill(
        tensor,
        random.uniform(tensor.shape, a, b, dtype=_drawn(tensor), key=_either(key, generator)),
    )


def normal_(
    tensor: Tensor, mean: float = 0.0, std: float = 1.0, key: Key = None, *, generator: Key = None
) -> Tensor:
    """Normal."""
    if _skips.get():
        return tensor
    return _fill(
        tensor,
        random.normal(tensor.shape, mean, std, dtype=_drawn(tensor), key=_either(key, generator)),
    )


def trunc_normal_(
    tensor: Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    key: Key = None,
    *,
    generator: Key = None,
) -> Tensor:
    """Normal, kept between a and b."""
    if _skips.get():
        return tensor
    return _fill(
        tensor,
        random.truncated_normal(
            tensor.shape, mean, std, a, b, dtype=_drawn(tensor), key=_either(key, generator)
        ),
    )


def _drawn(tensor: Tensor) -> Any:
    """Double precision is drawn in double precision, everything else in float32."""
    return "float64" if tensor.dtype == np.float64 else "float32"


def constant_(tensor: Tensor, val: float) -> Tensor:
    """One number everywhere."""
    return _fill(tensor, val)


def ones_(tensor: Tensor) -> Tensor:
    """Ones."""
    return _fill(tensor, 1.0)


def zeros_(tensor: Tensor) -> Tensor:
    """Zeros."""
    return _fill(tensor, 0.0)


def eye_(tensor: Tensor) -> Tensor:
    """The identity matrix, as far as it fits."""
    if tensor.ndim != 2:
        raise ShapeError(f"eye_ of shape {tuple(tensor.shape)}", where=user_location(), expected="2 axes")
    rows, columns = map(int, tensor.shape)
    return _fill(tensor, np.eye(rows, columns))


def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """A convolution that passes channels through: 1 in the middle of the kernel, from channel to channel."""
    shape = tensor.shape
    if tensor.ndim not in (3, 4, 5) or shape[0] % groups:
        raise ShapeError(
            f"dirac_ of shape {tuple(shape)} in {groups} groups",
            where=user_location(),
            expected="a kernel of 3, 4 or 5 axes, and outputs that the groups divide",
        )
    values = np.zeros(shape)
    per_group = int(shape[0]) // groups
    middle = tuple(int(d) // 2 for d in shape[2:])
    for g in range(groups):
        for c in range(min(per_group, int(shape[1]))):
            values[(g * per_group + c, c, *middle)] = 1.0
    return _fill(tensor, values)


# -- by fans -------------------------------------------------------------------------------------------------


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, key: Key = None, *, generator: Key = None) -> Tensor:
    """Uniform, with the variance 2·gain²/(inputs + outputs)."""
    bound = gain * math.sqrt(6.0 / sum(_fans(tensor)))
    return uniform_(tensor, -bound, bound, _either(key, generator))


def xavier_normal_(tensor: Tensor, gain: float = 1.0, key: Key = None, *, generator: Key = None) -> Tensor:
    """Normal, with the variance 2·gain²/(inputs + outputs)."""
    return normal_(
        tensor,
        0.0,
        gain * math.sqrt(2.0 / sum(_fans(tensor))),
        _either(key, generator),
    )


def _kaiming_std(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    if mode not in ("fan_in", "fan_out"):
        raise ArgumentError(f"mode {mode!r}", where=user_location(), expected="'fan_in' or 'fan_out'")
    fan = _fans(tensor)[mode == "fan_out"]
    return calculate_gain(nonlinearity, a) / math.sqrt(fan)


def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    key: Key = None,
    *,
    generator: Key = None,
) -> Tensor:
    """Uniform, so that rectified activations keep their variance."""
    if not _has_elements(tensor):
        return tensor
    bound = math.sqrt(3.0) * _kaiming_std(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, _either(key, generator))


def kaiming_normal_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    key: Key = None,
    *,
    generator: Key = None,
) -> Tensor:
    """Normal, so that rectified activations keep their variance."""
    if not _has_elements(tensor):
        return tensor
    return normal_(tensor, 0.0, _kaiming_std(tensor, a, mode, nonlinearity), _either(key, generator))


def _has_elements(tensor: Tensor) -> bool:
    return 0 not in tensor.shape


# -- structured ----------------------------------------------------------------------------------------------


def orthogonal_(tensor: Tensor, gain: float = 1.0, key: Key = None, *, generator: Key = None) -> Tensor:
    """Rows (or columns, of which there are fewer) of length gain at right angles to each other; further axes
    count as one.
    """
    if tensor.ndim < 2:
        raise ShapeError(
            f"orthogonal_ of shape {tuple(tensor.shape)}", where=user_location(), expected="at least 2 axes"
        )
    if not _has_elements(tensor):
        return tensor
    rows = int(tensor.shape[0])
    columns = math.prod(tensor.shape[1:])
    tall = (max(rows, columns), min(rows, columns))
    q = _orthogonal(random.normal(tall, dtype=_drawn(tensor), key=_either(key, generator))._read())
    if rows < columns:
        q = table["transpose"](q, axes=(1, 0))
    return _fill(tensor, wrap(table["reshape"](_times(q, gain), shape=tensor.shape)))


def _orthogonal(x: Value) -> Value:
    """Q of x = QR with R's diagonal positive, which makes it uniform among all orthogonal matrices."""
    q, r = table["qr"](x, mode="reduced")
    n = r.shape[0]
    eye = np.eye(int(n), dtype=r.dtype)
    diagonal = table["reduce_sum"](table["mul"](r, eye), axes=(0,))
    sign = table["select"](
        table["lt"](diagonal, table["full"](shape=diagonal.shape, dtype=r.dtype, value=0.0)),
        table["full"](shape=diagonal.shape, dtype=r.dtype, value=-1.0),
        table["full"](shape=diagonal.shape, dtype=r.dtype, value=1.0),
    )
    return table["mul"](q, table["broadcast"](sign, shape=q.shape, axes=(1,)))


def _times(x: Value, factor: float) -> Value:
    return table["mul"](x, table["full"](shape=x.shape, dtype=x.dtype, value=factor))


def sparse_(
    tensor: Tensor, sparsity: float, std: float = 0.01, key: Key = None, *, generator: Key = None
) -> Tensor:
    """Normal columns in which a fraction of the elements is 0."""
    if tensor.ndim != 2:
        raise ShapeError(f"sparse_ of shape {tuple(tensor.shape)}", where=user_location(), expected="2 axes")
    rows, columns = tensor.shape
    zeros = math.ceil(sparsity * int(rows))
    first, second = random.split(wrap(random.key_value(_either(key, generator))))
    values = random.normal((rows, columns), 0.0, std, dtype=_drawn(tensor), key=first)._read()
    order = table["sort"](
        random.bits((rows, columns), key=second)._read(),
        table["iota"](shape=(rows, columns), dtype=np.dtype("int64"), axis=0),
        axis=0, keys=1,
    )[1]  # fmt: skip
    keep = table["ge"](order, table["full"](shape=order.shape, dtype=order.dtype, value=zeros))
    return _fill(tensor, wrap(table["select"](keep, values, _times(values, 0.0))))


uniform, normal, constant, xavier_uniform, xavier_normal = (
    uniform_,
    normal_,
    constant_,
    xavier_uniform_,
    xavier_normal_,
)
kaiming_uniform, kaiming_normal, orthogonal, eye, dirac = (
    kaiming_uniform_,
    kaiming_normal_,
    orthogonal_,
    eye_,
    dirac_,
)
# PyTorch's old names of the same


_explain_room(globals())
