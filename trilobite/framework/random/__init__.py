"""Randomness: `tb.random`. Every function takes `key=`; without one it draws from the global generator.

The same key gives the same bits, uniforms and integers on every target, eager and compiled; normals of
up to 32 bits within 1 ulp, those of float64 within 3: logarithm and sine differ in the last place.

Enters: a key, a shape, a dtype. Leaves: tensors. May import `framework`, `ir` and `base`. Read `keys.py`
first, then `draws.py`.
"""

from trilobite.framework.random.continuous import uniform_value
from trilobite.framework.random.draws import (
    bernoulli,
    bits,
    categorical,
    choice,
    exponential,
    gamma,
    gumbel,
    normal,
    permutation,
    rand,
    rand_like,
    randint,
    randint_like,
    randn,
    randn_like,
    randperm,
    truncated_normal,
    uniform,
)
from trilobite.framework.random.keys import (
    bits_value,
    fold_in,
    get_state,
    key,
    key_value,
    manual_seed,
    next_key,
    set_state,
    split,
    split_value,
    state,
)

__all__ = [
    "manual_seed", "get_state", "set_state", "key", "split", "fold_in", "next_key", "key_value", "bits_value",
    "split_value", "uniform_value", "state", "bits", "uniform", "normal", "truncated_normal", "exponential",
    "gamma", "gumbel", "randint", "bernoulli", "permutation", "choice", "categorical", "rand", "randn",
    "randperm", "rand_like", "randn_like", "randint_like",
]  # fmt: skip


def __getattr__(name: str) -> object:
    """What PyTorch keeps in this room: states of the generator."""
    if name in ("fork_rng", "get_rng_state", "set_rng_state", "initial_seed", "seed", "default_generator"):
        from trilobite.framework.random import generator

        return getattr(generator, name)
    raise AttributeError(f"trilobite.random has no {name!r}")
