"""The shapes that `benchmarks.tuned` measures: inputs that no default was made on, and rows of `bench gpu`."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.tuning.spaces import ZIPF, Input, Made


@dataclass(frozen=True)
class Shape:
    """An example on an input. A `row` is one of `bench gpu`'s, by the name that it has there."""

    model: str
    data: Input
    row: str = ""

    @property
    def name(self) -> str:
        """What its line is called."""
        return self.row or f"{self.model.partition('/')[2]} {self.data.name}"


KNOWN, MANY = 16_384, 1_000_000
"""Rows that bags pick from: of a table that the L2 cache holds, and of one that it does not."""


def _lists(model: str, lists: int, mean: int, size: int) -> Shape:
    """A matrix or graph of so many rows, whose lengths and columns follow a power law."""
    return Shape(f"embedding/{model}", Input(f"{lists}x{mean}~ D={size}", Made(lists, mean, lists, ZIPF), {"D": size}))


def _bags(model: str, bags: int, length: int, size: int, picked: int = MANY, row: str = "") -> Shape:
    return Shape(f"embedding/{model}", Input(f"{bags}x{length} D={size}", Made(bags, length, picked), {"D": size}), row)


def _graph(model: str, size: int, row: str = "") -> Shape:
    return Shape(f"embedding/{model}", Input(f"arxiv D={size}", "arxiv", {"D": size}), row)


def _triples(model: str, data: str, batch: int, row: str = "", **sizes: int) -> Shape:
    told = ",".join(f"{name}={size}" for name, size in sizes.items())
    return Shape(model, Input(f"{data} {told} batch {batch}", data, sizes, batch), row)


SHAPES: tuple[Shape, ...] = (
    _lists("sddmm", 20_000, 200, 256),
    _lists("sddmm", 40_000, 100, 16),
    _lists("spmm", 20_000, 25, 602),
    _lists("spmm", 40_000, 100, 41),
    _lists("spmm_mean", 20_000, 500, 256),
    _graph("sddmm", 8),
    _graph("spmm", 16),
    _lists("spmm", 100_000, 10, 8),
    _lists("mp", 100_000, 10, 8),
    _lists("spmm_max", 200_000, 2, 48),
    _bags("sls", 131_072, 1, 48),
    _bags("sls", 131_072, 4, 16),
    _triples("kge/transe_l2", "FB15k-237", 131_072, D=48),
    _bags("sls", 1_024, 2, 256),
    _triples("kge/transe_l2", "FB15k-237", 1_024, D=602),
    _bags("sls_mean", 65_536, 3, 41),
    _triples("kge/distmult", "WN18", 65_536, D=16),
    _triples("embedding/kg_lookup", "FB15k-237", 32_768, D=41),
    _triples("kge/transh", "FB15k-237", 16_384, D=256),
    _triples("kge/transr", "FB15k-237", 8_192, D=48, K=48),
)
"""The 20 that issue 17 asks to be tuned."""
ROWS: tuple[Shape, ...] = (
    _bags("sls", 64 * 132, 64, 32, KNOWN, row="SLS RM1"),
    _bags("sls", 16 * 132, 256, 128, KNOWN, row="SLS RM3"),
    _graph("spmm", 128, row="SpMM arxiv"),
    _triples("kge/transe_l2", "FB15k-237", 16_384, row="TransE", D=512),
    _triples("kge/transr", "FB15k-237", 16_384, row="TransR", D=512, K=512),
)
"""Five rows of `bench gpu`, on inputs of those sizes; arxiv's edges are generated here as there."""
