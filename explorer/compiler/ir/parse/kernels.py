"""Reads a printed kernel of the scheduled ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple, cast

from lark import v_args
from lark.tree import Meta

from explorer.compiler.decisions import Schedule, Value, grouped
from explorer.compiler.ir import kernels, loops
from explorer.compiler.ir.kernels import Count
from explorer.compiler.ir.node import Atom, Extent
from explorer.compiler.ir.parse.reader import Sharing, Stored, read
from explorer.compiler.ir.parse.statements import (
    FUNCTIONS_OF_SIGNS,
    Element,
    Expression,
    Several,
    StatementBuilder,
    Step,
    buffers_of,
    sizes_of,
    statements_of,
)
from explorer.compiler.ir.print.expressions import IN_PLACE, SIGNS_OF_INDEX
from explorer.compiler.ir.print.in_place import numbered

INDEX_CALLS = {"min": 2, "max": 2, "select": 3}
"""Integer arithmetic that is written as a call, and of how many operands."""
Operand = Atom | Expression | Element
Array = tuple[str, tuple[tuple[Extent, ...] | Stored | Sharing, ...]]
"""What stands where an operand does: index arithmetic, or an element."""
InPlace = loops.Index | loops.Load
FUNCTIONS_OF_INDEX_SIGNS = {sign: function for function, sign in SIGNS_OF_INDEX.items()}


class Named(NamedTuple):
    """The line `count tiles = ceil(B / 64)`."""

    name: str
    number: Count


class ChosenLine(NamedTuple):
    """The line `chosen SpMM_0: strategy = nonzeros, chunk = 256`, of which a kernel may have several."""

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


class Head(NamedTuple):
    """A loop or a condition without its body, behind what stands in it."""

    before: tuple[InPlace, ...]
    block: kernels.Loop | kernels.Where


class Part(NamedTuple):
    """An array, or an element of one, where arithmetic may stand."""

    array: str
    indices: tuple[Any, ...]


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
    return numbered(parsed)


@v_args(inline=True, meta=True)
class _ScheduledBuilder(StatementBuilder):
    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._integers: set[str] = set()  # the arrays of indices
        self._in_place = 0  # how much index arithmetic has been read without a name

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
            chosen=grouped(choice for part in parts if isinstance(part, ChosenLine) for choice in part.choices),
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
        return ChosenLine(Schedule.parse(line).choices)

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

    def nest(self, meta: Meta, *parts: Any) -> Several:
        """Loops and conditions, each all there is in the one before it."""
        heads = [part for part in parts if isinstance(part, Head)]
        body = statements_of(parts)
        for head in reversed(heads):
            body = (*head.before, replace(head.block, body=body))
        return Several(body)

    def bound_loop(self, meta: Meta, variable: str, lower: Operand, extent: Operand | Count, *rest: object) -> Head:
        before, (first, *past) = self._placed(meta, (lower, *(() if isinstance(extent, Count) else (extent,))))
        bind = next((part for part in rest if isinstance(part, Bind)), Bind("", 0, 0))
        loop = kernels.Loop(
            variable=variable,
            lower=cast(Extent, first),
            extent=extent if isinstance(extent, Count) else cast(Extent, past[0]),
            step=next((part.lanes for part in rest if isinstance(part, Step)), 1),
            bind=bind.level,
            width=bind.width,
            apart=bind.apart,
            unroll=next((part.iterations for part in rest if isinstance(part, Unroll)), 1),
            body=(),
            origin=self.origin(meta),
        )
        return Head(before, loop)

    def bind(self, meta: Meta, level: str, width: int = 0, apart: int = 0) -> Bind:
        return Bind(cast(kernels.Level, level[1:]), width, apart)

    def unroll(self, meta: Meta, iterations: int | str = 0) -> Unroll:
        return Unroll(iterations if isinstance(iterations, int) else kernels.ROLLED)

    def where(self, meta: Meta, left: Operand, comparison: str, right: Operand) -> Head:
        before, (first, second) = self._placed(meta, (left, right))
        where = kernels.Where(left=first, comparison=comparison, right=second, body=(), origin=self.origin(meta))
        return Head(before, where)

    def array(self, meta: Meta, name: str, *rest: tuple[Extent, ...] | Stored | Sharing) -> Array:
        return name, rest

    def buffers(self, meta: Meta, kind: str, *arrays: Array) -> Several:
        made = Several(tuple(self.buffer(meta, kind, name, *rest) for name, rest in arrays))
        self._integers |= {name for name, _ in arrays if kind == "index"}
        return made

    def tiles(self, meta: Meta, memory: str, *tiles: kernels.Tile) -> Several:
        return Several(tuple(replace(tile, memory=cast(kernels.Memory, memory)) for tile in tiles))

    def tile(self, meta: Meta, name: str, *rest: Any) -> kernels.Tile:
        self._arrays.add(name)
        self._written.add(name)
        if "i32" in rest:
            self._integers.add(name)
        return kernels.Tile(
            name=name,
            extents=next((part for part in rest if type(part) is tuple), ()),
            memory="register",
            padding=next((part.elements for part in rest if isinstance(part, Padding)), 0),
            type="i32" if "i32" in rest else "f32",
            swizzled="swizzled" in rest,
            origin=self.origin(meta),
        )

    def accumulators(self, meta: Meta, *starting: loops.Accumulator) -> Several:
        return Several(starting)

    def padding(self, meta: Meta, elements: int) -> Padding:
        return Padding(elements)

    def reduce(self, meta: Meta, target: str, reduction: str, lanes: int, *rest: int | str) -> kernels.Reduce:
        if reduction not in loops.REDUCTION_SIGNS:
            raise self.refuse(meta, f"there is no reduction {reduction}")
        apart = next((each for each in rest if isinstance(each, int)), 1)
        parts = next((each for each in rest if isinstance(each, str)), "")
        return kernels.Reduce(
            target=target, reduction=reduction, lanes=lanes, apart=apart, parts=parts, origin=self.origin(meta)
        )

    def barrier(self, meta: Meta, level: str, after: str = "") -> kernels.Barrier:
        if level not in ("block", "warp"):
            raise self.refuse(meta, f"a barrier is of a block or a warp, not of a {level}")
        return kernels.Barrier(
            level=cast(Literal["block", "warp"], level), copies=bool(after), origin=self.origin(meta)
        )

    def accumulates(self, meta: Meta, *added: Several) -> Several:
        return Several(tuple(statement for each in added for statement in each.statements))

    def atomic(self, meta: Meta, *added: Several) -> Several:
        return Several(tuple(self._atomic(statement, "") for each in added for statement in each.statements))

    def ranked(self, meta: Meta, result: str, added: Several) -> Several:
        return Several(tuple(self._atomic(statement, result) for statement in added.statements))

    def _atomic(self, add: Any, result: str) -> Any:
        """A sum as an atomic one; what stands in it stays."""
        if not isinstance(add, loops.Accumulate):
            return add
        return kernels.AtomicAccumulate(
            target=add.target,
            indices=add.indices,
            reduction=add.reduction,
            function=add.function,
            operands=add.operands,
            result=result,
            origin=add.origin,
        )

    def kept(self, meta: Meta, result: str, buffer: str, indices: tuple[Operand, ...], kept: Operand) -> Several:
        before, (*places, kept) = self._placed(meta, (*indices, kept))
        load = kernels.KeptLoad(
            result=result, buffer=buffer, indices=tuple(places), kept=kept, origin=self.origin(meta)
        )
        return Several((*before, load))

    def checked(self, meta: Meta, result: str, buffer: str, indices: tuple[Operand, ...], *checked: Atom) -> Several:
        before, places = self._placed(meta, indices)
        load = kernels.CheckedLoad(
            result=result, buffer=buffer, indices=places, checked=checked, origin=self.origin(meta)
        )
        return Several((*before, load))

    def shuffled(self, meta: Meta, result: str, buffer: str, indices: tuple[Operand, ...]) -> Several:
        before, places = self._placed(meta, indices)
        load = kernels.ShuffledLoad(result=result, buffer=buffer, indices=places, origin=self.origin(meta))
        return Several((*before, load))

    def search(
        self, meta: Meta, word: str, result: str, buffer: str, lower: Operand, upper: Operand, value: Operand
    ) -> Several:
        before, (first, last, sought) = self._placed(meta, (lower, upper, value))
        search = kernels.Search(
            result=result, buffer=buffer, value=sought, lower=first, upper=last, origin=self.origin(meta)
        )
        return Several((*before, search))

    def part(self, meta: Meta, name: str, indices: tuple[Operand, ...] = ()) -> Part:
        return Part(name, indices)

    def copying(self, meta: Meta, target: Part, source: Part) -> Several:
        before, places = self._placed(meta, (*target.indices, *source.indices))
        copy = kernels.Copy(
            target=target.array,
            indices=places[: len(target.indices)],
            buffer=source.array,
            buffer_indices=places[len(target.indices) :],
            origin=self.origin(meta),
        )
        return Several((*before, copy))

    def multiply(
        self, meta: Meta, target: Part, sign: str, left: Part, times: str, right: Part, *over: Any
    ) -> kernels.Multiply:
        if sign != "+=":
            raise self.refuse(meta, "a product is added: 'multiply y += left * right'")
        column, rows, columns, depth, precision, *warps = over
        places = [tuple(self._atom(meta, index) for index in part.indices) for part in (target, left, right)]
        return kernels.Multiply(
            target=target.array,
            indices=places[0],
            left=left.array,
            left_indices=places[1],
            right=right.array,
            right_indices=places[2],
            column=column,
            rows=rows,
            columns=columns,
            depth=depth,
            precision=cast(kernels.Precision, precision),
            warps=next(iter(warps), 1),
            origin=self.origin(meta),
        )

    def indices_named(self, meta: Meta, word: str, *named: Several) -> Several:
        return Several(tuple(statement for each in named for statement in each.statements))

    def named(self, meta: Meta, result: str, value: Operand) -> Several:
        if not isinstance(value, Expression):
            raise self.refuse(meta, f"{result} is not computed: an index is 'index n = i + 4'")
        before, operands = self._placed(meta, value.operands)
        return Several((*before, self._index(meta, result, value.function, operands)))

    def assignments(self, meta: Meta, *assignments: Several) -> Several:
        return Several(tuple(statement for each in assignments for statement in each.statements))

    def assignment(self, meta: Meta, target: str, *rest: Any) -> Several:
        indices, right = rest if len(rest) == 2 else ((), *rest)
        before, places = self._placed(meta, indices)
        if isinstance(right, Element) and not (indices or target in self._written):
            inside, at = self._placed(meta, right.indices)
            right = Element(right.buffer, at)
        else:
            inside, right = self._right(meta, target, right)
        return Several((*before, *inside, self.assign(meta, target, *([places] if places else []), right)))

    def added(self, meta: Meta, target: str, *rest: Any) -> Several:
        indices, sign, right = rest if len(rest) == 3 else ((), *rest)
        before, places = self._placed(meta, indices)
        inside, value = self._right(meta, target, right)
        added = self.accumulate(meta, target, *([places] if places else []), sign, value)
        return Several((*before, *inside, added))

    def _right(self, meta: Meta, target: str, right: Operand) -> tuple[tuple[InPlace, ...], Expression]:
        """What is stored or computed, of indices or of numbers, behind what stands in it."""
        if target in self._integers:
            before, (value,) = self._placed(meta, (right,))
            return before, Expression("copy", (value,))
        function, operands = (right.function, right.operands) if isinstance(right, Expression) else ("copy", (right,))
        if any(isinstance(operand, Expression) for operand in operands):
            raise self.refuse(meta, "numbers are computed one by one: name what is in parentheses first")
        before, atoms = self._placed(meta, operands)
        numbers = [self.operand(meta, atom) for atom in atoms]
        if function == "copy":
            return before, Expression("copy", tuple(numbers))
        if function in FUNCTIONS_OF_SIGNS:
            return before, self.infix(meta, numbers[0], function, numbers[1])
        return before, self.call(meta, function, *numbers)

    def arithmetic(self, meta: Meta, left: Operand, sign: str, right: Operand) -> Expression:
        return Expression(sign, (left, right))

    def applied(self, meta: Meta, function: str, *operands: Operand) -> Expression:
        return Expression(function, operands)

    def atom(self, meta: Meta, atom: Atom) -> Atom:
        return atom

    def _atom(self, meta: Meta, value: Operand) -> Atom:
        if isinstance(value, (Expression, Element)):
            raise self.refuse(meta, "this names its operands, as none of index arithmetic need")
        return value

    def _placed(self, meta: Meta, values: Sequence[Operand]) -> tuple[tuple[InPlace, ...], tuple[Atom, ...]]:
        """What is written in some places, innermost first, and what then stands there."""
        before: list[InPlace] = []
        atoms: list[Atom] = []
        for value in values:
            if not isinstance(value, (Expression, Element)):
                atoms.append(value)
                continue
            inside, own = self._placed(meta, value.operands if isinstance(value, Expression) else value.indices)
            self._in_place += 1
            atoms.append(name := f"{IN_PLACE}{self._in_place}")
            if isinstance(value, Expression):
                before += (*inside, self._index(meta, name, value.function, own))
            else:
                load = loops.Load(result=name, buffer=value.buffer, indices=own, origin=self.origin(meta))
                before += (*inside, load)
        return tuple(before), tuple(atoms)

    def _index(self, meta: Meta, result: str, function: str, operands: tuple[Atom, ...]) -> loops.Index:
        of_sign = FUNCTIONS_OF_INDEX_SIGNS.get(function)
        if of_sign is None and INDEX_CALLS.get(function) != len(operands):
            raise self.refuse(meta, f"there is no function {function} of {len(operands)} indices")
        return loops.Index(result=result, function=of_sign or function, operands=operands, origin=self.origin(meta))


def _count(terms: tuple[tuple[Extent, int] | str, ...]) -> Count:
    """The count of terms, between which there are signs."""
    return Count(tuple(term for term in terms if not isinstance(term, str)))
