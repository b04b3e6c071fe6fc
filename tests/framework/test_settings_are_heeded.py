"""Settings that are taken must do what they say, or be refused: none is passed over."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest

import trilobite as tb
from trilobite.base.errors import ArgumentError, TrilobiteError
from trilobite.framework.checkpoint import read_safetensors_metadata


def test_metadata_reach_a_stream(tmp_path: Any) -> None:
    stream = io.BytesIO()
    tb.save({"w": tb.tensor([1.0, 2.0])}, stream, metadata={"who": "us"})
    (tmp_path / "x.safetensors").write_bytes(stream.getvalue())
    assert read_safetensors_metadata(tmp_path / "x.safetensors") == {"who": "us"}
    with pytest.raises(ArgumentError, match="the metadata 'step': 3 is not text"):
        tb.save({"w": tb.tensor([1.0])}, io.BytesIO(), metadata={"step": 3})


@pytest.mark.parametrize("place", ["stream", "path"])
def test_save_has_no_other_settings(tmp_path: Any, place: str) -> None:
    where: Any = io.BytesIO() if place == "stream" else tmp_path / "c"
    with pytest.raises(ArgumentError, match=r"save\(metdata=\.\.\.\)"):
        tb.save({"w": tb.tensor([1.0])}, where, metdata={"who": "us"})
    tb.save({"w": tb.tensor([1.0])}, where, pickle_protocol=4)


def test_batched_cotangents_give_the_rows_of_a_jacobian() -> None:
    rng = np.random.default_rng(3)
    matrix, x = rng.normal(size=(4, 3)), tb.tensor(rng.normal(size=3), requires_grad=True)
    other = tb.tensor(rng.normal(size=2), requires_grad=True)
    out = (tb.tensor(matrix) @ x) ** 2
    rows = 2 * (matrix @ x.detach().numpy())[:, None] * matrix
    one, none = tb.autograd.grad(
        out, [x, other], tb.eye(4, dtype=tb.float64), is_grads_batched=True, allow_unused=True
    )
    np.testing.assert_allclose(one.numpy(), rows, rtol=1e-12)
    assert none is None
    seeds = rng.normal(size=(5, 4))
    (many,) = tb.autograd.grad((tb.tensor(matrix) @ x) ** 2, [x], tb.tensor(seeds), is_grads_batched=True)
    np.testing.assert_allclose(many.numpy(), seeds @ rows, rtol=1e-12)
    with pytest.raises(ArgumentError, match="no grad_outputs"):
        tb.autograd.grad((x * x).sum(), [x], is_grads_batched=True)


def test_unused_inputs_of_autograd_grad() -> None:
    x, other = (tb.tensor([1.0, 2.0], requires_grad=True) for _ in range(2))
    assert tb.autograd.grad((x * x).sum(), [x, other], allow_unused=True)[1] is None
    zeros = tb.autograd.grad((x * x).sum(), [x, other], materialize_grads=True)[1]
    assert zeros.numpy().tolist() == [0.0, 0.0]
    with pytest.raises(TrilobiteError, match="do not depend on"):
        tb.autograd.grad((x * x).sum(), [x, other])


def test_every_worker_of_a_loader_begins_with_its_number() -> None:
    begun: list[int] = []
    loader = tb.utils.data.DataLoader(list(range(40)), 2, num_workers=3, worker_init_fn=begun.append)
    assert sorted(int(n) for batch in loader for n in batch) == list(range(40))
    assert begun and sorted(begun) == list(range(len(begun))) and len(begun) <= 3


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("prefetch", [None, 1, 2, 5])
def test_workers_give_what_one_gives_in_its_order(workers: int, prefetch: int | None) -> None:
    """As many batches as are fetched ahead, one more and one less, and far more."""
    ahead = workers * (prefetch or 2)
    for batches in (0, 1, ahead - 1, ahead, ahead + 1, 2 * ahead + 1, 40):
        data = list(range(3 * batches + (batches > 0)))
        for size, drop in ((3, False), (3, True), (None, False)):
            alone = tb.utils.data.DataLoader(data, size, drop_last=drop)
            crew = tb.utils.data.DataLoader(
                data, size, drop_last=drop, num_workers=workers, prefetch_factor=prefetch
            )
            assert [np.asarray(x).tolist() for x in crew] == [np.asarray(x).tolist() for x in alone]


@pytest.mark.parametrize(("n", "size", "drop", "batches"), [
    (6, 3, False, 2), (7, 3, False, 3), (8, 3, True, 2), (0, 3, False, 0), (6, 3, True, 2),
])  # fmt: skip
def test_how_long_a_loader_of_a_stream_is(n: int, size: int, drop: bool, batches: int) -> None:
    class Stream(tb.utils.data.IterableDataset):  # type: ignore[name-defined, misc]
        def __iter__(self) -> Any:
            return iter(range(n))

        def __len__(self) -> int:
            return n

    loader = tb.utils.data.DataLoader(Stream(), size, drop_last=drop)
    assert len(loader) == len(list(loader)) == batches
