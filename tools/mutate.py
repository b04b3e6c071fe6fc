"""Does the suite notice small faults? Draws mutants by room, runs tests that reach them, says who survived.

    python -m tools.mutate --count 300 --seed 1 --seconds 3600      # goes on where it was stopped
    python -m tools.mutate --whole                                  # then nearly all tests of `make test`
    python -m tools.mutate --tests tests/ir tests/nn                # only what these tests notice
    python -m tools.mutate --report                                 # the table alone
    python -m tools.mutate --page                                   # the table into docs/testing.md

Enters: the package's sources. Leaves: `.mutants/SEED/`: what was drawn, which tests reach which mutant, and
verdicts, one line each (`equivalent` once the name is in `tools/equivalent_mutants.txt`); a table by room.
A mutant is one small change of one expression: a comparison flipped, a bound moved by one, a guard dropped.
All are planted in the package at once, asleep (`tools.planted`). Each file of tests runs once so, and tells
what its tests pass by; then once more for each of these mutants, awake, with the tests that passed by it, the
quickest first. What failed asleep, or takes longer than some seconds, is no witness.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import marshal
import math
import os
import random
import re
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from tools import witnesses
from tools.mutants import Mutant, mutants_of, planted, texts
from tools.planted import CALL, SITE
from tools.witnesses import QUICK, WHOLE, Bounds, Trial

ROOT = Path(__file__).resolve().parent.parent
PLACE = ROOT / ".mutants"
KNOWN = ROOT / "tools" / "equivalent_mutants.txt"
BEGIN, END = "<!-- campaign -->", "<!-- end of campaign -->"  # around the table of the page
PATIENCE = 3.0  # seconds of processor time for fixtures and first calls
SLOWER = 6  # times what they took asleep: then a mutant hangs
OWN = 4.0  # so much more are the words of its room's tests worth
VOTES = 4  # files of tests that a mutant's names choose
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9]*")
ENTRIES = 1_000_000  # numbers from here on mean: a function of this file was entered
# room -> folders of its own tests; the most specific prefix of a file's path decides.
ROOMS: dict[str, tuple[str, ...]] = {
    "trilobite/base": ("tests/errors", "tests/spine"),
    "trilobite/native": ("tests/native",),
    "trilobite/ir": ("tests/ir", "tests/spine"),
    "trilobite/framework": ("tests/framework", "tests/spine", "tests/errors", "tests/habits"),
    "trilobite/framework/ops": ("tests/framework", "tests/array_api"),
    "trilobite/framework/nn": ("tests/nn",),
    "trilobite/framework/optim": ("tests/optim",),
    "trilobite/framework/data": ("tests/data",),
    "trilobite/framework/checkpoint": ("tests/checkpoint",),
    "trilobite/framework/distributions": ("tests/framework", "tests/nn"),
    "trilobite/framework/logs": ("tests/logs",),
    "trilobite/framework/metrics": ("tests/metrics",),
    "trilobite/framework/pytorch": ("tests/habits",),
    "trilobite/framework/quantization": ("tests/quantization",),
    "trilobite/framework/random": ("tests/framework",),
    "trilobite/compiler": ("tests/compiler",),
    "trilobite/compiler/graph": ("tests/compiler",),
    "trilobite/compiler/program": ("tests/compiler",),
    "trilobite/compiler/targets": ("tests/compiler",),
    "trilobite/compiler/targets/cpu": ("tests/compiler",),
    "trilobite/compiler/targets/dlp": ("tests/compiler", "tests/dlp"),
    "trilobite/processor": ("tests/processor",),
    "trilobite/processor/isa": ("tests/processor",),
    "trilobite/processor/lang": ("tests/lang",),
    "trilobite/processor/machine": ("tests/processor",),
    "trilobite/processor/sim": ("tests/processor",),
    "trilobite/processor/tools": ("tests/processor",),
    "trilobite/inference": ("tests/inference",),
    "trilobite/report": ("tests/report",),
    "trilobite/apps": ("tests/apps",),
    "trilobite/cli": ("tests/cli", "tests/project"),
    "trilobite/zoo": ("tests/zoo",),
    "trilobite/cluster": ("tests/cluster",),
    "trilobite/dlp": ("tests/dlp",),
}


# Files for students: their text stands in pages, and a test compares it letter by letter.
TEXTS = ("trilobite/apps/labs/material/",)
# Tests that walk all modules: what runs when a file is imported is shown to them first, whatever its room.
WALKS = ("tests/project/test_defaults.py", "tests/project/test_reference.py")


def room_of(path: str) -> str:
    return max((room for room in ROOMS if path.startswith(room + "/")), key=len, default="")


def is_own(mutant: Mutant, file: str) -> bool:
    """Are these tests of the mutant's room, or of all rooms?"""
    if mutant.at_import and file in WALKS:
        return True
    return file.startswith(tuple(f"{folder}/" for folder in ROOMS[room_of(mutant.path)]))


