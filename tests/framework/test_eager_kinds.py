"""Short ways of small eager calls: they give what the long ways give, and refuse what those refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import trilobite.nn.functional as F

import trilobite as tb
from benchmarks.rows_eager_kinds import BACKWARD, PLAIN, RECORDED, given
from trilobite.framework.random import quick
from trilobite.framework.replay import plans

CALLS = 24  # enough for a plan


def fresh() -> None:
    for known in (plans._plans, plans._counts, quick._plans, quick._counts):
        known.clear()


def arrays(out: Any) -> list[bytes]:
    if isinstance(out, tb.Tensor):
        return [out.detach().numpy().tobytes()]
    return [a for o in out for a in arrays(o)] if isinstance(out, tuple) else [repr(out).encode()]


@pytest.mark.parametrize("name", [*PLAIN, *RECORDED])
def test_every_row_gives_what_its_first_call_gave(name: str) -> None:
    for recorded in (False, True) if name in RECORDED else (False,):
        kind = (RECORDED if recorded else PLAIN | RECORDED)[name]
        fresh()
        first, later = [], []
        for found, often in ((first, 10**9), (later, 4)):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(plans, "OFTEN", often)
                patch.setattr(quick, "OFTEN", often)
                fresh()
                tb.manual_seed(3)
                tensors = given(tb, recorded)
                found += [arrays(kind(tb, F, tensors)) for _ in range(9)]
        assert first == later


@pytest.mark.parametrize("name", BACKWARD)
def test_gradients_of_rows(name: str) -> None:
    found = []
    for often in (10**9, 4):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(plans, "OFTEN", often)
            fresh()
            for _ in range(9):
                tensors = given(tb, True)
                (RECORDED[name](tb, F, tensors) ** 2).sum().backward()
            found.append([t.grad.numpy().tobytes() for t in tensors.values() if t.grad is not None])
    assert found[0] == found[1] and found[0]


@pytest.mark.parametrize("shape", [(), (1,), (7,), (4, 4), (3, 5, 2)])
@pytest.mark.parametrize("dtype", [tb.float32, tb.float64, tb.bfloat16])
def test_draws_have_the_same_bits_however_often_they_come(shape: Any, dtype: Any) -> None:
    for draw in (tb.rand, tb.randn):
        fresh()
        tb.manual_seed(11)
        often = [draw(*shape, dtype=dtype).double().numpy().tobytes() for _ in range(CALLS)]
        tb.manual_seed(11)
        keys = [tb.random.split(tb.random.get_state(), 2)]
        once = []
        for _ in range(CALLS):
            rest, key = tb.random.split(tb.random.get_state(), 2)
            once.append(draw(*shape, dtype=dtype, key=key).double().numpy().tobytes())
            tb.random.set_state(rest)
        assert often == once and keys
    assert len(set(often)) == CALLS


def test_draws_in_a_recording_and_after_it() -> None:
    tb.manual_seed(5)
    meant = [tb.rand(2, 2).numpy().tobytes() for _ in range(CALLS + 2)]
    tb.manual_seed(5)
    found = [tb.rand(2, 2).numpy().tobytes() for _ in range(CALLS)]
    found.append(tb.jit(lambda: tb.rand(2, 2))().numpy().tobytes())
    found.append(tb.rand(2, 2).numpy().tobytes())
    assert found == meant


WRONG = {
    "gather": lambda x, n: x.gather(1, tb.tensor([[0, n]])),
    "gather below": lambda x, n: x.gather(1, tb.tensor([[0, -n - 1]])),
    "index_select": lambda x, n: x.index_select(1, tb.tensor([n])),
    "take_along": lambda x, n: tb.take_along_axis(x, tb.tensor([[n], [0], [0]]), axis=1),
    "by an index": lambda x, n: x[:, tb.tensor([n])],
    "rows": lambda x, n: x[tb.tensor([n])],
    "embedding": lambda x, n: F.embedding(tb.tensor([n]), x),
    "embedding below": lambda x, n: F.embedding(tb.tensor([-1]), x),
    "cross_entropy": lambda x, n: F.cross_entropy(x, tb.tensor([0, n, 1])),
    "scatter": lambda x, n: x.scatter(1, tb.tensor([[n]]), x),
    "unsigned": lambda x, n: tb.take(x, tb.tensor([2**64 - 1], dtype=tb.uint64), axis=1),
}


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("recorded", [False, True])
def test_a_plan_refuses_what_the_long_way_refuses(name: str, recorded: bool) -> None:
    """Places in range come often enough for a plan; then one that is not."""
    x = tb.tensor(np.eye(3, dtype=np.float32), requires_grad=recorded)
    fresh()
    if "below" not in name and name != "unsigned":
        for _ in range(CALLS):
            WRONG[name](x, 2)
    for _ in range(CALLS):
        with pytest.raises(tb.errors.IndexingError):
            WRONG[name](x, 3)


def test_wrong_shapes_and_settings_are_refused_every_time() -> None:
    x = tb.rand(4, 4)
    for _ in range(CALLS):
        with pytest.raises(tb.errors.TrilobiteError):
            F.cross_entropy(x, tb.tensor([0, 1]))
        with pytest.raises(tb.errors.TrilobiteError):
            F.avg_pool2d(x, 9)
        with pytest.raises(tb.errors.TrilobiteError):
            x.max(7)
        with pytest.raises(tb.errors.TrilobiteError):
            x.view(3, 5)
        with pytest.raises(tb.errors.TrilobiteError):
            x.view(4.0, 4)
        with pytest.raises(tb.errors.TrilobiteError):
            tb.zeros(-1)


def test_views_share_memory_each_time() -> None:
    for recorded in (False, True):
        base = tb.zeros(4, 4)
        x = base.requires_grad_() * 1 if recorded else base
        for _ in range(3):
            for part in (x.view(-1), x.transpose(0, 1), x[1], x.unbind(1)[1], x.flatten(), x.chunk(2, 1)[0]):
                before = x.detach().clone()
                part += 1
                assert not tb.equal(x.detach(), before)
        assert recorded == x.requires_grad


def test_the_gradient_of_a_view_can_be_differentiated() -> None:
    x = tb.tensor(np.arange(6.0).reshape(2, 3), requires_grad=True)
    (first,) = tb.autograd.grad((x[1].flip(0).reshape(3, 1) ** 3).sum(), x, create_graph=True)
    (second,) = tb.autograd.grad((first**2).sum(), x)
    meant = np.zeros((2, 3))
    meant[1] = 2 * 3 * np.arange(3.0, 6) ** 2 * 6 * np.arange(3.0, 6)
    assert np.array_equal(second.numpy(), meant)


def test_in_place_on_what_was_kept_is_still_refused() -> None:
    x = tb.tensor(np.ones(4, np.float32), requires_grad=True)
    for write in (lambda y: y.add_(1.0), lambda y: y.zero_(), lambda y: y.copy_(tb.zeros(4))):
        y = x.detach().clone()
        out = (x * y).sum()
        write(y)
        with pytest.raises(tb.errors.GradientError):
            out.backward()


def test_a_view_is_copied_by_contiguous_where_its_strides_say_so() -> None:
    random = np.random.default_rng(0)
    for _ in range(300):
        x = tb.zeros(tuple(int(d) for d in random.integers(1, 4, 3)))
        y = x.permute(*(int(i) for i in random.permutation(3)))
        y = y[tuple(slice(int(random.integers(0, 2)), None, int(random.integers(1, 3))) for _ in range(3))]
        y = y.unsqueeze(int(random.integers(0, 4)))
        assert (y.contiguous() is y) == y.is_contiguous()


@pytest.mark.parametrize("recorded", [False, True])
def test_what_copies_shares_no_memory(recorded: bool) -> None:
    x = tb.tensor(np.arange(6.0).reshape(2, 3), requires_grad=recorded)
    for _ in range(CALLS):
        for part in (
            x.flip(0),
            x.t().contiguous(),
            x.clone(),
            x.gather(1, tb.tensor([[0], [1]])),
            x.double() * 1,
        ):
            part.detach().zero_()
        assert x.detach().flatten().tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
