"""Inputs of a model out of files, or drawn at random.

Enters: words such as `image=cat.png` or `cat.png`, sizes such as `h=256`, what to do with pixels. Leaves:
arrays by name, in the dtypes and shapes that the model declares. Read are .npy, .npz, .json, .wav and
pictures.
"""

from __future__ import annotations

import json
import os
import wave
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from trilobite.base.errors import ArgumentError, FileError
from trilobite.cli.models.subject import Array, Input

PICTURES = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".tif", ".tiff", ".gif", ".ppm", ".pgm")
USUAL_SIDE, USUAL_SIZE = 224, 1  # of a picture whose size a model leaves open; of any other open size


@dataclass(frozen=True)
class Pixels:
    """How a picture becomes numbers: (pixel / 255 − mean) / deviation, or with `raw` the pixel itself."""

    mean: tuple[float, ...] = (0.0,)
    deviation: tuple[float, ...] = (1.0,)
    raw: bool = False
    bgr: bool = False


def numbers(text: str, what: str) -> tuple[float, ...]:
    """Of "0.485,0.456,0.406"."""
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise ArgumentError(f"a {what} of {text!r}", expected="numbers with commas between them") from None


def sizes_of(words: Sequence[str]) -> dict[str, int]:
    """Of "h=256" and its like."""
    found: dict[str, int] = {}
    for word in words:
        name, _, size = word.partition("=")
        if not name or not size.isdecimal() or len(size) > 18 or int(size) < 1:
            raise ArgumentError(f"a size {word!r}", expected="NAME=NUMBER, for example h=256")
        found[name] = int(size)
    return found


def feeds(
    inputs: Sequence[Input], words: Sequence[str], sizes: Mapping[str, int], pixels: Pixels, seed: int = 0
) -> dict[str, Array]:
    """An array for every input: from its file, and at random for those without one."""
    _check_sizes(inputs, sizes)
    files = _files(inputs, words)
    rng = np.random.default_rng(seed)
    found: dict[str, Array] = {}
    for wanted in inputs:
        if wanted.name in files:
            found[wanted.name] = read(files[wanted.name], wanted, sizes, pixels)
        else:
            try:
                found[wanted.name] = drawn(wanted, sizes, rng)
            except (MemoryError, ValueError) as error:
                raise ArgumentError(
                    f"random numbers for {wanted}: {error}", expected="smaller sizes"
                ) from error
    return found


def _check_sizes(inputs: Sequence[Input], sizes: Mapping[str, int]) -> None:
    free = dict.fromkeys(d for wanted in inputs for d in wanted.shape if isinstance(d, str))
    for name in sizes:
        if name not in free:
            raise ArgumentError(
                f"the model has no open size {name!r}",
                expected=", ".join(free) or "no --size: all sizes of the inputs are fixed",
            )


def _files(inputs: Sequence[Input], words: Sequence[str]) -> dict[str, Path]:
    names = [wanted.name for wanted in inputs]
    found: dict[str, Path] = {}
    for word in words:
        name, sign, path = word.partition("=")
        if not sign or name not in names:
            free = [n for n in names if n not in found]
            if sign and not os.path.exists(word):
                raise ArgumentError(f"the model has no input {name!r}", expected=", ".join(map(str, inputs)))
            if not free:
                raise ArgumentError(f"{word}: more files than inputs", expected=", ".join(map(str, inputs)))
            name, path = free[0], word
        if name in found:
            raise ArgumentError(f"{word}: a second file for {name!r}", expected="one file for an input")
        found[name] = Path(path)
    return found


def read(path: Path, wanted: Input, sizes: Mapping[str, int], pixels: Pixels) -> Array:
    """The file as the input wants it."""
    suffix = path.suffix.lower()
    if not os.path.isfile(path):
        raise FileError("there is no such file", where=path, remedy="check the path")
    if suffix in PICTURES:
        return picture(path, wanted, sizes, pixels)
    array = _plain(path, suffix, wanted)
    if wanted.dtype != object and array.dtype != wanted.dtype:
        array = _converted(array, wanted, path)
    if array.ndim == len(wanted.shape) - 1:
        array = array[None]
    return np.ascontiguousarray(array) if array.dtype != object else array


def _converted(array: Array, wanted: Input, path: Path) -> Array:
    """In the input's dtype. Floats are rounded, numbers that no integer of that dtype is are refused."""
    if array.dtype.kind == wanted.dtype.kind == "V" and array.itemsize == wanted.dtype.itemsize:
        return array.view(wanted.dtype)  # NumPy's files do not name bfloat16
    if array.dtype.kind not in ("biufc" if wanted.dtype.kind == "c" else "biuf"):
        raise FileError(f"an array of {array.dtype}", where=path, expected=f"numbers for {wanted}")
    with np.errstate(invalid="ignore", over="ignore"):
        found = array.astype(wanted.dtype)
    if _is_whole(wanted.dtype) and not np.array_equal(found, array):
        raise FileError(
            f"the numbers of {array.dtype} are none of {wanted.dtype}", where=path, expected=str(wanted)
        )
    return found


def _is_whole(dtype: np.dtype[Any]) -> bool:
    return dtype.name.startswith(("int", "uint", "bool"))  # those of few bits too


