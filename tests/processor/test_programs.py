"""The ten networks of the Cambricon paper, in its mnemonics, against NumPy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from trilobite.processor import Device
from trilobite.processor.isa.assembler import assemble_program
from trilobite.processor.isa.random import uniform
from trilobite.processor.sim.tasks import rounds

FOLDER = Path(__file__).parents[2] / "examples" / "processor"
PUBLISHED = set(
    """JUMP CB SLOAD VLOAD MLOAD SSTORE VSTORE MSTORE SMOVE VMOVE MMOVE MMV VMM MMS OP MAM MSM
    VAV VSV VMV VDV VAS VEXP VLOG VDP RV VMAX VMIN VGT VE VAND VOR VNOT VGTM SADD SSUB SMUL SDIV SEXP SLOG
    SGT SE""".split()
)
# What the programs take beyond the published families: constants, a shift, comparisons, vector by scalar.
BEYOND = {"SLI", "SLIH", "SSHL", "SLT", "SSEL", "CBNZ", "VMS"}
# Instructions of each program, macros expanded: counted here, so that a change is seen.
LENGTHS = {
    "mlp": 49,
    "cnn": 170,
    "rnn": 48,
    "lstm": 84,
    "autoencoder": 32,
    "sparse_autoencoder": 48,
    "boltzmann": 32,
    "rbm": 36,
    "som": 35,
    "hopfield": 27,
}


def sigmoid(z: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-z.astype(np.float64)))


def run(name: str, arrays: list, outputs: list[tuple], *more, machine: str = "dlp-s", seed: int = 0):
    """Launches the program: inputs first or where the list says None for the next output."""
    device = Device(machine)
    results = [device.array(np.zeros(shape, dtype)) for shape, dtype in outputs]
    waiting = iter(results)
    held = [
        device.array(x) if isinstance(x, np.ndarray) else next(waiting) if x is None else x for x in arrays
    ]
    launched = device.launch(device.load(FOLDER / f"{name}.s")[name], [*held, *more], seed=seed)
    assert launched.cycles > 0 and all(row.total == launched.cycles for row in launched.stalls)
    return [result.numpy() for result in results], held


def parameters(rng, shapes, dtype=np.float32, scale: float = 0.3):
    parts = [(rng.standard_normal(shape) * scale).astype(dtype) for shape in shapes]
    return parts, np.concatenate([part.reshape(-1) for part in parts])


def test_mlp(rng) -> None:
    sizes = [64, 150, 150, 14]
    parts, flat = parameters(rng, [s for i in range(3) for s in ((sizes[i + 1], sizes[i]), (sizes[i + 1],))])
    x = rng.standard_normal(64).astype(np.float32)
    (got,), _ = run("mlp", [x, flat, None], [((14,), np.float32)])
    want = x
    for w, b in zip(parts[0::2], parts[1::2], strict=True):
        want = sigmoid(w @ want + b)
    assert np.allclose(got, want, rtol=1e-4, atol=1e-6)


def convolve(x: np.ndarray, w: np.ndarray, b: np.ndarray) -> np.ndarray:
    windows = np.lib.stride_tricks.sliding_window_view(x, (5, 5), axis=(0, 1))
    return sigmoid(np.einsum("pqcrs,krsc->pqk", windows, w) + b)


def pool(x: np.ndarray) -> np.ndarray:
    return x.reshape(x.shape[0] // 2, 2, x.shape[1] // 2, 2, -1).max(axis=(1, 3))


def test_cnn(rng) -> None:
    shapes = [(6, 5, 5, 1), (6,), (16, 5, 5, 6), (16,), (120, 400), (120,), (84, 120), (84,), (10, 84), (10,)]
    parts, flat = parameters(rng, shapes)
    image = rng.standard_normal((32, 32, 1)).astype(np.float32)
    (got,), _ = run("cnn", [image, flat, None], [((10,), np.float32)])
    want = pool(convolve(image, parts[0], parts[1]))
    want = pool(convolve(want, parts[2], parts[3])).reshape(-1)
    for w, b in zip(parts[4::2], parts[5::2], strict=True):
        want = sigmoid(w @ want + b)
    assert np.allclose(got, want, rtol=1e-4, atol=1e-6)


def test_rnn(rng) -> None:
    (u, v, b, w, c), flat = parameters(rng, [(93, 26), (93, 93), (93,), (61, 93), (61,)])
    x = rng.standard_normal((7, 26)).astype(np.float32)
    (got,), _ = run("rnn", [x, flat, None, 7], [((7, 61), np.float32)])
    h = np.zeros(93)
    for step in range(7):
        h = sigmoid(u @ x[step] + v @ h + b)
        assert np.allclose(got[step], sigmoid(w @ h + c), rtol=1e-4, atol=1e-6)


def test_lstm(rng) -> None:
    parts, flat = parameters(rng, [s for _ in range(4) for s in ((93, 119), (93,))] + [(61, 93), (61,)])
    x = rng.standard_normal((5, 26)).astype(np.float32)
    (got,), _ = run("lstm", [x, flat, None, 5], [((5, 61), np.float32)])
    h, c = np.zeros(93), np.zeros(93)
    for step in range(5):
        joint = np.concatenate([x[step], h])
        i, f, o, g = (parts[2 * gate] @ joint + parts[2 * gate + 1] for gate in range(4))
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        assert np.allclose(got[step], sigmoid(parts[8] @ h + parts[9]), rtol=1e-4, atol=1e-6)


def test_autoencoder(rng) -> None:
    sizes = [320, 200, 100, 50, 10]
    parts, flat = parameters(
        rng, [s for i in range(4) for s in ((sizes[i + 1], sizes[i]), (sizes[i + 1],))], scale=0.2
    )
    x = rng.standard_normal(320).astype(np.float32)
    (got,), _ = run("autoencoder", [x, flat, None], [((10,), np.float32)])
    want = x
    for w, b in zip(parts[0::2], parts[1::2], strict=True):
        want = sigmoid(w @ want + b)
    assert np.allclose(got, want, rtol=1e-4, atol=1e-6)


def test_sparse_autoencoder(rng) -> None:
    (w, b, v, c), flat = parameters(rng, [(200, 320), (200,), (320, 200), (320,)], scale=0.1)
    x = rng.standard_normal(320).astype(np.float32)
    (got,), _ = run("sparse_autoencoder", [x, flat, None], [((321,), np.float32)])
    h = sigmoid(w @ x + b)
    assert np.allclose(got[:320], sigmoid(v @ h + c), rtol=1e-4, atol=1e-6)
    r = 0.05
    penalty = (r * np.log(r / h) + (1 - r) * np.log((1 - r) / (1 - h))).sum()
    assert got[320] == pytest.approx(penalty, rel=1e-4)


def seed_of_task(seed: int) -> int:
    from trilobite.processor.machine import load_machine

    (group,) = next(rounds(load_machine("dlp-s"), (1, 1, 1), "block", seed))
    return group[0].special["randomSeed"]


def test_boltzmann(rng) -> None:
    half = np.float16
    v, h = (rng.integers(0, 2, 500).astype(half) for _ in range(2))
    (w, lateral, b), _ = parameters(rng, [(500, 500), (500, 500), (500,)], half, 0.1)
    (y, on), _ = run("boltzmann", [v, h, w, lateral, b, None, None], [((500,), half), ((500,), half)], seed=9)
    z = w.astype(np.float64) @ v + lateral.astype(np.float64) @ h + b
    assert np.allclose(y, sigmoid(z), atol=0.01)
    random = uniform(seed_of_task(9), 0, 500)
    clear = np.abs(random - y.astype(np.float64)) > 1e-3
    assert (on[clear] == (random > y)[clear]).all() and set(on.tolist()) == {0.0, 1.0}


def test_rbm(rng) -> None:
    half = np.float16
    v = rng.integers(0, 2, 500).astype(half)
    (w, b, c), _ = parameters(rng, [(500, 500), (500,), (500,)], half, 0.1)
    (h, back), _ = run("rbm", [v, w, b, c, None, None], [((500,), half), ((500,), half)], seed=2)
    seed = seed_of_task(2)
    for got, z, block in ((h, w.astype(np.float64) @ v + b, 0), (back, h.astype(np.float64) @ w + c, 125)):
        random = uniform(seed, block, 500)
        clear = np.abs(sigmoid(z) - random) > 0.01
        assert clear.mean() > 0.9 and (got[clear] == (sigmoid(z) > random)[clear]).all()


def test_som(rng) -> None:
    samples, neurons = (rng.standard_normal((n, 64)).astype(np.float32) for n in (20, 36))
    (winners,), held = run("som", [samples, neurons, 20, np.float32(0.25), None], [((20,), np.int32)])
    want = neurons.astype(np.float64)
    for sample, winner in zip(samples, winners, strict=True):
        assert winner == ((want - sample) ** 2).sum(axis=1).argmin()
        want[winner] += 0.25 * (sample - want[winner])
    assert np.allclose(held[1].numpy(), want, rtol=1e-5, atol=1e-6)


def test_hopfield(rng) -> None:
    patterns = rng.choice([-1.0, 1.0], (3, 100)).astype(np.float32)
    weights = (patterns.T @ patterns).astype(np.float32)
    np.fill_diagonal(weights, 0)
    start = patterns[1].copy()
    start[rng.choice(100, 12, replace=False)] *= -1
    (got,), _ = run("hopfield", [start, weights, None, 20], [((100,), np.float32)])
    assert (got == patterns[1]).all()


@pytest.mark.parametrize("name", LENGTHS)
def test_programs_are_as_long_as_stated_and_use_the_papers_instructions(name: str) -> None:
    program = assemble_program((FOLDER / f"{name}.s").read_text(), name)
    assert len(program.instructions) == LENGTHS[name]
    assert {instruction.mnemonic for instruction in program.instructions} <= PUBLISHED | BEYOND
