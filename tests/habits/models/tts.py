"""A text-to-speech encoder: convolution banks, highways, duration, a length regulator, spectra of sound."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils import weight_norm

BATCH = {"text": ("int", 15, (2, 6)), "durations": ("int", 4, (2, 6)), "audio": ("normal", (2, 200))}


class BatchNormConv(nn.Module):
    def __init__(self, in_channels, out_channels, kernel, relu=True):
        super().__init__()
        self.conv = nn.Conv1d(in_channels, out_channels, kernel, stride=1, padding=kernel // 2, bias=False)
        self.bnorm = nn.BatchNorm1d(out_channels)
        self.relu = relu

    def forward(self, x):
        x = self.conv(x)
        x = F.relu(x) if self.relu is True else x
        return self.bnorm(x)


class HighwayNetwork(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.W1 = nn.Linear(size, size)
        self.W2 = nn.Linear(size, size)
        self.W1.bias.data.fill_(0.0)

    def forward(self, x):
        g = torch.sigmoid(self.W2(x))
        return g * F.relu(self.W1(x)) + (1.0 - g) * x


class CBHG(nn.Module):
    def __init__(self, K=3, channels=6):
        super().__init__()
        self._to_flatten = []
        self.bank_kernels = [i for i in range(1, K + 1)]
        self.conv1d_bank = nn.ModuleList()
        for k in self.bank_kernels:
            self.conv1d_bank.append(BatchNormConv(channels, channels, k))
        self.maxpool = nn.MaxPool1d(kernel_size=2, stride=1, padding=1)
        self.conv_project = weight_norm(nn.Conv1d(K * channels, channels, 3, padding=1))
        self.highways = nn.ModuleList([HighwayNetwork(channels) for _ in range(2)])
        self.rnn = nn.GRU(channels, channels, batch_first=True, bidirectional=True)

    def forward(self, x):
        residual = x
        seq_len = x.size(-1)
        conv_bank = []
        for conv in self.conv1d_bank:
            c = conv(x)
            conv_bank.append(c[:, :, :seq_len])
        conv_bank = torch.cat(conv_bank, dim=1)
        x = self.maxpool(conv_bank)[:, :, :seq_len]
        x = self.conv_project(x) + residual
        x = x.transpose(1, 2)
        for h in self.highways:
            x = h(x)
        x, _ = self.rnn(x)
        return x


class LengthRegulator(nn.Module):
    def forward(self, x, dur):
        output = [torch.repeat_interleave(row, d + 1, dim=0) for row, d in zip(x, dur)]
        return nn.utils.rnn.pad_sequence(output, batch_first=True)


class Spectrum(nn.Module):
    def __init__(self, n_fft=32, hop=16, n_mels=5):
        super().__init__()
        self.n_fft, self.hop = n_fft, hop
        self.register_buffer("window", torch.hann_window(n_fft, dtype=torch.float64), persistent=False)
        freqs = torch.linspace(0, 1, n_fft // 2 + 1, dtype=torch.float64)
        centres = torch.linspace(0, 1, n_mels + 2, dtype=torch.float64)[1:-1]
        self.register_buffer(
            "mel", torch.clamp(1 - (freqs[None] - centres[:, None]).abs() * n_mels, min=0.0), persistent=False
        )

    def forward(self, audio):
        spec = torch.stft(
            audio,
            self.n_fft,
            hop_length=self.hop,
            win_length=self.n_fft,
            window=self.window.to(audio.dtype),
            center=True,
            pad_mode="reflect",
            normalized=False,
            onesided=True,
            return_complex=True,
        )
        magnitude = torch.sqrt(spec.real.pow(2) + spec.imag.pow(2) + 1e-9)
        return torch.log(torch.clamp(torch.matmul(self.mel.to(audio.dtype), magnitude), min=1e-5))


class ForwardTTS(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(15, 6)
        self.prenet = CBHG()
        self.dur_pred = nn.Sequential(nn.Linear(12, 8), nn.ReLU(), nn.Linear(8, 1))
        self.lr = LengthRegulator()
        self.lin = nn.Linear(12, 5)
        self.spectrum = Spectrum()
        self.register_buffer("step", torch.zeros(1, dtype=torch.long))

    def forward(self, x, dur):
        if self.training:
            self.step += 1
        x = self.embedding(x).transpose(1, 2)
        x = self.prenet(x)
        dur_hat = self.dur_pred(x).squeeze(-1)
        return self.lin(self.lr(x, dur)).transpose(1, 2), dur_hat


def make():
    return ForwardTTS()


def loss(model, batch):
    mel_hat, dur_hat = model(batch["text"], batch["durations"])
    mel = model.spectrum(batch["audio"])
    n = min(mel.size(-1), mel_hat.size(-1))
    lens = torch.tensor([n, n - 2])
    mask = (torch.arange(n)[None] < lens[:, None]).unsqueeze(1).expand_as(mel[..., :n])
    mel_loss = F.l1_loss(mel_hat[..., :n] * mask, mel[..., :n] * mask, reduction="sum") / mask.sum()
    return mel_loss + 0.1 * F.mse_loss(dur_hat, batch["durations"].to(dur_hat.dtype))