def drawn(count: int, seed: int, rooms: Sequence[str]) -> list[Mutant]:
    """Equally many of each room, and in a room of each kind of change; the same for the same tree."""
    by_room: dict[str, list[Mutant]] = {}
    for path in _listed("trilobite/*.py"):
        room = "" if path.startswith(TEXTS) else room_of(path)
        if room and (not rooms or room in rooms or path in rooms):
            text = (ROOT / path).read_text(encoding="utf-8")
            by_room.setdefault(room, []).extend(mutants_of(path, text))
    shares = {room: _mixed(found, random.Random(f"{seed} {room}")) for room, found in sorted(by_room.items())}
    chosen: list[Mutant] = []
    while len(chosen) < count and any(shares.values()):
        chosen += [share.pop() for share in shares.values() if share]
    return chosen[:count]


def _mixed(mutants: Sequence[Mutant], rng: random.Random) -> list[Mutant]:
    """In an order in which kinds take turns, so that rare ones are as frequent as others while they last."""
    kinds: dict[str, list[Mutant]] = {}
    for mutant in mutants:
        kinds.setdefault(mutant.kind, []).append(mutant)
    places = [
        (turn + rng.random(), mutant)
        for _kind, found in sorted(kinds.items())
        for turn, mutant in enumerate(rng.sample(found, len(found)))
    ]
    return [mutant for _place, mutant in sorted(places, key=lambda each: -each[0])]


def _listed(pattern: str) -> list[str]:
    command = ["git", "ls-files", pattern]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()


