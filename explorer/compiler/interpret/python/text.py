"""Statements of the loops as a Python function: a nest's statements run so often that reading them anew each time is
what an interpreter would spend its time on.

Each statement becomes one line of Python that says the same of NumPy arrays and float32 numbers, in the same order; of
a loop whose iterations may be done side by side, a line says it of all of them. Names become `v0`, `v1`, ...: no name
of a program is a word of the text. Python takes 20 loops inside one another.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache, reduce
from itertools import product
from types import CodeType
from typing import Any

import numpy as np

from explorer.compiler.interpret.functions import FUNCTIONS, OPERATORS, REDUCTIONS, Number
from explorer.compiler.interpret.guarded import is_guarding, outside
from explorer.compiler.interpret.python.side_by_side import elements_at_once, places_of, sums_of
from explorer.compiler.ir import loops
from explorer.compiler.ir.functions import SIGNS
from explorer.compiler.ir.index_functions import INDEX_FUNCTIONS
from explorer.compiler.ir.node import Atom, Node, walk

Environment = dict[str, Any]
"""Names and what they stand for: numbers, indices, rows and buffers."""

MONOTONOUS = frozenset({"add", "sub", "mul", "min", "max"})
"""Arithmetic of indices that is least and most where its operands are."""
CHOICES = {
    **{function: f"1 if {{0}} {sign} {{1}} else 0" for function, sign in loops.COMPARISONS.items()},
    "select": "{1} if {0} else {2}",
}
"""Functions of indices that choose one of two."""
TEXTS_KEPT = 256
INFIX_REDUCTIONS = {"sum": "+", "product": "*"}
"""What is one of Python's operators, as infix functions are: single numbers are added several times as fast by it."""


