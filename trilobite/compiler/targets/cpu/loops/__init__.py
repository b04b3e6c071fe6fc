"""Loop nests over buffers: their IR, schedules, dependence tests, and emission as LLVM and C."""
