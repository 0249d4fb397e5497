"""Adds up before it multiplies, where sum and product commute and fewer rows are multiplied that way.

The sum over a node's edges of `scale * (x @ W[etype])` is the sum over its (node, type) pairs of `(sum of scale * x) @
W[etype]`: the product is taken once a pair instead of once an edge, and nothing is stored between.

Where a softmax of the same node gives the scale, products of sums wait for the softmax, one after another in the node's
iteration; rows multiplied before are a nest of their own, which may be tiles. So products stay first there, on every
target, unless those of sums are WAITING times fewer. That costs an array of a row for each pair of source and type.
Measured of RGAT: on an H100 0.15 ms for 2.2 ms (FB15k-237), on the simulated machine 6 % fewer cycles (MUTAG), on a CPU
the same time.
"""

from __future__ import annotations

from dataclasses import replace

from explorer.compiler.counts import Counts
from explorer.compiler.frozen import dataclass
from explorer.compiler.ir.graph import Contract, Elementwise, Gather, Graph, Segment, Value, operands
from explorer.compiler.ir.node import merge
from explorer.compiler.ir.set_maps import with_pairs
from explorer.compiler.passes.graph.costs import report_costs
from explorer.compiler.passes.graph.dead_values import dead_values
from explorer.compiler.passes.graph.writer import ValueWriter
from explorer.compiler.report import Report

PAIR = "dst_pair"
WAITING = 16
"""How many times as long a product takes that waits for a softmax: RGAT's on an H100, with all that is beside it."""


def aggregate_first(graph: Graph, report: Report) -> Graph:
    """The graph with sums by destination taken by (destination, type) pair first, then multiplied."""
    if graph.family != "layer" or not any(isinstance(value.operator, Segment) for value in graph.values):
        return graph
    if not report.options.compact:
        report.refused("products come first: the option compact is off")
        return graph
    if not report.options.aggregate:
        report.refused("products come first: the option aggregate is off")
        return graph
    writer, weighed = ValueWriter(graph), weighed_by_their_node(graph)
    for value in graph.values:
        match = _match(graph, value)
        if match is not None and _may(graph, value, match, value.name in weighed, report):
            value = _rewritten(writer, value, match)
            report.did(_added_up(value, match, report.counts))
        writer.keep(value)
    values = tuple(writer.written)
    maps = with_pairs(graph, {value.index_set for value in values})
    aggregated = dead_values(replace(graph, maps=maps, values=values), Report.silent())
    report_costs(graph, aggregated, report)
    return aggregated


@dataclass(frozen=True)
class _Sum:
    """`segment_sum (scale * (row @ matrix)) by dst`; the scale is a number an edge, or missing."""

    row: Value
    matrix: Value
    weights: str
    product: Value
    scale: Value | None
    scaled: Value | None


def _match(graph: Graph, value: Value) -> _Sum | None:
    operator = value.operator
    if not isinstance(operator, Segment) or operator.function != "sum" or operator.map != "dst":
        return None
    summand = graph.value(operator.operand)
    scale: Value | None = None
    product = summand
    if isinstance(summand.operator, Contract) and summand.operator.signature == ",a->a":
        scale, product = graph.value(summand.operator.left), graph.value(summand.operator.right)
    elif isinstance(summand.operator, Elementwise):
        return None
    if not isinstance(product.operator, Contract) or product.operator.signature != "a,ab->b":
        return None
    row, matrix = graph.value(product.operator.left), graph.value(product.operator.right)
    if not isinstance(matrix.operator, Gather) or matrix.operator.indices != ("etype",):
        return None
    return _Sum(row, matrix, matrix.operator.tensor, product, scale, summand if scale else None)


def _may(graph: Graph, value: Value, match: _Sum, weighed: bool, report: Report) -> bool:
    """Whether a sum comes before its product, where it may; the report says why not."""
    counts, rows = report.counts, _multiplied(match, report.counts)
    if weighed and waits(rows, counts):
        report.refused(
            f"{value.name} multiplies first, on every target: a softmax of the same node weighs its rows, and products"
            f" of sums would wait for it: {counts[PAIR]:,}, not {WAITING} times fewer than {rows:,}, on {counts.name}"
        )
        return False
    if sum(match.product.name in operands(other.operator) for other in graph.values) > 1:
        return False
    if counts[PAIR] > rows:
        report.refused(f"{value.name} multiplies first: {rows:,} rows, not {counts[PAIR]:,}, on {counts.name}")
        return False
    return True


def _multiplied(match: _Sum, counts: Counts) -> int:
    """How many rows are multiplied where products come first."""
    return counts["src_pair" if set(match.product.depends) <= {"src", "etype"} else "edge"]


def waits(rows: int, counts: Counts) -> bool:
    """Whether products of sums that wait for a softmax take longer than those of so many rows, in tiles."""
    return counts[PAIR] * WAITING > rows


def weighed_by_their_node(graph: Graph) -> frozenset[str]:
    """The sums by destination of rows whose weights need another sum of the same node's: those of a softmax."""
    summed: set[str] = set()  # nodes' values that are made of a sum over their own edges
    waiting: set[str] = set()  # edges' values that need one of their destination's
    found: set[str] = set()
    for value in graph.values:
        match value.operator:
            case Segment(map="dst", operand=operand):
                summed.add(value.name)
                row = graph.value(operand).operator
                if isinstance(row, Contract) and row.signature == ",a->a" and row.left in waiting:
                    found.add(value.name)
            case Gather(tensor=tensor, indices=("dst",)) if tensor in summed:
                waiting.add(value.name)
            case Segment() | Gather():
                pass
            case operator:
                for names in (summed, waiting):
                    if not names.isdisjoint(operands(operator)):
                        names.add(value.name)
    return frozenset(found)


def _added_up(value: Value, match: _Sum, counts: Counts) -> str:
    rows = _multiplied(match, counts)
    return f"{value.name} adds up by {PAIR} before it multiplies: {counts[PAIR]:,} rows instead of {rows:,}"


def _rewritten(writer: ValueWriter, value: Value, match: _Sum) -> Value:
    """The sum as one of products of sums by pair."""
    origin = merge(value.origin, match.product.origin)
    summand = match.row
    if match.scale is not None and match.scaled is not None:
        scaled = Contract(signature=",a->a", left=match.scale.name, right=match.row.name, origin=match.scaled.origin)
        depends = dict.fromkeys((*match.scale.depends, *match.row.depends))
        summand = writer.add(scaled, "edge", match.row.shape, depends, match.scaled.origin)
    segment = Segment(function="sum", operand=summand.name, map=PAIR, origin=origin)
    partial = writer.add(segment, PAIR, match.row.shape, (PAIR,), value.origin)
    gather = Gather(tensor=match.weights, indices=("dst_pair_etype",), origin=match.matrix.origin)
    matrix = writer.add(gather, PAIR, match.matrix.shape, ("dst_pair_etype",), match.matrix.origin)
    contract = Contract(signature="a,ab->b", left=partial.name, right=matrix.name, origin=match.product.origin)
    product = writer.add(contract, PAIR, value.shape, (PAIR,), match.product.origin)
    total = Segment(function="sum", operand=product.name, map="dst_pair_node", origin=value.origin)
    return replace(value, operator=total)
