"""Control flow without Python between kernels: `while` and `cond` as rows of the step table, in each other
and in scans, against the interpreter.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import trilobite as tb
from tests.compiler.arrays import assert_close, assert_same_bits
from trilobite import nn
from trilobite.compiler.program.program import Branch, Call, HostCall, Loop, Place, Step, While, inner
from trilobite.compiler.program.program_file import decode, encode
from trilobite.compiler.targets.cpu.kernel import pack, unpack
from trilobite.native.pool import set_threads, threads
from trilobite.zoo.gpt2 import GPT2

Array = np.ndarray[Any, Any]


def steps_of(function: tb.Jitted, *args: Any) -> list[Step]:
    """All steps of a program, those within others too."""
    pending: list[Step] = list(function.lower(*args).compile().main.program({}).steps)
    found: list[Step] = []
    while pending:
        found.append(pending.pop())
        pending += [s for steps in inner(found[-1]) for s in steps]
    return found


def check(f: Callable[..., Any], *args: Any, kinds: set[type]) -> None:
    """Native, of these steps and without host steps, and with the interpreter's results."""
    compiled = tb.jit(f)
    found = {type(s) for s in steps_of(compiled, *args)}
    assert HostCall not in found and found >= kinds, found
    expected = tb.jit(f, target="reference")(*args)
    for _ in range(2):
        got = compiled(*args)
        flat, wanted = ((v if isinstance(v, tuple) else (v,)) for v in (got, expected))
        for g, w in zip(flat, wanted, strict=True):
            if g.dtype.kind == "f":
                assert_close(g.numpy(), w.numpy())
            else:
                assert_same_bits(g.numpy(), w.numpy())


def values(*shape: int, seed: int = 0) -> tb.Tensor:
    return tb.tensor((np.random.default_rng(seed).standard_normal(shape) * 3).astype(np.float32))


# -- while ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rounds", [0, 1, 2, 17])
def test_a_while_goes_round_as_often_as_its_test_says(rounds: int) -> None:
    def f(x: tb.Tensor, n: tb.Tensor) -> Any:
        i, y = tb.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, tb.sin(c[1]) * 1.5 + x), (n * 0, x))
        return i, y

    check(f, values(7, 13), tb.tensor(rounds), kinds={While})


def test_carries_may_change_places_and_be_handed_on() -> None:
    def f(a: tb.Tensor, b: tb.Tensor, c: tb.Tensor) -> Any:
        def body(v: Any) -> Any:
            i, x, y, z = v
            return i + 1, y, x, z

        return tb.while_loop(lambda v: v[0] < 5, body, (tb.tensor(0), a, b, c))

    check(f, values(5), values(5, seed=1), values(5, seed=2), kinds={While})


def test_a_test_may_be_a_carry_and_a_result_a_constant() -> None:
    def f(x: tb.Tensor) -> Any:
        return tb.while_loop(
            lambda v: v[0], lambda v: (tb.sum(v[1]) < 40.0, v[1] + 3.0), (tb.tensor(True), x)
        )

    check(f, values(4), kinds={While})


