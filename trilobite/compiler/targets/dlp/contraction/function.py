"""A plan as a function of kernel IR, and as a program of its own whose time T1 can tell.

Enters: a plan. Leaves: a function that all cores call with one pointer for each operand and result, or
cycles.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from trilobite.base.errors import KernelError
from trilobite.compiler.targets.dlp.contraction.generate import Kernel
from trilobite.compiler.targets.dlp.contraction.nest import Filter, Nest, View
from trilobite.compiler.targets.dlp.contraction.places import Plan
from trilobite.compiler.targets.dlp.contraction.prefetched import Early, Prefetched
from trilobite.compiler.targets.dlp.interfaces import Home
from trilobite.processor import Device
from trilobite.processor.isa.address import LETTERS, address
from trilobite.processor.lang.builder import Builder
from trilobite.processor.lang.codegen.compile import compile_module
from trilobite.processor.lang.ir import Function, KernelModule, Value
from trilobite.processor.lang.scratchpad import room_of
from trilobite.processor.lang.types import Pointer
from trilobite.processor.machine import Machine

GDRAM = Pointer("gdram")
KINDS = ("load", "fill"), ("give",)  # copies from DRAM, and those from SRAM


def write(
    module: KernelModule, name: str, plan: Plan, crop: int = 0, cores: int = 1,
    prefetched: Prefetched | None = None, following: Sequence[Early] = (),
) -> Function:  # fmt: skip
    """The function of one contraction; the image begins `crop` bytes behind its pointer. All cores of a
    launch meet before they touch memory; a single one waits for what is under way. What is `prefetched` is
    there when it begins; it prefetches what `following` says, whose operands its last pointers are."""
    overflow = plan.overflow()
    if overflow is not None:
        raise KernelError(
            f"the mapping does not fit {plan.machine.name}: {overflow}",
            expected="tiles that fit the scratchpads",
            remedy="take smaller tiles or fewer buffers",
        )
    function = module.add_function(Function(name))
    builder = Builder(module, function)
    extra = len(plan.epilogue.operands) if plan.epilogue else 0
    params: list[Value] = [
        builder.block.add_argument(Pointer(home.space) if home else GDRAM, f"p{number}")
        for number, home in enumerate(_homes(plan))
    ]
    operands = params[:2][::-1] if plan.nest.swapped else params[:2]
    if crop:
        operands[0] = builder.offset(operands[0], builder.integer(crop))
    kernel = Kernel(builder, plan, [*operands, *params[2 : 2 + extra]], params[2 + extra :], prefetched)
    if plan.waits or cores > 1:
        builder.sync()
    if cores > 1:
        builder.barrier("chip", "ipu")
    made = [
        (e, [function.blocks[0].add_argument(GDRAM, "weights" if n == 1 else f"e{n}") for n in e.operands])
        for e in following
    ]
    for early, _ in made:
        if early.does in ("keep", "hold"):
            Kernel(builder, early.plan, [], [], early.prefetched, early)
    far, near = ([partial(_early, builder, *x) for x in made if x[0].does in kinds] for kinds in KINDS)
    kernel.emit(far, near)
    builder.ret()
    return function


def _early(
    builder: Builder, early: Early, given: Sequence[Value], piece: int = 0, pieces: int = 1,
    is_ahead: bool = False,
) -> None:  # fmt: skip
    """What a routine does for another; or only the scalar work of it."""
    count = len(early.plan.epilogue.operands) if early.plan.epilogue else 0
    some = dict(zip(early.operands, given, strict=True))
    operands = [some.get(n, given[0] if given else builder.integer(0)) for n in range(2 + count)]
    kernel = Kernel(builder, early.plan, operands, [], early.prefetched, early)
    body = partial(kernel.prefetch, early, piece, pieces)
    if is_ahead:
        kernel.s.ahead(body)
    else:
        body()


def _homes(plan: Plan) -> list[Home | None]:
    """Of operands and results, in the order of the parameters."""
    nest = plan.nest
    first = [nest.image.home, nest.other.home if nest.kind == "weight_grad" else None]
    result = None if nest.kind == "weight_grad" else nest.other.home
    more: Sequence[View | Filter] = nest.extras
    return [
        *(first[::-1] if nest.swapped else first),
        *([v.home if isinstance(v, View) else None for v in more] if more else [result]),
    ]


def cycles_of(plan: Plan, cores: int, early: bool = False) -> int:
    """T1 of the plan alone, without data and without the launch; with `early` its weights are there."""
    machine, module = plan.machine, KernelModule("timed")
    write(module, "group", plan, prefetched=Prefetched("early", plan.short_extras, True) if early else None)
    homes, sizes = _homes(plan), _sizes(plan)
    entry = module.add_function(Function("main", entry=True))
    builder = Builder(module, entry)
    stay, go = entry.add_block("memory_core"), entry.add_block("compute")
    builder.branch(builder.special("isMpu"), stay, go)
    given = [builder.block.add_argument(GDRAM, f"a{n}") for n, home in enumerate(homes) if home is None]
    builder.block = stay
    builder.ret()
    builder.block = go
    far = iter(given)
    args = [next(far) if home is None else _at_home(builder, home, machine) for home in homes]
    builder.call("group", args, ())
    builder.ret()
    device = Device(machine)
    arrays = [device.empty((size,), "uint8") for size, home in zip(sizes, homes, strict=True) if home is None]
    task = f"union{cores // machine.cores_per_cluster}" if cores > 1 else "block"
    kernel = device.load(compile_module(module, machine))["main"]
    run = device.time(kernel, arrays, dim=(cores, 1, 1), task=task)
    return run.cycles - machine.cycles(machine.launch.overhead_ns)


def _at_home(builder: Builder, home: Home, machine: Machine) -> Value:
    """A place on chip for a tensor, behind what buffers may fill; all lie at the same, for nobody looks at
    values."""
    at = address(LETTERS[home.space], room_of(machine, home.space))
    return builder.cast(builder.integer(at), Pointer(home.space))


def _sizes(plan: Plan) -> list[int]:
    """Bytes of each operand and result."""
    nest = plan.nest
    w, e = nest.window, nest.extents
    places = (e["p"], e["q"]) if nest.kind == "product" else w.out if nest.kind == "input_grad" else w.space
    image = _span(nest, nest.image, places, "k")
    result: View | Filter = nest.filter if nest.kind == "weight_grad" else nest.other
    second: View | Filter = nest.other if nest.kind == "weight_grad" else nest.filter
    found = [image, _of(nest, second)]
    found = found[::-1] if nest.swapped else found
    return [*found, *(_of(nest, view) for view in nest.extras or (result,))]


def _of(nest: Nest, view: View | Filter) -> int:
    if isinstance(view, View):
        return _span(nest, view, (nest.extents["p"], nest.extents["q"]), "n")
    outputs, inputs = (nest.extents[d] for d in ("kn" if nest.kind == "input_grad" else "nk"))
    kh, kw = nest.window.kernel
    reach = (outputs - 1) * view.output + (inputs - 1) * view.input + (nest.extents["g"] - 1) * view.group
    return reach + (kh - 1) * view.row + (kw - 1) * view.column + view.item


def _span(nest: Nest, view: View, places: tuple[int, int], channel: str) -> int:
    e = nest.extents
    reach = (e["g"] - 1) * view.group + (e["b"] - 1) * view.image + (e[channel] - 1) * view.channel
    return reach + (places[0] - 1) * view.row + (places[1] - 1) * view.column + view.item
