"""Gives the segment of an iteration a kernel of its own, which leaves its sums to what the iteration does behind it.

An iteration that mixes its row's columns behind the sum over its segment, with a small matrix, a norm or a softmax
over heads, is not one that pieces of rows can end. The sum by itself is: its elements are shared out, however long the
longest segment is.

    parallel for n in 0..nodes                  parallel for n in 0..nodes
      row y[G]                                    row y[G]
      for g { y[g] = 0 }                          for g { y[g] = 0 }
      for e in begin..end                         for e in begin..end
        for g { y[g] += v[e, g] }          ->       for g { y[g] += v[e, g] }
      for g                                       for g { s[n, g] = y[g] }
        acc t = 0                               parallel for n in 0..nodes
        for k { t += y[k] * W[k, g] }             for g
        out[n, g] = t                               acc t = 0
                                                    for k { t += s[n, k] * W[k, g] }
                                                    out[n, g] = t
"""

from __future__ import annotations

from dataclasses import replace

from explorer.compiler.ir import loops
from explorer.compiler.ir.index_sets import few
from explorer.compiler.ir.loops import Buffer
from explorer.compiler.ir.node import Names, walk
from explorer.compiler.ir.statements import closure, is_segment, names_read, pure, written_names
from explorer.compiler.schedule.distribute.join_segments import join_segments
from explorer.compiler.schedule.edit.nests import Body, only_loop, part, stored_in
from explorer.compiler.schedule.edit.statement_writer import Writer
from explorer.compiler.schedule.lanes.mapping import Nest, Unfit
from explorer.compiler.schedule.lanes.output_rows import output_in_row

State = loops.Row | loops.Accumulator


def split_segments(kernel: loops.Kernel, names: Names) -> tuple[loops.Kernel, ...]:
    """The kernel of the first segment of each iteration, and that of the rest; none where there is no such segment, or
    nothing but its sums is stored."""
    kernel = join_segments(kernel)
    loop = only_loop(kernel)
    at = _first_segment(kernel, loop)
    if loop is None or at is None or few(loop.extent):
        return ()
    kernel, loop = _sums_apart(kernel, loop, at)
    at = _first_segment(kernel, loop)
    assert at is not None
    before, segment, after = loop.body[:at], loop.body[at], loop.body[at + 1 :]
    outputs = {buffer.name for buffer in kernel.buffers if buffer.kind == "output"}
    summed = written_names([segment])
    states = tuple(s for s in before if isinstance(s, State) and s.name in summed)
    needed = closure(before, names_read([segment]) | summed)
    others = tuple(s for s in before if not any(s is each for each in needed))
    if outputs & (written_names(needed) | summed) & written_names((*before, *after)):
        return ()
    if not any(map(_works, after)) and all(map(pure, others)):
        return ()
    return _Split(kernel, loop, states, names).kernels((*needed, segment), before, after, outputs - summed)


def _first_segment(kernel: loops.Kernel, loop: loops.For | None) -> int | None:
    """The place of an iteration's first loop over a segment."""
    body = loop.body if loop is not None else ()
    return next((place for place, statement in enumerate(body) if is_segment(kernel, statement)), None)


def _sums_apart(kernel: loops.Kernel, loop: loops.For, at: int) -> tuple[loops.Kernel, loops.For]:
    """The kernel with a row for each output that the segment adds to and the iteration writes elsewhere too, where a
    row can be: each of both kernels has outputs of its own."""
    nest = Nest(kernel, loop)
    others = written_names(s for s in loop.body if s is not loop.body[at])
    for buffer in kernel.buffers:
        if buffer.kind == "output" and buffer.name in written_names([loop.body[at]]) & others:
            try:
                nest = output_in_row(nest, buffer)
            except Unfit:
                continue
    return nest.kernel, nest.loop


def _works(statement: loops.Statement) -> bool:
    """Whether a statement does more than to copy."""
    copies = (loops.For, loops.Load)
    return any(
        not isinstance(node, copies) and not (isinstance(node, loops.Store) and node.function == "copy")
        for node in walk(statement)
    )


class _Split:
    """An iteration whose segment's sums, the `states`, get arrays."""

    def __init__(self, kernel: loops.Kernel, loop: loops.For, states: tuple[State, ...], names: Names) -> None:
        self.kernel, self.loop, self.names = kernel, loop, names
        self.writer = Writer(kernel, loop.origin)
        self.states = {state.name: state for state in states}

    def kernels(self, first: Body, before: Body, after: Body, outputs: set[str]) -> tuple[loops.Kernel, ...]:
        """Both kernels; the second stores the `outputs`. None where it goes on with a sum of one number."""
        read = {name for name in self.states if name in names_read(after) | written_names(after)}
        changed = read & written_names(after)
        if not outputs or any(isinstance(self.states[name], loops.Accumulator) for name in changed):
            return ()
        arrays = {name: self._array(self.states[name]) for name in sorted(read)}
        stores = [each for name, array in arrays.items() for each in self._stored(self.states[name], array)]
        rest: list[loops.Statement] = [s for s in before if not self._is_of_states(s)]
        for name, array in arrays.items():
            rest += self._loaded(self.states[name], array, name in changed)
        behind = after
        for name in read - changed:
            if isinstance(self.states[name], loops.Row):
                behind = tuple(stored_in(s, name, arrays[name].name, self.loop.variable) for s in behind)
        left = closure((*rest, *behind), outputs)
        summing = replace(self.loop, body=(*first, *stores))
        name = self.names.new(f"{self.kernel.name}_segments")
        others = part(self.kernel, self.kernel.name, replace(self.loop, body=left), *arrays.values())
        return part(self.kernel, name, summing, *arrays.values()), replace(others, template="rows")

    def _is_of_states(self, statement: loops.Statement) -> bool:
        """Whether a statement declares a state, or gives it its first values."""
        return loops.result_of(statement) in self.states or bool(written_names([statement]) & self.states.keys())

    def _array(self, state: State) -> Buffer:
        extents = state.extents if isinstance(state, loops.Row) else ()
        name = self.names.new(f"{self.kernel.name}_{state.name}")
        return Buffer(name=name, kind="output", extents=(self.loop.extent, *extents), origin=state.origin)

    def _stored(self, state: State, array: Buffer) -> Body:
        """What stores a state behind the segment."""
        if isinstance(state, loops.Accumulator):
            return (self.writer.store(array.name, state.name, self.loop.variable),)
        variables = self.writer.over(state.extents)
        value = self.writer.load("s", state.name, *variables)
        store = self.writer.store(array.name, value.result, self.loop.variable, *variables)
        return self.writer.nested(variables, state.extents, (value, store))

    def _loaded(self, state: State, array: Buffer, changed: bool) -> Body:
        """What the rest begins with: a sum of one number, or a row that it changes; it reads others where they are."""
        if isinstance(state, loops.Accumulator):
            load = loops.Load(result=state.name, buffer=array.name, indices=(self.loop.variable,), origin=state.origin)
            return (load,)
        if not changed:
            return ()
        variables = self.writer.over(state.extents)
        value = self.writer.load("s", array.name, self.loop.variable, *variables)
        store = self.writer.store(state.name, value.result, *variables)
        return state, *self.writer.nested(variables, state.extents, (value, store))
