"""What scheduled kernels mean: the nest run one iteration after another, in float32, on NumPy arrays.

Who does an iteration does not matter here, nor when threads wait for each other: barriers and reductions do nothing.
What a tile or an output holds before it is stored is NaN, so that nothing can count on memory being clear. Statements
are made into Python functions once, since tiles are visited many times.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from explorer.compiler.interpret.functions import FUNCTIONS, INDEX_FUNCTIONS, OPERATORS, REDUCTIONS, Number
from explorer.compiler.interpret.loops import Environment, Outputs, bind
from explorer.compiler.interpret.tensor_cores import product
from explorer.compiler.ir import kernels, loops
from explorer.compiler.ir.node import Atom, Node, walk

Run = Callable[[Environment], None]
"""Does a statement in an environment."""

Value = Callable[[Environment], Number]
"""The value of an expression or an index in an environment."""

COMPARISONS: dict[str, Callable[[Number, Number], bool]] = {"<": operator.lt, "<=": operator.le, "==": operator.eq}


def run_scheduled(programs: Sequence[kernels.ScheduledKernel], inputs: Mapping[str, Number]) -> Outputs:
    """Everything that the kernels, run in order, write, by name: float32, or int64 for index arrays.

    What one kernel wrote, later ones read, and write again where it is their output as well. Where a kernel sees the
    first two dimensions of given arrays as one, what is written has two again."""
    written: Outputs = {}
    extents = _extents(programs, inputs)
    for kernel in programs:
        known = {**inputs, **written}
        own = {b.name: _shaped(b, known[b.name]) for b in kernel.buffers if b.name in known}
        environment = _environment(kernel, {**inputs, **extents, **own}, {n: a for n, a in own.items() if n in written})
        _body(kernel.body, _facts(kernel))(environment)
        written |= {name: environment[name] for name in written_buffers(kernel)}
        extents |= {name: environment[name] for name, _ in kernel.counts}
    buffers = [buffer for kernel in programs for buffer in kernel.buffers]
    merged = {
        b.extents[0]: np.shape(inputs[b.name])[:2]
        for b in buffers
        if b.name in inputs and np.ndim(inputs[b.name]) == len(b.extents) + 1
    }
    ends = {b.name: merged[b.extents[0]] for b in buffers if b.extents and b.extents[0] in merged}
    return {
        name: np.reshape(array, (*ends[name], *np.shape(array)[1:]))
        if len(array) == np.prod(ends.get(name, -1))
        else array
        for name, array in written.items()
    }


def _shaped(buffer: loops.Buffer, array: Number) -> Number:
    """An array with as many dimensions as a kernel's buffer has: a kernel may see the first two as one."""
    if np.ndim(array) == len(buffer.extents) + 1:
        return np.reshape(array, (-1, *np.shape(array)[2:]))
    if 0 < np.ndim(array) == len(buffer.extents) - 1:
        _, inner, *_ = buffer.extents
        return np.reshape(array, (-1, inner, *np.shape(array)[1:]))
    return array


def shared_tiles(kernel: kernels.ScheduledKernel, inputs: Mapping[str, Number]) -> Outputs:
    """What the shared tiles of a kernel hold when its last block has ended, by name: for looking into a program."""
    environment = _environment(kernel, {**inputs, **_extents((kernel,), inputs)}, {})
    _body(kernel.body, _facts(kernel))(environment)
    tiles = (node for node in walk(kernel) if isinstance(node, kernels.Tile) and node.memory == "shared")
    return {tile.name: environment[tile.name] for tile in tiles}


def written_buffers(kernel: kernels.ScheduledKernel) -> tuple[str, ...]:
    """The buffers that a kernel stores in or adds to, and its outputs."""
    targets = {node.target for node in walk(kernel) if isinstance(node, loops.Store | loops.Accumulate)}
    return tuple(buffer.name for buffer in kernel.buffers if buffer.kind == "output" or buffer.name in targets)


def _extents(programs: Sequence[kernels.ScheduledKernel], inputs: Mapping[str, Number]) -> dict[str, int]:
    """The extents that the given arrays bring, of all kernels: one may be launched on those of another's arrays."""
    given = [buffer for kernel in programs for buffer in kernel.buffers if buffer.name in inputs]
    shapes = ((buffer.extents, np.shape(_shaped(buffer, inputs[buffer.name]))) for buffer in given)
    pairs = (pair for names, shape in shapes for pair in zip(names, shape, strict=True))
    return {extent: length for extent, length in pairs if isinstance(extent, str)}


def _environment(kernel: kernels.ScheduledKernel, inputs: Mapping[str, Number], written: Outputs) -> Environment:
    """What the kernel's names stand for at its start; an array of `written` goes on as it was left."""
    writes = written_buffers(kernel)
    read = tuple(buffer for buffer in kernel.buffers if buffer.name not in writes)
    environment, _ = bind(kernel.sizes, read, {**inputs, **written})
    for name, count in kernel.counts:
        environment[name] = count.value(environment)
    for buffer in kernel.buffers:
        if buffer.name in writes and buffer.name in written:
            environment[buffer.name] = written[buffer.name]
        elif buffer.name in writes:
            shape = tuple(environment[e] if isinstance(e, str) else e for e in buffer.extents)
            environment[buffer.name] = _undefined(shape, buffer.type)
    return environment


