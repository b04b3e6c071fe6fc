"""`trilobite style-train FOLDER STYLE -o DIRECTORY`: a transform network of one's own for one style.

Enters: a folder of pictures, a style picture. Leaves: in the directory the network (`network.safetensors`),
the losses of every step (`losses.csv`), checkpoints, and a preview. The same call goes on where it stopped.
"""

from __future__ import annotations

import csv
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from trilobite.apps.style import pictures
from trilobite.apps.style.training import Plan, Report, load_network, save_network, train

NETWORK, LOSSES, CHECKPOINTS, PREVIEW = "network.safetensors", "losses.csv", "checkpoints", "preview.png"
LITE = {"style_weight": 2.0, "smoothness": 10.0, "balanced": True}  # for EfficientNet's features


def style_train(
    folder: Annotated[Path, typer.Argument(help="pictures to learn from")],
    style: Annotated[Path, typer.Argument(help="a picture whose style is learnt")],
    output: Annotated[Path, typer.Option("--output", "-o", help="a directory")] = Path("out/style"),
    steps: Annotated[int, typer.Option(help="of training")] = 2000,
    batch: Annotated[int, typer.Option(help="squares a step")] = 4,
    side: Annotated[int, typer.Option(help="of the squares, in pixels")] = 256,
    width: Annotated[int, typer.Option(help="channels at full size; 32 is the published network")] = 32,
    blocks: Annotated[int, typer.Option(help="residual blocks")] = 5,
    keep_every: Annotated[int, typer.Option(help="steps between checkpoints")] = 100,
    style_weight: Annotated[
        float,
        typer.Option(help="how strongly the style counts beside the content; 0: what suits the features"),
    ] = 0.0,
    weights: Annotated[str, typer.Option(help="VGG19's weights; left out, EfficientNet-Lite0's")] = "",
    seed: Annotated[int, typer.Option(help="of weights and squares")] = 0,
) -> None:
    """Train a network that paints in one style; the same call again goes on where it stopped."""
    from trilobite.apps.style import features
    from trilobite.framework.progress import Progress

    extractor = features.vgg19(weights) if weights else features.efficientnet()
    tuned: dict[str, Any] = dict({} if weights else LITE)
    if style_weight:
        tuned["style_weight"] = style_weight
    plan = Plan(steps, batch, side, width=width, blocks=blocks, keep_every=keep_every, seed=seed, **tuned)
    painting = pictures.read(style, 512).pixels
    output.mkdir(parents=True, exist_ok=True)
    began = time.perf_counter()
    with Progress() as bar:
        bar.start("training", steps)

        def watch(report: Report) -> None:
            bar.advance({"content": report.content, "style": report.style})
            note(output / LOSSES, report)

        network = train(folder, painting, extractor, plan, output / CHECKPOINTS, watch)
    save_network(output / NETWORK, network)
    rows = losses(output / LOSSES)
    typer.echo(f"{len(rows)} steps, {time.perf_counter() - began:.1f} s of them now")
    for name in ("content", "style"):
        first, last = (sum(part) / len(part) for part in _ends([row[name] for row in rows]))
        typer.echo(f"  {name} loss {first:.4g} at first, {last:.4g} at last")
    typer.echo(f"wrote {output / NETWORK}; try: trilobite style PICTURE --network {output / NETWORK}")


def note(path: Path, report: Report) -> None:
    """One line more. A step that a stopped run had done and this one does again stands once, at its end."""
    fresh = not path.is_file()
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        if fresh:
            writer.writerow(("step", "content", "style"))
        writer.writerow((report.step, repr(report.content), repr(report.style)))


def losses(path: Path) -> list[dict[str, float]]:
    """Of every step, the last that was noted."""
    with path.open(newline="", encoding="utf-8") as file:
        found = {int(row["step"]): row for row in csv.DictReader(file)}
    return [
        {"step": n, "content": float(r["content"]), "style": float(r["style"])}
        for n, r in sorted(found.items())
    ]


def _ends(values: list[float]) -> tuple[list[float], list[float]]:
    count = max(len(values) // 10, 1)
    return values[:count], values[-count:]


__all__ = ["load_network", "losses", "style_train"]
