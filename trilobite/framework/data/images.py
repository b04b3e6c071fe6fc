"""Images from files: a folder of classes, each a folder of images.

In: a directory. Out: items (uint8 array height × width × channels, class number). Pillow decodes, and is
imported when the first image is read. Only common raster formats are tried; sizes are checked before anything
is unpacked.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from trilobite.base.errors import ArgumentError, DataError, FileError
from trilobite.base.wrong_use import explain_room
from trilobite.framework.data.dataset import place

EXTENSIONS = (".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")
_FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")  # none of them runs another program
_CHANNELS = {"L": 1, "RGB": 3, "RGBA": 4}
_DECODER_ERRORS = (OSError, SyntaxError, ValueError, TypeError, LookupError, EOFError, ArithmeticError,
                   struct.error, zlib.error, MemoryError)  # fmt: skip


def read_image(
    path: str | os.PathLike[str], mode: str = "RGB", *, max_pixels: int = 1 << 26
) -> npt.NDArray[np.uint8]:
    """The pixels of a file, turned upright as its EXIF data says: (height, width, channels)."""
    from PIL import Image, ImageOps

    if mode not in _CHANNELS:
        raise ArgumentError(f"image mode {mode!r}", expected=f"one of {', '.join(_CHANNELS)}")
    try:
        with Image.open(path, formats=_FORMATS) as image:
            _check_size(image.size, max_pixels, path)
            pixels = np.array(_to_8_bits(ImageOps.exif_transpose(image)).convert(mode), np.uint8)
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise _too_large(str(error), max_pixels, path) from error
    except FileError:
        raise
    except _DECODER_ERRORS as error:
        raise FileError(
            f"the image cannot be decoded: {error}",
            where=path,
            expected=f"one of {', '.join(_FORMATS)}",
            remedy="fetch the file again, or remove it",
        ) from error
    return pixels.reshape(*pixels.shape[:2], _CHANNELS[mode])


def _to_8_bits(image: Any) -> Any:
    """Pillow clips 16-bit greys at 255 when it converts; they are scaled instead. Palettes keep their
    alpha.
    """
    from PIL import Image

    if image.mode == "P" and "transparency" in image.info:
        return image.convert("RGBA")
    if image.mode != "I" and not image.mode.startswith("I;16"):
        return image
    values = np.asarray(image).astype(np.int64)
    if values.size and (values.min() < 0 or values.max() > 0xFFFF):
        raise ValueError("its greys do not fit 16 bits")
    return Image.fromarray(((values * 255 + 0x7FFF) // 0xFFFF).astype(np.uint8))


def _check_size(size: tuple[int, int], max_pixels: int, path: Any) -> None:
    if size[0] * size[1] > max_pixels:
        raise _too_large(f"{size[0]}×{size[1]} pixels", max_pixels, path)


def _too_large(what: str, max_pixels: int, path: Any) -> FileError:
    return FileError(
        f"the image is too large: {what}",
        where=path,
        expected=f"at most {max_pixels} pixels",
        remedy="pass max_pixels= if the file is meant to be so large",
    )


class ImageFolder:
    """`root/class/.../image.png`: classes are the sorted folder names, images are sorted within a class.

    Files with other extensions and names that start with a dot are passed over. A class without images is an
    error.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        mode: str = "RGB",
        extensions: Sequence[str] = EXTENSIONS,
        max_pixels: int = 1 << 26,
    ) -> None:
        self.root, self.mode, self.max_pixels = Path(root), mode, max_pixels
        self.extensions = tuple(e.lower() for e in extensions)
        self.classes = self._find_classes()
        found = [(path, label) for label, name in enumerate(self.classes) for path in self._find_images(name)]
        self.paths = [path for path, _ in found]
        self.labels = np.array([label for _, label in found], np.int64)

    def _find_classes(self) -> list[str]:
        if not self.root.is_dir():
            raise DataError(
                "the image folder does not exist",
                where=self.root,
                expected="a directory with a folder per class",
            )
        classes = sorted(p.name for p in self.root.iterdir() if p.is_dir() and not p.name.startswith("."))
        if not classes:
            raise DataError(
                "the image folder has no classes", where=self.root, expected="a folder per class in it"
            )
        return classes

    def _find_images(self, name: str) -> list[Path]:
        found = [
            Path(folder, file)
            for folder, _, files in os.walk(self.root / name)
            for file in files
            if file.lower().endswith(self.extensions) and not file.startswith(".")
        ]
        if not found:
            raise DataError(
                f"class {name!r} has no images",
                where=self.root / name,
                expected=f"files that end in {', '.join(self.extensions)}",
                remedy="remove the empty folder",
            )
        return sorted(found)

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int, /) -> tuple[npt.NDArray[np.uint8], int]:
        i = place(index, len(self), "ImageFolder")
        return read_image(self.paths[i], self.mode, max_pixels=self.max_pixels), int(self.labels[i])


explain_room(globals())
