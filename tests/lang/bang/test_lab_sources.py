"""Sources as course labs write them: host program and kernel in one file, older spellings, several files."""

# ruff: noqa: E501 (sources of kernels)
from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from bang_harness import LEVELS, needs_clang, run, written

from trilobite.base.errors import ProcessorFault

pytestmark = needs_clang


def test_lines_behind_host_code_that_was_left_out(tmp_path: Path) -> None:
    """The first function behind the headers is left out; what follows is still in the source's own lines."""
    text = (
        "#include <bang.h>\n#include <sys/time.h>\n\n"
        "float worst(float a) { return nowhere_declared(a); }\n"
        "__mlu_global__ void late(float *x, float *out) {\n"
        "  __nram__ float a[64];\n"
        "  __memcpy_async(a, x, 256, GDRAM2NRAM);\n"
        "  __bang_add(a, a, a, 64);\n"
        "  __memcpy(out, a, 256, NRAM2GDRAM);\n"
        "}\n"
    )
    source = written(text, tmp_path)
    for level in LEVELS:
        with pytest.raises(ProcessorFault) as caught:
            run(source, "late", [np.ones(64, np.float32), np.zeros(64, np.float32)], level=level)
        assert f"{source.name}:7" in str(caught.value) and f"{source.name}:8" in str(caught.value)
