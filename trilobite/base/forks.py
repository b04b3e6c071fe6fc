"""Locks after a fork: in the child, those that other threads held are free again, for these are not there.

Enters: locks, or objects with a method `after_fork` that puts their own state right. What the forking thread
itself holds stays as it is: it goes on in the child where it was.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any, TypeVar

T = TypeVar("T")
_subjects: weakref.WeakSet[Any] = weakref.WeakSet()


def renewed_in_child(subject: T) -> T:
    """From now on `subject`, a lock or something with `after_fork`, is put right in every child."""
    _subjects.add(subject)
    return subject


def is_held_here(lock: Any) -> bool:
    """Does the running thread hold this reentrant lock?"""
    return bool(lock._is_owned())


def _renew() -> None:
    for subject in list(_subjects):
        if hasattr(subject, "after_fork"):
            subject.after_fork()
        elif type(subject) is not _REENTRANT or not is_held_here(subject):
            subject._at_fork_reinit()


_REENTRANT = type(threading.RLock())
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)
