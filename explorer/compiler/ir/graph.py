"""The graph: operators on rows over index sets.

Hector's inter-operator IR (Hector §3.2) and cuKE's computation graph (cuKE §IV) in one. A value lives on an index
set, has a small dense shape and depends on some of the set's maps. Operators carry the names of cuKE's Table III.

An index is a path of maps from the value's set: `src.ntype` is the type of an edge's source. The name of the set
itself is its identity: `feature[node]` on nodes is each node's own row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from math import prod
from string import ascii_lowercase

from explorer.compiler.frozen import dataclass, replace
from explorer.compiler.ir.index_functions import Ids, Steps, rows_for, take, widens, written
from explorer.compiler.ir.node import Extent, Line, Node, VerificationError, merge, once
from explorer.compiler.options import USUAL_EDGES

Shape = tuple[Extent, ...]

REDUCTIONS = ("sum", "mean", "max", "min", "product", "norm1", "norm2")

SEGMENT_FUNCTIONS = ("sum", "mean", "max", "min", "product")
DOMAINS = {"score": "batch", "layer": "graph"}
"""What each family of definitions is written over; of an op, the graph says it."""

STRUCTURES = ("bags", "blocks", "csr", "coo")
"""What an op is written over."""

Ends = tuple[str, str]
"""The sets that a layer's edges lead from and to."""
NODES: Ends = ("node", "node")
"""Those of a graph that has one set of nodes."""

CONTRACTION_NAMES = {
    ",a->a": "bsv",
    "a,a->": "bvv",
    "a,ab->b": "bmv",
    "b,ab->a": "bmv_t",
    "a,b->ab": "bov",
    "b,a->ab": "bov_t",
    "ab,bc->ac": "bmm",
}
"""cuKE Table III: scal_mul_vec, vec_mul_vec, vec_mul_mat, vec_outer_vec; bmm is the batched matrix product. _t: bmv
with its matrix transposed and bov with its result transposed, of which backward passes are made (§VII-C)."""


@dataclass(frozen=True, kw_only=True)
class Tensor(Node):
    """`param E[entity, D]`: its extents are the sizes of its index sets, then its dimensions. `storage` is what its
    elements are in memory, one of `ir.storage`."""

    name: str
    sets: tuple[str, ...]
    dims: Shape
    kind: str  # "param" (learnt), "input" (given), "structure" (of the graph: norm, in_degree) or "upstream"
    storage: str = "f32"


@dataclass(frozen=True, kw_only=True)
class IndexMap(Node):
    """`map h: batch -> entity`: an index array over the domain with values in the codomain.

    `map r_t: batch -> relation_by_entity = r, t` is several paths of maps as one: it leads to the product of the sets
    that they lead to, whose elements are numbered in row-major order, as the rows of a tensor over them.

    `map idx_div_100: entry -> quotient = idx // 100` is what is computed of the path's ids, as for a hash:
    `(idx * 31 + 7) % 1000`; of several paths' it is one number, `h + t`, and no row of a product.

    `map t: negative -> entity sharing 1024` has one list for so many of the containers in a row, as a run gives it:
    [chunks, negatives]. Programs read it as one of each, [batch, negatives]."""

    name: str
    domain: str
    codomain: str
    paths: tuple[str, ...] = ()
    computed: Steps = ()
    sharing: int = 1

    @property
    def widens(self) -> bool:
        """Whether what is computed may need 64 bits on the way."""
        return widens(self.computed)

    def lead(self, ids: Sequence[Ids], sizes: Sequence[int]) -> Ids:
        """Where several paths lead as one, of the ids that each leads to and how many there are of these: what is
        computed of them, which are of 64 bits where it `widens`, or a row of the product."""
        if self.computed:
            return take(ids, self.computed)
        first, *others = ids
        for each, size in zip(others, sizes[1:], strict=True):
            first = first * size + each
        return first

    def count(self, sizes: Sequence[int]) -> int:
        """How many elements it may lead to, where each of its paths leads to so many."""
        return rows_for(sizes, self.computed) if self.computed else prod(sizes)


