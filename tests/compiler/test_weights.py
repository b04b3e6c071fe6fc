"""Weights that live packed: let go where nobody else sees them, the same in every bit when somebody looks."""

from __future__ import annotations

import copy
import gc
import threading
import weakref
from typing import Any

import numpy as np
import pytest

import trilobite as tb
from trilobite.compiler.targets.cpu.weights import Weights
from trilobite.ir.transforms import cells
from trilobite.ir.transforms.cells import Cell, is_kept_by, put_away

ROWS, COLUMNS = 151, 133  # more than what is too small to put away; no whole number of panels


def numbers(*shape: int, seed: int = 0, dtype: Any = np.float32) -> Any:
    wide = np.random.default_rng(seed)
    return (wide.standard_normal(shape) * 10.0 ** wide.integers(-3, 4, shape)).astype(dtype)


class Layer:
    """A product with a weight, compiled; the weight's numbers are known."""

    def __init__(self, turned: bool = False, dtype: Any = np.float32) -> None:
        self.known = numbers(ROWS, COLUMNS, dtype=dtype)
        self.w = tb.tensor(self.known.T.copy() if turned else self.known.copy())
        self.x = tb.tensor(numbers(7, ROWS, seed=1, dtype=dtype))
        self.f = tb.jit(lambda x: x @ (self.w.T if turned else self.w), target="cpu")
        self.turned = turned

    @property
    def away(self) -> bool:
        return type(self.w._cell) is not Cell

    def check(self, known: Any = None) -> None:
        known = self.known if known is None else known
        want = self.x.numpy().astype(np.float64) @ known.astype(np.float64)
        terms = np.abs(self.x.numpy()).astype(np.float64) @ np.abs(known).astype(np.float64)
        unit = np.finfo(self.known.dtype).eps
        assert (np.abs(self.f(self.x).numpy() - want) <= 8 * unit * terms).all()


@pytest.mark.counted
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_weight_comes_back_in_every_bit(turned: bool, dtype: Any) -> None:
    layer = Layer(turned, dtype)
    layer.check()
    layer.check()
    assert layer.away and layer.w._cell.held.strides == (0, 0)
    assert layer.w.shape == (layer.known.T if turned else layer.known).shape
    assert layer.away  # types are known without it
    found = layer.w.numpy()
    assert not layer.away and found.flags.c_contiguous and found.flags.writeable
    assert found.tobytes() == (layer.known.T if turned else layer.known).tobytes()
    del found
    layer.check()


@pytest.mark.counted
def test_special_numbers_come_back() -> None:
    layer = Layer()
    special = np.array([np.nan, np.inf, -np.inf, -0.0, 1e-42, np.float32(-3.4e38)], np.float32)
    special.view(np.uint32)[0] |= 12345  # a NaN's payload
    layer.known[3, :6] = special
    layer.w.copy_(tb.tensor(layer.known.copy()))
    layer.f(layer.x)
    assert layer.away
    assert layer.w.numpy().tobytes() == layer.known.tobytes()


def test_a_weight_that_was_looked_at_is_not_packed_again() -> None:
    layer = Layer()
    layer.f(layer.x)
    (e,) = next(iter(layer.f.entries.values()))
    weights = e.recording.graph.__dict__["_executables"]["cpu", e.usage].weights
    panels = weights._ready[0]
    layer.w.sum()
    layer.f(layer.x)
    assert not layer.away and weights._ready[0] is panels


def test_writes_are_seen() -> None:
    layer = Layer()
    layer.f(layer.x)
    layer.w.mul_(-2.0)
    layer.check(layer.known * np.float32(-2))
    layer.w[3:5] = 7.0
    known = layer.known * np.float32(-2)
    known[3:5] = 7.0
    layer.check(known)


def test_writes_from_outside_are_seen_after_many_calls() -> None:
    """A weight becomes visible between two calls, is let go, and becomes visible again."""
    layer, known = Layer(), None
    for number in (0.5, -3.0):
        for _ in range(3):
            layer.check(known)
        held = layer.w.numpy()
        layer.check(known)
        held[2:9] = number
        known = held.copy()
        layer.check(known)
        layer.check(known)
        del held


def test_what_nobody_could_write_is_not_asked_about(monkeypatch: pytest.MonkeyPatch) -> None:
    layer, asked = Layer(), [0]
    is_exposed = cells.is_exposed

    def counted(*args: Any) -> bool:
        asked[0] += 1
        return is_exposed(*args)

    monkeypatch.setattr(cells, "is_exposed", counted)
    with tb.no_grad():
        results = [layer.f(layer.x) for _ in range(3)]
        before = asked[0]
        results += [layer.f(layer.x) for _ in range(4)]
        assert asked[0] == before
        results[0].numpy()  # other memory that somebody may write
        layer.f(layer.x)
        assert asked[0] > before


