"""Does the suite notice small faults? Draws mutants by room, runs the room's tests, prints who survived.

    python -m tools.mutate --lines                                  # anew: which test executes which line
    python -m tools.mutate --count 300 --seed 1 --seconds 3600      # goes on where it was stopped
    python -m tools.mutate --report                                 # the table alone
    python -m tools.mutate --page                                   # the table into docs/testing.md

Enters: the package's sources. Leaves: `.mutants/SEED.jsonl`, one line a mutant (killed, survived, timed out;
`equivalent` once its name stands in `tools/equivalent_mutants.txt`), and a table by room.
A mutant is one small change of one expression: a comparison flipped, a bound moved by one, a guard dropped.
It is tried in a copy of the tree, never in place, by the tests that execute its line, the quickest first, as
many as fit into some minutes; where no test is known to, by those of its room and then its neighbours'. The
test that noticed is run once more without the change: what fails anyway is no witness.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

from tools.covering import PLACE as LINES
from tools.covering import Covering
from tools.mutants import Mutant, mutants_of

ROOT = Path(__file__).resolve().parent.parent
PLACE = ROOT / ".mutants"
KNOWN = ROOT / "tools" / "equivalent_mutants.txt"
PATIENCE = 300  # seconds to begin in on a busy machine; and for tests of which no time is noted
SLOWER = 8  # times what they took when lines were noted: then a mutant hangs
MOST_SECONDS = 400.0  # of the tests of one mutant, as noted
BEGIN, END = "<!-- campaign -->", "<!-- end of campaign -->"  # around the table of the page
QUICKEST = 150  # tests of the first round
_VERDICT = re.compile("FAILED |ERROR ")
# room -> (its tests, its neighbours' tests); the most specific prefix of a file's path decides.
ROOMS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "trilobite/base": (("tests/errors", "tests/spine"), ("tests/ir", "tests/framework")),
    "trilobite/native": (("tests/native",), ("tests/compiler",)),
    "trilobite/ir": (("tests/ir", "tests/spine"), ("tests/framework", "tests/compiler")),
    "trilobite/framework": (
        ("tests/framework", "tests/spine", "tests/errors"),
        ("tests/array_api", "tests/nn"),
    ),
    "trilobite/framework/ops": (("tests/framework", "tests/array_api"), ("tests/errors", "tests/nn")),
    "trilobite/framework/nn": (("tests/nn",), ("tests/optim", "tests/zoo")),
    "trilobite/framework/optim": (("tests/optim",), ("tests/training", "tests/fit")),
    "trilobite/framework/data": (("tests/data",), ("tests/training",)),
    "trilobite/framework/checkpoint": (("tests/checkpoint",), ("tests/training",)),
    "trilobite/compiler": (("tests/compiler",), ("tests/programs", "tests/zoo")),
    "trilobite/processor": (("tests/processor",), ("tests/lang",)),
    "trilobite/processor/lang": (("tests/lang",), ("tests/processor",)),
    "trilobite/inference": (("tests/inference",), ("tests/cli",)),
    "trilobite/report": (("tests/report",), ("tests/cli",)),
    "trilobite/apps": (("tests/apps",), ("tests/training",)),
    "trilobite/cli": (("tests/cli", "tests/project"), ()),
    "trilobite/zoo": (("tests/zoo",), ()),
    "trilobite/cluster": (("tests/cluster",), ()),
    "trilobite/dlp": (("tests/dlp",), ()),
}


def room_of(path: str) -> str:
    return max((room for room in ROOMS if path.startswith(room + "/")), key=len, default="")


def drawn(count: int, seed: int, rooms: Sequence[str]) -> list[Mutant]:
    """Equally many of each room, of its files as their lengths say; the same for the same tree."""
    rng = random.Random(seed)
    files = subprocess.run(
        ["git", "ls-files", "trilobite/*.py"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    by_room: dict[str, list[Mutant]] = {}
    for path in files:
        room = room_of(path)
        if room and (not rooms or room in rooms):
            text = (ROOT / path).read_text(encoding="utf-8")
            by_room.setdefault(room, []).extend(mutants_of(path, text))
    chosen: list[Mutant] = []
    for room in sorted(by_room):
        share = -(-count // len(by_room))
        chosen += rng.sample(by_room[room], min(share, len(by_room[room])))
    taken = {mutant.name for mutant in chosen}  # a small room has fewer: the others make up for it
    rest = [mutant for room in sorted(by_room) for mutant in by_room[room] if mutant.name not in taken]
    chosen += rng.sample(rest, min(len(rest), max(count - len(chosen), 0)))
    rng.shuffle(chosen)
    return chosen[:count]


class Copy:
    """A copy of the tree that one worker changes and puts back."""

    def __init__(self, place: Path, lines: Covering) -> None:
        self.place = place
        self.lines = lines
        self._stamp = int(time.time())
        listed = ["git", "ls-files", "-co", "--exclude-standard"]
        files = subprocess.run(
            listed, cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout.splitlines()
        for name in files:
            if (ROOT / name).is_file():
                (place / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, place / name)
        if (ROOT / ".data").exists():
            (place / ".data").symlink_to(ROOT / ".data")
        subprocess.run(["git", "init", "-q"], cwd=place, check=True)  # tests that ask git find a checkout
        subprocess.run(["git", "add", "-A"], cwd=place, check=True, capture_output=True)

    def judge(self, mutant: Mutant) -> tuple[str, str]:
        """killed, timed out or survived, and the test that noticed; unsure: it fails anyway."""
        path = self.place / mutant.path
        before = path.read_bytes()
        for tests in self.rounds(mutant):
            self._write(path, before[: mutant.start] + mutant.new.encode() + before[mutant.end :])
            try:
                verdict, witness = self._run(tests)
            finally:
                self._write(path, before)
            if verdict == "killed" and witness and self._run([witness])[0] != "survived":
                return "unsure", witness
            if verdict != "survived":
                return verdict, witness
        return "survived", ""

    def rounds(self, mutant: Mutant) -> Iterator[list[str]]:
        """The tests during which the line ran, or others of its file, the quickest first; where it ran in no
        test, those of the room, too: they may start processes.
        """
        lines = (mutant.path, mutant.line, mutant.last)
        known = [test for test in self.lines.tests_of(*lines) if self._exists(test)]
        spent = itertools.accumulate(map(self.seconds, known))
        fit = sum(each <= MOST_SECONDS for each in spent)
        for part in (known[:QUICKEST], known[QUICKEST:fit]):
            if part:
                yield part
        if self.lines.ran(*lines):
            return
        for tests in ROOMS[room_of(mutant.path)]:
            present = [test for test in tests if self._exists(test)]
            if present:
                yield present

    def seconds(self, test: str) -> float:
        """As noted; a whole folder's are not known."""
        return self.lines.seconds.get(test, PATIENCE / SLOWER)

    def _exists(self, test: str) -> bool:
        return (self.place / test.partition("::")[0]).exists()

    def _write(self, path: Path, content: bytes) -> None:
        """Python tells compiled files by whole seconds and sizes: no two contents have the same second."""
        path.write_bytes(content)
        self._stamp += 1
        os.utime(path, (self._stamp, self._stamp))

    def _run(self, tests: Sequence[str]) -> tuple[str, str]:
        wanted = self.place / ".wanted"
        wanted.write_text("\n".join(tests), encoding="utf-8")
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-x",
            "-n",
            "0",
            "-p",
            "no:cacheprovider",
            f"@{wanted}",
        ]
        quiet = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
        places = {
            "PYTHONPATH": str(self.place),
            "TRILOBITE_CACHE": str(self.place / ".cache"),
            "PYTHONPYCACHEPREFIX": str(self.place / ".compiled"),
        }
        environment = {**os.environ, **quiet, **places}
        patience = PATIENCE + SLOWER * sum(map(self.seconds, tests))
        try:
            done = subprocess.run(
                command, cwd=self.place, env=environment, capture_output=True, text=True, timeout=patience
            )
        except subprocess.TimeoutExpired:
            return "timed out", ""
        failed = [_named(line, tests) for line in done.stdout.splitlines() if _VERDICT.match(line)]
        return ("survived", "") if done.returncode == 0 else ("killed", failed[0] if failed else "")