@dataclass(frozen=True, kw_only=True)
class Gather(Node):
    """The rows of a tensor, or of a value on another set, picked by paths of maps; a tensor without index sets is
    read whole (`indices` empty)."""

    tensor: str
    indices: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Constant(Node):
    value: float


@dataclass(frozen=True, kw_only=True)
class Elementwise(Node):
    """One of `ir.functions`, of operands of equal shape; a scalar operand repeats. `parameter`: leaky_relu's slope."""

    function: str
    operands: tuple[str, ...]
    parameter: float | None = None


@dataclass(frozen=True, kw_only=True)
class Contract(Node):
    """A product of two values, summed over the letters that the result lacks: `a,ab->b` is a row times a matrix."""

    signature: str
    left: str
    right: str


@dataclass(frozen=True, kw_only=True)
class Reduce(Node):
    """A reduction over the last dimension: one of REDUCTIONS."""

    function: str
    operand: str


@dataclass(frozen=True, kw_only=True)
class Segment(Node):
    """A reduction over the elements that a map takes to the same place: `segment_sum %5 by dst`, from edges to nodes.

    An empty segment gives 0, but that a product of nothing is 1."""

    function: str  # one of SEGMENT_FUNCTIONS
    operand: str
    map: str


@dataclass(frozen=True, kw_only=True)
class Transpose(Node):
    """A view with the last two dimensions exchanged."""

    operand: str


@dataclass(frozen=True, kw_only=True)
class Slice(Node):
    """A view of elements start..stop of the last dimension."""

    operand: str
    start: int
    stop: int


@dataclass(frozen=True, kw_only=True)
class Concat(Node):
    """The operands one after another along the last dimension."""

    operands: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Reshape(Node):
    """The same elements in row-major order under another shape (the value's)."""

    operand: str


@dataclass(frozen=True, kw_only=True)
class Repeat(Node):
    """Copies of the operand side by side along a new first dimension (the value's first)."""

    operand: str


Operator = Gather | Constant | Elementwise | Contract | Reduce | Segment | Transpose | Slice | Concat | Reshape | Repeat


@dataclass(frozen=True, kw_only=True)
class Value(Node):
    """`%5 = bmv %3, %4   batch [K]   {h, r, t}`."""

    name: str
    operator: Operator
    index_set: str  # "batch", "negative", "edge", "node", ...; "unit" for what depends on no map
    shape: Shape
    depends: tuple[str, ...]  # the maps it depends on, sorted


@dataclass(frozen=True, kw_only=True)
class Graph(Node):
    """A whole definition: what it reads, its values in order, and those that it returns."""

    name: str
    family: str
    sizes: tuple[tuple[str, int], ...]
    maps: tuple[IndexMap, ...]
    tensors: tuple[Tensor, ...]
    values: tuple[Value, ...]
    result: str
    gradients: tuple[tuple[str, str], ...] = ()  # by tensor: the value that is its gradient
    structure: str = ""  # of an op: "bags", "csr", "coo" or "blocks"
    further: tuple[str, ...] = ()  # the results behind the first, of `return a, b`
    edges: str = USUAL_EDGES  # the end that a layer's edges are sorted by in memory
    ends: Ends = NODES  # of a layer: the sets that its edges lead from and to
    frozen: frozenset[str] = frozenset()  # learnt tensors that no gradient is asked of, for the pass that derives them

    @property
    def results(self) -> tuple[str, ...]:
        """The values that it returns, in order; one of them may be there twice."""
        return (self.result, *self.further)

    @property
    def outputs(self) -> tuple[str, ...]:
        """The values that whoever runs it gets: the results, and the gradients."""
        return (*self.results, *(name for _, name in self.gradients))

    @property
    def is_one_nest(self) -> bool:
        """Whether its loops are one nest over a batch, with a number each as the one output: they read nothing but what
        a caller gives, and reduce nothing but rows."""
        reduces = any(isinstance(value.operator, Segment) for value in self.values)
        made = any(entry.computed for entry in self.maps)
        one = len(self.outputs) == 1 and not self.value(self.result).shape
        return self.family == "score" and one and not reduces and not made

    def wants_gradient(self, tensor: Tensor) -> bool:
        """Whether a backward pass computes a tensor's gradient: of what is learnt, and of an op's weights and values,
        but for those that are `frozen`.

        What a graph brings for a layer is counted, not chosen."""
        learnt = tensor.kind == "param" or (tensor.kind == "structure" and self.family == "op")
        return learnt and tensor.name not in self.frozen

    def scatters(self, value: Value) -> bool:
        """Whether a sum is taken element by element, each added where its row is: coordinates have no segments."""
        operator = value.operator
        return (
            self.structure == "coo"
            and isinstance(operator, Segment)
            and (operator.function, operator.map) == ("sum", "row")
        )

    def value(self, name: str) -> Value:
        """The value of that name."""
        return self._values_by_name[name]

    @cached_property
    def _values_by_name(self) -> dict[str, Value]:
        return {value.name: value for value in self.values}

    @property
    def domain(self) -> str:
        """The set that the definition is written over."""
        between = "" if self.ends == NODES else f"[{', '.join(self.ends)}]"
        return self.structure or f"{DOMAINS[self.family]}{between}"

    def size(self, extent: Extent) -> int:
        """The number that an extent stands for."""
        return extent if isinstance(extent, int) else dict(self.sizes)[extent]


