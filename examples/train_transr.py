"""Trains TransR on a knowledge graph, with eager PyTorch, with the compiled model, or with both in turns.

    python examples/train_transr.py --data ../shared/data/fb15k-237.npz --with both

Both start from the same parameters and see the same batches and negatives, so their losses must agree to float32
rounding: that is checked, and the status is 1 where they part. Each step corrupts all its triples' tails or all their
heads; the loss is softplus(distance - margin) of the true triples and softplus(margin - distance) of the negatives.
In the end every side ranks test triples among all entities, at both ends, without the other triples known to be true,
and prints the mean reciprocal rank (MRR) and the share of ranks up to 10 (Hits@10); ties share their mean rank.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from time import perf_counter

import numpy as np

try:
    import torch
except ImportError:
    sys.exit("train_transr: PyTorch is not installed here: pip install torch")
from torch.nn.functional import softplus

import explorer
from explorer.runtime.data.triples import PRESETS, InputError, load_triples

MODEL = Path(__file__).parent / "kge" / "transr.emb"
TOLERANCE = 1e-3
"""How far, relatively, losses may part: rounding grows from step to step, since Adam divides small gradients by their
own size."""
UNTIMED_STEPS = 4
"""The first steps: kernels are compiled in them, one of each end's."""
ENDS = ("tail", "head")

