"""Trains modules of PyTorch, eager and traced by the explorer, in turns: the same losses, gradients and accuracies.

    python examples/train_traced.py rgnn      # a relational GNN classifies nodes, whose labels are drawn at random
    python examples/train_traced.py kge       # a KGE learns from self-adversarial negatives (Sun et al. 2019)

The modules are plain PyTorch, a loop over relations and complex numbers, and are not changed: `explorer.trace` makes a
text of each, `--text` prints it, and its `module()` is trained in the module's place. Both sides start from the same
parameters and see the same data, so their losses must agree to float32 rounding: the status is 1 where they part.
"""

from __future__ import annotations

import argparse
import copy
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median
from time import perf_counter

try:
    import torch
except ImportError:
    sys.exit("train_traced: PyTorch is not installed here: pip install torch")
from torch import nn
from torch.nn.functional import cross_entropy, logsigmoid

import explorer

TOLERANCE = 1e-3
"""How far, relatively, losses may part: rounding grows from step to step, as Adam divides small gradients by their
own size."""
UNTIMED_STEPS = 2
"""The first steps: kernels are compiled in them."""


class RelationalLayer(nn.Module):
    """Schlichtkrull et al. 2018: a mean and a Linear for each relation, as PyTorch's users write it."""

    def __init__(self, inner: int, outer: int, relations: int) -> None:
        super().__init__()
        self.relations = nn.ModuleList([nn.Linear(inner, outer, bias=False) for _ in range(relations)])
        self.loop = nn.Linear(inner, outer)

    def forward(self, x: torch.Tensor, edges: torch.Tensor, types: torch.Tensor) -> torch.Tensor:
        """The rows of the next layer, [nodes, outer]."""
        out = self.loop(x)
        for relation, linear in enumerate(self.relations):
            src, dst = edges[:, types == relation]
            total = torch.zeros_like(x).index_add(0, dst, x[src])
            count = torch.zeros(x.size(0), device=x.device).index_add(0, dst, torch.ones_like(dst, dtype=x.dtype))
            out = out + linear(total / count.clamp(min=1)[:, None])
        return out


class RelationalGNN(nn.Module):
    """Two layers, and a number for each class and node."""

    def __init__(self, features: int, hidden: int, classes: int, relations: int) -> None:
        super().__init__()
        self.first = RelationalLayer(features, hidden, relations)
        self.second = RelationalLayer(hidden, classes, relations)

    def forward(self, x: torch.Tensor, edges: torch.Tensor, types: torch.Tensor) -> torch.Tensor:
        """[nodes, classes]."""
        return self.second(torch.relu(self.first(x, edges, types)), edges, types)


