"""Small networks in double precision, and what one process makes of them: the measure of every strategy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from trilobite.nn import functional as F

import trilobite as tb
from trilobite import nn, optim

BATCH, STEPS = 8, 20
Array = np.ndarray[Any, Any]


class MLP(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(6, 10), nn.Linear(10, 6)
        self.norm, self.drop, self.out = nn.LayerNorm(6), nn.Dropout(0.25), nn.Linear(6, 5)

    def forward(self, x: Any) -> Any:
        h = x + self.down(self.drop(F.gelu(self.up(x))))
        return self.out(self.norm(h))


class Convolutions(nn.Module):
    """A residual block with batch norm, as ResNets are made of."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.first = nn.Conv2d(3, 6, 3, padding=1, bias=False), nn.BatchNorm2d(6)
        self.conv, self.second = nn.Conv2d(6, 6, 3, padding=1, bias=False), nn.BatchNorm2d(6)
        self.out = nn.Linear(6, 5)

    def forward(self, x: Any) -> Any:
        h = F.relu(self.first(self.stem(x)))
        h = F.relu(h + self.second(self.conv(h)))
        return self.out(h.mean(axis=(2, 3)))


class LSTM(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.out = nn.LSTM(4, 6, 2, batch_first=True, dropout=0.2), nn.Linear(6, 5)

    def forward(self, x: Any) -> Any:
        return self.out(self.lstm(x)[0][:, -1])


VOCABULARY, WIDTH, HEADS, LENGTH = 11, 8, 4, 6


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Any) -> Any:
        return self.out(attend(self.qkv(x)))


def attend(qkv: Any, causal: bool = True) -> Any:
    """Causal attention of as many heads as there are columns for."""
    b, t, w = qkv.shape
    size = WIDTH // HEADS
    q, k, v = (h.reshape((b, t, -1, size)).transpose(1, 2) for h in tb.split(qkv, w // 3, -1))
    scores = q @ k.mT / size**0.5
    mask = tb.tensor(np.tril(np.ones((t, t), bool)))
    probabilities = F.softmax(tb.where(mask, scores, -np.inf), -1)
    return (probabilities @ v).transpose(1, 2).reshape((b, t, -1))


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.attention, self.second = nn.LayerNorm(WIDTH), Attention(), nn.LayerNorm(WIDTH)
        self.up, self.down, self.drop = nn.Linear(WIDTH, 12), nn.Linear(12, WIDTH), nn.Dropout(0.1)

    def forward(self, x: Any) -> Any:
        x = x + self.drop(self.attention(self.first(x)))
        return x + self.down(F.gelu(self.up(self.second(x))))


class GPT(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.ModuleList([Block(), Block()])
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, tokens: Any) -> Any:
        x = self.tokens(tokens) + self.places(tb.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class Case(NamedTuple):
    model: Callable[[], Any]
    x: Array
    y: Array


def case(name: str) -> Case:
    rng = np.random.default_rng(11)
    classes = rng.integers(0, 5, BATCH)
    if name == "gpt":
        tokens = rng.integers(0, VOCABULARY, (BATCH, LENGTH + 1))
        return Case(GPT, tokens[:, :-1], tokens[:, 1:])
    shapes = {"mlp": (BATCH, 6), "convolutions": (BATCH, 3, 5, 5), "lstm": (BATCH, 3, 4),
              "resnet18": (BATCH, 3, 32, 32)}  # fmt: skip
    models: dict[str, Any] = {"mlp": MLP, "convolutions": Convolutions, "lstm": LSTM}
    models["resnet18"] = lambda: tb.zoo.create("resnet18_32x32")
    return Case(models[name], rng.normal(size=shapes[name]), classes)


def made(name: str) -> Any:
    tb.manual_seed(7)
    model = case(name).model()
    return model.double()


def loss_of(out: Any, y: Any) -> Any:
    return F.cross_entropy(out.reshape((-1, out.shape[-1])), y.reshape(-1))


def adam(parameters: Any) -> Any:
    return optim.AdamW(parameters, lr=3e-2, weight_decay=0.02)


class Trained(NamedTuple):
    """Of every step the loss, of the first and the last the gradients, and the parameters at the end."""

    losses: list[float]
    first: dict[str, Array]
    last: dict[str, Array]
    parameters: dict[str, Array]


def copied(named: Any) -> dict[str, Array]:
    return {name: np.array(t.detach().numpy()) for name, t in named.items()}


def gradients(model: Any) -> dict[str, Array]:
    return copied({n: p.grad for n, p in model.named_parameters()})


_known: dict[tuple[str, float | None], Trained] = {}


def one_process(name: str, clip: float | None = None) -> Trained:
    """The whole batch in one process."""
    if (name, clip) in _known:
        return _known[name, clip]
    model, at = made(name), case(name)
    opt = adam(model.parameters())
    tb.manual_seed(3)
    x, y = tb.tensor(at.x), tb.tensor(at.y)
    losses, grads = [], []
    for _ in range(STEPS):
        loss = loss_of(model(x), y)
        opt.zero_grad()
        loss.backward()
        if clip is not None:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        losses.append(loss.item())
        grads.append(gradients(model))
        opt.step()
    out = Trained(losses, grads[0], grads[-1], copied(dict(model.named_parameters())))
    _known[name, clip] = out
    return out


def distance(a: dict[str, Array], b: dict[str, Array]) -> float:
    """How far apart, in parts of the norm of all."""
    assert a.keys() == b.keys()
    far = sum(float(np.sum((a[k] - b[k]) ** 2)) for k in a) ** 0.5
    return far / sum(float(np.sum(b[k] ** 2)) for k in b) ** 0.5


def apart(found: Trained, want: Trained) -> tuple[float, float]:
    """At step 1 and at the end: the larger of the distances of losses and of gradients, or parameters."""
    losses = [abs(a - b) / abs(b) for a, b in zip(found.losses, want.losses, strict=True)]
    begin = max(losses[0], distance(found.first, want.first))
    end = max(max(losses), distance(found.last, want.last), distance(found.parameters, want.parameters))
    return begin, end


def check_equal(found: Trained, want: Trained) -> None:
    begin, end = apart(found, want)
    assert begin < 1e-12 and end < 1e-10, (begin, end)
