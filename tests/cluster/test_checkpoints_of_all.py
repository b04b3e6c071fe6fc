"""Every strategy's checkpoint has the whole arrays of one process, written by all ranks, and any number of
ranks takes its parts out of it; what would be saved wrongly is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import trilobite as tb
from trilobite import cluster as c
from trilobite import nn, optim
from trilobite.base.errors import ClusterError, StateError

Array = np.ndarray[Any, Any]
WIDTH = 8


def stages() -> list[nn.Module]:
    """The same four layers wherever they are made."""
    tb.manual_seed(5)
    return [nn.Linear(WIDTH, WIDTH).double() for _ in range(4)]


def adam(parameters: Any) -> Any:
    return optim.AdamW(parameters, lr=0.1)


def plain(n: int) -> tuple[Any, Any]:
    model = c.DataParallel(nn.Sequential(*stages()))
    return model, adam(model.parameters())


def pipeline(n: int) -> tuple[Any, Any]:
    model = c.Pipeline(stages(), schedule="interleaved" if n < 4 else "1f1b")
    return model, adam(model.parameters())


def summa(n: int) -> tuple[Any, Any]:
    side = {1: 1, 2: 1, 4: 2}[n]
    mesh = c.mesh((n // side**2, side, side), ("data", "rows", "columns"))
    model = nn.Sequential(*(c.SummaLinear(s, mesh) for s in stages()))  # type: ignore[arg-type]
    return model, adam(model.parameters())


def cube(n: int) -> tuple[Any, Any]:
    mesh = c.mesh({1: (1, 1, 1), 2: (2, 1, 1), 4: (2, 1, 2)}[n], ("x", "y", "z"))
    model = nn.Sequential(*(c.CubeLinear(s, mesh) for s in stages()))  # type: ignore[arg-type]
    return model, adam(model.parameters())


def split_zero(n: int) -> tuple[Any, Any]:
    """ZeRO over layers whose columns and rows are split: parts of parts."""
    mesh = c.mesh((max(n // 2, 1), min(n, 2)), ("data", "model"))
    a, b, d, e = stages()
    g = mesh["model"]
    layers = c.ColumnLinear.of(a, g), c.RowLinear.of(b, g), c.ColumnLinear.of(d, g), c.RowLinear.of(e, g)  # type: ignore[arg-type]
    model = c.Zero(nn.Sequential(*layers), adam, 1 if n == 2 else 3, mesh["data"])
    return model, model.optimizer


def sharded(n: int) -> tuple[Any, Any]:
    mesh = c.mesh((max(n // 2, 1), min(n, 2)), ("data", "model"))
    model = nn.Sequential(*stages())
    opt = adam(model.parameters())
    c.shard(model, mesh, {"0.weight": {"model": 0}, "1.weight": {"model": 1, "data": 0}})
    return model, opt


def server(n: int) -> tuple[Any, Any]:
    if n == 1:
        return plain(n)
    model = c.ParameterServer(nn.Sequential(*stages()), adam)
    return model, model.optimizer


STRATEGIES: dict[str, Callable[[int], tuple[Any, Any]]] = {
    "plain": plain, "pipeline": pipeline, "summa": summa, "cube": cube, "zero of split layers": split_zero,
    "sharded": sharded, "server": server,
}  # fmt: skip


def moments(name: str, key: str, shape: tuple[int, ...]) -> Array:
    """Optimiser state that tells itself apart."""
    seed = sum(map(ord, name + key))
    return np.random.default_rng(seed).normal(size=shape)


def marked(path: Path) -> None:
    """A checkpoint of one process whose state differs everywhere."""
    model, opt = plain(1)
    saved = c.whole_state(model, opt)
    for name, rows in saved["state"].items():
        saved["state"][name] = {
            k: moments(name, k, a.shape) if a.ndim else np.float64(3) for k, a in rows.items()
        }
    saved["groups"][0]["numbers"]["lr"] = 0.0625
    tb.save(path, {**saved, "extra": {"done": 7, "curve": np.arange(3.0)}})


def check(tree: Any, want: Any) -> None:
    for part in ("model", "state"):
        assert sorted(tree[part]) == sorted(want[part])
    for name, array in want["model"].items():
        np.testing.assert_array_equal(tree["model"][name], array)
        for key, value in want["state"][name].items():
            np.testing.assert_array_equal(tree["state"][name][key], value)


QUICK = [("pipeline", 2, "cube", 4), ("summa", 4, "sharded", 4), ("zero of split layers", 4, "server", 2)]
ALL = [(a, n, b, m) for a in STRATEGIES for b in STRATEGIES for n, m in ((1, 4), (4, 2), (2, 4))]


@pytest.mark.parametrize(
    ("first", "n", "second", "m"), [*QUICK, *(pytest.param(*r, marks=pytest.mark.long) for r in ALL)]
)
def test_what_is_loaded_and_saved_again_stays_the_same(
    first: str, n: int, second: str, m: int, tmp_path: Path
) -> None:
    """One process -> `first` on n ranks -> `second` on m ranks -> one process."""
    marked(tmp_path / "0")

    def rank(name: str, ranks: int, step: int) -> Any:
        model, opt = STRATEGIES[name](ranks)
        extra = c.load(tmp_path / str(step), model, opt)
        assert extra["done"] == 7 and extra["curve"].tolist() == [0.0, 1.0, 2.0]
        if opt is not None:
            assert opt.param_groups[0]["lr"].item() == 0.0625
        c.save(tmp_path / str(step + 1), model, opt, extra)

    c.lockstep(rank, n, first, n, 0)
    c.lockstep(rank, m, second, m, 1)
    want = tb.load(tmp_path / "0")
    for step in (1, 2):
        check(tb.load(tmp_path / str(step)), want)


def test_every_rank_writes_its_share(tmp_path: Path) -> None:
    def rank() -> None:
        model, opt = plain(4)
        c.save(tmp_path / "saved", model, opt)

    c.lockstep(rank, 4)
    sizes = [f.stat().st_size for f in (tmp_path / "saved").glob("arrays-*")]
    assert len(sizes) == 4 and max(sizes) < 1.5 * min(sizes)


class ByHand(nn.Module):
    """A split layer that says nothing of it."""

    def __init__(self) -> None:
        super().__init__()
        rows = 4 + (c.rank() if c.size() == 3 else 0)
        self.weight = nn.Parameter(np.random.default_rng(c.rank()).normal(size=(rows, 3)))


@pytest.mark.parametrize(("n", "how"), [(2, "other numbers"), (3, r"\(4, 3\)\) and .*\(5, 3\)")])
def test_parts_that_nobody_declared_are_refused(n: int, how: str, tmp_path: Path) -> None:
    def rank() -> None:
        model = ByHand()
        c.save(tmp_path / "saved", model, adam(model.parameters()))

    with pytest.raises(StateError, match=rf"weight is not the same on the ranks 0 and 1: .*{how}"):
        c.lockstep(rank, n)
    assert not (tmp_path / "saved").exists()


def test_a_layer_of_ones_own_says_how_it_is_split(tmp_path: Path) -> None:
    class Said(ByHand):
        def splits(self) -> dict[str, Any]:
            return {"weight": (c.Split(c.world(), 0, 4 * c.size()),)}

    def rank() -> Array:
        model = Said()
        c.save(tmp_path / "saved", model, adam(model.parameters()))
        return model.weight.detach().numpy().copy()

    parts = c.lockstep(rank, 2)
    np.testing.assert_array_equal(tb.load(tmp_path / "saved")["model"]["weight"], np.concatenate(parts))


def test_a_rank_that_cannot_write_ends_the_save_on_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from trilobite.framework.checkpoint import directory

    real = directory.write_arrays

    def full(work: str, arrays: Any, writer: int = 0) -> Any:
        if writer == 2:
            raise OSError("no space left")
        return real(work, arrays, writer)

    said: dict[int, BaseException] = {}

    def rank(broken: bool) -> None:
        model, opt = plain(4)
        try:
            c.save(tmp_path / "saved", model, opt, broken)
        except (OSError, ClusterError) as error:
            said[c.rank()] = error

    c.lockstep(rank, 4, False)
    monkeypatch.setattr(directory, "write_arrays", full)
    c.lockstep(rank, 4, True)
    assert sorted(said) == [0, 1, 2, 3] and "rank 2: OSError: no space left" in str(said[0])
    assert tb.load(tmp_path / "saved")["extra"] is False  # the old one stands
    assert [p.name for p in tmp_path.iterdir()] == ["saved"]


def test_state_that_no_part_has_is_refused(tmp_path: Path) -> None:
    """Adafactor keeps sums over whole rows and columns."""

    def rank() -> None:
        model = nn.Sequential(c.ColumnLinear.of(stages()[0]))  # type: ignore[arg-type]
        c.save(tmp_path / "saved", model, optim.Adafactor(model.parameters(), lr=0.1))

    with pytest.raises(StateError, match="state as the parameter's, or numbers"):
        c.lockstep(rank, 2)
