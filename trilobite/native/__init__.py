"""The only user of llvmlite: machine code, where it is kept, who runs it and on how many threads.

Enters: LLVM text, tables of kernels. Leaves: functions in this process, one native call per run; who owns
memory. May import `base` alone. Read `objects.py` first, then `driver.py`, then `ownership.py`.
"""
