"""The tests here run the examples and the kill harness of the checkpoint tests: both importable by name."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "checkpoint"), str(HERE.parents[1] / "examples" / "training")]
