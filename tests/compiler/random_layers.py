"""Random layers over random graphs: the expressions of `random_models` in loops over nodes and edges.

Values stay small, as there: a sum over edges counts as one over MOST_EDGES of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.compiler.random_models import BINARY, LARGEST_BOUND, UNARY, Model, Shape, Value

MOST_NODES = 5
MOST_EDGES = 9
MOST_TYPES = 3
MOST_TENSORS = 7
SIZES = ("F", "G", "H")
EXTENTS = (1, 2, 3, 4)

# Among ordinary names some that the compiler gives to what it makes itself.
TENSOR_NAMES = ("x", "W", "V", "w_s", "mu", "b", "out", "structure", "index", "acc", "v1", "inf", "temporary")
DATA_NAMES = ("h", "att", "msg", "z", "result", "q", "k", "norm_sum")
LOCAL_NAMES = ("hs", "ht", "u", "y", "acc", "begin")

INDICES = {
    "node": {"node": ("n",), "ntype": ("n.ntype",)},
    "edge": {
        "node": ("e.src", "e.src", "e.dst"),
        "edge": ("e",),
        "etype": ("e.etype", "e.etype", "e.etype"),
        "ntype": ("e.src.ntype", "e.dst.ntype"),
    },
}
"""How the elements of each set are written in a loop over nodes or over edges."""
STRUCTURE = {"node": ("n.in_degree / 8",), "edge": ("e.norm", "e.norm", "e.dst.in_degree / 8")}
DIRECTIONS = ("incoming_edges", "incoming_edges", "outgoing_edges")
OVER_EDGES = ("sum", "sum", "mean", "max", "min")


@dataclass(frozen=True)
class Data:
    """Data written on nodes or edges: `n["h"]`."""

    index_set: str
    name: str
    shape: Shape
    bound: float


@dataclass(frozen=True)
class Declared:
    """A tensor of the text."""

    name: str
    sets: tuple[str, ...]
    shape: Shape


@dataclass
class Layer(Model):
    """A text while it is drawn. `place` is the loop that statements stand in: over "node" or "edge"."""

    place: str = "node"
    depth_of_loops: int = 0
    declared: list[Declared] = field(default_factory=list)
    declarations: list[str] = field(default_factory=list)
    data: list[Data] = field(default_factory=list)
    own: list[Data] = field(default_factory=list)
    """What the loop that runs has written so far."""
    lines: list[str] = field(default_factory=list)
    names: int = 0

    # Expressions

    def expression(self, shape: Shape, depth: int) -> Value:
        if self.place == "node" and depth and self.draw(st.integers(0, 2)) == 0:
            return self.over_edges(shape, depth - 1)
        return super().expression(shape, depth)

    def over_edges(self, shape: Shape, depth: int) -> Value:
        """`sum(x[e.src] for e in n.incoming_edges())`."""
        function = self.pick(OVER_EDGES)
        with self.edges_of_node():
            operand = self.per_element(self.expression(shape, depth))
        bound = operand.bound * (MOST_EDGES if function == "sum" else 1)
        value = Value(f"{function}({operand.text} for e in n.{self.pick(DIRECTIONS)}())", bound, True)
        return Value(f"tanh({value.text})", 1.0, True) if bound > LARGEST_BOUND else value

    @contextmanager
    def edges_of_node(self) -> Iterator[None]:
        """Inside of a loop over a node's edges; the locals of that loop end with it."""
        known = list(self.locals)
        self.place = "edge"
        yield
        self.place, self.locals = "node", known

    def joined(self, form: str, bound: Callable[[float, float], float], one: Shape, two: Shape, depth: int) -> Value:
        """A product of unlike shapes would be read as `@` where Hector's Listing 1 means it; a sum is none."""
        if form == "{} * {}" and one != two:
            form, bound = "({} + {})", BINARY["({} + {})"]
        return super().joined(form, bound, one, two, depth)

    def product(self, shape: Shape, depth: int) -> Value:
        if len(shape) == 2 and self.draw(st.booleans()):
            count = self.extent()
            shapes = (count,), (shape[0], count, shape[1])
            return self.joined("{} @ {}", lambda left, right: left * right * count, *shapes, depth)
        return super().product(shape, depth)

    def typed(self, shape: Shape, depth: int) -> Value:
        """A row times a matrix of the edge's type, which is what layers of relations consist of."""
        count = self.extent()
        row, name = self.expression((*shape[:-1], count), depth - 1), f"M{len(self.declared)}"
        self.declared.append(Declared(name, ("etype",), (count, shape[-1])))
        self.declarations.append(f"param {name}[etype, {self.extent_text(count)}, {self.extent_text(shape[-1])}]")
        return Value(f"({row.text} @ {name}[e.etype])", row.bound * count, True)

    def leaf(self, shape: Shape) -> Value:
        """A local, data or a tensor of that shape, or a new tensor."""
        known = [value for other, value in self.locals if other == shape]
        readable = [data for data in self.readable() if data.shape == shape]
        known += [Value(self.read(data), data.bound, True) for data in (*readable, *readable)]
        known += [value for tensor in self.declared if tensor.shape == shape and (value := self.rows(tensor))]
        known += [Value(text, 1.2, True) for text in STRUCTURE[self.place] if shape == ()]
        if known and (len(self.declared) >= MOST_TENSORS or self.draw(st.integers(0, 2))):
            return self.pick(known)
        if shape == () and self.draw(st.integers(0, 5)) == 0:
            return Value(self.pick(("0.5", "-2", "3", *self.sizes)), 4.0, False)
        return self.gathered(shape)

    def gathered(self, shape: Shape) -> Value:
        """The rows of a new tensor, or all of one that has no index sets."""
        # Mostly rows of nodes and matrices of types, which is what the passes over layers look for.
        usual = (("node",), ("node",)) if len(shape) < 2 else (("etype",), ("etype",), ("ntype",))
        several = (("etype", "ntype"), ("ntype", "etype", "ntype"), ("node", "ntype"))
        sets = self.pick([*((name,) for name in INDICES[self.place]), *usual, (), self.pick(several)])
        if (not shape and not sets) or (self.place == "node" and "etype" in sets):
            sets = ("node",)
        taken = {tensor.name for tensor in self.declared}
        name = self.pick([name for name in TENSOR_NAMES if name not in taken] or [f"p{len(taken)}"])
        kind = self.pick(("param", "param", "input"))
        extents = ", ".join([*sets, *map(self.extent_text, shape)])
        self.declared.append(Declared(name, sets, shape))
        self.declarations.append(f"{kind} {name}[{extents}]")
        value = self.rows(self.declared[-1])
        assert value is not None
        return value

    def rows(self, tensor: Declared) -> Value | None:
        """A tensor's rows as they are written here; None if it has none for such elements."""
        known = INDICES[self.place]
        if not all(name in known for name in tensor.sets):
            return None
        indices = [self.pick(known[name]) for name in tensor.sets]
        if not indices:
            return Value(tensor.name, 1.0, False)
        dotted = len(indices) == 1 and tensor.sets[0] in ("node", "edge") and self.draw(st.booleans())
        return Value(f"{indices[0]}.{tensor.name}" if dotted else f"{tensor.name}[{', '.join(indices)}]", 1.0, True)

    def readable(self) -> list[Data]:
        """The data that may be read here."""
        own = [data for data in self.own if data.index_set == self.place]
        return [data for data in (*own, *self.data) if data.index_set in INDICES[self.place]]

    def read(self, data: Data) -> str:
        owners = INDICES[self.place][data.index_set] if data in self.data else (data.index_set[0],)
        return f'{self.pick(owners)}["{data.name}"]'

    def per_element(self, value: Value) -> Value:
        """The value, made one that every element has its own of."""
        if value.depends:
            return value
        owner = "edge" if self.place == "edge" else "node"
        known = [tensor for tensor in self.declared if tensor.sets == (owner,) and tensor.shape == ()]
        if not known:
            name = f"own_{owner}"
            self.declared.append(Declared(name, (owner,), ()))
            self.declarations.append(f"input {name}[{owner}]")
            known = [self.declared[-1]]
        return Value(f"({value.text} + {known[0].name}[{owner[0]}])", value.bound + 1, True)

    def reread(self, value: Value) -> Value:
        """The value and something of most data and locals, so that little of what is written has no use."""
        for shape, local in self.locals:
            value = self.plus(value, self.total(shape, local))
        for data in self.data:
            if self.draw(st.integers(0, 3)) == 0:
                continue
            if data.index_set in INDICES[self.place]:
                value = self.plus(value, self.total(data.shape, Value(self.read(data), data.bound, True)))
            else:
                term = self.total(data.shape, Value(f'e["{data.name}"]', data.bound, True))
                text = f"mean({term.text} for e in n.{self.pick(DIRECTIONS)}())"
                value = self.plus(value, Value(text, term.bound, True))
        return value

    def plus(self, value: Value, term: Value) -> Value:
        bound = value.bound + term.bound
        result = Value(f"({value.text} + {term.text})", bound, value.depends or term.depends)
        return Value(f"tanh{result.text}", 1.0, result.depends) if bound > LARGEST_BOUND else result

    # Statements

    def write(self, text: str) -> None:
        self.lines.append("    " * self.depth_of_loops + text)

    @contextmanager
    def block(self, header: str) -> Iterator[None]:
        self.write(header)
        self.depth_of_loops += 1
        yield
        self.depth_of_loops -= 1

    def shape(self) -> Shape:
        return tuple(self.pick(self.sizes.values()) for _ in range(self.pick((0, 1, 1, 2))))

    def data_name(self) -> str:
        self.names += 1
        return DATA_NAMES[self.names - 1] if self.names <= len(DATA_NAMES) else f"d{self.names}"

    def local(self, depth: int) -> None:
        names = [name for name in LOCAL_NAMES if name not in [value.text for _, value in self.locals]]
        if not names:
            return
        shape = self.shape()
        value = self.expression(shape, depth)
        self.write(f"{names[0]} = {value.text}")
        self.locals.append((shape, Value(names[0], value.bound, value.depends)))

    def assignment(self, depth: int) -> None:
        """`n["h"] = ...` on the loop's own element, sometimes updated at once."""
        shape, name, letter = self.shape(), self.data_name(), self.place[0]
        value = self.per_element(self.reread(self.expression(shape, depth)))
        self.write(f'{letter}["{name}"] = {value.text}')
        bound = value.bound
        if self.draw(st.integers(0, 3)) == 0:
            sign, other = self.pick(("+=", "-=")), self.expression(shape, depth - 1)
            self.write(f'{letter}["{name}"] {sign} {other.text}')
            bound += other.bound
        self.own.append(Data(self.place, name, shape, bound))

    def summed(self, depth: int) -> None:
        """`n["h"] += ...` in a loop over the node's edges, from nothing or from a start."""
        shape, name, start = self.shape(), self.data_name(), Value("", 0.0, True)
        if self.draw(st.booleans()):
            start = self.per_element(self.expression(shape, depth))
            self.write(f'n["{name}"] = {start.text}')
        with self.block(f"for e in n.{self.pick(DIRECTIONS)}():"), self.edges_of_node():
            if self.draw(st.booleans()):
                self.local(depth - 1)
            value = self.per_element(self.expression(shape, depth))
            if value.bound > LARGEST_BOUND / 4:
                value = Value(f"tanh({value.text})", 1.0, True)
            self.write(f'n["{name}"] += {value.text}')
        self.own.append(Data("node", name, shape, start.bound + MOST_EDGES * value.bound))

    def node_loop(self, depth: int) -> None:
        with self.block("for n in g.nodes():"):
            for _ in range(self.draw(st.integers(0, 1))):
                self.local(depth)
            for _ in range(self.draw(st.integers(1, 2))):
                self.pick((self.assignment, self.summed))(depth)
        self.end_loop()

    def edge_loop(self, depth: int) -> None:
        self.place = "edge"
        with self.block("for e in g.edges():"):
            for _ in range(self.draw(st.integers(0, 2))):
                self.local(depth)
            for _ in range(self.draw(st.integers(1, 2))):
                self.assignment(depth)
        self.end_loop()
        if self.draw(st.booleans()):
            self.softmax()

    def softmax(self) -> None:
        """The data written last becomes weights."""
        data = self.data.pop()
        self.write(f'edge_softmax(g, "{data.name}")')
        self.data.append(Data("edge", data.name, data.shape, 1.0))

    def end_loop(self) -> None:
        self.data += self.own
        self.own, self.locals, self.place = [], [], "node"


