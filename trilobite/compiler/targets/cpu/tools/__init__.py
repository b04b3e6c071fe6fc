"""Looking at what the CPU target made: every level as text, memory, where the time goes, a whole C file.

Enters: an `Executable` of this target, or a graph. Leaves: texts and figures for people. Nothing that runs
every time imports this. Read `profiling.py` first. May import all of `compiler.targets.cpu`, `compiler` and
below.
"""
