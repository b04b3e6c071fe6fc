"""What the package takes and never reads: parameters, private names, attributes.

    python -m tools.unread      # writes tests/project/unread.txt anew

Enters: the package's sources. Leaves: lines of a place and names. Some of it is meant: a rule of a table has
the signature of its table, a setting of PyTorch's has no meaning here. What is new there is mostly a fault: a
part of a key that was left out, an argument that is no longer passed on, a step that nobody calls.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KEPT = ROOT / "tests" / "project" / "unread.txt"
ALL = "trilobite"  # where no file is named: nothing of the package reads it
_PARAMETERS = [sys.executable, "-m", "ruff", "check", "--isolated", "--no-cache", "--exit-zero"]
_PARAMETERS += ["--select", "ARG", "--output-format", "json", "trilobite"]
_QUOTED = re.compile(r"`(\w+)`")
_WORD = re.compile(r"\w+")
_PRIVATE = re.compile(r"^ *(?:async )?(?:def|class) (_(?!_)\w+)|^(_(?!_)\w+)(?:: [^=\n]+)? = ", re.M)
_ATTRIBUTE = re.compile(r"\.(\w+)\b")
_WRITTEN = re.compile(r"^ *(?:self|cls)\.(\w+)(?:: [^=\n]+)? = ", re.M)


def unread(root: Path = ROOT) -> Counter[tuple[str, str]]:
    """(place, name), as often as it is met."""
    return parameters(root) + names(texts(root))


def texts(root: Path) -> dict[str, str]:
    paths = sorted((root / "trilobite").rglob("*.py"))
    return {path.relative_to(root).as_posix(): path.read_text(encoding="utf-8") for path in paths}


def parameters(root: Path) -> Counter[tuple[str, str]]:
    """Those that no function's body names."""
    done = subprocess.run(_PARAMETERS, cwd=root, capture_output=True, text=True, check=True)
    rows = json.loads(done.stdout)
    found = ((Path(row["filename"]), _QUOTED.findall(row["message"])) for row in rows)
    return Counter((path.relative_to(root).as_posix(), name) for path, names in found for name in names)


def names(sources: dict[str, str]) -> Counter[tuple[str, str]]:
    """Private functions, classes and constants that are met only where they are defined, and attributes that
    are only written; a word in a text counts as a reader.
    """
    words, attributes = Counter[str](), Counter[str]()
    defined, written = Counter[str](), Counter[str]()
    for text in sources.values():
        words.update(_WORD.findall(text))
        attributes.update(_ATTRIBUTE.findall(text))
        defined.update(a or b for a, b in _PRIVATE.findall(text))
        written.update(_WRITTEN.findall(text))
    private = (name for name, count in defined.items() if words[name] == count)
    only = (name for name, count in written.items() if words[name] == attributes[name] == count)
    return Counter((ALL, name) for name in {*private, *only})


def lines(found: Counter[tuple[str, str]]) -> str:
    by_place: dict[str, list[str]] = {}
    for place, name in sorted(found.elements()):
        by_place.setdefault(place, []).append(name)
    return "".join(f"{place}: {' '.join(names)}\n" for place, names in by_place.items())


def kept() -> Counter[tuple[str, str]]:
    rows = (line.split(": ") for line in KEPT.read_text(encoding="utf-8").splitlines())
    return Counter((place, name) for place, names in rows for name in names.split())


if __name__ == "__main__":
    KEPT.write_text(lines(unread()), encoding="utf-8")
