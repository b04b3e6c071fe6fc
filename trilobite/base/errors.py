"""The errors of the house: what was wrong, where, what was expected, what to do.

Every error a user can meet derives from `TrilobiteError` *and* from the built-in that Python users would
catch.
"""

from __future__ import annotations


class TrilobiteError(Exception):
    """Says what was wrong, and on lines of their own where, what was expected and the remedy."""

    def __init__(
        self, what: str, *, where: object = None, expected: object = None, remedy: object = None
    ) -> None:
        self.what, self.where, self.expected, self.remedy = what, where, expected, remedy
        parts = (("where", where), ("expected", expected), ("remedy", remedy))
        super().__init__(
            "\n".join([what, *(f"  {label}: {text}" for label, text in parts if text is not None)])
        )


class ShapeError(TrilobiteError, ValueError):
    """Shapes, axes or sizes do not fit."""


class DTypeError(TrilobiteError, TypeError):
    """A dtype is not allowed here, or two dtypes have no common one."""


class ArgumentError(TrilobiteError, ValueError):
    """An argument's value makes no sense."""


class IndexingError(TrilobiteError, IndexError):
    """An index does not fit the tensor it is applied to."""


class DeviceError(TrilobiteError, ValueError):
    """There is no such device or target, or it cannot do this."""


class GradientError(TrilobiteError, RuntimeError):
    """A derivative was asked for that does not exist or is no longer there."""


class TraceError(TrilobiteError, RuntimeError):
    """A recorded program would depend on a value that only a run knows, or a traced value has escaped."""


class StateError(TrilobiteError, RuntimeError):
    """State is missing, changed at the wrong time, or does not fit."""


class IRError(TrilobiteError, ValueError):
    """A graph is malformed, or its text cannot be read."""


class PlanError(TrilobiteError, MemoryError):
    """A program that cannot be laid out in memory."""


class FileError(TrilobiteError, ValueError):
    """A file is corrupt, truncated, malicious or not of the format it claims."""


class DataError(TrilobiteError, ValueError):
    """A data set is missing, malformed, or used wrongly."""


class MachineError(TrilobiteError, ValueError):
    """A processor's description does not make sense, or there is no such machine."""


class AssemblyError(TrilobiteError, ValueError):
    """Assembly text, an instruction word or a processor binary cannot be read or linked."""


class ProcessorFault(TrilobiteError, RuntimeError):
    """A program did something on the processor that the machine refuses."""


class DataDependence(TrilobiteError, ValueError):
    """A launch cannot be timed without its data: a value that was not computed decides what happens next."""


class KernelError(TrilobiteError, ValueError):
    """A kernel cannot be compiled: its source, its IR, or the room it needs."""


class ClusterError(TrilobiteError, RuntimeError):
    """Ranks of a run do not agree, or one of them has failed or ended."""
