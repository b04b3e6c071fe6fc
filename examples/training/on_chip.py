"""Training on the simulated processor beside the CPU: `python examples/training/on_chip.py lenet --steps 9`.

Two things are shown. Every step is taken twice from the same state, by the CPU and by the chip: losses and
updates of the parameters are compared. And a second copy trains on the chip alone, from the same beginning on
the same batches: its curve of losses is compared with the CPU's. The last lines say what a step costs there.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from corpus import notes

import trilobite as tb

F = tb.nn.functional
WINDOW = 20  # steps that a curve is averaged over
RATE = 0.02  # of SGD: at 0.05 curves of the CPU alone come apart by per cents when a last bit changes
Batch = Callable[[np.random.Generator], tuple[Any, Any]]


@dataclass
class Trainer:
    """A model, its optimiser, and a compiled step."""

    model: Any
    optimizer: Any
    step: Any

    def load(self, other: Trainer) -> None:
        """Take over another's state."""
        self.model.load_state_dict({k: v.detach().clone() for k, v in other.model.state_dict().items()})
        self.optimizer.load_state_dict(other.optimizer.state_dict())

    def numbers(self) -> np.ndarray[Any, Any]:
        return np.concatenate([p.detach().numpy().ravel().copy() for p in self.model.parameters()])


@dataclass
class Record:
    """What was seen, step by step: losses from the same state, errors of updates, losses of free runs."""

    same: list[tuple[float, float]] = field(default_factory=list)
    updates: list[float] = field(default_factory=list)  # |chip's - CPU's| / |CPU's|
    free: list[tuple[float, float]] = field(default_factory=list)
    cycles: int = 0
    joules: float = 0.0

    @property
    def loss_error(self) -> float:
        return max(abs(chip - cpu) / abs(cpu) for chip, cpu in self.same)

    @property
    def curve_error(self) -> float:
        """The largest distance of the averaged curves, of the CPU's curve there."""
        ones = np.ones(min(WINDOW, len(self.free)))
        chip, cpu = (np.convolve(v, ones / len(ones), "valid") for v in np.array(self.free).T)
        return float((np.abs(chip - cpu) / cpu).max())


def trainer(make: Callable[[], Any], target: str, adam: bool, rate: float = RATE) -> Trainer:
    model = make()
    parameters = list(model.parameters())
    optimizer: Any = tb.optim.Adam(parameters, lr=1e-3) if adam else tb.optim.SGD(parameters, lr=rate)

    @tb.jit(target=target)
    def step(x: Any, y: Any) -> Any:
        scores = model(x)
        loss = F.cross_entropy(scores.reshape(-1, scores.shape[-1]), y.reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return Trainer(model, optimizer, step)


def enlarged() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Digits of 8 x 8, enlarged to the 28 x 28 that LeNet takes, and their labels."""
    images, labels = (np.asarray(a) for a in tb.data.digits().arrays)
    wide = np.kron(images, np.ones((1, 3, 3), np.float32))
    return np.pad(wide, ((0, 0), (2, 2), (2, 2)))[:, None], labels


def digits(batch: int) -> Batch:
    images, labels = enlarged()

    def draw(rng: np.random.Generator) -> tuple[Any, Any]:
        chosen = rng.integers(0, len(images), batch)
        return tb.tensor(images[chosen]), tb.tensor(labels[chosen])

    return draw


def characters(batch: int, length: int) -> tuple[Batch, int]:
    """Windows of a text, and how many characters it has."""
    text = notes(20_000)
    vocabulary = tb.data.Vocabulary(text)
    codes = np.array(list(vocabulary.encode(text)))

    def draw(rng: np.random.Generator) -> tuple[Any, Any]:
        starts = rng.integers(0, len(codes) - length - 1, batch)
        rows = np.stack([codes[s : s + length + 1] for s in starts])
        return tb.tensor(rows[:, :-1].copy()), tb.tensor(rows[:, 1:].copy())

    return draw, len(vocabulary)


def train(make: Callable[[], Any], draw: Batch, steps: int, machine: str, adam: bool) -> Record:
    """The CPU, the chip from the CPU's state, the chip alone."""
    cpu, beside, alone = (trainer(make, t, adam) for t in ("cpu", f"dlp:{machine}", f"dlp:{machine}"))
    alone.load(cpu)
    found, rng = Record(), np.random.default_rng(0)
    for _ in range(steps):
        x, y = draw(rng)
        beside.load(cpu)
        before = cpu.numbers()
        loss = float(cpu.step(x, y))
        found.same.append((float(beside.step(x, y)), loss))
        wanted, got = cpu.numbers() - before, beside.numbers() - before
        found.updates.append(float(np.linalg.norm(got - wanted) / np.linalg.norm(wanted)))
        found.free.append((float(alone.step(x, y)), loss))
    run = alone.step.last_run
    found.cycles, found.joules = run.cycles, run.energy.total
    return found


def lenet(steps: int, machine: str = "dlp-m", batch: int = 8) -> Record:
    return train(lambda: tb.zoo.create("lenet"), digits(batch), steps, machine, adam=False)


def transformer(steps: int, machine: str = "dlp-m", batch: int = 4) -> Record:
    draw, symbols = characters(batch, 24)
    options = {"characters": symbols, "width": 32, "heads": 2, "layers": 2, "context": 24}
    return train(lambda: tb.zoo.create("char_transformer", **options), draw, steps, machine, adam=True)


def sensitivity(steps: int, adam: bool, rate: float = RATE, seeds: int = 3) -> float:
    """How far curves of the CPU alone come apart when weights begin one unit in the last place apart, or as
    they are: what any other order of sums may do too."""
    draw, curves = digits(8), []
    for seed in range(seeds + 1):
        tb.manual_seed(0)
        one, rng = trainer(lambda: tb.zoo.create("lenet"), "cpu", adam, rate), np.random.default_rng(0)
        for p in one.model.parameters():
            values = p.detach().numpy().copy()
            towards = np.random.default_rng(seed).choice([-np.inf, np.inf], values.shape)
            p.data.copy_(tb.tensor(np.nextafter(values, towards.astype(np.float32)) if seed else values))
        curves.append([float(one.step(*draw(rng))) for _ in range(steps)])
    return max(Record(free=list(zip(c, curves[0], strict=True))).curve_error for c in curves[1:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("what", choices=["lenet", "transformer", "sensitivity"])
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--machine", default="dlp-m")
    given = parser.parse_args()
    if given.what == "sensitivity":
        for name, adam, rate in (("SGD", False, RATE), ("SGD at 0.05", False, 0.05), ("Adam", True, RATE)):
            apart = sensitivity(given.steps, adam, rate)
            print(f"LeNet by {name}, weights one ulp apart on the CPU: {apart:.2%}")
        return
    found = {"lenet": lenet, "transformer": transformer}[given.what](given.steps, given.machine)
    print(f"{given.what}, {given.steps} steps on {given.machine}")
    print(
        f"from the same state: losses within {found.loss_error:.1e}, updates within {max(found.updates):.1e}"
    )
    first, last = found.free[0][0], found.free[-1][0]
    print(f"free runs: loss {first:.3f} to {last:.3f}, curves within {found.curve_error:.2%}")
    print(f"a step: {found.cycles:,} cycles, {found.joules * 1e3:.3f} mJ")


if __name__ == "__main__":
    main()
