"""Copies, buffers, order and the task: everything of a Python kernel that is not arithmetic."""

from __future__ import annotations

from typing import Any

from trilobite.processor.lang.python.context import current
from trilobite.processor.lang.python.dtypes import dtype_of
from trilobite.processor.lang.python.operations import emit, intrinsic
from trilobite.processor.lang.python.view import View, bytes_of, product


def _allocate(space: str, shape: Any, dtype: Any) -> View:
    extents = shape if isinstance(shape, tuple) else (shape,)
    if not extents or not all(isinstance(e, int) and e > 0 for e in extents):
        raise current().error(
            f"a buffer of shape {extents}",
            "extents that are known when the kernel is compiled, each at least 1",
            "use meta-parameters or constants, and slice the buffer to the size that is needed",
        )
    fmt = dtype_of(dtype).fmt
    return View(current().buffer(space, fmt, tuple(extents)), fmt, tuple(extents), space)


@intrinsic
def nram(shape: Any, dtype: Any) -> View:
    """A buffer in this core's NRAM. Its elements are undefined each time this line is reached."""
    return _allocate("nram", shape, dtype)


@intrinsic
def wram(shape: Any, dtype: Any) -> View:
    """A buffer in this core's WRAM, for the right operand of matrix operations."""
    return _allocate("wram", shape, dtype)


@intrinsic
def sram(shape: Any, dtype: Any) -> View:
    """A buffer in the cluster's SRAM, the same one for all its cores."""
    return _allocate("sram", shape, dtype)


@intrinsic
def ldram(shape: Any, dtype: Any) -> View:
    """A buffer in this core's part of DRAM."""
    return _allocate("ldram", shape, dtype)


@intrinsic
def acc(shape: Any, dtype: Any) -> View:
    """A buffer in the accumulators, where the machine has them."""
    return _allocate("acc", shape, dtype)


def _check_copy(dst: Any, src: Any) -> None:
    for name, given in (("dst", dst), ("src", src)):
        if not isinstance(given, View):
            raise current().error(
                f"copy: {name} is {type(given).__name__}", "views", "pass a buffer or a slice"
            )
    if dst.fmt is not src.fmt:
        raise current().error(
            f"copy: dst is {dst.fmt.name}, src is {src.fmt.name}", "one format", "convert with dlp.convert"
        )
    if dst.ndim == src.ndim:
        for a, b in zip(dst.shape, src.shape, strict=True):
            if isinstance(a, int) and isinstance(b, int) and a != b:
                raise current().error(f"copy: {src} into {dst}", "equal shapes", "slice one of them")


def _copy(dst: View, src: View, is_async: bool) -> None:
    """One piece, or pieces along one or two axes in front of what is contiguous in both."""
    _check_copy(dst, src)
    shape = src.shape if src.shape and src.shape[0] is not None else dst.shape
    if any(e is None for e in shape):
        raise current().error("copy: neither side has a length", "a slice", "write x[start:stop]")
    if dst.contiguous and src.contiguous:
        emit("COPY", [dst, src, bytes_of(src.fmt, product(shape))], is_async=is_async)
        return
    if dst.ndim != src.ndim:
        raise current().error(f"copy: {src} into {dst}", "as many axes on both sides", "use .view or slices")
    inner = max(dst.trailing_dense(), src.trailing_dense())
    piece = bytes_of(src.fmt, product(shape[inner:]))
    steps: list[Any] = []
    for axis in reversed(range(inner)):
        steps += [bytes_of(v.fmt, v.strides[axis]) for v in (dst, src)] + [shape[axis]]
    if len(steps) not in (3, 6):
        raise current().error(
            f"copy: {src} into {dst} has {len(steps) // 3} axes with gaps", "at most two", "copy in a loop"
        )
    emit("COPY2" if len(steps) == 3 else "COPY3", [dst, src, piece, *steps], is_async=is_async)


@intrinsic
def copy(dst: Any, src: Any) -> None:
    """Copies between any two memories; done when the next operation that needs it begins."""
    _copy(dst, src, False)


@intrinsic
def copy_async(dst: Any, src: Any) -> None:
    """Only starts the copy; `dlp.sync()` waits for it."""
    _copy(dst, src, True)


@intrinsic
def load(dst: Any, src: Any) -> None:
    """A copy that a pipelined loop does ahead of its computation; elsewhere a plain copy."""
    _copy(dst, src, getattr(current(), "in_pipeline", False))


