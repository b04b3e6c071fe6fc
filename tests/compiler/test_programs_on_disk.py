"""Programs from disk: the same program, and only for the same graph on the same machine."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import trilobite as tb
from trilobite.base.errors import DataError
from trilobite.compiler.graph.fingerprint import fingerprint
from trilobite.compiler.graph.pipeline import Options
from trilobite.compiler.program.program import HostCall, Loop
from trilobite.compiler.program.program_file import decode, encode
from trilobite.compiler.targets.cpu import program_store
from trilobite.compiler.targets.cpu.kernel import pack, unpack
from trilobite.compiler.targets.cpu.target import Executable, compile_graph
from trilobite.ir.graph import Graph
from trilobite.native.disk import Cache

RNG = np.random.default_rng(11)
X = RNG.standard_normal((5, 7)).astype(np.float32)


def graph_of(fn: Callable[..., Any], *args: Any) -> Graph:
    graph: Graph = tb.jit(fn).lower(*map(tb.tensor, args or (X,))).graph
    return graph


# -- what tells graphs apart ---------------------------------------------------------------------------------


def test_the_same_function_has_the_same_fingerprint_wherever_it_is_recorded() -> None:
    def f(x: Any) -> Any:
        return tb.softmax(x @ x.T, -1) + X[:5, :5]

    assert fingerprint(graph_of(f)) == fingerprint(graph_of(f)) is not None


def variants() -> list[Callable[[Any], Any]]:
    return [
        lambda x: x * 2.0, lambda x: x * 3.0, lambda x: x + 2.0, lambda x: x * 0.0,
        lambda x: x * -0.0, lambda x: x * float("nan"), lambda x: x.sum(0), lambda x: x.sum(1),
        lambda x: x.sum(1, keepdim=True), lambda x: (x, x), lambda x: x[:, :1], lambda x: x + tb.tensor(X),
        lambda x: x + tb.tensor(-X), lambda x: tb.tanh(x), lambda x: tb.where(x > 0, x, -x),
    ]  # fmt: skip


def test_graphs_that_differ_have_other_fingerprints() -> None:
    kinds = (X, X.T.copy(), X.astype(np.float64), X[:4])
    found = [fingerprint(graph_of(f, x)) for f in variants()[:-4] for x in kinds]
    found += [fingerprint(graph_of(f)) for f in variants()[-4:]]
    assert None not in found and len(set(found)) == len(found)


def test_lines_of_the_user_are_part_of_a_program() -> None:
    text = "def f(x):\n    return x + 1\n"
    above: dict[str, Any] = {}
    below: dict[str, Any] = {}
    exec(compile(text, "model.py", "exec"), above)
    exec(compile("\n" + text, "model.py", "exec"), below)
    assert fingerprint(graph_of(above["f"])) != fingerprint(graph_of(below["f"]))


def test_a_graph_that_calls_python_is_like_no_other() -> None:
    def f(x: Any) -> Any:
        tb.debug.callback(print, None, x)
        return x + 1

    assert fingerprint(graph_of(f)) is None
    assert program_store.store_of(graph_of(f), Options()) is None


# -- programs as bytes ---------------------------------------------------------------------------------------


def looped(x: Any) -> Any:
    def body(h: Any, row: Any) -> Any:
        h = tb.tanh(h * 0.5 + row)
        return h, h.sum()

    return tb.scan(body, tb.zeros(7), x)


def weighted(x: Any) -> Any:
    table = tb.tensor(RNG.standard_normal((7, 300)).astype(np.float32))
    return tb.softmax(x @ table, -1)


def parts(executable: Executable) -> list[Any]:
    return [part.program({}) for part in executable.parts]


@pytest.mark.parametrize("fn", [lambda x: tb.exp(x).sum(0), looped, weighted])
def test_a_program_comes_back_as_it_was(fn: Callable[..., Any]) -> None:
    for program in parts(compile_graph(graph_of(fn))):
        data = encode(program, pack)
        assert data is not None
        again = decode(data, unpack)
        assert str(again) == str(program) and again.kernels == program.kernels
        assert (again.steps, again.outputs, again.packing) == (
            program.steps, program.outputs, program.packing,
        )  # fmt: skip
        assert (again.reuses, again.locations) == (program.reuses, program.locations)
        assert [c.tobytes() for c in again.constants] == [c.tobytes() for c in program.constants]
        assert [(c.dtype, c.shape) for c in again.constants] == [
            (c.dtype, c.shape) for c in program.constants
        ]
        assert all(c.ctypes.data % 64 == 0 for c in again.constants)


def test_loops_are_among_what_comes_back() -> None:
    (program,) = parts(compile_graph(graph_of(looped)))
    data = encode(program, pack)
    assert data is not None and any(isinstance(s, Loop) for s in decode(data, unpack).steps)


def test_texts_of_kernels_come_back_when_they_are_asked_for() -> None:
    (program,) = parts(compile_graph(graph_of(looped)))
    data = encode(program, pack)
    assert data is not None
    again = decode(data, unpack).kernels
    assert all("text" not in vars(k) for k in again)
    assert again == program.kernels and hash(again) == hash(program.kernels)
    assert [k.text for k in again] == [k.text for k in program.kernels]


def test_programs_with_steps_in_numpy_are_not_kept() -> None:
    z = (RNG.standard_normal(5) + 1j * RNG.standard_normal(5)).astype(np.complex64)
    (program,) = parts(compile_graph(graph_of(lambda z: tb.exp(z), z)))
    assert any(isinstance(s, HostCall) for s in program.steps)
    assert encode(program, pack) is None


@pytest.mark.parametrize("cut", [0, 3, 8, 40, -1])
def test_what_is_no_program_is_refused(cut: int) -> None:
    (program,) = parts(compile_graph(graph_of(lambda x: tb.exp(x))))
    data = encode(program, pack)
    assert data is not None
    with pytest.raises(DataError, match="bytes are no program"):
        decode(data[:cut] if cut >= 0 else data[:8] + b"junk" + data[12:], unpack)


# -- where programs are kept ---------------------------------------------------------------------------------


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cache:
    cache = Cache(tmp_path, kind="programs")
    monkeypatch.setattr(program_store, "shared", lambda kind: cache)
    return cache


def entries(cache: Cache) -> list[Path]:
    assert cache.place is not None
    return sorted(p for p in cache.place.rglob("*") if p.is_file())


def test_keys_see_options_machine_compiler_and_tuning(own: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = graph_of(lambda x: tb.exp(x))

    def key(**chosen: Any) -> str:
        found = program_store.store_of(graph, Options(**chosen))
        assert found is not None
        return found.key

    keys = [
        key(), key(accuracy="strict"), key(stable=frozenset({0})), key(donated=((0, 0),)),
        key(skip=frozenset({"cse"})), key(eager=True), key(memory=1000),
    ]  # fmt: skip
    assert key() == keys[0]
    with monkeypatch.context() as patch:
        patch.setattr(program_store, "_tuning", lambda: "tuned")
        keys.append(key())
    here = program_store.features()
    with monkeypatch.context() as patch:
        patch.setattr(program_store, "features", lambda: dataclasses.replace(here, l2=here.l2 * 2))
        keys.append(key())
    with monkeypatch.context() as patch:
        patch.setattr(program_store, "_ROOMS", ("base", "ir", "compiler/graph"))
        keys.append(key())
    assert len(set(keys)) == len(keys)


def test_a_program_is_made_once_and_damage_is_mended(own: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []
    program = Executable.__dict__["compilation"].fget

    def counted(self: Executable) -> Any:
        made.append(self)
        return program(self)

    monkeypatch.setattr(Executable, "compilation", property(counted))

    def fn(x: Any) -> Any:
        return tb.softmax(tb.tanh(x) @ x.T, -1)

    want = Executable(graph_of(fn), Options())([X])[0]
    assert made and len(entries(own)) == 2
    made.clear()
    np.testing.assert_array_equal(Executable(graph_of(fn), Options())([X])[0], want)
    assert not made
    for how, path in enumerate(entries(own)):
        data = path.read_bytes()
        path.write_bytes(data[: len(data) // 2] if how else b"")
    np.testing.assert_array_equal(Executable(graph_of(fn), Options())([X])[0], want)
    assert made
    made.clear()
    np.testing.assert_array_equal(Executable(graph_of(fn), Options())([X])[0], want)
    assert not made


def test_weights_have_a_program_of_their_own_there_too(own: Cache) -> None:
    w = RNG.standard_normal((7, 40)).astype(np.float32)
    graph, options = graph_of(lambda x, w: x @ tb.exp(w), X, w), Options(stable=frozenset({1}))
    want = Executable(graph, options)([X, w])[0]
    assert len(entries(own)) == 3
    again = Executable(graph, options)
    np.testing.assert_array_equal(again([X, w])[0], want)
    np.testing.assert_array_equal(again([-X, w])[0], -want)
    np.testing.assert_allclose(again([X, -w])[0], X @ np.exp(-w), rtol=1e-4)
    assert "_made" not in again.__dict__ and again.halves is not None


def test_the_first_sizes_of_a_symbol_are_kept(own: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    n = tb.dim("n", max=64)
    graph = tb.jit(lambda x: tb.cumsum(x, 0) * 2.0, shapes=[(n, None)]).lower(tb.tensor(X)).graph
    first, second = Executable(graph, Options()), Executable(graph, Options())
    want = [first([X[:k]])[0] for k in (5, 3, 1)]
    assert len(entries(own)) == 4
    for k, expected in zip((1, 3, 5), reversed(want), strict=True):
        np.testing.assert_array_equal(second([X[:k]])[0], expected)
    assert "_made" not in second.__dict__
    monkeypatch.setattr("trilobite.compiler.targets.cpu.compiled._ON_DISK", 4)
    for k in (2, 4, 6, 7):
        second([X[:k]])
    assert len(entries(own)) == 5


WARM = """
import sys, numpy as np, trilobite as tb
net = tb.nn.Sequential(tb.nn.Linear(6, 9), tb.nn.Tanh(), tb.nn.Linear(9, 4))
optimiser = tb.optim.Adam(net.parameters(), lr=1e-2)
x = tb.tensor(np.linspace(-1, 1, 30, dtype=np.float32).reshape(5, 6))
@tb.jit
def step(x):
    loss = (net(x) ** 2).mean()
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
    return loss
print([step(x).item().hex() for _ in range(4)])
wanted = "llvmlite.binding", "trilobite.compiler.targets.cpu.graph_to_program"
print(sorted(m for m in sys.modules if m in wanted))
"""


def test_a_warm_process_trains_without_compiler_and_llvm(root: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(root), "TRILOBITE_CACHE": str(tmp_path)}
    script = tmp_path / "train.py"
    script.write_text("import trilobite as tb\ntb.manual_seed(3)\n" + WARM)

    def run() -> list[str]:
        done = subprocess.run(
            [sys.executable, str(script)], env=environment, capture_output=True, text=True, check=True
        )
        return done.stdout.splitlines()

    cold, warm = run(), run()
    assert cold[0] == warm[0]
    assert (
        cold[1] == "['llvmlite.binding', 'trilobite.compiler.targets.cpu.graph_to_program']"
        and warm[1] == "[]"
    )