class ComplEx(nn.Module):
    """Trouillon et al. 2016, in complex numbers."""

    def __init__(self, entities: int, relations: int, dim: int) -> None:
        super().__init__()
        self.entities = nn.Parameter(torch.randn(entities, dim, 2) * dim**-0.5)
        self.relations = nn.Parameter(torch.randn(relations, dim, 2) * dim**-0.5)

    def forward(self, h: torch.Tensor, r: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        """A score for each triple."""
        head, tail = torch.view_as_complex(self.entities[h]), torch.view_as_complex(self.entities[t])
        return (head * torch.view_as_complex(self.relations[r]) * tail.conj()).real.sum(-1)


@dataclass(frozen=True, eq=False)
class Task:
    """What is learnt: a module, the inputs to trace it with, and the loss and accuracy of a module at a step."""

    module: nn.Module
    inputs: tuple[torch.Tensor, ...]
    loss: Callable[[nn.Module, int], tuple[torch.Tensor, float]]


@dataclass(eq=False)
class Side:
    """One way to train the module, and what was seen of it."""

    name: str
    module: nn.Module
    optimizer: torch.optim.Optimizer
    losses: list[float] = field(default_factory=list)
    accuracies: list[float] = field(default_factory=list)
    milliseconds: list[float] = field(default_factory=list)

    def step(self, task: Task, number: int) -> None:
        """One step of the optimiser."""
        began = perf_counter()
        loss, accuracy = task.loss(self.module, number)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.losses.append(loss.item())
        self.accuracies.append(accuracy)
        self.milliseconds.append((perf_counter() - began) * 1e3)


def rgnn(arguments: argparse.Namespace) -> Task:
    """Nodes of a random graph, each with a random label, and an accuracy over all of them."""
    random = torch.Generator().manual_seed(arguments.seed)
    nodes, dim, relations, classes = arguments.nodes, arguments.dim, arguments.relations, arguments.classes
    x = torch.randn(nodes, dim, generator=random)
    edges = torch.randint(nodes, (2, 8 * nodes), generator=random)
    types = torch.randint(relations, (8 * nodes,), generator=random)
    labels = torch.randint(classes, (nodes,), generator=random)

    def loss(module: nn.Module, number: int) -> tuple[torch.Tensor, float]:
        found = module(x, edges, types)
        return cross_entropy(found, labels), float((found.argmax(1) == labels).float().mean())

    return Task(RelationalGNN(dim, dim, classes, relations), (x, edges, types), loss)


def kge(arguments: argparse.Namespace) -> Task:
    """Random triples, and for each step a batch with negatives, weighted by how likely their scores make them; the
    accuracy is the share of true triples that are above all of their negatives."""
    random = torch.Generator().manual_seed(arguments.seed)
    sets = (arguments.nodes, arguments.relations, arguments.nodes)
    triples = torch.stack([torch.randint(most, (4 * arguments.nodes,), generator=random) for most in sets], dim=1)
    margin, temperature, negatives = 2.0, 1.0, 16

    def loss(module: nn.Module, number: int) -> tuple[torch.Tensor, float]:
        drawn = torch.Generator().manual_seed(arguments.seed + 1 + number)
        h, r, t = triples[torch.randint(len(triples), (arguments.batch,), generator=drawn)].T.contiguous()
        others = torch.randint(arguments.nodes, (arguments.batch, negatives), generator=drawn)
        tails = torch.cat([t[:, None], others], dim=1)
        repeated = [ids.repeat_interleave(1 + negatives) for ids in (h, r)]
        scores = module(*repeated, tails.flatten()).view(arguments.batch, 1 + negatives)
        true, false = scores[:, 0], scores[:, 1:]
        weight = torch.softmax(temperature * false, dim=1).detach()
        total = -logsigmoid(margin + true) - (weight * logsigmoid(-false - margin)).sum(1)
        return total.mean() / 2, float((true > false.amax(1)).float().mean())

    example = triples[: arguments.batch].T.contiguous()
    return Task(ComplEx(arguments.nodes, arguments.relations, arguments.dim), tuple(example), loss)


TASKS = {"rgnn": rgnn, "kge": kge}


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="train_traced.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("task", choices=tuple(TASKS), help="what is learnt")
    add("--nodes", type=int, default=2000, help="of the graph, or entities; default 2000")
    add("--relations", type=int, default=6, help="default 6")
    add("--classes", type=int, default=4, help="default 4")
    add("--dim", type=int, default=32, help="elements of a row; default 32")
    add("--batch", type=int, default=512, help="triples a step; default 512")
    add("--steps", type=int, default=60, help="steps of the optimiser; default 60")
    add("--lr", type=float, default=0.01, help="Adam's learning rate; default 0.01")
    add("--seed", type=int, default=0, help="of parameters, data and negatives; default 0")
    add("--text", action="store_true", help="print the text that was made of the module")
    return parser.parse_args(argv)


def main(argv: Sequence[str]) -> int:
    """Trains both; the exit status is 1 where their losses differ."""
    arguments = parse(argv)
    torch.manual_seed(arguments.seed)
    task = TASKS[arguments.task](arguments)
    traced = explorer.trace(copy.deepcopy(task.module), *task.inputs)
    if arguments.text:
        print(traced.text)
    modules = {"eager": task.module, "explorer": traced.module()}
    sides = [
        Side(name, module, torch.optim.Adam(module.parameters(), lr=arguments.lr)) for name, module in modules.items()
    ]
    report = max(1, arguments.steps // 10)
    print(f"{'step':>6}  " + "  ".join(f"{side.name:>12} loss  accuracy" for side in sides))
    for step in range(arguments.steps):
        for side in sides:
            side.step(task, step)
        if step % report == report - 1:
            said = (f"{side.losses[-1]:>17.7f}  {side.accuracies[-1]:8.4f}" for side in sides)
            print(f"{step + 1:>6}  " + "  ".join(said), flush=True)
    for side in sides:
        print(f"{side.name:9} {median(side.milliseconds[UNTIMED_STEPS:] or side.milliseconds):8.2f} ms a step (median)")
    return 0 if compare(*sides) else 1


def compare(one: Side, other: Side) -> bool:
    """Says how far the losses part, and whether that is rounding."""
    apart = max(abs(a - b) / max(abs(a), 1e-30) for a, b in zip(one.losses, other.losses, strict=True))
    agree = apart <= TOLERANCE
    verdict = "the same to float32 rounding" if agree else f"NOT the same, more than {TOLERANCE:g}"
    print(f"losses of {len(one.losses):,} steps differ by at most {apart:.1e} relatively: {verdict}")
    return agree


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
