"""Reads a printed kernel, and the statements that SLC and DLC take from the loops."""

from __future__ import annotations

from typing import NamedTuple

from lark import v_args
from lark.tree import Meta

from explorer.compiler.ir import loops
from explorer.compiler.ir.graph import INFIX_FUNCTIONS, PAIR_FUNCTIONS, PREFIX_FUNCTIONS
from explorer.compiler.ir.node import Atom, Extent
from explorer.compiler.ir.parse.reader import Builder, read

FUNCTIONS_OF_SIGNS = {sign: function for function, sign in INFIX_FUNCTIONS.items()}
INDEX_FUNCTIONS = {sign: function for function, sign in loops.INFIX_INDEX.items()}
REDUCTIONS = {sign: reduction for reduction, sign in loops.REDUCTION_SIGNS.items()}
CALLABLE = (*PREFIX_FUNCTIONS, *PAIR_FUNCTIONS)
TWO_OPERANDS = (*PAIR_FUNCTIONS, "leaky_relu")


def parse_kernel(text: str) -> loops.Kernel:
    """The kernel whose printed text this is; raises ParseError for a text that is none."""
    parsed: loops.Kernel = read("kernel", text, StatementBuilder(text))
    return parsed


class Sizes(NamedTuple):
    """The line `size D = 64, K = 64`."""

    pairs: tuple[tuple[str, int], ...]


class Element(NamedTuple):
    """`E[ih, d]` on the right of an assignment."""

    buffer: str
    indices: tuple[Atom, ...]


class Expression(NamedTuple):
    """`u * p`, `sqrt(s)`, or an atom, which is a copy."""

    function: str
    operands: tuple[Atom, ...]


@v_args(inline=True, meta=True)
class StatementBuilder(Builder):
    """Statements come in the order of the text, so what a name is (an array, a value) is known where it is used."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._arrays: set[str] = set()  # buffers and rows: reading one is a load
        self._written: set[str] = set()  # the output, rows and accumulators: assigning to one is a store
        self._values: set[str] = set()

    def kernel(self, meta: Meta, name: str, template: str, *parts: object) -> loops.Kernel:
        sizes, buffers, body = self.sorted_parts(parts)
        return loops.Kernel(
            name=name, template=template, sizes=sizes, buffers=buffers, body=body, origin=self.origin(meta)
        )

    def sorted_parts(
        self, parts: tuple[object, ...]
    ) -> tuple[tuple[tuple[str, int], ...], tuple[loops.Buffer, ...], tuple[loops.Statement, ...]]:
        """The sizes, the buffers and all else, each in order."""
        pairs = next((part.pairs for part in parts if isinstance(part, Sizes)), ())
        buffers = tuple(part for part in parts if isinstance(part, loops.Buffer))
        return pairs, buffers, tuple(part for part in parts if isinstance(part, loops.Statement))

    def sizes(self, meta: Meta, *pairs: tuple[str, int]) -> Sizes:
        return Sizes(pairs)

    def size(self, meta: Meta, name: str, size: int) -> tuple[str, int]:
        return name, size

    def kind(self, meta: Meta, word: str) -> str:
        return str(word)

    def buffer(self, meta: Meta, kind: str, name: str, extents: tuple[Extent, ...] = ()) -> loops.Buffer:
        self._arrays.add(name)
        if kind == "output":
            self._written.add(name)
        return loops.Buffer(name=name, kind=kind, extents=extents, origin=self.origin(meta))

    def extents(self, meta: Meta, *extents: Extent) -> tuple[Extent, ...]:
        return extents

    def for_(self, meta: Meta, *parts: object) -> loops.For:
        """A loop: perhaps `parallel`, then its variable, its extent, perhaps a note, and the statements."""
        parallel = parts[0] == PARALLEL
        variable, extent, *rest = parts[1:] if parallel else parts
        assert isinstance(variable, str)
        assert isinstance(extent, str | int)
        return loops.For(
            variable=variable,
            extent=extent,
            body=tuple(part for part in rest if isinstance(part, loops.Statement)),
            parallel=parallel,
            note=next((part for part in rest if isinstance(part, str)), ""),
            origin=self.origin(meta),
        )
