"""The roofline: its kernels compute what they say; what is kept on disk is believed only if it is whole."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from trilobite.base.dtypes import float32, float64
from trilobite.compiler.targets.cpu.tools import roofs as tool
from trilobite.compiler.targets.cpu.tools.roofs import CHAINS, Roofline, peak_text, roofline, triad_text
from trilobite.native import driver
from trilobite.native.cache import kernels
from trilobite.native.host import AARCH64, SSE2, features
from trilobite.native.memory import zeros
from trilobite.native.objects import assembly


def made(flops: float = 1e11, rates: tuple[float, ...] = (2e11, 1e11, 1e10)) -> Roofline:
    return Roofline("cpu", 2, {"float32": flops}, (1000, 10_000, 100_000), rates)


def test_the_slower_of_work_and_memory_bounds() -> None:
    r = made()
    assert r.seconds(1e9, 500) == pytest.approx(0.01)
    assert r.seconds(10, 50_000) == pytest.approx(50_000 / 1e10)
    assert r.seconds(10, 1e7) == pytest.approx(1e7 / 1e10)
    assert r.seconds(1e12, 0, "integers") == 0
    assert r.bandwidth_of(1000) == 2e11
    assert r.bandwidth_of(1001) == 1e11


def test_the_triad_is_one() -> None:
    host, n = features(), 8 * 64
    a, b, c = (zeros(3 * n) for _ in range(3))
    b[:], c[:] = np.arange(3 * n), np.linspace(-1, 1, 3 * n)
    code = kernels([(triad_text(host), 0)])
    words = [x.ctypes.data for x in (a, b, c)] + [n, 2]
    table = driver.Table([driver.Call(code.addresses[0], 0, 3)], words, scratch=64, alive=(code, a, b, c))
    table.run()
    np.testing.assert_allclose(a, b + 3 * c, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("dtype", [float32, float64], ids=str)
def test_the_chains_are_all_run(dtype: np.dtype) -> None:
    host = features()
    out = zeros(64, np.uint8)
    code = kernels([(peak_text(host, dtype), 0)])
    driver.Table([driver.Call(code.addresses[0], 0, 1)], [out.ctypes.data], scratch=64, alive=code).run()
    # x -> x / 2 + 1/4 has the fixed point 1/2, wherever it begins
    np.testing.assert_array_equal(out.view(dtype)[: host.tile_lanes(dtype.itemsize)], CHAINS / 2)


@pytest.mark.parametrize("host", [SSE2, AARCH64], ids=["sse2", "aarch64"])
def test_the_kernels_compile_for_other_machines(host: object) -> None:
    for text in (triad_text(host), peak_text(host, float32), peak_text(host, float64)):  # type: ignore[arg-type]
        assert "entry" in assembly(text, 0, host)  # type: ignore[arg-type]


def test_a_machine_is_measured_once(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = roofline()
    assert first.flops["float32"] > 1e9
    assert all(a >= b > 1e8 for a, b in zip(first.bandwidth, first.bandwidth[1:], strict=False))
    monkeypatch.setattr(tool, "measure", lambda *_: pytest.fail("measured again"))
    assert roofline() == first


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"version": 0}', None])
def test_what_is_damaged_is_measured_anew(
    damage: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRILOBITE_CACHE", str(tmp_path))
    rates = tuple(float(len(tool.SIZES) - i) for i in range(len(tool.SIZES)))
    fake = Roofline("cpu", 1, {"float32": 7.0}, tool.SIZES, rates)
    monkeypatch.setattr(tool, "measure", lambda *_: fake)
    assert roofline() == fake
    (path,) = (tmp_path / "roofline").iterdir()
    if damage is None:
        path.write_text(path.read_text().replace("7.0", "-7.0"))
    else:
        path.write_text(damage)
    assert roofline() == fake


def test_another_measurement_only_raises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRILOBITE_CACHE", str(tmp_path))
    falling = tuple(float(len(tool.SIZES) - i) for i in range(len(tool.SIZES)))
    for flops, rates, want in ((5.0, falling, 5.0), (3.0, tuple(2 * r for r in falling), 5.0)):
        fake = Roofline("cpu", 1, {"float32": flops}, tool.SIZES, rates)
        monkeypatch.setattr(tool, "measure", lambda *_, fake=fake: fake)
        found = roofline(again=True)
        assert found.flops["float32"] == want
    assert found.bandwidth == tuple(2 * r for r in falling)


def test_a_place_that_cannot_be_written_costs_time_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TRILOBITE_CACHE", str(tmp_path / "file"))
    rates = tuple(1.0 for _ in tool.SIZES)
    monkeypatch.setattr(tool, "measure", lambda *_: Roofline("cpu", 1, {"float32": 7.0}, tool.SIZES, rates))
    assert roofline().flops == {"float32": 7.0}
