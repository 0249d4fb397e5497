"""The cases of `gpu_check`: every example and model, at sizes, batches and options that its kernels differ by."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import explorer
from explorer.checkout import CHECKOUT
from explorer.compiler.schedule.gemm.strategy import LEAST_COLUMNS
from explorer.compiler.schedule.gemm.tiling import VECTOR

ZOO = CHECKOUT.parent / "shared" / "zoo" / "models"
"""Models from the literature that no example has, where they are beside the project."""
LAYER_SIZES = (1, 33, 64)
GRADIENT_SIZES = (1, 8, 33)
SIZES = (1, 33, 64, 128, 1000)
BATCHES = (1, 75)
NEGATIVES = ("none", "tail:5", "head:9")
POPULAR = ("spmm", "sddmm")
"""Ops that are checked with the option `popular` as well."""

SHARED_ROWS = """
dim D = 64, K = 64
score TwoProducts(h: entity, r: relation, t: entity):
    "the lanes read each other's elements of the row between the products"
    param E[entity, D]
    param P[relation, D, K]
    param Q[relation, K, D]
    return norm((E[h] @ P[r]) @ Q[r] - E[t], 1)
"""
MANY_REDUCTIONS = """
dim D = 64
score Reductions(h: entity, r: relation, t: entity):
    "a mean, a minimum, a maximum and functions of f32; those of the prelude too"
    param E[entity, D]
    param R[relation, D]
    param bias[entity]
    u = tanh(E[h] + R[r])
    v = gelu(E[t]) + sigmoid(R[r]) - leaky_relu(E[t], 0.2)
    return mean(u * v) + max(u) - min(v) + exp(-norm(u - v, 2)) + sin(bias[h]) * abs(bias[t]) - logsigmoid(bias[t])
"""
TWO_SETS = """
dim D = 64
score TwoSets(h: entity, r: relation, t: entity):
    "a table indexed by two sets, and a plain matrix"
    param E[entity, D]
    param W[relation, entity, D]
    param M[D, D]
    return dot(E[h] @ M, W[r, t])
"""
TYPES_OF_AN_EDGE = """
dim D = 64
layer TypesOfAnEdge(g: graph):
    "parameters of an edge's type with those of its ends, and of a node with its type"
    input x[node, D]
    param W[etype, D, D], mu[ntype, etype, ntype], v[ntype, etype, D], b[node, ntype]
    for e in g.edges():
        e["m"] = (e.src.x @ W[e.etype]) * mu[e.src.ntype, e.etype, e.dst.ntype] + v[e.dst.ntype, e.etype]
    for n in g.nodes():
        n["h"] = b[n, n.ntype] * sum(e["m"] for e in n.incoming_edges())
    return n["h"]
"""


@dataclass(frozen=True)
class Case:
    """A model text at a size (0: those that it says), a batch, and with options; with `positive` every drawn tensor is,
    as models need that take roots or logarithms."""

    text: str
    size: int
    batch: int
    options: dict[str, str]
    positive: bool = False


def for_architecture(arch: str, case: Case) -> Case:
    """The case compiled for a GPU."""
    return replace(case, options={**case.options, "arch": arch})


def all_cases(sizes: Sequence[int]) -> Iterator[Case]:
    """Every example and the three texts above, at every size, batch and option."""
    texts = [path.read_text() for path in sorted((CHECKOUT / "examples" / "kge").glob("*.emb"))]
    for text in (*texts, SHARED_ROWS, MANY_REDUCTIONS, TWO_SETS):
        for size in sizes:
            for batch in BATCHES:
                for negatives in NEGATIVES:
                    yield Case(text, size, batch, {"negatives": negatives})
            yield Case(text, size, BATCHES[-1], {"interchange": "false"})
            for negatives in NEGATIVES:
                yield Case(text, size, BATCHES[-1], {"inspect": "chunks", "negatives": negatives})
            yield from (Case(text, size, BATCHES[-1], {"precision": precision}) for precision in precisions(size))


def quick_cases() -> Iterator[Case]:
    """Those of size 33, and the products on tensor cores of 128 columns, which four warps may multiply together."""
    yield from all_cases((33,))
    yield from (case for case in all_cases((128,)) if "precision" in case.options)


def precisions(size: int) -> Sequence[str]:
    """The precisions of tensor cores, for sizes of which they multiply tiles."""
    return ("tf32x3", "tf32") if size >= LEAST_COLUMNS and size % VECTOR == 0 else ()


def layer_cases(sizes: Sequence[int]) -> Iterator[Case]:
    """Every layer of the examples at every size, under the settings of its passes; `batch` does not matter."""
    for path in sorted((CHECKOUT / "examples" / "rgnn").glob("*.emb")):
        for size in sizes:
            for reorder in ("true", "false"):
                for compact in ("true", "false"):
                    yield Case(path.read_text(), size, 0, {"reorder": reorder, "compact": compact})
            yield Case(path.read_text(), size, 0, {"aggregate": "false"})
            for precision in precisions(size):
                for aggregate in ("true", "false"):
                    yield Case(path.read_text(), size, 0, {"precision": precision, "aggregate": aggregate})


def op_cases(sizes: Sequence[int]) -> Iterator[Case]:
    """Every op of the examples at every size; a sum and a dot product of rows that an inspector marks, too."""
    for path in sorted((CHECKOUT / "examples" / "embedding").glob("*.emb")):
        if explorer.compile(path.read_text(), on_demand=True).family == "op":
            marked: list[dict[str, str]] = [{"popular": "true"}] if path.stem in POPULAR else []
            yield from (Case(path.read_text(), size, 0, options) for options in ({}, *marked) for size in sizes)


def gradient_cases(sizes: Sequence[int]) -> Iterator[Case]:
    """Every example with its backward pass, and tensors over several sets; scores with negatives too."""
    examples = (path.read_text() for path in sorted((CHECKOUT / "examples").glob("*/*.emb")))
    for text in (*examples, TWO_SETS, TYPES_OF_AN_EDGE):
        score = explorer.compile(text, on_demand=True).family == "score"
        inspections: tuple[dict[str, str], ...] = ({}, {"inspect": "chunks"})[: 1 + score]
        for size in sizes:
            for kind in NEGATIVES[: 1 + score]:
                for inspection in inspections:
                    yield Case(text, size, BATCHES[-1], {"grad": "true", "negatives": kind, **inspection})


def model_cases(folder: Path) -> Iterator[Case]:
    """Every model of a folder at its own sizes, forward and with its backward pass; scores with negatives too."""
    for path in sorted(folder.glob("*.emb")):
        yield from cases_of(path.read_text())


def cases_of(text: str) -> Iterator[Case]:
    """The cases of one such model."""
    compilation = explorer.compile(text, on_demand=True)
    own = ("own:1", "own:5") if compilation.options.negatives else NEGATIVES[:2]
    for kind in own if compilation.family == "score" else NEGATIVES[:1]:
        for grad in ("false", "true"):
            yield Case(text, 0, BATCHES[-1], {"negatives": kind, "grad": grad})


def sizes_of(case: Case) -> dict[str, int]:
    """The first dimension at the case's size, the others larger each, so that none are equal: by 4 where vectors of 4
    divide the first, and so all; likewise by 128, columns of a tile."""
    if not case.size:
        return {}
    step = next(step for step in (128, 4, 3) if step == 3 or case.size % step == 0)
    return {name: case.size + step * place for place, name in enumerate(_dimensions(case.text))}


@cache
def _dimensions(text: str) -> tuple[str, ...]:
    """The names of a text's dimensions."""
    return tuple(explorer.compile(text, on_demand=True).sizes)
