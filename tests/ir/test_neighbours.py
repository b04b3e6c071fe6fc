"""What stands beside each sample of each primitive: taken or refused as it is kept, and what is taken runs.

`python tests/ir/test_neighbours.py` keeps `neighbours.txt` anew: codes of `variants.py` that type rules let
through. A guard that is dropped or moved by one changes a line of it; whoever means to says so with the line.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from test_primitive_table import NAMES, cases, listed
from variants import neighbours, taken, types

from trilobite.base.errors import TrilobiteError
from trilobite.ir.primitive import table
from trilobite.ir.types import type_of

KEPT = Path(__file__).with_name("neighbours.txt")
# Only passes write them, from shapes that a plainer primitive has accepted: their rules name the result.
OF_PASSES = frozenset(
    "conv_last conv_last_input_grad conv_panels conv_integer_panels conv_integer_tiles conv_winograd "
    "dot_quantised window_last_reduce window_last_argmax window_last_scatter".split()
)
OF_OTHERS = frozenset(["callback", "cluster_send", "cluster_receive"])  # a user's function; another rank
# What no type shows: a text with places for operands, positions in a plane, what the dtype cannot hold.
BY_VALUE = {"print": "-", "window_scatter": "plane", "random_bits": "stream=-1", "pad": "value=-1"}


def kept() -> dict[str, list[str]]:
    lines: dict[str, list[str]] = {}
    for line in KEPT.read_text(encoding="utf-8").splitlines():
        name, _, codes = line.partition(":")
        lines.setdefault(name, []).append(codes.strip())
    return lines


@pytest.mark.parametrize("name", [name for name in NAMES if name not in OF_OTHERS])
def test_rules_take_and_refuse_what_they_did(name: str) -> None:
    found, before = taken(name, list(cases(name))), kept()[name]
    assert len(found) == len(before)
    for case, (now, then) in enumerate(zip(found, before, strict=True)):
        assert not set(now.split()) ^ set(then.split()), f"sample {case}"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [name for name in NAMES if name not in OF_PASSES | OF_OTHERS])
def test_what_is_taken_is_computed_as_its_type_says(name: str) -> None:
    """A raw error here is a guard that is missing; an error of the house tells what only values show."""
    with np.errstate(all="ignore"):
        for operands, attributes in cases(name):
            for code, case in neighbours(operands, attributes):
                want = types(name, case)
                if want is None or code.startswith(BY_VALUE.get(name, " ")):
                    continue
                try:
                    found = listed(table[name].evaluate(*case[0], **case[1]))
                except TrilobiteError:
                    continue
                assert [str(type_of(np.asarray(x))) for x in found] == want, code


if __name__ == "__main__":
    rows = [f"{name}: {codes}".rstrip() for name in NAMES if name not in OF_OTHERS
            for codes in taken(name, list(cases(name)))]  # fmt: skip
    KEPT.write_text("\n".join(rows) + "\n", encoding="utf-8")