class Campaign:
    """What one seed has drawn, and the files that its verdicts are kept in."""

    def __init__(self, folder: Path, bounds: Bounds = QUICK) -> None:
        self.folder = folder
        self.bounds = bounds
        self.noted = folder / bounds.kept
        self.mutants: list[Mutant] = []
        if (folder / "drawn.json").exists():
            rows = json.loads((folder / "drawn.json").read_text(encoding="utf-8"))
            self.mutants = [Mutant(**row) for row in rows]
        self.entries = {path: ENTRIES + n for n, path in enumerate(sorted({m.path for m in self.mutants}))}

    @classmethod
    def begun(
        cls, folder: Path, count: int, seed: int, rooms: Sequence[str], bounds: Bounds = QUICK
    ) -> Campaign:
        """Drawn and planted once; later runs go on with the same."""
        if not (folder / "drawn.json").exists():
            folder.mkdir(parents=True, exist_ok=True)
            rows = [asdict(mutant) for mutant in drawn(count, seed, rooms)]
            (folder / "drawn.json").write_text(json.dumps(rows), encoding="utf-8")
        made = cls(folder, bounds)
        made.plant()
        return made

    def plant(self) -> None:
        """Into the code of each file, which a file keeps while its source is the same."""
        index, sources = {}, {}
        numbers = {mutant.name: number for number, mutant in enumerate(self.mutants)}
        for path, entry in self.entries.items():
            if not (ROOT / path).exists():  # gone since they were drawn: verdicts of then stay
                continue
            own = {m.name: numbers[m.name] for m in self.mutants if m.path == path}
            text = (ROOT / path).read_text(encoding="utf-8")
            kept = f"{hashlib.sha256(f'{sorted(own.items())}{text}'.encode()).hexdigest()[:20]}.code"
            if not (self.folder / kept).exists():
                code = planted(str(ROOT / path), path, text, own, CALL, entry)
                (self.folder / kept).write_bytes(marshal.dumps(code))
            index[str(ROOT / path)] = kept
            sources[str(ROOT / path)] = texts(path, text, own)
        for name, found in {"index.json": index, "texts.json": sources}.items():
            (self.folder / name).write_text(json.dumps(found), encoding="utf-8")
        (self.folder / "sitecustomize.py").write_text(SITE, encoding="utf-8")

    def run(self, files: Sequence[str], seconds: float, worker: int, workers: int) -> None:
        """First each file of tests with the mutants of its rooms; then those that are left, with any tests
        that pass by. Until the time is over.
        """
        until = time.monotonic() + seconds
        for own in (True, False):
            done = {row["file"] for row in _rows(self.noted) if own or row["others"]}
            for file in [file for file in files if file not in done][worker::workers]:
                if time.monotonic() > until:
                    return
                self._look(file, own)

    def _look(self, file: str, own: bool) -> None:
        """The first time its tests are noted, too."""
        stage = witnesses.Stage(self.folder, ROOT, self.bounds)
        log = partial(self._log, file)
        if own:
            met = stage.met(file, lambda met: self._trials(file, met, own), log)
        else:
            met = next((row["met"] for row in _rows(self.noted) if row["file"] == file), [])
            if trials := self._trials(file, met, own):
                stage.judged(file, trials, log)
        for trial in self._trials(file, met, own, at_import=True):
            stage.judged_from_the_start(file, trial, log)
        _log(self.noted, {"file": file, "others": not own, "met": met if own else []})

    def _trials(
        self, file: str, met: Sequence[dict[str, Any]], own: bool, at_import: bool = False
    ) -> list[Trial]:
        verdicts = self.verdicts()
        rows = _rows(self.folder / "verdicts.jsonl")
        before = {(row["number"], row["tests"]) for row in rows if row["file"] == file}
        trials = []
        for number, mutant in enumerate(self.mutants):
            tests = sorted(self._reaching(number, mutant, file, met), key=lambda row: row["seconds"])
            decided = verdicts.get(number, "survived") != "survived"
            is_cheap = file in WALKS or (own and not at_import)
            others = is_own(mutant, file) != own or self._is_enough(number, is_cheap)
            if tests and not decided and not others and mutant.at_import == at_import:
                chosen = list(_within(tests, self.bounds.trial))
                limit = PATIENCE + SLOWER * sum(row["seconds"] for row in chosen)
                if (number, len(chosen)) not in before:  # else bounds have widened, but found no more
                    trials.append(Trial(number, tuple(row["test"] for row in chosen), limit))
        return trials

    def _log(self, file: str, trial: Trial, verdict: str, witness: str) -> None:
        row = {"number": trial.number, "file": file, "verdict": verdict, "witness": witness}
        _log(self.folder / "verdicts.jsonl", {**row, "tests": len(trial.tests)})

    def _reaching(
        self, number: int, mutant: Mutant, file: str, met: Sequence[dict[str, Any]]
    ) -> list[dict[str, Any]]:
        """The tests that pass by; for what runs when its file is imported, all of the room's, and of others
        those that enter the file.
        """
        if not mutant.at_import:
            return [row for row in met if number in row["met"]]
        if is_own(mutant, file):
            return list(met)
        return [row for row in met if self.entries[mutant.path] in row["met"]]

    def _is_enough(self, number: int, is_cheap: bool) -> bool:
        """The tests of a room are shown all that they reach, but not what needs a process of its own."""
        if is_cheap:
            return False
        tried = [row for row in _rows(self.folder / "verdicts.jsonl") if row["number"] == number]
        return sum(row["file"] not in WALKS for row in tried) >= self.bounds.files

    def verdicts(self) -> dict[int, str]:
        """By number; what no test reached has none."""
        found: dict[int, str] = {}
        for row in _rows(self.folder / "verdicts.jsonl"):
            if found.get(row["number"], "survived") == "survived":
                found[row["number"]] = row["verdict"]
        return found

    def undecided(self) -> list[Mutant]:
        verdicts = self.verdicts()
        return [m for n, m in enumerate(self.mutants) if verdicts.get(n, "survived") == "survived"]

    def rows(self) -> list[dict[str, str]]:
        verdicts = self.verdicts()
        return [
            {"name": m.name, "path": m.path, "verdict": verdicts.get(n, "not reached"), "line": str(m.line)}
            for n, m in enumerate(self.mutants)
        ]


def _within(tests: Sequence[dict[str, Any]], seconds: float) -> Iterator[dict[str, Any]]:
    """The quickest ones, as many as fit; at least one."""
    spent = 0.0
    for row in tests:
        spent += row["seconds"]
        if spent > seconds and row is not tests[0]:
            return
        yield row


def _rows(file: Path) -> list[dict[str, Any]]:
    if not file.exists():
        return []
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def _log(file: Path, row: dict[str, Any]) -> None:
    with file.open("a", encoding="utf-8") as log:
        log.write(json.dumps(row) + "\n")


def side_by_side(campaign: Campaign, files: Sequence[str], seconds: float, workers: int) -> None:
    """Workers are processes: each forks its own, and nothing of the package is imported in them."""
    children = []
    for worker in range(1, workers):
        child = os.fork()
        if child == 0:
            try:
                campaign.run(files, seconds, worker, workers)
            finally:
                os._exit(0)
        children.append(child)
    campaign.run(files, seconds, 0, workers)
    for child in children:
        os.waitpid(child, 0)


