"""Headers of the C++ library: a source gets what they promise, and more only if it lives on more."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from bang_harness import LEVELS, needs_clang, run, written

from trilobite.base.errors import KernelError
from trilobite.processor.lang.bang.source import Options, kernel_module
from trilobite.processor.lang.bang.surroundings import named_algorithms
from trilobite.processor.machine import load_machine

pytestmark = needs_clang


def test_algorithms_arrive_by_their_names(tmp_path: Path) -> None:
    """One is named in full, one after `using namespace`, one only in a header of the source."""
    (tmp_path / "order.h").write_text("#define ASCENDING(p, n) std::partial_sort(p, p + n, p + n)\n")
    text = """#include <algorithm>
#include "order.h"
using namespace std;
__mlu_entry__ void k(int *out, int low, int high) {
  int a[7] = {5, -3, 9, 0, -8, 2, 7};
  ASCENDING(a, 7);
  reverse(a, a + 3);
  for (int i = 0; i < 7; ++i) out[i] = clamp(a[i], low, high);
  out[7] = std::max({1, 4, 3});
}
"""
    source = written(text, tmp_path)
    for level in LEVELS:
        (out,) = run(source, "k", [np.zeros(8, np.int32), -7, 6], level=level)
        assert out.tolist() == [0, -3, -7, 2, 5, 6, 6, 4]


def test_which_algorithms_a_text_names() -> None:
    known = frozenset(("sort", "max", "copy", "min", "count"))
    text = "#include <algorithm>\nint count = std::max<int>(std :: min(1, 2), copy(3)); // std::sort"
    assert named_algorithms(text, known) == ["max", "min"]
    assert named_algorithms("using namespace std;\n" + text, known) == ["copy", "max", "min"]
    assert named_algorithms(text.replace("<algorithm>", "<utility>"), known) == []


def test_a_source_that_lives_on_what_a_header_happens_to_include(tmp_path: Path) -> None:
    """std::optional comes with libc++'s <array>, which does not promise it."""
    text = """#include <array>
__mlu_entry__ void k(int *out, int n) {
  std::array<int, 3> a = {n, 2 * n, -n};
  std::optional<int> found;
  for (int x : a) if (x < 0) found = x;
  out[0] = found.value_or(41);
}
"""
    source = written(text, tmp_path)
    for level in LEVELS:
        for n, want in ((6, -6), (0, 41)):
            (out,) = run(source, "k", [np.zeros(1, np.int32), n], level=level)
            assert out.tolist() == [want]


def test_a_fault_is_told_once_with_either_reading(tmp_path: Path) -> None:
    text = "#include <array>\n__mlu_entry__ void k(int *out) {\n  out[0] = std::nothing(3);\n}\n"
    with pytest.raises(KernelError) as caught:
        kernel_module(written(text, tmp_path), load_machine("mlu370-x4"), Options())
    assert str(caught.value).count("no member named 'nothing'") == 1 and ":3:" in str(caught.value)
