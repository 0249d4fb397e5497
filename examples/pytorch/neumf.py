"""NeuMF: a user and an item, their product beside a network of both. He et al., WWW 2017."""

import torch
from torch import nn


class NeuMF(nn.Module):
    def __init__(self, users=1000, items=400, dim=32):
        super().__init__()
        self.user_factors, self.item_factors = nn.Embedding(users, dim), nn.Embedding(items, dim)
        self.user_features, self.item_features = nn.Embedding(users, dim), nn.Embedding(items, dim)
        self.network = nn.Sequential(
            nn.Linear(2 * dim, dim),
            nn.ReLU(),
            nn.Linear(dim, dim // 2),
            nn.ReLU(),
        )
        self.predict = nn.Linear(dim + dim // 2, 1)

    def forward(self, user, item):
        product = self.user_factors(user) * self.item_factors(item)
        both = torch.cat([self.user_features(user), self.item_features(item)], dim=-1)
        hidden = self.network(both)
        return torch.sigmoid(self.predict(torch.cat([product, hidden], dim=-1))).squeeze(-1)


def example():
    return NeuMF(), torch.randint(1000, (32,)), torch.randint(400, (32,))
