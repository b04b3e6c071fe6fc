"""Writes docs/style_training.md: a transform network trained twice, straight through, and killed and resumed.

Enters: nothing but the demonstration's pictures and features (`make demo` fetches them). Leaves: the page,
its curves and a painted photograph. Both runs are `trilobite style-train` in processes of their own; the second
is killed without warning (SIGKILL) between two checkpoints and called again. `python -m tools.style_training`
takes minutes; it goes on with what a stopped call of it left in out/style-training.
"""

# ruff: noqa: E501 (the page's own text)

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tools.pictures import PICTURES, ROOT, picture, text
from trilobite.apps import assets
from trilobite.apps.style import pictures
from trilobite.apps.style.train_command import CHECKPOINTS, LOSSES, NETWORK, losses

PAGE = ROOT / "docs" / "style_training.md"
PLACE = ROOT / "out" / "style-training"
STEPS, KEEP, KILLED = 400, 50, 230  # killed 30 steps behind a checkpoint: those steps are done twice
SETTINGS = (
    "--steps",
    STEPS,
    "--keep-every",
    KEEP,
    "--batch",
    2,
    "--side",
    128,
    "--width",
    32,
    "--style-weight",
    0.5,
)
PHOTOS = ("chelsea", "coffee", "rocket")
WINDOW = 20  # steps that one point of the smoothed curve is the mean of


def prepared() -> tuple[Path, Path]:
    """The folder of photographs and the style picture."""
    folder, style = PLACE / "photographs", PLACE / "style.png"
    folder.mkdir(parents=True, exist_ok=True)
    for name in PHOTOS:
        source = assets.fetch(name)
        shutil.copyfile(source, folder / source.name)
    pictures.write(style, pictures.pattern(512))
    return folder, style


def command(output: Path) -> list[str]:
    folder, style = prepared()
    words = [sys.executable, "-m", "trilobite", "style-train", str(folder), str(style), "-o", str(output)]
    return [*words, *map(str, SETTINGS)]


def steps_noted(output: Path) -> int:
    path = output / LOSSES
    return int(losses(path)[-1]["step"]) if path.is_file() and len(path.read_text().splitlines()) > 1 else 0


def trained(output: Path) -> None:
    """Straight through, or on from where it stopped."""
    if not (output / NETWORK).is_file():
        subprocess.run(command(output), check=True)


def killed(output: Path) -> None:
    """The run until step `KILLED` is noted; then it is killed, and what it has lost is checked to be lost."""
    if steps_noted(output) >= KILLED:
        return
    running = subprocess.Popen(command(output))
    while steps_noted(output) < KILLED:
        if running.poll() is not None:
            raise SystemExit(f"the run ended with {running.returncode} before step {KILLED}")
        time.sleep(0.05)
    running.kill()
    running.wait()
    kept = sorted(
        int(name) for p in (output / CHECKPOINTS).iterdir() if (name := p.name.split("-")[-1]).isdigit()
    )
    print(f"killed at step {steps_noted(output)}; checkpoints {kept}", flush=True)


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def smooth(values: Sequence[float]) -> list[float]:
    sums = np.convolve(values, np.ones(WINDOW) / WINDOW, mode="valid")
    return [float(v) for v in sums]


def curves(content: Sequence[float], style: Sequence[float]) -> str:
    """Both losses over the steps, each as a share of its first mean."""
    wide, high, left, top = 640, 220, 56, 34
    body = [text(left, 20, "loss, as a share of the first steps'", "small")]
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        y = top + high * (1 - share)
        body.append(f'<path d="M{left} {y:g}H{left + wide}" stroke="#9aa5ab" stroke-width="0.5"/>')
        body.append(text(left - 8, y + 4, f"{share:g}", "small", "end"))
    body += [
        text(left + wide * step / STEPS, top + high + 18, str(step), "small", "middle")
        for step in range(0, STEPS + 1, 100)
    ]
    x = left + wide * KILLED / STEPS
    body.append(f'<path d="M{x:g} {top}V{top + high}" stroke="#51626d" stroke-dasharray="4 3"/>')
    body.append(text(x + 6, top + 12, "killed and resumed", "small"))
    for name, values, colour, dash in (
        ("content", content, "#3f7fc1", ""),
        ("style", style, "#d9822b", "7 3"),
    ):
        points = smooth(values)
        line = " ".join(
            f"{left + wide * (n + WINDOW) / STEPS:.1f},{top + high * (1 - min(v / points[0], 1.05)):.1f}"
            for n, v in enumerate(points)
        )
        dashes = f' stroke-dasharray="{dash}"' if dash else ""
        body.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"{dashes}/>')
        end = top + high * (1 - points[-1] / points[0])
        body.append(text(left + wide + 6, end + 4, name, "small"))
    words = f"Content and style loss over {STEPS} steps, means of {WINDOW} steps; both fall."
    return picture(left + wide + 60, top + high + 30, "Losses of the transform network", words, body)


