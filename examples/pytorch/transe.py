"""TransE: a relation is a way from head to tail, of entities on the unit sphere. Bordes et al., NeurIPS 2013."""

import torch
import torch.nn.functional as F
from torch import nn


class TransE(nn.Module):
    def __init__(self, entities=1000, relations=20, dim=64):
        super().__init__()
        self.entities = nn.Embedding(entities, dim)
        self.relations = nn.Embedding(relations, dim)

    def forward(self, head, relation, tail):
        h = F.normalize(self.entities(head), p=2, dim=-1)
        t = F.normalize(self.entities(tail), p=2, dim=-1)
        r = self.relations(relation)
        return -torch.norm(h + r - t, p=1, dim=-1)


def example():
    head, tail = torch.randint(1000, (2, 32))
    return TransE(), head, torch.randint(20, (32,)), tail
