"""Opens a bundle and runs it once for each file of inputs: what `build` does in a process of its own."""

from __future__ import annotations

import sys

import numpy as np

from trilobite.inference.bundle.opening import open_bundle


def main(bundle: str, *feeds: str) -> None:
    session = open_bundle(bundle)
    for path in feeds:
        with np.load(path, allow_pickle=False) as found:
            session.run({name: found[name] for name in found.files})


if __name__ == "__main__":
    main(*sys.argv[1:])
