"""Random programs of each IR that their verifiers accept. They mean nothing; they reach every form of every node."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from hypothesis import strategies as st

from explorer.compiler.ir import dlc, graph, loops, slc
from explorer.compiler.ir.module import Module
from explorer.compiler.ir.node import Atom, Extent, Names, Node, Span

ORIGIN = (Span(1, 1, 1, 2),)
DEPTH = 3
SETS = {"score": ("entity", "relation", "batch", "negative"), "layer": ("node", "edge", "etype", "src_pair")}

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
)
NOTES = ("", "interchanged with d", "shared by {h, r} # twice", "}")
KINDS = ("index", "param", "input", "structure", "upstream", "temporary")
SMALL = st.integers(0, 3)
FLOATS = st.one_of(
    st.sampled_from([0.0, -0.0, 1.0, -1.0, 1e-05, 1e22, -2.5e-30, float("inf"), float("-inf")]),
    st.floats(allow_nan=False),
)
FUNCTIONS = (*graph.PREFIX_FUNCTIONS, *graph.INFIX_FUNCTIONS, *graph.PAIR_FUNCTIONS)
TWO_OPERANDS = (*graph.INFIX_FUNCTIONS, *graph.PAIR_FUNCTIONS)
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
        function = self.pick((*FUNCTIONS, *loops.SEGMENT_ENDS, "copy"))
        if function in loops.SEGMENT_ENDS:
            return function, (self.operand(), *self.some_indices(2))
        count = 2 if function in (*TWO_OPERANDS, "leaky_relu") else 1
        return function, tuple(self.operand() for _ in range(count))


def statement(scope: Scope, depth: int) -> loops.Statement:
    """A statement of the loops; the scope learns what it defines."""
    makers = [_index, _compute, _row, _accumulator]
    makers += [_load] if scope.rows or scope.arrays else []
    makers += [_store, _accumulate] if scope.written else []
    if depth and scope.draw(st.booleans()):
        return _loop(scope, depth)
    return scope.pick(makers)(scope)


def body(scope: Scope, depth: int, most: int = 4) -> tuple[loops.Statement, ...]:
    """Statements in order."""
    return tuple(statement(scope, depth) for _ in range(scope.draw(st.integers(0, most))))


def _loop(scope: Scope, depth: int) -> loops.For:
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


def _head(draw: Draw) -> Head:
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
    head = _head(draw)
    return loops.Kernel(
        name=head.scope.pick(HINTS),
        template="batch",
        sizes=head.sizes,
        buffers=head.buffers,
        body=body(head.scope, DEPTH),
        origin=ORIGIN,
    )


@dataclass
class Streams:
    """What the access unit may read at a place, and what the execute unit may."""

    known: tuple[str, ...]
    execute: Scope


@st.composite
def slc_programs(draw: Draw) -> slc.SlcProgram:
    """SLC programs."""
    head = _head(draw)
    items = _items(Streams((), head.scope), head.scope.arrays, DEPTH)
    head.scope.arrays = {}
    return slc.SlcProgram(
        name=head.scope.pick(HINTS), sizes=head.sizes, buffers=head.buffers, body=items, origin=ORIGIN
    )


def _items(streams: Streams, read_only: dict[str, int], depth: int) -> tuple[slc.Item, ...]:
    scope = streams.execute
    items: list[slc.Item] = []
    for _ in range(scope.draw(st.integers(0, 4))):
        kind = scope.pick(("for", "mem", "alu", "callback") if read_only else ("for", "alu", "callback"))
        operands = (*streams.known, *scope.extents, 0, 3)
        if kind == "callback":
            items.append(_callback(streams))
        elif kind == "for" and depth:
            items.append(_slc_for(streams, read_only, depth))
        elif kind == "mem":
            buffer = scope.pick(read_only)
            indices = tuple(scope.pick(operands) for _ in range(read_only[buffer]))
            result = "%" + scope.new()
            items.append(slc.MemStream(result=result, buffer=buffer, indices=indices, origin=ORIGIN))
            streams.known += (result,)
        else:
            function, pair = scope.pick(loops.INFIX_INDEX), (scope.pick(operands), scope.pick(operands))
            result = "%" + scope.new()
            items.append(slc.AluStream(result=result, function=function, operands=pair, origin=ORIGIN))
            streams.known += (result,)
    return tuple(items)


def _slc_for(streams: Streams, read_only: dict[str, int], depth: int) -> slc.SlcFor:
    scope = streams.execute
    bounds = scope.pick((0, *streams.known)), scope.pick((scope.extent(), *streams.known))
    stream, note = "%" + scope.new(), scope.pick(NOTES)
    inner = Streams((*streams.known, stream), scope)
    items = _items(inner, read_only, depth - 1)
    return slc.SlcFor(stream=stream, lower=bounds[0], extent=bounds[1], body=items, note=note, origin=ORIGIN)


def _callback(streams: Streams) -> slc.Callback:
    scope = streams.execute
    conversions: list[Node] = []
    for stream in streams.known:
        if scope.draw(st.booleans()):
            result = scope.new()
            scope.values += (result,)
            conversions.append(slc.ToVal(result=result, stream=stream, origin=ORIGIN))
    scope.arrays = {}  # the execute unit loads from rows alone
    return slc.Callback(body=(*conversions, *body(scope, 2)), origin=ORIGIN)


@st.composite
def dlc_programs(draw: Draw) -> dlc.DlcProgram:
    """DLC programs whose cases pop what their callbacks push."""
    head = _head(draw)
    access, types = _access(head)
    pushes: dict[tuple[str, dlc.Event], list[str]] = {}
    for push in (s for s in access if isinstance(s, dlc.PushOp)):
        pushes.setdefault((push.traversal, push.event), []).append(types[push.stream])
    head.scope.arrays = {}
    cases = []
    for callback in (s for s in access if isinstance(s, dlc.Callback)):
        popped: list[Node] = []
        for kind in pushes.get((callback.traversal, callback.event), []):
            popped.append(dlc.Pop(result=head.scope.new(), type=kind, origin=ORIGIN))
            head.scope.values += (popped[-1].result,)
        cases.append(dlc.Case(token=callback.token, body=(*popped, *body(head.scope, 2)), origin=ORIGIN))
    return dlc.DlcProgram(
        name=head.scope.pick(HINTS),
        sizes=head.sizes,
        buffers=head.buffers,
        access=tuple(access),
        execute=tuple(cases),
        origin=ORIGIN,
    )


def _access(head: Head) -> tuple[list[dlc.AccessStatement], dict[str, str]]:
    """The access unit's code and the types of its streams."""
    scope, types, access = head.scope, {}, []
    traversals: list[str] = []
    read_only = {buffer.name: buffer.type for buffer in head.buffers if buffer.kind != "output"}
    for _ in range(scope.draw(st.integers(0, 3))):
        parent = scope.pick(traversals) if traversals else None
        name, operands = scope.new() + "_tr", (*types, *scope.extents, 0, 2)
        lower, upper, stride = scope.pick(operands), scope.pick(operands), scope.pick((1, 8))
        access.append(dlc.Traversal(name=name, parent=parent, lower=lower, upper=upper, stride=stride, origin=ORIGIN))
        traversals.append(name)
        types[f"{name}.ite"] = "i32"
        for _ in range(scope.draw(SMALL)):
            access.append(_stream(scope, name, read_only, types))
        for event in dlc.EVENTS:
            access += _event(scope, name, event, types)
    return access, types