class _Facts(NamedTuple):
    """What the statements of a kernel need to know of its names."""

    widths: Mapping[str, int]  # of vector indices: how many elements each stands for
    indices: frozenset[str]  # the buffers and tiles that hold indices
    wide: frozenset[str]  # accumulators of vector loops, which are one for each element


def _facts(kernel: kernels.ScheduledKernel) -> _Facts:
    tiles = [node for node in walk(kernel) if isinstance(node, kernels.Tile)]
    arrays: list[loops.Buffer | kernels.Tile] = [*kernel.buffers, *tiles]
    wide = {
        node.name
        for loop in walk(kernel)
        if isinstance(loop, kernels.Loop) and loop.step > 1
        for node in walk(loop)
        if isinstance(node, loops.Accumulator)
    }
    indices = frozenset(array.name for array in arrays if array.type == "i32")
    return _Facts(kernels.vector_indices(kernel), indices, frozenset(wide))


def _run(statement: Node, facts: _Facts) -> Run:
    """The function that does a statement."""
    match statement:
        case kernels.Loop():
            return _loop(statement, facts)
        case kernels.Where():
            return _where(statement, facts)
        case kernels.Tile():
            return _tile(statement)
        case kernels.Search():
            return _search(statement)
        case kernels.Multiply():
            return _multiply(statement)
        case kernels.Reduce() | kernels.Barrier():
            return lambda environment: None
        case loops.Load():
            return _define(statement.result, _element(statement.buffer, statement.indices, facts))
        case loops.Index():
            return _define(statement.result, _expression(INDEX_FUNCTIONS, statement.function, statement.operands))
        case loops.Compute():
            return _define(statement.result, _expression(FUNCTIONS, statement.function, statement.operands))
        case loops.Accumulator():
            start = np.float32(statement.start)
            return _define(statement.name, lambda environment: start)
        case loops.Accumulate():
            return _accumulate(statement, facts)
        case kernels.Copy():
            return _copy(statement, facts)
        case loops.Store():
            return _store(statement, facts)
    raise TypeError(f"not a statement of scheduled kernels: {statement!r}")


def _body(body: Sequence[Node], facts: _Facts) -> Run:
    runs = [_run(statement, facts) for statement in body]

    def run(environment: Environment) -> None:
        for each in runs:
            each(environment)

    return run


def _loop(loop: kernels.Loop, facts: _Facts) -> Run:
    variable, step, lower, upper = loop.variable, loop.step, _bound(loop.lower), _bound(loop.extent)
    body = _body(loop.body, facts)

    def run(environment: Environment) -> None:
        for position in range(lower(environment), upper(environment), step):
            environment[variable] = position
            body(environment)

    return run


def _bound(extent: Atom | kernels.Count) -> Value:
    return extent.value if isinstance(extent, kernels.Count) else _atom(extent)


def _where(where: kernels.Where, facts: _Facts) -> Run:
    holds, left, right = COMPARISONS[where.comparison], _atom(where.left), _atom(where.right)
    body = _body(where.body, facts)

    def run(environment: Environment) -> None:
        if holds(left(environment), right(environment)):
            body(environment)

    return run


def _tile(tile: kernels.Tile) -> Run:
    extents = [_atom(extent) for extent in tile.extents]
    return _define(tile.name, lambda environment: _undefined([extent(environment) for extent in extents], tile.type))


def _undefined(shape: Sequence[int], kind: str) -> Number:
    return np.full(shape, -1, np.int64) if kind == "i32" else np.full(shape, np.nan, np.float32)


def _search(search: kernels.Search) -> Run:
    buffer, value, lower, upper = search.buffer, _atom(search.value), _atom(search.lower), _atom(search.upper)

    def last(environment: Environment) -> int:
        first = lower(environment)
        found = environment[buffer][first : upper(environment)].searchsorted(value(environment), side="right")
        return int(first + found - 1)

    return _define(search.result, last)


def _multiply(statement: kernels.Multiply) -> Run:
    """Adds to the rows of a register tile, whose elements in order are those of a matrix."""
    rows, columns, depth = statement.rows, statement.columns, statement.depth
    places = (statement.indices, statement.left_indices, statement.right_indices)
    sums, left, right = ([_atom(index) for index in indices] for indices in places)
    column = _atom(statement.column)

    def at(environment: Environment, array: str, indices: list[Value]) -> Number:
        return environment[array][tuple(index(environment) for index in indices)]

    def run(environment: Environment) -> None:
        first = column(environment)
        tall, low = _rows(at(environment, statement.left, left), statement)
        wide = at(environment, statement.right, right)[:depth, first : first + columns]
        total = at(environment, statement.target, sums).reshape(-1, columns)
        total[:rows] += product(tall, wide, statement.precision, low)

    return run


