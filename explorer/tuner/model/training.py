"""Trains the network on recorded spaces, with PyTorch on the CPU: for those who make the weights, and not for users.

G-Sparse's is trained on 1/time by mean squared errors; on time itself the slowest points would own the loss. Ours is
trained on the logarithm, to which pairs of points of one space add what they are ordered wrongly by (the pairwise
ranking loss of WACO, Won et al. 2023). Times are relative to the best of their space, so that spaces count alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from explorer.tuner.model.network import Floats, Network, Target, logarithms

if TYPE_CHECKING:
    import torch

NARROWEST = 1e-3
"""A deviation below which an input says nothing, as one that is the same in all spaces."""


@dataclass(frozen=True)
class Training:
    """How the network is trained: its hidden layers' widths, passes over all points, points in a step, the step's
    length, what weights are pulled to 0 by, and what a pair in the wrong order weighs (0 for none)."""

    target: Target = "logarithm"
    widths: tuple[int, ...] = (128, 64)
    epochs: int = 60
    batch: int = 512
    rate: float = 2e-3
    decay: float = 1e-4
    ranking: float = 1.0
    seed: int = 0


OURS = Training()
G_SPARSE = Training(target="reciprocal", ranking=0.0)
"""The paper gives neither widths nor a rate: they are ours."""

Example = tuple[Floats, NDArray[np.float64]]
"""Of a space, what the model is given of its points [points, inputs], and their times [points]."""


def train(spaces: Sequence[Example], how: Training = OURS) -> Network:
    """A network trained on spaces, of which points that are not valid are left out. Raises ImportError without
    PyTorch."""
    import torch

    torch.manual_seed(how.seed)
    random = np.random.default_rng(how.seed)
    examples = [_relative(inputs, times, how.target) for inputs, times in spaces]
    every = np.concatenate([inputs for inputs, _ in examples])
    shift, scale = every.mean(0), 1.0 / np.maximum(every.std(0), NARROWEST)
    scale = np.where(every.std(0) < NARROWEST, 0.0, scale)
    model = _layers([every.shape[1], *how.widths, 1])
    sets = [(torch.from_numpy(((x - shift) * scale).astype(np.float32)), torch.from_numpy(y)) for x, y in examples]
    steps = how.epochs * sum(-(-len(y) // how.batch) for _, y in sets)
    optimizer = torch.optim.AdamW(model.parameters(), lr=how.rate, weight_decay=how.decay)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=how.rate, total_steps=max(steps, 1))
    for _ in range(how.epochs):
        for own, part in _batches([len(y) for _, y in sets], how.batch, random):
            inputs, wanted = sets[own][0][part], sets[own][1][part]
            optimizer.zero_grad()
            loss = _loss(model(inputs)[:, 0], wanted, how.ranking)
            loss.backward()
            optimizer.step()
            schedule.step()
    dense = [each for each in model if isinstance(each, torch.nn.Linear)]
    layers = tuple((each.weight.detach().numpy().T.copy(), each.bias.detach().numpy().copy()) for each in dense)
    return Network(how.target, shift.astype(np.float32), scale.astype(np.float32), layers)


def _relative(inputs: Floats, times: NDArray[np.float64], target: Target) -> tuple[Floats, Floats]:
    """The logarithms of what is given of the valid points, and what the network is to say of them."""
    valid = np.isfinite(times)
    ratio = times[valid] / times[valid].min()
    wanted = np.log(ratio) if target == "logarithm" else 1.0 / ratio
    return logarithms(inputs[valid]), wanted.astype(np.float32)


def _layers(widths: Sequence[int]) -> Any:
    import torch

    parts: list[Any] = []
    for number, (before, behind) in enumerate(pairwise(widths)):
        parts += [torch.nn.ReLU()] * bool(number) + [torch.nn.Linear(before, behind)]
    return torch.nn.Sequential(*parts)


def _batches(sizes: Sequence[int], batch: int, random: np.random.Generator) -> list[tuple[int, NDArray[np.int64]]]:
    """Batches of points of one space each, in any order: pairs are of one space."""
    found = []
    for own, size in enumerate(sizes):
        order = random.permutation(size)
        found += [(own, order[begin : begin + batch]) for begin in range(0, size, batch)]
    return [found[place] for place in random.permutation(len(found))]


def _loss(predicted: torch.Tensor, wanted: torch.Tensor, ranking: float) -> torch.Tensor:
    import torch

    squares = torch.nn.functional.mse_loss(predicted, wanted)
    if not ranking:
        return squares
    order = torch.randperm(len(wanted))
    apart, other = wanted - wanted[order], predicted - predicted[order]
    wrong = torch.nn.functional.softplus(-torch.sign(apart) * other * 4) * apart.abs().clamp(max=1.0)
    return squares + ranking * wrong.mean()