def _named(line: str, tests: Sequence[str]) -> str:
    """The test of a line of pytest's summary; its name may have spaces."""
    text = _VERDICT.sub("", line)
    return max(
        (test for test in tests if text.startswith(test) and "::" in test),
        key=len,
        default=text.partition(" - ")[0],
    )


def note_lines(workers: int) -> None:
    """Runs the suite with a recorder of lines; what it left before is gone. What fails is no witness."""
    shutil.rmtree(LINES, ignore_errors=True)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tools.covering", "-n", str(workers)]
    subprocess.run(command, cwd=ROOT, check=False)


def campaign(mutants: Sequence[Mutant], file: Path, seconds: float, workers: int) -> None:
    """Judges what has no verdict yet, until the time is over."""
    known = {row["name"] for row in rows_of(file)}
    waiting = [mutant for mutant in mutants if mutant.name not in known]
    until = time.monotonic() + seconds
    file.parent.mkdir(exist_ok=True)
    lines = Covering.read()
    print(f"{len(mutants)} mutants, {len(mutants) - len(waiting)} judged before", flush=True)

    def work(place: Path) -> None:
        copy = Copy(place, lines)
        while waiting and time.monotonic() < until:
            mutant = waiting.pop()
            began = time.monotonic()
            verdict, witness = copy.judge(mutant)
            row = {
                "name": mutant.name,
                "verdict": verdict,
                "witness": witness,
                "seconds": time.monotonic() - began,
            }
            with file.open("a", encoding="utf-8") as log:
                log.write(json.dumps({**row, **asdict(mutant)}) + "\n")
            print(f"{verdict:<10} {mutant.name} {witness}", flush=True)

    with tempfile.TemporaryDirectory(prefix="mutants-") as top, ThreadPoolExecutor(workers) as pool:
        places = [Path(top) / str(n) for n in range(workers)]
        for place in places:
            place.mkdir()
        for done in [pool.submit(work, place) for place in places]:
            done.result()


