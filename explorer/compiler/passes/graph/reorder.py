"""Changes the order of linear operators where that makes a product of weights (Hector §3.2.3).

`dot(x @ W, w)` is `dot(x, W w)`, and `W w` depends on the edge type alone: it is computed once a type. This is done
where it lowers the counted work of the whole layer, not wherever it can be.
"""

from __future__ import annotations

from explorer.compiler.counts import Counts
from explorer.compiler.frozen import dataclass, replace
from explorer.compiler.ir.graph import Contract, Gather, Graph, Shape, Value, in_order, indices_of, operands
from explorer.compiler.ir.node import merge
from explorer.compiler.ir.set_maps import total_work
from explorer.compiler.ir.work import work_of
from explorer.compiler.passes.graph.aggregate_first import waits, weighed_by_their_node
from explorer.compiler.passes.graph.costs import report_costs
from explorer.compiler.passes.graph.dead_values import dead_values
from explorer.compiler.passes.graph.writer import ValueWriter
from explorer.compiler.report import Report


def reorder(graph: Graph, report: Report) -> Graph:
    """The graph with weights multiplied by weights wherever the counted work falls."""
    if graph.family != "layer":
        return graph
    found = [(value, pair) for value in graph.values if (pair := _candidate(graph, value)) is not None]
    if not found:
        return graph
    if not report.options.reorder:
        report.refused("no product is reordered: the option reorder is off")
        return graph
    counts = report.counts
    weighed = weighed_by_their_node(graph) and waits(counts["src_pair"], counts)
    kept = not report.options.aggregate or bool(weighed)
    trial = _Trial(graph, found, counts)
    chosen = _choose(trial, total_work(graph, counts), found, kept)
    after = trial.work
    for value, pair in found:
        weights = f"{_tensor(pair.matrix)} and {_tensor(pair.factor)}"
        if value.name in trial.chosen:
            report.did(f"{value.name} multiplies {weights} first, once a row of {pair.index_set}")
            continue
        alone = trial.work_with(value.name)
        cost = f"{alone:,} FLOP, not {after:,}, on {counts.name}"
        report.refused(f"{value.name} keeps its order: {weights} multiplied first would take {cost}")
    reordered = _apply(graph, chosen)
    report_costs(graph, reordered, report)
    return reordered


def _tensor(weight: Value) -> str:
    return weight.operator.tensor if isinstance(weight.operator, Gather) else weight.name


@dataclass(frozen=True)
class _Pair:
    """A product with a product inside: `row @ matrix`, then with `factor`; the last two are weights."""

    row: Value
    matrix: Value
    factor: Value
    inner: str  # letters of the row, the matrix and the inner product, as "a,ab->b"
    outer: str
    factor_is_left: bool
    index_set: str
    product: Value
    via: str = ""  # the map through which the product is read, where it lives on another set


def _candidate(graph: Graph, value: Value) -> _Pair | None:
    if not isinstance(value.operator, Contract):
        return None
    left, right = graph.value(value.operator.left), graph.value(value.operator.right)
    for read, factor, factor_is_left in ((left, right, False), (right, left, True)):
        product, via = _behind(graph, read)
        operator = product.operator
        if not isinstance(operator, Contract) or not _is_weight(graph, factor):
            continue
        row, matrix = graph.value(operator.left), graph.value(operator.right)
        if _is_weight(graph, matrix) and not _is_weight(graph, row):
            index_set, signature = _common_set(matrix, factor), value.operator.signature
            return _Pair(row, matrix, factor, operator.signature, signature, factor_is_left, index_set, product, via)
    return None


def _behind(graph: Graph, read: Value) -> tuple[Value, str]:
    """A product that is read through a map, with the map; any other value as it is."""
    if isinstance(read.operator, Gather) and len(read.operator.indices) == 1:
        source = graph.value(read.operator.tensor) if read.operator.tensor.startswith("%") else None
        if source is not None and isinstance(source.operator, Contract):
            return source, read.operator.indices[0]
    return read, ""


def _is_weight(graph: Graph, value: Value) -> bool:
    """Whether a value is learnt and picked by types alone."""
    if not isinstance(value.operator, Gather):
        return False
    tensor = next((t for t in graph.tensors if t.name == value.operator.tensor), None)
    return tensor is not None and tensor.kind == "param" and not {*graph.ends, "edge"} & set(tensor.sets)


def _common_set(matrix: Value, factor: Value) -> str:
    """The set that a product of the two weights lives on: of the types that alone pick them, or where they are
    picked."""
    picked = [value for value in (matrix, factor) if indices_of(value.operator)]
    if not picked:
        return "unit"
    ways = {indices_of(value.operator) for value in picked}
    by_types: dict[tuple[str, ...], str] = {("etype",): "etype", ("ntype",): "ntype"}
    return by_types.get(ways.pop(), picked[0].index_set) if len(ways) == 1 else picked[0].index_set