Parameters = dict[str, torch.nn.Parameter]
Score = Callable[[Parameters, str, torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
"""From parameters, the end that has candidates, and h, r, t (that end's ids [batch, candidates]) to the distances."""


@dataclass(frozen=True, eq=False)
class Dataset:
    """A knowledge graph's triples, [n, 3] of head, relation and tail: to learn, and to rank."""

    num_entities: int
    num_relations: int
    train: torch.Tensor
    test: torch.Tensor
    known: torch.Tensor  # all that are true: those of every split


@dataclass(eq=False)
class Side:
    """One way to train: its parameters, its optimiser, and what was seen of it."""

    name: str
    score: Score
    parameters: Parameters
    optimizer: torch.optim.Optimizer
    losses: list[float] = field(default_factory=list)
    milliseconds: list[float] = field(default_factory=list)
    weights: tuple[torch.Tensor, torch.Tensor] | None = None

    def step(self, end: str, h: torch.Tensor, r: torch.Tensor, t: torch.Tensor, margin: float) -> None:
        """One step of the optimiser; the first candidate of each triple is the true one."""
        began = perf_counter()
        distances = self.score(self.parameters, end, h, r, t)
        sign, share = self.signs(distances)
        loss = (softplus(sign * (distances - margin)) * share).sum()  # the mean of the true, that of the others
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.losses.append(loss.item())  # waits for the device
        self.milliseconds.append((perf_counter() - began) * 1e3)

    def signs(self, distances: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """What the loss of a distance rises with, itself or its negative, and its share of a mean; [candidates]."""
        batch, candidates = distances.shape
        if self.weights is None:
            sign, share = -torch.ones(candidates), torch.full((candidates,), 1 / (batch * max(1, candidates - 1)))
            sign[0], share[0] = 1, 1 / batch
            self.weights = sign.to(distances.device), share.to(distances.device)
        return self.weights


def main(argv: Sequence[str]) -> int:
    """Trains and evaluates; the exit status is 1 where the sides' losses differ, 2 where the data cannot be read."""
    arguments = parse(argv)
    try:
        data = load(arguments.data, arguments.seed)
    except InputError as error:
        print(f"train_transr: {error}", file=sys.stderr)
        return 2
    print(
        f"{arguments.data}: {len(data.train):,} triples to learn, {len(data.test):,} to rank,"
        f" {data.num_entities:,} entities, {data.num_relations} relations;"
        f" D = K = {arguments.dim} on {arguments.device}"
    )
    names = ("eager", "explorer") if arguments.side == "both" else (arguments.side,)
    sides = [make_side(name, data, arguments) for name in names]
    train(sides, data, arguments)
    agree = len(sides) == 1 or compare(*sides)
    for side in sides:
        timed = side.milliseconds[UNTIMED_STEPS:] or side.milliseconds
        mrr, hits = evaluate(side.parameters, data, arguments.evaluate, arguments.seed)
        print(f"{side.name:9} {median(timed):8.2f} ms a step (median)  filtered MRR {mrr:.4f}  Hits@10 {hits:.4f}")
    if len(sides) == 2:
        eager, ours = (median(side.milliseconds[UNTIMED_STEPS:] or side.milliseconds) for side in sides)
        print(f"explorer's steps take {ours / eager:.2f} of eager's time")
    return 0 if agree else 1


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="train_transr.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add(
        "--data",
        default="FB15k-237",
        help="an .npz of train, valid and test, or a preset (generated; default FB15k-237)",
    )
    add("--with", dest="side", choices=("eager", "explorer", "both"), default="both", help="who trains; default both")
    add("--device", choices=("cpu", "cuda"), default="cpu", help="where the parameters are; default cpu")
    add("--steps", type=_positive, default=600, help="steps of the optimiser; default 600")
    add("--batch", type=_positive, default=1024, help="triples a step; default 1024")
    add("--dim", type=_positive, default=32, help="elements of an entity's and of a relation's row; default 32")
    add("--negatives", type=_positive, default=16, help="corrupted triples for each true one; default 16")
    add("--optimizer", choices=("adam", "sgd"), default="adam", help="default adam")
    add("--lr", type=float, help="learning rate; default 0.01 for adam, 1 for sgd")
    add("--margin", type=float, default=1.0, help="the distance that parts true from corrupted triples; default 1")
    add("--evaluate", type=int, default=1000, metavar="N", help="test triples to rank, 0 for all; default 1000")
    add("--seed", type=int, default=0, help="of parameters, batches and negatives; default 0")
    arguments = parser.parse_args(argv)
    if arguments.device == "cuda" and not torch.cuda.is_available():
        parser.error("PyTorch finds no CUDA device here")
    arguments.lr = arguments.lr or {"adam": 0.01, "sgd": 1.0}[arguments.optimizer]
    return arguments


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return number


def load(source: str, seed: int) -> Dataset:
    """The triples of an archive with splits; a preset's, or those of a file without, are split 90 to 10.

    Raises InputError."""
    if source.lower() not in {name.lower() for name in PRESETS} and source.endswith(".npz") and Path(source).is_file():
        with np.load(source) as archive:
            if {"train", "valid", "test", "num_entities", "num_relations"} <= set(archive.files):
                splits = [torch.from_numpy(archive[name].astype(np.int64)) for name in ("train", "valid", "test")]
                counts = int(archive["num_entities"]), int(archive["num_relations"])
                return Dataset(*counts, train=splits[0], test=splits[2], known=torch.cat(splits))
    found = load_triples(source)
    triples = torch.from_numpy(np.stack([found.h, found.r, found.t], axis=1).astype(np.int64)).unique(dim=0)
    triples = triples[torch.randperm(len(triples), generator=torch.Generator().manual_seed(seed))]
    if len(triples) < 2:
        raise InputError(f"{source}: one triple is to be learnt and another ranked, but there is {len(triples)}")
    cut = max(1, len(triples) // 10)
    return Dataset(found.num_entities, found.num_relations, train=triples[cut:], test=triples[:cut], known=triples)


def make_side(name: str, data: Dataset, arguments: argparse.Namespace) -> Side:
    """A side with its parameters drawn: the same for equal seeds. Relations' matrices begin as the identity (Lin et
    al. 2015), so that training begins as TransE's."""
    random, dim = torch.Generator().manual_seed(arguments.seed), arguments.dim
    drawn = {
        "E": torch.randn(data.num_entities, dim, generator=random) * dim**-0.5,
        "R": torch.randn(data.num_relations, dim, generator=random) * dim**-0.5,
        "P": torch.eye(dim).repeat(data.num_relations, 1, 1),
    }
    parameters = {key: torch.nn.Parameter(tensor.to(arguments.device)) for key, tensor in drawn.items()}
    optimizers = {"adam": torch.optim.Adam, "sgd": torch.optim.SGD}
    fused = arguments.device == "cuda"  # one kernel for all parameters, where there is one
    optimizer = optimizers[arguments.optimizer](parameters.values(), lr=arguments.lr, fused=fused or None)
    score = eager_score if name == "eager" else compiled_score(dim, arguments.negatives + 1)
    return Side(name, score, parameters, optimizer)


def eager_score(x: Parameters, end: str, h: torch.Tensor, r: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
    """The distances as one would write them in PyTorch: each triple's matrix is gathered, and multiplies its rows."""
    heads, tails = x["E"][h], x["E"][t]
    between = heads[:, None] - tails if end == "tail" else heads - tails[:, None]
    return (torch.bmm(between, x["P"][r]) + x["R"][r][:, None]).norm(dim=-1)


def compiled_score(dim: int, candidates: int) -> Score:
    """The compiled distances: a module for each end, which share the parameters that each call gives them."""
    modules = {
        end: explorer.compile(
            MODEL.read_text(), sizes={"D": dim, "K": dim}, options={"negatives": f"{end}:{candidates}"}
        ).torch(check_indices=False)  # all ids are drawn below the tables' sizes
        for end in ENDS
    }

    def score(x: Parameters, end: str, h: torch.Tensor, r: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        distances: torch.Tensor = modules[end](h, r, t, **x)
        return distances

    return score


def train(sides: list[Side], data: Dataset, arguments: argparse.Namespace) -> None:
    """All steps: the sides take turns on each batch, so that what slows the machine slows them alike."""
    random = torch.Generator().manual_seed(arguments.seed + 1)
    report = max(1, arguments.steps // 10)
    print(f"{'step':>6}  " + "  ".join(f"{side.name:>12} loss" for side in sides), flush=True)
    for step in range(arguments.steps):
        picked = torch.randint(len(data.train), (arguments.batch,), generator=random)
        shape = (arguments.batch, arguments.negatives)
        corrupted = torch.randint(data.num_entities, shape, generator=random)
        h, r, t = data.train[picked].T.contiguous()
        end = ENDS[step % 2]
        if end == "tail":
            t = torch.cat([t[:, None], corrupted], dim=1)
        else:
            h = torch.cat([h[:, None], corrupted], dim=1)
        batch = [ids.to(arguments.device) for ids in (h, r, t)]
        for side in sides:
            side.step(end, *batch, margin=arguments.margin)
        if step % report == report - 1:
            print(f"{step + 1:>6}  " + "  ".join(f"{side.losses[-1]:>17.7f}" for side in sides), flush=True)


def compare(one: Side, other: Side) -> bool:
    """Says how far the losses part, and whether that is rounding."""
    apart = [abs(a - b) / max(abs(a), 1e-30) for a, b in zip(one.losses, other.losses, strict=True)]
    agree = max(apart) <= TOLERANCE
    print(
        f"losses of {len(apart):,} steps differ by at most {max(apart):.1e} relatively (first step {apart[0]:.1e}):"
        f" {'the same to float32 rounding' if agree else f'NOT the same, more than {TOLERANCE:g}'}"
    )
    return agree


@torch.no_grad()
def evaluate(x: Parameters, data: Dataset, most: int, seed: int) -> tuple[float, float]:
    """Filtered MRR and Hits@10 of the first `most` test triples of a shuffle (0: all), both ends counted."""
    order = torch.randperm(len(data.test), generator=torch.Generator().manual_seed(seed))
    triples = data.test[order[: most or None]]
    true: dict[tuple[str, int, int], list[int]] = defaultdict(list)
    for h, r, t in data.known.tolist():
        true["tail", r, h].append(t)
        true["head", r, t].append(h)
    ranks = []
    for relation in triples[:, 1].unique().tolist():
        projected = x["E"] @ x["P"][relation]
        for part in triples[triples[:, 1] == relation].split(256):
            heads, tails = part[:, 0], part[:, 2]
            shift = x["R"][relation]
            for end, asked, answer in (("tail", heads, tails), ("head", tails, heads)):
                # |h P + r - x P| for every tail x, |x P + r - t P| for every head x.
                origin = projected[asked] + (shift if end == "tail" else -shift)
                others = [true[end, relation, place] for place in asked.tolist()]
                ranks.append(_ranks(torch.cdist(origin, projected), answer, others))
    rank = torch.cat(ranks)
    return float((1 / rank).mean()), float((rank <= 10).double().mean())


def _ranks(distances: torch.Tensor, answer: torch.Tensor, known: list[list[int]]) -> torch.Tensor:
    """The rank of each row's answer among all entities but the others that are known to be true."""
    answer = answer.to(distances.device)
    own = distances.gather(1, answer[:, None])
    rows = torch.repeat_interleave(torch.arange(len(known)), torch.tensor([len(places) for places in known]))
    columns = torch.tensor([place for places in known for place in places])
    distances[rows.to(distances.device), columns.to(distances.device)] = torch.inf
    return 1 + (distances < own).sum(1).double() + (distances == own).sum(1).double() / 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
