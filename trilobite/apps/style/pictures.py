"""Pictures as arrays: (H, W, 3) float32 between 0 and 1, upright, without transparency.

Enters: the path of any picture that Pillow reads. Leaves: an array, and what has to be put back at the end
(the alpha channel). It knows no network.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image, ImageOps

from trilobite.base.errors import ArgumentError, FileError

Pixels = np.ndarray[Any, np.dtype[np.float32]]
LARGEST = 100_000_000  # pixels; a file that claims more is refused before it is unpacked
EXTENSIONS = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".tif", ".tiff", ".gif", ".ppm", ".pgm")
ANIMATED = (
    "GIF",
    "PNG",
    "WEBP",
)  # formats whose frames follow each other; those of others are pages or depth
ANIMATIONS = (".gif", ".png", ".webp")


class Picture(NamedTuple):
    """Colours, and the alpha channel (H, W) of a picture that has one."""

    pixels: Pixels
    alpha: Pixels | None

    @property
    def size(self) -> tuple[int, int]:
        """Height and width."""
        return self.pixels.shape[0], self.pixels.shape[1]


class Frames(NamedTuple):
    """The pictures of a file, and how long each is shown; a still picture is one frame."""

    pictures: list[Picture]
    milliseconds: list[int]


def read(path: str | Path, largest_side: int | None = None) -> Picture:
    """The picture as a camera's owner sees it: EXIF orientation applied, grey and palettes made RGB.

    Where it is transparent its colours are laid on white; the alpha channel comes back with `write`. Of an
    animation it is the first frame.
    """
    return _read(path, largest_side, 1).pictures[0]


def read_frames(path: str | Path, largest_side: int | None = None) -> Frames:
    """Every frame of an animated GIF, PNG or WebP; of any other file its picture."""
    return _read(path, largest_side, None)


def _read(path: str | Path, largest_side: int | None, most: int | None) -> Frames:
    found = Frames([], [])
    if not Path(path).is_file():
        raise FileError("there is no such picture", where=path, remedy="check the path")
    try:
        with Image.open(path) as opened:
            count = getattr(opened, "n_frames", 1) if opened.format in ANIMATED and most is None else 1
            if opened.width * opened.height * count > LARGEST:
                many = f" in {count} frames" if count > 1 else ""
                raise FileError(
                    f"a picture of {opened.width} x {opened.height}{many}",
                    where=path,
                    expected=f"at most {LARGEST} pixels",
                    remedy="make it smaller first",
                )
            for number in range(count):
                opened.seek(number)
                upright = ImageOps.exif_transpose(opened)
                upright.load()
                found.pictures.append(_picture(upright, largest_side))
                found.milliseconds.append(int(opened.info.get("duration") or 100))
    except (OSError, EOFError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        if isinstance(error, (FileError, ArgumentError)):
            raise
        raise FileError(
            f"the picture cannot be read: {error}", where=path, expected="PNG, JPEG, WebP, BMP, TIFF or GIF"
        ) from error
    return found


def _picture(upright: Image.Image, largest_side: int | None) -> Picture:
    if largest_side is not None:
        upright = _within(upright, largest_side)
    transparent = upright.mode in ("RGBA", "LA", "PA") or "transparency" in upright.info
    if not transparent:
        return Picture(_floats(_deep(upright).convert("RGB")), None)
    layers = _floats(upright.convert("RGBA"))
    alpha = layers[..., 3]
    return Picture(layers[..., :3] * alpha[..., None] + (1 - alpha[..., None]), alpha)


def _deep(image: Image.Image) -> Image.Image:
    """16-bit grey as 8-bit grey: Pillow's own conversion would cut it off at 255."""
    if not image.mode.startswith("I"):
        return image
    levels = np.asarray(image, np.float64)
    return Image.fromarray(np.clip(levels / 257 if levels.max() > 255 else levels, 0, 255).astype(np.uint8))


def _floats(image: Image.Image) -> Pixels:
    return np.asarray(image, np.float32) / np.float32(255)


def _within(image: Image.Image, side: int) -> Image.Image:
    if side < 1:
        raise ArgumentError(f"a largest side of {side}", expected="at least 1 pixel")
    if max(image.size) <= side:
        return image
    scale = side / max(image.size)
    size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
    return image.resize(size, Image.Resampling.LANCZOS)


def resized(pixels: Pixels, height: int, width: int) -> Pixels:
    """The same picture in another size."""
    if pixels.shape[:2] == (height, width):
        return pixels
    image = Image.fromarray(to_bytes(pixels)).resize((width, height), Image.Resampling.LANCZOS)
    return _floats(image)


