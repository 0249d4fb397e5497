"""Writes the one loop of a maximum and of the sums that wait for it (`online`), element by element.

The sums are proportional to exp(-m): where the maximum has grown from m to m', each is multiplied by exp(m - m') before
the element is added to it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import field, replace

from explorer.compiler.frozen import dataclass
from explorer.compiler.ir import loops
from explorer.compiler.ir.node import Atom, Names, Origin, once, walk
from explorer.compiler.ir.statements import loop_origin, names_read, rename, written_names


class Refusal(Exception):
    """Why the loops cannot be one."""


@dataclass(frozen=True)
class Maximum:
    """`m = -inf; for e { ... m max= x }; u = unless_empty(m)`: an accumulator, or a row that has an element a head."""

    name: str
    loop: loops.For
    reduction: loops.Accumulate
    start: loops.Statement  # the accumulator, or the loops that fill the row
    end: loops.Statement  # the scalar, or the loops that end each element in place

    @property
    def result(self) -> str:
        """What the sums read: the ended scalar or the row."""
        return self.end.result if isinstance(self.end, loops.Compute) else self.name


@dataclass(frozen=True)
class Sums:
    """A loop whose sums wait for the maximum. `inner` is its loop over the elements: itself, or one inside it."""

    loop: loops.For
    inner: loops.For
    proportional: frozenset[str]
    along: str  # the map from the elements to where the inner loop is, if the two differ

    @property
    def nested(self) -> bool:
        """Whether the loop over the elements is inside."""
        return self.inner is not self.loop


@dataclasses.dataclass
class _Block:
    """Statements that grow: what another loop has computed of the same element already is not computed again."""

    parent: _Block | None = None
    body: list[loops.Statement] = field(default_factory=list)
    known: dict[object, Atom] = field(default_factory=dict)

    def find(self, key: object) -> Atom | None:
        block: _Block | None = self
        while block is not None:
            if key in block.known:
                return block.known[key]
            block = block.parent
        return None


@once
def _changing(kernel: loops.Kernel) -> frozenset[str]:
    """The accumulators and rows of a kernel."""
    return frozenset(node.name for node in walk(kernel) if isinstance(node, (loops.Accumulator, loops.Row)))


class Merging:
    """Writes the one loop: the maximum's body, then those of the sums, element by element."""

    def __init__(self, largest: Maximum, kernel: loops.Kernel, names: Names, host: Sums, guests: list[Sums]) -> None:
        self.largest, self.host, self.guests, self.names = largest, host, guests, names
        self.constant = {buffer.name for buffer in kernel.buffers if buffer.kind != "output"}
        self.changing = _changing(kernel)
        self.renamed: dict[str, str] = {}
        self.elements = _Block()
        self.heads: tuple[loops.For, _Block] | None = None
        self.behind: set[str] = set()  # what is defined or written after the loop over the heads
        self.now = self.shrink = ""

    def loop(self, before: Sequence[loops.Statement]) -> loops.For:
        """The one loop, which follows `before`."""
        surroundings = _Block()
        for statement in before:
            self.remember(statement, surroundings)
        host = self.host
        if not host.nested:
            return self.element_loop(host.inner, surroundings)
        return self.outer_loop(surroundings)

    def remember(self, statement: loops.Statement, block: _Block) -> None:
        key = self.key(statement)
        if key is not None:
            block.known.setdefault(key, loops.result_of(statement) or "")

    def key(self, statement: loops.Statement) -> object:
        """What a statement computes, if that is the same wherever it is computed."""
        match statement:
            case loops.Load() if statement.buffer in self.constant:
                return statement.buffer, statement.indices
            case loops.Index() | loops.Compute() if self.changing.isdisjoint(map(str, statement.operands)):
                return type(statement), statement.function, statement.operands
        return None

    # Around the elements

    def outer_loop(self, surroundings: _Block) -> loops.For:
        """The loop around the loop over the elements. What it adds itself is rescaled once an iteration."""
        loop, inner = self.host.loop, self.host.inner
        block = _Block(surroundings)
        place = next(at for at, s in enumerate(loop.body) if s is inner)
        before, after = loop.body[:place], loop.body[place + 1 :]
        if self.largest.reduction.indices:
            raise Refusal("its loops are not the same, and it has an element a head")
        if self.largest.result in names_read((*before, *after)):
            raise Refusal("what waits for it is computed around the loop over the elements")
        sums = _sums_of(after, loop, self.host)
        if sums & written_names([inner]) or sums & written_names(before):
            raise Refusal("a sum is added to both in and around the loop over the elements")
        origin = self.largest.reduction.origin
        earlier = self.names.new("before")
        if sums:
            block.body.append(self.read_maximum(earlier, (), origin))
        for statement in before:
            self.remember(statement, block)
            block.body.append(statement)
        block.body.append(self.element_loop(inner, block))
        if sums:
            _, shrink = self.rescale(block, earlier, (), origin)
            after = _rescaling(after, sums, shrink)
        block.body += after
        return replace(loop, body=tuple(block.body), origin=loop_origin(block.body, loop.extent))

    def read_maximum(self, result: str, indices: tuple[Atom, ...], origin: Origin) -> loops.Statement:
        if indices:
            return loops.Load(result=result, buffer=self.largest.name, indices=indices, origin=origin)
        return loops.Compute(result=result, function="copy", operands=(self.largest.name,), origin=origin)

    def rescale(self, block: _Block, earlier: str, indices: tuple[Atom, ...], origin: Origin) -> tuple[str, str]:
        """The maximum as it is now, and exp of how far it has grown, negated: what the sums shrink by."""
        now, grown, shrink = self.names.new("now"), self.names.new("u"), self.names.new("shrink")
        block.body += [
            self.read_maximum(now, indices, origin),
            loops.Compute(result=grown, function="sub", operands=(earlier, now), origin=origin),
            loops.Compute(result=shrink, function="exp", operands=(grown,), origin=origin),
        ]
        return now, shrink

    # The elements

    def element_loop(self, inner: loops.For, surroundings: _Block) -> loops.For:
        """The loop over the elements: x, the maximum, then every sum, each rescaled before it is added to."""
        block = self.elements = _Block(surroundings)
        if self.host.nested:
            block.known[self.host.along, (inner.variable,)] = self.host.loop.variable
        self.renamed[self.largest.loop.variable] = inner.variable
        for statement in self.largest.loop.body:
            self.append(statement, block)
        shrink = self.maximum()
        for each in (*self.guests, self.host):
            sums = _sums_of(each.inner.body, each.inner, each)
            self.renamed[each.inner.variable] = inner.variable
            for statement in _rescaling(each.inner.body, sums, shrink):
                self.append(statement, block)
        if self.heads is not None:
            loop, body = self.heads[0], self.heads[1].body
            made = replace(loop, body=tuple(body), origin=loop_origin(body, loop.extent))
            block.body = [made if s is loop else s for s in block.body]
        return replace(inner, body=tuple(block.body), origin=loop_origin(block.body, inner.extent))

    def maximum(self) -> str:
        """`before = m; m max= x; now = m; shrink = exp(before - now)`, in the loop over the heads if there is one;
        the name of what sums shrink by."""
        reduction = self.largest.reduction
        block = self.elements if self.heads is None else self.heads[1]
        earlier, largest = self.names.new("before"), rename(reduction, self.renamed)
        assert isinstance(largest, loops.Accumulate)
        block.body += [self.read_maximum(earlier, largest.indices, reduction.origin), largest]
        now, shrink = self.rescale(block, earlier, largest.indices, reduction.origin)
        if not largest.indices:
            self.renamed[self.largest.result] = now
        self.now, self.shrink = now, shrink
        return shrink

    def append(self, statement: loops.Statement, block: _Block) -> None:
        """Appends a statement, unless its result is known; the loops over the heads become one."""
        if statement is self.largest.reduction:
            return
        if isinstance(statement, loops.For):
            self.append_loop(statement, block)
            return
        if self.reads_element(statement):
            self.renamed[loops.result_of(statement) or ""] = self.now
            return
        renamed = self.moved(statement)
        key = self.key(renamed)
        known = None if key is None else block.find(key)
        if known is not None:
            self.renamed[loops.result_of(statement) or ""] = str(known)
            return
        self.remember(renamed, block)
        reads = set(loops.reads_of(renamed))
        if self.heads is None:
            block.body.append(renamed)
        elif block is self.heads[1]:
            self.check_order(reads)
            block.body.append(renamed)
        elif key is not None and self.behind.isdisjoint(reads):
            block.body.insert(next(at for at, s in enumerate(block.body) if s is self.heads[0]), renamed)
        else:
            self.behind |= {loops.result_of(renamed) or ""} | written_names([renamed])
            self.append_behind(renamed, block)

    def append_loop(self, loop: loops.For, block: _Block) -> None:
        reduction = self.largest.reduction
        if block is self.elements and self.heads is None and any(s is reduction for s in loop.body):
            self.heads = (loop, _Block(block))
            block.body.append(loop)
            for inner in loop.body:
                self.append(inner, self.heads[1])
            return
        heads = self.heads
        if heads is not None and block is self.elements and any(self.is_element(s, loop.variable) for s in loop.body):
            if (loop.lower, loop.extent) != (heads[0].lower, heads[0].extent):
                raise Refusal("its sums run over other heads")
            self.renamed[loop.variable] = heads[0].variable
            for inner in loop.body:
                self.append(inner, heads[1])
            return
        renamed = self.moved(loop)
        if heads is not None and block is heads[1]:
            self.check_order(names_read([renamed]))
            block.body.append(renamed)
        elif heads is not None:
            self.behind |= written_names([renamed])
            self.append_behind(renamed, block)
        else:
            block.body.append(renamed)

    def append_behind(self, statement: loops.Statement, block: _Block) -> None:
        """After the loop over the heads, in which alone a head's maximum is known."""
        if {self.now, self.shrink} & names_read([statement]):
            raise Refusal("its sums are not taken head by head")
        block.body.append(statement)

    def check_order(self, reads: set[str]) -> None:
        if reads & self.behind:
            raise Refusal("the loops over the heads cannot be one")

    def is_element(self, statement: loops.Statement, variable: str) -> bool:
        match statement:
            case loops.Load(buffer=buffer, indices=indices):
                return buffer == self.largest.name and indices == (variable,)
        return False

    def reads_element(self, statement: loops.Statement) -> bool:
        """Whether a statement reads the maximum of the head that the loop is at."""
        if self.heads is None or not isinstance(statement, loops.Load):
            return False
        renamed = rename(statement, self.renamed)
        return self.is_element(renamed, self.heads[0].variable)

    def moved(self, statement: loops.Statement) -> loops.Statement:
        """A statement or loop in the names of the one loop."""
        if isinstance(statement, loops.For):
            lower, extent = (self.renamed.get(str(bound), bound) for bound in (statement.lower, statement.extent))
            return replace(statement, lower=lower, extent=extent, body=tuple(map(self.moved, statement.body)))
        if isinstance(statement, loops.Load) and statement.buffer == self.largest.name:
            raise Refusal("another head's is read")
        return rename(statement, self.renamed)


