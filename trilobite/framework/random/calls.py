"""Draws as PyTorch calls them: sizes one by one or as `size=`, `generator=`, fills of tensors in place.

The numbers are those of `draws`; here are only the other spellings. `tb.random` keeps its own, with `key=`.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from trilobite.base import dtypes as dt
from trilobite.base.errors import ArgumentError
from trilobite.base.locations import user_location
from trilobite.base.wrong_use import explain_room
from trilobite.framework.devices import check_device
from trilobite.framework.modes import no_grad
from trilobite.framework.ops.creation import without_meaning
from trilobite.framework.ops.registry import given_out, operators
from trilobite.framework.random import draws
from trilobite.framework.random.continuous import normal_value, uniform_value
from trilobite.framework.random.generator import Generator, key_of
from trilobite.framework.random.quick import drawn
from trilobite.framework.tensor import Tensor, wrap

Key = Tensor | None


def _settled(device: Any, other: dict[str, Any]) -> None:
    check_device(device)
    without_meaning(other)


def _size(size: tuple[Any, ...], named: Any) -> Any:
    if named is not None:
        return named
    return size[0] if len(size) == 1 and isinstance(size[0], (tuple, list)) else size


def _leaf(x: Tensor, requires_grad: bool) -> Tensor:
    return x.requires_grad_() if requires_grad else x


def _made(
    draw: Any,
    shape: Any,
    *,
    dtype: Any = None,
    requires_grad: bool = False,
    key: Key = None,
    generator: Generator | None = None,
    device: Any = None,
    **other: Any,
) -> Tensor:
    _settled(device, other)
    return _leaf(draw(shape, dtype=dtype, key=key_of(generator, key)), requires_grad)


def rand(*shape: Any, size: Any = None, **settings: Any) -> Tensor:
    """Uniform in [0, 1)."""
    if not settings and size is None and (done := drawn(uniform_value, shape, dt.default_float)) is not None:
        return done
    return _made(draws.uniform, _size(shape, size), **settings)


def randn(*shape: Any, size: Any = None, **settings: Any) -> Tensor:
    """Normal with mean 0 and variance 1."""
    if not settings and size is None and (done := drawn(normal_value, shape, dt.default_float)) is not None:
        return done
    return _made(draws.normal, _size(shape, size), **settings)


def rand_like(input: Tensor, *, dtype: Any = None, **settings: Any) -> Tensor:
    """Uniform in [0, 1), with the shape and dtype of the input."""
    return _made(draws.uniform, input.shape, dtype=input.dtype if dtype is None else dtype, **settings)


def randn_like(input: Tensor, *, dtype: Any = None, **settings: Any) -> Tensor:
    """Normal, with the shape and dtype of the input."""
    return _made(draws.normal, input.shape, dtype=input.dtype if dtype is None else dtype, **settings)


def randint(
    low: int,
    high: Any = None,
    shape: Any = (),
    *,
    size: Any = None,
    dtype: Any = None,
    requires_grad: bool = False,
    key: Key = None,
    generator: Generator | None = None,
    device: Any = None,
    **other: Any,
) -> Tensor:
    """Uniform integers from low to high - 1 (from 0 to low - 1 with one number), unbiased."""
    _settled(device, other)
    if isinstance(high, (tuple, list)):
        high, shape = None, high
    wanted = None if dtype is None else dt.as_dtype(dtype)
    inexact = wanted is not None and not dt.is_integer(wanted)
    shape = shape if size is None else size
    out = draws.randint(low, high, shape, dtype=None if inexact else wanted, key=key_of(generator, key))
    return _leaf(out.to(wanted) if inexact else out, requires_grad)


def randint_like(
    input: Tensor, low: Any = None, high: Any = None, *, dtype: Any = None, **settings: Any
) -> Tensor:
    """Uniform integers, with the shape and dtype of the input: below one number, or from low below high."""
    low, high = (0, high) if low is None else (low, high)
    return randint(low, high, input.shape, dtype=input.dtype if dtype is None else dtype, **settings)


def randperm(
    n: int,
    *,
    dtype: Any = None,
    key: Key = None,
    generator: Generator | None = None,
    device: Any = None,
    **other: Any,
) -> Tensor:
    """The numbers below n in random order."""
    other.pop("requires_grad", None)
    _settled(device, other)
    return draws.randperm(n, dtype=dtype, key=key_of(generator, key))


def normal(
    mean: Any = (), std: Any = None, size: Any = None, *, generator: Generator | None = None, **settings: Any
) -> Tensor:
    """PyTorch's normal(mean, std, size), of numbers or tensors; with a shape first, tb.random.normal."""
    if "out" in settings:
        return given_out(settings, partial(normal, mean, std, size, generator=generator), ())  # type: ignore[no-any-return]
    spread = 1.0 if std is None else std
    if isinstance(mean, (tuple, list)) or "shape" in settings:
        if isinstance(size, (int, float)):  # tb.random.normal(shape, mean, std)
            return draws.normal(mean, spread, size, **settings)
        return draws.normal(mean, **({} if std is None else {"mean": std}), **settings)
    key = key_of(generator, settings.pop("key", None))
    if isinstance(mean, Tensor) or isinstance(spread, Tensor):
        like: Any = mean + spread * 0 if isinstance(mean, Tensor) else spread + mean * 0
        return draws.normal(like.shape, dtype=like.dtype, key=key) * spread + mean  # type: ignore[no-any-return]
    if size is None:
        return draws.normal((mean,) if std is None and isinstance(mean, int) else (), key=key, **settings)
    settings.pop("device", None)
    return draws.normal(size, float(mean), float(spread), key=key, **settings)


