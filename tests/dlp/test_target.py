"""The target as its user sees it: names, runs, state, reports, refusals."""

from __future__ import annotations

import gc
import json
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import trilobite as tb
from trilobite.base.errors import ArgumentError, DeviceError, MachineError
from trilobite.compiler.graph.pipeline import run_stages
from trilobite.compiler.targets.contract import Usage
from trilobite.compiler.targets.dlp import compiled as dlp_compiled
from trilobite.compiler.targets.dlp import target as dlp_target
from trilobite.compiler.targets.dlp.compiled import Compiled
from trilobite.compiler.targets.dlp.devices import shared_device
from trilobite.compiler.targets.registry import find
from trilobite.ir.graph import Graph
from trilobite.processor.machine import load_machine

RNG = np.random.default_rng(7)


def normal(*shape: int) -> Any:
    return tb.tensor(RNG.normal(size=shape).astype(np.float32))


def two_layers(x: Any, w: Any, v: Any) -> Any:
    return tb.maximum(x @ w, 0.0) @ v


def test_a_machine_is_a_preset_a_file_or_a_description(odd_machine: Path) -> None:
    x, w, v = normal(5, 7), normal(7, 11), normal(11, 3)
    want = two_layers(x, w, v).numpy()
    for target in ("dlp:dlp-s", f"dlp:{odd_machine}", load_machine(str(odd_machine))):
        got = tb.jit(two_layers, target=target)(x, w, v)
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-5, atol=1e-5)


def test_wrong_names_and_options_are_said() -> None:
    with pytest.raises(MachineError, match="did you mean 'dlp-s'"):
        tb.jit(two_layers, target="dlp:dlp-z")(normal(2, 2), normal(2, 2), normal(2, 2))
    with pytest.raises(ArgumentError, match="without a machine"):
        tb.jit(two_layers, target="dlp")(normal(2, 2), normal(2, 2), normal(2, 2))
    with pytest.raises(ArgumentError, match="has no option 'speed'"):
        f = tb.jit(two_layers, target="dlp:dlp-s", options={"speed": 3})
        f(normal(2, 2), normal(2, 2), normal(2, 2))


def test_a_run_is_measured_and_a_profile_adds_up(tmp_path: Path) -> None:
    f = tb.jit(two_layers, target="dlp:dlp-s")
    args = normal(8, 64), normal(64, 96), normal(96, 10)
    assert f.last_run is None
    f(*args)
    assert f.last_run.cycles > 0 and f.last_run.energy.total > 0
    profile = f.profile(*args)
    assert sum(row.cycles for row in profile.rows) == profile.cycles == f.last_run.cycles
    assert {row.unit for row in profile.rows} >= {"matrix"}
    assert [row["cycles"] for row in json.loads(profile.json())["groups"]] == [r.cycles for r in profile.rows]
    assert "bound by" in str(profile)
    assert [path.stat().st_size > 0 for path in profile.write(tmp_path)] == [True] * 3


def test_equal_layers_have_rows_of_their_own_in_a_profile() -> None:
    def f(x: Any, w: Any) -> Any:
        for _ in range(3):
            x = tb.tanh(x @ w)
        return x

    fast = tb.jit(f, target="dlp:dlp-s")
    profile = fast.profile(normal(6, 16), normal(16, 16))
    assert sum("dot" in row.operations for row in profile.rows) == 3


def test_explain_and_stages_tell_every_level() -> None:
    f = tb.jit(two_layers, target="dlp:dlp-s")
    args = normal(4, 8), normal(8, 8), normal(8, 4)
    f(*args)
    text = f.explain(*args)
    assert "matrix" in text and "dot" in text and "%" in text and "test_target.py" in text
    stages = f.lower(*args).stages
    assert next(iter(stages)) == "graph" and {"groups", "mapping", "kernel", "isa"} <= set(stages)
    assert "MM." in stages["isa"] and "tiles" in stages["mapping"]


