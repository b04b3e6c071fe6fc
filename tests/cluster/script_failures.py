"""Ranks that fail in the way that the first argument says."""

from __future__ import annotations

import os
import signal
import sys
import time

import trilobite as tb
from trilobite import cluster as c

what = sys.argv[1]
if what == "count":
    print(c.rank(), "of", c.size(), *sys.argv[2:])
    sys.exit(0)
c.barrier()
if what == "raise" and c.rank() == 1:
    raise ValueError("the data of rank 1 is wrong")
if what == "kill" and c.rank() == 2:
    print(f"killed at {time.time()}", flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
while True:
    c.all_reduce(tb.ones(3))
