"""The tests here share their checks: importable by name."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import trilobite.ir.primitives  # noqa: F401 - they fill the table
