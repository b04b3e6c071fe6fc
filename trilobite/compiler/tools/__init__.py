"""Looking at what the compiler made: every level as text, memory, and where the time goes."""

from trilobite.compiler.targets.cpu.tools.levels import LEVELS, level_text, passes_text
from trilobite.compiler.targets.cpu.tools.memory import MemoryReport, memory_report
from trilobite.compiler.targets.cpu.tools.profile_forms import as_json, chrome_trace, table, write_profile
from trilobite.compiler.targets.cpu.tools.profiling import Profile, Row, profile
from trilobite.compiler.targets.cpu.tools.roofs import Roofline, roofline

__all__ = [
    "LEVELS", "MemoryReport", "Profile", "Roofline", "Row", "as_json", "chrome_trace", "level_text",
    "memory_report", "passes_text", "profile", "roofline", "table", "write_profile",
]  # fmt: skip
