"""Flattens a score's negatives: a product for each candidate becomes a loop over all of them, [B, N] an array [BN].

A candidate needs its own product with a matrix of its triple's relation. As rows `n` of a loop over all candidates,
`b = n // N` their triple, they are grouped by relation and multiplied as tiles like any other rows; what is the
triple's is read by neighbouring rows, which share it in the caches (cuKE §V, §VII-B). Where the product is the triple's
own, it is done before, once for all of its candidates. Chunks are of candidates too, so for these every loop is flat.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import product

from explorer.compiler.frozen import dataclass
from explorer.compiler.ir import loops
from explorer.compiler.ir.kernels import Count
from explorer.compiler.ir.loops import Buffer
from explorer.compiler.ir.node import Atom, Names, walk
from explorer.compiler.ir.statements import alive, all_names, names_read, pure, written_names
from explorer.compiler.report import Report
from explorer.compiler.schedule.distribute.products.split_products import cut
from explorer.compiler.schedule.distribute.split_sums import without_copies
from explorer.compiler.schedule.edit.inline import inlined
from explorer.compiler.schedule.edit.nests import Body, array_of_each, every_loop, multiplies, stored_in
from explorer.compiler.unsupported import Unsupported


@dataclass(frozen=True)
class Flat:
    """The flattened kernels. `count` is the extent of all candidates, `17 * B`; None where nothing was flattened."""

    kernels: tuple[loops.Kernel, ...]
    count: tuple[str, Count] | None


def flatten_negatives(kernels: Sequence[loops.Kernel], report: Report, *, every: bool = False) -> Flat:
    """The kernels with loops over all candidates, and their arrays flat in these, where a kernel of triples with
    candidates multiplies, or is over all candidates already; with `every` also where it does neither. Raises
    Unsupported for a kernel over all candidates that is more than a loop over each."""
    found = _candidates(kernels, every)
    if found is None:
        return Flat(tuple(kernels), None)
    batch, count = found
    names = Names({name for kernel in kernels for name in (*all_names(kernel), kernel.name)})
    extent = _extent_of_all(kernels, count) or names.new("BN")
    flattening = _Flattening(batch, count, extent, names, report, every)
    flat = tuple(part for kernel in kernels for part in flattening.parts(kernel))
    return Flat(flat, (extent, Count(((batch, 1),), count)))


def _candidates(kernels: Iterable[loops.Kernel], every: bool) -> tuple[str, int] | None:
    """The extents of a batch's ids of candidates, where they are to be one."""
    for kernel in kernels:
        shapes = {buffer.extents for buffer in kernel.buffers if buffer.kind == "index" and len(buffer.extents) == 2}
        loop = every_loop(kernel)
        for batch, count in shapes:
            if loop is None or not isinstance(batch, str) or not isinstance(count, int):
                continue
            goes = loop.extent == batch and any(_of_candidates(kernel, loop, s, count) for s in loop.body)
            if (goes and (every or any(map(multiplies, loop.body)))) or _is_divided(loop, count):
                return batch, count
    return None


def _is_divided(loop: loops.For, count: int) -> bool:
    """Whether a loop is over all candidates: its variable is divided into the triple and the candidate."""
    nodes = [node for node in walk(loop) if isinstance(node, loops.Index)]
    functions = {node.function for node in nodes if node.operands == (loop.variable, count)}
    return functions == {"div", "mod"} or (count == 1 and functions == {"mod"})


def _of_candidates(kernel: loops.Kernel, rows: loops.For, statement: loops.Statement, count: int) -> bool:
    """Whether a statement is a loop over a triple's candidates: it goes along the second dimension of an array whose
    first is the batch."""
    if not isinstance(statement, loops.For) or (statement.lower, statement.extent) != (0, count):
        return False
    shaped = {buffer.name for buffer in kernel.buffers if buffer.extents[:2] == (rows.extent, count)}
    at = (rows.variable, statement.variable)
    nodes = [node for node in walk(statement) if isinstance(node, (loops.Load, loops.Store))]
    return any(loops.array_of(node) in shaped and node.indices[:2] == at for node in nodes)


