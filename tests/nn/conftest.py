"""The tests here share their checks and their table of layers: importable by name."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
