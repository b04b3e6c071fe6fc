"""One source gives one program: neither the hash seed nor where objects lie in memory may be seen in it.

Two processes with other seeds, of which one has its heap stirred first, compile kernels of the library in
both languages; every stage must be the same text.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from trilobite.processor.lang.bang.clang import find_clang

HERE = Path(__file__).resolve().parent
PYTHON = [
    "ladder_6",
    "convolution",
    "flash_attention",
    "top_k",
    "nms",
    "lstm_cell",
    "roi_align",
    "matmul_int4",
]
BANG = ["ladder_6", "convolution", "flash_attention", "top_k", "nms", "lstm_cell", "roi_align", "softmax"]

PROGRAM = """
import json, random, sys
sys.path.insert(0, {here!r})
kept = [[random.Random({seed}).random()] * (n % 97) for n in range({stirred})]   # other addresses
del kept[::3]
import numpy as np
from harness import EXAMPLES
from library import CASES
from trilobite.processor.lang.bang.source import Options, kernel_module
from trilobite.processor.lang.codegen.compile import compile_module
from trilobite.processor.machine import load_machine

texts = {{}}
for language, names in json.loads({wanted!r}).items():
    for name in names:
        case = CASES[name](np.random.default_rng(7))
        for machine in ("dlp-m", "mlu370-x4"):
            if language == "python":
                stages = case.python.kernel.stages(machine)
            else:
                (file, entry, *defines), stages = case.bang.kernel, {{}}
                part, options = load_machine(machine), Options(entry=entry, defines=tuple(defines))
                module = kernel_module(EXAMPLES / "bang" / (file + ".mlu"), part, options)
                compile_module(module, part, 2, stages)
            texts[f"{{language}} {{name}} on {{machine}}"] = stages
json.dump(texts, sys.stdout)
"""


def compiled(language: str, names: list[str], seed: int) -> dict[str, dict[str, str]]:
    wanted = json.dumps({language: names})
    source = PROGRAM.format(here=str(HERE), seed=seed, stirred=20_000 * (seed % 2), wanted=wanted)
    found = subprocess.run(
        [sys.executable, "-c", source], env={**os.environ, "PYTHONHASHSEED": str(seed)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert found.returncode == 0, found.stderr
    texts: dict[str, dict[str, str]] = json.loads(found.stdout)
    return texts


@pytest.mark.parametrize("language", ["python", "bang"])
def test_every_process_makes_the_same_program(language: str) -> None:
    if language == "bang" and find_clang() is None:
        pytest.skip("neither the ziglang wheel nor a clang is installed")
    names = PYTHON if language == "python" else BANG
    first, second = (compiled(language, names, seed) for seed in (1, 4242))
    for kernel, stages in first.items():
        for stage, text in stages.items():
            assert text == second[kernel][stage], f"{kernel}: stage {stage} differs"
