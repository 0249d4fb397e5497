"""Random programs of each IR that their verifiers accept. They mean nothing; they reach every form of every node."""

from __future__ import annotations

from hypothesis import strategies as st

from explorer.compiler.ir import graph
from explorer.compiler.ir.functions import TABLE
from explorer.compiler.ir.module import Module, Packing
from explorer.compiler.ir.node import Names
from tests.compiler.ir.decoupled import dlc_programs, slc_programs
from tests.compiler.ir.drawing import FLOATS, HINTS, ORIGIN, SMALL, Draw, kernels

__all__ = ["dlc_programs", "graphs", "kernels", "modules", "slc_programs"]

SETS = {"score": ("entity", "relation", "batch", "negative"), "layer": ("node", "edge", "etype", "src_pair")}


@st.composite
def modules(draw: Draw) -> Module:
    """Modules of up to three programs of one IR."""
    programs = draw(st.lists(draw(st.sampled_from([kernels(), slc_programs(), dlc_programs()])), max_size=3))
    gradients = draw(st.lists(st.tuples(st.sampled_from(HINTS), st.sampled_from(HINTS)), max_size=2))
    hints = st.sampled_from(HINTS)
    scalars = st.lists(hints).map(tuple)
    rows = st.builds(Packing, hints, st.one_of(hints, st.integers(1, 9)), scalars, st.integers(0, 99))
    packed = tuple(draw(st.lists(rows, max_size=2)))
    return Module(
        name=draw(hints),
        result=draw(hints),
        gradients=tuple(gradients),
        programs=tuple(programs),
        packed=packed,
        origin=ORIGIN,
    )


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
                operator=_operator(draw, tensors, maps, {value.name: value.index_set for value in values}),
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


def _gather(draw: Draw, maps: tuple[graph.IndexMap, ...], tensor: str, sets: tuple[str, ...]) -> graph.Operator:
    """What picks of a tensor by paths of one or two maps that lead to its sets; a constant where none lead there."""
    ends = [[entry.name for entry in maps if entry.codomain == one] for one in sets]
    if not all(ends):
        return graph.Constant(value=draw(FLOATS), origin=ORIGIN)
    first = st.lists(st.sampled_from([entry.name for entry in maps]), max_size=1)
    paths = tuple(".".join((*draw(first), draw(st.sampled_from(end)))) for end in ends)
    return graph.Gather(tensor=tensor, indices=paths, origin=ORIGIN)


def _operator(
    draw: Draw, tensors: tuple[graph.Tensor, ...], maps: tuple[graph.IndexMap, ...], known: dict[str, str]
) -> graph.Operator:
    """One that reads the known values, which are given with their sets."""
    if not known or draw(st.integers(0, 4)) == 0:
        if not tensors or draw(st.booleans()):
            return graph.Constant(value=draw(FLOATS), origin=ORIGIN)
        tensor = draw(st.sampled_from(tensors))
        return _gather(draw, maps, tensor.name, tensor.sets)
    one, two = draw(st.sampled_from([*known])), draw(st.sampled_from([*known]))
    signatures = (*graph.CONTRACTION_NAMES, "ab,b->a", "ab,abc->ac", "a,a->a")
    return draw(
        st.one_of(
            st.sampled_from(signatures).map(
                lambda signature: graph.Contract(signature=signature, left=one, right=two, origin=ORIGIN)
            ),
            st.sampled_from(graph.REDUCTIONS).map(lambda f: graph.Reduce(function=f, operand=one, origin=ORIGIN)),
            st.sampled_from([f.name for f in TABLE if f.operand_count == 1]).map(
                lambda f: graph.Elementwise(function=f, operands=(one,), origin=ORIGIN)
            ),
            st.sampled_from([f.name for f in TABLE if f.arity == 2]).map(
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
            st.just(_gather(draw, maps, one, (known[one],))),
            st.sampled_from(graph.SEGMENT_FUNCTIONS).map(
                lambda f: graph.Segment(function=f, operand=one, map=maps[0].name, origin=ORIGIN)
            ),
            st.just(graph.Transpose(operand=one, origin=ORIGIN)),
            st.just(graph.Reshape(operand=one, origin=ORIGIN)),
        )
    )
