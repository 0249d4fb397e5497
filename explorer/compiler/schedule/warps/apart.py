"""A long loop of an iteration in a kernel of its own, ahead of what is made of all of its iterations.

What a loss sums over a triple's candidates is their scores, which need nothing of one another: each is stored, and
what is left of the nest sums up what is stored.

    parallel for b in 0..B                      parallel for b in 0..B
      q = ...; acc s = 0                          q = ...
      for j in 0..64                              for j in 0..64 { x[b, j] = f(q, n[b, j]) }
        s += f(q, n[b, j])              ->      parallel for b in 0..B
      out[b] = g(s)                               acc s = 0
                                                  for j in 0..64 { s += x[b, j] }
                                                  out[b] = g(s)
"""

from __future__ import annotations

from dataclasses import replace

from explorer.compiler.frozen import dataclass
from explorer.compiler.ir import loops
from explorer.compiler.ir.loops import Buffer
from explorer.compiler.ir.node import Names, walk
from explorer.compiler.ir.statements import closure, names_read, rename, written_names
from explorer.compiler.schedule.edit.nests import Body, part, static_loop
from explorer.compiler.schedule.edit.statement_writer import Writer


@dataclass(frozen=True)
class Apart:
    """A kernel of which an iteration ends in a long loop, whose iterations are independent, and what is `left` of the
    nest that it is of; None where it is all of it."""

    kernel: loops.Kernel
    left: loops.Kernel | None


def apart(kernel: loops.Kernel, loop: loops.For, names: Names) -> Apart | None:
    """The first long loop in a kernel's iterations that can be apart; None where there is none."""
    for at, statement in enumerate(loop.body):
        if not isinstance(statement, loops.For) or not static_loop(kernel, statement) or not _holds_loop(statement):
            continue
        if (found := _Cut(kernel, loop, at, statement).parts(names)) is not None:
            return found
    return None


def _holds_loop(statement: loops.For) -> bool:
    return any(isinstance(node, loops.For) for child in statement.body for node in walk(child))


@dataclass(frozen=True)
class _Cut:
    """The place of a long loop in an iteration."""

    kernel: loops.Kernel
    loop: loops.For
    at: int
    long: loops.For

    def parts(self, names: Names) -> Apart | None:
        """The long loop with what it needs, and what is left; None where it does more than store, or where what it
        needs is long itself."""
        sums = self._sums()
        own = tuple(statement for statement in self.long.body if statement not in sums)
        needed = closure(self.loop.body[: self.at], names_read(own))
        outputs = {buffer.name for buffer in self.kernel.buffers if buffer.kind == "output"}
        if not self._is_independent(own, outputs, {each.target for each in sums}):
            return None
        if written_names(needed) & outputs or any(map(self._is_long, needed)):
            return None
        if not sums and len(needed) == self.at == len(self.loop.body) - 1:
            return Apart(self.kernel, None)
        return self._cut(needed, own, sums, names)

    def _sums(self) -> tuple[loops.Accumulate, ...]:
        """What the loop's iterations put together in scalars of the iteration around it."""
        scalars = {s.name for s in self.loop.body if isinstance(s, loops.Accumulator)}
        return tuple(s for s in self.long.body if isinstance(s, loops.Accumulate) and s.target in scalars)

    def _is_independent(self, body: Body, outputs: set[str], summed: set[str]) -> bool:
        """Whether iterations of the loop store elements of their own, and nothing else."""
        inside = {loops.result_of(node) for s in body for node in walk(s)}
        writes = [n for s in body for n in walk(s) if isinstance(n, (loops.Store, loops.Accumulate))]
        at = (self.loop.variable, self.long.variable)
        alone = all(isinstance(n, loops.Store) and n.indices[:2] == at for n in writes if n.target in outputs)
        return alone and written_names(body) <= outputs | inside and not names_read(body) & (outputs | summed)

    def _is_long(self, statement: loops.Statement) -> bool:
        """Whether a statement is more than a loop over a row."""
        plain = not isinstance(statement, loops.For) or static_loop(self.kernel, statement)
        return not plain or (isinstance(statement, loops.For) and _holds_loop(statement))

    def _cut(self, needed: Body, own: Body, sums: tuple[loops.Accumulate, ...], names: Names) -> Apart:
        """Both kernels; what is summed is stored by the first."""
        write = Writer(self.kernel, self.long.origin)
        results = {loops.result_of(statement) for statement in own}
        terms = dict.fromkeys(term for each in sums for term in each.operands if term in results)
        arrays = {str(term): self._array(str(term), names) for term in terms}
        at = (self.loop.variable, self.long.variable)
        stores = tuple(write.store(array.name, term, *at) for term, array in arrays.items())
        first = replace(self.loop, body=(*needed, replace(self.long, body=(*own, *stores))))
        number, kept = write.names.new(self.long.variable), {}
        for term, array in arrays.items():
            kept[term] = write.load(term, array.name, self.loop.variable, number)
        renamed = {term: load.result for term, load in kept.items()}
        summed = (*kept.values(), *(rename(each, renamed) for each in sums))
        short = (replace(self.long, variable=number, body=summed),) if sums else ()
        body = (*self.loop.body[: self.at], *short, *self.loop.body[self.at + 1 :])
        stored = {buffer.name for buffer in self.kernel.buffers if buffer.kind == "output"}
        second = replace(self.loop, body=closure(body, stored))
        made, called = arrays.values(), names.new(f"{self.kernel.name}_each")
        return Apart(part(self.kernel, called, first, *made), part(self.kernel, self.kernel.name, second, *made))

    def _array(self, term: str, names: Names) -> Buffer:
        """An array for what is summed of each iteration."""
        name, extents = names.new(f"{self.kernel.name}_{term}"), (self.loop.extent, self.long.extent)
        return Buffer(name=name, kind="output", extents=extents, origin=self.long.origin)
