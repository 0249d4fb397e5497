"""Moves edge values to the smallest index set through which their dependencies factor.

What depends on an edge's source and type alone is the same for all edges of that (source, type) pair: it is computed
and stored once a pair (Hector §3.2.2, compact materialisation). What depends on the source alone is computed once a
node. What depends on both ends stays on the edges.

A node, or a type, may have no edge at all. What is computed for it then is read by nobody, but in a backward pass a
gradient of 0 would meet its slope: where that is no number, the gradient is none. Functions whose slopes or values are
infinite somewhere stay on the edges where there are gradients; every pair has an edge.
"""

from __future__ import annotations

from explorer.compiler.frozen import replace
from explorer.compiler.ir.functions import FUNCTIONS
from explorer.compiler.ir.graph import (
    Constant,
    Contract,
    Elementwise,
    Gather,
    Graph,
    Operator,
    Segment,
    Value,
    operands,
    rename_operands,
)
from explorer.compiler.ir.set_maps import PAIRS, homes, steps, with_pairs
from explorer.compiler.passes.graph.costs import report_costs
from explorer.compiler.passes.graph.dead_values import dead_values
from explorer.compiler.passes.graph.writer import ValueWriter
from explorer.compiler.passes.stored.rows import sums
from explorer.compiler.report import Report


def compact(graph: Graph, report: Report) -> Graph:
    """The graph with products on the smallest sets that hold them; their readers gather."""
    if graph.family != "layer":
        return graph
    if not report.options.compact:
        report.refused("nothing moves: the option compact is off")
        return graph
    return _Compaction(graph, report).graph()


class _Compaction:
    def __init__(self, graph: Graph, report: Report) -> None:
        self.source = graph
        self.report = report
        self.steps = steps(graph.ends)
        self.writer = ValueWriter(graph)
        self.moved: dict[str, Value] = {}  # by the edge value's name: the value on its smaller set
        self.clones: dict[tuple[str, str], Value] = {}

    def graph(self) -> Graph:
        """Every value in order; the moved ones are gathered under their old names."""
        for value in self.source.values:
            self.writer.keep(self._rewritten(value))
        values = tuple(self.writer.written)
        maps = with_pairs(self.source, {value.index_set for value in values})
        compacted = dead_values(replace(self.source, maps=maps, values=values), Report.silent())
        report_costs(self.source, compacted, self.report)
        return compacted

    def _rewritten(self, value: Value) -> Value:
        if value.index_set != "edge" or not self._worth_moving(value):
            return value
        home = self._home_of(value.depends)
        if home is None:
            self.report.refused(f"{value.name} stays on edge: it depends on {' and '.join(value.depends)}")
            return value
        index_set, via = home
        function = self._unbounded(value) if self.report.options.grad and index_set not in PAIRS else ""
        if function:
            self.report.refused(
                f"{value.name} stays on edge: a {index_set} without edges might have no {function}, and its gradient"
                f" is 0 times that"
            )
            return value
        moved = self._on(value, index_set, via)
        self.moved[value.name] = moved
        self.report.did(f"{value.name} from edge to {index_set}: it depends on {' and '.join(value.depends)} alone")
        gather = Gather(tensor=moved.name, indices=(via,), origin=value.origin)
        return replace(value, operator=gather)

    def _worth_moving(self, value: Value) -> bool:
        """Products, and what is computed from moved values alone; a gather costs as much here as there."""
        if isinstance(value.operator, (Segment, Gather)):
            return False
        if sums(value):
            return True
        if not isinstance(value.operator, (Elementwise, Contract)) or self._home_of(value.depends) is None:
            return False
        inputs = [self._original(name) for name in operands(value.operator)]
        varying = [v for v in inputs if not isinstance(v.operator, (Constant, Gather))]
        return bool(varying) and all(v.name in self.moved for v in varying)

    def _unbounded(self, value: Value) -> str:
        """A function that would be computed on the smaller set and may be infinite there; "" where there is none."""
        if value.name in self.moved or value.index_set != "edge" or isinstance(value.operator, (Segment, Gather)):
            return ""
        operator = value.operator
        if isinstance(operator, Elementwise) and not FUNCTIONS[operator.function].finite:
            divisor = operator.operands[-1]
            constant = not isinstance(divisor, str) or isinstance(self._original(divisor).operator, Constant)
            if operator.function != "div" or not constant:
                return operator.function
        return next(filter(None, (self._unbounded(self._original(n)) for n in operands(operator))), "")

    def _on(self, value: Value, index_set: str, via: str) -> Value:
        """The value computed on a smaller set: gathers start there, moved operands are read where they are."""
        key = (value.name, via)
        if key in self.clones:
            return self.clones[key]
        if not value.depends:
            clone = value
        elif value.name in self.moved:
            clone = self._read_moved(value, index_set, via)
        elif isinstance(value.operator, Gather):
            indices = tuple(self._seen_from(path, via) for path in value.operator.indices)
            clone = self._add(value, replace(value.operator, indices=indices), index_set, via)
        else:
            names = {n: self._on(self._original(n), index_set, via).name for n in operands(value.operator)}
            clone = self._add(value, rename_operands(value.operator, names), index_set, via)
        self.clones[key] = clone
        return clone

    def _original(self, name: str) -> Value:
        return self.source.value(name)

    def _read_moved(self, value: Value, index_set: str, via: str) -> Value:
        """A moved value read from another of the smaller sets: `src_pair_etype` leads from pairs to types."""
        moved = self.moved[value.name]
        if moved.index_set == index_set:
            return moved
        home = self._home_of(value.depends)
        assert home is not None
        gather = Gather(tensor=moved.name, indices=(self.steps[via][home[1]],), origin=value.origin)
        return self._add(value, gather, index_set, via)

    def _add(self, value: Value, operator: Operator, index_set: str, via: str) -> Value:
        depends = sorted({self.steps[via][name] for name in value.depends})
        return self.writer.add(operator, index_set, value.shape, depends, value.origin)

    def _seen_from(self, path: str, via: str) -> str:
        """A path from edges, as it goes on from the set that a map leads to: `src.ntype` is `ntype` from the source."""
        first, _, rest = path.partition(".")
        step = self.steps[via][first]
        if rest and via not in PAIRS:
            return rest
        return f"{step}.{rest}" if rest else step

    def _home_of(self, depends: tuple[str, ...]) -> tuple[str, str] | None:
        """The smallest set that holds an edge value of these dependencies, and the map to it; None for the edges."""
        if not depends:
            return None
        found = homes(self.source.ends)
        return next(((index_set, via) for needs, index_set, via in found if needs >= set(depends)), None)
