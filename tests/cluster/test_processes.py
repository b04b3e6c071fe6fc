"""Ranks as processes: MPI gives the bits of lock-step, and what goes wrong ends the job with a name.

At most six launches; they need mpi4py and an MPI beside this Python, which `make setup` installs.
"""

from __future__ import annotations

import importlib.util
import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import trilobite as tb
from trilobite.base.errors import ClusterError
from trilobite.cluster import start
from trilobite.cluster.children import NOTE
from trilobite.cluster.launch import environment, launcher
from trilobite.cluster.notices import crowded

ROOT = Path(__file__).resolve().parent.parent.parent
HERE = Path(__file__).resolve().parent
HAS_MPI = (Path(sys.executable).parent / "mpiexec").exists() and importlib.util.find_spec("mpi4py")
needs_mpi = pytest.mark.skipif(not HAS_MPI, reason="mpi4py and an MPI are not beside this Python")


def launch(n: int, script: str, *arguments: str, limit: float = 110) -> tuple[int, str, str]:
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    for name in start.SIZES:
        env.pop(name, None)
    command = [sys.executable, "-m", "trilobite", "launch", "-n", str(n), str(HERE / script), *arguments]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=limit)
    return done.returncode, done.stdout, done.stderr


@needs_mpi
def test_processes_give_the_bits_of_lock_step() -> None:
    """Small and large arrays, every collective, several dtypes, eager and compiled, messages, subgroups."""
    code, out, err = launch(4, "script_collectives.py")
    assert code == 0, err
    assert out.count("same") == 4


@needs_mpi
@pytest.mark.parametrize("how", ["quick", pytest.param("forty", marks=pytest.mark.long)])
def test_mismatches_raise_on_all_ranks(how: str) -> None:
    """Each case: every rank raises early, and the error names both lines. A slow rank raises nothing."""
    code, out, err = launch(4, "script_mismatches.py", how)
    assert code == 0, err
    assert out.count("noticed") == 4 and out.count("patient") == 4, out


@needs_mpi
@pytest.mark.long
def test_sharded_functions_on_processes_are_one_process() -> None:
    """Eight mixtures of data, model, ZeRO and space on four ranks, four with stages, twenty steps each."""
    code, out, err = launch(4, "script_sharded.py", limit=800)
    assert code == 0, err
    assert out.count("equal") == 48


@needs_mpi
def test_strategies_on_processes_have_the_bits_of_lock_step() -> None:
    """Compiled data parallel with batch norm over ranks, ZeRO 3, data × sequence, data × pipeline."""
    code, out, err = launch(4, "script_training.py")
    assert code == 0, err
    assert out.count("same") == 4


@needs_mpi
def test_a_rank_that_raises_shows_its_traceback_and_ends_the_job() -> None:
    code, _, err = launch(3, "script_failures.py", "raise")
    assert code != 0
    first = err.index("rank 1 of 3: Traceback")
    assert "ValueError: the data of rank 1 is wrong" in err[first:]
    assert "rank 1 has failed: ValueError" in err and err.index("rank 1 has failed") > first


@needs_mpi
def test_a_rank_that_is_killed_is_named_within_seconds() -> None:
    code, out, err = launch(3, "script_failures.py", "kill")
    assert code != 0 and "rank 2 was killed by SIGKILL" in err
    (moment,) = re.findall(r"killed at ([\d.]+)", out)  # what comes before it takes longer on a busy machine
    assert time.time() - float(moment) < 30


@needs_mpi
@pytest.mark.long
@pytest.mark.timeout(1200)
def test_a_training_that_is_killed_a_hundred_times_ends_as_one_that_is_not(tmp_path: Path) -> None:
    """Ranks are killed at random moments; the job ends, says which, and the next goes on from the file."""
    rng = random.Random(4)
    for name in ("whole", "killed"):
        (tmp_path / name).mkdir()
    named = [launch_and_kill(tmp_path / "killed", 10**6, rng) for _ in range(100)]
    assert sum(named) > 30  # others were killed before they had read or written one
    steps = str(tb.load(tmp_path / "killed" / "saved")["extra"] + 5)
    for name in ("whole", "killed"):
        code, _, err = launch(2, "script_kills.py", str(tmp_path / name), steps, limit=600)
        assert code == 0, err
    whole, killed = (np.load(tmp_path / name / "final.npz") for name in ("whole", "killed"))
    for name in whole:
        np.testing.assert_array_equal(whole[name], killed[name])


