"""The rooms of the package as the campaign of mutants counts them, and the tests that belong to each.

Enters: paths of sources and of tests. Leaves: the room of a source, and whether tests are its room's own.
"""

from __future__ import annotations

from tools.mutants import Mutant

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
WALKS = ("tests/project/test_reference.py",)
DEFAULTS = "tests/project/test_defaults.py"  # of these, the one whose rows can be asked for one module alone


def room_of(path: str) -> str:
    return max((room for room in ROOMS if path.startswith(room + "/")), key=len, default="")


def is_own(mutant: Mutant, file: str) -> bool:
    """Are these tests of the mutant's room, or of all rooms?"""
    if mutant.at_import and file in WALKS:
        return True
    return file.startswith(tuple(f"{folder}/" for folder in ROOMS[room_of(mutant.path)]))
