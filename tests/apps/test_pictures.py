"""Pictures in and out: orientation, grey, transparency, sizes, and files that are none."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import typer
from PIL import Image

from trilobite.apps.style import command, pictures, real_time
from trilobite.base.errors import ArgumentError, FileError, TrilobiteError
from trilobite.processor import device

RNG = np.random.default_rng(5)


def random_bytes(*shape: int) -> np.ndarray:
    return RNG.integers(0, 256, shape, np.uint8)


def test_bytes_come_back_as_they_were(tmp_path: Path) -> None:
    levels = random_bytes(7, 5, 3)
    Image.fromarray(levels).save(tmp_path / "a.png")
    picture = pictures.read(tmp_path / "a.png")
    assert picture.size == (7, 5) and picture.alpha is None
    pictures.write(tmp_path / "b.png", picture.pixels)
    assert np.array_equal(np.asarray(Image.open(tmp_path / "b.png")), levels)


def test_orientation_of_the_camera_is_applied(tmp_path: Path) -> None:
    levels = random_bytes(4, 6, 3)
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned clockwise
    Image.fromarray(levels).save(tmp_path / "a.png", exif=exif)
    found = pictures.to_bytes(pictures.read(tmp_path / "a.png").pixels)
    assert np.array_equal(found, np.rot90(levels, -1))


def test_grey_pictures_become_three_equal_channels(tmp_path: Path) -> None:
    levels = random_bytes(5, 4)
    Image.fromarray(levels).save(tmp_path / "a.png")
    found = pictures.to_bytes(pictures.read(tmp_path / "a.png").pixels)
    assert all(np.array_equal(found[..., c], levels) for c in range(3))


def test_sixteen_bits_are_scaled_not_cut_off(tmp_path: Path) -> None:
    levels = np.asarray([[0, 32768, 65535]], np.uint16)
    Image.fromarray(levels).save(tmp_path / "a.png")
    found = pictures.to_bytes(pictures.read(tmp_path / "a.png").pixels)[0, :, 0]
    assert found.tolist() == [0, 127, 255]


def test_transparent_pictures_lie_on_white_and_keep_their_alpha(tmp_path: Path) -> None:
    levels = random_bytes(3, 4, 4)
    levels[0, 0] = (10, 20, 30, 0)
    Image.fromarray(levels).save(tmp_path / "a.png")
    picture = pictures.read(tmp_path / "a.png")
    assert picture.pixels[0, 0].tolist() == [1, 1, 1]
    pictures.write(tmp_path / "b.png", picture.pixels, picture.alpha)
    assert np.array_equal(np.asarray(Image.open(tmp_path / "b.png"))[..., 3], levels[..., 3])


def test_the_largest_side_is_kept_to(tmp_path: Path) -> None:
    Image.fromarray(random_bytes(90, 300, 3)).save(tmp_path / "a.png")
    assert pictures.read(tmp_path / "a.png", 100).size == (30, 100)
    assert pictures.read(tmp_path / "a.png", 1000).size == (90, 300)
    with pytest.raises(ArgumentError, match="a largest side of 0"):
        pictures.read(tmp_path / "a.png", 0)


def test_what_is_no_picture_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(50))
    with pytest.raises(FileError, match="the picture cannot be read"):
        pictures.read(tmp_path / "a.png")
    with pytest.raises(FileError, match="there is no such picture"):
        pictures.read(tmp_path / "absent.png")
    with pytest.raises(FileError, match="the picture cannot be written"):
        pictures.write(tmp_path / "a.nothing", np.zeros((2, 2, 3), np.float32))


def test_levels_are_rounded_to_the_nearest_and_nan_is_black() -> None:
    values = np.asarray([[-1, 0.4 / 255, 0.6 / 255], [1, 2, np.nan]], np.float32)
    assert pictures.to_bytes(values).tolist() == [[0, 0, 1], [255, 255, 0]]


def test_colours_are_kept_while_brightness_changes() -> None:
    source, painted = (RNG.random((6, 6, 3)).astype(np.float32) * 0.2 + 0.4 for _ in range(2))
    found = pictures.with_colours_of(painted, source)
    luma = np.asarray([0.299, 0.587, 0.114], np.float32)
    np.testing.assert_allclose(found @ luma, painted @ luma, atol=1e-6)
    np.testing.assert_allclose(found - found[..., :1], source - source[..., :1], atol=1e-6)


def test_the_pattern_is_the_same_everywhere_and_has_many_colours() -> None:
    pattern = pictures.to_bytes(pictures.pattern(64))
    assert np.array_equal(pattern, pictures.to_bytes(pictures.pattern(64)))
    assert len(np.unique(pattern.reshape(-1, 3), axis=0)) > 500


@pytest.mark.parametrize("ending", pictures.ANIMATIONS)
def test_all_frames_of_an_animation_come_and_go(ending: str, tmp_path: Path) -> None:
    frames = [np.full((6, 9, 3), level, np.float32) for level in (0.1, 0.5, 0.9)]
    path = tmp_path / f"moving{ending}"
    pictures.write_frames(path, frames, [40, 200, 80])
    found = pictures.read_frames(path)
    assert found.milliseconds == [40, 200, 80] and len(found.pictures) == 3
    for want, got in zip(frames, found.pictures, strict=True):
        assert np.abs(want - got.pixels).max() <= 0.03
    assert np.array_equal(pictures.read(path).pixels, found.pictures[0].pixels)


def test_frames_of_one_picture_are_that_picture(tmp_path: Path) -> None:
    pictures.write(tmp_path / "still.png", pictures.pattern(16))
    found = pictures.read_frames(tmp_path / "still.png", 8)
    assert len(found.pictures) == 1 and found.pictures[0].size == (8, 8)


def test_a_folder_goes_on_past_what_is_no_picture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "_by_network", lambda *rest: lambda pixels: 1 - pixels)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.png").write_text("no picture")
    pictures.write(tmp_path / "in" / "b.png", pictures.pattern(12))
    pictures.write_frames(
        tmp_path / "in" / "c.gif", [pictures.pattern(12), pictures.pattern(12, 3)], [50, 70]
    )
    with pytest.raises(typer.Exit):
        command.style(tmp_path / "in", output=tmp_path / "out")
    said = capsys.readouterr()
    assert "1 of 3  left out: the picture cannot be read" in said.out and "1 of 3 pictures" in said.err
    want = pictures.to_bytes(1 - pictures.read(tmp_path / "in" / "b.png").pixels)
    assert np.abs(want - pictures.to_bytes(pictures.read(tmp_path / "out" / "b.png").pixels)).max() <= 1
    assert pictures.read_frames(tmp_path / "out" / "c.gif").milliseconds == [50, 70]
    with pytest.raises(ArgumentError, match="an animation of 2 frames"):
        command.style(tmp_path / "in" / "c.gif", output=tmp_path / "c.jpg")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"output": "painted.xyz"}, "one of the endings .png"),
        ({"output": "painted"}, "a picture as 'painted'"),
        ({"on": "gpu"}, "there is no target 'gpu'"),
        ({"on": "dlp:nothing"}, "there is no machine 'nothing'"),
        ({"style": "starry"}, "or the path of a picture"),
        ({"style": "starry.jpg"}, "there is no such picture"),
    ],
)
def test_mistakes_are_told_before_anything_is_painted(
    given: dict[str, str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Image.fromarray(random_bytes(8, 8, 3)).save(tmp_path / "a.png")
    monkeypatch.setattr(real_time, "_load", lambda *_: None)
    output = Path(given.get("output", "b.png"))
    with pytest.raises(TrilobiteError, match=said):
        command.style(
            tmp_path / "a.png", given.get("style", "7"), output=tmp_path / output, on=given.get("on", "cpu")
        )
    assert not (tmp_path / output).exists()


def test_what_processors_took_is_added_up_and_told() -> None:
    run = SimpleNamespace(cycles=1_000_000, seconds=1e-3, energy=SimpleNamespace(total=2.5e-3))
    with command._simulated(wanted=True) as cost:
        for tell in device.listeners * 2:
            tell(run)  # type: ignore[arg-type]
    assert str(cost) == ": 2,000,000 cycles, 2.00 ms, 5.00 mJ simulated"
    with command._simulated(wanted=False) as nothing:
        assert not device.listeners
    assert str(nothing) == "" and not device.listeners
