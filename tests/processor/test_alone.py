"""The processor stands alone: it works where the other lobes cannot be imported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOMS = ("base", "native", "processor")
SCRIPT = """
import sys
from trilobite.processor import Device
import numpy as np
device = Device("dlp-m")
x = device.array(np.ones(8, np.float32))
run = device.launch(device.load("LI $1, #nram(0)\\nSMOVE $2, #8\\nVLOAD $1, $2, $0, #0\\nSYNC\\n"
                                "VAV $1, $2, $1, $1\\nSYNC\\nVSTORE $1, $2, $0, #0"), [x])
assert x.numpy().tolist() == [2.0] * 8 and run.cycles > 0
rooms = {name.split(".")[1] for name in sys.modules if name.startswith("trilobite.")}
assert rooms <= {"base", "native", "processor"}, rooms
heavy = {"torch", "jax", "typer", "rich", "PIL", "onnx"}
assert not heavy & set(sys.modules)
"""


def test_a_launch_without_the_other_lobes(tmp_path: Path) -> None:
    package = tmp_path / "trilobite"
    package.mkdir()
    source = Path(__file__).parents[2] / "trilobite"
    (package / "__init__.py").symlink_to(source / "__init__.py")
    for room in ROOMS:
        (package / room).symlink_to(source / room)
    result = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
