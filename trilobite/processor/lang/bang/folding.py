"""Library headers folded away: what is changed in a source never concerns their megabytes.

Enters: preprocessed text. Leaves: the user's own lines with one marker in the place of every run of lines of
headers, and those runs, so that the whole text can be put together again for clang.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from trilobite.processor.lang.bang.rewrite import chunks

_FOLD = re.compile(r'^# 1 "folded:(\d+)" 3\n', re.MULTILINE)
_SMALL = 4096  # characters of a run that stays where it is


def folded(text: str) -> tuple[str, list[str]]:
    """The text without the runs of headers, and these."""
    made: list[str] = []
    runs: list[str] = []
    for chunk, is_user in chunks(text):
        if is_user or len(chunk) < _SMALL:
            made.append(chunk)
        else:
            made.append(f'# 1 "folded:{len(runs)}" 3\n')
            runs.append(chunk)
    return "".join(made), runs


def unfolded(text: str, runs: Sequence[str]) -> str:
    """The whole text again."""
    return _FOLD.sub(lambda found: runs[int(found[1])], text)
