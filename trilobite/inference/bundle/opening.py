"""From a bundle to a session: weights mapped, compiled code where the caches of this process look first.

Enters: a path. Leaves: a `Session`. A bundle for another CPU, or by another LLVM, is refused by name, or its
code is left aside and made anew, as asked.
"""

from __future__ import annotations

from typing import Any

from trilobite.base.errors import ArgumentError, DeviceError
from trilobite.base.locations import user_location
from trilobite.framework.checkpoint.refusal import corrupt
from trilobite.inference.bundle.container import Container, Entries
from trilobite.inference.reader import read
from trilobite.inference.session import Session
from trilobite.native.disk import FORMAT, shared
from trilobite.native.host import features, llvm_version

ON_OTHER_CPU = ("refuse", "compile")


def open_bundle(
    path: Any, *, on_other_cpu: str = "refuse", threads: int | None = None, verify: bool = False
) -> Session:
    """A session for a bundle. With `verify` the digests of weights are checked too, which reads them all."""
    if on_other_cpu not in ON_OTHER_CPU:
        raise ArgumentError(
            f"on_other_cpu={on_other_cpu!r}",
            where=user_location(),
            expected=" or ".join(map(repr, ON_OTHER_CPU)),
        )
    container = Container(path)
    if verify:
        container.verify()
    if _fits(container, on_other_cpu):
        for kind in ("objects", "programs"):
            shared(kind).add_read_only(Entries(container, f"code/{kind}/"))
    model = read(container.checked("model"))
    try:
        for name, (dtype, shape) in container.facts["weights"].items():
            if name not in model.graph.constants:
                raise corrupt(
                    f"the network has no weight {name!r}", container.where, "weights of this network"
                )
            model.graph.constants[name] = container.array(f"weight/{name}", dtype, shape)
        target = str(container.facts["target"])
    except (KeyError, TypeError, AttributeError) as error:
        raise corrupt("the facts of the bundle are malformed", container.where, "a whole bundle") from error
    return Session(model, target, threads)


def _fits(container: Container, on_other_cpu: str) -> bool:
    """Is the code made for this machine?"""
    here = {"cpu": features().name, "llvm": llvm_version(), "cache": FORMAT.decode()}
    other = {k: (container.facts.get(k), v) for k, v in here.items() if container.facts.get(k) != v}
    if not other:
        return True
    if on_other_cpu == "compile":
        return False
    what, (theirs, ours) = next(iter(other.items()))
    raise DeviceError(
        f"the bundle was built for another {'CPU' if what == 'cpu' else what}: {_short(theirs)}",
        where=container.where,
        expected=_short(ours),
        remedy='build it on this machine, or open it with on_other_cpu="compile"',
    )


def _short(name: object) -> str:
    """A CPU's name without its hundred features."""
    text = str(name)
    return text if len(text) <= 120 else text[:120] + "..."
