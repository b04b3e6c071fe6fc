"""What `odd_calls` calls: layers, operations, optimisers, schedules, distributions, data, metrics."""

from __future__ import annotations

import copy
import dataclasses
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

import trilobite as tb
from tests.errors.odd_calls import Call
from tests.habits.answers import function, kept
from tests.nn.layer_cases import ALL
from trilobite.processor.machine import load_machine, machine_from

# They change what later calls do, or their results depend on what was called before.
LEFT = frozenset("set_default_dtype manual_seed set_printoptions".split())


def subjects() -> Iterator[tuple[str, Call]]:
    met = Counter[str]()
    for name, call in (*_layers(), *_operations(), *_others(), *_machines()):
        met[name] += 1
        yield f"{name} {met[name]}", call


def _layers() -> Iterator[tuple[str, Call]]:
    seen = Counter[str]()
    for case in ALL:
        made = getattr(tb.nn, case.layer)
        seen[case.layer] += 1
        if seen[case.layer] > 2 or any(hasattr(a, "dtype") for a in (*case.args, *case.kwargs.values())):
            continue
        yield f"nn.{case.layer}", (made, case.args, case.kwargs)

        def run(*inputs: Any, case: Any = case, made: Any = made, **settings: Any) -> Any:
            return made(*case.args, **case.kwargs)(*inputs, **settings)

        if seen[case.layer] == 1:
            inputs = (x.astype(np.float32) if x.dtype == np.float64 else x for x in case.arrays())
            yield f"nn.{case.layer}()", (run, tuple(inputs), case.call)


def _operations() -> Iterator[tuple[str, Call]]:
    seen = Counter[str]()
    for name, sample in kept():
        seen[name] += 1
        made = function(name)
        if made is not None and seen[name] in (1, 3) and name not in LEFT:
            yield name, (made, tuple(sample["args"]), dict(sample["kwargs"]))


def _parameter() -> tb.Tensor:
    return tb.tensor([1.0, 2.0], requires_grad=True)


def _optimised(kind: Any) -> Any:
    def made(**settings: Any) -> Any:
        p = _parameter()
        optimizer = kind([p], **settings)
        (p * p).sum().backward()
        if not hasattr(optimizer, "_memory"):
            optimizer.step()
        return _shown(optimizer.param_groups[0])

    made.__signature__ = _without_first(kind)  # type: ignore[attr-defined]
    return made


def _shown(group: Any) -> list[Any]:
    return [
        [name, value if isinstance(value, (bool, str)) else str(value)]
        for name, value in sorted(group.items())
        if name != "params"
    ]


def _scheduled(kind: Any) -> Any:
    def made(*args: Any, **settings: Any) -> Any:
        optimizer = tb.optim.SGD([_parameter()], lr=0.1, momentum=0.9)
        schedule = kind(optimizer, *args, **settings)
        rates = [f"{rate:.5g}" for rate in schedule.get_last_lr()]
        return [sorted(schedule.state_dict()), rates]

    made.__signature__ = _without_first(kind)  # type: ignore[attr-defined]
    return made


def _without_first(kind: Any) -> Any:
    import inspect

    whole = inspect.signature(kind)
    return whole.replace(parameters=list(whole.parameters.values())[1:])


