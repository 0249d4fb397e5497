"""Multiply-adds of products with a matrix that rows share, of kernels that no tile does: counted in the nests.

A product's matrix is what one operand of a sum of products is made of, if that needs the loop that the sum is over and
one more of the loops with a known extent around it, and what it needs of rows is at most which matrix it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from typing import Any
from unittest import mock

import explorer
from explorer.compiler.counts import ASSUMED
from explorer.compiler.ir import loops
from explorer.compiler.schedule import program
from explorer.compiler.schedule.program import _Scheduling
from explorer.compiler.schedule.strategies import (
    CUT_PRODUCTS,
    GEMM,
    GEMM_OF_SUMS,
    OUTER_PRODUCTS,
    SPLIT_ROWS,
    SPLIT_SUMS,
)

TILED = frozenset({GEMM, GEMM_OF_SUMS, OUTER_PRODUCTS, CUT_PRODUCTS, SPLIT_SUMS, SPLIT_ROWS})
"""Strategies that do products by tiles, or leave them to the parts that they make of a nest."""

BATCH = 16_384
"""Iterations of a loop over what no graph counts: a batch."""
DEGREE = ASSUMED["edge"] // ASSUMED["node"]
"""Iterations of a loop over a segment."""


@dataclass(frozen=True)
class Untiled:
    """A product of a nest that became no tiles: the strategy that took the nest, its matrix, with how many columns and
    how deep that is, the multiply-adds of one row, and how many rows there are."""

    kernel: str
    strategy: str
    matrix: str
    columns: int
    depth: int
    each: int
    rows: int

    @property
    def work(self) -> int:
        """Multiply-adds in all."""
        return self.each * self.rows

    def __str__(self) -> str:
        return f"{self.kernel} {self.strategy}: {self.rows:,} x {self.each:,} with {self.matrix}"


def untiled(text: str, sizes: Mapping[str, int] | None = None, **options: Any) -> tuple[Untiled, ...]:
    """What a model's products have outside tiles."""
    with _nests() as taken:
        compilation = explorer.compile(text, sizes=dict(sizes or {}), options=options, on_demand=True)
        stage = compilation.stages["kernels"]
        assert stage.available, stage.reason
    return tuple(product for nest, strategy in taken for product in products_of(nest, strategy))


@contextmanager
def _nests() -> Iterator[list[tuple[loops.Kernel, str]]]:
    """The nests that strategies other than tiles take while the context lasts."""
    taken: list[tuple[loops.Kernel, str]] = []
    original = program._each_scheduled

    attempt = _Scheduling._attempt

    def noting(self: _Scheduling, strategy: str, kernel: loops.Kernel, wanted: bool) -> Any:
        steps = attempt(self, strategy, kernel, wanted)
        if steps and strategy not in TILED:
            taken.append((kernel, strategy))
        return steps

    def each(*arguments: Any) -> Any:
        taken.clear()
        return original(*arguments)

    with mock.patch.object(_Scheduling, "_attempt", noting), mock.patch.object(program, "_each_scheduled", each):
        yield taken


def products_of(nest: loops.Kernel, strategy: str) -> Iterator[Untiled]:
    """The products of a nest with matrices that rows share."""
    yield from _Count(nest, strategy).body(nest.body, ())


class _Count:
    """Follows which loops each name of a nest needs: `known` by name, of rows what was stored in them."""

    def __init__(self, nest: loops.Kernel, strategy: str) -> None:
        self.nest, self.strategy = nest, strategy
        self.known: dict[str, frozenset[str]] = {}
        self.index = {buffer.name for buffer in nest.buffers if buffer.type == "i32"}
        self.source: dict[str, str] = {}
        self.chosen: set[str] = set()
        self.outside: dict[str, frozenset[str]] = {}
        self.extents = {buffer.name: buffer.extents for buffer in nest.buffers}

    def body(self, body: tuple[loops.Statement, ...], around: tuple[loops.For, ...]) -> Iterator[Untiled]:
        """The products of statements inside some loops."""
        for statement in body:
            if isinstance(statement, loops.For):
                bounds = self._needs(statement.lower, statement.extent)
                self.known[statement.variable] = frozenset({statement.variable}) | bounds
                yield from self.body(statement.body, (*around, statement))
                continue
            needs = self._needs(*loops.reads_of(statement))
            match statement:
                case loops.Load(buffer=buffer) if buffer in self.index:
                    self.known[statement.result] = needs
                    self.chosen.add(statement.result)  # maybe which matrix it is
                case loops.Load(buffer=buffer, indices=(first, *rest)) if self._shared(buffer) and first in self.chosen:
                    self.known[statement.result] = self._needs(*rest)
                    self.source[statement.result] = buffer
                case loops.Load() | loops.Compute() | loops.Index():
                    self.known[statement.result] = needs
                    sources = (self.source.get(str(name), str(name)) for name in loops.reads_of(statement))
                    self.source[statement.result] = next(iter(sources), "")
                case loops.Row() | loops.Accumulator():
                    self.outside[statement.name] = frozenset(loop.variable for loop in around)
                    self.known[statement.name] = frozenset(loop.variable for loop in around if not self._static(loop))
                case loops.Store() | loops.Accumulate():
                    if isinstance(statement, loops.Accumulate) and statement.function == "mul":
                        yield from self._product(statement, around)
                    self.known[statement.target] = self.known.get(statement.target, frozenset()) | needs

    def _needs(self, *names: object) -> frozenset[str]:
        return frozenset().union(*(self.known.get(str(name), frozenset()) for name in names))

    def _shared(self, buffer: str) -> bool:
        """Whether many rows choose the same matrix of an array: one of types."""
        return self.extents.get(buffer, ("",))[0] in ("etypes", "ntypes", "relation")

    def _static(self, loop: loops.For) -> bool:
        try:
            return isinstance(self.nest.size(loop.extent), int) and loop.lower == 0 and not loop.parallel
        except KeyError:
            return False

    def _product(self, add: loops.Accumulate, around: tuple[loops.For, ...]) -> Iterator[Untiled]:
        static = {loop.variable: self.nest.size(loop.extent) for loop in around if self._static(loop)}
        moving = {loop.variable for loop in around if loop.variable not in static}
        summed = set(static) - self.outside.get(add.target, frozenset()) - {str(index) for index in add.indices}
        of = {operand: self.known.get(str(operand), frozenset()) for operand in add.operands}
        for operand, other in (add.operands, add.operands[::-1]):
            needs, columns = of[operand], (of[operand] - of[other]) & set(static)
            if not columns or not needs & summed or needs & moving or not moving:
                continue
            rows = prod(self._rows(loop) for loop in around if loop.variable not in static)
            depth = max(static[name] for name in needs & summed)
            wide = prod(static[name] for name in columns)
            source = self.source.get(str(operand), "")
            yield Untiled(self.nest.name, self.strategy, source, wide, depth, prod(static.values()), rows)
            return

    def _rows(self, loop: loops.For) -> int:
        """How often a loop runs: a segment by its average length."""
        if isinstance(loop.extent, int):
            return loop.extent
        return DEGREE if loop.lower != 0 else ASSUMED.of(loop.extent) or BATCH


def large(sizes: Mapping[str, int]) -> dict[str, int]:
    """The sizes at which the zoo is timed."""
    return {name: 4 * size if 8 <= size <= 32 else size for name, size in sizes.items()}
