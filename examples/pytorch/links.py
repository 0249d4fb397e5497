"""Link prediction: two GraphSAGE layers, and the dot product of each edge's ends. Hamilton et al., NeurIPS 2017."""

import torch
import torch.nn.functional as F
from torch import nn


class SAGE(nn.Module):
    def __init__(self, inner, outer):
        super().__init__()
        self.own = nn.Linear(inner, outer)
        self.neighbours = nn.Linear(inner, outer, bias=False)

    def forward(self, x, edge_index):
        src, dst = edge_index
        total = torch.zeros_like(x).index_add(0, dst, x[src])
        degree = torch.zeros(x.size(0)).index_add(0, dst, torch.ones(dst.size(0)))
        mean = total / degree.clamp(min=1).unsqueeze(-1)
        return self.own(x) + self.neighbours(mean)


class Links(nn.Module):
    def __init__(self, inner=64, hidden=64, outer=32):
        super().__init__()
        self.first, self.second = SAGE(inner, hidden), SAGE(hidden, outer)

    def forward(self, x, edge_index):
        z = torch.relu(self.first(x, edge_index))
        z = F.normalize(self.second(z, edge_index), dim=-1)
        src, dst = edge_index
        return (z[src] * z[dst]).sum(-1)


def example():
    return Links(), torch.randn(40, 64), torch.randint(40, (2, 150))
