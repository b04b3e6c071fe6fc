"""Whole programs, host and device in one file, by one command each: `trilobite kernel run program.mlu`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from bang_harness import needs_clang

from trilobite.processor.lang.bang.host_program import plain_name

pytestmark = needs_clang
PROGRAMS = sorted((Path(__file__).parents[3] / "examples" / "kernels" / "bang" / "programs").glob("*.mlu"))
SHORT = ("vector_add", "half_and_float")
COMMAND = [sys.executable, "-c", "from trilobite.cli import main; main()", "kernel", "run"]


def run(source: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, str(source), *words], capture_output=True, text=True, timeout=110, check=False
    )


def test_there_are_ten_programs() -> None:
    assert len(PROGRAMS) >= 10


@pytest.mark.parametrize(
    "source",
    [pytest.param(p, id=p.stem, marks=() if p.stem in SHORT else pytest.mark.long) for p in PROGRAMS],
)
def test_a_program_runs_by_one_command(source: Path) -> None:
    done = run(source)
    assert done.returncode == 0 and "passed" in done.stdout and "FAILED" not in done.stdout, (
        done.stdout + done.stderr
    )
    assert "launches" in done.stderr and "cycles" in done.stderr


BROKEN = """#include <bang.h>
#include <stdio.h>
__mlu_global__ void k(float *y) { y[0] = 1; }
int main(int argc, char **argv) {
  printf("begun with %d words\\n", argc);
  float *y = nullptr;
  cnrtDim3_t dim = {1, 1, 1};
  if (argc > 1) cnrtMalloc((void **)&y, 4);
  k<<<dim, CNRT_FUNC_TYPE_BLOCK, nullptr>>>(y);
  return 7;
}
"""


def test_exit_codes_arguments_and_faults_of_the_device(tmp_path: Path) -> None:
    source = tmp_path / "broken.mlu"
    source.write_text(BROKEN, "utf-8")
    fine = run(source, "--arg", "word")
    assert fine.returncode == 7 and fine.stdout == "begun with 2 words\n"
    lost = run(source)
    assert lost.returncode == 1 and "begun with 1 words" in lost.stdout and "broken.mlu:3" in lost.stderr


def test_an_exception_ends_the_program_with_its_text() -> None:
    source = next(path for path in PROGRAMS if path.stem == "modern_host")
    done = run(source, "--arg", "2000000")
    assert done.returncode == 1
    assert "the program threw an exception: more than 1048576 elements" in done.stderr


def test_symbols_are_told_by_their_names() -> None:
    assert plain_name("_ZNSt3__15stoulERKNS_12basic_stringIcEEPmi") == "std::stoul"
    assert plain_name("_Z9elsewherei") == "elsewhere"
    assert plain_name("_ZNSt3__16thread4joinEv") == "std::thread::join"
    assert plain_name("pthread_create") == "pthread_create"


def test_what_the_host_part_cannot_have_is_named(tmp_path: Path) -> None:
    source = tmp_path / "threads.mlu"
    text = BROKEN.replace("int main", "void elsewhere(int);\nint main").replace(
        "return 7", "elsewhere(3); return 7"
    )
    source.write_text(text, "utf-8")
    done = run(source)
    assert done.returncode != 0 and "calls what is not there" in done.stderr and "elsewhere" in done.stderr


NARROW = """#include <bang.h>
#include <stdio.h>
__mlu_global__ void k(half *y) { for (int i = 0; i < 3; ++i) y[i] = (half)(i * 0.5f); }
int main() {
  half *y = nullptr, host[3];
  char text[64];
  cnrtMalloc((void **)&y, sizeof(host));
  cnrtDim3_t dim = {1, 1, 1};
  k<<<dim, CNRT_FUNC_TYPE_BLOCK, nullptr>>>(y);
  cnrtMemcpy(host, y, sizeof(host), cnrtMemcpyDevToHost);
  printf("%.2f %d %.1f\\n", host[1], 7, host[2]);
  snprintf(text, sizeof(text), "%s %.2f", "as text", host[1]);
  fprintf(stdout, "%s %.3f %c\\n", text, (bfloat16_t)0.25f, 'x');
  return 0;
}
"""


def test_the_host_prints_halves(tmp_path: Path) -> None:
    source = tmp_path / "narrow.mlu"
    source.write_text(NARROW, "utf-8")
    done = run(source)
    assert done.stdout == "0.50 7 1.0\nas text 0.50 0.250 x\n", done.stdout + done.stderr
