"""Whatever a public function is given: errors of the house come out, or Python's on its signature."""

from __future__ import annotations

import inspect
import io
import warnings
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import trilobite as tb
from trilobite import nn
from trilobite.base.errors import TrilobiteError

ROOMS: dict[str, Any] = {
    "tb": tb,
    "nn": nn,
    "nn.functional": nn.functional,
    "nn.utils": nn.utils,
    "nn.init": nn.init,
    "optim": tb.optim,
    "linalg": tb.linalg,
    "fft": tb.fft,
    "utils.data": tb.utils.data,
    "data": tb.data,
    "metrics": tb.metrics,
    "distributions": tb.distributions,
}
NOT_CALLED = frozenset(
    "jit compile fit manual_seed seed set_num_threads set_printoptions set_default_dtype "
    "set_default_device set_default_tensor_type spawn fork_rng set_grad_enabled set_flush_denormal "
    "use_deterministic_algorithms".split()
)  # those change the process
FUNCTIONS = frozenset(
    "associative_scan fori_loop scan cond while_loop vjp jvp linearize eval_shape custom_op custom_vjp "
    "custom_jvp grad value_and_grad vmap jacfwd jacrev hessian checkpoint dim Size functional_call".split()
)  # they take functions or names: Python's own words are as good
WRONG: dict[str, Any] = {"None": None, "a word": "oops", "an object": object(), "a dict": {}}


def public(room: str) -> Iterator[tuple[str, Any, int]]:
    """Names, what they are, and how many arguments they need."""
    space = ROOMS[room]
    for name in sorted(getattr(space, "__all__", None) or dir(space)):
        found = getattr(space, name, None)
        if name.startswith("_") or name in NOT_CALLED | FUNCTIONS or not callable(found):
            continue
        if not str(getattr(found, "__module__", "")).startswith("trilobite.framework"):
            continue
        if room == "nn.init" and name == "write":  # no part of it
            continue
        try:
            parameters = inspect.signature(found).parameters.values()
        except (TypeError, ValueError):
            continue
        needed = [p for p in parameters if p.kind in (0, 1) and p.default is p.empty]
        yield name, found, max(1, len(needed))


def is_fair(error: Exception) -> bool:
    said = str(error)
    signature = ("positional argument", "keyword", "takes no arguments", "abstract", "Protocol")
    return isinstance(error, (TrilobiteError, NotImplementedError, OSError)) or (
        isinstance(error, TypeError) and any(words in said for words in signature)
    )


@pytest.mark.parametrize("room", ROOMS)
def test_only_errors_of_the_house(room: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # "oops" is a path to some
    x = tb.tensor(np.random.default_rng(0).random((3, 3)).astype("f4"))
    raw: dict[str, str] = {}
    for name, fn, count in public(room):
        for label, wrong in WRONG.items():
            for place in range(min(count, 3)):
                args: list[Any] = [x.clone() for _ in range(count)]
                args[place] = wrong
                try:
                    with redirect_stdout(io.StringIO()), warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        fn(*args)
                except Exception as error:
                    if not is_fair(error):
                        raw[name] = f"argument {place} is {label}: {type(error).__name__}: {error}"
    assert not raw, "\n".join(f"{k}: {v}" for k, v in raw.items())


def sgd() -> Any:
    return tb.optim.SGD([nn.Parameter(tb.ones(2))], lr=0.1)


NAMED = {
    "layer_norm": (lambda: nn.functional.layer_norm(tb.ones(2, 2), None), "normalized_shape is None"),
    "LSTM": (lambda: nn.LSTM(None, 3), "input_size=None"),
    "clip_grad_norm_": (lambda: nn.utils.clip_grad_norm_(None, 1.0), "is None"),
    "save": (lambda: tb.save(None, None), "None"),
    "load": (lambda: tb.load(None), "None"),
    "DataLoader": (lambda: tb.utils.data.DataLoader(None), "None"),
    "Loader": (lambda: tb.data.Loader(None), "None"),
    "MultiStepLR": (lambda: tb.optim.lr_scheduler.MultiStepLR(sgd(), None), "milestones is None"),
    "ExponentialLR": (lambda: tb.optim.lr_scheduler.ExponentialLR(sgd(), "oops"), "gamma is of type str"),
    "gcd": (lambda: tb.gcd(tb.tensor([1.5]), tb.tensor([2])), "an integer dtype"),
    "set_default_dtype": (lambda: tb.set_default_dtype(None), "None is not a dtype"),
    "astype": (lambda: tb.ones(2).astype(None), "None is not a dtype"),
}


@pytest.mark.parametrize("name", NAMED)
def test_it_says_which(name: str) -> None:
    call, said = NAMED[name]
    with pytest.raises(TrilobiteError, match=said):
        call()


def test_errors_of_the_users_code_stay() -> None:
    """A class or a callback of the user's raises what it raises."""

    class Odd:
        def __len__(self) -> int:
            raise KeyError("mine")

        def __getitem__(self, i: int) -> Any:
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine") as caught:
        list(tb.utils.data.DataLoader(Odd()))
    assert not isinstance(caught.value, TrilobiteError)
    with pytest.raises(ZeroDivisionError):
        tb.optim.lr_scheduler.LambdaLR(sgd(), lambda n: 1 / 0)


def test_also_of_pythons_kind() -> None:
    with pytest.raises(TypeError):
        nn.utils.clip_grad_norm_(None, 1.0)
    with pytest.raises(TypeError, match="missing"):
        nn.Linear(3)


def test_an_error_that_stays_keeps_its_cause() -> None:
    cause = KeyError("why")

    def rate(n: int) -> float:
        raise ValueError("mine") from cause

    with pytest.raises(ValueError, match="mine") as caught:
        tb.optim.lr_scheduler.LambdaLR(sgd(), rate)
    assert not isinstance(caught.value, TrilobiteError)
    assert caught.value.__cause__ is cause
