"""Scalar loads that poll: those whose value only says whether to go on.

Enters: a program and the place of a load. Leaves: whether the load may meet atomics of other cores without
order. It may if it lies in a loop that does nothing but look again, or if its value reaches branches alone,
or a compare-and-swap that expects it: what another core has changed meanwhile is noticed there. A value that
is stored, or that a tensor instruction or another atomic takes, is data, and wants a barrier before it.
"""

from __future__ import annotations

from collections.abc import Iterator

from trilobite.processor.isa.encode import Instruction
from trilobite.processor.isa.program import Program

STACK = 62
EXPECTED = 2  # of the registers of a compare-and-swap, what memory must hold
MOST_STEPS = 2000
JUMPS = frozenset(("JUMP", "RET"))
QUIET = frozenset(("SYNC", "NOP", "SLOAD", "SREAD"))
ENDS = frozenset(("HALT", "TRAP"))
Carriers = frozenset[int]  # registers as their numbers, words of the stack as -1 - their offset


class Polling:
    def __init__(self, program: Program) -> None:
        self._instructions = program.instructions
        self._known: dict[int, bool] = {}

    def __call__(self, place: int) -> bool:
        if place not in self._known:
            self._known[place] = self._looks_again(place) or not self._is_data(place)
        return self._known[place]

    def _following(self, place: int) -> Iterator[int]:
        instruction = self._instructions[place]
        immediate = instruction.row.immediate
        if immediate is not None and immediate.kind == "target":
            yield place + instruction.immediate
        if instruction.mnemonic not in JUMPS | ENDS:
            yield place + 1

    def _looks_again(self, place: int) -> bool:
        """Whether a way back to the load passes by nothing that others could see."""
        seen, work = {place}, [place]
        while work and len(seen) < MOST_STEPS:
            for following in self._following(work.pop()):
                if following == place:
                    return True
                if (
                    following < len(self._instructions)
                    and following not in seen
                    and self._is_quiet(following)
                ):
                    seen.add(following)
                    work.append(following)
        return False

    def _is_quiet(self, place: int) -> bool:
        if place >= len(self._instructions):
            return False
        instruction = self._instructions[place]
        if instruction.mnemonic == "SSTORE":
            return instruction.registers[1] == STACK
        is_scalar = not instruction.row.is_tensor and instruction.mnemonic not in ("ATOMIC", "CAS", "BARRIER")
        return instruction.mnemonic in QUIET or is_scalar

    def _is_data(self, place: int) -> bool:
        """Whether the value comes to memory, a tensor instruction or an atomic on any way from the load."""
        begin = frozenset(self._instructions[place].registers[:1])
        work: list[tuple[int, Carriers]] = [(following, begin) for following in self._following(place)]
        seen = set(work)
        while work and len(seen) < MOST_STEPS:
            at, carriers = work.pop()
            if at >= len(self._instructions):
                continue
            instruction = self._instructions[at]
            if instruction.mnemonic == "CAS" and instruction.registers[EXPECTED] in carriers:
                continue
            if _takes(instruction, carriers):
                return True
            left = _passed_on(instruction, carriers)
            for following in self._following(at) if left else ():
                if (following, left) not in seen:
                    seen.add((following, left))
                    work.append((following, left))
        return False


def _inputs(instruction: Instruction) -> list[int]:
    found: list[int] = []
    for operand, register in zip(instruction.row.registers, instruction.registers, strict=True):
        if operand.kind == "run":
            found += range(register, register + len(operand.fields))
        elif operand.kind != "out":
            found.append(register)
    return found


def _takes(instruction: Instruction, carriers: Carriers) -> bool:
    """Whether an instruction makes data of the value."""
    if instruction.mnemonic == "SSTORE":
        value, base = instruction.registers
        return base in carriers or (base != STACK and value in carriers)
    is_taker = instruction.row.is_tensor or instruction.mnemonic in ("ATOMIC", "CAS", "PRINT")
    return is_taker and any(register in carriers for register in _inputs(instruction))


def _passed_on(instruction: Instruction, carriers: Carriers) -> Carriers:
    """Who holds the value, or what was computed from it, behind an instruction."""
    if instruction.mnemonic == "SSTORE":
        word = frozenset((-1 - instruction.immediate,))
        return carriers | word if instruction.registers[0] in carriers else carriers - word
    sources = set(_inputs(instruction))
    if instruction.mnemonic == "SLOAD" and instruction.registers[1] == STACK:
        sources.add(-1 - instruction.immediate)
    operands = zip(instruction.row.registers, instruction.registers, strict=True)
    results = frozenset(register for operand, register in operands if operand.kind == "out")
    return carriers | results if sources & carriers else carriers - results
