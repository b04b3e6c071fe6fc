"""Whether this process is one of many, and its place among them.

Enters: what launchers leave in the environment (`trilobite launch`, mpirun, srun). Leaves: the transport that
primitives use. A size that the environment names and MPI does not see is an error: the alternative is N
processes that each train alone, and nobody notices.
"""

from __future__ import annotations

import os
import sys
import threading

from trilobite.base.errors import ClusterError
from trilobite.cluster import children
from trilobite.ir import ranks

SIZES = ("WORLD_SIZE", "PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE", "SLURM_NTASKS")
"""Where launchers say how many processes there are."""

_once = threading.Lock()
_done: list[bool] = []


def promised() -> dict[str, int]:
    """The sizes that the environment names."""
    found = {}
    for name in SIZES:
        text = os.environ.get(name, "").strip()
        if text and not text.isdecimal():
            raise ClusterError(
                f"{name} is {text!r}", where="the environment", expected="a number of processes, or nothing"
            )
        if text:
            found[name] = int(text)
    return found


def started() -> None:
    """Join the other processes, if there are any; only the first call does anything."""
    if _done or ranks.transport().size > 1:
        return
    with _once:
        if _done:
            return
        sizes = promised()
        above = children.parent()
        if above is not None:
            ranks.install(children.Child(*above))
        elif any(n > 1 for n in sizes.values()):
            ranks.install(_join(sizes))
        _done.append(True)


def _join(sizes: dict[str, int]) -> ranks.Transport:
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        name, n = max(sizes.items(), key=lambda item: item[1])
        raise ClusterError(
            f"{name} says that {n} processes run, and MPI cannot be used: {error}",
            where="the environment",
            expected="mpi4py and an MPI library",
            remedy=f"pip install 'trilobite[cluster]' mpich; or unset {name} to run as one process",
        ) from error
    found = MPI.COMM_WORLD.Get_size()
    for name, n in sizes.items():
        if n != found:
            raise ClusterError(
                f"{name} says that {n} processes run, MPI says {found}",
                where="the environment",
                expected="one number: processes that do not see each other would each train alone",
                remedy="start with the launcher of the MPI that mpi4py uses (trilobite launch -n N does), "
                f"or unset {name} to run as one process",
            )
    from trilobite.cluster.mpi import Mpi

    joined = Mpi(MPI)
    children.note(joined.rank, joined.size)
    os.register_at_fork(after_in_child=_forked)
    return joined


def _forked() -> None:
    """A copy of a rank is none: it leaves MPI alone, also at its end."""
    at = ranks.process_transport()
    if isinstance(at, children.Child):
        return
    ranks.install(children.Child(at.rank, at.size))
    sys.excepthook = sys.__excepthook__
    at.leave()  # type: ignore[attr-defined]
