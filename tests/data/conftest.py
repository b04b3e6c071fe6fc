"""Worker processes import what they are sent: the subjects of the tests must be importable by name."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
