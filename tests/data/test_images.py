"""Image folders: what is found, how it is decoded, and damaged or hostile files."""

from __future__ import annotations

import io
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest

from trilobite.base.errors import ArgumentError, DataError, FileError, IndexingError
from trilobite.framework.data import ImageFolder, Loader, read_image
from trilobite.framework.data.transforms import Resize

Image = pytest.importorskip("PIL.Image")


def picture(h: int, w: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (h, w, 3), np.uint8)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "set"
    for seed, name in enumerate(["dog/b.png", "dog/A.PNG", "cat/deep/er/1.bmp", "cat/0.png", "ant/x.ppm"]):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(picture(4 + seed, 6, seed)).save(
            path, format={".bmp": "BMP", ".ppm": "PPM"}.get(path.suffix, "PNG")
        )
    (root / "dog" / "notes.txt").write_text("not an image")
    (root / "dog" / ".hidden.png").write_bytes(b"")
    (root / ".cache").mkdir()
    (root / "README").write_text("")
    return root


class TestFolder:
    def test_classes_and_order(self, folder: Path) -> None:
        data = ImageFolder(folder)
        assert data.classes == ["ant", "cat", "dog"] and data.labels.tolist() == [0, 1, 1, 2, 2]
        assert [str(p.relative_to(folder)) for p in data.paths] == [
            "ant/x.ppm", "cat/0.png", "cat/deep/er/1.bmp", "dog/A.PNG", "dog/b.png",
        ]  # fmt: skip
        image, label = data[2]
        np.testing.assert_array_equal(image, picture(6, 6, 2))
        assert label == 1 and data[-1][1] == 2
        with pytest.raises(IndexingError, match="index 5"):
            data[5]

    def test_extensions_and_mode(self, folder: Path) -> None:
        data = ImageFolder(folder, extensions=(".PNG", ".ppm", ".bmp"), mode="L")
        assert data[0][0].shape == (8, 6, 1)
        with pytest.raises(
            DataError, match=r"class 'ant' has no images\n  where: .*ant\n  expected: files that end in .png"
        ):
            ImageFolder(folder, extensions=(".png",))

    def test_through_a_loader_with_processes(self, folder: Path) -> None:
        batches = list(Loader(ImageFolder(folder), 5, transform=Resize((3, 3)), workers=1))
        assert batches[0][0].shape == (5, 3, 3, 3) and batches[0][1].tolist() == [0, 1, 1, 2, 2]

    def test_missing(self, tmp_path: Path) -> None:
        with pytest.raises(DataError, match="does not exist"):
            ImageFolder(tmp_path / "none")
        with pytest.raises(DataError, match="has no classes"):
            ImageFolder(tmp_path)

    def test_a_corrupt_image_is_named(self, folder: Path) -> None:
        (folder / "cat" / "0.png").write_bytes(b"\x89PNG\r\n\x1a\n nonsense")
        with pytest.raises(
            DataError,
            match=r"item 1 could not be loaded: FileError: the image cannot be decoded.*\n.*cat/0.png",
        ):
            list(Loader(ImageFolder(folder), 5))


