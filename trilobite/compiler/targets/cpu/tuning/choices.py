"""Where lowerings ask for schedule parameters: those being tried, else those of the database, else their own.

Enters: a kind of kernel, a description of the problem, and default parameters. Leaves: parameters of the same
names. A parameter says only how work is cut: whatever its value, every result has the same bits. Descriptions
cost time to write, so they are asked for only if somebody would look at them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field

from trilobite.base.records import dataclass
from trilobite.compiler.targets.cpu.tuning import database

Parameters = dict[str, int]


@dataclass(frozen=True)
class Asked:
    """One question of a lowering."""

    kind: str
    problem: str
    defaults: tuple[tuple[str, int], ...]

    @property
    def key(self) -> str:
        return f"{self.kind} {self.problem}"


@dataclass
class Trial:
    """Parameters being tried, for all problems of a kind, and which were asked for."""

    parameters: Mapping[str, int] | None = None
    asked: dict[Asked, None] = field(default_factory=dict)


class _Current(threading.local):
    trial: Trial | None = None


_current = _Current()


@contextmanager
def trying(parameters: Mapping[str, int] | None = None) -> Iterator[Trial]:
    """Within, this thread's lowerings get these parameters or their defaults, never those of the database."""
    before, _current.trial = _current.trial, Trial(parameters)
    try:
        yield _current.trial
    finally:
        _current.trial = before


def choice(kind: str, problem: Callable[[], str], **defaults: int) -> Parameters:
    """The parameters to use."""
    trial = _current.trial
    if trial is not None:
        trial.asked[Asked(kind, problem(), tuple(defaults.items()))] = None
        chosen = trial.parameters
    else:
        kept = database.current()
        chosen = kept.parameters(f"{kind} {problem()}") if kept else None
    if chosen is None or chosen.keys() != defaults.keys():
        return defaults
    return dict(chosen)
