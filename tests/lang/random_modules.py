"""Random modules of kernel IR with routines, and how a test writes a function."""

from __future__ import annotations

import random

from trilobite.processor.isa.formats import F32, I64
from trilobite.processor.lang.builder import Builder
from trilobite.processor.lang.ir import Buffer, Function, KernelModule, Location, Value
from trilobite.processor.lang.types import Pointer

GDRAM = Pointer("gdram")


def function(module: KernelModule, name: str, kinds: list, results: tuple = (), **kind: bool) -> Builder:
    made = module.add_function(Function(name, results, **kind))
    b = Builder(module, made)
    b.location = Location("net.py", 1)
    for place, one in enumerate(kinds):
        b.block.add_argument(one, f"p{place}")
    return b


class RandomModule:
    """Functions of random integer arithmetic, loops, copies and calls of later ones."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.module = KernelModule("random.py")
        self.count = self.random.randint(2, 5)
        self.shapes = [(self.random.randint(1, 6), self.random.randint(1, 3)) for _ in range(self.count)]
        for number in reversed(range(self.count)):
            takes, gives = self.shapes[number]
            is_routine = self.random.random() < 0.75
            name = f"f{number}"
            b = function(self.module, name, [GDRAM] + [I64] * takes, (I64,) * gives, routine=is_routine)
            values = self.body(b, number + 1, list(b.function.params[1:]))
            b.ret(*(self.random.choice(values) for _ in range(gives)))
        b = function(self.module, "main", [GDRAM, I64, I64], entry=True)
        values = self.body(b, 0, list(b.function.params[1:]))
        for place, value in enumerate(values):
            b.store(I64, value, b.function.params[0], 8 * (place % 32))
        b.ret()

    def body(self, b: Builder, first: int, values: list[Value]) -> list[Value]:
        for _ in range(self.random.randint(3, 10)):
            kind = self.random.random()
            if kind < 0.4:
                a, c = self.random.choice(values), self.random.choice([*values, b.integer(7)])
                values.append(b.arithmetic(self.random.choice(["add", "sub", "mul", "xor"]), I64, a, c))
            elif kind < 0.7 and first < self.count:
                values += self.call(b, first, values)
            elif kind < 0.85:
                self.tensors(b)
            else:
                values.append(self.loop(b, first, values))
        return values

    def call(self, b: Builder, first: int, values: list[Value]) -> list[Value]:
        number = self.random.randrange(first, self.count)
        takes, gives = self.shapes[number]
        args = [self.random.choice([*values, b.integer(5)]) for _ in range(takes)]
        return b.call(f"f{number}", [b.function.params[0], *args], (I64,) * gives)

    def tensors(self, b: Builder) -> None:
        """Eight words of the array, as floats, through a buffer of the function."""
        buffer = self.module.add_buffer(Buffer(f"{b.function.name}.tile", "nram", 64, element="f32"))
        at = b.offset(b.function.params[0], b.integer(256 + 32 * self.random.randrange(4)))
        b.begin(buffer)
        b.tensor("COPY", [b.address(buffer), at, b.integer(32)])
        scalar = b.constant(F32, self.random.choice([0.5, 2.0, -1.0]))
        row = self.random.choice(["VAS", "VMS"])
        b.tensor(row, [b.address(buffer), b.integer(8), b.address(buffer), scalar], [F32])
        b.tensor("COPY", [at, b.address(buffer), b.integer(32)])

    def loop(self, b: Builder, first: int, values: list[Value]) -> Value:
        head, body, done = (b.function.add_block(name) for name in ("head", "body", "done"))
        start = self.random.choice(values)
        b.jump(head, b.integer(0), start)
        i, carried = head.add_argument(I64), head.add_argument(I64)
        b.block = head
        b.branch(b.arithmetic("lt", I64, i, b.integer(self.random.randint(0, 3))), body, done)
        b.block = body
        inside: list[Value] = [*values, i, carried]
        if first < self.count and self.random.random() < 0.6:
            inside += self.call(b, first, inside)
        else:
            self.tensors(b)
        step = b.arithmetic("add", I64, carried, self.random.choice(inside))
        b.jump(head, b.arithmetic("add", I64, i, b.integer(1)), step)
        b.block = done
        return carried
