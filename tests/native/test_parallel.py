"""Compilation by several threads, ahead of need, in parts; and the bar that shows it."""

from __future__ import annotations

import io
import os
import sys
import threading

import pytest

from tests.native.kernels import AFFINE
from trilobite.base.errors import IRError
from trilobite.native import parallel, progress
from trilobite.native.host import features
from trilobite.native.objects import compile_object, prepare, symbol
from trilobite.native.parallel import Makers, begin, compile_all, seconds_of_work

TEXTS = [(AFFINE.replace("2.0", f"{i}.0"), level) for i in range(400, 408) for level in (0, 1)]
ALONE = {symbol(*one): prepare(compile_object(*one, features()), symbol(*one)) for one in TEXTS}


@pytest.fixture
def makers(monkeypatch: pytest.MonkeyPatch) -> Makers:
    fresh = Makers()
    monkeypatch.setattr(parallel, "_makers", fresh)
    monkeypatch.setattr(parallel, "_WORTH", 0.0)
    return fresh


@pytest.mark.parametrize("cores", [1, 2, 4])
def test_any_number_of_threads_gives_the_same_bytes(cores: int, makers: Makers) -> None:
    assert compile_all(TEXTS, cores=cores) == ALONE


def _until_threads_rest() -> None:
    for thread in threading.enumerate():
        if thread.name == "trilobite compiles":
            thread.join()


def test_other_threads_do_what_they_can(makers: Makers, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []

    def noted(*one: object) -> bytes:
        compiled.append(threading.current_thread().name)
        return compile_object(*one)  # type: ignore[arg-type]

    monkeypatch.setattr(parallel, "compile_object", noted)
    begin(TEXTS, cores=3)
    _until_threads_rest()
    assert set(compiled) == {"trilobite compiles"}
    assert len(compiled) == len(TEXTS)
    assert compile_all(TEXTS, cores=3) == ALONE
    assert len(compiled) == len(TEXTS)  # what was begun ahead is not made again


def test_kernels_made_ahead_stay_while_others_are_collected(
    makers: Makers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A training step has two programs, and the second has many kernels: it lost those above a few."""
    compiled: list[str] = []

    def noted(text: str, *rest: object) -> bytes:
        compiled.append(text)
        return compile_object(text, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(parallel, "compile_object", noted)
    monkeypatch.setattr(parallel, "_KEPT", 2)
    begin(TEXTS[4:], cores=2)
    compile_all(TEXTS[:4], cores=1)
    assert compile_all(TEXTS[4:], cores=1) == {symbol(*one): ALONE[symbol(*one)] for one in TEXTS[4:]}
    assert len(compiled) == len(TEXTS)


def test_of_kernels_that_nobody_asks_for_the_latest_stay(
    makers: Makers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parallel, "_AHEAD", 3)
    begin(TEXTS[4:], cores=2)
    _until_threads_rest()
    compile_all(TEXTS[:4], cores=1)
    assert len(makers._objects) == len(makers._parts) == 3
    assert compile_all(TEXTS, cores=2) == ALONE


def test_one_core_begins_nothing_ahead(makers: Makers) -> None:
    begin(TEXTS, cores=1)
    assert not makers.step()


def test_little_work_starts_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    fresh = Makers()
    monkeypatch.setattr(parallel, "_makers", fresh)
    monkeypatch.setattr(threading.Thread, "start", lambda self: pytest.fail("a thread was started"))
    few = TEXTS[:2]
    assert seconds_of_work(few) < parallel._WORTH
    assert compile_all(few, cores=4) == {symbol(*one): ALONE[symbol(*one)] for one in few}


@pytest.mark.parametrize("cores", [1, 3])
def test_text_that_llvm_refuses_raises_for_who_asked(cores: int, makers: Makers) -> None:
    with pytest.raises(IRError, match="LLVM refuses the text"):
        compile_all([*TEXTS, ("nonsense " * 1000, 0)], cores=cores)
    assert compile_all(TEXTS, cores=cores) == ALONE


def test_an_error_ahead_is_told_when_the_kernel_is_asked_for(makers: Makers) -> None:
    bad = ("nonsense " * 1000, 0)
    begin([bad], cores=2)
    assert compile_all(TEXTS, cores=2) == ALONE
    with pytest.raises(IRError, match="LLVM refuses the text"):
        compile_all([bad], cores=2)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_child_compiles_what_its_parent_had_begun() -> None:
    texts = [(AFFINE.replace("2.0", f"{i}.25"), 0) for i in range(64)]
    begin(texts, cores=2)
    child = os.fork()
    if child == 0:
        os._exit(0 if len(compile_all(texts, cores=2)) == len(texts) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert len(compile_all(texts, cores=2)) == len(texts)


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


def test_a_bar_stands_on_standard_error_alone_and_is_gone_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    out, error = _Terminal(), _Terminal()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", error)
    monkeypatch.setattr(progress, "PATIENCE", -1)
    for name, value in (("TERM", "xterm"), ("COLUMNS", "100")):
        monkeypatch.setenv(name, value)
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    with progress.Progress("kernels", 7) as bar:
        for done in (3, 5):
            bar.show(done)
    text = error.getvalue()
    assert out.getvalue() == "" and "kernels" in text
    erased = "\x1b[2K"
    assert text.rindex(erased) > text.rindex("5/7"), "what was drawn last is erased"


@pytest.mark.parametrize("cores", [1, 2])
def test_an_interrupt_while_compiling_leaves_the_kernel_to_be_asked_for_again(
    cores: int, makers: Makers, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = compile_object
    interrupts = [KeyboardInterrupt()]

    def interrupted(*given: object) -> bytes:
        if interrupts and threading.current_thread() is threading.main_thread():
            raise interrupts.pop()
        return plain(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(parallel, "compile_object", interrupted)
    with pytest.raises(KeyboardInterrupt):
        compile_all([(AFFINE, 2)], cores=1)
    assert makers._busy == 0  # a fork would wait for it
    found: list[dict[str, bytes]] = []
    again = threading.Thread(
        target=lambda: found.append(compile_all([(AFFINE, 2)], cores=cores)), daemon=True
    )
    again.start()
    again.join(60)
    assert found and set(found[0]) == {symbol(AFFINE, 2)}
