"""Statements of the loops as a Python function: a nest's statements run so often that reading them anew each time is
what an interpreter would spend its time on.

Each statement becomes one line of Python that says the same of NumPy arrays and float32 numbers, in the same order.
Names become `v0`, `v1`, ...: no name of a program is a word of the text. Python takes 20 loops inside one another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from explorer.compiler.interpret.functions import FUNCTIONS, REDUCTIONS
from explorer.compiler.interpret.guarded import is_guarding, outside
from explorer.compiler.ir import loops
from explorer.compiler.ir.functions import SIGNS
from explorer.compiler.ir.index_functions import INDEX_FUNCTIONS
from explorer.compiler.ir.node import Atom, Node, walk

Environment = dict[str, Any]
"""Names and what they stand for: numbers, indices, rows and buffers."""

INFIX_REDUCTIONS = {"sum": "+", "product": "*"}
"""What is one of Python's operators, as infix functions are: single numbers are added several times as fast by it."""


class Text:
    """The text of a function as it grows, and what its names stand for.

    `body` is what the function does; `arrays` tells of all arrays, by name, how many dimensions they have; those of
    `indices` hold indices."""

    def __init__(self, body: Sequence[Node], arrays: Mapping[str, int], indices: frozenset[str]) -> None:
        nodes = [node for statement in body for node in walk(statement)]
        self.arrays, self.indices = arrays, indices
        self.inner = frozenset(name for node in nodes if (name := self.result_of(node)))
        written = {node.target for node in nodes if isinstance(node, loops.Store | loops.Accumulate)}
        self.lists = indices - written - self.inner  # read as Python lists, which is the fastest
        self.checks = is_guarding()
        self.known: dict[str, Any] = {}  # constants and functions, by their names in the text
        self._names: dict[str, str] = {}
        self._heads: dict[str, None] = {}  # what is done once, at the start
        self._lines: list[str] = []
        self._depth = 1
        for statement in body:
            self.statement(statement)

    def function(self, results: Sequence[str] = ()) -> Callable[[Environment], tuple[Any, ...]]:
        """The function: it does the body in an environment, and returns what some of the body's names stand for."""
        returned = f" return ({''.join(f'{self.name(name)}, ' for name in results)})"
        text = "\n".join(["def run(environment):", *self._heads, *self._lines, returned])
        exec(compile(text, "<statements>", "exec"), self.known)
        run: Callable[[Environment], tuple[Any, ...]] = self.known["run"]
        return run

    def result_of(self, node: Node) -> str | None:
        """The name that a statement defines, if any."""
        return loops.result_of(node)

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
        """One index of an access."""
        return self.atom(index)

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
        inside = " and ".join(
            f"0 <= {text} <= {array}.shape[{place}] - {self.width(index)}"
            for place, (text, index) in enumerate(zip(texts, indices, strict=True))
        )
        told = f"{self.constant(outside)}({self.constant(name)}, {array}.shape, {', '.join(texts)})"
        self.line(f"if not ({inside}): {told}")

    def width(self, index: Atom) -> int:
        """How many elements an index stands for."""
        return 1

    def loaded(self, name: str, indices: tuple[Atom, ...]) -> str:
        """What a load gives: a float32 number, or a Python integer."""
        if name in self.lists and len(indices) == 1:
            array = self.array(name, indices)
            self.check(name, indices)
            self.head(f"{array}_list = {array}.tolist()")
            return f"{array}_list[{self.index(indices[0])}]"
        element = self.element(name, indices)
        return f"int({element})" if name in self.indices else element

    def load(self, load: loops.Load) -> str:
        """The value of a load."""
        return self.loaded(load.buffer, load.indices)

    def value(self, function: str, operands: tuple[Atom, ...]) -> str:
        """The value of an expression."""
        texts = [self.atom(operand) for operand in operands]
        if function == "copy":
            return texts[0]
        if function in SIGNS:
            return f" {SIGNS[function]} ".join(texts)
        return f"{self.constant(FUNCTIONS[function])}({', '.join(texts)})"

    def index_value(self, function: str, operands: tuple[Atom, ...]) -> str:
        """The same of indices."""
        texts = [self.atom(operand) for operand in operands]
        if function in loops.INFIX_INDEX:
            return f" {loops.INFIX_INDEX[function]} ".join(texts)
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

    def loop(self, bounds: str, loop: loops.For | Any) -> None:
        with self.inside(f"for {self.name(loop.variable)} in range({bounds}):"):
            for inner in loop.body:
                self.statement(inner)

    def undefined(self, name: str, extents: Sequence[Atom], value: np.generic) -> None:
        """An array of static extents that holds `value` until it is stored in."""
        fresh = f"{self.name(name)}_fresh"
        shape = "".join(f"{self.atom(extent)}, " for extent in extents)
        self.head(f"{fresh} = {self.constant(np.full)}(({shape}), {self.constant(value)})")
        self.line(f"{self.name(name)} = {fresh}.copy()")

    def accumulate(self, statement: loops.Accumulate) -> None:
        """Into an element or an accumulator."""
        value = self.value(statement.function, statement.operands)
        target = self.element(statement.target, statement.indices) if statement.indices else self.name(statement.target)
        self.line(f"{target} = {self.combined(statement.reduction, target, value)}")
