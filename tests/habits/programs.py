"""Small programs in PyTorch's words: each runs with PyTorch or with the package as `m`, and gives tensors.

Enters: a module that answers as torch does. Leaves: tensors, numbers, texts or lists of them. No program
draws random numbers. What PyTorch gives is kept in `programs.npz` (`python -m tests.habits.keep_answers`
with the word `programs`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.habits import programs_layers, programs_refusals, programs_rooms  # noqa: F401  they enter theirs
from tests.habits.programs_nn import PROGRAMS, filled, program, room
from tests.habits.rarer_distributions import CASES

R = np.random.default_rng(11)
X, Y = R.normal(size=(3, 4)), R.normal(size=(3, 4))
SEQUENCES = [R.normal(size=(n, 2)) for n in (4, 1, 3)]


# -- sequences of several lengths ---------------------------------------------------------------------------


@program
def padded(m: Any) -> Any:
    rnn = room(m, "nn.utils.rnn")
    lines = [m.tensor(s) for s in SEQUENCES]
    left = rnn.pad_sequence(lines, batch_first=True, padding_value=-1.5, padding_side="left")
    wide = rnn.pad_sequence(lines)
    lengths = m.tensor([4, 1, 3])
    return [
        left,
        wide,
        *rnn.unpad_sequence(wide.clone(), lengths),
        *rnn.unpad_sequence(left, lengths, batch_first=True),
    ]


@program
def packed(m: Any) -> Any:
    rnn = room(m, "nn.utils.rnn")
    lines = [m.tensor(s) for s in SEQUENCES]
    one = rnn.pack_sequence(lines, enforce_sorted=False)
    wide = rnn.pad_sequence(lines, batch_first=True)
    two = rnn.pack_padded_sequence(wide, [4, 1, 3], batch_first=True, enforce_sorted=False)
    ordered = rnn.pack_padded_sequence(wide[[0, 2, 1]], [4, 3, 1], batch_first=True)
    out: list[Any] = []
    for p in (one, two, ordered):
        out += [p.data, p.batch_sizes, *rnn.pad_packed_sequence(p, padding_value=7.0)]
        out += [] if p is ordered else [p.sorted_indices, p.unsorted_indices]
    longer, lengths = rnn.pad_packed_sequence(one, batch_first=True, total_length=6)
    return [*out, longer, lengths, *rnn.unpack_sequence(two)]


@program
def recurrences_of_packed(m: Any) -> Any:
    rnn = room(m, "nn.utils.rnn")
    lines = rnn.pack_sequence([m.tensor(s) for s in SEQUENCES], enforce_sorted=False)
    out: list[Any] = []
    for kind, more in (("RNN", {"nonlinearity": "relu"}), ("GRU", {"bidirectional": True}), ("LSTM", {})):
        net = filled(m, getattr(m.nn, kind)(2, 3, 2, **more).double())
        got, state = net(lines)
        out += [*rnn.pad_packed_sequence(got), *(state if kind == "LSTM" else [state])]
    return out


# -- optimisers and schedules -------------------------------------------------------------------------------

OPTIMISERS: list[tuple[str, dict[str, Any]]] = [
    ("NAdam", {}),
    ("NAdam", {"weight_decay": 0.1, "decoupled_weight_decay": True, "momentum_decay": 0.1}),
    ("RAdam", {"lr": 0.01}),
    ("RAdam", {"weight_decay": 0.1, "betas": (0.8, 0.9), "eps": 1e-3}),
    ("RAdam", {"weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("Adamax", {"weight_decay": 0.1}),
    ("Adamax", {"betas": (0.7, 0.8), "maximize": True}),
    ("Adadelta", {"weight_decay": 0.1}),
    ("Adadelta", {"rho": 0.5, "lr": 0.3, "eps": 1e-3}),
    ("Adafactor", {}),
    ("Adafactor", {"lr": 0.5, "weight_decay": 0.1, "d": 1.5, "maximize": True}),
    ("Adagrad", {"lr_decay": 0.1, "initial_accumulator_value": 0.2, "weight_decay": 0.05}),
    ("Adam", {"amsgrad": True, "betas": (0.6, 0.9), "weight_decay": 0.2}),
    ("AdamW", {"lr": 0.1}),
    ("RMSprop", {"centered": True, "momentum": 0.5, "alpha": 0.7}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.3, "weight_decay": 0.1, "maximize": True}),
]


def _steps(name: str, settings: dict[str, Any]) -> Callable[[Any], Any]:
    def run(m: Any) -> Any:
        ws = [m.nn.Parameter(m.tensor(a)) for a in (X, X[0], X[:2].reshape(2, 2, 2), np.array(0.7))]
        optimizer = getattr(m.optim, name)(ws, **settings)
        for t in range(8):
            for i, w in enumerate(ws):
                size = tuple(w.shape)
                w.grad = m.tensor(
                    np.sin(np.arange(w.numel()) + 3.0 * t + i).reshape(size) * 10.0 ** (t % 3 - 1)
                )
                if t == 4 and i == 1:
                    w.grad = None
            optimizer.step()
        return ws

    return run


for _n, (_name, _settings) in enumerate(OPTIMISERS):
    PROGRAMS[f"{_name} {_n}"] = _steps(_name, _settings)

SCHEDULES: dict[str, tuple[str, dict[str, Any]]] = {
    "lambda": ("LambdaLR", {"lr_lambda": lambda t: 0.9**t}),
    "step": ("StepLR", {"step_size": 3, "gamma": 0.3}),
    "milestones": ("MultiStepLR", {"milestones": [3, 8, 8], "gamma": 0.5}),
    "constant": ("ConstantLR", {"factor": 0.25, "total_iters": 6}),
    "linear": ("LinearLR", {"start_factor": 0.1, "end_factor": 0.9, "total_iters": 9}),
    "exponential": ("ExponentialLR", {"gamma": 0.9}),
    "polynomial": ("PolynomialLR", {"total_iters": 12, "power": 2.0}),
    "cosine": ("CosineAnnealingLR", {"T_max": 7, "eta_min": 0.001}),
    "restarts": ("CosineAnnealingWarmRestarts", {"T_0": 3, "T_mult": 2, "eta_min": 0.001}),
    "one cycle": ("OneCycleLR", {"max_lr": 0.5, "total_steps": 31}),
    "one cycle of lines": (
        "OneCycleLR",
        {
            "max_lr": 0.5,
            "epochs": 7,
            "steps_per_epoch": 4,
            "pct_start": 0.4,
            "anneal_strategy": "linear",
            "three_phase": True,
        },
    ),
    "factors": ("MultiplicativeLR", {"lr_lambda": lambda t: 0.9 + 0.01 * t}),
    "triangles": (
        "CyclicLR",
        {"base_lr": 0.01, "max_lr": 0.3, "step_size_up": 4, "step_size_down": 3, "mode": "triangular2"},
    ),
    "ranges": (
        "CyclicLR",
        {
            "base_lr": 0.01,
            "max_lr": 0.3,
            "step_size_up": 4,
            "mode": "exp_range",
            "gamma": 0.95,
            "base_momentum": 0.7,
            "max_momentum": 0.95,
        },
    ),
}


def _rates(name: str, settings: dict[str, Any]) -> Callable[[Any], Any]:
    def run(m: Any) -> Any:
        optimizer = m.optim.SGD([m.nn.Parameter(m.tensor(X))], lr=0.1, momentum=0.9)
        schedule = getattr(m.optim.lr_scheduler, name)(optimizer, **settings)
        out = []
        for _ in range(25):
            out += [float(schedule.get_last_lr()[0]), float(optimizer.param_groups[0]["momentum"])]
            optimizer.step()
            schedule.step()
        return m.tensor(out, dtype=m.float64)

    return run


for _key, (_name, _settings) in SCHEDULES.items():
    PROGRAMS[f"schedule {_key}"] = _rates(_name, _settings)


# -- distributions ------------------------------------------------------------------------------------------

P, Q = R.uniform(0.1, 0.9, 4), R.uniform(0.5, 3.0, 4)
DRAWN: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "Normal": (lambda d: (d.Normal, P, Q), X),
    "LogNormal": (lambda d: (d.LogNormal, P, Q), np.abs(X)),
    "Uniform": (lambda d: (d.Uniform, -Q, Q), P - 0.5),
    "Exponential": (lambda d: (d.Exponential, Q), P),
    "Laplace": (lambda d: (d.Laplace, P, Q), X),
    "Gumbel": (lambda d: (d.Gumbel, P, Q), X),
    "Cauchy": (lambda d: (d.Cauchy, P, Q), X),
    "HalfNormal": (lambda d: (d.HalfNormal, Q), P),
    "Gamma": (lambda d: (d.Gamma, Q, P), Q),
    "Chi2": (lambda d: (d.Chi2, Q), Q),
    "Beta": (lambda d: (d.Beta, Q, P + 1), P),
    "StudentT": (lambda d: (d.StudentT, Q + 2, P, Q), X),
    "Dirichlet": (lambda d: (d.Dirichlet, Q), P / P.sum()),
    "Bernoulli": (lambda d: (d.Bernoulli, P), np.array([0.0, 1.0, 1.0, 0.0])),
    "Geometric": (lambda d: (d.Geometric, P), np.array([0.0, 1.0, 5.0, 2.0])),
    "Poisson": (lambda d: (d.Poisson, Q), np.array([0.0, 1.0, 5.0, 2.0])),
    "Categorical": (lambda d: (d.Categorical, P / P.sum()), np.array([0, 3, 1])),
}
# What one of the two does not have.
COUNTED = "mode cdf icdf"
WITHOUT = {
    "Normal": "",
    "LogNormal": "",
    "Laplace": "mode cdf icdf",
    "Gumbel": "mode cdf icdf",
    "HalfNormal": "mode cdf icdf",
    "Cauchy": "mode variance stddev",
    "Gamma": "mode cdf icdf",
    "Chi2": "mode cdf icdf",
    "Beta": "mode cdf icdf",
    "StudentT": "mode entropy cdf icdf",
    "Dirichlet": "mode cdf icdf",
    "Bernoulli": COUNTED,
    "Geometric": COUNTED,
    "Poisson": "mode cdf icdf entropy",
    "Categorical": "mean variance stddev cdf icdf",
}
ASKED = "mean variance stddev mode entropy cdf icdf".split()


def _law(name: str) -> Callable[[Any], Any]:
    make, value = DRAWN[name]

    def run(m: Any) -> Any:
        kind, *settings = make(m.distributions)
        law = kind(*map(m.tensor, settings))
        out: list[Any] = [law.log_prob(m.tensor(value)), *law.batch_shape, *law.event_shape]
        wide = law.expand((2, *law.batch_shape))
        out += [
            *wide.batch_shape,
            wide.log_prob(m.tensor(value if law.event_shape else value.reshape(-1)[-1:])),
        ]
        for asked in ASKED:
            if asked in WITHOUT.get(name, "mode").split():
                continue
            got = getattr(law, asked)
            if asked in ("cdf", "icdf"):
                got = got(m.tensor(P if asked == "icdf" else value))
            out.append(got() if asked == "entropy" else got)
        return out

    return run


for _name in DRAWN:
    PROGRAMS[f"law {_name}"] = _law(_name)


@program
def divergences(m: Any) -> Any:
    d, out = m.distributions, []
    for name in (
        "Normal",
        "LogNormal",
        "Exponential",
        "Laplace",
        "Gamma",
        "Beta",
        "Bernoulli",
        "Poisson",
        "Geometric",
        "Categorical",
        "Dirichlet",
        "Uniform",
    ):
        kind, *settings = DRAWN[name][0](d)
        one = kind(*map(m.tensor, settings))
        other = kind(
            *(
                m.tensor(
                    s[::-1] * 1.1 if name not in ("Categorical", "Bernoulli", "Geometric") else s[::-1].copy()
                )
                for s in settings
            )
        )
        out.append(d.kl_divergence(one, other))
    two = [
        d.MultivariateNormal(m.tensor(P[:2]), m.tensor(np.array([[2.0, s], [s, 1.0]]))) for s in (0.3, -0.2)
    ]
    return [
        *out,
        d.kl_divergence(*two),
        d.kl_divergence(
            d.Independent(d.Normal(m.tensor(P), m.tensor(Q)), 1),
            d.Independent(d.Normal(m.tensor(Q), m.tensor(P)), 1),
        ),
        *(law.entropy() for law in two),
    ]


@program
def transforms(m: Any) -> Any:
    t, x, out = m.distributions.transforms, m.tensor(X * 0.5), []
    made = [
        t.ExpTransform(),
        t.SigmoidTransform(),
        t.TanhTransform(),
        t.SoftplusTransform(),
        t.AffineTransform(0.3, -2.0),
        t.AffineTransform(m.tensor(P), m.tensor(Q), event_dim=1),
        t.PowerTransform(m.tensor(2.0, dtype=m.float64)),
        t.AbsTransform(),
        t.StickBreakingTransform(),
        t.ComposeTransform([t.AffineTransform(1.0, 2.0), t.SigmoidTransform()]),
        t.SoftmaxTransform(),
        t.LowerCholeskyTransform(),
    ]
    for each in made:
        at = m.tensor(X[:, :3]) if isinstance(each, t.LowerCholeskyTransform) else x
        at = m.tensor(np.abs(X)) if isinstance(each, t.PowerTransform) else at
        y = each(at)
        out += [y, *each.forward_shape(tuple(at.shape)), *each.inverse_shape(tuple(y.shape))]
        with contextlib.suppress(NotImplementedError):
            out += [each.inv(y), each.log_abs_det_jacobian(at, y)]
        out.append(isinstance(each, t.LowerCholeskyTransform) or bool(each.bijective))
    law = m.distributions.TransformedDistribution(
        m.distributions.Normal(m.tensor(P), m.tensor(Q)), [made[4], made[0]]
    )
    return [*out, law.log_prob(m.tensor(Q)), law.cdf(m.tensor(Q)), law.icdf(m.tensor(P))]


@program
def constraints(m: Any) -> Any:
    c = m.distributions.constraints
    x = m.tensor(np.array([-1.0, 0.0, 0.5, 1.0, 2.0, 3.0]))
    square = m.tensor(np.array([[2.0, 0.0], [0.5, 1.0]]))
    made = [
        c.boolean,
        c.integer_interval(0, 2),
        c.nonnegative_integer,
        c.positive_integer,
        c.real,
        c.positive,
        c.nonnegative,
        c.greater_than(0.5),
        c.greater_than_eq(0.5),
        c.less_than(1.0),
        c.interval(0.0, 1.0),
        c.half_open_interval(0.0, 1.0),
        c.unit_interval,
    ]
    out: list[Any] = [each.check(x) for each in made]
    whole = [
        c.simplex,
        c.lower_triangular,
        c.lower_cholesky,
        c.positive_definite,
        c.symmetric,
        c.square,
        c.one_hot,
        c.real_vector,
        c.independent(c.positive, 1),
    ]
    for each in whole:
        tried = (square, square @ square.mT, m.eye(2, dtype=m.float64), -square, square / 2.0)
        out += [each.check(a) for a in tried]
        out.append(each.event_dim)
    given = [
        m.distributions.transform_to(k)(x) for k in (c.positive, c.unit_interval, c.simplex, c.less_than(2.0))
    ]
    return [*out, *given, m.distributions.biject_to(c.greater_than(0.5))(x)]


def _rare(name: str) -> Callable[[Any], Any]:
    make, value, more = CASES[name]

    def run(m: Any) -> Any:
        law = make(m)
        out = [law.log_prob(m.tensor(value)), *law.batch_shape, *law.event_shape]
        for asked in more.split():
            got = getattr(law, asked)
            out.append(got(m.tensor(value)) if asked == "cdf" else got() if asked == "entropy" else got)
        return out

    return run


for _name in CASES:
    PROGRAMS[f"rare law {_name}"] = _rare(_name)