def test_state_stays_on_the_device_and_comes_back_when_looked_at() -> None:
    model = tb.nn.Linear(6, 3)
    opt = tb.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    @tb.jit(target="dlp:dlp-s")
    def step(x: Any, y: Any) -> Any:
        loss = ((model(x) - y) ** 2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss

    x, y = normal(5, 6), normal(5, 3)
    losses = [float(step(x, y)) for _ in range(4)]
    assert losses[-1] < losses[0]
    carried = step.lower(x, y).compile().measured["bytes to device"]
    assert carried == x.numpy().nbytes + y.numpy().nbytes  # and no weight, gradient or momentum
    before = model.weight.detach().numpy().copy()
    with tb.no_grad():
        seen = tb.jit(lambda v: model(v), target="dlp:dlp-s")(x).numpy()
    np.testing.assert_allclose(seen, x.numpy() @ before.T + model.bias.detach().numpy(), rtol=1e-4, atol=1e-5)
    with tb.no_grad():
        model.weight *= 0.0
    want = ((model.bias.detach().numpy() - y.numpy()) ** 2).mean()
    np.testing.assert_allclose(float(step(x, y)), want, rtol=1e-5)


def test_a_weight_that_changes_is_packed_again() -> None:
    conv = tb.nn.Conv2d(3, 4, 3)
    x = normal(1, 3, 6, 6)
    with tb.no_grad():
        f = tb.jit(lambda v: conv(v), target="dlp:dlp-s")
        g = tb.jit(lambda v: conv(v), target="reference")
        for scale in (1.0, -2.0, 0.5):
            conv.weight *= scale
            np.testing.assert_allclose(f(x).numpy(), g(x).numpy(), rtol=1e-4, atol=1e-5)


def test_what_depends_on_weights_alone_runs_when_a_weight_changes() -> None:
    net = tb.nn.Sequential(tb.nn.Conv2d(3, 4, 3), tb.nn.BatchNorm2d(4))
    net.eval()
    x = normal(1, 3, 6, 6)
    with tb.no_grad():
        f, g = (tb.jit(lambda v: net(v), target=t) for t in ("dlp:dlp-s", "reference"))
        for scale in (1.0, 3.0):
            net[1].weight *= scale
            np.testing.assert_allclose(f(x).numpy(), g(x).numpy(), rtol=1e-4, atol=1e-5)
        assert "run again only when a weight has changed" in f.explain(x)


def test_memory_is_given_back_with_the_function() -> None:
    device = shared_device(load_machine("dlp-s")).device
    gc.collect()
    before = device.statistics.used
    f = tb.jit(lambda x: (x @ x).sum(), target="dlp:dlp-s")
    x = normal(64, 64)
    f(x)
    assert device.statistics.used > before
    del f
    gc.collect()
    assert device.statistics.used <= before


def test_out_of_memory_names_the_tensor_and_its_bytes(tmp_path: Path, odd_machine: Path) -> None:
    text = (
        Path(odd_machine)
        .read_text(encoding="utf-8")
        .replace("burst_bytes: 512}", "burst_bytes: 512, gib: 1}")
    )
    small = tmp_path / "small.yaml"
    small.write_text(text.replace("name: odd", "name: small"), encoding="utf-8")
    f = tb.jit(lambda: tb.zeros((1 << 29,), dtype="float32"), target=f"dlp:{small}")
    with pytest.raises(
        DeviceError, match=r"no room for result 0 of .*float32\[536870912\]: 2147483648 bytes"
    ):
        f()


def test_calls_from_threads_take_turns() -> None:
    f = tb.jit(lambda x: (x * 2.0).sum(), target="dlp:dlp-s")
    inputs = [normal(33) for _ in range(6)]
    found: dict[int, float] = {}

    def work(i: int) -> None:
        for _ in range(3):
            found[i] = float(f(inputs[i]))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for i, x in enumerate(inputs):
        np.testing.assert_allclose(found[i], float((x * 2.0).sum()), rtol=1e-5)


def test_control_flow_runs_on_the_device() -> None:
    def f(x: Any, n: Any) -> Any:
        doubled = tb.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, s[1] * 2.0), (tb.tensor(0), x))[1]
        return tb.cond(n > 2, lambda v: v.sum(), lambda v: v.max(), doubled)

    fast, slow = (tb.jit(f, target=t) for t in ("dlp:dlp-m", "reference"))
    for n in (0, 2, 5):
        x = normal(3, 5)
        np.testing.assert_allclose(float(fast(x, tb.tensor(n))), float(slow(x, tb.tensor(n))), rtol=1e-5)


