"""Message passing over edges with attention per node, pooled per graph."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = {
    "nodes": ("normal", (7, 5)),
    "edges": ("int", 7, (2, 20)),
    "graph": ("int", 2, (7,)),
    "y": ("normal", (2, 3)),
}


def scatter_softmax(scores, index, n):
    largest = scores.new_full((n, scores.size(1)), float("-inf"))
    largest = largest.scatter_reduce(
        0, index.view(-1, 1).expand_as(scores), scores, reduce="amax", include_self=False
    )
    out = (scores - largest.detach()[index]).exp()
    total = torch.zeros(n, scores.size(1), dtype=scores.dtype).index_add_(0, index, out)
    return out / (total[index] + 1e-16)


class GATLayer(nn.Module):
    def __init__(self, in_dim, out_dim, heads=2):
        super().__init__()
        self.heads, self.out_dim = heads, out_dim
        self.lin = nn.Linear(in_dim, heads * out_dim, bias=False)
        self.att_src = nn.Parameter(torch.Tensor(1, heads, out_dim))
        self.att_dst = nn.Parameter(torch.empty(1, heads, out_dim))
        self.bias = nn.Parameter(torch.zeros(heads * out_dim))
        self.reset_parameters()

    def reset_parameters(self):
        nn.init.xavier_uniform_(self.lin.weight, gain=nn.init.calculate_gain("relu"))
        nn.init.xavier_uniform_(self.att_src.data)
        nn.init.xavier_uniform_(self.att_dst.data)

    def forward(self, x, edge_index):
        n = x.size(0)
        loops = torch.arange(n).unsqueeze(0).repeat(2, 1)
        src, dst = torch.cat([edge_index, loops], dim=1)
        h = self.lin(x).view(-1, self.heads, self.out_dim)
        alpha = (h * self.att_src).sum(dim=-1)[src] + (h * self.att_dst).sum(-1)[dst]
        alpha = scatter_softmax(F.leaky_relu(alpha, 0.2), dst, n)
        messages = h[src] * alpha.unsqueeze(-1)
        out = torch.zeros_like(h).scatter_add_(0, dst.view(-1, 1, 1).expand_as(messages), messages)
        return out.flatten(1) + self.bias


class GNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([GATLayer(5, 4), GATLayer(8, 4)])
        self.bn = nn.BatchNorm1d(8)
        self.readout = nn.Bilinear(8, 8, 3)

    def forward(self, x, edge_index, batch):
        for layer in self.layers:
            x = F.elu(layer(x, edge_index))
        x = self.bn(x)
        size = int(batch.max()) + 1
        count = torch.bincount(batch, minlength=size).clamp(min=1).to(x.dtype).unsqueeze(1)
        mean = torch.zeros(size, x.size(1), dtype=x.dtype).index_add(0, batch, x) / count
        best = torch.stack(
            [x[batch == i].amax(dim=0) if (batch == i).any() else x.new_zeros(x.size(1)) for i in range(size)]
        )
        return self.readout(mean, best)


def make():
    return GNN()


def loss(model, batch):
    graph = batch["graph"].clone()
    graph[0], graph[1] = 0, 1
    return F.huber_loss(model(batch["nodes"], batch["edges"], graph), batch["y"])