@st.composite
def layer_texts(draw: Callable[[st.SearchStrategy], Any], depth: int = 3) -> str:
    """The text of one layer with sizes from 1 to 4, no two alike."""
    layer = Layer(draw)
    values = draw(st.lists(st.sampled_from(EXTENTS), min_size=2, max_size=3, unique=True))
    layer.sizes = dict(zip(SIZES, values, strict=False))
    layer.depth_of_loops = 1
    for _ in range(draw(st.integers(0, 2))):
        layer.pick((layer.node_loop, layer.edge_loop))(depth - 1)
    layer.pick((layer.node_loop, layer.node_loop, layer.edge_loop))(depth)
    data = layer.data[-1]
    result = f'{data.index_set[0]}["{data.name}"]'
    if draw(st.integers(0, 2)) == 0:
        result = layer.pick([form for form in UNARY if "exp" not in form]).format(result)
    lines = [f"dim {', '.join(f'{name} = {size}' for name, size in layer.sizes.items())}", "", "layer Model(g: graph):"]
    lines += [f"    {declaration}" for declaration in layer.declarations]
    return "\n".join([*lines, *layer.lines, f"    return {result}", ""])


@st.composite
def attention_texts(draw: Callable[[st.SearchStrategy], Any], depth: int = 2) -> str:
    """The text of a layer with a softmax over each node's edges, one head or several, that weighs one sum or two."""
    layer = Layer(draw)
    values = draw(st.lists(st.sampled_from(EXTENTS), min_size=2, max_size=3, unique=True))
    layer.sizes = dict(zip(SIZES, values, strict=False))
    layer.depth_of_loops = 1
    heads = layer.pick(((), (), (values[0],)))
    layer.place = "edge"
    with layer.block("for e in g.edges():"):
        logit = layer.per_element(layer.expression(heads, depth))
        layer.write(f'e["att"] = {logit.text}')
    layer.write('edge_softmax(g, "att")')
    layer.end_loop()
    names = ["h", "z"][: draw(st.integers(1, 2))]
    with layer.block("for n in g.nodes():"):
        for name in names:
            shape = (*heads, layer.pick(values))
            with layer.block("for e in n.incoming_edges():"), layer.edges_of_node():
                term = layer.pick((layer.typed, layer.typed, layer.product, layer.expression))(shape, depth)
                layer.write(f'n["{name}"] += e["att"] * {term.text}')
        layer.write('n["score"] = ' + " + ".join(f'sum(n["{name}"] * n["{name}"])' for name in names))
    result = layer.pick((f'n["{names[0]}"]', 'n["score"]'))
    lines = [f"dim {', '.join(f'{name} = {size}' for name, size in layer.sizes.items())}", "", "layer Model(g: graph):"]
    lines += [f"    {declaration}" for declaration in layer.declarations]
    return "\n".join([*lines, *layer.lines, f"    return {result}", ""])