def test_each_element_goes_its_own_number_of_rounds_under_vmap() -> None:
    def steps(n: tb.Tensor) -> Any:  # Collatz
        def body(v: Any) -> Any:
            m, k = v
            return tb.where(m % 2 == 0, m // 2, 3 * m + 1), k + 1

        return tb.while_loop(lambda v: v[0] != 1, body, (n, n * 0))[1]

    check(tb.vmap(steps), tb.tensor([1, 2, 3, 7, 27, 97]), kinds={While})


def test_whiles_within_whiles_and_products_in_them() -> None:
    w = values(24, 24, seed=5) * 0.05

    def f(x: tb.Tensor) -> Any:
        def body(v: Any) -> Any:
            y, k = v
            y = tb.while_loop(lambda u: tb.sum(u * u) > 10.0, lambda u: tb.tanh(u @ w), y)
            return y + 1.0, k + 1

        return tb.while_loop(lambda v: v[1] < 3, body, (x, tb.tensor(0)))

    check(f, values(9, 24), kinds={While})


def test_a_while_in_a_scan_moves_with_its_slices() -> None:
    def f(xs: tb.Tensor) -> Any:
        def step(c: tb.Tensor, x: tb.Tensor) -> Any:
            y = tb.while_loop(lambda v: tb.max(tb.abs(v)) > 1.0, lambda v: v * 0.5 + c * 0.01, x)
            return tb.sum(y), y

        return tb.scan(step, tb.tensor(0.5), xs)

    check(f, values(11, 6), kinds={While, Loop})


def test_a_scan_in_a_while() -> None:
    def f(xs: tb.Tensor) -> Any:
        def body(v: Any) -> Any:
            total, ys = v
            return tb.scan(lambda c, x: (c + x, c * 0.1 + x), total, ys)

        return tb.while_loop(lambda v: tb.sum(tb.abs(v[0])) < 50.0, body, (xs[0] * 0.0 + 1.0, xs))

    check(f, values(5, 3), kinds={While, Loop})


@pytest.mark.usefixtures("interruptible")
def test_a_round_that_never_ends_can_be_interrupted() -> None:
    endless = tb.jit(lambda x: tb.while_loop(lambda v: tb.sum(v) > -1.0, lambda v: tb.sin(v), x))
    x = tb.ones(4)
    endless.lower(x).compile().prepare([x.numpy()])
    timer = threading.Timer(0.3, lambda: signal.raise_signal(signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        timer.start()  # here: on a busy machine it may ring before the next line
        endless(x)
    timer.join()


# -- carries in place ----------------------------------------------------------------------------------------


def test_carries_that_others_read_are_not_changed_before_them() -> None:
    def body(x: tb.Tensor, y: tb.Tensor, z: tb.Tensor) -> Any:
        return x + y, x - y, tb.flip(z, axis=0) * 0.5 + x

    def scanned(x: tb.Tensor, y: tb.Tensor, z: tb.Tensor) -> Any:
        return tb.scan(lambda c, _: (body(*c), c[1]), (x, y, z), None, length=5)[0]

    def repeated(x: tb.Tensor, y: tb.Tensor, z: tb.Tensor) -> Any:
        return tb.while_loop(lambda c: tb.max(c[0]) < 200.0, lambda c: body(*c), (x, y, z))

    args = [values(41, seed=s) for s in range(3)]
    check(scanned, *args, kinds={Loop})
    check(repeated, *args, kinds={While})


def test_a_cache_is_written_in_place_in_every_round() -> None:
    def f(cache: tb.Tensor, x: tb.Tensor) -> Any:
        def step(c: Any, i: tb.Tensor) -> Any:
            kept, h = c
            before = kept[i]
            kept[i] = h
            return (kept, tb.tanh(tb.sum(kept, axis=0) + h + before)), before

        return tb.scan(step, (cache, x), tb.tensor([3, 0, 3, 5, 1]))

    args = values(7, 9) * 0.1, values(9, seed=1)
    copied = [s for s in steps_of(tb.jit(f), *args) if isinstance(s, Call) and s.kernel.name == "copy"]
    assert all(s.args[2] != 7 * 9 * 4 or s.args[1] == Place("input", 0) for s in copied)
    (kept, h), ys = tb.jit(f)(*args)
    (kept_, h_), ys_ = tb.jit(f, target="reference")(*args)
    for a, b in ((kept, kept_), (h, h_), (ys, ys_)):
        assert_close(a.numpy(), b.numpy())
    assert_same_bits(args[0].numpy(), (values(7, 9) * 0.1).numpy())


# -- cond ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("index", [-(2**31), -1, 0, 1, 2, 3, 2**31 - 1])
def test_the_branch_that_the_index_names(index: int) -> None:
    def f(i: tb.Tensor, x: tb.Tensor, y: tb.Tensor) -> Any:
        branches = [
            lambda a, b: (a @ b, a),
            lambda a, b: (a - b, b),
            lambda a, b: (a * 0.0 + 7.0, tb.sin(a) + tb.cos(b)),
        ]
        return tb.switch(i, branches, x, y)

    check(f, tb.tensor(np.int32(index)), values(6, 6), values(6, 6, seed=1), kinds={Branch})


@pytest.mark.parametrize("flag", [False, True])
def test_one_branch_may_give_what_it_got(flag: bool) -> None:
    def f(p: tb.Tensor, x: tb.Tensor) -> Any:
        return tb.cond(p, lambda v: v, lambda v: tb.exp(v) - 1.0, x)

    check(f, tb.tensor(flag), values(3, 5), kinds={Branch})


def test_a_choice_in_every_round_of_a_scan_and_of_a_while() -> None:
    def f(xs: tb.Tensor) -> Any:
        def step(c: tb.Tensor, x: tb.Tensor) -> Any:
            y = tb.cond(tb.sum(x) > 0.0, lambda v: v * 2.0, lambda v: c - v, x)
            return c + y, y

        total, ys = tb.scan(step, xs[0], xs)

        def body(v: tb.Tensor) -> tb.Tensor:
            return tb.cond(tb.sum(v) > 100.0, lambda u: u * 0.25, lambda u: u * 0.5 - 0.01, v)

        return tb.while_loop(lambda v: tb.max(v) > 0.1, body, tb.abs(total)), ys

    check(f, values(13, 4), kinds={Branch, Loop, While})


def test_gradients_through_a_choice() -> None:
    def f(x: tb.Tensor) -> Any:
        return tb.grad(lambda v: tb.sum(tb.cond(tb.sum(v) > 0.0, lambda u: u**3, lambda u: tb.exp(u), v)))(x)

    for sign in (1.0, -1.0):
        check(f, tb.abs(values(8)) * sign, kinds={Branch})


# -- what only NumPy can do, within --------------------------------------------------------------------------


@pytest.mark.parametrize("reverse", [False, True])
def test_rounds_come_back_to_python_for_a_part_of_their_work(reverse: bool) -> None:
    def f(xs: tb.Tensor, a: tb.Tensor) -> Any:
        def step(c: tb.Tensor, x: tb.Tensor) -> Any:
            wave = tb.real(tb.fft.ifft(tb.fft.fft(x) * 2.0))  # reads a slice that moves
            y = c @ a + wave
            return y * 0.5, tb.linalg.svdvals(tb.stack([x, y]))  # writes one

        return tb.scan(step, xs[0], xs, reverse=reverse)

    args = values(6, 4), values(4, 4, seed=1) * 0.1
    compiled, meaning = tb.jit(f), tb.jit(f, target="reference")
    kinds = {type(s) for s in steps_of(compiled, *args)}
    assert {HostCall, Loop} <= kinds
    for got, want in zip(compiled(*args), meaning(*args), strict=True):
        assert_close(got.numpy(), want.numpy(), ulps=64)
    assert "host svdvals: runs in NumPy" in compiled.explain(*args)
    assert "scan kernel" in compiled.explain(*args)


def test_choices_and_rounds_around_host_steps() -> None:
    def f(x: tb.Tensor) -> Any:
        def body(v: Any) -> Any:
            m, k = v
            m = tb.cond(k % 2 == 0, lambda u: tb.real(tb.fft.fft(u)), lambda u: u @ u * 0.1, m)
            return m, k + 1

        return tb.while_loop(lambda v: v[1] < 4, body, (x, tb.tensor(0)))[0]

    x = values(5, 5) * 0.1 + tb.eye(5) * 2.0
    for _ in range(2):
        assert_close(tb.jit(f)(x).numpy(), tb.jit(f, target="reference")(x).numpy(), ulps=64)


def test_what_a_callback_raises_in_a_round_the_call_raises() -> None:
    calls = []

    def touchy(x: Array) -> Array:
        calls.append(float(x[0]))
        if len(calls) == 3:
            raise ZeroDivisionError("third round")
        return x + 1.0

    op = tb.custom_op(touchy)

    def f(x: tb.Tensor) -> Any:
        waves = tb.sin(tb.arange(5.0))[:, None] * x  # a sequence in the arena, through which rounds move
        last, ys = tb.scan(lambda c, w: (op(c), c * w), x + 0.0, waves)
        return last, ys * 2.0

    compiled = tb.jit(f)
    with pytest.raises(ZeroDivisionError, match="third round"):
        compiled(tb.ones(2))
    assert calls == [1.0, 2.0, 3.0]
    expected = tb.jit(f, target="reference")(tb.ones(2))
    for got, want in zip(compiled(tb.ones(2)), expected, strict=True):
        assert_close(got.numpy(), want.numpy())


# -- everywhere ----------------------------------------------------------------------------------------------


def busy(x: tb.Tensor) -> Any:
    def body(v: Any) -> Any:
        y, k = v
        y = tb.cond(k % 2 == 0, lambda u: tb.tanh(u @ u) * 0.5, lambda u: u + tb.mean(u), y)
        return y, k + 1

    return tb.while_loop(lambda v: v[1] < 6, body, (x, tb.tensor(0)))[0]


def test_the_number_of_threads_changes_no_bit() -> None:
    x = values(150, 150) * 0.01
    before, results = threads(), []
    try:
        for n in (1, 2, 3):
            set_threads(n)
            results.append(tb.jit(busy)(x).numpy())
    finally:
        set_threads(before)
    assert_same_bits(results[0], results[1])
    assert_same_bits(results[0], results[2])


def test_programs_with_control_flow_are_kept_as_bytes() -> None:
    program = tb.jit(busy).lower(values(4, 4)).compile().main.program({})
    data = encode(program, pack)
    assert data is not None
    assert str(decode(data, unpack)) == str(program)
    assert decode(data, unpack).steps == program.steps
    assert "while arena" in str(program) and "choose by" in str(program) and "case 1" in str(program)


def test_symbolic_sizes_in_rounds() -> None:
    n = tb.dim("n", max=40)
    f = tb.jit(busy_rows, shapes=[(n, 3)])
    for size in (1, 5, 40):
        x = values(size, 3, seed=size)
        assert_close(f(x).numpy(), tb.jit(busy_rows, target="reference")(x).numpy())


def busy_rows(x: tb.Tensor) -> Any:
    return tb.while_loop(lambda v: tb.max(tb.abs(v)) > 0.5, lambda v: tb.sin(v) * 0.75, x)


def test_a_decoder_writes_its_text_in_one_call() -> None:
    tb.manual_seed(3)
    model = GPT2(vocabulary=97, context=32, width=32, heads=2, layers=2)
    for p in model.parameters():
        if p.ndim == 2:
            nn.init.normal_(p, 0.0, 0.6)  # so that the tokens differ

    def generate(prompt: tb.Tensor) -> tb.Tensor:
        cache = model.cache(1, 32)
        with tb.no_grad():
            first = tb.argmax(model.prefill(prompt, cache), axis=-1)

            def step(token: tb.Tensor, i: tb.Tensor) -> Any:
                return tb.argmax(model.decode(token[:, None], i[None], cache), axis=-1), token

            return tb.scan(step, first, tb.arange(5, 25))[1]

    prompt = tb.tensor([[5, 17, 2, 90, 33]])
    found, expected = tb.jit(generate)(prompt), generate(prompt)
    assert len(set(expected.numpy().ravel().tolist())) > 5
    assert_same_bits(found.numpy(), expected.numpy())
    assert HostCall not in {type(s) for s in steps_of(tb.jit(generate), prompt)}
