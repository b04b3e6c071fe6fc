"""A pass of the compiler: one walk from front to back that replaces, one from back to front that drops."""

from trilobite.ir.graph import Equation, Graph


def clean(graph):
    replaced = {}  # a value of the old graph -> the value that stands for it
    maker = {}  # a value -> the equation that gives it
    kept = []
    for e in graph.equations:
        e = Equation(
            e.primitive, tuple(replaced.get(v, v) for v in e.inputs), e.attributes, e.outputs, e.location
        )
        before = maker.get(e.inputs[0]) if e.inputs else None
        name = e.primitive.name
        if name == "neg" and before is not None and before.primitive.name == "neg":
            replaced[e.outputs[0]] = before.inputs[0]
            continue
        if name == "transpose":
            axes = tuple(e.attributes["axes"])
            if before is not None and before.primitive.name == "transpose":
                axes = tuple(before.attributes["axes"][axis] for axis in axes)
                e = Equation(e.primitive, before.inputs, {"axes": axes}, e.outputs, e.location)
            if axes == tuple(range(len(axes))):
                replaced[e.outputs[0]] = e.inputs[0]
                continue
        kept.append(e)
        maker[e.outputs[0]] = e
    outputs = [replaced.get(v, v) for v in graph.outputs]
    return Graph(graph.inputs, needed(kept, outputs), outputs, graph.name)


def needed(equations, outputs):
    """Only what the outputs depend on, in the old order."""
    wanted, live = set(outputs), []
    for e in reversed(equations):
        if any(v in wanted for v in e.outputs):
            live.append(e)
            wanted.update(e.inputs)
    return live[::-1]
