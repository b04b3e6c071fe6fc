"""The same program gives the same bits, however many threads NumPy's BLAS may use."""

from __future__ import annotations

import os
import subprocess
import sys

PROGRAM = """
import hashlib
import numpy as np
import trilobite as tb

rng, digest = np.random.default_rng(0), hashlib.sha256()
for _ in range(40):
    m, k, n = rng.integers(1, 300, 3)
    a = tb.tensor(rng.normal(size=(m, k)).astype("float32"))
    b = tb.tensor(rng.normal(size=(k, n)).astype("float32"))
    for out in (a @ b, a @ b[:, 0], a.T @ (a @ b)):
        digest.update(out.numpy().tobytes())
print(digest.hexdigest())
"""


def bits(threads: int) -> str:
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": str(threads)}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout


def test_products_do_not_depend_on_the_number_of_threads() -> None:
    assert bits(1) == bits(2)
