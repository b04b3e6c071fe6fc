"""Tests on other Pythons: what rests on how an interpreter works inside, on each that is installed.

Enters: versions ("3.12"). Leaves: for each of them an environment in the project (.venv-3.12), in which the
tests of the native runtime, of ownership and of compiled functions have run. A version that is not on
the machine is said to be missing; nothing is fetched but packages.

    python -m tools.pythons 3.12 3.13 3.14
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TESTS = (
    "tests/native tests/framework tests/spine tests/optim/test_jit.py tests/compiler/test_target.py "
    "tests/compiler/test_targets.py tests/compiler/test_weights.py tests/compiler/test_memory.py "
    "tests/compiler/test_control.py tests/compiler/test_programs_on_disk.py"
).split()
_PLACES = (Path.home() / ".pyenv" / "versions", Path("/opt/python"))


def interpreter(version: str) -> str | None:
    """The newest Python of a version that runs: on the path, or where version managers keep them."""
    kept = [p for place in _PLACES for p in place.glob(f"{version}.*/bin/python")]
    kept.sort(key=lambda p: [int(n) for n in p.parts[-3].split(".") if n.isdigit()], reverse=True)
    named = shutil.which(f"python{version}")
    return next((p for p in [*([named] if named else []), *map(str, kept)] if _is(p, version)), None)


def _is(python: str, version: str) -> bool:
    """A name on the path may be a shim of a version manager with nothing behind it."""
    asked = "import sys; print('%d.%d' % sys.version_info[:2])"
    try:
        done = subprocess.run([python, "-c", asked], capture_output=True, text=True, timeout=60)
    except OSError:
        return False
    return done.returncode == 0 and done.stdout.strip() == version


def run(version: str) -> int | None:
    """The tests' exit code; None if there is no such Python."""
    python = interpreter(version)
    if python is None:
        return None
    place = ROOT / f".venv-{version}"
    if subprocess.call([python, str(ROOT / "tools" / "set_up.py"), "dev", str(place)], cwd=ROOT) != 0:
        return 1
    words = [str(place / "bin" / "python"), "-m", "pytest", "-q", *TESTS]
    return subprocess.call(words, cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1"})


def main() -> int:
    outcomes = {version: run(version) for version in sys.argv[1:]}
    for version, code in outcomes.items():
        said = "not installed here" if code is None else "passed" if code == 0 else f"failed ({code})"
        print(f"Python {version}: {said}")
    return int(any(outcomes.values()))


if __name__ == "__main__":
    sys.exit(main())