def in_order(signature: str) -> str:
    """A contraction's signature with its letters in order of appearance, so that equal products print alike."""
    letters = dict.fromkeys(letter for letter in signature if letter.isalpha())
    names = dict(zip(letters, ascii_lowercase, strict=False))
    return "".join(names.get(letter, letter) for letter in signature)


def plural(index_set: str) -> str:
    """`nodes`, `entries`."""
    if index_set.endswith("y") and index_set[-2:-1] not in "aeiou":
        return f"{index_set[:-1]}ies"
    return f"{index_set}s"


def operands(operator: Operator) -> tuple[str, ...]:
    """The names of the values that an operator reads."""
    match operator:
        case Elementwise() | Concat():
            return operator.operands
        case Contract():
            return (operator.left, operator.right)
        case Reduce() | Segment() | Transpose() | Slice() | Reshape() | Repeat():
            return (operator.operand,)
        case Gather() if operator.tensor.startswith("%"):
            return (operator.tensor,)
    return ()


def indices_of(operator: Operator) -> tuple[str, ...]:
    """The maps through which an operator gathers."""
    return operator.indices if isinstance(operator, Gather) else ()


def with_outputs_renamed(graph: Graph, values: tuple[Value, ...], names: Mapping[str, str]) -> Graph:
    """The graph of other values, its results and gradients renamed where `names` says so."""
    return replace(
        graph,
        values=values,
        result=names.get(graph.result, graph.result),
        further=tuple(names.get(name, name) for name in graph.further),
        gradients=tuple((tensor, names.get(name, name)) for tensor, name in graph.gradients),
    )


def rename_operands(operator: Operator, names: Mapping[str, str]) -> Operator:
    """The operator with its operands renamed where `names` says so."""
    match operator:
        case Elementwise() | Concat():
            return replace(operator, operands=tuple(names.get(name, name) for name in operator.operands))
        case Contract():
            left, right = operator.left, operator.right
            return replace(operator, left=names.get(left, left), right=names.get(right, right))
        case Gather():
            return replace(operator, tensor=names.get(operator.tensor, operator.tensor))
        case Reduce() | Segment() | Transpose() | Slice() | Reshape() | Repeat():
            return replace(operator, operand=names.get(operator.operand, operator.operand))
    return operator


def operator_name(operator: Operator, shape: Shape) -> str:
    """The operator's name in the printed graph: cuKE's Table III where it has one."""
    match operator:
        case Gather():
            return {1: "gather_vec", 2: "gather_mat"}.get(len(shape), "gather")
        case Contract():
            return CONTRACTION_NAMES.get(operator.signature, f"contract<{operator.signature}>")
        case Elementwise() if operator.parameter is not None:
            return f"{operator.function}<{operator.parameter!r}>"
        case Elementwise() | Reduce():
            return operator.function.replace("norm1", "norm<1>").replace("norm2", "norm<2>")
        case Segment():
            return f"segment_{operator.function}"
        case Slice():
            return f"slice<{operator.start}:{operator.stop}>"
    return type(operator).__name__.lower()