def ends(values: Sequence[float]) -> tuple[float, float]:
    tenth = len(values) // 10
    return float(np.mean(values[:tenth])), float(np.mean(values[-tenth:]))


def painted(network: Path) -> None:
    """The photograph beside what the network makes of it."""
    photo, out = assets.fetch("chelsea"), PLACE / "painted.png"
    words = ["style", str(photo), "--network", str(network), "-o", str(out), "--size", "384"]
    subprocess.run([sys.executable, "-m", "trilobite", *words], check=True)
    result = pictures.read(out).pixels
    before = pictures.resized(pictures.read(photo).pixels, *result.shape[:2])
    style = pictures.resized(pictures.pattern(512), result.shape[0], result.shape[0])
    pictures.write(PICTURES / "style-training.jpg", np.concatenate([before, style, result], axis=1))


def page(whole: Path, resumed: Path) -> str:
    rows, again = losses(whole / LOSSES), losses(resumed / LOSSES)
    content, style = ([row[name] for row in rows] for name in ("content", "style"))
    (c0, c1), (s0, s1) = ends(content), ends(style)
    noted = len((resumed / LOSSES).read_text().splitlines()) - 1
    same = "the same bits" if digest(whole / NETWORK) == digest(resumed / NETWORK) else "DIFFERENT bits"
    equal = sum(a == b for a, b in zip(rows, again, strict=True))
    return f"""# Training a transform network, killed and resumed

Written by `python -m tools.style_training`. The network of the publication (width 32, five residual blocks, instance norms) learns
one style from squares of 128 pixels of three photographs ({", ".join(PHOTOS)}; licences in [style transfer](style.md)), two a step,
Adam, perceptual loss on EfficientNet-Lite0's features, {STEPS} steps on one core. The command, of the first run and of the second:

```sh
trilobite style-train photographs style.png -o run {" ".join(map(str, SETTINGS))}
```

![Content and style loss over the steps](pictures/style-training.svg)

| loss | mean of the first {STEPS // 10} steps | mean of the last {STEPS // 10} | of the first |
|---|---:|---:|---:|
| content | {c0:.4f} | {c1:.4f} | {c1 / c0:.2f} |
| style | {s0:.4f} | {s1:.4f} | {s1 / s0:.2f} |

The second run was killed (SIGKILL) when step {KILLED} was noted, {KILLED % KEEP} steps behind its last checkpoint, and the same command was given
again. It did {noted - STEPS} steps twice and went on to the end.

| | straight through | killed and resumed |
|---|---|---|
| steps noted | {len(rows)} | {noted}, {noted - STEPS} of them twice |
| losses of a step equal in every bit | | {equal} of {STEPS} |
| SHA-256 of `network.safetensors` | `{digest(whole / NETWORK)[:16]}…` | `{digest(resumed / NETWORK)[:16]}…` |

The two networks have {same}. A photograph, the style, and what the trained network makes of the photograph:

![A photograph, the style, the result](pictures/style-training.jpg)
"""


def main() -> None:
    whole, resumed = PLACE / "whole", PLACE / "resumed"
    trained(whole)
    killed(resumed)
    trained(resumed)
    painted(whole / NETWORK)
    rows = losses(whole / LOSSES)
    curve = curves([row["content"] for row in rows], [row["style"] for row in rows])
    (PICTURES / "style-training.svg").write_text(curve, encoding="utf-8")
    PAGE.write_text(page(whole, resumed), encoding="utf-8")


if __name__ == "__main__":
    main()
