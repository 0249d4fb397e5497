"""cuKE's Table V, measured: the peak of TransR's score on a device that has a batch's own rows and matrices.

Ours and eager PyTorch's both allocate from PyTorch, which keeps count; a batch's unique rows, its ids and the scores
are in both sums (§VII-D: "a copy of the data for the unique entities and relations").
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

import numpy as np

from benchmarks.paper import on_gpu
from benchmarks.paper.figure import Row, Table

MODEL = "transr"
Ids = Mapping[str, Any]
"""The head, relation and tail of a batch's triples."""
Told = Mapping[str, Mapping[int, float]]


def table(
    ids_of: Callable[[str, int], Ids], shown: Callable[[str], str], width: int, told: Told, pytorch: Mapping[int, float]
) -> Table:
    """By graph and batch the peaks of both. `told` are the published ones of ours, `pytorch` those of PyTorch."""
    kinds = ("ours", "eager", "share, %")
    columns = tuple(f"{kind} {size}" for size in pytorch for kind in kinds)
    attempts, rows = on_gpu.Attempts(), list[Row]()
    for data, published in told.items():
        ours: dict[str, float] = {}
        theirs: dict[str, float] = {}
        for size, value in published.items():
            names = [f"{kind} {size}" for kind in kinds]
            theirs |= dict(zip(names, (value, pytorch[size], 100 * value / pytorch[size]), strict=True))
            found = attempts.of(f"{data}, {size:,}", partial(peaks, ids_of(data, size), width))
            if found is not None:
                gib = found.ours / 2**30, found.eager / 2**30
                ours |= dict(zip(names, (*gib, 100 * found.ours / found.eager), strict=True))
        rows.append(Row(shown(data), ours, theirs))
    note = (
        f"TransR, {width} wide: the most bytes that PyTorch's allocator had given at once, with the batch's unique rows"
        " and matrices, its ids, and all that a score makes. Eager PyTorch copies three rows and a matrix a triple; the"
        " published numbers beside it are the paper's lower bound of that. Counted: table5."
    )
    return attempts.table(columns, rows, note, "GiB, and %")


@dataclass(frozen=True)
class Peaks:
    """Bytes at the peaks of both sides, and whether both scores were right."""

    ours: int
    eager: int
    right: bool
    errors: Mapping[str, str] = field(default_factory=dict)


def peaks(ids: Ids, width: int) -> Peaks:
    """Those of a batch's score."""
    import torch

    from benchmarks._gpu_peers import SCORES
    from benchmarks._gpu_rows import TOLERANCES

    entities, places = np.unique(np.concatenate([ids["head"], ids["tail"]]), return_inverse=True)
    relations, matrices = np.unique(ids["relation"], return_inverse=True)
    heads, tails = np.split(places, 2)
    shapes = {"E": (len(entities), width), "R": (len(relations), width), "P": (len(relations), width, width)}

    def given() -> tuple[dict[str, Any], list[Any]]:
        random = torch.Generator(on_gpu.DEVICE).manual_seed(0)
        tables = {name: torch.randn(shape, device=on_gpu.DEVICE, generator=random) for name, shape in shapes.items()}
        tables["P"] *= width**-0.5
        return tables, [torch.from_numpy(each).to(on_gpu.DEVICE) for each in (heads, matrices, tails)]

    def ours() -> Any:
        tables, index = given()
        return module(width)(*index, **tables)

    def eager() -> Any:
        tables, index = given()
        return SCORES[MODEL](tables, *index)

    with torch.no_grad():
        on_gpu.give_back()
        ours()  # makes what is made once
        (held, mine), (copied, theirs) = (peak_of(run) for run in (ours, eager))
        tables, index = given()
        errors = [error_of(scores, tables, index) for scores in (mine, theirs)]
    return Peaks(held, copied, max(errors) <= TOLERANCES["float32"])


def error_of(scores: Any, tables: Mapping[str, Any], index: Sequence[Any]) -> float:
    """How far the first scores are from those in float64."""
    import torch

    from benchmarks._gpu_peers import SCORES
    from benchmarks._gpu_rows import CHECKED, relative_error

    h, r, t = (each[:CHECKED] for each in index)
    own = {"E": tables["E"].double(), "R": tables["R"][r].double(), "P": tables["P"][r].double()}
    return relative_error(scores[:CHECKED], SCORES[MODEL](own, h, torch.arange(len(r), device=r.device), t))


def peak_of(run: Callable[[], Any]) -> tuple[int, Any]:
    """The bytes that a run has at most beyond what there was, and its result."""
    import torch

    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    result = run()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before, result


@cache
def module(width: int) -> Any:
    """TransR's score as a module that is given its tables."""
    import explorer
    from explorer.checkout import CHECKOUT

    text = (CHECKOUT / "examples" / "kge" / f"{MODEL}.emb").read_text()
    return explorer.compile(text, sizes={"D": width, "K": width}, on_demand=True).torch()
