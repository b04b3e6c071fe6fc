"""The backend test suite of the onnx package, run by one engine.

Enters: the cases that the installed onnx package carries. Leaves: for each whether the engine passed, as the
suite's own comparison decides (dtypes and shapes equal, numbers within the case's tolerance), and why not.

    python -m tools.onnx_suite --engine trilobite --target cpu --write cpu.jsonl
    python -m tools.onnx_suite --engine onnxruntime        # in an environment that has it
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

_ENGINES = ("trilobite", "optimised", "reference", "onnxruntime")
KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator", "real")
Data = tuple[Sequence[Any], Sequence[Any]]


@dataclass
class Outcome:
    """How an engine fared in one case."""

    name: str
    kind: str
    opset: int
    passed: bool
    why: str = ""
    seconds: float = 0.0


@dataclass
class Case:
    """A model with inputs and the outputs that it must give."""

    name: str
    kind: str
    model: Any
    data: Callable[[], list[Data]]
    rtol: float
    atol: float

    @property
    def opset(self) -> int:
        versions = {o.domain: int(o.version) for o in self.model.opset_import}
        return versions.get("", versions.get("ai.onnx", max(versions.values(), default=1)))


def cases(kinds: Sequence[str] = KINDS) -> Iterator[Case]:
    """All cases of the installed package, in order of name."""
    import onnx
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the package computes infinities on purpose
        found = [(k, t) for k in kinds for t in sorted(load_model_tests(kind=k), key=lambda t: str(t.name))]
    for kind, t in found:
        if t.model is not None:
            sets = [([_plain(i) for i in a], [_plain(o) for o in b]) for a, b in t.data_sets or ()]
            yield Case(t.name, kind, t.model, partial(list, sets), t.rtol, t.atol)
            continue
        home = Path(onnx.__file__).parent.parent
        if t.url and t.url.startswith("onnx/backend/test/data/light/"):
            path = home / t.url
            model = onnx.load(path)
            yield Case(t.name, kind, model, partial(_light, model, path), t.rtol, t.atol)
        elif t.model_dir:
            folder = Path(t.model_dir)
            model = onnx.load(folder / "model.onnx")
            yield Case(t.name, kind, model, partial(_stored, model, folder), t.rtol, t.atol)


def _plain(value: Any) -> Any:
    import onnx

    if isinstance(value, onnx.TensorProto):
        return onnx.numpy_helper.to_array(value)
    if isinstance(value, onnx.SequenceProto):
        return onnx.numpy_helper.to_list(value)
    return onnx.numpy_helper.to_optional(value) if isinstance(value, onnx.OptionalProto) else value


def _light(model: Any, path: Path) -> list[Data]:
    """A published network without its weights: the input is a ramp, the output is stored."""
    import onnx

    given = {t.name for t in model.graph.initializer}
    inputs = []
    for i in model.graph.input:
        if i.name in given:
            continue
        shape = [d.dim_value or 1 for d in i.type.tensor_type.shape.dim]
        n = int(np.prod(shape))
        inputs.append((np.arange(n).reshape(shape) / n).astype(np.float32))
    out = onnx.TensorProto.FromString(path.with_name(path.stem + "_output_0.pb").read_bytes())
    return [(inputs, [onnx.numpy_helper.to_array(out)])]


def _stored(model: Any, folder: Path) -> list[Data]:
    sets: list[Data] = []
    for path in sorted(folder.glob("test_data_*.npz")):
        arrays = np.load(path, encoding="bytes", allow_pickle=False)
        sets.append((list(arrays["inputs"]), list(arrays["outputs"])))
    for data in sorted(folder.glob("test_data_set*")):
        inputs = [_read(data / f"input_{i}.pb", v.type) for i, v in enumerate(model.graph.input)
                  if (data / f"input_{i}.pb").exists()]  # fmt: skip
        outputs = [_read(data / f"output_{i}.pb", v.type) for i, v in enumerate(model.graph.output)]
        sets.append((inputs, outputs))
    return sets


def _read(path: Path, declared: Any) -> Any:
    import onnx

    kinds: dict[str, Any] = {
        "tensor_type": onnx.TensorProto,
        "sequence_type": onnx.SequenceProto,
        "optional_type": onnx.OptionalProto,
    }
    return _plain(kinds[declared.WhichOneof("value")].FromString(path.read_bytes()))


# -- engines -------------------------------------------------------------------------------------------------


def trilobite_engine(target: str) -> Callable[[Any], Callable[[Sequence[Any]], list[Any]]]:
    """Our own sessions."""
    from trilobite import inference

    def prepare(model: Any) -> Callable[[Sequence[Any]], list[Any]]:
        session = inference.load(model, target=target)
        names = [i.name for i in session.inputs]
        return lambda values: list(session.run(dict(zip(names, values, strict=False))).values())

    return prepare


def optimised_engine(model: Any) -> Callable[[Sequence[Any]], list[Any]]:
    """Our own sessions, on what `trilobite optimize` makes of the model."""
    from trilobite import inference

    return trilobite_engine("cpu")(inference.optimize(model).model)


def reference_engine(model: Any) -> Callable[[Sequence[Any]], list[Any]]:
    """The evaluator of the onnx package."""
    from onnx.reference import ReferenceEvaluator

    evaluator = ReferenceEvaluator(model)
    names = evaluator.input_names
    return lambda values: list(evaluator.run(None, dict(zip(names, values, strict=False))))


def onnxruntime_engine(model: Any) -> Callable[[Sequence[Any]], list[Any]]:
    """ONNX Runtime on the CPU."""
    import onnxruntime as ort

    ort.set_default_logger_severity(4)
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [i.name for i in session.get_inputs()]
    return lambda values: list(session.run(None, dict(zip(names, values, strict=False))))


def check(case: Case, prepare: Callable[[Any], Callable[[Sequence[Any]], list[Any]]]) -> Outcome:
    """Run one case."""
    from onnx.backend.test.runner import Runner

    started = time.perf_counter()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            run = prepare(case.model)
            for inputs, expected in case.data():
                Runner.assert_similar_outputs(expected, run(inputs), case.rtol, case.atol, case.name)
    except Exception as error:  # whatever an engine raises, it did not pass
        lines = [line.strip() for line in f"{type(error).__name__}: {error}".splitlines() if line.strip()]
        why = " | ".join(lines[:6])[:400]
        return Outcome(case.name, case.kind, case.opset, False, why, time.perf_counter() - started)
    return Outcome(case.name, case.kind, case.opset, True, "", time.perf_counter() - started)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", choices=_ENGINES, default="trilobite")
    parser.add_argument("--target", default="cpu")
    parser.add_argument("--only", default="*", help="a pattern of case names")
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument(
        "--write", type=Path, help="a file of JSON lines for the outcomes; what it holds is not run again"
    )
    parser.add_argument("--quiet", action="store_true")
    given = parser.parse_args(arguments)
    engines = {
        "optimised": optimised_engine, "reference": reference_engine, "onnxruntime": onnxruntime_engine
    }  # fmt: skip
    prepare = engines.get(given.engine) or trilobite_engine(given.target)
    before = _begun(given.write)
    outcomes = []
    for case in cases(given.kinds.split(",")):
        if case.name in before or not fnmatch.fnmatch(case.name, given.only):
            continue
        _note(given.write, {"name": case.name, "kind": case.kind, "opset": case.opset, "started": True})
        outcomes.append(check(case, prepare))
        _note(given.write, asdict(outcomes[-1]))
        if not outcomes[-1].passed and not given.quiet:
            print(f"{case.name}: {outcomes[-1].why}", flush=True)
    passed = Counter(o.kind for o in outcomes if o.passed)
    for kind, n in Counter(o.kind for o in outcomes).items():
        print(f"{kind:<20} {passed[kind]:>5} of {n}")
    print(
        f"{'all':<20} {sum(passed.values()):>5} of {len(outcomes)}  {sum(o.seconds for o in outcomes):.0f} s"
    )
    return 0


def _begun(path: Path | None) -> set[str]:
    """Cases that a process before this one began: an engine may end its process."""
    if path is None or not path.exists():
        return set()
    return {json.loads(line)["name"] for line in path.read_text().splitlines()}


def _note(path: Path | None, row: dict[str, Any]) -> None:
    if path is not None:
        with path.open("a") as f:
            f.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    sys.exit(main())