def _stream(scope: Scope, traversal: str, read_only: dict[str, str], types: dict[str, str]) -> dlc.AccessStatement:
    operands = (*types, *scope.extents, 5)
    result = scope.new()
    if read_only and scope.draw(st.booleans()):
        buffer, index = scope.pick(read_only), scope.pick(operands)
        types[result] = read_only[buffer]
        return dlc.MemStream(result=result, traversal=traversal, buffer=buffer, index=index, origin=ORIGIN)
    function, pair = scope.pick(loops.INFIX_INDEX), (scope.pick(operands), scope.pick(operands))
    types[result] = "i32"
    return dlc.AluStream(result=result, traversal=traversal, function=function, operands=pair, origin=ORIGIN)


def _event(scope: Scope, traversal: str, event: dlc.Event, types: dict[str, str]) -> list[dlc.AccessStatement]:
    """A callback, perhaps, with what it pushes."""
    if scope.draw(st.booleans()):
        return []
    pushed = [scope.pick(types) for _ in range(scope.draw(SMALL))]
    pushes = [dlc.PushOp(stream=stream, traversal=traversal, event=event, origin=ORIGIN) for stream in pushed]
    return [*pushes, dlc.Callback(traversal=traversal, event=event, token=f"{traversal}_{event}", origin=ORIGIN)]


@st.composite
def modules(draw: Draw) -> Module:
    """Modules of up to three programs of one IR."""
    programs = draw(st.lists(draw(st.sampled_from([kernels(), slc_programs(), dlc_programs()])), max_size=3))
    gradients = draw(st.lists(st.tuples(st.sampled_from(HINTS), st.sampled_from(HINTS)), max_size=2))
    name, result = draw(st.sampled_from(HINTS)), draw(st.sampled_from(HINTS))
    return Module(name=name, result=result, gradients=tuple(gradients), programs=tuple(programs), origin=ORIGIN)


