"""Reads the statements of the loops, and the sizes and buffers above them, for the loops, SLC and DLC alike."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from lark import v_args
from lark.tree import Meta

from explorer.compiler.ir import loops
from explorer.compiler.ir.access.execute import Increment, Lanes, Reset
from explorer.compiler.ir.functions import FUNCTIONS, SIGNS
from explorer.compiler.ir.kernels import TF32_PARTS
from explorer.compiler.ir.node import Atom, Extent, Node
from explorer.compiler.ir.parse.reader import Builder, Sharing, Stored

FUNCTIONS_OF_SIGNS = {sign: function for function, sign in SIGNS.items()}
INDEX_FUNCTIONS = {sign: function for function, sign in loops.INFIX_INDEX.items()}
REDUCTIONS = {sign: reduction for reduction, sign in loops.REDUCTION_SIGNS.items()}
OPERAND_COUNTS = {
    **{name: function.operand_count for name, function in FUNCTIONS.items() if name != "copy" and not function.sign},
    **dict.fromkeys(TF32_PARTS, 1),
    **dict.fromkeys(loops.SEGMENT_ENDS, 3),
}
NUMBER_WORDS = ("inf", "nan")


class Sizes(NamedTuple):
    """The line `size D = 64, K = 64`."""

    pairs: tuple[tuple[str, int], ...]


class Note(NamedTuple):
    """What follows `#` at a loop's head."""

    text: str


class Width(NamedTuple):
    """The `<16>` of a vector operation."""

    lanes: int


class Step(NamedTuple):
    """The `step 16` of a vector loop."""

    lanes: int


class Element(NamedTuple):
    """`E[ih, d]` on the right of an assignment."""

    buffer: str
    indices: tuple[Any, ...]


class Expression(NamedTuple):
    """`u * p`, `sqrt(s)`, or an atom, which is a copy."""

    function: str
    operands: tuple[Any, ...]


class Several(NamedTuple):
    """What one line has."""

    statements: tuple[Any, ...]


