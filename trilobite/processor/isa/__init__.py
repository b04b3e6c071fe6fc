"""One instruction table; encoder, decoder, assembler, disassembler, binary form and manual derive from it.

Enters: rows. Leaves: programs as text, words and files. May import `base` alone of what is outside. Read
`row.py` first, then one file of `rows`.
"""

from trilobite.processor.isa.assembler import assemble as assemble
from trilobite.processor.isa.assembler import assemble_program as assemble_program
from trilobite.processor.isa.disassembler import instruction_text as instruction_text
from trilobite.processor.isa.encode import Instruction as Instruction
from trilobite.processor.isa.encode import decode as decode
from trilobite.processor.isa.encode import encode as encode
from trilobite.processor.isa.program import Program as Program
from trilobite.processor.isa.program import link as link
