"""Reads a printed graph."""

from __future__ import annotations

from typing import NamedTuple

from lark import v_args
from lark.tree import Meta

from explorer.compiler.ir import graph as g
from explorer.compiler.ir.functions import FUNCTIONS
from explorer.compiler.ir.index_functions import DIVISIONS, Steps
from explorer.compiler.ir.node import Node, Origin
from explorer.compiler.ir.parse.reader import Builder, Sharing, Stored, read
from explorer.compiler.ir.parse.statements import NUMBER_WORDS
from explorer.compiler.options import EDGES, USUAL_EDGES

SIGNATURES = {name: signature for signature, name in g.CONTRACTION_NAMES.items()}
FULL = Stored("f32")
GATHERS = ("gather", "gather_vec", "gather_mat")


def parse_graph(text: str) -> g.Graph:
    """The graph whose printed text this is; raises ParseError for a text that is none."""
    parsed: g.Graph = read("graph", text, _GraphBuilder(text))
    return parsed


class _Ids(NamedTuple):
    paths: tuple[str, ...]
    computed: Steps = ()


class _Edges(NamedTuple):
    end: str


class _Ends(NamedTuple):
    sets: g.Ends


class _Results(NamedTuple):
    names: tuple[str, ...]
    meta: Meta


class _Gradient(NamedTuple):
    tensor: str
    value: str
    meta: Meta


