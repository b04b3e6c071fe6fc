"""The debugger as a conversation: one line in, some lines of text out.

Enters: a `Debugger` and the lines a person types. Leaves: answers; errors are answers too. `trilobite debug`
is this with a terminal around it; a file or a pipe of commands works as well.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from trilobite.base.errors import ArgumentError, TrilobiteError
from trilobite.processor.isa.address import address_text
from trilobite.processor.isa.disassembler import instruction_text
from trilobite.processor.isa.formats import Array
from trilobite.processor.isa.row import Region, signed
from trilobite.processor.machine.description import DEFAULT
from trilobite.processor.sim.memory import MEMORY_CORE, Place
from trilobite.processor.tools.arguments import shape_of
from trilobite.processor.tools.debugger import Debugger, Stop
from trilobite.processor.tools.launching import named_launch

PROMPT = "(dlp) "
AROUND = 4  # instructions that `list` shows on either side


class Command(NamedTuple):
    names: tuple[str, ...]
    usage: str
    what: str
    action: Callable[[Session, list[str]], str]


class Session:
    """`sources` are the lines of source files by name, shown at each stop where they are known."""

    def __init__(self, debugger: Debugger, sources: Mapping[str, Sequence[str]] | None = None) -> None:
        self.debugger, self.sources = debugger, sources or {}
        self.is_over = False
        self._last = ""

    def execute(self, line: str) -> str:
        """The answer to a line; an empty line repeats the last command."""
        words = (line.strip() or self._last).split()
        if not words:
            return ""
        self._last = " ".join(words)
        command = BY_NAME.get(words[0])
        if command is None:
            return f"there is no command {words[0]!r}; `help` lists them"
        try:
            return command.action(self, words[1:])
        except TrilobiteError as error:
            return str(error)

    def stop(self, stop: Stop) -> str:
        lines = [str(stop)]
        file, _, number = stop.line.rpartition(":")
        source = self.sources.get(file)
        if source is not None and number.isdecimal() and int(number) <= len(source):
            lines.append(f"{number:>6}  {source[int(number) - 1].rstrip()}")
        return "\n".join(lines)


def _count(words: Sequence[str]) -> int:
    if not words:
        return 1
    if not words[0].isdecimal() or int(words[0]) < 1:
        raise ArgumentError(f"{words[0]!r} is no count", expected="a number from 1 on", remedy="correct it")
    return int(words[0])


def place_of(text: str) -> Place:
    """0.2 is core 2 of cluster 0, 0.m its memory core; 2 alone is core 2 of cluster 0."""
    cluster, _, core = text.rpartition(".")
    if not (cluster or "0").isdecimal() or not (core == "m" or core.isdecimal()):
        raise ArgumentError(
            f"{text!r} is no core", expected="cluster.core such as 0.2, or 0.m", remedy="`cores` lists them"
        )
    return Place(int(cluster or "0"), MEMORY_CORE if core == "m" else int(core))


def place_text(place: Place) -> str:
    return f"{place.cluster}.{'m' if place.is_memory_core else place.core}"


def _break(session: Session, words: list[str]) -> str:
    core = place_of(words[2]) if len(words) == 3 and words[1] == "on" else None
    if not words or (len(words) > 1 and core is None):
        raise ArgumentError("break where?", expected="break WHERE [on CORE]", remedy="name a label or a line")
    made = session.debugger.break_at(words[0], core)
    places = ", ".join(str(place) for place in sorted(made.instructions))
    return f"breakpoint {made.number}: {made.text}, before instruction {places}"


def _watch(session: Session, words: list[str]) -> str:
    size = words[-1] if len(words) > 1 else ""
    if not size.isdecimal():
        raise ArgumentError("watch what?", expected="watch ADDRESS BYTES", remedy="say how many bytes")
    made = session.debugger.watch(" ".join(words[:-1]), int(size))
    return f"watchpoint {made.number}: {made.text}"


def _breaks(session: Session, words: list[str]) -> str:
    debugger = session.debugger
    lines = [f"breakpoint {one.number}: {one.text}" + (f" on {place_text(one.core)}" if one.core else "")
             for one in debugger.breakpoints]  # fmt: skip
    lines += [f"watchpoint {one.number}: {one.text}" for one in debugger.watchpoints]
    return "\n".join(lines) or "none"


def _delete(session: Session, words: list[str]) -> str:
    number = _count(words)
    session.debugger.delete(number)
    return f"{number} is gone"


def _mover(method: str, counts: bool) -> Callable[[Session, list[str]], str]:
    def action(session: Session, words: list[str]) -> str:
        move = getattr(session.debugger, method)
        return session.stop(move(_count(words)) if counts else move())

    return action


def _focus(session: Session, words: list[str]) -> str:
    if not words:
        raise ArgumentError("focus on whom?", expected="focus CLUSTER.CORE", remedy="`cores` lists them")
    session.debugger.set_focus(place_of(words[0]))
    return session.stop(session.debugger.where("in focus"))


def _cores(session: Session, words: list[str]) -> str:
    debugger = session.debugger
    lines = []
    for core in debugger.cores:
        mark = "*" if core.place == debugger.focus else " "
        state = "has ended" if core.halted else f"at {debugger.program.where(core.pc)}"
        under_way = len(debugger.in_flight(core.place))
        more = f", {under_way} under way" if under_way else ""
        lines.append(f"{mark} {place_text(core.place):<6}task {core.special.get('taskId', 0)}, {state}{more}")
    return "\n".join(lines)


def _where(session: Session, words: list[str]) -> str:
    return session.stop(session.debugger.where())


def _list(session: Session, words: list[str]) -> str:
    program, pc = session.debugger.program, session.debugger.core.pc
    around = _count(words) if words else AROUND
    labels = {symbol.offset: name for name, symbol in program.symbols.items() if symbol.section == "text"}
    lines = []
    for place in range(max(0, pc - around), min(len(program.instructions), pc + around + 1)):
        if place in labels:
            lines.append(f"{labels[place]}:")
        mark = "->" if place == pc else "  "
        lines.append(f"{mark}{place:>6}  {instruction_text(program.instructions[place], labels, place)}")
    return "\n".join(lines)


def _registers(session: Session, words: list[str]) -> str:
    registers = session.debugger.registers
    chosen = [_register(word) for word in words] or [n for n, value in enumerate(registers) if value]
    lines = [f"${number:<4}{registers[number]:#x}  {signed(registers[number])}" for number in chosen]
    return "\n".join(lines) or "all registers are 0"


def _register(word: str) -> int:
    digits = word.removeprefix("$")
    if not digits.isdecimal() or int(digits) > 63:
        raise ArgumentError(f"{word!r} is no register", expected="$0 to $63", remedy="correct it")
    return int(digits)


def _show(session: Session, words: list[str]) -> str:
    if len(words) < 3:
        raise ArgumentError("show what?", expected="show ADDRESS FORMAT SHAPE", remedy="show nram(0) f32 4x8")
    values = session.debugger.tensor(" ".join(words[:-2]), words[-2], shape_of(words[-1]))
    return _array_text(values)


def _array_text(values: Array) -> str:
    return np.array2string(values, separator=" ", threshold=512, max_line_width=100)


def _variables(session: Session, words: list[str]) -> str:
    from trilobite.processor.lang.inspection import variables

    found = variables(session.debugger)
    unknown = [word for word in words if word not in found]
    if unknown:
        raise ArgumentError(
            f"no variable {unknown[0]!r} is set here",
            expected="one of " + ", ".join(found),
            remedy="`vars` alone lists them all",
        )
    return "\n".join(f"{name} = {found[name]!r}" for name in words or found) or "no variable is set here"


def _buffer(session: Session, words: list[str]) -> str:
    from trilobite.processor.lang.inspection import buffer, buffers_text

    if not words:
        return buffers_text(session.debugger)
    slot = int(words[1]) if len(words) > 1 and words[1].isdecimal() else 0
    return _array_text(buffer(session.debugger, words[0], slot))


def _copies(session: Session, words: list[str]) -> str:
    debugger = session.debugger
    lines = []
    for entry in debugger.in_flight():
        text = instruction_text(debugger.program.instructions[entry.instruction])
        where = debugger.program.where(entry.instruction)
        lines.append(f"{entry.queue:<8}{text} ({where}) writes {', '.join(map(_bytes, entry.writes))}")
    return "\n".join(lines) or "nothing is under way"


def _bytes(place: Region) -> str:
    return f"{place.bytes} bytes at {address_text(place.address)}"


def _findings(session: Session, words: list[str]) -> str:
    if session.debugger.checks is None:
        return "the checkers are off"
    return "\n".join(str(finding) for finding in session.debugger.findings) or "none"


def _printed(session: Session, words: list[str]) -> str:
    return session.debugger.printed or "nothing was printed"


def _help(session: Session, words: list[str]) -> str:
    return "\n".join(f"{command.usage:<32}{command.what}" for command in COMMANDS)


def _quit(session: Session, words: list[str]) -> str:
    session.is_over = True
    return ""


COMMANDS = (
    Command(("break", "b"), "break WHERE [on CORE]", "stop at a label, line, file:line or *number", _break),
    Command(("watch", "w"), "watch ADDRESS BYTES", "stop behind a write to any of these bytes", _watch),
    Command(("breaks",), "breaks", "list breakpoints and watchpoints", _breaks),
    Command(("delete",), "delete N", "forget one of them", _delete),
    Command(("run", "continue", "c"), "run", "go on to the next stop", _mover("run", False)),
    Command(("step", "s"), "step [N]", "N instructions of the core in focus", _mover("step", True)),
    Command(("line", "n"), "line [N]", "N source lines", _mover("step_line", True)),
    Command(("back",), "back [N]", "N instructions back", _mover("back", True)),
    Command(("backline",), "backline [N]", "N source lines back", _mover("back_line", True)),
    Command(("runback", "rc"), "runback", "back to the stop before", _mover("run_back", False)),
    Command(("focus", "f"), "focus CORE", "look at another core: 0.2, or 0.m for a memory core", _focus),
    Command(("cores",), "cores", "where every core is", _cores),
    Command(("where",), "where", "where the core in focus is", _where),
    Command(("list", "l"), "list [N]", "N instructions before and behind", _list),
    Command(("regs", "r"), "regs [$N ...]", "registers; without numbers those that are not 0", _registers),
    Command(("show", "x"), "show ADDRESS FORMAT SHAPE", "memory as a tensor: show nram(0) f32 4x8", _show),
    Command(("vars", "v"), "vars [NAME ...]", "a kernel's variables here", _variables),
    Command(("buffer",), "buffer [NAME [SLOT]]", "a kernel's array; alone: which there are", _buffer),
    Command(("copies",), "copies", "what this core started and has not waited for", _copies),
    Command(("findings",), "findings", "what the checkers found so far", _findings),
    Command(("printed",), "printed", "what the program printed", _printed),
    Command(("help", "h"), "help", "this list", _help),
    Command(("quit", "q"), "quit", "end", _quit),
)  # fmt: skip
BY_NAME = {name: command for command in COMMANDS for name in command.names}


def debug(
    source: str,
    machine: str = DEFAULT,
    entry: str = "",
    arg: list[str] | None = None,
    dim: str = "1",
    task: str = "block",
    checks: bool = True,
    level: int = 2,
) -> None:
    """Run a program under the debugger; commands come from the terminal or a pipe.

    ARG is a number, random:f32:8x4, zeros:i32:16, empty:f16:64, or a .npy file; give one --arg each.
    --level 0 compiles a .mlu file so that every variable can be seen.
    """
    named = named_launch(source, machine, entry, arg, dim, task, level)
    debugger = Debugger(named.device, named.kernel, named.args, named.dim, named.task, checks=checks)
    session = Session(debugger, _sources(source))
    print(session.stop(debugger.where("held at the beginning")))
    _converse(session)


def _sources(source: str) -> dict[str, list[str]]:
    if not source.endswith((".s", ".mlu")):
        return {}
    return {Path(source).name: Path(source).read_text(encoding="utf-8").splitlines()}


def _converse(session: Session) -> None:
    is_terminal = sys.stdin.isatty()
    while not session.is_over:
        if is_terminal:
            print(PROMPT, end="", flush=True)
        line = sys.stdin.readline()
        if not line:
            return
        answer = session.execute(line)
        if answer:
            print(answer)


__all__ = ["COMMANDS", "Session", "debug"]