def rows_of(file: Path) -> list[dict[str, str]]:
    if not file.exists():
        return []
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def table(rows: Sequence[dict[str, str]]) -> str:
    """By room: how many were killed of those that change results."""
    listed = KNOWN.read_text(encoding="utf-8").splitlines() if KNOWN.exists() else []
    equivalent = {line.partition("  # ")[0] for line in listed}
    counts: dict[str, Counter[str]] = {}
    for row in rows:
        verdict = (
            "equivalent" if row["verdict"] == "survived" and row["name"] in equivalent else row["verdict"]
        )
        counts.setdefault(room_of(row["path"]), Counter())[verdict] += 1
    total: Counter[str] = sum(counts.values(), Counter())
    lines = ["| room | killed | survived | equivalent | share |", "|---|---|---|---|---|"]
    for room, found in [*sorted(counts.items()), ("all", total)]:
        killed = found["killed"] + found["timed out"]
        judged = killed + found["survived"]
        share = f"{killed / judged:.0%}" if judged else "-"
        lines.append(f"| {room} | {killed} | {found['survived']} | {found['equivalent']} | {share} |")
    return "\n".join(lines)


def write_page(rows: Sequence[dict[str, str]], seed: int) -> None:
    """The table into the page, with the day and the commit that it holds for."""
    command = ["git", "log", "-1", "--format=%h"]
    commit = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    page = ROOT / "docs" / "testing.md"
    before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    told = f"{len(rows)} mutants, seed {seed}, {time.strftime('%Y-%m-%d')}, commit {commit}:"
    made = f"{before}{BEGIN}\n{told}\n\n{table(rows)}\n{END}{rest.partition(END)[2]}"
    page.write_text(made, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--room", action="append", default=[], choices=sorted(ROOMS))
    parser.add_argument("--report", action="store_true", help="the table of what was judged before")
    parser.add_argument(
        "--lines", action="store_true", help="run the suite once and note which lines tests execute"
    )
    parser.add_argument("--page", action="store_true", help="write the table into docs/testing.md")
    given = parser.parse_args()
    if given.page:
        return write_page(rows_of(PLACE / f"{given.seed}.jsonl"), given.seed)
    if given.lines or not (given.report or LINES.exists()):
        note_lines(given.workers)
    if given.lines:
        return
    file = PLACE / f"{given.seed}.jsonl"
    if not given.report:
        campaign(drawn(given.count, given.seed, given.room), file, given.seconds, given.workers)
    print(table(rows_of(file)))
    for row in rows_of(file):
        if row["verdict"] == "survived":
            print("survived", row["name"])


if __name__ == "__main__":
    main()