def table(rows: Sequence[dict[str, str]]) -> str:
    """By room: how many were killed of those that change results."""
    listed = KNOWN.read_text(encoding="utf-8").splitlines() if KNOWN.exists() else []
    equivalent = {line.partition("  # ")[0] for line in listed}
    counts: dict[str, Counter[str]] = {}
    for row in rows:
        missed = row["verdict"] in ("survived", "not reached")
        verdict = "equivalent" if missed and row["name"] in equivalent else row["verdict"]
        counts.setdefault(room_of(row["path"]), Counter())[verdict] += 1
    total: Counter[str] = sum(counts.values(), Counter())
    lines = ["| room | killed | survived | equivalent | share |", "|---|---|---|---|---|"]
    for room, found in [*sorted(counts.items()), ("all", total)]:
        killed, lost = found["killed"] + found["timed out"], found["survived"] + found["not reached"]
        share = f"{killed / (killed + lost):.0%}" if killed + lost else "-"
        lines.append(f"| {room} | {killed} | {lost} | {found['equivalent']} | {share} |")
    return "\n".join(lines)


def write_page(campaign: Campaign, seed: int) -> None:
    """The table into the page, with the day, the commit that it holds for, and how far it came."""
    rows, looked = campaign.rows(), {row["file"] for row in _rows(campaign.noted)}
    command = ["git", "log", "-1", "--format=%h"]
    commit = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    page = ROOT / "docs" / "testing.md"
    before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    told = f"{len(rows)} mutants, seed {seed}, {time.strftime('%Y-%m-%d')}, commit {commit}"
    told += f", {len(looked)} of {len(test_files([]))} files of tests looked at"
    told += (
        ":"
        if looked >= set(test_files([]))
        else "; unfinished, what the others would notice counts as survived:"
    )
    made = f"{before}{BEGIN}\n{told}\n\n{table(rows)}\n{END}{rest.partition(END)[2]}"
    page.write_text(made, encoding="utf-8")


def test_files(given: Sequence[str]) -> list[str]:
    chosen = tuple(f"{each.rstrip('/')}/" for each in given) + tuple(given)
    listed = _listed("tests/**/test_*.py")
    return [file for file in listed if file.startswith(chosen)] if given else listed


def by_relevance(files: Sequence[str], mutants: Sequence[Mutant]) -> list[str]:
    """First those whose words are the names of what was changed: they may notice most for their time."""
    words = {
        file: set(_WORD.findall(f"{file} {(ROOT / file).read_text(encoding='utf-8')}")) for file in files
    }
    counts = Counter(word for found in words.values() for word in found)
    votes: Counter[str] = Counter()
    for mutant in mutants:
        wanted = set(_WORD.findall(f"{Path(mutant.path).stem} {mutant.scope}")) & counts.keys()
        scores = {
            file: OWN * is_own(mutant, file)
            + sum(math.log(1 + len(files) / counts[word]) for word in wanted & found)
            for file, found in words.items()
        }
        votes.update(sorted(scores, key=lambda file: -scores[file])[:VOTES])
    return sorted(files, key=lambda file: (file not in WALKS, -votes[file]))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--workers", type=int, default=2)
    rooms = [*ROOMS, *_listed("trilobite/*.py")]
    parser.add_argument("--room", action="append", default=[], choices=rooms, metavar="ROOM_OR_FILE")
    parser.add_argument("--tests", nargs="+", default=[], help="only these folders or files of tests")
    parser.add_argument("--whole", action="store_true", help="bounds so wide that nearly all tests judge")
    parser.add_argument("--report", action="store_true", help="the table of what was judged before")
    parser.add_argument("--page", action="store_true", help="write the table into docs/testing.md")
    given = parser.parse_args()
    folder = PLACE / str(given.seed)
    if given.page:
        return write_page(Campaign(folder), given.seed)
    if not given.report:
        campaign = Campaign.begun(
            folder, given.count, given.seed, given.room, WHOLE if given.whole else QUICK
        )
        files = by_relevance(test_files(given.tests), campaign.undecided())
        side_by_side(campaign, files, given.seconds, given.workers)
    rows = Campaign(folder).rows()
    print(table(rows))
    for row in rows:
        if row["verdict"] in ("survived", "not reached"):
            print(f"{row['verdict']} (line {row['line']}) {row['name']}")


if __name__ == "__main__":
    main()