@v_args(inline=True, meta=True)
class _GraphBuilder(Builder):
    """Values come in order, so the sizes are known when the tensors are read: an extent without a size is a set."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._sizes: tuple[tuple[str, int], ...] = ()

    def program(self, meta: Meta, family: str, name: str, domain: str, *parts: object) -> g.Graph:
        structure = domain if family == "op" and domain in g.STRUCTURES else ""
        ends = next((part.sets for part in parts if isinstance(part, _Ends)), g.NODES)
        if (not structure and g.DOMAINS.get(family) != domain) or (family != "layer" and ends != g.NODES):
            raise self.refuse(meta, f"there is no {family} over {domain}{'' if ends == g.NODES else list(ends)}")
        values = tuple(part for part in parts if isinstance(part, g.Value))
        gradients = tuple(part for part in parts if isinstance(part, _Gradient))
        (returned,) = (part for part in parts if isinstance(part, _Results))
        edges = next((part.end for part in parts if isinstance(part, _Edges)), USUAL_EDGES)
        defined = {value.name for value in values}
        for each in returned.names:
            if each not in defined:
                raise self.refuse(returned.meta, f"{each} is returned, but no line defines it")
        for gradient in gradients:
            if gradient.value not in defined:
                raise self.refuse(gradient.meta, f"{gradient.value} is a gradient, but no line defines it")
        return g.Graph(
            name=name,
            family=family,
            structure=structure,
            sizes=self._sizes,
            maps=tuple(part for part in parts if isinstance(part, g.IndexMap)),
            tensors=tuple(part for part in parts if isinstance(part, g.Tensor)),
            values=values,
            result=returned.names[0],
            further=returned.names[1:],
            gradients=tuple((gradient.tensor, gradient.value) for gradient in gradients),
            edges=edges,
            ends=ends,
            origin=self.origin(meta),
        )

    def ends(self, meta: Meta, source: str, destination: str) -> _Ends:
        return _Ends((source, destination))

    def edges(self, meta: Meta, end: str) -> _Edges:
        if end not in EDGES:
            raise self.refuse(meta, f"edges are by {' or '.join(EDGES)}, not {end}")
        return _Edges(end)

    def dims(self, meta: Meta, *sizes: tuple[str, int]) -> None:
        self._sizes = sizes

    def dim(self, meta: Meta, name: str, size: int) -> tuple[str, int]:
        return name, size

    def index_map(
        self, meta: Meta, name: str, domain: str, codomain: str, *rest: Sharing | int | str | _Ids
    ) -> g.IndexMap:
        if any(isinstance(part, int) for part in rest):
            raise self.refuse(meta, f"{name} is a number, and no map")
        product = _Ids(tuple(part for part in rest if isinstance(part, str)))
        ids = next((part for part in rest if isinstance(part, _Ids)), product)
        return g.IndexMap(
            name=name,
            domain=domain,
            codomain=codomain,
            paths=ids.paths,
            computed=ids.computed,
            sharing=next((part.facts for part in rest if isinstance(part, Sharing)), 1),
            origin=self.origin(meta),
        )

    def ids(self, meta: Meta, first: int | str | _Ids, *rest: int | str | _Ids) -> int | _Ids:
        """What is computed from left to right, an operator before each operand behind the first."""
        if isinstance(first, int):
            if rest:
                raise self.refuse(meta, f"what is computed of ids begins with one, not with {first}")
            return first
        found = _Ids((first,)) if isinstance(first, str) else first
        for operator, operand in zip(rest[::2], rest[1::2], strict=True):
            assert isinstance(operator, str)
            other = _Ids((operand,)) if isinstance(operand, str) else operand
            if isinstance(other, int):
                found = _Ids(found.paths, (*found.computed, (operator, other)))
            elif operator in DIVISIONS:
                raise self.refuse(meta, "an id is divided by a number, not by another")
            else:
                found = _Ids((*found.paths, *other.paths), (*found.computed, (operator, other.computed)))
        return found

    def tensor(self, meta: Meta, kind: str, name: str, extents: g.Shape, stored: Stored = FULL) -> g.Tensor:
        sized = dict(self._sizes)
        count = next((n for n, e in enumerate(extents) if isinstance(e, int) or e in sized), len(extents))
        sets = tuple(str(extent) for extent in extents[:count])
        dims, origin = extents[count:], self.origin(meta)
        return g.Tensor(name=name, sets=sets, dims=dims, kind=kind, storage=stored.name, origin=origin)

    def value(
        self, meta: Meta, name: str, operator: g.Operator, index_set: str, shape: g.Shape, depends: tuple[str, ...]
    ) -> g.Value:
        origin = self.origin(meta)
        return g.Value(name=name, operator=operator, index_set=index_set, shape=shape, depends=depends, origin=origin)

    def results(self, meta: Meta, *names: str) -> _Results:
        return _Results(names, meta)

    def gradient(self, meta: Meta, tensor: str, value: str) -> _Gradient:
        return _Gradient(tensor, value, meta)

    def gather(self, meta: Meta, name: str, tensor: str, indices: tuple[str, ...] = ()) -> Node:
        if name == "constant" and tensor in NUMBER_WORDS:
            return self.constant(meta, name, float(tensor))
        if name not in GATHERS:
            raise self.refuse(meta, f"{name} does not read a tensor; {' and '.join(GATHERS)} do")
        return g.Gather(tensor=tensor, indices=indices, origin=self.origin(meta))

    def segment(self, meta: Meta, name: str, operand: str, by: str) -> Node:
        function = name.removeprefix("segment_")
        if function == name or function not in g.SEGMENT_FUNCTIONS:
            raise self.refuse(meta, f"{name} is no reduction of segments")
        return g.Segment(function=function, operand=operand, map=by, origin=self.origin(meta))

    def constant(self, meta: Meta, name: str, number: float) -> Node:
        if name != "constant":
            raise self.refuse(meta, f"{name} takes values such as %1; only `constant` takes a number")
        return g.Constant(value=number, origin=self.origin(meta))

    def computed(self, meta: Meta, name: str, *rest: str) -> Node:
        has_parameter = rest[0].startswith("<")
        parameter, operands = (rest[0], rest[1:]) if has_parameter else ("", rest)
        try:
            operator = _operator(name, parameter[1:-1], operands, self.origin(meta))
        except ValueError:
            raise self.refuse(meta, f"{name} cannot have the parameter {parameter}") from None
        if operator is None:
            values = "a value" if len(operands) == 1 else f"{len(operands)} values"
            raise self.refuse(meta, f"there is no operator {name}{parameter} of {values}")
        return operator

    def indices(self, meta: Meta, *names: str) -> tuple[str, ...]:
        return names

    def shape(self, meta: Meta, *extents: str | int) -> g.Shape:
        return extents

    def depends(self, meta: Meta, *names: str) -> tuple[str, ...]:
        return names


def _operator(name: str, parameter: str, operands: tuple[str, ...], origin: Origin) -> g.Operator | None:
    """The operator of that name; None if there is none. Raises ValueError for a parameter that is no number."""
    first, count = operands[0], len(operands)
    reduction = f"norm{parameter}" if name == "norm" else name
    match name, bool(parameter), count:
        case _, False, 2 if name in SIGNATURES:
            return g.Contract(signature=SIGNATURES[name], left=first, right=operands[1], origin=origin)
        case "contract", True, 2:
            return g.Contract(signature=parameter, left=first, right=operands[1], origin=origin)
        case "slice", True, 1:
            start, _, stop = parameter.partition(":")
            return g.Slice(operand=first, start=int(start), stop=int(stop), origin=origin)
        case "transpose", False, 1:
            return g.Transpose(operand=first, origin=origin)
        case "reshape", False, 1:
            return g.Reshape(operand=first, origin=origin)
        case "repeat", False, 1:
            return g.Repeat(operand=first, origin=origin)
        case "concat", False, _:
            return g.Concat(operands=operands, origin=origin)
        case _, _, 1 if reduction in g.REDUCTIONS and bool(parameter) == (name == "norm"):
            return g.Reduce(function=reduction, operand=first, origin=origin)
    function = FUNCTIONS.get(name)
    if function is None or (function.arity, function.parameter is not None) != (count, bool(parameter)):
        return None
    number = float(parameter) if parameter else None
    return g.Elementwise(function=name, operands=operands, parameter=number, origin=origin)
