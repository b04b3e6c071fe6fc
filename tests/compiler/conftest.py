"""What the tests of the compiler share is imported by its full name: tests.compiler.arrays and so on."""

import sys
from pathlib import Path

ROOT = str(Path(__file__).resolve().parents[2])
if ROOT not in sys.path:
    sys.path.insert(0, ROOT)
