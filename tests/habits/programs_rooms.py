"""Programs of PyTorch's further rooms, for `programs.py`: trees, derivatives, samplers, settings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.habits.calls import CALLS
from tests.habits.programs_nn import PROGRAMS, X, Y, program, refuses, room


@program
def trees(m: Any) -> Any:
    p = room(m, "utils._pytree")
    tree = {"a": [1, 2, (3, None)], "b": (4,), "c": []}
    leaves, spec = p.tree_flatten(tree)
    return [
        leaves,
        p.tree_unflatten([x * 2 if x else x for x in leaves], spec),
        p.tree_leaves(tree),
        p.tree_map(lambda x: x, tree),
        p.tree_map_only(int, lambda x: x + 1, tree),
        p.tree_all(lambda x: x != 9, tree),
        p.tree_any(lambda x: x == 4, tree),
        p.tree_all(bool, tree),
        p.tree_any(lambda x: x == 9, tree),
        p.tree_structure(tree) == spec,
    ]


@program
def derivatives(m: Any) -> Any:
    f, g = room(m, "autograd.functional"), room(m, "func")
    x, y = m.tensor(X[0]), m.tensor(Y[0])
    two = f.jacobian(lambda a, b: (a * b.sin(), (a * a).sum()), (x, y))
    second = f.hessian(lambda a: (a**3).sum() + a[0] * a[1], x)
    grads, value = g.grad_and_value(lambda a, b: (a * b * b).sum(), argnums=1)(x, y)
    mapped = g.vmap(lambda a, b: (a * b).sum(), in_dims=(0, None))(m.tensor(X), y)
    out = g.vmap(lambda a: a * 2, in_dims=1, out_dims=1)(m.tensor(X))
    tangent = g.jvp(lambda a: a.exp(), (x,), (y,))
    results, pull = g.vjp(lambda a: a * a, x)
    return [
        *two[0],
        *two[1],
        second,
        grads,
        value,
        mapped,
        out,
        *tangent,
        results,
        *pull(y),
        g.jacrev(lambda a: a * a)(x),
        g.jacfwd(lambda a: a.cumsum(0))(x),
        g.hessian(lambda a: (a**3).sum())(x),
        *f.vjp(lambda a: a * a, x, y),
        *f.jvp(lambda a: a * a, x, y),
    ]


@program
def samplers(m: Any) -> Any:
    d, out = m.utils.data, []
    data = d.TensorDataset(m.arange(10), m.arange(10) * 2)
    out += [len(data), list(data[3]), [int(a) for a, _ in d.Subset(data, [7, 1, 3])]]
    joined = d.ConcatDataset([range(3), range(10, 12)])
    out += [
        len(joined),
        [joined[i] for i in (0, 2, 3, 4, -1)],
        refuses(lambda: joined[-6]),
        joined.cumulative_sizes,
    ]
    for drop in (False, True):
        batches = d.BatchSampler(d.SequentialSampler(range(7)), 3, drop)
        out += [list(batches), len(batches)]
        loader = d.DataLoader(data, batch_size=4, drop_last=drop)
        out += [len(loader), [[p.tolist() for p in batch] for batch in loader]]
    for n, replicas, short in ((10, 3, False), (10, 3, True), (2, 5, False), (12, 4, True)):
        kind = room(m, "utils.data.distributed").DistributedSampler
        made = [kind(range(n), replicas, rank, shuffle=False, drop_last=short) for rank in range(replicas)]
        out += [[list(s) for s in made], [len(s) for s in made]]
    split = d.random_split(range(10), [0.3, 0.3, 0.4])
    out += [
        [len(s) for s in split],
        sorted(x for s in split for x in s),
        refuses(lambda: d.random_split(range(10), [3, 3])),
    ]
    some = d.SubsetRandomSampler([4, 5, 6])
    drawn = d.RandomSampler(range(5), num_samples=12)
    weighted = list(d.WeightedRandomSampler([0.0, 1.0, 0.0], 5))
    out += [
        sorted(some),
        len(some),
        len(drawn),
        len(list(drawn)),
        set(map(int, drawn)) <= set(range(5)),
        weighted,
    ]
    out += [refuses(lambda: d.RandomSampler(range(5), num_samples=0)), sorted(d.RandomSampler(range(5)))]
    pairs = d.default_collate([{"a": 1, "b": (m.ones(2), 0.5)}, {"a": 2, "b": (m.zeros(2), 1.5)}])
    return [*out, pairs["a"], pairs["b"][0], pairs["b"][1], list(d.ChainDataset([Count(d, 3), Count(d, 2)]))]


def Count(d: Any, n: int) -> Any:
    class Counted(d.IterableDataset):  # type: ignore[misc]
        def __iter__(self) -> Any:
            return iter(range(n))

        def __len__(self) -> int:
            return n

    return Counted()


@program
def settings(m: Any) -> Any:
    g = m.Generator()
    g.manual_seed(77)
    f = m.finfo(m.float32)
    h, i = m.finfo(m.bfloat16), m.iinfo(m.int16)
    with m.inference_mode():
        inside = m.is_inference_mode_enabled()
    with m.no_grad():
        graded = m.is_grad_enabled()
    out = [
        g.initial_seed(),
        inside,
        m.is_inference_mode_enabled(),
        graded,
        m.is_grad_enabled(),
    ]
    out += [f.tiny, f.eps, f.max, f.bits, f.resolution, h.eps, h.tiny, i.max, i.min, i.bits]
    out += [m.is_tensor(1), m.is_tensor(m.ones(1)), m.is_floating_point(m.ones(1)), m.is_complex(m.ones(1))]
    out += [
        m.get_default_dtype() is m.float32,
        m.cuda.is_available(),
        m.cuda.device_count(),
        m.backends.mps.is_available(),
    ]
    x = m.ones(2, 3, dtype=m.float64)
    out += [
        x.new_full((2,), 7.0),
        x.new_zeros(2),
        x.new_ones((1, 2)),
        x.new_tensor([1, 2]),
        x.t().stride(),
        x.dim(),
    ]
    out += [
        m.zeros(3, 3).fill_diagonal_(2.0),
        m.zeros(4, 2).fill_diagonal_(1.0, wrap=True),
    ]
    out += [
        m.frombuffer(bytearray(b"\1\0\2\0"), dtype=m.int16),
        m.squeeze(m.ones(1, 2, 1)),
        x.is_contiguous(),
        x.t().is_contiguous(),
    ]
    return [
        *out,
        m.result_type(m.ones(1, dtype=m.int8), 1.5) is m.float32,
        m.can_cast(m.float32, m.int32),
        m.promote_types(m.uint8, m.int8) is m.int16,
        m.broadcast_shapes((3, 1), (1, 4)),
        m.numel(x),
    ]


# -- calls that are written once ----------------------------------------------------------------------------


def _call(name: str) -> Callable[[Any], Any]:
    fn, operands = CALLS[name]

    def run(m: Any) -> Any:
        inputs = [m.tensor(a, requires_grad=a.dtype.kind == "f") for a in operands]
        outs = leaves(fn(m, *inputs))
        smooth = [o for o in outs if o.requires_grad]
        if smooth:
            sum((o * o.detach().cos()).sum() for o in smooth).backward()
        return [*outs, *(x.grad for x in inputs if x.grad is not None and bool((x.grad != 0).any()))]

    return run


def leaves(out: Any) -> list[Any]:
    if isinstance(out, (tuple, list)):
        return [leaf for part in out for leaf in leaves(part)]
    return [out]


for _name in CALLS:
    PROGRAMS[f"call {_name}"] = _call(_name)