@v_args(inline=True, meta=True)
class StatementBuilder(Builder):
    """Statements come in the order of the text, so what a name is (an array, a value) is known where it is used."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._arrays: set[str] = set()  # buffers and rows: reading one is a load
        self._written: set[str] = set()  # the output, rows and accumulators: assigning to one is a store

    def sizes(self, meta: Meta, *pairs: tuple[str, int]) -> Sizes:
        return Sizes(pairs)

    def size(self, meta: Meta, name: str, size: int) -> tuple[str, int]:
        return name, size

    def buffer(self, meta: Meta, kind: str, name: str, *rest: tuple[Extent, ...] | Stored | Sharing) -> loops.Buffer:
        self._arrays.add(name)
        if kind == "output":
            self._written.add(name)
        extents = next((part for part in rest if not isinstance(part, (Stored, Sharing))), ())
        storage = next((part.name for part in rest if isinstance(part, Stored)), "f32")
        sharing = next((part.facts for part in rest if isinstance(part, Sharing)), 1)
        return loops.Buffer(
            name=name, kind=kind, extents=extents, storage=storage, sharing=sharing, origin=self.origin(meta)
        )

    def extents(self, meta: Meta, *extents: Extent) -> tuple[Extent, ...]:
        return extents

    def loop(self, meta: Meta, variable: str, lower: Extent, extent: Extent, *rest: object) -> loops.For:
        return loops.For(
            variable=variable,
            lower=lower,
            extent=extent,
            body=statements_of(rest),
            step=next((part.lanes for part in rest if isinstance(part, Step)), 1),
            note=note_of(rest),
            origin=self.origin(meta),
        )

    def step(self, meta: Meta, lanes: int) -> Step:
        return Step(lanes)

    def width(self, meta: Meta, lanes: int) -> Width:
        return Width(lanes)

    def lanes(self, meta: Meta, width: int, variable: str, extent: Extent, *body: Any) -> Lanes:
        return Lanes(variable=variable, width=width, extent=extent, body=body, origin=self.origin(meta))

    def increment(self, meta: Meta, word: str, target: str, sign: str, by: int) -> Increment:
        if sign != "+=":
            raise self.refuse(meta, f"a counter goes on with '+=', not with '{sign}'")
        return Increment(target=target, by=by, origin=self.origin(meta))

    def reset(self, meta: Meta, word: str, target: str, value: int) -> Reset:
        return Reset(target=target, value=value, origin=self.origin(meta))

    def parallel_loop(self, meta: Meta, variable: str, lower: Extent, extent: Extent, *rest: object) -> loops.For:
        return replace(self.loop(meta, variable, lower, extent, *rest), parallel=True)

    def index(self, meta: Meta, word: str, result: str, left: Atom, sign: str, right: Atom) -> loops.Index:
        return loops.Index(
            result=result, function=INDEX_FUNCTIONS[sign], operands=(left, right), origin=self.origin(meta)
        )

    def row(self, meta: Meta, name: str, extents: tuple[Extent, ...] = ()) -> loops.Row:
        self._arrays.add(name)
        self._written.add(name)
        return loops.Row(name=name, extents=extents, origin=self.origin(meta))

    def accumulator(self, meta: Meta, name: str, start: Atom) -> loops.Accumulator:
        if isinstance(start, str) and start not in NUMBER_WORDS:
            raise self.refuse(meta, f"{name} must start from a number, not from {start}")
        self._written.add(name)
        return loops.Accumulator(name=name, start=float(start), origin=self.origin(meta))

    def accumulate(self, meta: Meta, target: str, *rest: Any) -> loops.Accumulate:
        indices, sign, expression = rest if len(rest) == 3 else ((), *rest)
        return loops.Accumulate(
            target=target,
            indices=indices,
            reduction=REDUCTIONS[sign],
            function=expression.function,
            operands=expression.operands,
            origin=self.origin(meta),
        )

    def assign(self, meta: Meta, target: str, *rest: Any) -> loops.Load | loops.Compute | loops.Store:
        """A load if an array is read, a store if what is assigned to can be written, else a computation."""
        indices, right = rest if len(rest) == 2 else ((), *rest)
        stores = bool(indices) or target in self._written
        if isinstance(right, Expression) and right.function == "copy" and right.operands[0] in self._arrays:
            word = str(right.operands[0])
            # An array cannot be stored, so this `inf` is the number where a minimum starts.
            number = stores and word in NUMBER_WORDS
            right = Expression("copy", (float(word),)) if number else Element(word, ())
        if isinstance(right, Element):
            if stores:
                raise self.refuse(meta, f"load {right.buffer} into a name first: {target} is memory")
            return loops.Load(result=target, buffer=right.buffer, indices=right.indices, origin=self.origin(meta))
        function, operands, origin = right.function, right.operands, self.origin(meta)
        if stores:
            return loops.Store(target=target, indices=indices, function=function, operands=operands, origin=origin)
        return loops.Compute(result=target, function=function, operands=operands, origin=origin)

    def element(self, meta: Meta, buffer: str, indices: tuple[Atom, ...]) -> Element:
        return Element(buffer, indices)

    def indices(self, meta: Meta, *indices: Atom) -> tuple[Atom, ...]:
        return indices

    def copy(self, meta: Meta, operand: Atom) -> Expression:
        return Expression("copy", (operand,))

    def infix(self, meta: Meta, left: Atom, sign: str, right: Atom) -> Expression:
        return Expression(FUNCTIONS_OF_SIGNS[sign], (left, right))

    def call(self, meta: Meta, function: str, *operands: Atom) -> Expression:
        takes = OPERAND_COUNTS.get(function)
        if takes is None:
            raise self.refuse(meta, f"there is no function {function}")
        if len(operands) != takes:
            raise self.refuse(meta, f"{function} takes {takes} operands, not {len(operands)}")
        return Expression(function, operands)

    def operand(self, meta: Meta, atom: Atom) -> Atom:
        """An atom; `inf` and `nan` are numbers unless the model has an array of that name."""
        return float(atom) if atom in NUMBER_WORDS and atom not in self._arrays else atom

    def word(self, meta: Meta, word: str) -> str:
        return word

    def NOTE(self, token: str) -> Note:
        return Note(token[1:].strip())


def sizes_of(parts: tuple[object, ...]) -> tuple[tuple[str, int], ...]:
    """The sizes among the parts of a program."""
    return next((part.pairs for part in parts if isinstance(part, Sizes)), ())


def buffers_of(parts: tuple[object, ...]) -> tuple[loops.Buffer, ...]:
    """The buffers among the parts of a program."""
    return tuple(part for part in _each(parts) if isinstance(part, loops.Buffer))


def statements_of(parts: tuple[object, ...]) -> tuple[Any, ...]:
    """The statements among the parts of a program, a loop or a callback."""
    return tuple(part for part in _each(parts) if isinstance(part, Node) and not isinstance(part, loops.Buffer))


def _each(parts: tuple[object, ...]) -> Iterator[object]:
    for part in parts:
        yield from part.statements if isinstance(part, Several) else (part,)


def width_of(parts: tuple[object, ...]) -> int:
    """The width of a vector operation; 1 where none is written."""
    return next((part.lanes for part in parts if isinstance(part, Width)), 1)


def note_of(parts: tuple[object, ...]) -> str:
    """The note at a loop's head, or nothing."""
    return next((part.text for part in parts if isinstance(part, Note)), "")
