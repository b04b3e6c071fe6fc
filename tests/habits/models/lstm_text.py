"""A tagger over packed sequences of different lengths, both directions, with a tied first state."""

import torch
import torch.nn as nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

BATCH = {"a": ("int", 13, (5,)), "b": ("int", 13, (3,)), "c": ("int", 13, (7,)), "y": ("int", 4, (3,))}


class Tagger(nn.Module):
    def __init__(self, vocab=13, emb=6, hidden=5, classes=4):
        super().__init__()
        self.embed = nn.Embedding(vocab, emb, padding_idx=0)
        self.lstm = nn.LSTM(emb, hidden, num_layers=2, bidirectional=True, batch_first=True, dropout=0.0)
        self.gru = nn.GRU(2 * hidden, hidden, batch_first=True)
        self.fc = nn.Linear(hidden + 2 * hidden, classes)
        self.init_hidden = nn.Parameter(torch.zeros(4, 1, hidden))
        for name, param in self.lstm.named_parameters():
            if "bias" in name:
                nn.init.constant_(param, 0.0)
            elif "weight" in name:
                nn.init.orthogonal_(param)

    def forward(self, sequences):
        lengths = torch.tensor([len(s) for s in sequences])
        padded = pad_sequence(sequences, batch_first=True, padding_value=0)
        self.lstm.flatten_parameters()
        h0 = self.init_hidden.repeat(1, padded.size(0), 1)
        packed = pack_padded_sequence(
            self.embed(padded), lengths.cpu(), batch_first=True, enforce_sorted=False
        )
        out, (h_n, c_n) = self.lstm(packed, (h0, torch.zeros_like(h0)))
        out, out_lengths = pad_packed_sequence(out, batch_first=True)
        assert (
            torch.equal(out_lengths, lengths)
            if hasattr(torch, "compiled_with_cxx11_abi")
            else out_lengths.equal(lengths)
        )
        mask = torch.arange(out.size(1))[None, :] < lengths[:, None]
        pooled = out.masked_fill(~mask.unsqueeze(-1), float("-inf")).max(dim=1)[0]
        states, last = self.gru(out)
        last_step = states.gather(1, (lengths - 1).view(-1, 1, 1).expand(-1, 1, states.size(2))).squeeze(1)
        return self.fc(torch.cat([last_step, pooled], dim=-1)), h_n, c_n


def make():
    return Tagger()


def loss(model, batch):
    logits, h, c = model([batch["a"], batch["b"], batch["c"]])
    return nn.CrossEntropyLoss()(logits, batch["y"]) + 0.1 * (h.pow(2).mean() + c.abs().mean())
