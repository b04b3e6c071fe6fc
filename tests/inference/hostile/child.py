"""Opens damaged files in a process of its own, with little memory and a clock: `child.py FORMATS COUNT SEED`.

Each line of the output is the word on a file, then what happened: `opened`, `refused` with the first line of
the error, or `FAULT` with what it was. A line without an outcome names the file that killed the process.
"""

from __future__ import annotations

import resource
import signal
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

MEMORY = 3 << 30
SECONDS = 100  # by the wall's clock: a read that waits for somebody would never end
MOST = 10  # seconds of work


def outcome(open_: Any, path: Path) -> str:
    from trilobite.base.errors import TrilobiteError

    began = time.process_time()  # not the wall's: a busy machine has no say
    signal.alarm(SECONDS)
    try:
        open_(path)
        word = "opened"
    except TrilobiteError as error:
        what = str(error).splitlines()[0].strip()
        word = f"refused {what}" if len(what) > 8 else f"FAULT an error that says nothing: {what!r}"
    except BaseException as error:
        word = f"FAULT {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    finally:
        signal.alarm(0)
    took = time.process_time() - began
    return word if took < MOST else f"FAULT it took {took:.0f} s"


def damage(format_: str, count: int, seed: int) -> None:
    from tests.inference.hostile.mutations import mutated
    from tests.inference.hostile.seeds import FORMATS

    sound, open_ = FORMATS[format_]
    files = sound()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"file.{format_}"
        for raw in files:  # all that is imported is imported by now
            path.write_bytes(raw)
            open_(path)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        for i, raw in enumerate(files):
            for word, data in mutated(raw, -(-count // len(files)), seed + i):
                path.write_bytes(data)
                print(f"{format_} {i} {word}: ", end="", flush=True)
                print(outcome(open_, path), flush=True)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for name in sys.argv[1].split(","):
        damage(name, int(sys.argv[2]), int(sys.argv[3]))
