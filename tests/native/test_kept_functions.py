"""`Text.kept`: functions that are emitted once stand in later texts as if they had been emitted there."""

from __future__ import annotations

from trilobite.base.dtypes import float32
from trilobite.native.host import features
from trilobite.native.llvm.text import Text
from trilobite.native.objects import assembly


def text(n: int, kept: bool, before: bool = False, key: str = "root") -> str:
    t = Text(features())
    x = t.argument(0, "ptr")
    if before:  # declares what the function declares, too
        t.store(float32, t.sqrt(t.load(float32, x, 4)), x)

    def emit() -> None:
        with t.function(f"root{n}", ["ptr noalias"]) as (p,):
            t.store(float32, t.sqrt(t.load(float32, p, n)), p)
            t.prefetch(p)

    if kept:
        t.kept((key, n), emit)
    else:
        emit()
    t.call(f"root{n}", x)
    return t.module()


def test_texts_are_the_same_whoever_was_first() -> None:
    for before in (False, True, False):
        assert text(8, True, before) == text(8, False, before)
    assert text(4, True) == text(4, False) != text(8, True)
    assert "sqrtps" in assembly(text(8, True, True), 0, features())


def test_keys_tell_functions_apart() -> None:
    assert text(8, True, key="a") == text(8, True, key="b")


def test_what_shares_tables_or_functions_is_emitted_each_time() -> None:
    def made(kept: bool, first: int) -> str:
        t = Text(features())
        t.table("i32", [first])

        def emit() -> None:
            with t.function("reads", ["ptr noalias"]) as (p,):
                t.store_type(t.load_type("i32", t.table("i32", [7])), p)

        def shared() -> None:
            if t.first("helper"):
                with t.function("helper", ["ptr noalias"]):
                    pass

        for key, each in (("reads", emit), ("helper", shared), ("helper", shared)):
            if kept:
                t.kept(key, each)
            else:
                each()
        return t.module()

    for first in (1, 2, 7):
        assert made(True, first) == made(False, first)
        assert made(True, first).count("@helper(") == 1