def _extent_of_all(kernels: Iterable[loops.Kernel], count: int) -> str | None:
    """The name that the extent of all candidates has already: that of a loop over them, or of an order of them."""
    for kernel in kernels:
        loop = every_loop(kernel)
        if loop is not None and _is_divided(loop, count):
            return str(loop.extent)
        orders = {buffer.name: str(buffer.extents[0]) for buffer in kernel.buffers if buffer.kind == "index"}
        nodes = list(walk(kernel))
        divided = {n.operands[0] for n in nodes if isinstance(n, loops.Index) and n.function == "div"}
        for node in nodes:
            if isinstance(node, loops.Load) and node.buffer in orders and node.result in divided:
                return orders[node.buffer]
    return None


@dataclass(frozen=True)
class _Flattening:
    """What all kernels have in common: the batch's extent, how many candidates a triple has, the extent of all."""

    batch: str
    count: int
    extent: str
    names: Names
    report: Report
    every: bool

    def parts(self, kernel: loops.Kernel) -> tuple[loops.Kernel, ...]:
        """A kernel, or those that it is cut into."""
        loop = every_loop(kernel)
        if loop is not None and not loop.parallel:
            *before, last = inlined(loop.body, self.names)
            adds = self._of_candidates(kernel, loop, last) and all(map(pure, before))
            return (self._spread(kernel, loop, tuple(before), last) if adds else self._in_place(kernel),)
        if loop is not None:
            body = without_copies(kernel, loop)
            at = next((p for p, s in enumerate(body) if self._is_flat(kernel, loop, s)), None)
            if at is not None:
                return self._cut(replace(kernel, body=(replace(loop, body=body),)), replace(loop, body=body), at)
            at = self._behind_product(kernel, loop)
            if at is not None:
                return self._parts_of(kernel, loop, at)
        return (self._in_place(kernel),)

    def _behind_product(self, kernel: loops.Kernel, loop: loops.For) -> int | None:
        """Where the candidates' loop is, if it reads a row that is a product of the triple's own."""
        body = loop.body
        at = next((p for p, s in enumerate(body) if self._of_candidates(kernel, loop, s)), None)
        if at is None or not any(map(multiplies, body[:at])):
            return None
        rows = {statement.name for statement in body[:at] if isinstance(statement, loops.Row)}
        return at if rows & names_read(body[at:]) else None

    def _of_candidates(self, kernel: loops.Kernel, loop: loops.For, statement: loops.Statement) -> bool:
        """The same of a loop over triples: one over all candidates may have rows of as many numbers."""
        return loop.extent == self.batch and _of_candidates(kernel, loop, statement, self.count)

    def _is_flat(self, kernel: loops.Kernel, loop: loops.For, statement: loops.Statement) -> bool:
        """Whether a statement is a loop over candidates that is to be flat: one that multiplies, or any that writes
        nothing of its triple's."""
        if not isinstance(statement, loops.For) or not self._of_candidates(kernel, loop, statement):
            return False
        if multiplies(statement):
            return True
        shaped = {buffer.name for buffer in kernel.buffers if self._is_shaped(buffer)}
        own = {loops.result_of(node) for node in walk(statement)}
        return self.every and written_names([statement]) <= shaped | own

    def _cut(self, kernel: loops.Kernel, loop: loops.For, at: int) -> tuple[loops.Kernel, ...]:
        """The kernel with the loop at a place in a kernel of its own: over all candidates, if nothing else is in it."""
        before, after = loop.body[:at], loop.body[at + 1 :]
        if any(not pure(statement) for statement in after):
            return self._parts_of(kernel, loop, at + 1)
        if any(not pure(statement) for statement in before):
            return self._parts_of(kernel, loop, at)
        return (self._spread(kernel, loop, before, loop.body[at]),)

    def _parts_of(self, kernel: loops.Kernel, loop: loops.For, at: int) -> tuple[loops.Kernel, ...]:
        """A kernel cut in front of a place, in parts; the kernel as it is where it has not become less."""
        stored, rows = self._with_rows_stored(kernel, loop, at)
        at -= len(loop.body) - len(rows.body)
        cuts = cut(stored, rows, rows.body[:at], rows.body[at:], self.names)
        if cuts is None or not (self._is_last(cuts[1]) or all(self._work(c) < self._work(kernel) for c in cuts)):
            return (self._in_place(kernel),)
        return tuple(part for each in cuts for part in self.parts(each))

    def _is_last(self, kernel: loops.Kernel) -> bool:
        """Whether a kernel is nothing but a loop over candidates that is to be flat."""
        loop = every_loop(kernel)
        if loop is None:
            return False
        *before, last = loop.body
        return all(map(pure, before)) and self._is_flat(kernel, loop, last)

    def _work(self, kernel: loops.Kernel) -> int:
        """How many of an iteration's statements go over candidates, or multiply."""
        loop = every_loop(kernel)
        body = loop.body if loop else ()
        return sum(multiplies(s) or self._of_candidates(kernel, loop, s) for s in body if loop)

    def _with_rows_stored(self, kernel: loops.Kernel, loop: loops.For, at: int) -> tuple[loops.Kernel, loops.For]:
        """The kernel with the rows that are filled in front of a place, and read behind it, in arrays."""
        first, second = loop.body[:at], loop.body[at:]
        body, added = loop.body, list[Buffer]()
        for row in [statement for statement in first if isinstance(statement, loops.Row)]:
            writes = [n for s in loop.body for n in walk(s) if isinstance(n, (loops.Store, loops.Accumulate))]
            stores = [isinstance(write, loops.Store) for write in writes if write.target == row.name]
            if row.name in names_read(second) and all(stores) and row.name not in written_names(second):
                added.append(array_of_each(kernel, row, loop.extent, self.names))
                body = tuple(stored_in(s, row.name, added[-1].name, loop.variable) for s in body if s is not row)
        rows = replace(loop, body=body)
        return replace(kernel, buffers=(*kernel.buffers, *added), body=(rows,)), rows

    def _spread(self, kernel: loops.Kernel, loop: loops.For, before: Body, candidates: loops.Statement) -> loops.Kernel:
        """The loop over candidates as one over all of them."""
        assert isinstance(candidates, loops.For)
        row = self.names.new("n")
        own = tuple(
            loops.Index(result=result, function=function, operands=(row, self.count), origin=candidates.origin)
            for result, function in ((loop.variable, "div"), (candidates.variable, "mod"))
        )
        places: dict[tuple[Atom, Atom], str] = {(loop.variable, candidates.variable): row}
        body = self._flat_body((*own, *before, *candidates.body), kernel, places)
        self.report.did(
            f"{kernel.name}: {candidates.variable} and {loop.variable} flattened to {row} in 0..{self.extent}"
        )
        rows = replace(loop, variable=row, extent=self.extent, body=alive(body))
        return replace(kernel, buffers=self._buffers(kernel), body=(rows,))

    def _in_place(self, kernel: loops.Kernel) -> loops.Kernel:
        """The kernel as it is, but with flat arrays where it is over all candidates."""
        loop = every_loop(kernel)
        flat = loop is not None and _is_divided(loop, self.count)
        return (
            replace(kernel, buffers=self._buffers(kernel), body=self._flat_body(kernel.body, kernel, {}))
            if flat
            else kernel
        )

    def _buffers(self, kernel: loops.Kernel) -> tuple[Buffer, ...]:
        return tuple(
            replace(buffer, extents=(self.extent, *buffer.extents[2:]), sharing=1)
            if self._is_shaped(buffer)
            else buffer
            for buffer in kernel.buffers
        )

    def _is_shaped(self, buffer: Buffer) -> bool:
        return buffer.extents[:2] == (self.batch, self.count)

    def _flat_body(
        self, body: Body, kernel: loops.Kernel, places: Mapping[tuple[Atom, Atom], str]
    ) -> tuple[loops.Statement, ...]:
        """Statements whose accesses to candidates' arrays have one index in the place of two: of those that `places`
        knows, and of those that it is divided into."""
        places, parents = dict(places), dict[str, dict[Atom, str]]()
        shaped = {buffer.name for buffer in kernel.buffers if self._is_shaped(buffer)}
        found: list[loops.Statement] = []
        for statement in body:
            match statement:
                case loops.For():
                    statement = replace(statement, body=self._flat_body(statement.body, kernel, places))
                case loops.Index(function="div" | "mod", operands=(str() as whole, by)) if by == self.count:
                    parents.setdefault(statement.function, {})[statement.result] = whole
                    pairs = product(parents.get("div", {}).items(), parents.get("mod", {}).items())
                    places |= {(first, second): of for (first, of), (second, other) in pairs if of == other}
                    places |= {(whole, statement.result): whole} if by == 1 else {}
                case loops.Load() | loops.Store() | loops.Accumulate() if loops.array_of(statement) in shaped:
                    first, second, *rest = statement.indices
                    if (first, second) not in places:
                        raise Unsupported(f"{kernel.name} goes from one candidate to another.")
                    statement = replace(statement, indices=(places[first, second], *rest))
            found.append(statement)
        return tuple(found)