def _rows(slab: Number, statement: kernels.Multiply) -> tuple[Number, Number | None]:
    """A slab of the left operand, depth x rows, and what is below its numbers, where it has that too."""
    rows, depth = statement.rows, statement.depth
    if statement.warps == 1:
        return slab[:depth, :rows], None
    parts = slab if slab.ndim == 3 else slab[None]
    low = parts[1, :rows, :depth].T if len(parts) > 1 else None
    return parts[0, :rows, :depth].T, low


def _define(name: str, value: Value) -> Run:
    def run(environment: Environment) -> None:
        environment[name] = value(environment)

    return run


def _element(name: str, indices: tuple[Atom, ...], facts: _Facts) -> Value:
    """What an access reads: a number, an index, or a vector."""
    array, at = _array(name, indices), _place(indices, facts)
    if name in facts.indices:
        return lambda environment: int(array(environment)[at(environment)])
    if not facts.widths.keys().isdisjoint(indices):
        return lambda environment: array(environment)[at(environment)].copy()  # stores must not change what was read
    return lambda environment: array(environment)[at(environment)]


def _array(name: str, indices: tuple[Atom, ...]) -> Value:
    """The array of an access; by one index, all of it is one row."""
    if len(indices) == 1:
        return lambda environment: environment[name].reshape(-1)
    return operator.itemgetter(name)


def _place(indices: tuple[Atom, ...], facts: _Facts) -> Value:
    """Where in its array an access is: an element, or as many as a vector index stands for."""
    places = [_index(index, facts) for index in indices]
    if len(places) == 1:
        return places[0]
    if len(places) == 2:
        first, second = places
        return lambda environment: (first(environment), second(environment))
    return lambda environment: tuple([place(environment) for place in places])


def _index(index: Atom, facts: _Facts) -> Value:
    first = _atom(index)
    if index not in facts.widths:
        return first
    width = facts.widths[str(index)]
    return lambda environment: slice(first(environment), first(environment) + width)


def _accumulate(statement: loops.Accumulate, facts: _Facts) -> Run:
    """Into an element, a vector of them, or an accumulator; a vector that goes into a scalar is reduced."""
    target, combine = statement.target, _combination(statement.reduction)
    value = _expression(FUNCTIONS, statement.function, statement.operands)
    wide_sum = target in facts.wide
    if not statement.indices:

        def add(environment: Environment) -> None:
            part = value(environment)
            environment[target] = combine(environment[target], part if wide_sum else _scalar(combine, part))

        return add
    array, at = _array(target, statement.indices), _place(statement.indices, facts)
    wide = not facts.widths.keys().isdisjoint(statement.indices)
    before = _element(target, statement.indices, facts)
    result = statement.result if isinstance(statement, kernels.AtomicAccumulate) else ""

    def add_to_element(environment: Environment) -> None:
        old, part = before(environment), value(environment)
        array(environment)[at(environment)] = combine(old, part if wide else _scalar(combine, part))
        if result:
            environment[result] = old

    return add_to_element


def _combination(reduction: str) -> Callable[[Number, Number], Number]:
    return {"sum": OPERATORS["add"], "product": OPERATORS["mul"]}.get(reduction, REDUCTIONS[reduction])


def _scalar(combine: Callable[[Number, Number], Number], value: Number) -> Number:
    return reduce(combine, value) if np.ndim(value) else value


def _store(statement: loops.Store, facts: _Facts) -> Run:
    array, at = _array(statement.target, statement.indices), _place(statement.indices, facts)
    value = _expression(FUNCTIONS, statement.function, statement.operands)

    def run(environment: Environment) -> None:
        array(environment)[at(environment)] = value(environment)

    return run


def _copy(statement: kernels.Copy, facts: _Facts) -> Run:
    array, at = _array(statement.target, statement.indices), _place(statement.indices, facts)
    value = _element(statement.buffer, statement.buffer_indices, facts)

    def run(environment: Environment) -> None:
        array(environment)[at(environment)] = value(environment)

    return run


def _expression(functions: Mapping[str, Callable[..., Any]], name: str, operands: tuple[Atom, ...]) -> Value:
    function: Callable[..., Any] = functions[name]
    if functions is FUNCTIONS:
        function = OPERATORS.get(name, function)
    values = [_atom(operand) for operand in operands]
    if name == "copy":
        return values[0]
    if len(values) == 1:
        (only,) = values
        return lambda environment: function(only(environment))
    if len(values) == 2:
        left, right = values
        return lambda environment: function(left(environment), right(environment))
    return lambda environment: function(*[value(environment) for value in values])


def _atom(atom: Atom) -> Value:
    if isinstance(atom, str):
        return operator.itemgetter(atom)
    constant = np.float32(atom) if isinstance(atom, float) else atom
    return lambda environment: constant
