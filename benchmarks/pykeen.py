"""A training step of PyKEEN's own beside the same step by a module of ours, on triples of FB15k-237's sizes:
`explorer bench pykeen`.

Of a model with PyKEEN's usual dimensions, a batch of triples with a corrupted one for each, its margin ranking loss,
all gradients, Adam and the model's constraints. Three sides take the very same batches, from the same parameters:
the loss that PyKEEN's training loop makes of a batch; the same with the scores of `explorer.trace` in the place of the
model's; and a text that has the loss, by `c.torch()`. On a GPU a fourth captures the whole step with that text, Adam
and constraints with it, into one CUDA graph, as PyTorch describes it for steps whose shapes stay: its ids are not
looked at. Batches are drawn before, by PyKEEN's own sampler. Each side takes several steps at a turn, as a training
does: what is timed is one of them. Status 1 where their losses part.
"""

from __future__ import annotations

import argparse
import copy
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from benchmarks.timing.host import heading, provenance, summary

BY_NAME_ONLY = "it needs PyKEEN"
BATCH, STEPS, TURNS = 1_024, 20, 11
RATE = 1e-3
TOLERANCE = 1e-5
"""How far, relatively, a loss may be from PyKEEN's after so many steps as are in a turn."""
SIDES = ("PyKEEN", "traced scores", "a text with the loss", "the text, one CUDA graph")
GRAPHED = SIDES[-1]


@dataclass(frozen=True)
class Case:
    """A model of PyKEEN's: what it is made with, its loss as a text, and by tensor of the text where the model has it:
    of entities or relations, and of which of their representations."""

    model: str
    arguments: Mapping[str, Any]
    text: str
    tensors: Mapping[str, tuple[str, int]]


ENTITY, RELATION = ("entity_representations", 0), ("relation_representations", 0)
ROWS = {"E": ENTITY, "R": RELATION}
HEADER = "(h: entity, r: relation, t: entity, a: entity, b: entity):"
"""A triple, and the ends of the corrupted one."""
CASES = (
    Case(
        "TransE",
        {},
        f"""\
dim D = 50
score TransE{HEADER}
    param E[entity, D], R[relation, D]
    return relu(1 + norm(E[h] + R[r] - E[t], 1) - norm(E[a] + R[r] - E[b], 1))
""",
        ROWS,
    ),
    Case(
        "DistMult",
        {"regularizer": None},
        f"""\
dim D = 50
score DistMult{HEADER}
    param E[entity, D], R[relation, D]
    return relu(1 + sum(E[a] * R[r] * E[b]) - sum(E[h] * R[r] * E[t]))
""",
        ROWS,
    ),
    Case(
        "ComplEx",
        {"regularizer": None, "loss": "marginranking"},
        f"""\
dim D = 200
def hermitian(x, r, y):
    real = x[::2] * r[::2] - x[1::2] * r[1::2]
    imaginary = x[::2] * r[1::2] + x[1::2] * r[::2]
    return dot(real, y[::2]) + dot(imaginary, y[1::2])
score ComplEx{HEADER}
    param E[entity, 2 * D], R[relation, 2 * D]
    return relu(1 + hermitian(E[a], R[r], E[b]) - hermitian(E[h], R[r], E[t]))
""",
        ROWS,
    ),
    Case(
        "RotatE",
        {},
        f"""\
dim D = 200
def far(x, r, y):
    real = x[::2] * r[::2] - x[1::2] * r[1::2] - y[::2]
    imaginary = x[::2] * r[1::2] + x[1::2] * r[::2] - y[1::2]
    return sqrt(dot(real, real) + dot(imaginary, imaginary))
score RotatE{HEADER}
    param E[entity, 2 * D], R[relation, 2 * D]
    return relu(1 + far(E[h], R[r], E[t]) - far(E[a], R[r], E[b]))
""",
        ROWS,
    ),
    Case(
        "TransR",
        {},
        f"""\
dim D = 50, K = 30
def clamped(x):
    n = norm(x, 2)
    return where(n < 1, x, x / n)
score TransR{HEADER}
    param E[entity, D], R[relation, K], P[relation, D, K]
    near = norm(clamped(E[h] @ P[r]) + R[r] - clamped(E[t] @ P[r]), 1)
    return relu(1 + near - norm(clamped(E[a] @ P[r]) + R[r] - clamped(E[b] @ P[r]), 1))
""",
        {**ROWS, "P": ("relation_representations", 1)},
    ),
    Case(
        "RESCAL",
        {"regularizer": "no", "regularizer_kwargs": {"weight": 0.0}},
        f"""\
dim D = 50
score RESCAL{HEADER}
    param E[entity, D], M[relation, D, D]
    return relu(1 + dot(E[a] @ M[r], E[b]) - dot(E[h] @ M[r], E[t]))
""",
        {"E": ENTITY, "M": RELATION},
    ),
)


