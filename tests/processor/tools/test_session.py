"""The debugger's conversation, as text: through the library and through `trilobite debug`."""

from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import trilobite
from trilobite.base.errors import ArgumentError
from trilobite.processor.device import Device
from trilobite.processor.isa.assembler import assemble_program
from trilobite.processor.tools.arguments import argument
from trilobite.processor.tools.debugger import Debugger
from trilobite.processor.tools.session import COMMANDS, Session

SOURCE = """\
.entry main                 // doubles an array, tile by tile
.nram
tile: .space 64
.text
main:
    LA $10, tile
    SMOVE $2, #16
    SMOVE $3, #2
next:
    VLOAD $10, $2, $0, #0
    SYNC.io
    VAV $10, $2, $10, $10
    SYNC.vector
    VSTORE $10, $2, $0, #0
    SYNC.io
    SADD $0, $0, #64
    SADD $3, $3, #-1
    CB #next, $3
"""


def session(source: str = SOURCE, machine: str = "dlp-m", **options) -> Session:
    device = Device(machine)
    program = assemble_program(source, "double.s")
    data = device.array(np.arange(32, dtype=np.float32) / 2)
    debugger = Debugger(device, device.load(program)["main"], [data], checks=True, **options)
    debugger.data = data
    return Session(debugger, {"double.s": source.splitlines()})


def converse(made: Session, text: str) -> None:
    """Lines that begin with > are typed; what follows each must be the answer, word for word."""
    blocks = [block.strip("\n") for block in text.strip("\n").split("\n> ")]
    blocks[0] = blocks[0].removeprefix("> ")
    for block in blocks:
        command, _, answer = block.partition("\n")
        assert f"> {command}\n{made.execute(command)}".rstrip() == f"> {command}\n{answer}".rstrip()


def test_a_session() -> None:
    made = session()
    converse(made, """
> where
held
cluster 0 core 0, instruction 0: SLI $10, #0 (double.s:6)
     6      LA $10, tile
> break next
breakpoint 1: next, before instruction 4
> run
breakpoint 1: next
cluster 0 core 0, instruction 4: VLOAD.f32 $10, $2, $0, #0 (double.s:10)
    10      VLOAD $10, $2, $0, #0
> copies
nothing is under way
> step
stepped
cluster 0 core 0, instruction 5: SYNC.io (double.s:11)
    11      SYNC.io
> copies
io      VLOAD.f32 $10, $2, $0, #0 (double.s:10) writes 64 bytes at nram+0x0
> show tile f32 2x4
[[0.  0.5 1.  1.5]
 [2.  2.5 3.  3.5]]
> line 2
stepped
cluster 0 core 0, instruction 7: SYNC.vector (double.s:13)
    13      SYNC.vector
> show tile + 16 f32 4
[4. 5. 6. 7.]
> back
stepped back
cluster 0 core 0, instruction 6: VAV.f32 $10, $2, $10, $10 (double.s:12)
    12      VAV $10, $2, $10, $10
> show tile+16 f32 4
[2.  2.5 3.  3.5]
> watch $0 + 64 64
watchpoint 2: $0 + 64, 64 bytes
> breaks
breakpoint 1: next
watchpoint 2: $0 + 64, 64 bytes
> delete 1
1 is gone
> run
watchpoint 2: $0 + 64, 64 bytes, written by cluster 0 core 0 at double.s:14
cluster 0 core 0, instruction 9: SYNC.io (double.s:15)
    15      SYNC.io
> regs $3 $2
$3   0x1  1
$2   0x10  16
> runback
watchpoint 2: $0 + 64, 64 bytes, before the write
cluster 0 core 0, instruction 8: VSTORE.f32 $10, $2, $0, #0 (double.s:14)
    14      VSTORE $10, $2, $0, #0
> list 1
       7  SYNC.vector
->     8  VSTORE.f32 $10, $2, $0, #0
       9  SYNC.io
> findings
none
> cores
* 0.0   task 0, at double.s:14
> delete 2
2 is gone
> run
the program has ended
cluster 0 core 0, instruction 13: the end (end)
> printed
nothing was printed
> quit
""")  # fmt: skip
    assert made.is_over
    assert (made.debugger.data.numpy() == np.arange(32)).all()