def test_random_numbers_are_the_framework_s() -> None:
    def f() -> Any:
        return tb.rand(1000)

    tb.manual_seed(3)
    want = tb.jit(f, target="reference")().numpy()
    tb.manual_seed(3)
    got = tb.jit(f, target="dlp:dlp-m")().numpy()
    assert (want == got).all()


@pytest.mark.parametrize("machine", [pytest.param("dlp-s", marks=pytest.mark.long), "dlp-m"])
def test_race_and_memory_checkers_accept_a_step_of_training(machine: str) -> None:
    model = tb.nn.Sequential(tb.nn.Conv2d(1, 3, 3), tb.nn.ReLU(), tb.nn.MaxPool2d(2), tb.nn.Flatten(),
                             tb.nn.Linear(27, 4))  # fmt: skip
    opt = tb.optim.Adam(model.parameters(), lr=1e-2)

    @tb.jit(target=f"dlp:{machine}", options={"checks": True})
    def step(x: Any, y: Any) -> Any:
        loss = tb.nn.functional.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss

    assert np.isfinite(float(step(normal(2, 1, 8, 8), tb.tensor([1, 3]))))


def test_the_same_graph_gives_the_same_binary() -> None:
    words = []
    for _ in range(2):
        f = tb.jit(lambda x, w: tb.tanh(x @ w).sum(), target="dlp:dlp-m")
        args = normal(20, 30), normal(30, 10)
        f(*args)
        program = f.lower(*args).compile().last.compiled.program
        words.append((program.listing(), program.data))
    assert words[0] == words[1]


def test_programs_of_sizes_long_unused_leave_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dlp_target, "KEPT", 3)
    device = shared_device(load_machine("dlp-s")).device
    f = tb.jit(lambda x: tb.exp(x) + x, target="dlp:dlp-s", shapes=[(tb.dim("n", max=64),)],
               options={"sizes": "each"})  # fmt: skip
    used = []
    for n in (5, 6, 7, 8, 9, 5, 40, 5):
        x = normal(n)
        np.testing.assert_allclose(f(x).numpy(), np.exp(x.numpy()) + x.numpy(), rtol=1e-5)
        gc.collect()
        used.append(device.statistics.used)
    program = used[1] - used[0]
    assert program > 0 and max(used[3:6]) < used[2] + program, used


def test_a_program_is_made_without_searches_for_garbage_and_passes_run_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    searched: list[bool] = []
    passed: list[str] = []

    class Observed(dlp_target.Loaded):
        def __init__(self, compiled: Compiled, device: Any) -> None:
            searched.append(gc.isenabled())
            super().__init__(compiled, device)

    def observed(graph: Graph, stages: Any, options: Any) -> Any:
        passed.append(graph.name)
        return run_stages(graph, stages, options)

    monkeypatch.setattr(dlp_target, "Loaded", Observed)
    monkeypatch.setattr(dlp_compiled, "run_stages", observed)
    graph = tb.make_graph(two_layers)(normal(4, 6), normal(6, 9), normal(9, 5))
    target = find("dlp:dlp-s")
    made = target.load(target.lower(graph, Usage(stable=frozenset({1, 2}))))
    values = [np.zeros(tuple(map(int, t.shape)), np.float32) for t in graph.input_types]
    made.prepare(values)
    assert searched == [False] and gc.isenabled()
    made.run(values, [], 0)
    assert passed == [graph.name]
    assert made.stages["groups"] != made.stages["graph"]
    assert passed == [graph.name]  # what is asked for later is not computed again
