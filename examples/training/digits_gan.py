"""A generator that draws digits on demand, and a classifier that reads them: `python
examples/training/digits_gan.py`.

Two networks play against each other on scikit-learn's 8×8 digits: one draws a digit it is asked for, out
of noise, the other tells drawn ones from real ones. A classifier that never saw a drawn digit says how
many it recognises.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

import trilobite as tb

F = tb.nn.functional
NOISE = 16


def real_digits() -> tuple[np.ndarray, np.ndarray]:
    """All 1797 digits as rows of 64 numbers from −1 to 1, and their labels."""
    images, labels = zip(*tb.data.digits(), strict=True)
    return np.stack(images).reshape(-1, 64) * 2.0 - 1.0, np.array(labels)


class Generator(tb.nn.Module):
    """Noise and the wanted digit in, a picture out."""

    def __init__(self) -> None:
        self.layers = tb.nn.Sequential(
            tb.nn.Linear(NOISE + 10, 128), tb.nn.BatchNorm1d(128), tb.nn.ReLU(),
            tb.nn.Linear(128, 128), tb.nn.BatchNorm1d(128), tb.nn.ReLU(), tb.nn.Linear(128, 64), tb.nn.Tanh(),
        )  # fmt: skip

    def forward(self, noise: tb.Tensor, wanted: tb.Tensor) -> tb.Tensor:
        return self.layers(tb.concat([noise, wanted], axis=1))


class Critic(tb.nn.Module):
    """A picture and what it is said to show in, a score out: high for real ones."""

    def __init__(self) -> None:
        self.layers = tb.nn.Sequential(
            tb.nn.Linear(74, 128), tb.nn.LeakyReLU(0.2), tb.nn.Dropout(0.3),
            tb.nn.Linear(128, 64), tb.nn.LeakyReLU(0.2), tb.nn.Dropout(0.3), tb.nn.Linear(64, 1),
        )  # fmt: skip

    def forward(self, picture: tb.Tensor, said: tb.Tensor) -> tb.Tensor:
        return self.layers(tb.concat([picture, said], axis=1))


def one_hot(labels: Any) -> tb.Tensor:
    return tb.tensor(np.eye(10, dtype=np.float32)[np.asarray(labels)])


def believed(scores: tb.Tensor, real: float) -> tb.Tensor:
    """The loss of a critic that should have taken the pictures for real (1) or drawn (0)."""
    return F.binary_cross_entropy_with_logits(scores, tb.full(scores.shape, real, dtype=scores.dtype))


def train(steps: int = 1500, batch: int = 64, seed: int = 0, rate: float = 2e-3) -> Generator:
    """A generator trained against a critic, each with an optimiser of its own."""
    tb.manual_seed(seed)
    generator, critic = Generator(), Critic()
    draws = tb.optim.Adam(generator.parameters(), lr=rate, betas=(0.5, 0.999))
    judges = tb.optim.Adam(critic.parameters(), lr=rate, betas=(0.5, 0.999))
    loader = tb.data.Loader(
        tb.data.ArrayDataset(*real_digits()), batch, shuffle=True, seed=seed, drop_last=True
    )
    fading = [tb.optim.CosineAnnealingLR(o, steps) for o in (draws, judges)]
    done = 0
    while done < steps:
        for pictures, labels in loader:
            shown, said = tb.tensor(pictures), one_hot(labels)
            drawn = generator(tb.randn((batch, NOISE)), said)
            loss = believed(critic(shown, said), 0.9) + believed(critic(drawn.detach(), said), 0.0)
            judges.zero_grad()
            loss.backward()
            judges.step()
            draws.zero_grad()
            believed(critic(drawn, said), 1.0).backward()
            draws.step()
            for schedule in fading:
                schedule.step()
            done += 1
            if done == steps:
                break
    return generator


def classifier(seed: int = 0, epochs: int = 12) -> tuple[Any, float]:
    """A network that reads digits, and its accuracy on every fifth digit, which it was not shown."""
    tb.manual_seed(seed)
    pictures, labels = real_digits()
    held = np.arange(len(labels)) % 5 == 0
    model = tb.nn.Sequential(tb.nn.Linear(64, 128), tb.nn.ReLU(), tb.nn.Dropout(0.2), tb.nn.Linear(128, 10))
    train_set = tb.data.ArrayDataset(pictures[~held], labels[~held])
    test_set = tb.data.ArrayDataset(pictures[held], labels[held])
    history = tb.fit(
        model, tb.optim.Adam(model.parameters(), lr=3e-3), F.cross_entropy,
        tb.data.Loader(train_set, 32, shuffle=True, seed=seed), epochs=epochs,
        validation=tb.data.Loader(test_set, 400), metrics={"accuracy": tb.metrics.Accuracy()}, progress=False,
    )  # fmt: skip
    return model.eval(), history["validation_accuracy"][-1]


def recognised(generator: Generator, reader: Any, each: int = 50, seed: int = 7) -> dict[str, float]:
    """How the classifier reads drawn digits: the share it takes for what was asked, its confidence, and
    how much the drawings of one digit differ, compared with real ones.
    """
    tb.manual_seed(seed)
    wanted = np.repeat(np.arange(10), each)
    generator.eval()
    with tb.no_grad():
        drawn = generator(tb.randn((len(wanted), NOISE)), one_hot(wanted))
        chances = F.softmax(reader(drawn), 1).numpy()
    pictures, labels = real_digits()
    spread = [
        drawn.numpy()[wanted == d].std(axis=0).mean() / pictures[labels == d].std(axis=0).mean()
        for d in range(10)
    ]
    return {
        "recognised": float((chances.argmax(axis=1) == wanted).mean()),
        "confidence": float(chances.max(axis=1).mean()),
        "variety": float(np.min(spread)),
    }


def picture(row: np.ndarray) -> str:
    """A digit in characters."""
    shades = " .:-=+*#%@"
    levels = np.clip((row.reshape(8, 8) + 1) * 5, 0, 9).astype(int)
    return "\n".join("".join(shades[v] * 2 for v in line) for line in levels)


def main(steps: int = 1500) -> None:
    began = time.perf_counter()
    reader, accuracy = classifier()
    generator = train(steps)
    print(f"the classifier reads {accuracy:.1%} of real digits right; of the drawn ones:")
    for name, value in recognised(generator, reader).items():
        print(f"  {name} {value:.1%}")
    with tb.no_grad():
        print(picture(generator(tb.randn((1, NOISE)), one_hot([3])).numpy()[0]))
    print(f"{time.perf_counter() - began:.1f} s")


if __name__ == "__main__":
    main()
