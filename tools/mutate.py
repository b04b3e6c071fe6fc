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
import os
import random
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from tools import given as written
from tools import reach, witnesses
from tools.mutants import KIND_GIVEN, Mutant, mutants_of, planted, texts
from tools.planted import CALL, SITE
from tools.rooms import DEFAULTS, ROOMS, TEXTS, WALKS, is_own, room_of
from tools.witnesses import QUICK, WHOLE, Bounds, Trial

ROOT = Path(__file__).resolve().parent.parent
PLACE = ROOT / ".mutants"
KNOWN = ROOT / "tools" / "equivalent_mutants.txt"
BEGIN, END = "<!-- campaign -->", "<!-- end of campaign -->"  # around the table of the page
PATIENCE = 3.0  # seconds of processor time for fixtures and first calls
SLOWER = 6  # times what they took asleep: then a mutant hangs
COMPARES = "test_defaults_are_as_kept"
LONG = 60.0  # seconds of processor time to import the whole package
ENTRIES = 1_000_000  # numbers from here on mean: a function of this file was entered


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
        self.wishes: dict[str, list[str]] = {}  # by name: files of tests that may notice it
        self.is_brief = False  # no others
        if (folder / "drawn.json").exists():
            rows = json.loads((folder / "drawn.json").read_text(encoding="utf-8"))
            self.mutants = [Mutant(**row) for row in rows]
        self.entries = {path: ENTRIES + n for n, path in enumerate(sorted({m.path for m in self.mutants}))}

    @classmethod
    def begun(cls, folder: Path, bounds: Bounds, draw: Callable[[], list[Mutant]]) -> Campaign:
        """Drawn and planted once; later runs go on with the same."""
        if not (folder / "drawn.json").exists():
            folder.mkdir(parents=True, exist_ok=True)
            rows = [asdict(mutant) for mutant in draw()]
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
            given = {numbers[m.name]: m for m in self.mutants if m.path == path and m.kind == KIND_GIVEN}
            text = (ROOT / path).read_text(encoding="utf-8")
            kept = f"{hashlib.sha256(f'{sorted(own.items())}{text}'.encode()).hexdigest()[:20]}.code"
            if not (self.folder / kept).exists():
                prepare = partial(written.plant, text, given, CALL) if given else None
                code = planted(str(ROOT / path), path, text, own, CALL, partial(_same, entry), prepare)
                (self.folder / kept).write_bytes(marshal.dumps(code))
            index[str(ROOT / path)] = kept
            sources[str(ROOT / path)] = texts(path, text, own) | written.texts(text, given)
        for name, found in {"index.json": index, "texts.json": sources}.items():
            (self.folder / name).write_text(json.dumps(found), encoding="utf-8")
        (self.folder / "sitecustomize.py").write_text(SITE, encoding="utf-8")

    def run(self, files: Sequence[str], seconds: float, worker: int, workers: int) -> None:
        """First the files that mutants wish for; then each file of tests with the mutants of its rooms; then
        those that are left, with any tests that pass by. Until the time is over.
        """
        until = time.monotonic() + seconds
        if worker == 0 and DEFAULTS in files:
            self._run_defaults()
        self._run_wished(files[worker::workers], until)
        for own in () if self.is_brief else (True, False):
            done = {row["file"] for row in _rows(self.noted) if own or row["others"]}
            for file in [file for file in files if file not in done][worker::workers]:
                if time.monotonic() > until:
                    return
                self._look(file, own)

    def _run_defaults(self) -> None:
        """Most of what runs when modules are imported are defaults and constants: cheaply told."""
        rows = _rows(self.folder / "verdicts.jsonl")
        before = {row["number"] for row in rows if row["file"] == DEFAULTS}
        modules = {
            number: mutant.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
            for number, mutant in enumerate(self.mutants)
            if mutant.at_import and number not in before
        }
        if modules:
            stage = witnesses.Stage(self.folder, ROOT, self.bounds)
            log = partial(self._log, DEFAULTS)
            stage.judged_by_defaults(DEFAULTS, modules, log)
            told = {row["number"] for row in _rows(self.folder / "verdicts.jsonl")}
            for number in modules.keys() - told:
                stage.judged_from_the_start(DEFAULTS, Trial(number, (f"{DEFAULTS}::{COMPARES}",), LONG), log)

    def _run_wished(self, files: Sequence[str], until: float) -> None:
        """As long as a mutant that is left wishes for a file: the one that most of them wish for."""
        while time.monotonic() < until:
            seen = {row["file"] for row in _rows(self.noted)}
            left = {mutant.name for mutant in self.undecided()}
            pairs = (file for name, wished in self.wishes.items() if name in left for file in wished)
            votes = Counter(file for file in pairs if file in files and file not in seen)
            if not votes:
                return
            self._look(votes.most_common(1)[0][0], None)

    def _look(self, file: str, own: bool | None) -> None:
        """The first time its tests are noted, too; they are its rooms' (`own`), of others, or of any."""
        stage = witnesses.Stage(self.folder, ROOT, self.bounds)
        log = partial(self._log, file)
        if own is not False:
            met = stage.met(file, lambda met: self._trials(file, met, own), log)
        else:
            met = next((row["met"] for row in _rows(self.noted) if row["file"] == file), [])
            if trials := self._trials(file, met, own):
                stage.judged(file, trials, log)
        for trial in self._trials(file, met, own, at_import=True):
            stage.judged_from_the_start(file, trial, log)
        _log(self.noted, {"file": file, "others": own is False, "met": met if own is not False else []})

    def _trials(
        self, file: str, met: Sequence[dict[str, Any]], own: bool | None, at_import: bool = False
    ) -> list[Trial]:
        verdicts = self.verdicts()
        rows = _rows(self.folder / "verdicts.jsonl")
        before = {(row["number"], row["tests"]) for row in rows if row["file"] == file}
        trials = []
        for number, mutant in enumerate(self.mutants):
            tests = sorted(self._reaching(number, mutant, file, met), key=lambda row: row["seconds"])
            decided = verdicts.get(number, "survived") != "survived"
            mine = is_own(mutant, file)
            is_cheap = file in WALKS or (mine and not at_import)
            others = own not in (None, mine) or self._is_enough(number, is_cheap)
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


