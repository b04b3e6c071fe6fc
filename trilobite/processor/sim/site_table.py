"""The sites of one program, with the machine code that they have so far.

Enters: prepared instructions. Leaves: arrays that `tensor_step` reads. Sites get their code when they are
hot; those of a program that runs ahead of time, when the program is loaded or when they are first met.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

import numpy as np

from trilobite.native.cache import kernels
from trilobite.processor.isa.formats import Array
from trilobite.processor.isa.row import Operands
from trilobite.processor.sim.prepared import Prepared
from trilobite.processor.sim.scalar_step import WORDS
from trilobite.processor.sim.sites import NOTHING, Form, Site, dry_site_of, routine_code, site_of
from trilobite.processor.sim.tensor_step import FORM_WORDS

MOST_FORMS = 1 << 12  # of one program; sizes beyond this stay with the interpreter


class SiteTable:
    """What translated code knows of a program's tensor instructions."""

    entry_points: Iterable[int] = ()  # instructions at which the interpreter may hand over
    needs_steps = False  # whether it has steps even without sites

    def __init__(self, code: Sequence[Prepared], is_eager: bool = False, is_dry: bool = False) -> None:
        make = dry_site_of if is_dry else site_of
        found = (make(prepared, place) for place, prepared in enumerate(code))
        self.sites: list[Site] = [site for site in found if site is not None]
        self.is_eager = is_eager
        firsts: dict[Hashable, int] = {}
        self.kinds = np.array([firsts.setdefault(s.kind, n) for n, s in enumerate(self.sites)], np.int64)
        self.is_waited_for = np.array([site.is_waited_for for site in self.sites], bool)
        self.form_kinds: list[int] = []
        self._form_firsts: dict[Hashable, int] = {}
        self._made: dict[int, Form] = {}
        self.made_forms: list[tuple[Site, Form]] = []  # by number
        for site in self.sites:
            site.forms = self._made
        self.numbers = {site.place: number for number, site in enumerate(self.sites)}
        self.words = np.array([site.words() for site in self.sites], np.int64).reshape(-1)
        # by site, 0 while it is cold; a SYNC needs no code
        self.kernels = np.array([*(int(bool(site.queues)) for site in self.sites), 0], np.int64)
        self.first_form = np.full(len(self.sites) + 1, -1)
        self.forms = np.zeros((MOST_FORMS, FORM_WORDS), np.int64)
        self._form_count = 0
        self.code_words = np.zeros((0, WORDS), np.int64)
        self.field_registers = np.zeros(1, np.int64)
        self.field_is_value = np.zeros(1, np.int64)
        self._code: list[object] = []  # what the kernels' addresses point to
        if is_dry:
            self.kernels[:-1] = [not site.is_formed for site in self.sites]
        elif is_eager:
            self._heat()

    def _heat(self) -> None:
        """Code for every site whose routine does not depend on sizes, compiled together."""
        texts: dict[str, list[int]] = {}
        for number, site in enumerate(self.sites):
            site.is_eager = True
            if site.routine is not None:
                texts.setdefault(site.routine.text, []).append(number)
        made = kernels([(text, 3) for text in texts])
        self._code.append(made)
        for address, numbers in zip(made.addresses, texts.values(), strict=True):
            self.kernels[numbers] = address

    def is_ready(self, place: int) -> bool:
        """Whether there is code from an entry point on."""
        return True

    def run(self, state: Array, counts: Array) -> None:
        """Runs a core from its program counter on."""
        raise NotImplementedError

    def warm(self, number: int, operands: Operands) -> bool:
        """Gives an instruction code for these operands; whether it had none before."""
        before = (self._form_count, int(self.kernels[number]))
        self.visited(self.sites[number].place, operands)
        return before != (self._form_count, int(self.kernels[number]))

    def visited(self, place: int, operands: Operands) -> None:
        """The interpreter did a tensor instruction; one that is hot gets its code."""
        number = self.numbers.get(place)
        if number is None or (self.kernels[number] and not self.sites[number].is_formed):
            return
        site = self.sites[number]
        if not site.is_hot():
            return
        if site.is_formed:
            self._add_form(number, operands)
            return
        kept, address = site.code()
        self._code.append(kept)
        self.kernels[number] = address

    def _add_form(self, number: int, operands: Operands) -> None:
        """The sizes of an execution as one more form of its site."""
        site = self.sites[number]
        form = site.new_form(operands) if self._form_count < MOST_FORMS else None
        if form is not None:
            self.forms[self._form_count] = site.form_words(form, int(self.first_form[number]))
            self._made[self._form_count] = form
            self.made_forms.append((site, form))
            site.form_count += 1
            kind = (int(self.kinds[number]), form.key)
            self.form_kinds.append(self._form_firsts.setdefault(kind, self._form_count))
            self.first_form[number] = self._form_count
            if form.routine is not NOTHING:
                self._code.append(routine_code(form.routine.text)[0])
            self._form_count += 1
            self.kernels[number] = 1

    def is_cold(self, place: int) -> bool:
        """Whether there is a tensor instruction whose code is still to come."""
        number = self.numbers.get(place)
        return number is not None and not self.kernels[number]
