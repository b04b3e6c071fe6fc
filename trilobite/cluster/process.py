"""One rank of a launched job: runs the script in a child of its own and says how it ended.

`python -m trilobite.cluster.process script.py ...`. A script that is killed cannot say so itself; this
process waits for it, names the rank and the signal, and passes the exit code on, so that the job ends.
"""

from __future__ import annotations

import atexit
import os
import runpy
import signal
import sys
from typing import Any

from trilobite.ir import ranks

RANKS = ("PMI_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "SLURM_PROCID")

ENDED = ".ended"  # behind the name of the job's note: a rank has ended that should not have


def rank() -> str:
    return next((os.environ[name] for name in RANKS if os.environ.get(name)), "0")


def run(script: str, arguments: list[str]) -> None:
    """The script, as `python script.py ...` runs it."""
    sys.argv = [script, *arguments]
    sys.path[0] = os.path.dirname(os.path.abspath(script))
    runpy.run_path(script, run_name="__main__")


def watch(child: int) -> int:
    """The exit code for a child's end; a signal that nobody here sent on is named."""
    ended: list[int] = []

    def pass_on(number: int, frame: Any) -> None:
        ended.append(number)
        os.kill(child, number)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, pass_on)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    survive = bool(os.environ.get("TRILOBITE_SURVIVE"))
    then = "the others go on" if survive else "the job ends"
    if code < 0 and not ended:
        name = signal.Signals(-code).name
        print(f"trilobite: rank {rank()} was killed by {name}: {then}", file=sys.stderr, flush=True)
    if code != 0 and survive:
        os.kill(os.getpid(), signal.SIGKILL)  # MPI tells the others of a signal, not of an exit code
    note = os.environ.get("TRILOBITE_JOB")
    if code != 0 and note:  # the launcher ends what MPI's own leaves running
        with open(note + ENDED, "w") as file:
            file.write(rank())
    return code if code >= 0 else 128 - code


def main() -> None:
    child = os.fork()
    if child:
        sys.exit(watch(child))
    run(sys.argv[1], sys.argv[2:])
    if getattr(ranks.transport(), "shrunken", False):
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


if __name__ == "__main__":
    main()
