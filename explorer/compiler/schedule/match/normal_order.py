"""Brings a nest's statements into an order that depends on what they compute alone, before anything is matched.

Statements that read nothing of each other may stand in any order, and what passes and people write into the `loops`
stage stands in some. Matchers read statements in sequence: a row, what clears it, the loop that adds to it. So each
body is put together again from what it leaves behind, depth first: a statement comes directly behind what it needs,
that behind what it needs. Whatever order it had, the nest is the same (a normal form of Mazurkiewicz's traces).

    begin = ptr[n]             row y[K]
    row y[K]                   for k { y[k] = 0.0 }
    end = ptr[n1]         →    begin = ptr[n]
    for k { y[k] = 0.0 }       end = ptr[n1]
    for e in begin..end ..     for e in begin..end ..
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field

from explorer.compiler.frozen import dataclass, replace
from explorer.compiler.ir import loops
from explorer.compiler.ir.node import Node, walk
from explorer.compiler.ir.statements import pure

Body = tuple[loops.Statement, ...]
Place = tuple[int, str, int]
Key = tuple[Place, int, str]
WRITES = (loops.For, loops.Store, loops.Accumulate)


def in_normal_order(kernel: loops.Kernel) -> loops.Kernel:
    """The kernel with every body in normal order; the same object where each is already."""
    body = _normal(kernel.body, _places(kernel)).body
    return kernel if body is kernel.body else replace(kernel, body=body)


def _places(kernel: loops.Kernel) -> dict[str, Place]:
    """Where the names of a kernel come among others: outputs by their buffers, then rows by letters and number, then
    accumulators, then scalars."""
    places: dict[str, Place] = {buffer.name: (_OUTPUT, "", place) for place, buffer in enumerate(kernel.buffers)}
    for node in walk(kernel):
        name = loops.result_of(node)
        if name is not None:
            kind = _ROW if isinstance(node, loops.Row) else _SUM if isinstance(node, loops.Accumulator) else _SCALAR
            letters = name.rstrip("0123456789")
            places[name] = (kind, letters, int(name[len(letters) :] or 0))
    return places


_OUTPUT, _ROW, _SUM, _SCALAR = range(4)


@dataclass(frozen=True)
class _Normal:
    """A body in normal order, with the names that it reads, in the order in which its expressions do, and those that it
    writes."""

    body: Body
    reads: tuple[str, ...]
    writes: frozenset[str]


def _normal(body: Body, places: Mapping[str, Place]) -> _Normal:
    """A body in normal order, those of its loops too."""
    if len(body) == 1 and not isinstance(body[0], loops.For):  # as most that clear rows are
        return _Normal(body, *_with_names(body[0], places)[1:])
    steps, overwritten = _steps(body, places)
    needed = {number for step in steps for number in step.before}
    stand = _DepthFirst(steps, overwritten)
    for root in sorted(range(len(steps)), key=lambda n: _root(steps[n])):
        if root not in needed or steps[root].key[0][0] == _OUTPUT:
            stand.visit(root)
    result = tuple(steps[number].statement for number in stand.order)
    same = all(new is old for new, old in zip(result, body, strict=True))
    defined = {loops.result_of(statement) for statement in body}
    written = frozenset(name for step in steps for name in step.writes if name not in defined)
    return _Normal(body if same else result, tuple(name for name in stand.reads if name not in defined), written)


def _root(step: _Step) -> tuple[bool, bool, bool, Key]:
    """What comes first of what a body leaves behind: outputs, then statements, then loops; copies in each last."""
    inside, loop = step.key[0][0] != _OUTPUT, isinstance(step.statement, loops.For)
    copy = isinstance(step.statement, loops.Store) and step.statement.function == "copy"
    return inside, inside and loop, inside and copy, step.key


@dataclass(frozen=True)
class _Step:
    """A statement of a body, by what it reads, in turn, and writes or defines.

    `sources` are the steps, by number, that defined or wrote last what it reads, by name; `before` all that have to
    come before it, by their keys, each of which no other step has. `scalar` says whether it names one of what is known
    before anything is written, `segment` whether it or what it needs is a loop over a segment; `copies` are the steps
    that store the value that it names."""

    statement: loops.Statement
    reads: tuple[str, ...]
    writes: frozenset[str]
    sources: dict[str, int]
    before: tuple[int, ...]
    key: Key
    scalar: bool
    segment: bool
    copies: list[int] = field(default_factory=list)


def _steps(body: Body, places: Mapping[str, Place]) -> tuple[list[_Step], frozenset[int]]:
    """The statements as steps, and which of them read what is written behind them: what reads a name comes behind what
    defined or wrote it last, what writes one also behind what has read it since."""
    steps: list[_Step] = []
    last: dict[str, int] = {}
    since: dict[str, list[int]] = {}
    depths: list[int] = []
    overwritten: set[int] = set()
    for number, statement in enumerate(body):
        statement, reads, writes = _with_names(statement, places)
        sources = {name: last[name] for name in reads if name in last}
        readers = {reader for name in writes for reader in since.pop(name, ())}
        overwritten |= readers
        needed = {*sources.values(), *readers, *(last[name] for name in writes if name in last)}
        before = tuple(sorted(needed, key=lambda n: steps[n].key))
        for name in reads:
            since.setdefault(name, []).append(number)
        if isinstance(statement, loops.Store) and statement.function == "copy" and statement.operands[0] in sources:
            steps[sources[str(statement.operands[0])]].copies.append(number)
        last.update(dict.fromkeys(writes, number))
        depths.append(1 + max((depths[each] for each in before), default=0))
        key = (min(places[name] for name in writes), depths[number], loops.result_of(statement) or "")
        scalar = pure(statement) and all(steps[each].scalar for each in before)
        segment = _over_segment(statement, places) or any(steps[each].segment for each in before)
        steps.append(_Step(statement, reads, writes, sources, before, key, scalar, segment))
    for step in steps:
        step.copies.sort(key=lambda n: steps[n].key)
    return steps, frozenset(overwritten)


def _with_names(
    statement: loops.Statement, places: Mapping[str, Place]
) -> tuple[loops.Statement, tuple[str, ...], frozenset[str]]:
    """A statement, a loop with its body in normal order, with what it reads, in turn, and writes or defines."""
    reads = loops.reads_of(statement)
    if isinstance(statement, loops.For):
        inside = _normal(statement.body, places)
        if inside.body is not statement.body:
            statement = replace(statement, body=inside.body)
        reads = tuple(dict.fromkeys((*(name for name in inside.reads if name != statement.variable), *reads)))
        return statement, reads, inside.writes or frozenset({statement.variable})
    if isinstance(statement, loops.Accumulate):
        return statement, (*reads[1:], statement.target), frozenset({statement.target})
    if isinstance(statement, loops.Store):
        return statement, reads, frozenset({statement.target})
    return statement, reads, frozenset({loops.result_of(statement) or ""})


def _over_segment(statement: loops.Statement, places: Mapping[str, Place]) -> bool:
    """Whether a statement is a loop whose bounds are scalars."""
    return isinstance(statement, loops.For) and any(name in places for name in loops.reads_of(statement))


@dataclass(frozen=True)
class _DepthFirst:
    """The numbers of the steps that stand, in order, and the names that they read, in turn; `searched` are the steps
    of which the scalars stand already."""

    steps: Sequence[_Step]
    overwritten: frozenset[int]
    order: dict[int, None] = field(default_factory=dict)
    reads: dict[str, None] = field(default_factory=dict)
    searched: set[int] = field(default_factory=set)

    def visit(self, root: int) -> None:
        """Puts a step behind what it needs."""
        waiting = [(root, self._turns(root))]
        while waiting:
            number, turns = waiting[-1]
            turn = next(turns, None)
            if turn is None:
                waiting.pop()
                self._put(number)
            elif isinstance(turn, str):
                self.reads.setdefault(turn)
            elif turn not in self.order:
                waiting.append((turn, self._turns(turn)))

    def _put(self, number: int) -> None:
        """A step, and behind it what stores the value that it names, where nothing is missing for that."""
        self.order.setdefault(number)
        for copy in self.steps[number].copies:
            if all(each in self.order for each in self.steps[copy].before):
                self.order.setdefault(copy)

    def _turns(self, number: int) -> Iterator[int | str]:
        """What a statement needs, steps by their numbers, and reads, by name, in turn."""
        step = self.steps[number]
        if isinstance(step.statement, loops.For):
            bounds = [step.sources[name] for name in loops.reads_of(step.statement) if name in step.sources]
            yield from self._before_segment(number, bounds) if bounds else self._before_loop(number)
            yield from step.before
            yield from step.reads
            return
        if isinstance(step.statement, loops.Accumulate) and step.statement.target in step.sources:
            earlier = self.steps[step.sources[step.statement.target]]  # what is added to one sum is computed together
            yield from filter(self._is_pure, earlier.sources.values())
        for name in step.reads:
            if name in step.sources and step.sources[name] not in self.overwritten:
                yield step.sources[name]
            yield name
        yield from step.before

    def _before_segment(self, number: int, bounds: list[int]) -> Iterator[int]:
        """What a loop over a segment needs: sums over others; the first sum that it adds to, the bounds, the other
        sums; the scalars, and what fills the rows that it reads."""
        loop = self.steps[number]
        own = [n for n in loop.before if self._is(loops.Accumulator, n) or self.steps[n].writes & loop.writes]
        yield from (n for n in loop.before if self.steps[n].segment and n not in own)
        yield from own[:1]
        yield from bounds
        yield from own[1:]
        yield from self._scalars(number)

    def _before_loop(self, number: int) -> Iterator[int]:
        """What another loop needs: accumulators, sums over segments; the scalars of what fills the rows that it reads,
        and that itself; its own rows, and its own scalars."""
        loop = self.steps[number]
        writes = [n for n in loop.before if isinstance(self.steps[n].statement, WRITES)]
        fills = [n for n in writes if not self.steps[n].writes & loop.writes]
        yield from (n for n in loop.before if self._is(loops.Accumulator, n))
        yield from (n for n in writes if self.steps[n].segment)
        if fills:
            yield from self._scalars(number)
        yield from fills
        yield from (n for n in loop.before if self._is_pure(n) and not self.steps[n].scalar)
        yield from (n for n in loop.before if self._is(loops.Row, n))
        yield from self._scalars(number)

    def _scalars(self, loop: int) -> Iterator[int]:
        """The scalars that a loop needs, and those that the loops need that fill its rows, as they are read; where
        these walk segments, they have theirs in front of them."""
        waiting = [iter((loop,))]
        while waiting:
            number = next(waiting[-1], None)
            if number is None:
                waiting.pop()
            elif self.steps[number].scalar:
                yield number
            elif number not in self.searched and (number == loop or not self.steps[number].segment):
                self.searched.add(number)
                waiting.append(iter(self.steps[number].sources.values()))

    def _is(self, kind: type[Node], number: int) -> bool:
        return isinstance(self.steps[number].statement, kind)

    def _is_pure(self, number: int) -> bool:
        return pure(self.steps[number].statement)
