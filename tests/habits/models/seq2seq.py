"""Recurrent encoder and decoder with additive attention, teacher forcing and an own cell loop."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = {"src": ("int", 11, (6, 2)), "tgt": ("int", 11, (5, 2))}


class Encoder(nn.Module):
    def __init__(self, input_dim, emb_dim, hid_dim):
        super().__init__()
        self.embedding = nn.Embedding(input_dim, emb_dim)
        self.rnn = nn.GRU(emb_dim, hid_dim, bidirectional=True)
        self.fc = nn.Linear(hid_dim * 2, hid_dim)

    def forward(self, src):
        outputs, hidden = self.rnn(self.embedding(src))
        hidden = torch.tanh(self.fc(torch.cat((hidden[-2, :, :], hidden[-1, :, :]), dim=1)))
        return outputs, hidden


class Attention(nn.Module):
    def __init__(self, hid_dim):
        super().__init__()
        self.attn = nn.Linear(hid_dim * 3, hid_dim)
        self.v = nn.Parameter(torch.rand(hid_dim))

    def forward(self, hidden, encoder_outputs):
        batch_size, src_len = encoder_outputs.shape[1], encoder_outputs.shape[0]
        hidden = hidden.unsqueeze(1).repeat(1, src_len, 1)
        encoder_outputs = encoder_outputs.permute(1, 0, 2)
        energy = torch.tanh(self.attn(torch.cat((hidden, encoder_outputs), dim=2))).permute(0, 2, 1)
        v = self.v.repeat(batch_size, 1).unsqueeze(1)
        return F.softmax(torch.bmm(v, energy).squeeze(1), dim=1)


class Decoder(nn.Module):
    def __init__(self, output_dim, emb_dim, hid_dim, attention):
        super().__init__()
        self.output_dim, self.attention = output_dim, attention
        self.embedding = nn.Embedding(output_dim, emb_dim)
        self.cell = nn.LSTMCell(hid_dim * 2 + emb_dim, hid_dim)
        self.rnn = nn.RNNCell(hid_dim, hid_dim, nonlinearity="relu")
        self.out = nn.Linear(hid_dim * 3 + emb_dim, output_dim)

    def forward(self, input, state, encoder_outputs):
        h, c = state
        embedded = self.embedding(input)
        a = self.attention(h, encoder_outputs).unsqueeze(1)
        weighted = torch.bmm(a, encoder_outputs.permute(1, 0, 2)).squeeze(1)
        h, c = self.cell(torch.cat((embedded, weighted), dim=1), (h, c))
        h = h + self.rnn(h, h)
        return self.out(torch.cat((h, weighted, embedded), dim=1)), (h, c)


class Seq2Seq(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = Encoder(11, 5, 6)
        self.decoder = Decoder(11, 5, 6, Attention(6))

    def forward(self, src, trg, teacher_forcing_ratio=1.0):
        max_len, batch_size = trg.shape
        outputs = torch.zeros(
            max_len, batch_size, self.decoder.output_dim, dtype=self.decoder.out.weight.dtype
        ).to(src.device)
        encoder_outputs, hidden = self.encoder(src)
        state = (hidden, torch.zeros_like(hidden))
        output = trg[0, :]
        for t in range(1, max_len):
            output, state = self.decoder(output, state, encoder_outputs)
            outputs[t] = output
            top1 = output.max(1)[1]
            output = trg[t] if teacher_forcing_ratio > 0.5 else top1
        return outputs


def make():
    return Seq2Seq()


def loss(model, batch):
    out = model(batch["src"], batch["tgt"])
    return F.nll_loss(F.log_softmax(out[1:].view(-1, 11), 1), batch["tgt"][1:].contiguous().view(-1))
