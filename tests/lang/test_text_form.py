"""The example in the docstring of `lang/text.py` is in the form that it describes."""

from __future__ import annotations

import re
from textwrap import dedent

from trilobite.processor.lang import text
from trilobite.processor.lang.parse import read
from trilobite.processor.lang.verify import verify


def test_the_example_is_read_verified_and_written_back() -> None:
    found = re.search(r"^    module .*?^    }$", text.__doc__ or "", re.DOTALL | re.MULTILINE)
    assert found is not None
    example = dedent(found[0]) + "\n"
    module = read(example)
    verify(module)
    assert text.write(module) == example
