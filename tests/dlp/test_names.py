"""Names of `trilobite.dlp` that are nearly right: the nearest three are told, if any is near enough."""

from __future__ import annotations

import pytest

from trilobite import dlp

NEAR = {
    "xram": {"nram", "wram", "sram"}, "sync_al": {"sync_all", "sync"}, "matmull": {"matmul", "matmul_top"},
    "conver": {"convert", "conv"}, "gather_": {"gather", "greater"}, "zzzz": set(), "pool_maxx": set(),
}  # fmt: skip


@pytest.mark.parametrize("name", NEAR)
def test_names_that_are_near(name: str) -> None:
    with pytest.raises(AttributeError, match=f"trilobite.dlp has no '{name}'") as error:
        getattr(dlp, name)
    _, told, names = str(error.value).partition("; it has ")
    assert bool(told) == bool(NEAR[name]) and set(filter(None, names.split(", "))) == NEAR[name]


def test_what_tables_give_is_there() -> None:
    for name in dir(dlp):
        assert getattr(dlp, name) is not None
    assert callable(dlp.add) and str(dlp.f32) != str(dlp.f16)