def test_an_empty_line_repeats() -> None:
    made = session()
    assert made.execute("") == ""
    made.execute("step")
    assert "instruction 2" in made.execute("") and "instruction 3" in made.execute("  ")


def test_a_finding_in_a_session() -> None:
    made = session(SOURCE.replace("    SYNC.io\n    VAV", "    VAV"))
    converse(made, """
> run
finding: read after write without order: nram+0x0 to +0x40
  first: cluster 0 core 0, io queue, instruction 4: VLOAD.f32 $10, $2, $0, #0 (double.s:10)
  second: cluster 0 core 0, vector queue, instruction 5: VAV.f32 $10, $2, $10, $10 (double.s:11)
  expected: queue order, SYNC or BARRIER from the first to the second
  remedy: put SYNC.io between them
cluster 0 core 0, instruction 6: SYNC.vector (double.s:12)
    12      SYNC.vector
""")  # fmt: skip
    assert made.execute("findings").startswith("read after write without order")


def test_focus_in_a_cluster() -> None:
    source = ".entry main\nmain: SREAD $1, #coreId\nBARRIER.cluster\nHALT"
    made = session(source, dim=(4, 1, 1), task="union1")
    converse(made, """
> focus 0.m
in focus
cluster 0 memory core, instruction 0: SREAD $1, #11 (double.s:2)
     2  main: SREAD $1, #coreId
> step
stepped
cluster 0 memory core, instruction 1: BARRIER.cluster (double.s:3)
     3  BARRIER.cluster
> regs $1 $62 $63
$1   0x80  128
$62  0x400000000200000  288230376153808896
$63  0x3  3
> cores
  0.0   task 0, at double.s:3
  0.1   task 1, at double.s:3
  0.2   task 2, at double.s:3
  0.3   task 3, at double.s:3
* 0.m   task 0, at double.s:3
> break 4 on 0.2
breakpoint 1: 4, before instruction 2
> breaks
breakpoint 1: 4 on 0.2
> run
breakpoint 1: 4
cluster 0 core 2, instruction 2: HALT (double.s:4)
     4  HALT
> cores
  0.0   task 0, has ended
  0.1   task 1, has ended
* 0.2   task 2, at double.s:4
  0.3   task 3, at double.s:4
  0.m   task 0, at double.s:4
> focus 7
cluster 0 core 7 has no part in this launch
  expected: cluster 0 core 0, cluster 0 core 1, cluster 0 core 2, cluster 0 core 3, cluster 0 memory core
  remedy: choose one of these
""")  # fmt: skip


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("dance", "there is no command 'dance'; `help` lists them"),
        ("break", "break where?"),
        ("break next 3", "break where?"),
        ("break next on earth", "'earth' is no core"),
        ("watch nram(0)", "watch what?"),
        ("step much", "'much' is no count"),
        ("step 0", "'0' is no count"),
        ("focus", "focus on whom?"),
        ("focus a.b", "'a.b' is no core"),
        ("regs $64", "'$64' is no register"),
        ("show nram(0) f32", "show what?"),
        ("show nram(0) f32 4y4", "'4y4' is no shape"),
        ("show eram(0) f32 4", "'eram(0)' is no address"),
        ("delete 3", "there is no breakpoint 3"),
    ],
)
def test_misunderstandings_are_answered(line: str, answer: str) -> None:
    assert session().execute(line).splitlines()[0].startswith(answer)


def test_help_names_every_command() -> None:
    text = session().execute("help")
    assert len(text.splitlines()) == len(COMMANDS)
    assert all(command.what in text and command.usage in text for command in COMMANDS)


# The command line belongs to the whole package: where the processor stands alone there is none.
with_command_line = pytest.mark.skipif(not (Path(trilobite.__path__[0]) / "cli").exists(), reason="no cli")


