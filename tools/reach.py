"""Which functions of the package does each file of tests enter? And which tests to show a mutant first.

    python -m tools.reach --seconds 300      # goes on where it was stopped

Enters: sources, tests. Leaves: `.mutants/reach/`: the names of all functions, and for each file of tests the
numbers of those that a seeded part of its tests entered, a few seconds of each file. Most of a file's tests
enter the same: what is missed costs a mutant a chance to be noticed, no more. A campaign asks the files
that enter a mutant's function, those of its room and those that speak of it first.
"""

from __future__ import annotations

import argparse
import json
import marshal
import math
import random
import re
import subprocess
import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from itertools import groupby
from pathlib import Path

from tools import planted, witnesses
from tools.mutants import Mutant, scopes_of
from tools.mutants import planted as planted_in
from tools.rooms import WALKS, is_own

ROOT = Path(__file__).resolve().parent.parent
KEPT = "reach"  # below the folder of campaigns
TOGETHER = 30  # files that one process collects
OWN = 4.0  # so much more are the words of its room's tests worth
NARROW = 1.5  # and so much that a file enters half as many functions
VOTES = 8  # files of tests that a mutant chooses
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9]*")


def plant(folder: Path, root: Path) -> None:
    """Code of the whole package whose functions tell that they were entered."""
    names: list[str] = []
    index: dict[str, str] = {}
    for path in sorted((root / "trilobite").rglob("*.py")):
        text, place = path.read_text(encoding="utf-8"), path.relative_to(root).as_posix()
        numbers = {}
        for scope in scopes_of(text):
            numbers[scope] = len(names)
            names.append(f"{place} {scope}")
        code = planted_in(str(path), place, text, {}, planted.CALL, numbers.__getitem__)
        index[str(path)] = f"{len(index)}.code"
        (folder / index[str(path)]).write_bytes(marshal.dumps(code))
    for name, made in {"index.json": index, "texts.json": {}, "functions.json": names}.items():
        (folder / name).write_text(json.dumps(made), encoding="utf-8")
    (folder / "sitecustomize.py").write_text(planted.SITE, encoding="utf-8")


def look(folder: Path, root: Path, files: Sequence[str], seconds: float, each: float) -> None:
    """Some files at a time, in a process that has collected them; each runs in a fork of it."""
    if not (folder / "functions.json").exists():
        folder.mkdir(parents=True, exist_ok=True)
        plant(folder, root)
    bounds = witnesses.Bounds(each, each, 0.0, 0, "")
    until = time.monotonic() + seconds
    left = [file for file in files if file not in entered(folder)]
    while left and time.monotonic() < until:
        chosen, left = left[:TOGETHER], left[TOGETHER:]
        stage = witnesses.Stage(folder, root, bounds)
        stage.collected(chosen, partial(_each_file, folder, bounds))
        for missing in set(chosen) - entered(folder).keys():
            _note(folder, missing, set())


def _each_file(folder: Path, bounds: witnesses.Bounds, tests: witnesses.Tests) -> None:
    by_file = groupby(tests.items, key=lambda item: item.nodeid.partition("::")[0])
    for file, items in by_file:
        found = tests.recorded(folder, bounds, list(items))
        _note(folder, file, {number for row in found for number in row["met"]})


def _note(folder: Path, file: str, met: Collection[int]) -> None:
    with (folder / "entered.jsonl").open("a", encoding="utf-8") as kept:
        kept.write(json.dumps({"file": file, "met": sorted(met)}) + "\n")


def entered(folder: Path) -> dict[str, set[str]]:
    """By file of tests the functions that it entered; nothing where nobody looked."""
    if not (folder / "entered.jsonl").exists():
        return {}
    names: list[str] = json.loads((folder / "functions.json").read_text(encoding="utf-8"))
    rows = map(json.loads, (folder / "entered.jsonl").read_text(encoding="utf-8").splitlines())
    return {row["file"]: {names[number] for number in row["met"]} for row in rows}


def wishes(
    root: Path, files: Sequence[str], mutants: Iterable[Mutant], reached: Mapping[str, set[str]]
) -> dict[str, list[str]]:
    """By the mutant's name the files that may notice it, the best first: those that enter its function
    or that nobody looked at; of these its room's and those whose words are its names.
    """
    texts = {file: (root / file).read_text(encoding="utf-8") for file in files}
    words = {file: set(_WORD.findall(f"{file} {text}")) for file, text in texts.items()}
    counts = Counter(word for found in words.values() for word in found)
    wide = {file: math.log2(2 + len(reached.get(file, ()))) for file in files}
    chosen = {}
    for mutant in mutants:
        wanted = set(_WORD.findall(f"{Path(mutant.path).stem} {mutant.scope}")) & counts.keys()
        key = f"{mutant.path} {mutant.scope}"
        there = [file for file in files if key in reached.get(file, {key})]
        scores = {
            file: OWN * is_own(mutant, file)
            - NARROW * wide[file]
            + sum(math.log(1 + len(files) / counts[word]) for word in wanted & words[file])
            for file in there
        }
        chosen[mutant.name] = sorted(scores, key=lambda file: -scores[file])[:VOTES]
    return chosen


def by_relevance(
    root: Path, files: Sequence[str], mutants: Iterable[Mutant], reached: Mapping[str, set[str]]
) -> list[str]:
    """First those that most mutants wish for: they may notice most for their time."""
    votes = Counter(file for wished in wishes(root, files, mutants, reached).values() for file in wished)
    return sorted(files, key=lambda file: (file not in WALKS, -votes[file]))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--each", type=float, default=1.5, help="seconds of processor time of one file")
    given = parser.parse_args()
    command = ["git", "ls-files", "tests/**/test_*.py"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    files = random.Random(0).sample(sorted(listed), len(listed))
    folder = ROOT / ".mutants" / KEPT
    look(folder, ROOT, files, given.seconds, given.each)
    print(f"{len(entered(folder))} of {len(files)} files of tests looked at")


if __name__ == "__main__":
    main()
