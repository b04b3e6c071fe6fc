"""Encoder and decoder with bucketed relative positions and cross attention."""

import math

import torch
from torch import nn

BATCH = {"src": ("int", 17, (2, 8)), "tgt": ("int", 17, (2, 6))}


class RelativeAttention(nn.Module):
    def __init__(self, d=12, heads=3, bidirectional=True, has_bias=True):
        super().__init__()
        self.heads, self.bidirectional = heads, bidirectional
        self.q, self.k, self.v, self.o = [nn.Linear(d, d, bias=False) for _ in range(4)]
        if has_bias:
            self.relative_attention_bias = nn.Embedding(8, heads)
        self.has_bias = has_bias

    @staticmethod
    def _relative_position_bucket(relative_position, bidirectional=True, num_buckets=8, max_distance=16):
        relative_buckets = 0
        if bidirectional:
            num_buckets //= 2
            relative_buckets += (relative_position > 0).to(torch.long) * num_buckets
            relative_position = torch.abs(relative_position)
        else:
            relative_position = -torch.min(relative_position, torch.zeros_like(relative_position))
        max_exact = num_buckets // 2
        is_small = relative_position < max_exact
        large = max_exact + (
            torch.log(relative_position.float() / max_exact + 1e-9)
            / math.log(max_distance / max_exact)
            * (num_buckets - max_exact)
        ).to(torch.long)
        large = torch.min(large, torch.full_like(large, num_buckets - 1))
        relative_buckets += torch.where(is_small, relative_position, large)
        return relative_buckets

    def compute_bias(self, query_length, key_length, device=None):
        context_position = torch.arange(query_length, dtype=torch.long, device=device)[:, None]
        memory_position = torch.arange(key_length, dtype=torch.long, device=device)[None, :]
        bucket = self._relative_position_bucket(memory_position - context_position, self.bidirectional)
        return self.relative_attention_bias(bucket).permute([2, 0, 1]).unsqueeze(0)

    def forward(self, x, memory=None, mask=None):
        b, n = x.shape[:2]
        memory = x if memory is None else memory

        def shape(states):
            return states.view(b, -1, self.heads, states.size(-1) // self.heads).transpose(1, 2)

        q, k, v = shape(self.q(x)), shape(self.k(memory)), shape(self.v(memory))
        scores = torch.einsum("bhqd,bhkd->bhqk", q, k)
        if self.has_bias:
            scores += self.compute_bias(n, memory.shape[1], x.device)
        if mask is not None:
            scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
        weights = nn.functional.softmax(scores, dim=-1).type_as(scores)
        return self.o((weights @ v).transpose(1, 2).contiguous().view(b, n, -1))


class Layer(nn.Module):
    def __init__(self, decoder=False):
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(12, bias=False) if i else nn.RMSNorm(12) for i in range(3)])
        self.self_attention = RelativeAttention(bidirectional=not decoder)
        self.cross = RelativeAttention(has_bias=False) if decoder else None
        self.ff = nn.Sequential(
            nn.Linear(12, 20, bias=False), nn.ReLU(), nn.Dropout(0.0), nn.Linear(20, 12, bias=False)
        )

    def forward(self, x, memory=None, mask=None):
        x = x + self.self_attention(self.norms[0](x), mask=mask)
        if self.cross is not None:
            x = x + self.cross(self.norms[1](x), memory)
        return x + self.ff(self.norms[2](x))


class T5(nn.Module):
    def __init__(self):
        super().__init__()
        self.shared = nn.Embedding(17, 12)
        self.encoder = nn.ModuleList(Layer() for _ in range(2))
        self.decoder = nn.ModuleList(Layer(decoder=True) for _ in range(2))

    def _shift_right(self, ids):
        shifted = ids.new_zeros(ids.shape)
        shifted[..., 1:] = ids[..., :-1].clone()
        shifted[..., 0] = 0
        return shifted

    def forward(self, src, tgt):
        memory = self.shared(src)
        for layer in self.encoder:
            memory = layer(memory)
        x = self.shared(self._shift_right(tgt))
        causal = torch.ones(tgt.size(1), tgt.size(1), dtype=torch.bool).tril()
        for layer in self.decoder:
            x = layer(x, memory, causal)
        return torch.matmul(x * (12**-0.5), self.shared.weight.T)


def make():
    return T5()


def loss(model, batch):
    logits = model(batch["src"], batch["tgt"])
    return nn.functional.cross_entropy(logits.permute(0, 2, 1), batch["tgt"])
