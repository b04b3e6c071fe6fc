"""What these rooms load: nothing heavy before it is needed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = str(Path(__file__).resolve().parents[2])
CODE = """
import sys
import trilobite.framework.data, trilobite.framework.metrics, trilobite.framework.logs
heavy = {"PIL", "sklearn", "scipy", "multiprocessing", "tensorboard", "google", "tempfile", "gzip"}
print(sorted(heavy & sys.modules.keys()))
"""


def test_nothing_heavy_is_imported() -> None:
    paths = os.pathsep.join([ROOT, *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-c", CODE], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": paths}
    )
    assert done.stdout.strip() == "[]", done.stderr