def _plain(path: Path, suffix: str, wanted: Input) -> Array:
    if suffix == ".npy":
        return _numpy(path)
    if suffix == ".npz":
        from trilobite.framework.checkpoint.npz import load_npz

        arrays = load_npz(path)
        if wanted.name in arrays or len(arrays) == 1:
            return arrays.get(wanted.name, next(iter(arrays.values())))
        raise FileError(
            f"the file has no array {wanted.name!r}", where=path, expected=f"one of {', '.join(arrays)}"
        )
    if suffix == ".json":
        return _json(path, wanted)
    if suffix == ".wav":
        return sound(path)
    raise FileError(
        f"an input with the ending {suffix!r}", where=path, expected=".npy .npz .json .wav or a picture"
    )


def _numpy(path: Path) -> Array:
    try:
        array: Array = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError, MemoryError) as error:
        raise FileError(f"the array cannot be read: {error}", where=path) from error
    return array


def _json(path: Path, wanted: Input) -> Array:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(data, dict):
            data = data[wanted.name]
        # NumPy would cut fractions off, and not know large numbers
        kind = wanted.dtype if wanted.dtype.kind in "cO" else None if _is_whole(wanted.dtype) else np.float64
        array = np.asarray(data, kind)
    except (OSError, ValueError, KeyError, TypeError, RecursionError, OverflowError) as error:
        raise FileError(
            f"the numbers cannot be read: {type(error).__name__}: {error}",
            where=path,
            expected=f"nested lists, or an object with the key {wanted.name!r}",
        ) from error
    if array.dtype == wanted.dtype == object and not all(isinstance(v, str) for v in array.flat):
        raise FileError("not all of these are texts", where=path, expected=str(wanted))
    return array if array.dtype == wanted.dtype else _converted(array, wanted, path)


def sound(path: Path) -> Array:
    """(channels, samples) between −1 and 1; one channel as (samples,)."""
    try:
        with wave.open(str(path)) as file:
            raw = file.readframes(min(file.getnframes(), 1 << 28))
            width, channels = file.getsampwidth(), file.getnchannels()
            raw = raw[: len(raw) // (width * channels) * (width * channels)]  # of a file that was cut off
    except (OSError, EOFError, wave.Error) as error:
        raise FileError(f"the sound cannot be read: {error}", where=path, expected="PCM .wav") from error
    samples: Array
    if width == 1:
        samples = np.frombuffer(raw, np.uint8).astype(np.float32) / 128 - 1
    elif width == 3:
        whole = np.frombuffer(raw, np.uint8).reshape(-1, 3).astype(np.int32)
        samples = ((whole[:, 0] << 8 | whole[:, 1] << 16 | whole[:, 2] << 24) / 2**31).astype(np.float32)
    else:
        samples = np.frombuffer(raw, f"<i{width}").astype(np.float32) / float(1 << (8 * width - 1))
    return samples if channels == 1 else np.ascontiguousarray(samples.reshape(-1, channels).T)


def picture(path: Path, wanted: Input, sizes: Mapping[str, int], pixels: Pixels) -> Array:
    """One picture for an input (1, 3, H, W) or (1, H, W, 3); cut to the middle square's shape and resized."""
    from trilobite.apps.style import pictures

    if len(wanted.shape) != 4:
        raise ArgumentError(f"a picture for the input {wanted}", expected="an input of four dimensions")
    last = wanted.shape[3] in (1, 3) and wanted.shape[1] not in (1, 3)
    rows, columns, channels = (1, 2, 3) if last else (2, 3, 1)
    found = pictures.read(path).pixels
    height, width = (
        _side(wanted.shape[axis], sizes, found.shape[n]) for n, axis in enumerate((rows, columns))
    )
    values = _cut(found, height, width)
    if pixels.bgr:
        values = values[..., ::-1]
    if wanted.shape[channels] == 1:
        values = (values @ np.asarray([0.299, 0.587, 0.114], np.float32))[..., None]
    values = values * 255 if pixels.raw else values
    values = (values - np.asarray(pixels.mean, np.float32)) / np.asarray(pixels.deviation, np.float32)
    if wanted.dtype.kind in "iu":
        values = np.rint(values)
    array = values if last else values.transpose(2, 0, 1)
    return np.ascontiguousarray(array[None], wanted.dtype)


def _side(declared: Any, sizes: Mapping[str, int], own: int) -> int:
    if isinstance(declared, int):
        return declared
    return sizes.get(declared, own) if declared is not None else own


def _cut(found: Any, height: int, width: int) -> Any:
    """The largest part of the wanted shape in the middle, in the wanted size."""
    from trilobite.apps.style import pictures

    rows, columns = found.shape[:2]
    scale = min(rows / height, columns / width)
    h, w = (max(1, min(n, round(side * scale))) for n, side in ((rows, height), (columns, width)))
    top, left = (rows - h) // 2, (columns - w) // 2
    return pictures.resized(np.ascontiguousarray(found[top : top + h, left : left + w]), height, width)


def drawn(wanted: Input, sizes: Mapping[str, int], rng: np.random.Generator) -> Array:
    """Random numbers for an input: normal floats, small whole numbers."""
    spatial = len(wanted.shape) == 4
    shape = tuple(
        size
        if isinstance(size, int)
        else sizes.get(size or "", USUAL_SIDE if spatial and axis > 1 else USUAL_SIZE)
        for axis, size in enumerate(wanted.shape)
    )
    if wanted.dtype == np.bool_:
        return rng.integers(0, 2, shape).astype(np.bool_)
    if wanted.dtype == object:
        return np.asarray(["text"] * int(np.prod(shape)), object).reshape(shape)
    if wanted.dtype.kind in "iu":
        return rng.integers(0, 2, shape).astype(wanted.dtype)
    return rng.standard_normal(shape).astype(wanted.dtype)
