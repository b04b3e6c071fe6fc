"""Compilation by several processes, and the bar that shows it."""

from __future__ import annotations

import io
import subprocess
import sys

import pytest

from tests.native.kernels import AFFINE
from trilobite.base.errors import IRError
from trilobite.native import parallel, progress
from trilobite.native.host import features
from trilobite.native.objects import compile_object, symbol
from trilobite.native.parallel import compile_all, seconds_of_work
from trilobite.native.worker import ANSWER, COMPILED, REFUSED, REQUEST, serve

TEXTS = [(AFFINE.replace("2.0", f"{i}.0"), level) for i in range(400, 408) for level in (0, 1)]
ALONE = {symbol(*one): compile_object(*one, features()) for one in TEXTS}


def test_workers_give_the_same_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "_WORTH", 0.0)
    asked: list[object] = []
    ask = parallel._ask
    monkeypatch.setattr(parallel, "_ask", lambda *a: asked.append(a) or ask(*a))
    monkeypatch.setattr(parallel._Batch, "work", lambda self, bar: None)  # this process does nothing itself
    assert compile_all(TEXTS, cores=3) == ALONE
    assert len(asked) == len(TEXTS)


def test_small_work_starts_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "_start", lambda: pytest.fail("a process was started"))
    assert seconds_of_work(TEXTS) < 0.5
    assert compile_all(TEXTS, cores=4) == ALONE
    assert parallel._helpers(TEXTS * 1000, 1) == 0
    assert parallel._helpers(TEXTS * 1000, 4) == 3
    monkeypatch.setattr(sys, "executable", "")
    assert parallel._helpers(TEXTS * 1000, 4) == 0


@pytest.mark.parametrize(
    "program",
    ["pass", "import sys; sys.stdin.buffer.read(50)", "print('x' * 5)", "print('\\0' + '\\1' * 99)"],
)
def test_workers_that_die_or_talk_nonsense_cost_nothing_but_time(
    program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-c", program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    monkeypatch.setattr(parallel, "_WORTH", 0.0)
    monkeypatch.setattr(parallel, "_start", broken)
    assert compile_all(TEXTS, cores=3) == ALONE


def test_no_process_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> subprocess.Popen[bytes]:
        raise OSError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(parallel, "_WORTH", 0.0)
    monkeypatch.setattr(parallel, "_start", none)
    assert compile_all(TEXTS, cores=3) == ALONE


def test_text_that_a_worker_refuses_raises_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "_WORTH", 0.0)
    with pytest.raises(IRError, match="LLVM refuses the text"):
        compile_all([*TEXTS, ("nonsense " * 1000, 0)], cores=2)


def test_a_worker_answers_in_order_until_its_input_ends() -> None:
    texts = [AFFINE.encode(), b"nonsense", AFFINE.encode()]
    requests = b"".join(REQUEST.pack(0, len(text)) + text for text in texts)
    answers = io.BytesIO()
    serve(io.BytesIO(requests + b"half"), answers)
    answers.seek(0)
    seen = []
    while head := answers.read(ANSWER.size):
        status, length = ANSWER.unpack(head)
        seen.append((status, answers.read(length)))
    assert [status for status, _ in seen] == [COMPILED, REFUSED, COMPILED]
    assert seen[0][1] == compile_object(AFFINE, 0, features()) == seen[2][1]
    assert b"LLVM refuses" in seen[1][1]


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("patience", "terminal", "shown"), [(0, True, True), (60, True, False), (0, False, False)]
)
def test_a_bar_is_shown_to_those_who_wait_at_a_terminal(
    patience: float, terminal: bool, shown: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = _Terminal() if terminal else io.StringIO()
    monkeypatch.setattr(progress, "PATIENCE", patience)
    monkeypatch.setattr(sys, "stderr", stream)
    compile_all(TEXTS[:3])
    assert ("compiling kernels" in stream.getvalue()) == shown