class _Trial:
    """What a layer takes with some of the candidates rewritten. Taking one up or leaving it changes only what it reads
    and, by counted readers, what nothing reads any more."""

    def __init__(self, graph: Graph, found: list[tuple[Value, _Pair]], counts: Counts) -> None:
        writer = ValueWriter(graph)
        self.others = {value.name: _rewritten(writer, value, pair) for value, pair in found}
        self.values = writer.values  # the originals, and all that any rewriting adds
        self.graph = replace(graph, values=tuple(self.values.values()))
        self.counts, self.chosen, self.work = counts, set[str](), 0
        self.readers = dict.fromkeys(self.values, 0)
        for name in graph.outputs:
            self._read(name)

    def exchange(self, name: str) -> int:
        """Takes a candidate up, or leaves it again; the work of all that is read then."""
        old, new = self.values[name], self.others[name]
        self.values[name], self.others[name] = new, old
        self.chosen ^= {name}
        if self.readers[name]:
            self.work += self._work(new) - self._work(old)
            for operand in operands(new.operator):
                self._read(operand)
            for operand in operands(old.operator):
                self._leave(operand)
        return self.work

    def work_with(self, name: str) -> int:
        """The work with one candidate exchanged, which is then as before."""
        work = self.exchange(name)
        self.exchange(name)
        return work

    def _work(self, value: Value) -> int:
        index_set, flop = work_of(self.graph, value)
        return self.counts[index_set] * flop

    def _read(self, name: str) -> None:
        self.readers[name] += 1
        if self.readers[name] == 1:
            self.work += self._work(self.values[name])
            for operand in operands(self.values[name].operator):
                self._read(operand)

    def _leave(self, name: str) -> None:
        self.readers[name] -= 1
        if not self.readers[name]:
            self.work -= self._work(self.values[name])
            for operand in operands(self.values[name].operator):
                self._leave(operand)


def _choose(trial: _Trial, before: int, found: list[tuple[Value, _Pair]], kept: bool) -> list[tuple[Value, _Pair]]:
    """All candidates if they lower the work together, else those that lower it one by one.

    Where products are `kept`, since sums do not come before them, those left out that the rest takes less work
    without: their product is computed for others anyway. A sum that comes first may leave them no other reader."""
    for value, _ in found:
        trial.exchange(value.name)
    together = trial.work
    if together < before:
        left = [value.name for value, _ in found if kept and trial.work_with(value.name) <= together]
        for name in left:
            trial.exchange(name)
        return [(value, pair) for value, pair in found if value.name in trial.chosen]
    for value, _ in reversed(found):
        trial.exchange(value.name)
    for value, _ in found:
        work = trial.work
        if trial.exchange(value.name) >= work:
            trial.exchange(value.name)
    return [(value, pair) for value, pair in found if value.name in trial.chosen]


def _apply(graph: Graph, chosen: list[tuple[Value, _Pair]]) -> Graph:
    """The graph with the chosen products rewritten, and without what they leave unread."""
    writer = ValueWriter(graph)
    pairs = {value.name: pair for value, pair in chosen}
    for value in graph.values:
        writer.keep(_rewritten(writer, value, pairs[value.name]) if value.name in pairs else value)
    return dead_values(replace(graph, values=tuple(writer.written)), Report.silent())


def _rewritten(writer: ValueWriter, value: Value, pair: _Pair) -> Value:
    row, matrix, factor, out = _letters(pair)
    kept = [letter for letter in dict.fromkeys(matrix + factor) if letter in row + out]
    extents = dict(zip(matrix + factor, pair.matrix.shape + pair.factor.shape, strict=True))
    shape: Shape = tuple(extents[letter] for letter in kept)
    origin, folded = merge(value.origin, pair.product.origin), merge(pair.product.origin, value.origin)
    pair = _brought(writer, value, pair)
    left, right = (_weight_on(writer, weight, pair.index_set) for weight in (pair.matrix, pair.factor))
    fold = writer.add(
        Contract(signature=in_order(f"{matrix},{factor}->{''.join(kept)}"), left=left, right=right, origin=folded),
        pair.index_set,
        shape,
        sorted({name for weight in (left, right) for name in writer.values[weight].depends}),
        folded,
    )
    weights = fold
    if pair.index_set not in ("unit", value.index_set) and not pair.via:
        gather = Gather(tensor=fold.name, indices=(pair.index_set,), origin=folded)
        weights = writer.add(gather, value.index_set, shape, (pair.index_set,), folded)
    contract = Contract(
        signature=in_order(f"{row},{''.join(kept)}->{out}"), left=pair.row.name, right=weights.name, origin=origin
    )
    return replace(value, operator=contract, origin=origin)


def _brought(writer: ValueWriter, value: Value, pair: _Pair) -> _Pair:
    """The pair with its operands gathered at the value's own rows, where the product was read through a map."""
    if not pair.via:
        return pair
    brought = []
    for operand in (pair.row, pair.matrix):
        gather = operand.operator
        if isinstance(gather, Gather) and gather.indices:
            steps = (pair.via if step == operand.index_set else f"{pair.via}.{step}" for step in gather.indices)
            gather = replace(gather, indices=tuple(steps))
        else:
            gather = Gather(tensor=operand.name, indices=(pair.via,), origin=operand.origin)
        depends = (pair.via,)
        brought.append(writer.add(gather, value.index_set, operand.shape, depends, operand.origin))
    return replace(pair, row=brought[0], matrix=brought[1], index_set=value.index_set)


def _weight_on(writer: ValueWriter, weight: Value, index_set: str) -> str:
    """The weight gathered on the product's own set."""
    if weight.index_set == index_set or not indices_of(weight.operator):
        return weight.name
    operator = Gather(tensor=_tensor(weight), indices=(index_set,), origin=weight.operator.origin)
    return writer.add(operator, index_set, weight.shape, (index_set,), weight.origin).name


def _letters(pair: _Pair) -> tuple[str, str, str, str]:
    """Letters of the row, the matrix, the factor and the result, the same letter for what is the same."""
    inputs, _, inner_out = pair.inner.partition("->")
    row, _, matrix = inputs.partition(",")
    inputs, _, out = pair.outer.partition("->")
    left, _, right = inputs.partition(",")
    product, factor = (right, left) if pair.factor_is_left else (left, right)
    names = dict(zip(product, inner_out, strict=True))
    fresh = iter(letter for letter in "nopqrstuvwxyz" if letter not in row + matrix)
    for letter in factor + out:
        if letter not in names:
            names[letter] = next(fresh)
    return row, matrix, "".join(names[x] for x in factor), "".join(names[x] for x in out)