@pytest.mark.counted
def test_a_new_value_needs_no_old_one() -> None:
    layer = Layer()
    layer.f(layer.x)
    layer.w._cell.value = numbers(ROWS, COLUMNS, seed=5)
    layer.check(numbers(ROWS, COLUMNS, seed=5))
    assert layer.away
    assert layer.w.numpy().tobytes() == numbers(ROWS, COLUMNS, seed=5).tobytes()


@pytest.mark.parametrize("hold", ["numpy", "part", "from_numpy", "alias"])
def test_what_others_hold_stays(hold: str) -> None:
    layer = Layer()
    kept: Any = None
    if hold == "numpy":
        kept = layer.w.numpy()
    elif hold == "part":
        kept = layer.w.numpy()[3:9]
    elif hold == "alias":
        kept = layer.w._cell.value
    else:
        kept = layer.known.copy()
        layer.w = tb.from_numpy(kept)
    layer.check()
    assert not layer.away
    if hold != "alias":
        kept[...] = 0.5
        known = layer.known.copy()
        known[slice(3, 9) if hold == "part" else slice(None)] = 0.5
        layer.check(known)


def test_two_functions_of_one_weight() -> None:
    layer = Layer()
    other = tb.jit(lambda x: (x @ layer.w) * 2.0, target="cpu")
    for _ in range(3):
        layer.check()
        np.testing.assert_array_equal(other(layer.x).numpy(), layer.f(layer.x).numpy() * 2)
    assert not layer.away  # both have looked: the weight stays beside its panels


def test_training_goes_on_from_packed_weights() -> None:
    tb.manual_seed(3)
    nets = [tb.nn.Linear(ROWS, COLUMNS) for _ in range(2)]
    nets[1].load_state_dict(nets[0].state_dict())
    x = tb.tensor(numbers(5, ROWS, seed=2))
    predict = tb.jit(nets[0], target="cpu")
    for _ in range(3):
        with tb.no_grad():
            predict(x)
        for net in nets:
            optimizer = tb.optim.SGD(net.parameters(), lr=1e-6)
            (net(x) ** 2).mean().backward()
            optimizer.step()
            net.zero_grad()
    a, b = (net.weight.detach().numpy() for net in nets)
    assert a.tobytes() == b.tobytes()
    with tb.no_grad():
        np.testing.assert_allclose(predict(x).numpy(), nets[1](x).numpy(), rtol=1e-4, atol=1e-4)


@pytest.mark.counted
def test_copies_and_states_of_packed_weights() -> None:
    net = tb.nn.Linear(ROWS, COLUMNS)
    known = net.weight.detach().numpy().copy()
    x = tb.tensor(numbers(5, ROWS, seed=2))
    with tb.no_grad():
        tb.jit(net, target="cpu")(x)
        assert type(net.weight._cell) is not Cell
        twin = copy.deepcopy(net)
        assert twin.weight.numpy().tobytes() == known.tobytes()
        assert net.state_dict()["weight"].numpy().tobytes() == known.tobytes()


