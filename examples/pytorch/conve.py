"""ConvE: head and relation as one image, convolved, then met by the tail. Dettmers et al., AAAI 2018."""

import torch
from torch import nn


class ConvE(nn.Module):
    def __init__(self, entities=1000, relations=20, height=4, width=8, channels=8):
        super().__init__()
        self.image = (1, height, width)
        self.entities = nn.Embedding(entities, height * width)
        self.relations = nn.Embedding(relations, height * width)
        self.convolution = nn.Conv2d(1, channels, 3)
        self.norm = nn.BatchNorm2d(channels)
        self.out = nn.Linear(channels * (2 * height - 2) * (width - 2), height * width)
        self.bias = nn.Embedding(entities, 1)

    def forward(self, h, r, t):
        head = self.entities(h).view(-1, *self.image)
        relation = self.relations(r).view(-1, *self.image)
        image = torch.cat([head, relation], dim=2)
        features = torch.relu(self.norm(self.convolution(image)))
        hidden = torch.relu(self.out(features.flatten(1)))
        return (hidden * self.entities(t)).sum(-1) + self.bias(t).squeeze(-1)


def example():
    head, tail = torch.randint(1000, (2, 32))
    return ConvE().eval(), head, torch.randint(20, (32,)), tail