@st.composite
def graphs(draw: Callable[[st.SearchStrategy], Any]) -> dict[str, Any]:
    """The arrays of a graph by their names: with isolated nodes, parallel edges, loops, types that nothing has, one
    relation, one node, or no edges at all."""
    nodes, etypes, ntypes = (draw(st.integers(1, most)) for most in (MOST_NODES, MOST_TYPES, MOST_TYPES))
    ends = st.integers(0, nodes - 1)
    edges = draw(st.lists(st.tuples(ends, ends, st.integers(0, etypes - 1)), max_size=MOST_EDGES))
    kinds = draw(st.lists(st.integers(0, ntypes - 1), min_size=nodes, max_size=nodes))
    src, dst, etype = np.array(edges, dtype=np.int32).reshape(-1, 3).T
    counts = {"num_nodes": nodes, "num_etypes": etypes, "num_ntypes": ntypes}
    return {"src": src, "dst": dst, "etype": etype, "ntype": np.array(kinds, dtype=np.int32), **counts}


def layer_inputs(program: Any, graph: dict[str, Any], seed: int) -> dict[str, Any]:
    """The graph's arrays with values in [-1, 1] for every tensor of a layer's program."""
    random = np.random.default_rng(seed)
    counts = {name[4:-1]: count for name, count in graph.items() if name.startswith("num_")}
    counts["edge"] = len(graph["src"])
    inputs = dict(graph)
    for tensor in program.tensors:
        if tensor.kind in ("param", "input"):
            shape = [counts[name] for name in tensor.sets] + [program.size(extent) for extent in tensor.dims]
            inputs[tensor.name] = random.uniform(-1, 1, shape).astype(np.float32)
    return inputs
