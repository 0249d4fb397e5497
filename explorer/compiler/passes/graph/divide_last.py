"""Divides a sum once instead of each of its terms: a softmax's weights need not be known before they are summed with.

`sum_e (x_e / z) y_e` over a segment is `(sum_e x_e y_e) / z` where z is the segment's own. Then the sum does not wait
for z, and both can be taken in one visit of the segment's elements (FlashAttention-2, Dao 2023, §3.1).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from explorer.compiler.frozen import dataclass
from explorer.compiler.ir.graph import Contract, Elementwise, Gather, Graph, Segment, Value, operands
from explorer.compiler.ir.set_maps import THROUGH
from explorer.compiler.passes.graph.dead_values import dead_values
from explorer.compiler.passes.graph.writer import ValueWriter
from explorer.compiler.report import Report

DIVISIONS = ("div", "div_or_zero")


def divide_last(graph: Graph, report: Report) -> Graph:
    """The graph with divisions behind the sums, where the divisor is the segment's and cannot be 0 unless it is empty.

    An empty segment gives 0 before and after: the division is one that gives 0 where the divisor is."""
    if graph.family != "layer":
        return graph
    divided = _Divided(graph, report)
    for value in graph.values:
        divided.writer.keep(divided.rewritten(value))
    return dead_values(replace(graph, values=tuple(divided.writer.written)), Report.silent())


@dataclass(frozen=True)
class _Quotient:
    """A value that is its `numerator` divided by what `divisor` gathers."""

    numerator: Callable[[], Value]
    divisor: Value
    quotient: Value


class _Divided:
    def __init__(self, graph: Graph, report: Report) -> None:
        self.graph = graph
        self.report = report
        self.writer = ValueWriter(graph)

    def rewritten(self, value: Value) -> Value:
        """The value; where it is a sum of quotients, as a quotient of sums."""
        operator = value.operator
        if not isinstance(operator, Segment) or operator.function != "sum":
            return value
        found = self._quotient(self.writer.values[operator.operand], operator.map)
        if found is None or not self._legal(value, found):
            return value
        gather = found.divisor.operator
        assert isinstance(gather, Gather)
        origin = found.quotient.origin
        total = self.writer.add(
            replace(operator, operand=found.numerator().name), value.index_set, value.shape, value.depends, value.origin
        )
        divisor = gather.tensor
        if gather.indices != (operator.map,):
            path = THROUGH[operator.map, gather.indices[0]]
            read = Gather(tensor=gather.tensor, indices=(path,), origin=origin)
            divisor = self.writer.add(read, value.index_set, found.divisor.shape, (path,), origin).name
        divide = Elementwise(function="div_or_zero", operands=(total.name, divisor), origin=origin)
        self.report.did(f"{value.name} divides its sum by {gather.tensor}, not each term: it is the segment's own")
        return replace(value, operator=divide, origin=(*value.origin, *(s for s in origin if s not in value.origin)))

    def _legal(self, value: Value, found: _Quotient) -> bool:
        gather = found.divisor.operator
        assert isinstance(gather, Gather)
        stays = f"{value.name} adds up quotients"
        if found.quotient.name in self.graph.results:
            self.report.refused(f"{stays}: {found.quotient.name} is a result, stored already divided")
        elif not self._is_positive(self.writer.values[gather.tensor]):
            self.report.refused(f"{stays}: {gather.tensor} may be 0 where the segment is not empty")
        else:
            return True
        return False

    def _is_positive(self, divisor: Value) -> bool:
        """Whether a divisor is at least 1 for every segment with elements: a sum of exp(x - max x), in which the
        maximum's own term is exp(0)."""
        total = divisor.operator
        if not isinstance(total, Segment) or total.function != "sum":
            return False
        term = self.writer.values[total.operand].operator
        if not isinstance(term, Elementwise) or term.function != "exp":
            return False
        shifted = self.writer.values[term.operands[0]].operator
        if not isinstance(shifted, Elementwise) or shifted.function != "sub":
            return False
        logit, read = shifted.operands
        gather = self.writer.values[read].operator
        if not isinstance(gather, Gather) or gather.indices != (total.map,) or gather.tensor not in self.writer.values:
            return False
        largest = self.writer.values[gather.tensor].operator
        return largest == Segment(function="max", operand=logit, map=total.map, origin=largest.origin)

    def _quotient(self, value: Value, along: str) -> _Quotient | None:
        """The value as a quotient by something that is the same for all of a segment, if it is one."""
        operator = value.operator
        match operator:
            case Elementwise(function=function, operands=(top, bottom)) if function in DIVISIONS:
                numerator, divisor = self.writer.values[top], self.writer.values[bottom]
                if _is_segments_own(divisor, along) and len(numerator.shape) >= len(divisor.shape):
                    return _Quotient(lambda: numerator, divisor, value)
                return None
            case Elementwise(function="mul" | "neg"):
                return self._of_operand(value, [(name, True) for name in operator.operands], along)
            case Contract():
                inputs, _, out = operator.signature.partition("->")
                leading = [letters[:1] == out[:1] for letters in inputs.split(",")]
                return self._of_operand(value, list(zip(operands(operator), leading, strict=True)), along)
        return None

    def _of_operand(self, value: Value, places: list[tuple[str, bool]], along: str) -> _Quotient | None:
        """The quotient that a product is because an operand is one. `leading`: the operand's first dimension is the
        product's too, so that what divides the one row by row divides the other."""
        for name, leading in places:
            found = self._quotient(self.writer.values[name], along)
            if found is not None and (not found.divisor.shape or (leading and len(found.divisor.shape) == 1)):
                return replace(found, numerator=self._later(value, name, found.numerator))
        return None

    def _later(self, value: Value, name: str, numerator: Callable[[], Value]) -> Callable[[], Value]:
        return lambda: self._with(value, name, numerator())

    def _with(self, value: Value, name: str, other: Value) -> Value:
        """The same product of another operand."""
        operator = value.operator
        if isinstance(operator, Contract):
            left, right = (other.name if n == name else n for n in (operator.left, operator.right))
            if operator.left == operator.right:
                right = name  # a square: one of its factors
            changed: Contract | Elementwise = replace(operator, left=left, right=right)
        else:
            assert isinstance(operator, Elementwise)
            place = operator.operands.index(name)
            names = (*operator.operands[:place], other.name, *operator.operands[place + 1 :])
            changed = replace(operator, operands=names)
        return self.writer.add(changed, value.index_set, value.shape, value.depends, value.origin)


def _is_segments_own(divisor: Value, along: str) -> bool:
    """Whether a value is gathered from the place to which all elements of a segment lead."""
    gather = divisor.operator
    if not isinstance(gather, Gather) or len(gather.indices) != 1 or not gather.tensor.startswith("%"):
        return False
    return gather.indices[0] == along or (along, gather.indices[0]) in THROUGH