OPTIMISERS = (
    "SGD Adam AdamW Adamax NAdam RAdam Adagrad Adadelta RMSprop Rprop ASGD Adafactor LBFGS Lion LAMB".split()
)
SCHEDULES: dict[str, tuple[Any, ...]] = {
    "StepLR": (3,), "MultiStepLR": ([2, 5],), "ExponentialLR": (0.9,), "CosineAnnealingLR": (10,),
    "LinearLR": (),
    "ConstantLR": (), "PolynomialLR": (), "CyclicLR": (0.1, 0.5), "OneCycleLR": (0.5, 20),
    "CosineAnnealingWarmRestarts": (5,), "ReduceLROnPlateau": (),
}  # fmt: skip
_ONE, _TWO = np.asarray([0.5, 0.25], np.float32), np.asarray([1.5, 2.0], np.float32)
DISTRIBUTIONS: dict[str, tuple[Any, ...]] = {
    "Normal": (_ONE, _TWO), "LogNormal": (_ONE, _TWO), "Laplace": (_ONE, _TWO), "Cauchy": (_ONE, _TWO),
    "Gumbel": (_ONE, _TWO), "Uniform": (_ONE, _TWO), "Beta": (_ONE, _TWO), "Gamma": (_ONE, _TWO),
    "StudentT": (_TWO,),
    "Exponential": (_ONE,), "Poisson": (_TWO,), "Geometric": (_ONE,), "Bernoulli": (_ONE,),
    "Categorical": (_ONE,),
    "Dirichlet": (_TWO,), "Chi2": (_TWO,), "HalfNormal": (_TWO,), "HalfCauchy": (_TWO,),
    "Weibull": (_ONE, _TWO),
    "Pareto": (_ONE, _TWO), "Kumaraswamy": (_ONE, _TWO), "VonMises": (_ONE, _TWO), "Binomial": (5, _ONE),
    "NegativeBinomial": (5, _ONE), "Multinomial": (5, _ONE), "InverseGamma": (_ONE, _TWO),
    "FisherSnedecor": (_ONE, _TWO), "ContinuousBernoulli": (_ONE,), "OneHotCategorical": (_ONE,),
}  # fmt: skip
TRANSFORMS: dict[str, tuple[Any, ...]] = {
    "Resize": ((4, 5),), "CenterCrop": ((3, 2),), "RandomCrop": ((3, 2),), "Pad": (2,), "Rotate": (30,),
    "Cutout": (3,), "Normalize": ((0.5, 0.2), (1.0, 2.0)), "RandomFlip": (), "ToFloat": (), "OneHot": (5,),
    "Brightness": (0.3,), "Contrast": (0.3,), "Saturation": (0.3,), "Hue": (0.1,),
    "RandomResizedCrop": ((4, 4),),
}  # fmt: skip
DRAWS: dict[str, tuple[Any, ...]] = {
    "rand": (2, 3), "randn": (2, 3), "randint": (1, 5, (2, 3)), "randperm": (5,),
    "normal": (0.5, 2.0, (2, 3)),
    "bernoulli": (_ONE,), "multinomial": (_ONE, 2, True), "poisson": (_TWO,),
}  # fmt: skip
KEYED: dict[str, tuple[Any, ...]] = {
    "uniform": ((2, 3),), "normal": ((2, 3), 0.5, 2.0), "randint": (1, 5, (2, 3)), "permutation": (5,),
    "choice": (7, (2, 3)), "gamma": (_TWO, (2,)), "truncated_normal": ((2, 3),), "exponential": ((2, 3),),
}  # fmt: skip
MADE: dict[str, tuple[Any, ...]] = {
    "arange": (1, 7, 2), "linspace": (0.0, 2.0, 5), "logspace": (0.0, 2.0, 5), "eye": (3, 4),
    "full": ((2, 3), 1.5),
    "zeros": (2, 3), "ones": ((2, 3),), "empty": ((2, 3),), "tril_indices": (3, 4, 1),
    "triu_indices": (3, 4, 1),
    "hann_window": (5,), "hamming_window": (5,), "blackman_window": (5,), "kaiser_window": (5,),
    "bartlett_window": (5,),
    "one_hot": (np.asarray([0, 2, 1]), 4), "meshgrid": (_ONE, _TWO), "vander": (_TWO, 3), "tri": (3, 4, 1),
}  # fmt: skip


METRICS = (
    "Accuracy TopKAccuracy Precision Recall F1 ConfusionMatrix Mean Perplexity RocAuc AveragePrecision "
    "DetectionMeanAveragePrecision MeanSquaredError"
).split()


def _others() -> Iterator[tuple[str, Call]]:
    for name in OPTIMISERS:
        if hasattr(tb.optim, name):
            yield f"optim.{name}", (_optimised(getattr(tb.optim, name)), (), {})
    for name, args in SCHEDULES.items():
        yield f"optim.{name}", (_scheduled(getattr(tb.optim.lr_scheduler, name)), args, {})
    yield "optim.GradScaler", (tb.optim.GradScaler, (), {})
    rooms: tuple[tuple[str, Any, dict[str, tuple[Any, ...]]], ...] = (
        ("distributions", tb.distributions, DISTRIBUTIONS), ("transforms", tb.data.transforms, TRANSFORMS),
        ("", tb, DRAWS), ("random", tb.random, KEYED), ("", tb, MADE),
    )  # fmt: skip
    for room, place, calls in rooms:
        for name, args in calls.items():
            if hasattr(place, name):
                yield f"{room}.{name}".lstrip("."), (getattr(place, name), args, {})
    yield from _data()


def _data() -> Iterator[tuple[str, Call]]:
    data, metrics = tb.data, tb.metrics
    yield "data.Loader", (data.Loader, (range(7), 3), {})
    for name, args in {
        "RandomSampler": (7,), "SequentialSampler": (7,), "WeightedSampler": ([0.2, 0.8, 1.0],),
        "DistributedSampler": (), "Subset": (range(7), [1, 2]), "ArrayDataset": (_ONE, _TWO),
        "ConcatDataset": (),
    }.items():  # fmt: skip
        if hasattr(data, name):
            yield f"data.{name}", (getattr(data, name), args, {})
    for name in METRICS:
        if hasattr(metrics, name):
            yield f"metrics.{name}", (getattr(metrics, name), (), {})


def _machines() -> Iterator[tuple[str, Call]]:
    """Each field of two descriptions: a chip of many clusters, and one of one core."""
    for preset in ("dlp-m", "dlp-s"):
        whole = _tree(load_machine(preset))
        for path, value in _leaves(whole, ()):

            def described(value: Any, whole: Any = whole, path: tuple[str, ...] = path) -> Any:
                tree = copy.deepcopy(whole)
                place = tree
                for step in path[:-1]:
                    place = place[step]
                place[path[-1]] = value
                return repr(machine_from(tree, "mine.yaml"))

            yield f"machine.{preset}.{'.'.join(path)}", (described, (value,), {})


def _tree(x: Any) -> Any:
    if dataclasses.is_dataclass(x):
        return {field.name: _tree(getattr(x, field.name)) for field in dataclasses.fields(x)}
    return {k: _tree(v) for k, v in x.items()} if isinstance(x, Mapping) else x


def _leaves(tree: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, value in tree.items():
        if isinstance(value, dict) and value:
            yield from _leaves(value, (*path, name))
        elif isinstance(value, (bool, int, float, str, tuple, list)) or value is None:
            yield (*path, name), value