def main(argv: Sequence[str]) -> int:
    """Prints a line a model, or with --json one object."""
    parser = argparse.ArgumentParser(prog="explorer bench pykeen", description=__doc__)
    parser.add_argument("models", nargs="*", metavar="MODEL", help=f"of {', '.join(case.model for case in CASES)}")
    parser.add_argument("--data", default="FB15k-237", help="a preset or a file of triples; default FB15k-237")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"), help="where it runs; default cpu")
    parser.add_argument("--turns", type=int, default=TURNS, help=f"of {STEPS} steps, of each side; default {TURNS}")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args(argv)
    if unknown := set(arguments.models) - {case.model for case in CASES}:
        parser.error(f"no model {', '.join(sorted(unknown))}: there are {', '.join(case.model for case in CASES)}")
    try:
        import pykeen.models  # noqa: F401
    except ImportError as error:
        print(f"pykeen: PyKEEN is not installed here ({error})", file=sys.stderr)
        return 2
    chosen = [case for case in CASES if case.model in (arguments.models or {case.model})]
    rows = [measured(case, arguments.data, arguments.device, arguments.turns) for case in chosen]
    figures = {**provenance(), "data": arguments.data, "batch": BATCH, "device_type": arguments.device, "rows": rows}
    print(json.dumps(figures) if arguments.json else table(figures))
    return 0 if all(row["same"] for row in rows) else 1


def measured(case: Case, data: str, device: str, turns: int) -> dict[str, Any]:
    """The times of a model's step by side, in ms, where all have the same losses."""
    import torch

    model, loop, batches = _of_pykeen(case, data, device)
    steps, refused = dict[str, Step](), dict[str, str]()
    for name, make in zip(SIDES, LOSSES, strict=False):
        try:
            steps[name] = _step_of(make, case, model, loop, batches)
        except ValueError as error:  # what cannot be traced
            refused[name] = str(error)
    if device == "cuda":
        steps[GRAPHED] = _as_one_graph(case, model, loop, batches)
    # A CUDA graph writes each loss where the last one was.
    losses = {name: torch.stack([step(batch).clone() for batch in batches]).tolist() for name, step in steps.items()}
    apart = max(_apart(losses[name], losses[SIDES[0]]) for name in losses if name != SIDES[0])
    row = {"model": case.model, "same": apart <= TOLERANCE, "losses_differ_by": apart, "refused": refused}
    return {**row, "ms": _timed(steps, batches, device, turns)} if row["same"] else row


def _apart(losses: Sequence[float], wanted: Sequence[float]) -> float:
    return max(abs(one - other) / abs(other) for one, other in zip(losses, wanted, strict=True))


Batch = Mapping[str, Any]
LossOf = Step = Callable[[Batch], Any]
"""What makes a batch's loss, and what takes a step by it and returns it."""


def _of_pykeen(case: Case, data: str, device: str) -> tuple[Any, Any, list[Batch]]:
    """A model, its training loop, and batches that the loop's own sampler drew."""
    import torch
    from pykeen import models, training, triples

    from explorer.runtime.data.triples import load_triples

    known = load_triples(data)
    ids = torch.stack([torch.from_numpy(each).long() for each in (known.h, known.r, known.t)], 1)
    factory = triples.CoreTriplesFactory(ids, known.num_entities, known.num_relations)
    torch.manual_seed(0)
    model = getattr(models, case.model)(triples_factory=factory, random_seed=0, **case.arguments).to(device)
    loop = training.SLCWATrainingLoop(model=model, triples_factory=factory, optimizer=_adam(model))
    drawn = loop._create_training_data_loader(factory, sampler=None, batch_size=BATCH, drop_last=True)
    each = iter(drawn)
    batches = [{name: value.to(device) for name, value in next(each).items()} for _ in range(STEPS)]
    return model, loop, batches


def _adam(model: Any, **how: Any) -> Any:
    import torch

    return torch.optim.Adam(model.parameters(), lr=RATE, **how)


def _step_of(make: Callable[..., LossOf], case: Case, model: Any, loop: Any, batches: Sequence[Batch]) -> Step:
    """A side's step, which returns the loss: of a copy of the model, with an optimiser of its own."""
    own = copy.deepcopy(model).train()
    optimizer = _adam(own)
    loss_of = make(case, own, loop, batches)
    return lambda batch: _stepped(own, optimizer, loss_of(batch))


def _stepped(model: Any, optimizer: Any, loss: Any) -> Any:
    """The loss, once its gradients are taken, and the parameters moved by them and put under their constraints."""
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    model.post_parameter_update()
    return loss.detach().reshape(())


def _as_pykeen(_: Case, model: Any, loop: Any, __: Sequence[Batch]) -> LossOf:
    """The loss as the training loop makes it."""
    return lambda batch: loop._process_batch_static(model, loop.loss, None, batch, None, None)