@once
def print_graph(graph: Graph) -> tuple[Line, ...]:
    """One line a declaration and one a value, with index set, shape and dependencies in columns."""
    lines = [Line(f"{graph.family} {graph.name} over {graph.domain}")]
    if graph.edges != USUAL_EDGES:
        lines.append(Line(f"  edges by {graph.edges}"))
    if graph.sizes:
        lines.append(Line("  dim " + ", ".join(f"{name} = {size}" for name, size in graph.sizes)))
    lines += [Line(_print_map(entry)) for entry in graph.maps]
    for tensor in graph.tensors:
        extents = ", ".join(str(extent) for extent in (*tensor.sets, *tensor.dims))
        stored = f": {tensor.storage}" if tensor.storage != "f32" else ""
        lines.append(Line(f"  {tensor.kind} {tensor.name}[{extents}]{stored}"))
    rows = [(f"  {value.name} = {_print_operator(value)}", _print_place(value)) for value in graph.values]
    left = max((len(text) for text, _ in rows), default=0)
    middle = max((len(place) for _, place in rows), default=0)
    for value, (text, place) in zip(graph.values, rows, strict=True):
        depends = "{" + ", ".join(value.depends) + "}"
        lines.append(Line(f"{text:<{left}}  : {place:<{middle}}  {depends}", value.origin))
    returned = merge(*(graph.value(name).origin for name in graph.results))
    lines.append(Line(f"  return {', '.join(graph.results)}", returned))
    lines += [Line(f"  gradient {tensor} = {name}", graph.value(name).origin) for tensor, name in graph.gradients]
    return tuple(lines)


def _print_map(entry: IndexMap) -> str:
    made = written(entry.paths, entry.computed) if entry.computed else ", ".join(entry.paths)
    product = f" = {made}" if entry.paths else ""
    sharing = f" sharing {entry.sharing}" if entry.sharing > 1 else ""
    return f"  map {entry.name}: {entry.domain} -> {entry.codomain}{sharing}{product}"


def _print_operator(value: Value) -> str:
    name = operator_name(value.operator, value.shape)
    match value.operator:
        case Gather() as gather:
            return f"{name} {gather.tensor}" + (f"[{', '.join(gather.indices)}]" if gather.indices else "")
        case Constant() as constant:
            return f"{name} {constant.value!r}"
        case Segment() as segment:
            return f"{name} {segment.operand} by {segment.map}"
    return f"{name} {', '.join(operands(value.operator))}"


def _print_place(value: Value) -> str:
    return f"{value.index_set} [{', '.join(str(extent) for extent in value.shape)}]"


def verify_graph(graph: Graph) -> None:
    """Raises VerificationError unless every value is defined once and before its use, what it gathers has a row for
    each of the sets that its paths lead to, and it knows its origin."""
    tensors = {tensor.name: tensor for tensor in graph.tensors}
    leads_to = {entry.name: entry.codomain for entry in graph.maps}
    defined: dict[str, Value] = {}
    for value in graph.values:
        if value.name in defined:
            raise VerificationError(f"{value.name} is defined twice")
        for operand in operands(value.operator):
            if operand not in defined:
                raise VerificationError(f"{value.name} uses {operand} before its definition")
        if isinstance(value.operator, Gather):
            gather = value.operator
            steps = {step for path in gather.indices for step in path.split(".")}
            if gather.tensor not in tensors.keys() | defined.keys() or not steps <= {*leads_to, value.index_set}:
                raise VerificationError(f"{value.name} gathers what is not declared: {gather.tensor}")
            ends = {path: path.rpartition(".")[2] for path in gather.indices}
            picked = tuple(p if p == value.index_set else leads_to.get(ends[p], ends[p]) for p in gather.indices)
            declared = tensors[gather.tensor].sets if gather.tensor in tensors else (defined[gather.tensor].index_set,)
            if picked != declared:
                raise VerificationError(f"{value.name} picks {gather.tensor} by {picked}, not by {declared}")
        if not value.origin:
            raise VerificationError(f"{value.name} has no origin")
        defined[value.name] = value
    for name in graph.results:
        if name not in defined:
            raise VerificationError(f"the result {name} is not defined")