def bernoulli(
    p: Any = 0.5, shape: Any = None, *, key: Key = None, generator: Generator | None = None
) -> Tensor:
    """1 with probability p. A tensor of probabilities gives a tensor of its dtype, as in PyTorch; a number
    gives booleans.
    """
    out = draws.bernoulli(p, shape, key=key_of(generator, key))
    return out.to(p.dtype) if isinstance(p, Tensor) and dt.is_float(p.dtype) else out


def multinomial(
    input: Tensor, num_samples: int, replacement: bool = False, *, generator: Generator | None = None
) -> Tensor:
    """Indices drawn in proportion to the weights of each row, with or without putting back."""
    weights = input.detach()
    if weights.ndim not in (1, 2):
        raise ArgumentError(
            f"multinomial of shape {tuple(weights.shape)}", where=user_location(), expected="one or two axes"
        )
    n = weights.shape[-1]
    if not replacement and num_samples > n:
        raise ArgumentError(
            f"multinomial: {num_samples} of {n} without putting back",
            where=user_location(),
            expected=f"at most {n}",
            remedy="replacement=True",
        )
    logs = weights.log()
    key = key_of(generator, None)
    if replacement:
        drawn = draws.categorical(logs, (num_samples,), key=key)
        return drawn.movedim(0, -1).clone()  # type: ignore[no-any-return]
    noise = draws.gumbel(logs.shape, dtype=logs.dtype, key=key)
    found: Tensor = (logs + noise).topk(num_samples, axis=-1).indices
    return found


def poisson(input: Tensor, generator: Generator | None = None) -> Tensor:
    """How many events there are where the input says how many to expect. Eager only."""
    rates = input.detach().numpy()
    words = (key_of(generator, None) or draws.bits((2,))).numpy()
    drawn = np.random.default_rng([int(w) for w in words.reshape(-1)]).poisson(rates)
    return wrap(drawn.astype(rates.dtype))


# -- fills in place --------------------------------------------------------------------------------------


def _filled(x: Tensor, values: Tensor) -> Tensor:
    with no_grad():
        return x.copy_(values)  # type: ignore[no-any-return]


def _real(x: Tensor) -> Any:
    return x.dtype if dt.is_float(x.dtype) else dt.default_float


def uniform_(
    x: Tensor, a: float = 0.0, b: float = 1.0, *, generator: Generator | None = None, **ends: float
) -> Tensor:
    """Uniform numbers between two ends, in place."""
    low, high = ends.get("from", a), ends.get("to", b)
    return _filled(x, draws.uniform(x.shape, low, high, dtype=_real(x), key=key_of(generator, None)))


def normal_(x: Tensor, mean: float = 0.0, std: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Normal numbers, in place."""
    return _filled(x, draws.normal(x.shape, mean, std, dtype=_real(x), key=key_of(generator, None)))


def bernoulli_(x: Tensor, p: Any = 0.5, *, generator: Generator | None = None) -> Tensor:
    """1 with probability p, else 0, in place."""
    return _filled(x, draws.bernoulli(p, x.shape, key=key_of(generator, None)))


def exponential_(x: Tensor, lambd: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Waiting times at a rate, in place."""
    return _filled(x, draws.exponential(x.shape, lambd, dtype=_real(x), key=key_of(generator, None)))


def log_normal_(
    x: Tensor, mean: float = 1.0, std: float = 2.0, *, generator: Generator | None = None
) -> Tensor:
    """Exponentials of normal numbers, in place."""
    return _filled(x, draws.normal(x.shape, mean, std, dtype=_real(x), key=key_of(generator, None)).exp())


def cauchy_(
    x: Tensor, median: float = 0.0, sigma: float = 1.0, *, generator: Generator | None = None
) -> Tensor:
    """Cauchy numbers, in place."""
    u = draws.uniform(x.shape, dtype=_real(x), key=key_of(generator, None))
    return _filled(x, median + sigma * ((u - 0.5) * np.pi).tan())


def geometric_(x: Tensor, p: float, *, generator: Generator | None = None) -> Tensor:
    """How many trials until one of probability p succeeds, in place."""
    u = draws.uniform(x.shape, dtype=_real(x), key=key_of(generator, None))
    return _filled(x, (-(1 - u).log() / -np.log1p(-p)).floor() + 1)


def random_(
    x: Tensor, low: int | None = None, high: int | None = None, *, generator: Generator | None = None
) -> Tensor:
    """Uniform integers, in place: below `low` with one number, of the whole dtype without any."""
    if low is None:
        low, high = 0, 2**24 if dt.is_float(x.dtype) else 2 ** (dt.bits(x.dtype) - dt.is_signed(x.dtype))
    elif high is None:
        low, high = 0, low
    return _filled(x, draws.randint(low, high, x.shape, key=key_of(generator, None)))


def binomial(count: Any, prob: Any, generator: Generator | None = None) -> Any:
    """How many of so many trials succeed."""
    count, prob = operators["broadcast_tensors"].public(count, prob)
    most = int(count.max()) if count.numel() else 0
    drawn = rand((most, *count.shape), generator=generator) < prob.detach()
    tried = operators["arange"].public(most).reshape((-1, *([1] * count.ndim))) < count
    return (drawn & tried).sum(dim=0).to(prob.dtype)


explain_room(globals())
