"""The compiler: a graph to something that runs.

Enters: a recorded graph, the name of a target and what the caller knows (`Usage`). Leaves: an `Executable`.
Folders in the order in which a graph passes them: `graph` (passes that know no target, the engine of fusion),
`program` (kernels in order, buffers, offsets), `targets` (what runs it). May import `ir`, `native` and
`base`; `targets.dlp` the processor, too. Read `targets/contract.py` first.
"""
