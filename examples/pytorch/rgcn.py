"""RGCN: a mean and a Linear for each relation, in a loop, as one typed product. Schlichtkrull et al., ESWC 2018."""

import torch
from torch import nn


class RGCN(nn.Module):
    def __init__(self, inner=64, outer=64, relations=5):
        super().__init__()
        self.relations = nn.ModuleList([nn.Linear(inner, outer, bias=False) for _ in range(relations)])
        self.loop = nn.Linear(inner, outer)

    def forward(self, x, edge_index, edge_type):
        out = self.loop(x)
        for relation, linear in enumerate(self.relations):
            src, dst = edge_index[:, edge_type == relation]
            total = torch.zeros_like(x).index_add(0, dst, x[src])
            ones = torch.ones(dst.size(0))
            count = torch.zeros(x.size(0)).index_add(0, dst, ones)
            out = out + linear(total / count.clamp(min=1).unsqueeze(-1))
        return torch.relu(out)


def example():
    return RGCN(), torch.randn(40, 64), torch.randint(40, (2, 150)), torch.randint(5, (150,))
