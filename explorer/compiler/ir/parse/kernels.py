"""Reads a printed kernel of the scheduled ones."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, NamedTuple, cast

from lark import v_args
from lark.tree import Meta

from explorer.compiler.decisions import Schedule, Value, grouped
from explorer.compiler.ir import kernels, loops
from explorer.compiler.ir.kernels import Count
from explorer.compiler.ir.node import Atom, Extent
from explorer.compiler.ir.parse.reader import read
from explorer.compiler.ir.parse.statements import (
    Element,
    StatementBuilder,
    Step,
    buffers_of,
    sizes_of,
    statements_of,
)

INDEX_CALLS = {"min": 2, "max": 2, "select": 3}
"""Integer arithmetic that is written as a call, and of how many operands."""


class Named(NamedTuple):
    """The line `count tiles = ceil(B / 64)`."""

    name: str
    number: Count


class ChosenLine(NamedTuple):
    """The line `chosen SpMM_0: strategy = nonzeros, chunk = 256`."""

    kernel: str
    choices: tuple[tuple[str, Value], ...]


class Primitive(NamedTuple):
    """A line of the schedule."""

    text: str


class Bind(NamedTuple):
    """The `@lane 8 apart 4` of a loop; 0 is as many as there are iterations, and as share the loops inside."""

    level: kernels.Level
    width: int
    apart: int


class Unroll(NamedTuple):
    """The `unroll 4` of a loop, 0 for all; or `rolled`."""

    iterations: int


class Padding(NamedTuple):
    """The `padded 4` of a tile."""

    elements: int


class Resident(NamedTuple):
    """How many blocks a multiprocessor is to have at a time."""

    blocks: int


class Once(NamedTuple):
    """That a kernel need run but once."""


class Streamed(NamedTuple):
    """The arrays whose elements a kernel touches but once."""

    arrays: tuple[str, ...]


class Busy(NamedTuple):
    """The array of how many blocks have something to do."""

    array: str


def parse_scheduled(text: str) -> kernels.ScheduledKernel:
    """The scheduled kernel whose printed text this is; raises ParseError for a text that is none."""
    parsed: kernels.ScheduledKernel = read("kernels", text, _ScheduledBuilder(text))
    return parsed


@v_args(inline=True, meta=True)
class _ScheduledBuilder(StatementBuilder):
    def program(self, meta: Meta, name: str, template: str, threads: int, *parts: object) -> kernels.ScheduledKernel:
        return kernels.ScheduledKernel(
            name=name,
            template=template,
            sizes=sizes_of(parts),
            buffers=buffers_of(parts),
            threads=threads,
            schedule=tuple(part.text for part in parts if isinstance(part, Primitive)),
            body=statements_of(parts),
            counts=tuple((part.name, part.number) for part in parts if isinstance(part, Named)),
            resident=next((part.blocks for part in parts if isinstance(part, Resident)), 0),
            once=any(isinstance(part, Once) for part in parts),
            streamed=next((part.arrays for part in parts if isinstance(part, Streamed)), ()),
            chosen=tuple((part.kernel, part.choices) for part in parts if isinstance(part, ChosenLine)),
            busy=next((part.array for part in parts if isinstance(part, Busy)), ""),
            origin=self.origin(meta),
        )

    def resident(self, meta: Meta, blocks: int) -> Resident:
        return Resident(blocks)

    def once(self, meta: Meta) -> Once:
        return Once()

    def streamed(self, meta: Meta, *arrays: str) -> Streamed:
        return Streamed(arrays)

    def busy(self, meta: Meta, array: str) -> Busy:
        return Busy(array)

    def chosen(self, meta: Meta, line: str) -> ChosenLine:
        ((kernel, own),) = grouped(Schedule.parse(line).choices)
        return ChosenLine(kernel, own)

    def schedule(self, meta: Meta, line: str) -> Primitive:
        return Primitive(line.removeprefix("schedule ").rstrip())

    def count(self, meta: Meta, name: str, *terms: tuple[Extent, int] | str) -> Named:
        return Named(name, _count(terms))

    def multiple(self, meta: Meta, name: str, times: Extent, sign: str, extent: Extent) -> Named:
        return Named(name, Count(((extent, 1),), times))

    def term(self, meta: Meta, extent: Extent, by: int = 1) -> tuple[Extent, int]:
        return extent, by

    def loop_extent(self, meta: Meta, *terms: tuple[Extent, int] | str) -> Extent | Count:
        """The extent itself where it is all there is."""
        count = _count(terms)
        ((extent, by), *rest) = count.terms
        return extent if by == 1 and not rest else count

    def bound_loop(
        self, meta: Meta, variable: str, lower: Extent, extent: Extent | Count, *rest: object
    ) -> kernels.Loop:
        bind = next((part for part in rest if isinstance(part, Bind)), Bind("", 0, 0))
        return kernels.Loop(
            variable=variable,
            lower=lower,
            extent=extent,
            step=next((part.lanes for part in rest if isinstance(part, Step)), 1),
            bind=bind.level,
            width=bind.width,
            apart=bind.apart,
            unroll=next((part.iterations for part in rest if isinstance(part, Unroll)), 1),
            body=statements_of(rest),
            origin=self.origin(meta),
        )

    def bind(self, meta: Meta, level: str, width: int = 0, apart: int = 0) -> Bind:
        return Bind(cast(kernels.Level, level[1:]), width, apart)

    def unroll(self, meta: Meta, iterations: int | str = 0) -> Unroll:
        return Unroll(iterations if isinstance(iterations, int) else kernels.ROLLED)

    def where(self, meta: Meta, left: Atom, comparison: str, right: Atom, *body: Any) -> kernels.Where:
        return kernels.Where(left=left, comparison=comparison, right=right, body=body, origin=self.origin(meta))

    def tile(self, meta: Meta, memory: str, name: str, *rest: Any) -> kernels.Tile:
        self._arrays.add(name)
        self._written.add(name)
        return kernels.Tile(
            name=name,
            extents=next((part for part in rest if type(part) is tuple), ()),
            memory=cast(kernels.Memory, memory),
            padding=next((part.elements for part in rest if isinstance(part, Padding)), 0),
            type="i32" if "i32" in rest else "f32",
            swizzled="swizzled" in rest,
            origin=self.origin(meta),
        )

    def padding(self, meta: Meta, elements: int) -> Padding:
        return Padding(elements)

    def reduce(self, meta: Meta, target: str, reduction: str, lanes: int, apart: int = 1) -> kernels.Reduce:
        if reduction not in loops.REDUCTION_SIGNS:
            raise self.refuse(meta, f"there is no reduction {reduction}")
        return kernels.Reduce(target=target, reduction=reduction, lanes=lanes, apart=apart, origin=self.origin(meta))

    def barrier(self, meta: Meta, level: str, after: str = "") -> kernels.Barrier:
        if level not in ("block", "warp"):
            raise self.refuse(meta, f"a barrier is of a block or a warp, not of a {level}")
        return kernels.Barrier(
            level=cast(Literal["block", "warp"], level), copies=bool(after), origin=self.origin(meta)
        )

    def atomic(self, meta: Meta, added: loops.Accumulate) -> kernels.AtomicAccumulate:
        return kernels.AtomicAccumulate(
            target=added.target,
            indices=added.indices,
            reduction=added.reduction,
            function=added.function,
            operands=added.operands,
            origin=self.origin(meta),
        )

    def ranked(self, meta: Meta, result: str, added: loops.Accumulate) -> kernels.AtomicAccumulate:
        return replace(self.atomic(meta, added), result=result)

    def kept(self, meta: Meta, result: str, buffer: str, indices: tuple[Atom, ...], kept: Atom) -> kernels.KeptLoad:
        return kernels.KeptLoad(result=result, buffer=buffer, indices=indices, kept=kept, origin=self.origin(meta))

    def checked(
        self, meta: Meta, result: str, buffer: str, indices: tuple[Atom, ...], *checked: Atom
    ) -> kernels.CheckedLoad:
        return kernels.CheckedLoad(
            result=result, buffer=buffer, indices=indices, checked=checked, origin=self.origin(meta)
        )

    def search(
        self, meta: Meta, word: str, result: str, buffer: str, lower: Atom, upper: Atom, value: Atom
    ) -> kernels.Search:
        return kernels.Search(
            result=result, buffer=buffer, value=value, lower=lower, upper=upper, origin=self.origin(meta)
        )

    def part(self, meta: Meta, name: str, indices: tuple[Atom, ...] = ()) -> Element:
        return Element(name, indices)

    def copying(self, meta: Meta, target: Element, source: Element) -> kernels.Copy:
        return kernels.Copy(
            target=target.buffer,
            indices=target.indices,
            buffer=source.buffer,
            buffer_indices=source.indices,
            origin=self.origin(meta),
        )

    def multiply(
        self, meta: Meta, target: Element, sign: str, left: Element, times: str, right: Element, *over: Any
    ) -> kernels.Multiply:
        if (sign, times) != ("+=", "*"):
            raise self.refuse(meta, "a product is added: 'multiply y += left * right'")
        column, rows, columns, depth, precision, *warps = over
        return kernels.Multiply(
            target=target.buffer,
            indices=target.indices,
            left=left.buffer,
            left_indices=left.indices,
            right=right.buffer,
            right_indices=right.indices,
            column=column,
            rows=rows,
            columns=columns,
            depth=depth,
            precision=cast(kernels.Precision, precision),
            warps=next(iter(warps), 1),
            origin=self.origin(meta),
        )

    def index_call(self, meta: Meta, word: str, result: str, function: str, *operands: Atom) -> loops.Index:
        if INDEX_CALLS.get(function) != len(operands):
            raise self.refuse(meta, f"there is no function {function} of {len(operands)} indices")
        return loops.Index(result=result, function=function, operands=operands, origin=self.origin(meta))


def _count(terms: tuple[tuple[Extent, int] | str, ...]) -> Count:
    """The count of terms, between which there are signs."""
    return Count(tuple(term for term in terms if not isinstance(term, str)))