@st.composite
def graphs(draw: Draw) -> graph.Graph:
    """Graphs; shapes are drawn with no regard to what the operators would give."""
    family = draw(st.sampled_from(("score", "layer")))
    sets = SETS[family]
    names = Names({*sets})

    def pick(choices):
        return draw(st.sampled_from(tuple(choices)))

    sizes = tuple((names.new(hint), draw(st.integers(1, 512))) for hint in draw(st.lists(st.sampled_from(HINTS))))
    maps = tuple(
        graph.IndexMap(name=names.new(hint), domain=pick(sets), codomain=pick(sets), origin=ORIGIN)
        for hint in ("h", "r", "t")
    )
    shapes = st.lists(st.sampled_from([*(name for name, _ in sizes), 1, 3]), max_size=3).map(tuple)
    tensors = tuple(
        graph.Tensor(
            name=names.new(pick((*HINTS, "inf"))),
            sets=pick(((), sets[:1], sets[1:2], sets[:2])),
            dims=draw(shapes),
            kind=pick(("param", "input", "structure", "upstream")),
            origin=ORIGIN,
        )
        for _ in range(draw(SMALL))
    )
    values: list[graph.Value] = []
    for number in range(draw(st.integers(1, 8))):
        values.append(
            graph.Value(
                name=f"%{number + 1}",
                operator=_operator(draw, tensors, maps, tuple(value.name for value in values)),
                index_set=pick((*sets, "unit")),
                shape=draw(shapes),
                depends=tuple(sorted(draw(st.sets(st.sampled_from([m.name for m in maps]))))),
                origin=ORIGIN,
            )
        )
    return graph.Graph(
        name=pick(HINTS),
        family=family,
        sizes=sizes,
        maps=maps,
        tensors=tensors,
        values=tuple(values),
        result=pick(value.name for value in values),
        gradients=tuple((tensor.name, pick(value.name for value in values)) for tensor in tensors if pick((0, 1))),
        origin=ORIGIN,
    )


def _paths(draw: Draw, maps: tuple[graph.IndexMap, ...], least: int) -> tuple[str, ...]:
    """Paths of one or two maps, at least so many."""
    steps = st.lists(st.sampled_from([entry.name for entry in maps]), min_size=1, max_size=2)
    return tuple(".".join(draw(steps)) for _ in range(draw(st.integers(least, 2))))


def _operator(
    draw: Draw, tensors: tuple[graph.Tensor, ...], maps: tuple[graph.IndexMap, ...], known: tuple[str, ...]
) -> graph.Operator:
    if not known or draw(st.integers(0, 4)) == 0:
        if not tensors or draw(st.booleans()):
            return graph.Constant(value=draw(FLOATS), origin=ORIGIN)
        tensor = draw(st.sampled_from(tensors)).name
        return graph.Gather(tensor=tensor, indices=_paths(draw, maps, 0), origin=ORIGIN)
    one, two = draw(st.sampled_from(known)), draw(st.sampled_from(known))
    signatures = (*graph.CONTRACTION_NAMES, "ab,b->a", "ab,abc->ac", "a,a->a")
    return draw(
        st.one_of(
            st.sampled_from(signatures).map(
                lambda signature: graph.Contract(signature=signature, left=one, right=two, origin=ORIGIN)
            ),
            st.sampled_from(graph.REDUCTIONS).map(lambda f: graph.Reduce(function=f, operand=one, origin=ORIGIN)),
            st.sampled_from([name for name in graph.PREFIX_FUNCTIONS if name != "leaky_relu"]).map(
                lambda f: graph.Elementwise(function=f, operands=(one,), origin=ORIGIN)
            ),
            st.sampled_from(TWO_OPERANDS).map(
                lambda f: graph.Elementwise(function=f, operands=(one, two), origin=ORIGIN)
            ),
            FLOATS.map(
                lambda slope: graph.Elementwise(function="leaky_relu", operands=(one,), parameter=slope, origin=ORIGIN)
            ),
            st.tuples(SMALL, SMALL).map(
                lambda ends: graph.Slice(operand=one, start=ends[0], stop=ends[1], origin=ORIGIN)
            ),
            st.sampled_from([(one,), (one, two), (one, two, one)]).map(
                lambda operands: graph.Concat(operands=operands, origin=ORIGIN)
            ),
            st.just(graph.Elementwise(function="copy", operands=(one,), origin=ORIGIN)),
            st.just(graph.Gather(tensor=one, indices=_paths(draw, maps, 1), origin=ORIGIN)),
            st.sampled_from(graph.SEGMENT_FUNCTIONS).map(
                lambda f: graph.Segment(function=f, operand=one, map=maps[0].name, origin=ORIGIN)
            ),
            st.just(graph.Transpose(operand=one, origin=ORIGIN)),
            st.just(graph.Reshape(operand=one, origin=ORIGIN)),
        )
    )