@with_command_line
def test_the_command_line(tmp_path) -> None:
    path = tmp_path / "double.s"
    path.write_text(SOURCE)
    np.save(tmp_path / "data.npy", np.ones(32, np.float32))
    words = [sys.executable, "-m", "trilobite", "debug", str(path), "--machine", "dlp-m"]
    typed = "break next\nrun\nregs $3\nquit\n"
    for arg in ("random:f32:32", str(tmp_path / "data.npy")):
        done = subprocess.run([*words, "--arg", arg], input=typed, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines() == [
            "held at the beginning",
            "cluster 0 core 0, instruction 0: SLI $10, #0 (double.s:6)",
            "     6      LA $10, tile",
            "breakpoint 1: next, before instruction 4",
            "breakpoint 1: next",
            "cluster 0 core 0, instruction 4: VLOAD.f32 $10, $2, $0, #0 (double.s:10)",
            "    10      VLOAD $10, $2, $0, #0",
            "$3   0x2  2",
        ]
    wrong = subprocess.run([*words, "--arg", "what"], input="", capture_output=True, text=True, timeout=60)
    assert wrong.returncode == 1 and "'what' is no argument" in wrong.stderr


def command(*words: str, typed: str = "") -> subprocess.CompletedProcess[str]:
    full = [sys.executable, "-W", "error", "-m", "trilobite", *words]
    return subprocess.run(full, input=typed, capture_output=True, text=True, timeout=60)


@with_command_line
def test_check_and_profile_as_commands(tmp_path) -> None:
    right, wrong = tmp_path / "right.s", tmp_path / "wrong.s"
    right.write_text(SOURCE)
    wrong.write_text(SOURCE.replace("    SYNC.vector\n", "", 1))
    clean = command("check", str(right), "--arg", "random:f32:32", "--poison")
    assert clean.returncode == 0 and clean.stdout == "no errors in 22 instructions on dlp-m\n", clean.stderr
    found = command("check", str(wrong), "--arg", "random:f32:32", "--dim", "2")
    assert found.returncode == 1
    assert "trilobite: the checkers found" in found.stderr and "remedy: put SYNC.vector" in found.stderr
    out = tmp_path / "profile"
    shown = command(
        "profile", str(right), "--machine", "dlp-m", "--arg", "random:f32:32", "--output", str(out)
    )
    assert shown.returncode == 0, shown.stderr
    for title in ("queues", "source lines", "critical path", "roofline"):
        assert f"\n{title}\n" in shown.stdout
    assert "right.s:12" in shown.stdout and (out / "trace.pftrace").is_file()
    odd = command("check", str(right), "--dim", "1x2x3x4")
    assert odd.returncode == 1 and "a task grid of 1x2x3x4" in odd.stderr


def test_arguments_as_words(tmp_path) -> None:
    device = Device("dlp-s")
    assert argument(device, "-3") == -3 and argument(device, "0x10") == 16 and argument(device, "0.5") == 0.5
    drawn = argument(device, "random:f16:3x4").numpy()
    assert drawn.shape == (3, 4) and drawn.dtype == np.float16 and len(np.unique(drawn)) > 6
    assert (argument(device, "random:f16:3x4").numpy() == drawn).all()
    assert not argument(device, "zeros:i32:5").numpy().any()
    assert argument(device, "empty:bf16:2x2").address in device.memory.unwritten
    made = argument(device, "struct:i8=1,i32=-7,f32=0.25,i8=0x7f")
    assert made == struct.pack("<b3xifb3x", 1, -7, 0.25, 127)  # as C aligns its members
    wrongs = "lots random:f33:4 random:f32 ones:f32:4 random:f32:4x random:i4:4 struct: struct:i32".split()
    wrongs += "struct:i33=1 struct:i4=1 struct:i8=300 struct:f32=x".split()
    for wrong in wrongs:
        with pytest.raises(ArgumentError):
            argument(device, wrong)
    with pytest.raises(ArgumentError, match="the array cannot be read"):
        argument(device, str(tmp_path / "none.npy"))
    np.save(tmp_path / "objects.npy", np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(ArgumentError, match="the array cannot be read"):
        argument(device, str(tmp_path / "objects.npy"))
