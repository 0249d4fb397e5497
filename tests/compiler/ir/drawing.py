"""Random loops that the verifier accepts, and what all random programs begin with. They mean nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from hypothesis import strategies as st

from explorer.compiler.ir import loops
from explorer.compiler.ir.functions import FUNCTIONS
from explorer.compiler.ir.node import Atom, Extent, Names, Span

ORIGIN = (Span(1, 1, 1, 2),)
DEPTH = 3

# The first are ordinary; the others are words of the IRs themselves, which a model may use as names.
HINTS = (
    "u",
    "e1",
    "E",
    "Größe",
    "acc",
    "row",
    "index",
    "size",
    "input",
    "output",
    "max",
    "for",
    "token",
    "slc",
    "done",
    "step",
    "below",
    "toggle",
    "splat",
    "x",
    "L2",
    "non_temporal",
)
NOTES = ("", "interchanged with d", "shared by {h, r} # twice", "}")
KINDS = ("index", "param", "input", "structure", "upstream", "temporary")
SMALL = st.integers(0, 3)
FLOATS = st.one_of(
    st.sampled_from([0.0, -0.0, 1.0, -1.0, 1e-05, 1e22, -2.5e-30, float("inf"), float("-inf")]),
    st.floats(allow_nan=False),
)
Draw = Callable[[st.SearchStrategy], object]


@dataclass
class Scope:
    """What may be read at a place. Arrays map their names to their numbers of indices."""

    draw: Draw
    names: Names
    extents: tuple[Extent, ...]
    arrays: dict[str, int] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)
    written: dict[str, int] = field(default_factory=dict)
    indices: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    counters: tuple[str, ...] = ()

    def inner(self) -> Scope:
        """A copy for the body of a loop, whose names end with it."""
        return replace(self, arrays=dict(self.arrays), rows=dict(self.rows), written=dict(self.written))

    def pick(self, choices):
        return self.draw(st.sampled_from(tuple(choices)))

    def new(self) -> str:
        return self.names.new(self.pick(HINTS))

    def extent(self) -> Extent:
        return self.pick((*self.extents, 1, 2, 64))

    def index(self) -> Atom:
        return self.pick((*self.indices, *self.extents, 0, 1, 7))

    def some_indices(self, count: int) -> tuple[Atom, ...]:
        return tuple(self.index() for _ in range(count))

    def operand(self) -> Atom:
        return self.pick(self.values) if self.values and self.draw(st.booleans()) else self.draw(FLOATS)

    def expression(self) -> tuple[str, tuple[Atom, ...]]:
        function = self.pick((*FUNCTIONS, *loops.SEGMENT_ENDS))
        if function in loops.SEGMENT_ENDS:
            return function, (self.operand(), *self.some_indices(2))
        return function, tuple(self.operand() for _ in range(FUNCTIONS[function].operand_count))


def statement(scope: Scope, depth: int) -> loops.Statement:
    """A statement of the loops; the scope learns what it defines."""
    makers = [_index, _compute, _row, _accumulator]
    makers += [_load] if scope.rows or scope.arrays else []
    makers += [_store, _accumulate] if scope.written else []
    if depth and scope.draw(st.booleans()):
        return drawn_loop(scope, depth)
    return scope.pick(makers)(scope)


def body(scope: Scope, depth: int, most: int = 4) -> tuple[loops.Statement, ...]:
    """Statements in order."""
    return tuple(statement(scope, depth) for _ in range(scope.draw(st.integers(0, most))))


def drawn_loop(scope: Scope, depth: int) -> loops.For:
    variable, inner = scope.new(), scope.inner()
    inner.indices += (variable,)
    return loops.For(
        variable=variable,
        lower=scope.pick((0, 0, *scope.indices)),
        extent=scope.pick((scope.extent(), *scope.indices)),
        body=body(inner, depth - 1),
        parallel=scope.draw(st.booleans()),
        note=scope.pick(NOTES),
        origin=ORIGIN,
    )


def _index(scope: Scope) -> loops.Index:
    function, operands = scope.pick(loops.INFIX_INDEX), scope.some_indices(2)
    result = scope.new()
    scope.indices += (result,)
    return loops.Index(result=result, function=function, operands=operands, origin=ORIGIN)


def _compute(scope: Scope) -> loops.Compute:
    function, operands = scope.expression()
    result = scope.new()
    scope.values += (result,)
    return loops.Compute(result=result, function=function, operands=operands, origin=ORIGIN)


def _row(scope: Scope) -> loops.Row:
    name, extents = scope.new(), tuple(scope.extent() for _ in range(scope.draw(SMALL)))
    scope.rows[name] = scope.written[name] = len(extents)
    return loops.Row(name=name, extents=extents, origin=ORIGIN)


def _accumulator(scope: Scope) -> loops.Accumulator:
    name = scope.new()
    scope.written[name] = 0
    scope.values += (name,)
    return loops.Accumulator(name=name, start=scope.draw(FLOATS), origin=ORIGIN)


def _load(scope: Scope) -> loops.Load:
    arrays = scope.arrays | scope.rows
    buffer = scope.pick(arrays)
    indices = scope.some_indices(arrays[buffer])
    result = scope.new()
    scope.values += (result,)
    return loops.Load(result=result, buffer=buffer, indices=indices, origin=ORIGIN)


def _store(scope: Scope) -> loops.Store:
    target = scope.pick(scope.written)
    function, operands = scope.expression()
    indices = scope.some_indices(scope.written[target])
    return loops.Store(target=target, indices=indices, function=function, operands=operands, origin=ORIGIN)


def _accumulate(scope: Scope) -> loops.Accumulate:
    target = scope.pick(scope.written)
    function, operands = scope.expression()
    return loops.Accumulate(
        target=target,
        indices=scope.some_indices(scope.written[target]),
        reduction=scope.pick(loops.REDUCTION_SIGNS),
        function=function,
        operands=operands,
        origin=ORIGIN,
    )


@dataclass
class Head:
    """What the loops, SLC and DLC begin with."""

    sizes: tuple[tuple[str, int], ...]
    buffers: tuple[loops.Buffer, ...]
    scope: Scope


def drawn_head(draw: Draw) -> Head:
    names = Names(set())
    sizes = tuple((names.new(hint), draw(st.integers(1, 512))) for hint in draw(st.lists(st.sampled_from(HINTS))))
    scope = Scope(draw, names, tuple(name for name, _ in sizes))
    buffers = []
    for kind in (*draw(st.lists(st.sampled_from(KINDS), max_size=4)), "output"):
        extents = tuple(scope.extent() for _ in range(draw(SMALL)))
        buffers.append(loops.Buffer(name=scope.new(), kind=kind, extents=extents, origin=ORIGIN))
    scope.arrays = {buffer.name: len(buffer.extents) for buffer in buffers[:-1]}
    scope.written = {buffers[-1].name: len(buffers[-1].extents)}
    return Head(sizes, tuple(buffers), scope)


@st.composite
def kernels(draw: Draw) -> loops.Kernel:
    """Kernels of the loops."""
    head = drawn_head(draw)
    return loops.Kernel(
        name=head.scope.pick(HINTS),
        template="batch",
        sizes=head.sizes,
        buffers=head.buffers,
        body=body(head.scope, DEPTH),
        origin=ORIGIN,
    )
