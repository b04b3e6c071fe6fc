"""Looking at what the compiler made, whatever the target: every level as text, and where the time goes.

Enters: a graph, or what `tb.jit` gave. Leaves: text, and what a target tells of its programs. May import
`compiler.targets.contract`, `compiler.targets.registry` and `ir`, and no target. Read `levels.py` first.
"""

from trilobite.compiler.tools.levels import level_text, passes_text
from trilobite.compiler.tools.profiling import profile

__all__ = ["level_text", "passes_text", "profile"]
