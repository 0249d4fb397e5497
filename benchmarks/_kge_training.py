"""A training step of a score's module beside the same step in eager PyTorch, on the CPU: `explorer bench kge --train`.

A step is the score of a batch of FB15k-237's triples, the mean of its softplus, and all gradients; no optimiser, which
takes both sides the same. Gradients are held against eager's in float64 first.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from benchmarks._measuring import heading, interleave, summary

BATCH = 1_024
SIZES = (32, 64)
CANDIDATES = 17
"""Of a triple, where a step has some: the true tail and sixteen corrupted ones."""
TOLERANCE = 1e-4
"""How far a gradient may be from eager's in float64, of its largest element: rounding of up to 17,408 terms."""


def rows(cases: tuple[tuple[str, Callable[[Any], Any]], ...], data: str, repeat: int) -> list[dict[str, Any]]:
    """The table's rows: models by name with their expressions in PyTorch, and TransR with candidates."""
    found = [_row(name, eager, size, 0, data, repeat) for name, eager in cases for size in SIZES]
    return found + [_row("transr", _transr_of_candidates, size, CANDIDATES, data, repeat) for size in SIZES]


def _transr_of_candidates(x: Any) -> Any:
    return ((x.E[x.h][:, None] - x.E[x.t]).bmm(x.P[x.r]) + x.R[x.r][:, None]).norm(dim=-1)


def _row(name: str, eager: Callable[[Any], Any], size: int, candidates: int, data: str, repeat: int) -> dict[str, Any]:
    import torch
    from torch.nn.functional import softplus

    import explorer
    from benchmarks.kge import CHECKOUT
    from explorer.runtime.data.triples import load_triples
    from explorer.runtime.targets.cpu import threads

    torch.set_num_threads(threads())
    text = (CHECKOUT / "examples" / "kge" / f"{name}.emb").read_text()
    sizes = dict.fromkeys(explorer.compile(text, on_demand=True).sizes, size)
    options = {"negatives": f"tail:{candidates}"} if candidates else {}
    triples, random = load_triples(data), torch.Generator().manual_seed(0)
    module = explorer.compile(text, sizes=sizes, options=options, on_demand=True).torch(
        entity=triples.num_entities, relation=triples.num_relations
    )
    picked = torch.randint(len(triples.h), (BATCH,), generator=random)
    h, r, t = (torch.from_numpy(ids)[picked].long() for ids in (triples.h, triples.r, triples.t))
    if candidates:
        t = torch.randint(triples.num_entities, (BATCH, candidates), generator=random)
    parameters = dict(module.named_parameters())
    ids = {"h": h, "r": r, "t": t}

    def step(score: Callable[[], Any], leaves: dict[str, Any]) -> dict[str, Any]:
        for parameter in leaves.values():
            parameter.grad = None
        softplus(score()).mean().backward()
        return {each: parameter.grad for each, parameter in leaves.items()}

    wide = {each: parameter.detach().double().requires_grad_() for each, parameter in parameters.items()}
    want = step(lambda: eager(SimpleNamespace(**wide, **ids)), wide)
    sides: dict[str, Callable[[], object]] = {
        "explorer": lambda: step(lambda: module(h, r, t), parameters),
        "eager": lambda: step(lambda: eager(SimpleNamespace(**parameters, **ids)), parameters),
    }
    got = step(lambda: module(h, r, t), parameters)
    error = max(float((got[each] - want[each]).abs().max() / want[each].abs().max()) for each in want)
    row = {"model": name, "size": size, "candidates": max(1, candidates), "gradients_differ_by": error}
    row["matches_reference"] = error <= TOLERANCE
    if not row["matches_reference"]:
        return row
    times = {side: summary(samples) for side, samples in interleave(sides, repeat).items()}
    row |= {f"{side}_ms": times[side] for side in sides}
    return row | {"ratio": round(times["explorer"]["median"] / times["eager"]["median"], 2)}


def table(figures: dict[str, Any]) -> str:
    """The figures for people."""
    lines = [
        f"{heading(figures)}; {figures['data']}; steps of {BATCH:,} triples beside {figures['peer']}",
        "",
        f"{'model':11}{'size':>5}{'candidates':>12}{'explorer ms':>13}{'eager ms':>11}{'of eager':>10}",
    ]
    for row in figures["cases"]:
        start = f"{row['model']:11}{row['size']:>5}{row['candidates']:>12}"
        if not row["matches_reference"]:
            lines.append(f"{start}  wrong: gradients differ by {row['gradients_differ_by']:.1e} of the largest")
            continue
        times = f"{row['explorer_ms']['median']:>13.2f}{row['eager_ms']['median']:>11.2f}"
        lines.append(f"{start}{times}{row['ratio']:>9.2f}x")
    return "\n".join(lines)
