"""Ember's Figure 8: where the time of whole models goes, their lookups and the networks between them, by simulation.

A model is its parts one after another. Networks run on the core alone, with and without an access unit; lookups run on
either. Beside GPUs, as the paper has them, nothing is measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from benchmarks import dae
from benchmarks.paper.figure import Row, Table
from explorer.checkout import CHECKOUT
from explorer.machine.parameters import MachineParameters
from explorer.runtime.data.bags import RECOMMENDATIONS
from explorer.runtime.run import RunRequest
from explorer.runtime.runs.simulate import VECTORISED

EMBEDDING = CHECKOUT / "examples" / "embedding"
BAGS, PRODUCT = ((EMBEDDING / f"{name}.emb").read_text() for name in ("sls", "spmm"))
RECOMMENDING = """dim D = 32, F = 13, H = 64, M = 2 * D
op Recommending(b: bag of row):
    input dense[bag, F], sums[bag, D]
    param B1[F, H], B2[H, D], U[M, H], u[H]
    x = relu(relu(dense[b] @ B1) @ B2)
    return sigmoid(dot(relu(concat([x, sums[b]]) @ U), u) + dot(x, sums[b]))
"""
"""DLRM's networks: of what is dense, and of that with the sum of a bag, with their product."""
LAYER = """dim F = 128, G = 256
op Layer(A: csr[row, col]):
    input h[row, F]
    param W[F, G]
    for i in A.rows():
        i["y"] = relu(h[i] @ W)
    return i["y"]
"""
GRAPH, DIVIDED = "arxiv/20", 20
"""A sample of rows, and what the caches of its lookups are divided by, as in the suite `dae`."""


@dataclass(frozen=True)
class Part:
    """One step of a model: a text at sizes; `looks_up` or computes."""

    text: str
    sizes: Mapping[str, int]
    looks_up: bool


@dataclass(frozen=True)
class Model:
    """A model's parts in order, on data whose caches are those of a sample of 1 in `divided`."""

    name: str
    data: str
    parts: tuple[Part, ...]
    divided: int = 1


def recommendation(name: str) -> Model:
    """Bags of two tables, and the networks of each."""
    sizes = {"D": RECOMMENDATIONS[name].elements}
    return Model(f"DLRM, {name}:L0", f"{name}:L0", (Part(BAGS, sizes, True), Part(RECOMMENDING, sizes, False)))


def graph_network(*widths: int) -> Model:
    """A GCN: of each layer the sums of neighbours' rows, and their product with a matrix."""
    steps = ((Part(PRODUCT, {"D": f}, True), Part(LAYER, {"F": f, "G": g}, False)) for f, g in pairwise(widths))
    return Model("GCN, two layers", GRAPH, tuple(part for step in steps for part in step), DIVIDED)


MODELS = (*map(recommendation, RECOMMENDATIONS), graph_network(128, 256, 40))
COLUMNS = ("lookups, core", "networks, core", "lookups, access unit", "share, core", "share, access unit", "whole, x")


@dataclass(frozen=True)
class Simulated:
    """A part's cycles on the core alone and, where it looks up, with an access unit; whether its results are right."""

    alone: float
    decoupled: float
    right: bool


def simulate(part: Part, model: Model) -> Simulated:
    """A part of a model on its data. A network has its weights' caches whole, however few rows are sampled."""
    divided = model.divided if part.looks_up else 1
    parameters = dae.Case("", "", model.data, divided=divided).parameters if divided > 1 else MachineParameters()
    machine = dae.OnMachine(RunRequest(text=part.text, on="dae", data=model.data, sizes=part.sizes), parameters)
    alone = float(machine.account(VECTORISED, alone=True)["core_alone"]["cycles"])
    decoupled = float(machine.account({"opt": dae.LEVELS[-1]})["cycles"]) if part.looks_up else alone
    return Simulated(alone, decoupled, machine.right)


def figure_8(models: tuple[Model, ...] = MODELS) -> Table:
    """By model the kilocycles of its parts, what share of them are lookups, and what the access unit gains of all."""
    rows, right = [], True
    for model in models:
        found = [(part.looks_up, simulate(part, model)) for part in model.parts]
        lookups = sum(each.alone for looks_up, each in found if looks_up) / 1e3
        networks = sum(each.alone for looks_up, each in found if not looks_up) / 1e3
        unit = sum(each.decoupled for looks_up, each in found if looks_up) / 1e3
        shares = (100 * lookups / (lookups + networks), 100 * unit / (unit + networks))
        gained = (lookups + networks) / (unit + networks)
        rows.append(Row(model.name, dict(zip(COLUMNS, (lookups, networks, unit, *shares, gained), strict=True))))
        right &= all(each.right for _, each in found)
    note = (
        "Assumed core, not comparable with the paper's bars, which are of a T4, an H100 and several cores. One core, of"
        " 16 lanes; parts run one after another, none of the network behind the next lookups. DLRM: a table's segment"
        f" has networks of its own, 13 to 64 to D, and 2 D to 64 to 1. GCN: {GRAPH}, 128 to 256 to 40."
    )
    return Table("simulated", COLUMNS, rows, note, "kilocycles; shares of lookups, %; speed", ",.1f", right=right)
