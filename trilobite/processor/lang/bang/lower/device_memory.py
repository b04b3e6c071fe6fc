"""Variables in device memory that kernels write: `__mlu_device__ int counter;`.

They lie in one block of GDRAM that belongs to the program and keeps its values from launch to launch. The
launch passes its address as one parameter more, behind those of the source; every core keeps it in its frame.
"""

from __future__ import annotations

from trilobite.processor.isa.formats import I64
from trilobite.processor.lang.bang.llvm.module import GlobalVariable
from trilobite.processor.lang.bang.lower.function import FunctionLowering
from trilobite.processor.lang.builder import Builder
from trilobite.processor.lang.ir import Buffer, Function, KernelModule, Value
from trilobite.processor.lang.types import STACK, Pointer

ALIGN = 64
LABEL = "device variables"


class DeviceVariables:
    """The block while a module is lowered: where each variable lies, and what it begins with."""

    def __init__(self) -> None:
        self.content = bytearray()
        self._offsets: dict[str, int] = {}
        self._home = Buffer("variables", STACK, 8, 16)  # where a core keeps the address of the block

    def address(self, f: FunctionLowering, variable: GlobalVariable, content: bytes) -> Value:
        b = f.builder
        if not self._offsets:
            f.owner.module.add_buffer(self._home)
        if variable.name not in self._offsets:
            self.content += bytes(-len(self.content) % ALIGN)
            self._offsets[variable.name] = len(self.content)
            self.content += content
        base = b.cast(b.load(I64, b.address(self._home)), Pointer("gdram"))
        return b.offset(base, b.integer(self._offsets[variable.name]))

    def receive(self, module: KernelModule, entry: Function) -> None:
        """The entry's last parameter, kept before anything else happens."""
        if not self.content:
            return
        first = entry.blocks[0]
        behind, first.ops = first.ops, []
        b = Builder(module, entry)
        b.block, b.location = first, entry.location
        given = first.add_argument(Pointer("gdram"), LABEL)
        b.store(I64, b.cast(given, I64), b.address(self._home))
        first.ops += behind