def _same(entry: int, scope: str) -> int:
    """One number for all functions of a file."""
    return entry


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


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--workers", type=int, default=2)
    rooms = [*ROOMS, *_listed("trilobite/*.py")]
    parser.add_argument("--room", action="append", default=[], choices=rooms, metavar="ROOM_OR_FILE")
    parser.add_argument("--given", type=Path, help="faults that somebody wrote down, instead of drawn ones")
    parser.add_argument("--tests", nargs="+", default=[], help="only these folders or files of tests")
    parser.add_argument("--whole", action="store_true", help="bounds so wide that nearly all tests judge")
    parser.add_argument("--brief", action="store_true", help="only the files that mutants wish for")
    parser.add_argument("--report", action="store_true", help="the table of what was judged before")
    parser.add_argument("--page", action="store_true", help="write the table into docs/testing.md")
    given = parser.parse_args()
    folder = PLACE / str(given.seed)
    if given.page:
        return write_page(Campaign(folder), given.seed)
    if not given.report:
        draw = partial(drawn, given.count, given.seed, given.room)
        if given.given:
            draw = partial(written.read, given.given, ROOT)
        campaign = Campaign.begun(folder, WHOLE if given.whole else QUICK, draw)
        files = test_files(given.tests)
        reached = reach.entered(PLACE / reach.KEPT)
        campaign.is_brief = given.brief
        if not given.whole:
            campaign.wishes = reach.wishes(ROOT, files, campaign.undecided(), reached)
        files = reach.by_relevance(ROOT, files, campaign.undecided(), reached)
        side_by_side(campaign, files, given.seconds, given.workers)
    rows = Campaign(folder).rows()
    print(table(rows))
    for row in rows:
        if row["verdict"] in ("survived", "not reached"):
            print(f"{row['verdict']} (line {row['line']}) {row['name']}")


if __name__ == "__main__":
    main()
