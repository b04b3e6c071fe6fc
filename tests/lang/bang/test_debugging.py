"""The debugger on BANG C: source lines, variables and buffers at both levels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from bang_harness import LEVELS, needs_clang, run, written

from trilobite.base.errors import ProcessorFault
from trilobite.processor.device import Device, Module
from trilobite.processor.lang.bang.source import Options, compile_file
from trilobite.processor.lang.inspection import buffer, variables
from trilobite.processor.tools.debugger import Debugger
from trilobite.processor.tools.launching import named_launch
from trilobite.processor.tools.session import Session

pytestmark = needs_clang
SOURCE = """#include <bang.h>
__mlu_global__ void count(float *x, int *out, int n, float limit) {
  __nram__ float tile[64];
  __memcpy(tile, x, n * sizeof(float), GDRAM2NRAM);
  int found = 0;
  for (int i = 0; i < n; i++) {
    float value = tile[i];
    if (value > limit) {
      printf("%d\\n", i);
      found += 1;
    }
  }
  out[0] = found;
}
"""


def held(level: int, folder: Path) -> Debugger:
    device = Device("mlu370-x4")
    program = compile_file(written(SOURCE, folder), device.machine, Options(level=level))
    x, out = device.array(np.array([1.5, -2.0, 4.25, 8.0], np.float32)), device.array(np.zeros(1, np.int32))
    debug = Debugger(device, Module(program)["count"], [x, out, 4, 1.0])
    debug.break_at("9")
    debug.run()
    return debug


def test_every_variable_is_there_at_level_0(tmp_path: Path) -> None:
    debug = held(0, tmp_path)
    assert {"n": 4, "limit": 1.0, "i": 0, "value": 1.5, "found": 0}.items() <= variables(debug).items()
    debug.run()
    seen = variables(debug)
    assert (seen["i"], seen["value"], seen["found"]) == (2, 4.25, 1)


@pytest.mark.parametrize("level", LEVELS)
def test_buffers_and_values_that_exist(level: int, tmp_path: Path) -> None:
    debug = held(level, tmp_path)
    assert buffer(debug, "tile")[:4].tolist() == [1.5, -2.0, 4.25, 8.0]
    debug.run()
    assert variables(debug)["i"] == 2


def test_a_session_shows_variables_and_arrays(tmp_path: Path) -> None:
    source = written(
        "#include <bang.h>\n__mlu_entry__ void twice(float *x, int n) {\n  __nram__ float a[64];\n"
        "  __memcpy(a, x, n * 4, GDRAM2NRAM);\n  int middle = n / 2;\n  __bang_add(a, a, a, n);\n"
        "  x[0] = a[middle];\n}\n",
        tmp_path,
    )
    named = named_launch(str(source), "mlu370-x4", "twice", ["random:f32:8", "8"], "1", "block", level=0)
    session = Session(Debugger(named.device, named.kernel, named.args))
    session.execute("break 6")
    session.execute("run")
    assert session.execute("vars n middle") == "n = 8\nmiddle = 4"
    assert session.execute("buffer a").startswith("[")
    assert "no variable 'none' is set here" in session.execute("vars none")
    assert "the kernel has no buffer 'b'" in session.execute("buffer b")


@pytest.mark.parametrize("level", LEVELS)
def test_a_kernel_that_stops_itself_says_why(tmp_path: Path, level: int) -> None:
    """The words of the assertion or the call, with its line; what was printed last stands behind them."""
    text = """#include <assert.h>
__mlu_entry__ void k(int *out, int n) {
  assert(n != 7 && "seven");
  if (n == 8) __bang_printf("n is %d\\n", n);
  if (n >= 8) __abort();
  out[0] = n;
}
"""
    source = written(text, tmp_path)
    told = {
        7: ('code 1: assertion failed: n != 7 && "seven"\n', 3),
        8: ("code 1: __abort; the last line it printed: n is 8\n", 5),
        9: ("code 1: __abort\n", 5),
    }
    for n, (message, line) in told.items():
        with pytest.raises(ProcessorFault) as caught:
            run(source, "k", [np.zeros(1, np.int32), n], level=level)
        assert message in str(caught.value) and f"{source.name}:{line})" in str(caught.value)


STRUCTS = """#include <bang.h>
struct Point { float x; short y[2]; };
struct Box : Point { Point corner; unsigned char tag; half weight; int flags : 3; };
__mlu_func__ float half_of(const Box &b, unsigned short most) {
  float both[2] = {b.corner.x, b.x};
  return both[0] / 2 + most;
}
__mlu_entry__ void k(float *out, int n, half h) {
  Box box = {{1.5f, {-2, 3}}, {2.25f, {4, (short)n}}, 200, h, 1};
  Point few[2] = {{0.5f, {7, 8}}, {-1.0f, {9, (short)n}}};
  long grid[2][3] = {{1, 2, 3}, {4, 5, n}};
  unsigned int bits = 0xFFFFFFFF;
  out[0] = half_of(box, 65535) + few[n & 1].x + grid[1][n % 3];
  out[1] = bits;
}
"""


def test_structs_arrays_and_unsigned_numbers_at_level_0(tmp_path: Path) -> None:
    """Everything that a source's function holds, also in a function that it calls, by its own names."""
    words = ["zeros:f32:2", "5", "0.75"]
    named = named_launch(str(written(STRUCTS, tmp_path)), "mlu370-x4", "", words, "1", "block", level=0)
    debug = Debugger(named.device, named.kernel, named.args)
    debug.break_at("6")
    debug.run()
    seen = variables(debug)
    assert seen["half_of.both"].tolist() == [2.25, 1.5] and seen["half_of.most"] == 65535
    debug.break_at("14")
    debug.run()
    seen = variables(debug)
    box, few = seen["box"], seen["few"]
    assert (box["x"], box["corner.x"], box["tag"], box["weight"]) == (1.5, 2.25, 200, 0.75)
    assert box["y"].tolist() == [-2, 3] and box["corner.y"].tolist() == [4, 5] and "flags" not in box
    assert few["[0].x"] == 0.5 and few["[1].y"].tolist() == [9, 5]
    assert seen["grid"].tolist() == [[1, 2, 3], [4, 5, 5]] and seen["bits"] == 0xFFFFFFFF
    session = Session(debug)
    assert session.execute("buffer grid") == "[[1 2 3]\n [4 5 5]]"
    assert "grid: i64 2x3 in stack" in session.execute("buffer")
