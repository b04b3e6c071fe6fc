"""Rooms, settings and spellings of PyTorch's that model code asks for."""

from __future__ import annotations

import copy
import importlib
import io
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from trilobite.nn import functional as F

import trilobite as tb
from trilobite import nn

ROOMS = """nn.functional nn.init nn.parameter nn.modules nn.modules.utils nn.modules.batchnorm nn.modules.conv
    nn.utils nn.utils.rnn nn.utils.parametrize nn.utils.parametrizations nn.parallel nn.attention utils
    utils.data
    utils.checkpoint cuda cuda.amp amp autograd autograd.function autograd.functional backends distributed
    func
    jit jit.annotations fx hub onnx compiler distributions special optim.lr_scheduler optim.swa_utils"""


@pytest.mark.parametrize("name", ROOMS.split())
def test_rooms_can_be_imported_under_pytorchs_names(name: str):
    assert importlib.import_module(f"trilobite.{name}") is not None


def test_no_file_is_loaded_twice():
    """A second copy would have classes and state of its own: `nn.init.skipped()` of one would not be seen by
    the layers, which hold the other.
    """
    code = (
        "import collections, importlib, sys\n"
        f"for name in {ROOMS.split() + ['nn.layers.linear', 'optim.lbfgs', 'data.transforms']!r}:\n"
        "    importlib.import_module('trilobite.' + name)\n"
        "files = collections.defaultdict(set)\n"
        "for module in list(sys.modules.values()):\n"
        "    if 'trilobite' in (file := getattr(module, '__file__', None) or ''):\n"
        "        files[file].add(id(module))\n"
        "print([file for file, copies in files.items() if len(copies) > 1])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_jit_stays_the_compiler_after_its_rooms_were_imported():
    importlib.import_module("trilobite.jit.annotations")
    assert tb.jit(lambda v: v + 1)(tb.ones(2)).tolist() == [2.0, 2.0]
    assert tb.jit.is_scripting() is False and tb.jit.ignore(len) is len


def test_devices():
    cpu = tb.device("cuda:0" if tb.cuda.is_available() else "cpu")
    assert cpu == tb.ones(1).device and cpu.type == "cpu"
    assert nn.Linear(2, 2, device=cpu).to(cpu).weight.to(cpu, tb.float64).dtype == tb.float64
    for wrong in (
        lambda: tb.ones(1).cuda(),
        lambda: nn.Linear(1, 1).to("cuda"),
        lambda: tb.zeros(1, device="mps"),
    ):
        with pytest.raises(tb.errors.DeviceError, match="there is no device"):
            wrong()


def test_default_dtype():
    tb.set_default_dtype(tb.float64)
    try:
        assert tb.get_default_dtype() == tb.float64
        assert tb.zeros(1).dtype == tb.tensor(1.5).dtype == (tb.arange(2) / 2).dtype == tb.float64
        assert nn.Linear(1, 1).weight.dtype == tb.float64 and tb.randn(1).dtype == tb.float64
    finally:
        tb.set_default_dtype(tb.float32)
    assert tb.zeros(1).dtype == (tb.arange(2) / 2).dtype == tb.float32


def test_modes():
    x = tb.ones(2, requires_grad=True)

    @tb.no_grad()
    def quiet(v: Any) -> Any:
        return v * 2

    @tb.inference_mode
    def also(v: Any) -> Any:
        return v * 2

    @tb.no_grad()
    def each(v: Any) -> Any:
        yield v * 2

    assert not quiet(x).requires_grad and not also(x).requires_grad and not next(each(x)).requires_grad
    assert (x * 2).requires_grad
    with tb.set_grad_enabled(False):
        assert not (x * 2).requires_grad
    assert tb.is_grad_enabled()
    tb.set_grad_enabled(False)
    assert not tb.is_grad_enabled()
    tb.set_grad_enabled(True)
    with tb.autocast("cpu", dtype=tb.bfloat16):
        assert (tb.ones(2, 2) @ tb.ones(2, 2)).dtype == tb.bfloat16
    with tb.cuda.amp.autocast():
        assert (tb.ones(2, 2) @ tb.ones(2, 2)).dtype == tb.float32


def test_autograd_grad():
    x, y = tb.tensor([2.0], requires_grad=True), tb.tensor([3.0], requires_grad=True)
    out = x * x * y
    gx, gy = tb.autograd.grad(out, (x, y), create_graph=True)
    assert (gx.item(), gy.item(), x.grad, y.grad) == (12.0, 4.0, None, None)
    (gxx,) = tb.autograd.grad(gx, x)
    assert gxx.item() == 6.0
    unused = tb.ones(1, requires_grad=True)
    with pytest.raises(tb.errors.GradientError, match="allow_unused=True"):
        tb.autograd.grad((x * 2).sum(), unused)
    assert tb.autograd.grad((x * 2).sum(), unused, allow_unused=True) == (None,)


def test_generators_are_streams_of_their_own():
    a = tb.randn(3, generator=tb.Generator().manual_seed(4))
    tb.manual_seed(0)
    first = tb.rand(2)
    tb.randn(3, generator=tb.Generator().manual_seed(4))
    tb.manual_seed(0)
    assert tb.rand(2).tolist() == first.tolist()
    assert tb.randn(3, generator=tb.Generator().manual_seed(4)).tolist() == a.tolist()
    x = tb.zeros(2000)
    assert 0.2 < x.bernoulli_(0.3).mean().item() < 0.4
    assert x.uniform_(1, 2).min().item() >= 1.0 and abs(x.normal_(5, 0.1).mean().item() - 5) < 0.02
    picks = tb.multinomial(tb.tensor([[0.0, 1.0, 3.0]]), 2)
    assert sorted(picks.tolist()[0]) == [1, 2]


def test_numpy_arrays_where_tensors_are_taken():
    x, y = np.eye(3, dtype=np.float32), np.array([0, 2, 1])
    logits = tb.tensor(x, requires_grad=True)
    F.cross_entropy(logits, y).backward()
    assert logits.grad is not None
    assert F.embedding(y, logits).shape == (3, 3) and nn.Embedding(4, 2)(y).shape == (3, 2)
    assert F.one_hot(y, 3).tolist() == np.eye(3)[y].tolist()
    assert nn.Linear(3, 2)(x).shape == (3, 2)
    assert np.sum(tb.tensor(x)) == 3.0 and np.concatenate([tb.tensor(x), x]).shape == (6, 3)
    assert np.nonzero(tb.tensor(x))[0].tolist() == [0, 1, 2]
    assert tb.optim.SGD([nn.Parameter(x)], lr=np.float32(0.5)).param_groups[0]["lr"].item() == 0.5


def test_dropout_in_place_behind_an_activation_in_place():
    tb.manual_seed(1)
    net = nn.Sequential(nn.Linear(3, 50), nn.ReLU(inplace=True), nn.Dropout(0.5, inplace=True))
    out = net(tb.ones(2, 3))
    out.sum().backward()
    want = 2.0 * ((out > 0).to(tb.float32).sum(axis=0))
    assert net[0].bias.grad.tolist() == want.tolist()


def test_saving_in_pytorchs_order_and_into_memory(tmp_path: Path):
    model = nn.Linear(2, 2)
    tb.save({"model": model.state_dict(), "epoch": 3}, tmp_path / "a")
    back = tb.load(tmp_path / "a", map_location="cpu", weights_only=True)
    assert back["epoch"] == 3
    model.load_state_dict(back["model"])
    stream = io.BytesIO()
    tb.save(model.state_dict(), stream)
    stream.seek(0)
    assert tb.load(stream)["weight"].tolist() == model.weight.tolist()
    with pytest.raises(tb.errors.ArgumentError, match="state_dict"):
        tb.save(model, tmp_path / "b")


class Signs(tb.optim.Optimizer):
    """As optimisers are written for PyTorch."""

    def __init__(self, params: Any, lr: float = 0.1) -> None:
        super().__init__(params, dict(lr=lr, momentum=0.5))

    @tb.no_grad()
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if len(state) == 0:
                    state["step"], state["buf"] = 0, tb.zeros_like(p)
                state["step"] += 1
                state["buf"].mul_(group["momentum"]).add_(p.grad, alpha=1 - group["momentum"])
                p.add_(state["buf"].sign(), alpha=-group["lr"])


def test_optimisers_written_for_pytorch():
    p = nn.Parameter(tb.tensor([1.0, -1.0]))
    opt = Signs([{"params": [p], "lr": 0.25}])
    (p * p).sum().backward()
    opt.step()
    assert p.tolist() == [0.75, -0.75]
    saved = opt.state_dict()
    assert saved["state"][0]["step"] == 1
    opt.load_state_dict(saved)
    opt.zero_grad()
    assert p.grad is None


def test_optimisers_are_copied_and_pickled():
    model = nn.Linear(2, 2)
    opt = tb.optim.Adam(model.parameters(), lr=0.1, foreach=False)
    model(tb.ones(1, 2)).sum().backward()
    opt.step()
    for twin_model, twin in (copy.deepcopy((model, opt)), pickle.loads(pickle.dumps((model, opt)))):
        before = model.weight.tolist()
        twin.zero_grad()
        twin_model(tb.ones(1, 2)).sum().backward()
        twin.step()
        assert twin_model.weight.tolist() != before and model.weight.tolist() == before


def test_schedules_under_pytorchs_name():
    opt = tb.optim.SGD([nn.Parameter(tb.ones(1))], lr=1.0)
    schedule = tb.optim.lr_scheduler.LambdaLR(opt, lambda epoch: 0.5 if epoch > 1 else 1.0)
    rates = []
    for _ in range(3):
        opt.step()
        schedule.step()
        rates.append(schedule.get_last_lr()[0])
    assert rates == [1.0, 0.5, 0.5] and schedule.last_epoch == 3
    assert repr(schedule) == "LambdaLR(step 3, lr 0.5)"


def test_functional_updates_and_linear_maps():
    x = tb.zeros(3)
    assert x.at[1].set(5.0).tolist() == [0.0, 5.0, 0.0] and x.tolist() == [0.0, 0.0, 0.0]
    assert x.at[tb.tensor([0, 0])].add(1.0).tolist() == [2.0, 0.0, 0.0]
    assert (x + 2).at[1:].multiply(3.0).tolist() == [2.0, 6.0, 6.0]
    out, along = tb.linearize(lambda v: v * v, tb.tensor(3.0))
    assert (out.item(), along(tb.tensor(1.0)).item(), along(tb.tensor(2.0)).item()) == (9.0, 6.0, 12.0)
    keys = tb.random.split(tb.random.key(0), 4)
    rows = tb.vmap(lambda k: tb.random.normal((2,), key=k))(keys)
    assert rows[1].tolist() == tb.random.normal((2,), key=keys[1]).tolist()


def test_parametrised_weights():
    layer = nn.utils.parametrizations.weight_norm(nn.Linear(3, 2))
    x = tb.randn(4, 3)
    assert set(layer.state_dict()) == {
        "bias",
        "parametrizations.weight.original0",
        "parametrizations.weight.original1",
    }
    before = layer(x)
    nn.utils.parametrize.remove_parametrizations(layer, "weight")
    assert tb.allclose(before, layer(x), atol=1e-6) and type(layer) is nn.Linear
    normed = nn.utils.parametrizations.spectral_norm(nn.Linear(8, 8))
    for _ in range(30):
        normed(tb.randn(1, 8))
    assert abs(tb.linalg.svdvals(normed.weight.detach())[0].item() - 1) < 1e-3


def test_loaders_and_datasets():
    from trilobite.utils.data import DataLoader, Dataset, TensorDataset, random_split

    class Squares(Dataset):
        def __len__(self) -> int:
            return 10

        def __getitem__(self, i: int) -> Any:
            return np.float32(i * i), i

    for workers in (0, 2):
        batches = list(DataLoader(Squares(), batch_size=4, num_workers=workers, drop_last=False))
        assert [len(b[0]) for b in batches] == [4, 4, 2]
        assert batches[1][0].tolist() == [16.0, 25.0, 36.0, 49.0] and isinstance(batches[0][1], tb.Tensor)
    seen = [int(i) for _, i in DataLoader(Squares(), shuffle=True, generator=tb.Generator().manual_seed(1))]
    assert sorted(seen) == list(range(10)) and seen != list(range(10))
    first, second = random_split(TensorDataset(tb.arange(10)), [0.7, 0.3])
    assert (len(first), len(second)) == (7, 3)


def test_distributions_know_their_densities():
    d = tb.distributions
    p, q = d.Normal(tb.tensor([0.0]), tb.tensor([1.0])), d.Normal(tb.tensor([1.0]), tb.tensor([2.0]))
    assert abs(d.kl_divergence(p, q).item() - (np.log(2) + 2 / 8 - 0.5)) < 1e-6
    tb.manual_seed(0)
    for dist in (
        d.Normal(1.0, 2.0), d.Uniform(-1.0, 3.0), d.Exponential(2.0), d.Laplace(0.5, 1.5), d.Gamma(3.0, 2.0),
        d.Beta(2.0, 3.0), d.Gumbel(0.0, 1.0), d.LogNormal(0.0, 0.5), d.Bernoulli(0.3), d.Geometric(0.4),
        d.Poisson(3.0), d.Binomial(5, 0.3), d.HalfNormal(2.0), d.StudentT(9.0, 1.0, 2.0),
    ):  # fmt: skip
        drawn = dist.sample((20000,))
        assert abs(drawn.mean().item() - dist.mean.item()) < 0.1, dist
        assert abs(drawn.var().item() - dist.variance.item()) < 0.1 * dist.variance.item() + 0.02, dist
        assert dist.log_prob(drawn).shape == (20000,)
    with pytest.raises(tb.errors.GradientError, match="has_rsample"):
        d.Bernoulli(0.5).rsample()


@pytest.mark.parametrize("room", ["cluster", "zoo", "nn"])
def test_a_module_that_is_not_there_is_not_found(room: str) -> None:
    """Rooms that go by their own name looked for it in themselves, for ever."""
    with pytest.raises(ModuleNotFoundError, match="nowhere"):
        importlib.import_module(f"trilobite.{room}.nowhere")