class Text:
    """The text of a function as it grows, and what its names stand for.

    `body` is what the function does; `arrays` tells of all arrays, by name, how many dimensions they have; those of
    `indices` hold indices, and `sizes` are the extents that are known.

    A vector is an array of as many elements as its index stands for, by `widths`, which a name of the text says where
    it is not known before; `vectors` are the names that may be
    one, and of those `wide_sums` accumulators."""

    def __init__(
        self,
        body: Sequence[Node],
        arrays: Mapping[str, int],
        indices: frozenset[str],
        sizes: Mapping[str, int],
        widths: Mapping[str, int | str] | None = None,
        wide_sums: frozenset[str] = frozenset(),
    ) -> None:
        nodes = [node for statement in body for node in walk(statement)]
        self.arrays, self.indices, self.sizes = arrays, indices, sizes
        self.widths: dict[str, int | str] = dict(widths or {})
        self.vectors, self.wide_sums = set(wide_sums), wide_sums
        self.folded: tuple[loops.Accumulate, ...] = ()  # the sums of what stands side by side
        defined = Counter(name for node in nodes if (name := self.result_of(node)))
        self.inner = frozenset(defined)
        self.once = frozenset(name for name, times in defined.items() if times == 1)
        self.spans: dict[str, tuple[int, int]] = {}  # the smallest and largest value of indices, where they are known
        self.shapes: dict[str, tuple[int, ...]] = {}  # of arrays that the function makes
        written = {node.target for node in nodes if isinstance(node, (loops.Store, loops.Accumulate))}
        self.lists = indices - written - self.inner  # read as Python lists, which is the fastest
        self.changing = self.inner | {getattr(node, "target", "") for node in nodes}
        self.checks = is_guarding()
        self.known: dict[str, Any] = {}  # constants and functions, by their names in the text
        self._names: dict[str, str] = {}
        self._heads: dict[str, None] = {}  # what is done once, at the start
        self._lines: list[str] = []
        self._depth = 1
        self.each(body)

    def function(self, results: Sequence[str] = ()) -> Callable[[Environment], tuple[Any, ...]]:
        """The function: it does the body in an environment, and returns what some of the body's names stand for."""
        returned = f" return ({''.join(f'{self.name(name)}, ' for name in results)})"
        text = "\n".join(["def run(environment):", *self._heads, *self._lines, returned])
        exec(_code(text), self.known)
        run: Callable[[Environment], tuple[Any, ...]] = self.known["run"]
        return run

    def result_of(self, node: Node) -> str | None:
        """The name that a statement defines, if any."""
        return loops.result_of(node)

    def reads_of(self, node: Node) -> tuple[str, ...]:
        """The names that a statement reads."""
        return loops.reads_of(node)

    def line(self, text: str) -> None:
        self._lines.append(" " * self._depth + text)

    def head(self, text: str) -> None:
        """A line at the function's start, once."""
        self._heads[f" {text}"] = None

    @contextmanager
    def inside(self, head: str) -> Iterator[None]:
        """What is written meanwhile stands below a line that ends in a colon."""
        self.line(head)
        self._depth += 1
        self.line("pass")
        yield
        self._depth -= 1

    def name(self, name: str) -> str:
        """What the text calls a name; one that the body does not define is looked up in the environment."""
        if name not in self._names:
            self._names[name] = f"v{len(self._names)}"
            if name not in self.inner:
                found = f"environment[{self.constant(name)}]"
                plain = self.checks and name in self.arrays  # the text has its own checks
                self.head(f"{self._names[name]} = {f'{self.constant(np.asarray)}({found})' if plain else found}")
        return self._names[name]

    def constant(self, value: Any) -> str:
        """A name for something that is not of the program."""
        name = f"c{len(self.known)}"
        self.known[name] = value
        return name

    def atom(self, atom: Atom) -> str:
        if isinstance(atom, float):
            return self.constant(np.float32(atom))
        return self.name(atom) if isinstance(atom, str) else repr(atom)

    def operand(self, atom: Atom) -> str:
        """An atom that is computed with."""
        return self.atom(atom)

    def array(self, name: str, indices: tuple[Atom, ...]) -> str:
        """The array of an access; by one index, all of it is one row."""
        known = self.name(name)
        if len(indices) != 1 or self.arrays[name] == 1:
            return known
        if name in self.inner:
            return f"{known}.reshape(-1)"
        self.head(f"{known}_flat = {known}.reshape(-1)")
        return f"{known}_flat"

    def index(self, index: Atom) -> str:
        """One index of an access: an element, or as many as it stands for."""
        first = self.atom(index)
        return f"{first} : {first} + {self.widths[str(index)]}" if index in self.widths else first

    def wide(self, names: tuple[Atom, ...]) -> bool:
        """Whether one of some operands may be a vector, or one of some indices stands for several."""
        return not (self.vectors.isdisjoint(names) and self.widths.keys().isdisjoint(names))

    def element(self, name: str, indices: tuple[Atom, ...]) -> str:
        """`v0[v1, v2]`."""
        self.check(name, indices)
        return f"{self.array(name, indices)}[{', '.join(map(self.index, indices)) or '()'}]"

    def check(self, name: str, indices: tuple[Atom, ...]) -> None:
        """Before an access that nobody has shown to be inside of its array: a line that asks whether it is."""
        if not (self.checks and indices):
            return
        array = self.array(name, indices)
        texts = [self.atom(index) for index in indices]
        lengths = self.shapes.get(name, ()) if len(indices) == self.arrays[name] else ()
        inside = " and ".join(
            f"0 <= {text} <= {array}.shape[{place}] - {self.width(index)}"
            for place, (text, index) in enumerate(zip(texts, indices, strict=True))
            if not (lengths and self.fits(index, lengths[place]))
        )
        if len(indices) > self.arrays[name]:
            inside = "False"
        if not inside:
            return
        places = [
            f"slice({text}, {text} + {self.width(index)})" if index in self.widths else text
            for text, index in zip(texts, indices, strict=True)
        ]
        told = f"{self.constant(outside)}({self.constant(name)}, {array}.shape, {', '.join(places)})"
        self.line(f"if not ({inside}): {told}")

    def fits(self, index: Atom, length: int) -> bool:
        """Whether an index is known to be inside of so many elements."""
        span, width = self.span(index), self.width(index)
        return span is not None and isinstance(width, int) and span[0] >= 0 and span[1] + width <= length

    def span(self, atom: Atom) -> tuple[int, int] | None:
        """The smallest and the largest value that an index has, where they are known."""
        if isinstance(atom, str):
            return self.spans.get(atom) or (self._size(atom))
        return (atom, atom) if isinstance(atom, int) else None

    def _size(self, name: str) -> tuple[int, int] | None:
        return (self.sizes[name],) * 2 if name in self.sizes and name not in self.inner else None

    def bound(self, name: str, lowest: int, highest: int) -> None:
        """Notes what an index may be: one that is defined at one place alone."""
        if name in self.once:
            self.spans[name] = lowest, highest

    def width(self, index: Atom) -> int | str:
        """How many elements an index stands for."""
        return self.widths.get(str(index), 1)

    def loaded(self, name: str, indices: tuple[Atom, ...]) -> str:
        """What a load gives: a float32 number, a Python integer, or a vector, which later stores must not change."""
        if name in self.lists and len(indices) == 1:
            array = self.array(name, indices)
            self.check(name, indices)
            self.head(f"{array}_list = {array}.tolist()")
            return f"{array}_list[{self.index(indices[0])}]"
        element = self.element(name, indices)
        if name in self.indices:
            return f"int({element})"
        return f"{element}.copy()" if name in self.changing and self.wide(indices) else element

    def load(self, load: loops.Load) -> str:
        """The value of a load."""
        return self.loaded(load.buffer, load.indices)

    def value(self, function: str, operands: tuple[Atom, ...]) -> str:
        """The value of an expression."""
        texts = [self.operand(operand) for operand in operands]
        if function == "copy":
            return texts[0]
        if function in SIGNS:
            return f" {SIGNS[function]} ".join(texts)
        return f"{self.constant(FUNCTIONS[function])}({', '.join(texts)})"

    def index_value(self, function: str, operands: tuple[Atom, ...]) -> str:
        """The same of indices."""
        texts = [self.operand(operand) for operand in operands]
        if function in loops.INFIX_INDEX:
            return f" {loops.INFIX_INDEX[function]} ".join(texts)
        if function in CHOICES:  # in place: a call takes several times as long, and kernels compare in inner loops
            return CHOICES[function].format(*texts)
        return f"{self.constant(INDEX_FUNCTIONS[function])}({', '.join(texts)})"

    def combined(self, reduction: str, before: str, part: str) -> str:
        """An accumulation's new value."""
        if reduction in INFIX_REDUCTIONS:
            return f"{before} {INFIX_REDUCTIONS[reduction]} ({part})"
        return f"{self.constant(REDUCTIONS[reduction])}({before}, {part})"

    def statement(self, statement: Node) -> None:
        """Writes one statement."""
        match statement:
            case loops.For():
                self.loop(f"{self.atom(statement.lower)}, {self.atom(statement.extent)}", statement)
            case loops.Load():
                self.line(f"{self.name(statement.result)} = {self.load(statement)}")
            case loops.Index():
                value = self.index_value(statement.function, statement.operands)
                self.line(f"{self.name(statement.result)} = {value}")
                self.bound_index(statement)
            case loops.Compute():
                self.line(f"{self.name(statement.result)} = {self.value(statement.function, statement.operands)}")
            case loops.Row():
                self.undefined(statement.name, statement.extents, np.float32(np.nan))
            case loops.Accumulator():
                self.line(f"{self.name(statement.name)} = {self.constant(np.float32(statement.start))}")
            case loops.Accumulate():
                self.accumulate(statement)
            case loops.Store():
                value = self.value(statement.function, statement.operands)
                self.line(f"{self.element(statement.target, statement.indices)} = {value}")
            case _:
                raise TypeError(f"not a statement of loops: {statement!r}")
        defined = self.result_of(statement)
        if defined and isinstance(statement, (loops.Load, loops.Compute)) and self.wide(self.reads_of(statement)):
            self.vectors.add(defined)

    def bound_index(self, index: loops.Index) -> None:
        """Notes what an index may be that others give."""
        spans = [self.span(operand) for operand in index.operands]
        if index.function in MONOTONOUS and None not in spans:
            ends = [INDEX_FUNCTIONS[index.function](*each) for each in product(*(span for span in spans if span))]
            self.bound(index.result, min(ends), max(ends))

    def loop(self, bounds: str, loop: loops.For | Any) -> None:
        if places := self.alone(loop):
            self.at_once(loop, places)
        else:
            self.trips(bounds, loop)

    def trips(self, bounds: str, loop: loops.For | Any) -> None:
        """A loop's iterations, one after another."""
        lower, upper = self.span(loop.lower), self.span(loop.extent)
        if lower and upper and lower[0] < upper[1]:
            self.bound(loop.variable, lower[0], upper[1] - 1)
            if lower[0] == lower[1] and upper[0] == upper[1] <= lower[0] + loop.step:
                self.line(f"{self.name(loop.variable)} = {lower[0]}")
                self.each(loop.body)
                return
        with self.inside(f"for {self.name(loop.variable)} in range({bounds}):"):
            self.each(loop.body)

    def each(self, statements: Sequence[Node]) -> None:
        """Writes some statements, one after another."""
        for statement in statements:
            self.statement(statement)

    def alone(self, loop: loops.For | Any) -> dict[str, int | str]:
        """The widths of a loop's places where its iterations may be done side by side; nothing where they may not."""
        elements = elements_at_once(loop, self.sizes)
        if not elements:
            return {}
        defined = {self.result_of(node) for node in walk(loop)}
        places = places_of(loop, (self.widths.keys() | self.vectors) - defined, self.arrays, self.indices)
        return dict.fromkeys(places, elements)

    def at_once(self, loop: loops.For | Any, widths: dict[str, int | str]) -> None:
        """A loop's iterations side by side: its indices have such widths, and its accumulators are vectors."""
        before = self.widths, self.vectors, self.wide_sums, self.folded
        inside = {node.name for node in walk(loop) if isinstance(node, loops.Accumulator)}
        self.widths, self.vectors, self.wide_sums = self.widths | widths, self.vectors | inside, self.wide_sums | inside
        self.folded += sums_of(loop)
        self.line(f"{self.name(loop.variable)} = {self.atom(loop.lower)}")
        if first := self.span(loop.lower):
            self.bound(loop.variable, *first)
        self.each(loop.body)
        self.widths, self.vectors, self.wide_sums, self.folded = before

    def undefined(self, name: str, extents: Sequence[Atom], value: np.generic) -> None:
        """An array of static extents that holds `value` until it is stored in."""
        fresh = f"{self.name(name)}_fresh"
        known = [span[0] for extent in extents if (span := self.span(extent)) and span[0] == span[1]]
        if name in self.once and len(known) == len(extents):
            self.shapes[name] = tuple(known)
        shape = "".join(f"{self.atom(extent)}, " for extent in extents)
        self.head(f"{fresh} = {self.constant(np.full)}(({shape}), {self.constant(value)})")
        self.line(f"{self.name(name)} = {fresh}.copy()")

    def accumulate(self, statement: loops.Accumulate) -> None:
        """Into an element, a vector of them, or an accumulator; a vector that goes into a scalar is reduced."""
        value = self.value(statement.function, statement.operands)
        if any(statement is each for each in self.folded):
            target = self.name(statement.target)
            self.line(f"{target} = {self.constant(folded)}({self.constant(statement.reduction)}, {target}, {value})")
            return
        stays = self.wide(statement.indices) or statement.target in self.wide_sums
        if self.wide(statement.operands) and not stays:
            value = f"{self.constant(_joined)}({self.constant(_combination(statement.reduction))}, {value})"
        target = self.element(statement.target, statement.indices) if statement.indices else self.name(statement.target)
        self.line(f"{target} = {self.combined(statement.reduction, target, value)}")


@lru_cache(maxsize=TEXTS_KEPT)
def _code(text: str) -> CodeType:
    """A text that Python has read: those of kernels that differ in names alone are the same."""
    return compile(text, "<statements>", "exec")


def _combination(reduction: str) -> Callable[[Number, Number], Number]:
    return {"sum": OPERATORS["add"], "product": OPERATORS["mul"]}.get(reduction, REDUCTIONS[reduction])


def _joined(combine: Callable[[Number, Number], Number], value: Number) -> Number:
    """A vector's elements, one after another."""
    return reduce(combine, value) if np.ndim(value) else value


def folded(reduction: str, start: Number, values: Number) -> Number:
    """What a number comes to when each of some is put to it in turn."""
    return REDUCTIONS[reduction].accumulate(np.concatenate(([start], values)))[-1]