@intrinsic
def store(dst: Any, src: Any) -> None:
    """A copy that a pipelined loop does behind its computation; elsewhere a plain copy."""
    _copy(dst, src, getattr(current(), "in_pipeline", False))


@intrinsic
def broadcast(dst: Any, src: Any, mask: Any) -> None:
    """The SRAM view src to the same place of every core of the cluster in the mask."""
    _check_copy(dst, src)
    emit("COPYX", [dst, src, src.nbytes, mask])


@intrinsic
def sync(*queues: str) -> None:
    """Waits for the named queues of this core (io, move, matrix, vector), without a name for all of them."""
    current().sync(queues)


@intrinsic
def sync_cluster() -> None:
    """Waits for everything of this core, then for all cores of the cluster and its memory core."""
    current().sync(())
    current().barrier("cluster", "")


@intrinsic
def sync_all() -> None:
    """As `sync_cluster`, for all clusters of the task."""
    current().sync(())
    current().barrier("chip", "")


@intrinsic
def sync_all_compute() -> None:
    """As `sync_all`, without the memory cores."""
    current().sync(())
    current().barrier("chip", "ipu")


def _built_in(name: str, register: str, doc: str) -> Any:
    def function() -> Any:
        return current().special(register)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return intrinsic(function)


BUILT_INS = {
    name: _built_in(name, register, doc)
    for name, register, doc in (
        ("task_id", "taskId", "Number of this task in the launch."),
        ("task_dim", "taskDim", "Number of tasks in the launch."),
        ("task_id_x", "taskIdX", "Place of the task along x."),
        ("task_id_y", "taskIdY", "Place of the task along y."),
        ("task_id_z", "taskIdZ", "Place of the task along z."),
        ("task_dim_x", "taskDimX", "Tasks along x."),
        ("task_dim_y", "taskDimY", "Tasks along y."),
        ("task_dim_z", "taskDimZ", "Tasks along z."),
        ("cluster_id", "clusterId", "Number of the cluster within a union task."),
        ("cluster_dim", "clusterDim", "Clusters of a union task."),
        ("core_id", "coreId", "Number of the core in its cluster; 0x80 on the memory core."),
        ("core_dim", "coreDim", "Compute cores of a cluster."),
        ("is_memory_core", "isMpu", "1 on the memory core, else 0."),
    )
}


@intrinsic
def clock() -> Any:
    """Instructions that this core has executed so far."""
    return current().clock()


@intrinsic
def atomic(op: str, view: Any, value: Any) -> Any:
    """The first element of the view becomes old `op` value, undivided; gives the old one."""
    return current().atomic(op, view.fmt, view.address, value)


@intrinsic
def compare_and_swap(view: Any, expected: Any, value: Any) -> Any:
    """The first element of the view becomes the value if it is the expected one; gives the old one."""
    return current().compare_and_swap(view.fmt, view.address, expected, value)


@intrinsic
def select(truth: Any, a: Any, b: Any) -> Any:
    """A scalar: truth ? a : b, both computed."""
    return current().select(truth, a, b)


@intrinsic
def printf(form: str, *values: Any) -> None:
    """Prints as C's printf does: %d %u %x %f %e %g %c."""
    current().printf(form, values)


@intrinsic
def trap(message: str) -> None:
    """Stops the launch with a fault."""
    current().trap(message)


@intrinsic
def machine() -> Any:
    """The machine that the kernel is compiled for: known at compile time."""
    return current().machine


@intrinsic
def instruction(row: str, *operands: Any, formats: Any = (), flags: Any = ()) -> Any:
    """Any tensor row of the ISA by its mnemonic: operands as the manual lists them, runs field by field.

    Formats are dtypes, flags as the row names them; what the row leaves in registers is given back.
    """
    from trilobite.processor.lang.intrinsics import TENSOR_ROWS, fields

    if row not in TENSOR_ROWS:
        raise current().error(f"there is no tensor row {row!r}", "a mnemonic of docs/isa.md", "correct it")
    wanted = fields(TENSOR_ROWS[row])
    if len(operands) != len(wanted):
        raise current().error(
            f"{row} with {len(operands)} operands", ", ".join(wanted), "pass one value for each"
        )
    given = formats if isinstance(formats, tuple) else (formats,)
    chosen = flags if isinstance(flags, tuple) else (flags,)
    results = emit(row, list(operands), tuple(dtype_of(f).fmt for f in given), chosen)
    return results[0] if results else None