class TestDecoding:
    @pytest.mark.parametrize(("mode", "channels"), [("L", 1), ("RGB", 3), ("RGBA", 4)])
    @pytest.mark.parametrize("source", ["1", "L", "P", "LA", "RGB", "RGBA", "I;16", "CMYK"])
    def test_all_modes(self, tmp_path: Path, source: str, mode: str, channels: int) -> None:
        path = tmp_path / ("x.tiff" if source == "CMYK" else "x.png")
        image = (
            Image.fromarray(picture(3, 5))
            if source != "I;16"
            else Image.fromarray(np.zeros((3, 5), np.uint16))
        )
        (image if source == "I;16" else image.convert(source)).save(path)
        out = read_image(path, mode)
        assert out.shape == (3, 5, channels) and out.dtype == np.uint8 and out.flags.writeable

    def test_16_bits_are_scaled(self, tmp_path: Path) -> None:
        greys = np.array([[0, 128, 257, 32768], [65535, 65278, 300, 60000]], np.uint16)
        for name in ("x.png", "x.tiff"):
            Image.fromarray(greys).save(tmp_path / name)
            out = read_image(tmp_path / name, "L")[..., 0]
            np.testing.assert_array_equal(out, np.rint(greys / 257).astype(np.uint8))
            np.testing.assert_array_equal(read_image(tmp_path / name)[..., 2], out)

    def test_32_bits_are_refused(self, tmp_path: Path) -> None:
        Image.fromarray(np.array([[0, 70000]], np.int32)).save(tmp_path / "x.tiff")
        with pytest.raises(FileError, match="do not fit 16 bits"):
            read_image(tmp_path / "x.tiff")

    def test_palettes_with_transparency(self, tmp_path: Path) -> None:
        palette = Image.fromarray(picture(4, 4)).quantize(8)
        palette.save(tmp_path / "x.png", transparency=bytes([0, 128, 255]))
        assert read_image(tmp_path / "x.png").shape == (4, 4, 3)
        assert set(read_image(tmp_path / "x.png", "RGBA")[..., 3].ravel().tolist()) <= {0, 128, 255}

    def test_upright(self, tmp_path: Path) -> None:
        pixels = picture(3, 5)
        exif = Image.Exif()
        exif[0x0112] = 6  # the camera was turned: rows are columns
        Image.fromarray(pixels).save(tmp_path / "x.png", exif=exif)
        np.testing.assert_array_equal(read_image(tmp_path / "x.png"), np.rot90(pixels, -1))

    def test_too_many_pixels(self, tmp_path: Path) -> None:
        Image.fromarray(picture(10, 11)).save(tmp_path / "x.png")
        assert read_image(tmp_path / "x.png", max_pixels=110).shape == (10, 11, 3)
        with pytest.raises(
            FileError,
            match=r"too large: 11×10 pixels\n.*x.png\n  expected: at most 109 pixels\n  remedy: pass max",
        ):
            read_image(tmp_path / "x.png", max_pixels=109)

    @pytest.mark.parametrize("side", [10_000, 12_000, 60_000])  # 60 000 is beyond Pillow's own limit too
    def test_a_bomb_is_not_unpacked(self, tmp_path: Path, side: int) -> None:
        def chunk(kind: bytes, data: bytes) -> bytes:
            return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

        header = struct.pack(">2I5B", side, side, 8, 0, 0, 0, 0)
        png = (
            b"\x89PNG\r\n\x1a\n"
            + chunk(b"IHDR", header)
            + chunk(b"IDAT", zlib.compress(b"\0" * 1000))
            + chunk(b"IEND", b"")
        )
        (tmp_path / "bomb.png").write_bytes(png)
        with pytest.raises(FileError, match="the image is too large"):
            read_image(tmp_path / "bomb.png")

    def test_other_formats_are_not_tried(self, tmp_path: Path) -> None:
        (tmp_path / "x.png").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n")
        with pytest.raises(FileError, match="cannot be decoded"):
            read_image(tmp_path / "x.png")

    def test_missing_and_wrong_mode(self, tmp_path: Path) -> None:
        with pytest.raises(FileError, match=r"cannot be decoded: .*No such file"):
            read_image(tmp_path / "none.png")
        with pytest.raises(ArgumentError, match=r"image mode 'HSV'\n  expected: one of L, RGB, RGBA"):
            read_image(tmp_path / "none.png", "HSV")

    @pytest.mark.filterwarnings("ignore")  # Pillow may warn of what it finds before it gives up
    @pytest.mark.parametrize("form", ["PNG", "JPEG", "GIF", "BMP", "TIFF", "PPM", "WEBP"])
    def test_damage_gives_an_image_or_a_file_error(self, tmp_path: Path, form: str) -> None:
        rng = np.random.default_rng(0)
        buffer = io.BytesIO()
        Image.fromarray(picture(16, 16)).save(buffer, format=form)
        whole = np.frombuffer(buffer.getvalue(), np.uint8)
        path, refused = tmp_path / "x", 0
        for trial in range(60):
            data = whole[: rng.integers(0, whole.size)].copy() if trial % 3 == 0 else whole.copy()
            if data.size:
                data[rng.integers(0, min(data.size, 200), 4)] = rng.integers(0, 256, 4)
            path.write_bytes(data.tobytes())
            try:
                read_image(path, max_pixels=1 << 20)
            except FileError:
                refused += 1
        assert refused > 5
