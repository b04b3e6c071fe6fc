"""An encoder of text with segment and position embeddings, padding masks and a masked-token head."""

import math

import torch
import torch.nn as nn
from torch.nn import CrossEntropyLoss

BATCH = {"ids": ("int", 29, (2, 9)), "types": ("int", 2, (2, 9)), "labels": ("int", 29, (2, 9))}


class BertEmbeddings(nn.Module):
    def __init__(self, vocab=29, hidden=12, positions=16):
        super().__init__()
        self.word_embeddings = nn.Embedding(vocab, hidden, padding_idx=0)
        self.position_embeddings = nn.Embedding(positions, hidden)
        self.token_type_embeddings = nn.Embedding(2, hidden)
        self.LayerNorm = nn.LayerNorm(hidden, eps=1e-12)
        self.dropout = nn.Dropout(0.0)
        self.register_buffer("position_ids", torch.arange(positions).expand((1, -1)), persistent=False)

    def forward(self, input_ids=None, token_type_ids=None):
        seq_length = input_ids.size()[1]
        embeddings = self.word_embeddings(input_ids) + self.token_type_embeddings(token_type_ids)
        embeddings += self.position_embeddings(self.position_ids[:, :seq_length])
        return self.dropout(self.LayerNorm(embeddings))


class BertSelfAttention(nn.Module):
    def __init__(self, hidden=12, heads=3):
        super().__init__()
        self.num_attention_heads, self.attention_head_size = heads, int(hidden / heads)
        self.all_head_size = self.num_attention_heads * self.attention_head_size
        self.query, self.key, self.value = (nn.Linear(hidden, self.all_head_size) for _ in range(3))
        self.dropout = nn.Dropout(0.0)

    def transpose_for_scores(self, x: torch.Tensor) -> torch.Tensor:
        new_x_shape = x.size()[:-1] + (self.num_attention_heads, self.attention_head_size)
        return x.view(new_x_shape).permute(0, 2, 1, 3)

    def forward(self, hidden_states, attention_mask=None):
        q, k, v = (self.transpose_for_scores(f(hidden_states)) for f in (self.query, self.key, self.value))
        scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(self.attention_head_size)
        if attention_mask is not None:
            scores = scores + attention_mask
        probs = self.dropout(nn.functional.softmax(scores, dim=-1))
        context = torch.matmul(probs, v).permute(0, 2, 1, 3).contiguous()
        return context.view(context.size()[:-2] + (self.all_head_size,))


class BertLayer(nn.Module):
    def __init__(self, hidden=12):
        super().__init__()
        self.attention = BertSelfAttention(hidden)
        self.output = nn.Linear(hidden, hidden)
        self.norm = nn.LayerNorm(hidden)
        self.encoder = nn.TransformerEncoderLayer(
            hidden, 2, 24, dropout=0.0, activation="gelu", batch_first=True
        )

    def forward(self, x, mask, padding):
        x = self.norm(x + self.output(self.attention(x, mask)))
        return self.encoder(x, src_key_padding_mask=padding)


class BertForMaskedLM(nn.Module):
    def __init__(self):
        super().__init__()
        self.embeddings = BertEmbeddings()
        self.layer = nn.ModuleList([BertLayer() for _ in range(2)])
        self.pooler = nn.Sequential(nn.Linear(12, 12), nn.Tanh())
        self.transform = nn.Linear(12, 12)
        self.decoder_bias = nn.Parameter(torch.zeros(29))
        self._keys_to_ignore = [r"position_ids"]

    def forward(self, input_ids, token_type_ids):
        mask = (input_ids != 0).long()
        mask[:, 0] = 1
        extended = mask[:, None, None, :].to(dtype=self.transform.weight.dtype)
        extended = (1.0 - extended) * torch.finfo(extended.dtype).min
        x = self.embeddings(input_ids, token_type_ids)
        for layer in self.layer:
            x = layer(x, extended, mask == 0)
        logits = self.transform(x) @ self.embeddings.word_embeddings.weight.t() + self.decoder_bias
        return logits, self.pooler(x[:, 0])


def make():
    return BertForMaskedLM()


def loss(model, batch):
    logits, pooled = model(batch["ids"], batch["types"])
    labels = batch["labels"].clone()
    labels[batch["ids"] == 0] = -100
    return CrossEntropyLoss()(logits.view(-1, 29), labels.view(-1)) + pooled.pow(2).mean()
