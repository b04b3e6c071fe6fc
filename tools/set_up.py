"""Makes an environment of the project: a virtual environment with pinned packages and the package itself.

Enters: the name of an environment ("dev", "bench" or "site") and its directory. Leaves: that directory,
ready, with a stamp in it. The packages of the lock file are checked against their SHA-256; the peers of
"bench" come after them, by version alone. "site" has what builds the documentation, and not the package.
Runs on the system's Python before anything is installed: the standard library alone, in a syntax that Python
3.6 reads, so that an old Python is refused with a sentence and not with a SyntaxError.
"""

import os
import subprocess
import sys

OLDEST = (3, 11)
NEWEST = (3, 13)  # that was tested: `make test-pythons`
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LOCK = os.path.join("requirements", "dev.txt")
SITE = os.path.join("requirements", "site.txt")
PEERS = os.path.join("benchmarks", "environment", "requirements.txt")
STAMP = ".trilobite-ready"


def check_version() -> None:
    if sys.version_info < OLDEST:
        found = ".".join(str(part) for part in sys.version_info[:3])
        sys.exit(
            f"Trilobite needs Python {OLDEST[0]}.{OLDEST[1]} or newer; this is Python {found}.\n"
            f"  where: {sys.executable}\n"
            "  remedy: install a newer Python and name it: make PYTHON=/path/to/python3 ..."
        )
    if sys.version_info[:2] > NEWEST:
        found = ".".join(str(part) for part in sys.version_info[:3])
        sys.exit(
            f"Trilobite was tested up to Python {NEWEST[0]}.{NEWEST[1]}; this is Python {found}.\n"
            f"  where: {sys.executable}\n"
            "  remedy: name an older one: make PYTHON=/path/to/python3 ..."
        )


def is_usable(python: str) -> bool:
    """Whether a virtual environment that is already there runs, is new enough and has pip."""
    probe = f"import sys, pip; sys.exit(sys.version_info < {OLDEST})"
    try:
        return subprocess.call([python, "-c", probe], stderr=subprocess.DEVNULL) == 0
    except OSError:
        return False


def make_environment(directory: str) -> str:
    """The Python of the environment, which is made, or made anew if what is there does not work."""
    python = os.path.join(directory, "bin", "python")
    if is_usable(python):
        return python
    print(f"setup: making {directory}", flush=True)
    if subprocess.call([sys.executable, "-m", "venv", "--clear", directory]) != 0:
        sys.exit(
            "Python could not make a virtual environment.\n"
            f"  where: {sys.executable} -m venv {directory}\n"
            "  expected: the modules venv and ensurepip\n"
            "  remedy: install them (Debian, Ubuntu: apt-get install python3-venv), or make PYTHON=..."
        )
    return python


def install(python: str, *arguments: str) -> None:
    # pip warns root not to touch the system's packages; an environment of its own is no such place.
    environment = dict(os.environ, PIP_ROOT_USER_ACTION="ignore", PIP_DISABLE_PIP_VERSION_CHECK="1")
    command = [python, "-m", "pip", "install", "--quiet", *arguments]
    if subprocess.call(command, cwd=ROOT, env=environment) != 0:
        sys.exit("setup failed: " + " ".join(command))


def main(name: str, directory: str) -> None:
    python = make_environment(directory)
    print(f"setup: installing the pinned packages into {directory}", flush=True)
    install(python, "--require-hashes", "-r", SITE if name == "site" else LOCK)
    if name == "bench":
        print("setup: installing the peers that the benchmarks compare with (about 1 GB)", flush=True)
        install(python, "-r", PEERS)
    if name != "site":
        install(python, "--no-deps", "--no-build-isolation", "--editable", ROOT)
    with open(os.path.join(directory, STAMP), "w") as stamp:
        stamp.write(name + "\n")
    print(f"setup: {directory} is ready", flush=True)


if __name__ == "__main__":
    check_version()
    if len(sys.argv) != 3 or sys.argv[1] not in ("dev", "bench", "site"):
        sys.exit("usage: set_up.py dev|bench|site DIRECTORY")
    main(sys.argv[1], os.path.abspath(sys.argv[2]))
