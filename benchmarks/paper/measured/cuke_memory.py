"""cuKE's Table V, measured: the peak of TransR's score on a device that has a batch's own rows and matrices.

Ours and eager PyTorch's both allocate from PyTorch, which keeps count; a batch's unique rows, its ids and the scores
are in both sums (§VII-D: "a copy of the data for the unique entities and relations").
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from benchmarks._gpu_timing import peak_of
from benchmarks.paper.figure import Row, Table
from benchmarks.paper.measured import on_gpu
from benchmarks.paper.measured.rows import MeasuredRows

MODEL = "transr"
Ids = Mapping[str, Any]
"""The head, relation and tail of a batch's triples."""
Told = Mapping[str, Mapping[int, float]]


def table(
    ids_of: Callable[[str, int], Ids], shown: Callable[[str], str], width: int, told: Told, pytorch: Mapping[int, float]
) -> Table:
    """By graph and batch the peaks of both. `told` are the published ones of ours, `pytorch` those of PyTorch."""
    columns = ("ours", "eager", "share, %")
    found = MeasuredRows()

    def make(label: str, data: str, size: int) -> tuple[list[Row], bool]:
        ours, eager, right = peaks(ids_of(data, size), width)
        return [Row(label, beside(ours / 2**30, eager / 2**30), beside(told[data][size], pytorch[size]))], right

    def beside(ours: float, eager: float) -> dict[str, float]:
        return dict(zip(columns, (ours, eager, 100 * ours / eager), strict=True))

    for data, published in told.items():
        for size in published:
            label = f"{shown(data)}, {size:,}"
            found.add(label, partial(make, label, data, size))
    note = (
        f"TransR, {width} wide: the most bytes that PyTorch's allocator had given at once, with the batch's unique rows"
        " and matrices, its ids, and all that a score makes. Eager PyTorch copies three rows and a matrix a triple; the"
        " published numbers beside it are the paper's lower bound of that. Counted: table5."
    )
    return found.table(columns, note, "GiB, and %")


def peaks(ids: Ids, width: int) -> tuple[int, int, bool]:
    """Bytes at the peaks of a batch's score, ours and eager, and whether both scores are right."""
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
        return on_gpu.module(f"kge/{MODEL}", width)(*index, **tables)

    def eager() -> Any:
        tables, index = given()
        return SCORES[MODEL](tables, *index)

    with torch.no_grad():
        on_gpu.give_back()
        ours()  # makes what is made once
        (held, mine), (copied, theirs) = (peak_of(run) for run in (ours, eager))
        tables, index = given()
        errors = [error_of(scores, tables, index) for scores in (mine, theirs)]
    return held, copied, max(errors) <= TOLERANCES["float32"]


def error_of(scores: Any, tables: Mapping[str, Any], index: Sequence[Any]) -> float:
    """How far the first scores are from those in float64."""
    import torch

    from benchmarks._gpu_peers import SCORES
    from benchmarks._gpu_rows import CHECKED, relative_error

    h, r, t = (each[:CHECKED] for each in index)
    own = {"E": tables["E"].double(), "R": tables["R"][r].double(), "P": tables["P"][r].double()}
    return relative_error(scores[:CHECKED], SCORES[MODEL](own, h, torch.arange(len(r), device=r.device), t))
