"""Loop distribution where few iterations go through many elements: a kernel for each long sum, and for what is between.

The gradients of parameters, of relations and of types are sums over all nodes, edges, triples or entries, and there
are few of them, mostly one: an iteration of such a nest is the work of a whole graph. Its long sums become kernels,
which others share out among all blocks; what an iteration does besides is in kernels before and behind, by what needs
what, however the statements are ordered:

    parallel for u in 0..1                     parallel for u in 0..1
      row y[F]                                   for n in 0..nodes { for f { v[u, f] += x[n, f] } }
      for f { y[f] = 0 }                  ->
      for n { for f { y[f] += x[n, f] } }      parallel for u in 0..1
      for f { out[u, f] = y[f] * w[f] }          for f { out[u, f] = v[u, f] * w[f] }
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import field, replace

from explorer.compiler.frozen import dataclass
from explorer.compiler.ir import loops
from explorer.compiler.ir.index_sets import few
from explorer.compiler.ir.loops import Buffer
from explorer.compiler.ir.node import Names, walk
from explorer.compiler.ir.statements import (
    alive,
    closure,
    is_segment,
    names_read,
    pure,
    slice_for,
    written_names,
)
from explorer.compiler.schedule.distribute.split_sums import without_copies
from explorer.compiler.schedule.distribute.stored_sums import stored_sums
from explorer.compiler.schedule.edit.nests import (
    Body,
    array_of_each,
    clears,
    only_adds,
    only_loop,
    part,
    static_loop,
    stored_in,
)
from explorer.compiler.schedule.edit.statement_writer import Writer

TOGETHER = "long_sums"
"""The template of a nest of several long sums that are to stay together."""


def is_long(kernel: loops.Kernel, statement: loops.Statement) -> bool:
    """Whether a statement is a loop that grows with the graph or the batch: over a segment, or over a whole set."""
    if not isinstance(statement, loops.For) or static_loop(kernel, statement):
        return False
    return is_segment(kernel, statement) or not few(statement.extent)


def walked_by_few(kernel: loops.Kernel) -> bool:
    """Whether few iterations of a nest go through all elements of a graph or a batch."""
    loop = only_loop(kernel)
    return loop is not None and few(loop.extent) and any(is_long(kernel, statement) for statement in loop.body)


def split_stages(kernel: loops.Kernel, names: Names) -> tuple[loops.Kernel, ...]:
    """A nest's kernels, in order; none where there is nothing to split, or a long loop is more than sums."""
    loop = only_loop(kernel)
    if loop is None or kernel.template == TOGETHER or not walked_by_few(kernel):
        return ()
    if all(pure(statement) or is_long(kernel, statement) for statement in loop.body) and _one_sum(loop.body):
        return ()
    body = _apart(kernel, without_copies(kernel, loop))
    if body is None:
        return ()
    sums = [statement for statement in body if is_long(kernel, statement)]
    body = stored_sums(kernel, loop.variable, body, sums)
    return _Fission(kernel, loop, body, names).kernels()


def _one_sum(body: Body) -> bool:
    """Whether an iteration has one loop, which adds to one output."""
    done = [statement for statement in body if not pure(statement)]
    own = {name for statement in done for node in walk(statement) if (name := loops.result_of(node)) is not None}
    return len(done) == 1 and len(written_names(done) - own) == 1


def _apart(kernel: loops.Kernel, body: Body) -> Body | None:
    """The body with a loop for each target that a long loop adds to; None where one does something else."""
    found: list[loops.Statement] = []
    for statement in body:
        if not is_long(kernel, statement):
            found.append(statement)
            continue
        assert isinstance(statement, loops.For)
        own = {name for node in walk(statement) if (name := loops.result_of(node)) is not None}
        targets = sorted(written_names([statement]) - own)
        if not targets or not all(only_adds([statement], target) for target in targets):
            return None
        for target in targets:
            alone = _of_one(statement.body, set(targets) - {target})
            found.append(replace(statement, body=closure(alone, {target})))
    return tuple(found)


def _of_one(body: Iterable[loops.Statement], others: set[str]) -> Body:
    """Statements without what they add to other targets."""
    kept: list[loops.Statement] = []
    for statement in body:
        if isinstance(statement, loops.For):
            inner = _of_one(statement.body, others)
            if any(not pure(child) for child in inner):
                kept.append(replace(statement, body=inner))
        elif not isinstance(statement, loops.Accumulate) or statement.target not in others:
            kept.append(statement)
    return alive(kept)


def _among(statement: loops.Statement, others: Iterable[loops.Statement]) -> bool:
    """Whether a statement itself is one of some others."""
    return any(statement is other for other in others)


@dataclasses.dataclass
class _Group:
    """What becomes a kernel: statements of one stage that are no sums, or one long sum."""

    stage: int
    long: bool
    statements: list[loops.Statement] = field(default_factory=list)