def test_threads_that_look_at_once() -> None:
    layer = Layer()
    layer.f(layer.x)
    start, found = threading.Barrier(4), []

    def look() -> None:
        start.wait()
        found.append(layer.w._cell.value)

    threads = [threading.Thread(target=look) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len({id(a) for a in found}) == 1 and found[0].tobytes() == layer.known.tobytes()


@pytest.mark.counted
def test_a_look_between_reading_the_cells_and_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """As another thread may: what stood in for the weight is not taken for a new weight of zeros."""
    layer, run = Layer(), Weights.__call__
    layer.check()
    assert layer.away

    def looked_at(self: Weights, *args: Any) -> Any:
        layer.w.numpy()
        return run(self, *args)

    monkeypatch.setattr(Weights, "__call__", looked_at)
    layer.check()
    monkeypatch.undo()
    layer.check()


@pytest.mark.counted
def test_a_look_before_the_first_run_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    layer, found = Layer(), []

    def looked_at() -> None:
        if layer.away:
            found.append(layer.w.numpy().tobytes())

    monkeypatch.setattr("trilobite.compiler.targets.cpu.weights.give_back", looked_at)
    layer.check()
    assert found == [layer.known.tobytes()]
    layer.check()


def test_a_weight_that_was_written_meanwhile_is_not_put_away() -> None:
    old, new = numbers(3, 4), numbers(3, 4, seed=1)
    cell = Cell(new)
    assert put_away(cell, old, None, lambda: old) is None
    assert type(cell) is Cell and cell.value is new and not is_kept_by(cell, None)


@pytest.mark.counted
def test_a_second_process_lets_go_as_well(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRILOBITE_CACHE", str(tmp_path))
    for _ in range(2):  # the second finds its programs on disk
        layer = Layer()
        layer.check()
        assert layer.away
        assert layer.w.numpy().tobytes() == layer.known.tobytes()


def test_what_comes_of_no_weight_at_all_is_made_once() -> None:
    def seven() -> Any:
        return tb.while_loop(lambda i: i < 7, lambda i: i + 1, tb.tensor(0))

    x = tb.tensor(numbers(5, ROWS, seed=2))
    alone = tb.jit(lambda x: x * seven(), target="cpu")
    layer = Layer()
    layer.f = tb.jit(lambda x: x @ layer.w + (seven() - 7), target="cpu")
    for _ in range(2):
        assert alone(x).numpy().tobytes() == (x.numpy() * np.float32(7)).tobytes()
        layer.check()


# -- convolutions ------------------------------------------------------------------------------------------


@pytest.mark.counted
@pytest.mark.parametrize(
    "name, shape, groups, stride, size",
    [
        ("conv2d", (140, 70, 3, 3), 1, 1, 14),  # by tiles
        ("conv2d", (74, 260, 2, 3), 1, 2, 9),
        ("conv2d", (260, 261, 1, 1), 1, 1, 5),
        ("conv2d", (132, 80, 3, 3), 3, 1, 6),
        ("conv_transpose2d", (80, 122, 3, 3), 1, 2, 5),
        ("conv_transpose2d", (96, 100, 3, 3), 1, 1, 20),
    ],
)
def test_the_weight_of_a_convolution_comes_back_in_every_bit(
    name: str, shape: tuple[int, ...], groups: int, stride: int, size: int
) -> None:
    """Behind it a scale and a shift per channel, as of a batch norm."""
    back = name == "conv_transpose2d"
    channels, filters = (shape[0], shape[1] * groups) if back else (shape[1] * groups, shape[0])
    known = np.random.default_rng(3).standard_normal(shape).astype(np.float32)
    w, x = tb.tensor(known.copy()), tb.tensor(numbers(2, channels, size, size, seed=1))
    scale, shift = (tb.tensor(numbers(filters, 1, 1, seed=s)) for s in (5, 6))
    apply = getattr(tb.nn.functional, name)

    def layer(x: Any) -> Any:
        return apply(x, w, stride=stride, groups=groups) * scale + shift

    eager = layer(x).numpy()
    f = tb.jit(layer, target="cpu")
    for _ in range(2):
        got = f(x).numpy()
        np.testing.assert_allclose(got, eager, rtol=0, atol=1e-4 * np.abs(eager).max())
    assert type(w._cell) is not Cell
    assert w.numpy().tobytes() == known.tobytes() and type(w._cell) is Cell
    np.testing.assert_array_equal(f(x).numpy(), got)
    w.mul_(2.0)
    shift.mul_(2.0)
    np.testing.assert_allclose(f(x).numpy(), 2 * got, rtol=0, atol=1e-4 * np.abs(eager).max())


@pytest.mark.counted
def test_a_network_with_batch_norms_keeps_its_weights_once() -> None:
    """All that a residual block has of its large weights are their panels; its state is what it was."""
    tb.manual_seed(0)
    block = tb.nn.Sequential(
        tb.nn.Conv2d(64, 200, 3, padding=1, bias=False), tb.nn.BatchNorm2d(200), tb.nn.ReLU(),
        tb.nn.Conv2d(200, 400, 1, bias=False), tb.nn.BatchNorm2d(400),
    )  # fmt: skip
    x = tb.tensor(np.random.default_rng(1).standard_normal((2, 64, 12, 12)).astype(np.float32))
    block(x)
    block.eval()
    for p in block.parameters():
        p.requires_grad_(False)
    before = {k: v.numpy().copy() for k, v in block.state_dict().items()}
    eager = block(x).numpy()
    f = tb.jit(lambda x: block(x), target="cpu")
    np.testing.assert_allclose(f(x).numpy(), eager, rtol=0, atol=2e-5 * np.abs(eager).max())
    assert [type(block[i].weight._cell) is not Cell for i in (0, 3)] == [True, True]
    for k, v in block.state_dict().items():
        assert v.numpy().tobytes() == before[k].tobytes(), k


@pytest.mark.counted
def test_packed_weights_go_with_their_network() -> None:
    """Who keeps a weight knows its cell, and the cell its keeper: nobody else may hold both."""

    def used() -> list[weakref.ref[Any]]:
        layer = tb.nn.Linear(300, 300)
        f = tb.jit(lambda x: layer(x))
        with tb.no_grad():
            f(tb.ones((64, 300)))
        cell = layer.weight._cell
        assert type(cell) is not Cell and cell.keeper is not None
        return [weakref.ref(cell.keeper.who), weakref.ref(cell)]

    left = used()
    gc.collect()
    assert [r() for r in left] == [None, None]