def launch_and_kill(folder: Path, steps: int, rng: random.Random) -> bool:
    """One run, with a rank killed on its way: did the launcher name the last checkpoint?"""
    for old in folder.glob("pid*"):
        old.unlink()
    env = {k: v for k, v in os.environ.items() if k not in start.SIZES} | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "trilobite", "launch", "-n", "2", str(HERE / "script_kills.py")]
    job = subprocess.Popen([*command, str(folder), str(steps)], env=env, stderr=subprocess.PIPE, text=True)
    victim = folder / f"pid{rng.randrange(2)}"
    while not victim.exists() and job.poll() is None:
        time.sleep(0.02)
    time.sleep(rng.random() * 0.7)
    os.kill(int(victim.read_text()), signal.SIGKILL)
    _, err = job.communicate(timeout=60)
    assert job.returncode != 0 and f"rank {victim.name[-1]} was killed by SIGKILL" in err, err
    return f"the last checkpoint is {folder / 'saved'}" in err


# -- without processes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["WORLD_SIZE", *(pytest.param(n, marks=pytest.mark.long) for n in start.SIZES[1:])]
)
def test_a_size_that_mpi_does_not_see_is_an_error(name: str) -> None:
    code = "from trilobite import cluster; print(cluster.size())"
    env = {k: v for k, v in os.environ.items() if k not in start.SIZES}
    env |= {"PYTHONPATH": str(ROOT), name: "4"}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert done.returncode != 0 and f"{name} says that 4 processes run" in done.stderr, done.stderr
    done = subprocess.run(
        [sys.executable, "-c", code], env={**env, name: "1"}, capture_output=True, text=True
    )
    assert done.stdout.strip() == "1", done.stderr


def test_what_a_rank_starts_is_no_rank() -> None:
    """It knows whose it is; MPI, which would end the job, is not asked."""
    code = "from trilobite import cluster; print(cluster.rank(), 'of', cluster.size()); cluster.barrier()"
    env = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "PMI_SIZE": "4",
        "PMI_RANK": "3",
        "PMI_FD": "77",
        NOTE: "1 3 4",
    }
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert done.stdout.strip() == "3 of 4"
    assert "cluster_barrier in a process that rank 3 has started" in done.stderr, done.stderr


def test_a_launch_inside_a_rank_is_a_job_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NOTE, "1 3 4")
    assert NOTE not in environment(2, 1, 60.0)


def test_a_size_that_is_no_number_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "many")
    with pytest.raises(ClusterError, match="WORLD_SIZE is 'many'"):
        start.promised()


def test_ranks_share_the_cores() -> None:
    cores = len(os.sched_getaffinity(0))
    assert environment(1, 0, 60.0)["TRILOBITE_THREADS"] == str(cores)
    assert environment(10 * cores, 0, 60.0)["OMP_NUM_THREADS"] == "1"
    assert environment(2, 3, 60.0)["OPENBLAS_NUM_THREADS"] == "3"


@pytest.mark.parametrize(("said", "wanted"), [("", False), ("1", False), (str(10**6), True)])
def test_ranks_that_share_cores_give_way(said: str, wanted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MPI_LOCALNRANKS", said)
    monkeypatch.delenv("OMPI_COMM_WORLD_LOCAL_SIZE", raising=False)
    assert crowded() is wanted


def test_a_missing_launcher_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ClusterError, match="no mpiexec or mpirun"):
        launcher()


def test_one_rank_needs_no_mpi() -> None:
    code, out, err = launch(1, "script_failures.py", "count", "--lr", "0.1", "-n", "7")
    assert code == 0, err
    assert out.split() == ["0", "of", "1", "--lr", "0.1", "-n", "7"]