def to_bytes(pixels: Pixels) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Each channel to the nearest of 256 levels."""
    levels = np.clip(np.nan_to_num(pixels), 0, 1) * np.float32(255) + np.float32(0.5)
    return np.asarray(levels, np.uint8)


def write_frames(path: str | Path, frames: Sequence[Pixels], milliseconds: Sequence[int]) -> None:
    """An animation that goes round for ever. The ending must be one of `ANIMATIONS`."""
    first, *others = (Image.fromarray(to_bytes(pixels)) for pixels in frames)
    _save(first, path, save_all=True, append_images=others, duration=list(milliseconds), loop=0)


def write(path: str | Path, pixels: Pixels, alpha: Pixels | None = None) -> None:
    """PNG, JPEG or whatever the ending says; the alpha channel where the format can hold it."""
    image = Image.fromarray(to_bytes(pixels))
    suffix = Path(path).suffix.lower()
    if alpha is not None and suffix in (".png", ".webp", ".tif", ".tiff"):
        image.putalpha(Image.fromarray(to_bytes(resized_plane(alpha, *pixels.shape[:2]))))
    _save(image, path)


def check_ending(path: str | Path) -> None:
    """Refuses a name that no picture can be written under, before one is painted."""
    if Path(path).suffix.lower() not in EXTENSIONS:
        raise FileError(
            f"a picture as {Path(path).name!r}",
            where=path,
            expected=f"one of the endings {', '.join(EXTENSIONS)}",
            remedy="give -o painted.png",
        )


def _save(image: Image.Image, path: str | Path, **options: Any) -> None:
    try:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        image.save(path, quality=92, **options)  # formats without loss ignore the quality
    except (OSError, ValueError) as error:
        raise FileError(
            f"the picture cannot be written: {error}",
            where=path,
            expected=f"one of the endings {', '.join(EXTENSIONS[:5])}",
        ) from error


def resized_plane(plane: Pixels, height: int, width: int) -> Pixels:
    """One channel in another size."""
    return resized(np.repeat(plane[..., None], 3, axis=2), height, width)[..., 0]


def with_colours_of(picture: Pixels, source: Pixels) -> Pixels:
    """The brightness of `picture` with the colours of `source` (YIQ: colour is kept, brushwork comes)."""
    luma = np.asarray([0.299, 0.587, 0.114], np.float32)
    change = (picture @ luma - source @ luma)[..., None]
    return np.clip(source + change, 0, 1).astype(np.float32)


def pattern(size: int = 256, seed: int = 7) -> Pixels:
    """A painting of whirls and lights in long strokes, drawn by code: a style picture that is nobody's."""
    rng = np.random.default_rng(seed)
    rows, columns = np.mgrid[0:size, 0:size].astype(np.float32) / size
    along, across = np.full_like(rows, 0.25), 0.12 * np.sin(7 * columns)
    light = np.zeros_like(rows)
    for _ in range(7):
        y, x, turn, width = rng.random(), rng.random(), rng.choice((-1, 1)), 0.06 + 0.12 * rng.random()
        away = np.hypot(rows - y, columns - x)
        near = np.exp(-((away / width) ** 2))
        along += turn * near * (rows - y) / width * 2
        across -= turn * near * (columns - x) / width * 2
        light = np.maximum(light, np.exp(-((away / (0.45 * width)) ** 2)) + 0.45 * near)
    strokes = _smeared(rng.random((size, size)).astype(np.float32), along, across)
    night = np.asarray([[0.04, 0.08, 0.26], [0.08, 0.26, 0.56], [0.38, 0.62, 0.78]], np.float32)
    day = np.asarray([[0.80, 0.38, 0.10], [0.96, 0.74, 0.18], [0.99, 0.95, 0.72]], np.float32)
    share = np.clip(light, 0, 1)[..., None]
    return np.asarray(_ramp(strokes, night) * (1 - share) + _ramp(strokes, day) * share, np.float32)


def _smeared(noise: Pixels, along: Pixels, across: Pixels, steps: int = 14) -> Pixels:
    """Noise averaged along the lines of a flow (x, y), each pixel from its own place; from 0 to 1."""
    size = noise.shape[0]
    length = np.hypot(along, across) + np.float32(1e-6)
    along, across = along / length, across / length
    total = np.zeros_like(noise)
    for way in (-1, 1):
        y, x = np.mgrid[0:size, 0:size].astype(np.float32)
        for _ in range(steps):
            at = np.clip(np.rint(y), 0, size - 1).astype(int), np.clip(np.rint(x), 0, size - 1).astype(int)
            total += noise[at]
            y, x = y + way * across[at], x + way * along[at]
    low, high = np.quantile(total, (0.02, 0.98))
    return np.asarray(np.clip((total - low) / max(high - low, 1e-6), 0, 1), np.float32)


def _ramp(levels: Pixels, colours: Pixels) -> Pixels:
    """Levels from 0 to 1 as colours between those given."""
    at = levels * (len(colours) - 1)
    low = np.minimum(at.astype(int), len(colours) - 2)
    share = (at - low)[..., None]
    return np.asarray(colours[low] * (1 - share) + colours[low + 1] * share, np.float32)