def _sums_of(body: Sequence[loops.Statement], loop: loops.For, sums: Sums) -> set[str]:
    """What is proportional to exp(-m) and outlives an iteration of `loop`, of what the body of it adds to: what must
    shrink before it is added to. What starts anew in an iteration, at whatever depth, is of one maximum."""
    found = written_names(body) & sums.proportional
    found -= {name for node in walk(loop) if (name := loops.result_of(node)) is not None}
    if found & _values(loop):
        raise Refusal("a sum is read while it is added to")
    for name in found:
        if _times_added(body, name, ()) != 1:
            raise Refusal(f"{name} is added to more than once an iteration")
    return found


def _values(loop: loops.For) -> set[str]:
    """What the statements of a loop compute with and load from; what they only add to is not among it."""
    found: set[str] = set()
    for node in walk(loop):
        match node:
            case loops.Load():
                found.add(node.buffer)
            case loops.Compute() | loops.Accumulate() | loops.Store():
                found |= set(map(str, node.operands))
    return found


def _times_added(body: Sequence[loops.Statement], name: str, around: tuple[str, ...]) -> int:
    """How often an iteration adds to each element of a sum, 2 for any number above 1: a loop `around` whose variable
    is not a place in it adds to one element again and again."""
    times = 0
    for statement in body:
        if isinstance(statement, loops.For):
            times += _times_added(statement.body, name, (*around, statement.variable))
        elif isinstance(statement, (loops.Accumulate, loops.Store)) and statement.target == name:
            times += 1 if set(around) <= set(statement.indices) else 2
    return min(times, 2)


def _rescaling(body: Sequence[loops.Statement], sums: Iterable[str], shrink: str) -> tuple[loops.Statement, ...]:
    """The statements, with each sum rescaled before it is added to."""
    result: list[loops.Statement] = []
    for statement in body:
        if isinstance(statement, loops.For):
            statement = replace(statement, body=_rescaling(statement.body, sums, shrink))
        elif isinstance(statement, loops.Accumulate) and statement.target in sums:
            result.append(replace(statement, reduction="product", function="copy", operands=(shrink,)))
        result.append(statement)
    return tuple(result)
