"""`trilobite style CONTENT STYLE -o OUT`: which of the three ways a call means, and running it on a target.

Enters: words of a command line. Leaves: pictures, and a line a picture with its time; with `--compare` the
difference between the target and the CPU.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from trilobite.apps.style import pictures
from trilobite.apps.style.pictures import Frames, Picture, Pixels
from trilobite.base.errors import ArgumentError, FileError
from trilobite.compiler.targets.registry import find
from trilobite.processor import device
from trilobite.processor.sim.run import Run

Stylise = Callable[[Pixels], Pixels]
METHODS = ("auto", "network", "optimise")
LITE = {
    "style_weight": 10.0,
    "smoothness": 60.0,
    "rate": 0.01,
    "balanced": True,
}  # for EfficientNet's features


def style(
    content: Annotated[
        Path, typer.Argument(help="a picture, an animation, or a folder of pictures or video frames")
    ],
    style: Annotated[str, typer.Argument(help="a number 0-25, a mixture 3:0.7,11:0.3, or a picture")] = "7",
    output: Annotated[Path, typer.Option("--output", "-o", help="a picture, or a folder")] = Path(
        "styled.png"
    ),
    on: Annotated[str, typer.Option("--on", "--machine", help="cpu, or dlp:MACHINE")] = "cpu",
    method: Annotated[
        str, typer.Option(help="network, optimise, or auto: network unless --weights")
    ] = "auto",
    size: Annotated[int, typer.Option(help="largest side in pixels; 0 keeps the picture's own")] = 1024,
    strength: Annotated[float, typer.Option(help="of a style picture, 0 to 1")] = 1.0,
    network: Annotated[str, typer.Option(help="a network that `trilobite style-train` wrote")] = "",
    weights: Annotated[
        str, typer.Option(help="VGG19's weights, to optimise: .pth .safetensors .npz .mat")
    ] = "",
    steps: Annotated[int, typer.Option(help="of the optimisation")] = 200,
    optimiser: Annotated[str, typer.Option(help="of the optimisation: adam or lbfgs")] = "adam",
    preview: Annotated[
        int,
        typer.Option(help="steps of the optimisation after which the picture so far is written; 0: never"),
    ] = 25,
    keep_colours: Annotated[bool, typer.Option(help="keep the content's colours")] = False,
    memory: Annotated[
        int,
        typer.Option(help="MiB that a picture may take at once; larger ones go in strips; 0: half the free"),
    ] = 0,
    compare: Annotated[bool, typer.Option(help="run on the CPU too, and say how far apart they are")] = False,
) -> None:
    """Paint a picture in the style of another."""
    _check(content, output, on, method)
    optimised = method == "optimise" or (method == "auto" and bool(weights))
    room = memory << 20 or None
    showing: list[Callable[[Pixels], None]] = []  # where pictures so far go

    def prepared(target: str) -> Stylise:
        if optimised:
            return _by_optimisation(style, weights, (steps, optimiser, target), preview, showing)
        return _by_network(style, network, strength, target, room)

    paint = prepared(on)
    again = prepared("cpu") if compare and on != "cpu" else None
    jobs, failed = list(_jobs(content, output)), 0
    for number, (source, place) in enumerate(jobs, start=1):
        which = f"{number} of {len(jobs)}  " if len(jobs) > 1 else ""
        try:
            found = _frames(source, place, size or None)
        except FileError as error:
            if len(jobs) == 1:
                raise
            failed += 1
            typer.echo(f"{which}left out: {error}")
            continue
        still = found.pictures[0]
        showing[:] = [lambda so_far, to=place, of=still: _finish(to, of, so_far, keep_colours)]  # type: ignore[misc]
        began = time.perf_counter()
        with _simulated(not optimised) as cost:
            painted = [paint(picture.pixels) for picture in found.pictures]
        seconds = time.perf_counter() - began
        if len(painted) == 1:
            _finish(place, still, painted[0], keep_colours)
        else:
            _animate(place, found, painted, keep_colours)
        height, width = still.size
        many = f"{len(painted)} frames of " if len(painted) > 1 else ""
        typer.echo(f"{which}{place}: {many}{width} x {height} on {on} in {seconds:.2f} s{cost}")
        if again is not None:
            showing.clear()
            beside = [again(picture.pixels) for picture in found.pictures]
            typer.echo(f"  {difference(np.stack(painted), np.stack(beside))}")
    if failed:
        typer.echo(f"{failed} of {len(jobs)} pictures could not be read.", err=True)
        raise typer.Exit(1)


class _Cost:
    """What processors took while a picture was painted; cycles, seconds and joules are added up."""

    def __init__(self) -> None:
        self.cycles, self.seconds, self.joules = 0, 0.0, 0.0

    def add(self, run: Run) -> None:
        self.cycles += run.cycles
        self.seconds += run.seconds
        self.joules += run.energy.total

    def __str__(self) -> str:
        if not self.cycles:
            return ""
        took = f"{self.seconds * 1e3:,.2f} ms, {self.joules * 1e3:,.2f} mJ"
        return f": {self.cycles:,} cycles, {took} simulated"


@contextmanager
def _simulated(wanted: bool) -> Iterator[_Cost]:
    """Adds up the launches of processors meanwhile. Timing hundreds of steps would take as long as running
    them, so those of an optimisation are not wanted.
    """
    found = _Cost()
    if wanted:
        device.listeners.append(found.add)
    try:
        yield found
    finally:
        if wanted:
            device.listeners.remove(found.add)


def _check(content: Path, output: Path, on: str, method: str) -> None:
    """What can be known to be wrong before anything is read, fetched or painted."""
    if method not in METHODS:
        raise ArgumentError(f"a method {method!r}", expected=", ".join(METHODS))
    if not content.is_dir() and not output.is_dir():
        pictures.check_ending(output)
    find(on)


def _frames(source: Path, place: Path, side: int | None) -> Frames:
    """What is painted; an animation only where the result can be one, asked before anything runs."""
    found = pictures.read_frames(source, side)
    if len(found.pictures) > 1 and place.suffix.lower() not in pictures.ANIMATIONS:
        raise ArgumentError(
            f"an animation of {len(found.pictures)} frames as {place}",
            expected=f"one of the endings {', '.join(pictures.ANIMATIONS)}",
            remedy="give -o painted.gif",
        )
    return found


def _animate(place: Path, found: Frames, painted: list[Pixels], keep_colours: bool) -> None:
    if keep_colours:
        pairs = zip(painted, found.pictures, strict=True)
        painted = [pictures.with_colours_of(new, picture.pixels) for new, picture in pairs]
    pictures.write_frames(place, painted, found.milliseconds)


def _finish(place: Path, picture: Picture, painted: Pixels, keep_colours: bool) -> None:
    if keep_colours:
        painted = pictures.with_colours_of(painted, picture.pixels)
    pictures.write(place, painted, picture.alpha)


def difference(found: Pixels, cpu: Pixels) -> str:
    """How far two pictures are apart, in levels of 255."""
    apart = np.abs(found.astype(np.float64) - cpu) * 255
    return f"against the CPU: at most {apart.max():.3f} of 255, {apart.mean():.4f} in the mean"


def _jobs(content: Path, output: Path) -> Iterator[tuple[Path, Path]]:
    """Pairs of a picture and where its result goes; of a folder, each under its own name."""
    if not content.is_dir():
        if not content.is_file():
            raise FileError("there is no such picture", where=content, remedy="check the path")
        yield content, output / content.name if output.is_dir() else output
        return
    found = sorted(p for p in content.iterdir() if p.suffix.lower() in pictures.EXTENSIONS)
    if not found:
        raise FileError("the folder holds no pictures", where=content, expected="PNG or JPEG files")
    if output.suffix.lower() in pictures.EXTENSIONS:
        raise ArgumentError(
            f"{len(found)} pictures for one file {output}", expected="a folder", remedy="give -o FOLDER"
        )
    for path in found:
        yield path, output / path.name


def _by_network(style: str, network: str, strength: float, target: Any, memory: int | None) -> Stylise:
    from trilobite.apps.style.real_time import AnyStyle, Multistyle, Transform

    if network:
        return Transform(network, target, memory)
    if _is_picture(style):
        any_style = AnyStyle(target)
        code = any_style.read_style(pictures.read(style).pixels)  # once for all pictures of a folder
        return lambda pixels: any_style.paint(pixels, code, strength)
    multistyle = Multistyle(target, memory)
    return lambda pixels: multistyle(pixels, style)


def _is_picture(style: str) -> bool:
    return Path(style).suffix.lower() in pictures.EXTENSIONS or Path(style).is_file()


def _by_optimisation(
    style: str,
    weights: str,
    search: tuple[int, str, Any],
    preview: int,
    showing: Sequence[Callable[[Pixels], None]],
) -> Stylise:
    from trilobite.apps.style import features, optimise
    from trilobite.framework.progress import Progress

    steps, optimiser, target = search
    extractor = features.vgg19(weights) if weights else features.efficientnet()
    tuned: dict[str, Any] = {} if weights else LITE
    settings = optimise.Settings(steps=steps, optimiser=optimiser, target=target, **tuned)
    if not _is_picture(style):
        raise ArgumentError(
            f"a style {style!r} to optimise for", expected="a picture", remedy="give the path of a painting"
        )
    painted_style = pictures.read(style, 512).pixels

    def paint(pixels: Pixels) -> Pixels:
        with Progress() as bar:
            bar.start("painting", steps)

            def watch(number: int, loss: float, so_far: Pixels) -> None:
                bar.advance({"loss": loss})
                if preview and number % preview == 0 and number < steps:
                    for show in showing:
                        show(so_far)

            return optimise.stylise(pixels, painted_style, extractor, settings, watch)

    return paint
