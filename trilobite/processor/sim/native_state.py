"""The layout of a core's state, which translated code and the simulator share.

Words 0 to 63 are the registers.
"""

from __future__ import annotations

# Words of the state that translated code and the simulator share.
PC, EXECUTED, LIMIT, SCRATCH, DRAM, READ_LOW, READ_HIGH, WRITE_LOW, WRITE_HIGH = range(64, 73)
STEP, TENSORS, SCALAR_PLACE = range(73, 76)  # code and state of tensor instructions; where scalar work began
SEED, RANDOM_BLOCK = range(76, 78)  # of the core's stream of random numbers
ALIGNED = 78  # -1: elements lie at multiples of their size; 0: at any byte
# Four words a memory space: host address, bytes, whether it is on chip, whether it may be written.
SPACES = 80
BLOCKS = 112  # four DRAM blocks, start and end
FIELDS = 120  # operands of a tensor instruction
STATE_WORDS = 152
FAR = (1 << 63) - 1
