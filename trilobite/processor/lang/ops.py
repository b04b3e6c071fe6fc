"""The operations of kernel IR: one row each, read by builder, verifier, interpreter and selection.

An operand pattern is a string of letters: `f` a value of the operation's format (attribute `fmt`), `F` a
value of the format `source`, `i` an i64, `p` a pointer, `v` any value, `*` any number of the letter before
it. The result pattern says what is defined: `f` the format, `i` an i64, `p` and `t` what the attribute
`type` says, empty nothing.

`pure` operations may be moved, merged and dropped. `tensor` stands for every tensor row of the ISA, see
`intrinsics`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class OpRow:
    """What one opcode takes and gives. `mnemonic` is the scalar row that it selects, where it is one."""

    opcode: str
    operands: str
    results: str
    line: str
    pure: bool = True
    mnemonic: str = ""
    attrs: tuple[str, ...] = ()


def _scalar(opcodes: str, operands: str, results: str) -> list[OpRow]:
    """Rows for `opcode=MNEMONIC: what it computes`, separated by semicolons."""
    rows = []
    for text in opcodes.split(";"):
        name, line = text.split(":", 1)
        opcode, mnemonic = name.strip().split("=")
        rows.append(OpRow(opcode, operands, results, line.strip(), True, mnemonic, ("fmt",)))
    return rows


_ROWS = (
    *_scalar("add=SADD: a + b; sub=SSUB: a - b; mul=SMUL: a * b; div=SDIV: a / b, integers to zero;"
             "rem=SREM: what the division leaves; max=SMAX: a > b ? a : b; min=SMIN: a < b ? a : b;"
             "and=SAND: bits of a and b; or=SOR: bits of a or b; xor=SXOR: bits of one of them;"
             "shl=SSHL: a << b modulo the width; shr=SSHR: a >> b, arithmetic for signed formats", "ff", "f"),
    *_scalar("gt=SGT: a > b; ge=SGE: a >= b; eq=SE: a = b; ne=SNE: a != b; lt=SLT: a < b; le=SLE: a <= b",
             "ff", "i"),
    *_scalar("not=SNOT: every bit inverted; neg=SNEG: -a; abs=SABS: a without sign; ctz=SCTZ: zeros below;"
             "clz=SCLZ: zeros above; popc=SPOPC: set bits; sqrt=SSQRT: square root;"
             "rsqrt=SRSQRT: 1 / square root; exp=SEXP: e to the a; log=SLOG: natural logarithm;"
             "sin=SSIN: sine; cos=SCOS: cosine; floor=SFLOOR: rounded down; ceil=SCEIL: rounded up",
             "f", "f"),
    *_scalar("fma=SFMA: a * b + c, rounded once", "fff", "f"),
    OpRow("select", "ivv", "t", "p != 0 ? a : b", mnemonic="SSEL", attrs=("type",)),
    OpRow("convert", "F", "f", "the value in another format; saturates, NaN becomes 0", mnemonic="SCVT",
          attrs=("fmt", "source", "rounding")),
    OpRow("cast", "v", "t", "the low bits as another type: wraps integers, widens by the operand's own sign, "
          "turns bits of equal width into another kind, pointers into integers and back", attrs=("type",)),
    OpRow("offset", "pi", "p", "the pointer that many bytes further", attrs=("type",)),
    OpRow("address", "", "p", "where a buffer begins", attrs=("type", "buffer")),
    OpRow("table", "", "p", "where a constant table begins (space code)", attrs=("type", "table")),
    OpRow("special", "", "i", "a built-in of the task or the core, by its ISA name", attrs=("name",)),
    OpRow("clock", "", "i", "instructions that this core has executed", False, "SREAD"),
    OpRow("begin", "", "", "the buffer's bytes are undefined from here on", False, attrs=("buffer",)),
    OpRow("keep", "", "", "the buffer's bytes are those of other routines, which need them later", False,
          attrs=("buffer",)),
    OpRow("get", "", "t", "the variable's value", False, attrs=("type", "variable")),
    OpRow("set", "v", "", "the variable becomes the value", False, attrs=("variable",)),
    OpRow("note", "*", "", "for the debugger: from here on the variable is the value, or what `recipe` makes "
          "of several; of none, its value is gone", False, attrs=("variable",)),
    OpRow("load", "p", "f", "the element at the pointer plus `offset` bytes", False, "SLOAD",
          ("fmt", "offset")),
    OpRow("store", "fp", "", "the element at the pointer plus `offset` bytes becomes the value", False,
          "SSTORE", ("fmt", "offset")),
    OpRow("atomic", "pf", "f", "the old element; it becomes old `op` value, undivided", False, "ATOMIC",
          ("fmt", "op")),
    OpRow("cas", "pff", "f", "the old element; if it was the first value it becomes the second, undivided",
          False, "CAS", ("fmt",)),
    OpRow("tensor", "v*", "t*",
          "a tensor row of the ISA: operands as the row names them, runs field by field", False,
          attrs=("row", "formats", "flags", "async")),
    OpRow("sync", "", "", "waits for the named queues of this core, without a name for all", False, "SYNC",
          ("queues",)),
    OpRow("barrier", "", "", "waits for the other cores of the scope", False, "BARRIER",
          ("scope", "members")),
    OpRow("print", "v*", "", "printf: %d %u %x %f %s %c %p, one value each", False, "PRINT", ("format",)),
    OpRow("call", "v*", "t*", "a function of the module", False, attrs=("function",)),
    OpRow("jump", "", "", "goes to its target", False),
    OpRow("branch", "i", "", "goes to the first target if the value is not 0, else to the second", False),
    OpRow("return", "v*", "", "leaves the function; in an entry, ends the task", False),
    OpRow("trap", "", "", "stops the launch with a fault", False, "TRAP", ("code", "message")),
)  # fmt: skip

OPS: dict[str, OpRow] = {row.opcode: row for row in _ROWS}
BINARY = tuple(row.opcode for row in _ROWS if row.operands == "ff" and row.results == "f")
COMPARISONS = tuple(row.opcode for row in _ROWS if row.operands == "ff" and row.results == "i")
UNARY = tuple(row.opcode for row in _ROWS if row.operands == "f" and row.results == "f" and row.pure)
# Traps of arithmetic do not exist on this machine, so even a division may be computed early.
PURE = frozenset(row.opcode for row in _ROWS if row.pure)
