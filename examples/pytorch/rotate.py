"""RotatE: a relation turns each element of an entity in the complex plane. Sun et al., ICLR 2019."""

import math

import torch
from torch import nn


class RotatE(nn.Module):
    def __init__(self, entities=1000, relations=20, dim=64, gamma=12.0):
        super().__init__()
        self.gamma = gamma
        self.span = (gamma + 2.0) / dim
        self.entities = nn.Embedding(entities, 2 * dim)
        self.relations = nn.Embedding(relations, dim)

    def forward(self, sample):
        head, tail = self.entities(sample[:, 0]), self.entities(sample[:, 2])
        re_head, im_head = torch.chunk(head, 2, dim=-1)
        re_tail, im_tail = torch.chunk(tail, 2, dim=-1)

        # Phases in [-pi, pi], as relations are drawn from the span of the embeddings.
        phase = self.relations(sample[:, 1]) / (self.span / math.pi)
        re_relation, im_relation = torch.cos(phase), torch.sin(phase)

        re_score = re_head * re_relation - im_head * im_relation - re_tail
        im_score = re_head * im_relation + im_head * re_relation - im_tail
        score = torch.stack([re_score, im_score], dim=0).norm(dim=0)
        return self.gamma - score.sum(dim=-1)


def example():
    head, tail = torch.randint(1000, (2, 32))
    return RotatE(), torch.stack([head, torch.randint(20, (32,)), tail], dim=1)