@dataclass(frozen=True)
class _Fission:
    """An iteration whose body is pure statements, rows and accumulators, long sums, and others."""

    kernel: loops.Kernel
    loop: loops.For
    body: Body
    names: Names

    def kernels(self) -> tuple[loops.Kernel, ...]:
        """The kernels in order; none where a sum does not begin with zeros or is added to otherwise."""
        sums = [name for s in self.body if is_long(self.kernel, s) for name in written_names([s])]
        body = self.without_clears()
        declared = {s.name: s for s in body if isinstance(s, (loops.Row, loops.Accumulator))}
        others = [s for s in body if not is_long(self.kernel, s)]
        starts = [s.start for name in sums if isinstance(s := declared.get(name), loops.Accumulator)]
        if set(sums) & written_names(others) or len(set(sums)) < len(sums) or any(starts):
            return ()
        groups = self._groups(body)
        arrays = {
            name: array_of_each(self.kernel, s, self.loop.extent, self.names)
            for name, s in declared.items()
            if self._crosses(name, groups)
        }
        scalars = tuple(s for s in body if pure(s))
        made = [self._kernel(group, place, arrays, declared, scalars) for place, group in enumerate(groups)]
        return tuple(made)

    def without_clears(self) -> Body:
        """The body without what sets to 0 what is then summed in: kernels of sums clear it themselves."""
        sums = {name for s in self.body if is_long(self.kernel, s) for name in written_names([s])}
        return tuple(s for s in self.body if not any(clears(self.kernel, s, name) for name in sums))

    def _groups(self, body: Body) -> list[_Group]:
        """The statements that are neither pure nor declarations, by the stage in which all that they need is there."""
        stages: dict[str, int] = {}
        rest: dict[int, _Group] = {}
        sums: list[_Group] = []
        for statement in body:
            written = written_names([statement])
            stage = max((stages.get(name, 0) for name in names_read([statement]) | written), default=0)
            if pure(statement):
                stages[str(loops.result_of(statement))] = stage
            elif is_long(self.kernel, statement):
                sums.append(_Group(stage, True, [statement]))
                stages |= {name: max(stages.get(name, 0), stage + 1) for name in written}
            elif not isinstance(statement, (loops.Row, loops.Accumulator)):
                rest.setdefault(stage, _Group(stage, False)).statements.append(statement)
                stages |= dict.fromkeys(written, stage)
        return sorted([*rest.values(), *sums], key=lambda group: (group.stage, group.long))

    def _crosses(self, name: str, groups: Sequence[_Group]) -> bool:
        """Whether a row or an accumulator is of more than one kernel, or one's sum."""
        scalars = tuple(s for s in self.body if pure(s))
        touching = [
            group
            for group in groups
            if name in written_names(group.statements)
            or name in names_read((*slice_for(scalars, group.statements), *group.statements))
        ]
        return len(touching) > 1 or any(group.long for group in touching)

    def _kernel(
        self,
        group: _Group,
        place: int,
        arrays: dict[str, Buffer],
        declared: dict[str, loops.Row | loops.Accumulator],
        scalars: Body,
    ) -> loops.Kernel:
        """A group's kernel."""
        own = self._with_scalars(group, scalars)
        used = names_read(own) | written_names(own)
        stored = {name for name in arrays if name in written_names(group.statements)}
        begun = [s for name, s in declared.items() if name in used and self._is_local(name, arrays, stored, group)]
        loaded = [
            loops.Load(result=name, buffer=array.name, indices=(self.loop.variable,), origin=array.origin)
            for name, array in arrays.items()
            if name in used and name not in stored and isinstance(declared[name], loops.Accumulator)
        ]
        stores = [self._stored(declared[name], array) for name, array in arrays.items() if name in stored]
        ends = [] if group.long else [store for store in stores if store is not None]
        body = [*begun, *loaded, *own, *ends]
        for name, array in arrays.items():
            if group.long or isinstance(declared[name], loops.Row):
                body = [stored_in(s, name, array.name, self.loop.variable) for s in body]
        made = part(
            self.kernel,
            self.names.new(f"{self.kernel.name}_{'sum' if group.long else 'rest'}{place}"),
            replace(self.loop, body=tuple(body)),
            *arrays.values(),
        )
        return made if group.long else replace(made, template="rows")

    def _with_scalars(self, group: _Group, scalars: Body) -> Body:
        """A group's statements behind the scalars that they need, but those of what the group itself writes: these stay
        where they are."""
        needed = slice_for(scalars, group.statements)
        changed = written_names(group.statements)
        behind: list[loops.Statement] = []
        for scalar in needed:
            if not changed.isdisjoint(names_read([scalar])):
                behind.append(scalar)
                changed.add(str(loops.result_of(scalar)))
        placed = [*group.statements, *behind]
        first = (scalar for scalar in needed if not _among(scalar, behind))
        return (*first, *(statement for statement in self.body if _among(statement, placed)))

    def _is_local(self, name: str, arrays: dict[str, Buffer], stored: set[str], group: _Group) -> bool:
        """Whether a kernel declares a row or an accumulator: one of its own, or one that it stores at its end."""
        return name not in arrays or (name in stored and not group.long and self._is_scalar(name))

    def _is_scalar(self, name: str) -> bool:
        return any(isinstance(s, loops.Accumulator) and s.name == name for s in self.body)

    def _stored(self, statement: loops.Row | loops.Accumulator, array: Buffer) -> loops.Statement | None:
        """The store of an accumulator at the end of a kernel; a row is stored where it is filled."""
        if isinstance(statement, loops.Row):
            return None
        return Writer.named(self.names, statement.origin).store(array.name, statement.name, self.loop.variable)
