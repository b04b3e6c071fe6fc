"""The first hour: a network that reads digits, trained, stopped, resumed, saved, run elsewhere and profiled.

    python examples/training/first_hour.py            # everything goes into out/first_hour

Each section names the page that tells more. It needs scikit-learn's small digits (or MNIST in .data).
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import trilobite as tb
from trilobite import data, metrics, nn, optim
from trilobite.apps import digits
from trilobite.compiler import tools

# -- docs/start.md, docs/training.md: a module and the loop, ready made ------------------------------------


class Reader(nn.Module):
    """One convolution, one hidden layer."""

    def __init__(self, side: int) -> None:
        self.conv = nn.Conv2d(1, 8, 3, padding=1)
        self.hidden = nn.Linear(8 * (side // 2) ** 2, 32)
        self.drop = nn.Dropout(0.1)
        self.out = nn.Linear(32, 10)

    def forward(self, x: Any) -> Any:
        x = nn.functional.max_pool2d(nn.functional.relu(self.conv(x)), 2)
        return self.out(self.drop(nn.functional.relu(self.hidden(x.flatten(1)))))


def trained(images: digits.Images, unseen: digits.Images, epochs: int, place: Path) -> tuple[Reader, Any]:
    """The reader after some epochs. Called again with more epochs it goes on from its checkpoint."""
    tb.manual_seed(1)  # docs/random.md
    model = Reader(images[0].shape[-1])
    opt = optim.AdamW(model.parameters(), lr=3e-3)
    loader = data.Loader(data.ArrayDataset(*images), batch_size=64, shuffle=True, seed=1)  # docs/data.md
    history = tb.fit(
        model, opt, nn.functional.cross_entropy, loader, epochs=epochs, jit=True, progress=False,
        validation=data.Loader(data.ArrayDataset(*unseen), 200), metrics={"accuracy": metrics.Accuracy()},
        checkpoint=place / "checkpoints", logs=[place / "log.csv"],
    )  # fmt: skip
    return model, history


def same(a: nn.Module, b: nn.Module) -> bool:
    """Whether two networks have the same parameters, to the last bit."""
    pairs = zip(a.state_dict().items(), b.state_dict().items(), strict=True)
    return all(x == y and np.array_equal(v.numpy(), w.numpy()) for (x, v), (y, w) in pairs)


def main(out: Path, most: int, epochs: int) -> None:
    out.mkdir(parents=True, exist_ok=True)
    found = digits.load()
    learn, unseen = ((x[:most], y[:most]) for x, y in (found.train, found.test))
    print(f"{found.source}: {len(learn[1])} digits to learn from, {len(unseen[1])} to be tested on")

    # -- docs/saving.md: stopped after half of the epochs, and resumed, bit for bit
    with tempfile.TemporaryDirectory() as elsewhere:
        whole, _ = trained(learn, unseen, epochs, Path(elsewhere))
    trained(learn, unseen, epochs // 2, out)
    model, history = trained(learn, unseen, epochs, out)
    print(f"read right: {history.rows[-1]['validation_accuracy']:.1%}")
    print(f"stopped and resumed, the same as in one go: {same(model, whole)}")

    model.eval()
    tb.save_safetensors(out / "reader.safetensors", model.state_dict())
    again = Reader(learn[0].shape[-1]).eval()
    again.load_state_dict(tb.load_safetensors(out / "reader.safetensors"))
    print(f"saved and loaded: {same(model, again)}")

    few = tb.tensor(unseen[0][:8])
    with tb.no_grad():
        here = model(few)

        # -- docs/transforms.md: which pixels decide? A gradient of a function, over a batch
        score = tb.vmap(tb.grad(lambda image: model(image[None]).max()))
        print(f"a picture of slopes for each digit: {tuple(score(few).shape)}")

        # -- docs/tuning.md: where the time goes on this CPU
        fast = tb.jit(model)
        profile = tools.profile(fast, few, repeats=5)
        slowest = max(profile.rows, key=lambda row: row.seconds)
        print(f"on the CPU {len(profile.rows)} kernels; most time goes into: {slowest.kind}")

        # -- docs/chip.md: the same network on the simulated processor, and a page about it
        chip = tb.jit(model, target="dlp:dlp-s")
        there = chip(few)
        longest = max(chip.profile(few).rows, key=lambda row: row.cycles)
        print(f"on the chip the same within 1e-4: {bool(abs(here - there).max() < 1e-4)}")
        print(f"{chip.last_run.cycles} cycles, most in {longest.name}, bound by {longest.bound}")
        chip.last_run.report(str(out / "chip.html"))

    # -- docs/inference.md: as a file for others, and back
    tb.inference.export(model, few, path=out / "reader.onnx")
    session = tb.inference.load(out / "reader.onnx")
    (result,) = session.run({session.inputs[0].name: few.numpy()}).values()
    print(f"through ONNX the same within 1e-4: {bool(np.abs(result - here.numpy()).max() < 1e-4)}")
    print(f"next: open {out / 'chip.html'}, then")
    print(f"trilobite profile {out / 'reader.onnx'} -o {out / 'profile.html'}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--out", type=Path, default=Path("out/first_hour"), help="a folder for what is written"
    )
    parser.add_argument("--digits", type=int, default=1400, help="how many to learn from, at most")
    parser.add_argument("--epochs", type=int, default=8)
    words = parser.parse_args()
    main(words.out, words.digits, words.epochs)
