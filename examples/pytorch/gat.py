"""GAT: attention over a node's incoming edges, by several heads. Velickovic et al., ICLR 2018."""

import torch
import torch.nn.functional as F
from torch import nn


def softmax(score, dst, nodes):
    """Over the edges that lead to each node."""
    ids = dst.unsqueeze(-1).expand_as(score)
    largest = score.new_zeros(nodes, score.size(1)).scatter_reduce(0, ids, score, "amax", include_self=False)
    weight = torch.exp(score - largest.detach()[dst])
    total = score.new_zeros(nodes, score.size(1)).index_add(0, dst, weight)
    return weight / total[dst]


class GAT(nn.Module):
    def __init__(self, inner=64, outer=16, heads=4):
        super().__init__()
        self.heads, self.outer = heads, outer
        self.project = nn.Linear(inner, heads * outer, bias=False)
        self.att_src = nn.Parameter(torch.randn(heads, outer))
        self.att_dst = nn.Parameter(torch.randn(heads, outer))
        self.bias = nn.Parameter(torch.zeros(heads * outer))

    def forward(self, x, edge_index):
        src, dst = edge_index
        h = self.project(x).view(-1, self.heads, self.outer)
        from_src = (h * self.att_src).sum(-1)
        from_dst = (h * self.att_dst).sum(-1)
        score = F.leaky_relu(from_src[src] + from_dst[dst], 0.2)
        alpha = softmax(score, dst, x.size(0))
        message = alpha.unsqueeze(-1) * h[src]
        out = torch.zeros_like(h).index_add(0, dst, message)
        return F.elu(out.flatten(1) + self.bias)


def example():
    return GAT(), torch.randn(40, 64), torch.randint(40, (2, 150))