def _of_traced_scores(case: Case, model: Any, loop: Any, batches: Sequence[Batch]) -> LossOf:
    """The same, where the model's scores are those of its own code, traced."""
    import torch

    import explorer

    class Scored(torch.nn.Module):  # type: ignore[misc]
        """The model, asked as the training loop asks it."""

        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, triples: Any) -> Any:
            return self.model.score_hrt(triples).squeeze(-1)

    example = Scored().cpu()
    device = batches[0]["positives"].device
    score = explorer.trace(example, batches[0]["positives"].cpu()).module().to(device)
    model.to(device)
    model.score_hrt = lambda triples, **_: score(triples).unsqueeze(-1)
    return _as_pykeen(case, model, loop, batches)


def _by_text(case: Case, model: Any, _: Any, __: Sequence[Batch], *, check_indices: bool = True) -> LossOf:
    """The loss as the text has it, of the model's own tensors."""
    import explorer

    module = explorer.compile(case.text, on_demand=True).torch(check_indices=check_indices)
    weights = {name: getattr(model, kind)[place] for name, (kind, place) in case.tensors.items()}

    def loss(batch: Batch) -> Any:
        h, r, t = batch["positives"].unbind(-1)
        a, _, b = batch["negatives"].view(-1, 3).unbind(-1)
        given = {name: each._embeddings.weight.view(each.max_id, *_extents(each)) for name, each in weights.items()}
        return module(h, r, t, a, b, **given).mean()

    return loss


def _extents(representation: Any) -> tuple[int, ...]:
    """Of a row, complex numbers as two reals each."""
    *others, last = representation.shape
    return (*others, last * 2) if representation.is_complex else (*others, last)


def _as_one_graph(case: Case, model: Any, _: Any, batches: Sequence[Batch]) -> Step:
    """The same step, whose kernels are all launched at once."""
    import torch

    own = copy.deepcopy(model).train()
    optimizer = _adam(own, capturable=True)
    loss_of = _by_text(case, own, None, batches, check_indices=False)
    given = {name: each.clone() for name, each in batches[0].items()}
    parameters = list(own.parameters())
    homes, before = [each.data for each in parameters], [each.data.clone() for each in parameters]

    def step() -> Any:
        loss = _stepped(own, optimizer, loss_of(given))
        # PyKEEN's constraints make other tensors, and a graph reads those that it was captured with.
        for parameter, home in zip(parameters, homes, strict=True):
            if parameter.data_ptr() != home.data_ptr():
                home.copy_(parameter.data)
                parameter.data = home
        return loss

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):  # kernels are compiled and Adam's state is made before anything is captured
        for _ in range(2):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    optimizer.zero_grad()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = step()
    for home, first in zip(homes, before, strict=True):
        home.copy_(first)
    for state in optimizer.state.values():
        for each in state.values():
            each.zero_()

    def replayed(batch: Batch, _: Any = step) -> Any:  # which holds what the graph reads, writes and launches
        for name, each in batch.items():
            given[name].copy_(each)
        graph.replay()
        return loss

    return replayed


LOSSES = (_as_pykeen, _of_traced_scores, _by_text)
"""In the order of `SIDES`, but for the last."""


def _timed(steps: Mapping[str, Step], batches: Sequence[Batch], device: str, turns: int) -> dict[str, Any]:
    """Of each side the time of a step in its turns, in ms, the sides one after another."""
    import torch

    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    samples: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(turns):
        for name, step in steps.items():
            wait()
            begin = perf_counter()
            for batch in batches:
                step(batch)
            wait()
            samples[name].append((perf_counter() - begin) * 1e3 / len(batches))
    return {name: summary(each) for name, each in samples.items()}


def table(figures: Mapping[str, Any]) -> str:
    """The figures for people."""
    facts = {name: figures[name] for name in ("source", "device", "date")}
    lines = [
        f"{heading(facts)}; {figures['data']}; a step of training, Adam and constraints with it, ms",
        f"{figures['batch']:,} triples and as many corrupted ones",
        "",
        f"{'model':11}" + "".join(f"{name:>26}" for name in SIDES) + f"{'of PyKEEN':>18}",
    ]
    for row in figures["rows"]:
        if not row["same"]:
            lines.append(f"{row['model']:11}losses differ by {row['losses_differ_by']:.1e}")
            continue
        medians = {name: row["ms"][name]["median"] for name in SIDES if name in row["ms"]}
        shown = "".join(f"{medians[name]:>26.2f}" if name in medians else f"{'-':>26}" for name in SIDES)
        shares = ", ".join(f"{medians[name] / medians[SIDES[0]]:.2f}" if name in medians else "-" for name in SIDES[1:])
        lines.append(f"{row['model']:11}{shown}{shares:>18}")
        lines += [f"{'':11}{name}: {reason}" for name, reason in row["refused"].items()]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
