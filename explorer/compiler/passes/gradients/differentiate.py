"""Adds the backward pass: the gradients of the learnt tensors, as values of the same graph (Hector §3.5).

Those of an op's weights and values are among them.

The gradients are those of the sum of `upstream * result`, of several results of the sum over all, each with an upstream
of its own. Only what leads to a learnt tensor is differentiated. Where
a function has a corner, the derivative is the one that PyTorch takes: 0 at 0 for norm, abs and sign, the negative
side's slope for relu and leaky_relu; the ties of a maximum share its gradient evenly. Only sqrt at 0 gets 0, not inf.
A maximum that only shifts a softmax's logits gets none: the result does not change with it (`shifts`).

Nothing here knows a family of definitions: a gradient goes back along the maps by which a value was gathered, and
along the containment of a negative in its triple, as a sum by segments. Several maps at once, as in
`mu[e.src.ntype, e.etype]`, are one into the product of their sets:

    %4 = gather mu[src.ntype, etype]  : edge [H]
    map src_ntype_etype: edge -> ntype_by_etype = src.ntype, etype
    %9 = segment_sum %8 by src_ntype_etype  : ntype_by_etype [H]
"""

from __future__ import annotations

from dataclasses import replace

from explorer.compiler.ir.graph import (
    Concat,
    Constant,
    Contract,
    Elementwise,
    Gather,
    Graph,
    IndexMap,
    Operator,
    Reduce,
    Repeat,
    Reshape,
    Segment,
    Shape,
    Slice,
    Tensor,
    Transpose,
    Value,
    operands,
    plural,
)
from explorer.compiler.ir.index_sets import CONTAINERS, containment, count_name
from explorer.compiler.ir.node import Names, Origin
from explorer.compiler.passes.gradients.derivatives import changes_with, derivative
from explorer.compiler.passes.gradients.shifts import shifts
from explorer.compiler.passes.gradients.transposed import exchanged, is_of_products
from explorer.compiler.passes.graph.writer import ValueWriter
from explorer.compiler.report import Report


def differentiate(graph: Graph, report: Report) -> Graph:
    """The graph with `gradients`, one for each learnt tensor, if the option grad asks for them."""
    if not report.options.grad:
        return graph
    return _Backward(graph, report).graph()


class _Backward:
    def __init__(self, graph: Graph, report: Report) -> None:
        self.source = graph
        self.report = report
        self.writer = ValueWriter(graph)
        self.maps = {entry.name: entry for entry in graph.maps}
        self.tensors = {tensor.name: tensor for tensor in graph.tensors}
        sets = {name for entry in graph.maps for name in (entry.domain, entry.codomain)}
        self.names = Names({*sets, *self.maps, *self.tensors, *(name for name, _ in graph.sizes)})
        # The maps to one place or a container, and those that this pass adds, by domain and codomain, or paths.
        self.steps = {(m.domain, m.codomain): m.name for m in graph.maps if m.codomain == "unit" or containment(m)}
        self.products: dict[tuple[str, ...], str] = {}  # the sets that this pass adds, by those that they combine
        self.active = self._active()
        self.parts: dict[str, list[str]] = {}  # by value or tensor: contributions to its gradient

    def graph(self) -> Graph:
        """The values, then their gradients from the last to the first."""
        for value in self.source.values:
            self.writer.keep(value)
        results = [self.source.value(name) for name in self.source.results]
        called = [f"upstream_{place}" for place in range(1, len(results) + 1)] if results[1:] else ["upstream"]
        given = [self._upstream(result, name) for result, name in zip(results, called, strict=True)]
        for value in reversed(self.source.values):
            if value.name in self.parts and value.name in self.active:
                self._propagate(value, self._total(value.name, value))
        gradients = [
            (tensor.name, self._total(tensor.name, None).name)
            for tensor in self.source.tensors
            if self.source.wants_gradient(tensor) and tensor.name in self.parts
        ]
        for tensor in self.source.tensors:
            if self.source.wants_gradient(tensor) and tensor.name not in self.parts:
                self.report.refused(f"{tensor.name} has no gradient: the result does not depend on it")
        self.report.did(f"gradients of {', '.join(name for name, _ in gradients)}")
        return replace(
            self.source,
            maps=tuple(self.maps.values()),
            tensors=(*self.source.tensors, *given),
            values=tuple(self.writer.written),
            gradients=tuple(gradients),
        )

    def _active(self) -> set[str]:
        """The values that depend on a learnt tensor, and with which the result may change."""
        active: set[str] = set()
        still = shifts(self.source)
        for name in sorted(still):
            self.report.did(f"{name} gets no gradient: it shifts logits, and the result is the same with any other")
        for value in self.source.values:
            if value.name in still:
                continue
            operator = value.operator
            learnt = isinstance(operator, Gather) and self._learnt(operator.tensor)
            if learnt or any(name in active for name in _passing(operator)):
                active.add(value.name)
        return active

    def _learnt(self, tensor: str) -> bool:
        return tensor in self.tensors and self.source.wants_gradient(self.tensors[tensor])

    def _upstream(self, result: Value, called: str) -> Tensor:
        """The gradient that is given of a result, from which the pass begins."""
        name = self.names.new(called)
        seed = Gather(tensor=name, indices=(result.index_set,), origin=result.origin)
        self._contribute(result.name, self._add(seed, result.index_set, result.shape, result.origin))
        return Tensor(name=name, sets=(result.index_set,), dims=result.shape, kind="upstream", origin=())

    def _add(self, operator: Operator, index_set: str, shape: Shape, origin: Origin) -> Value:
        inputs = [self.writer.values[name] for name in operands(operator) if name in self.writer.values]
        depends: list[str] = []
        if isinstance(operator, Gather):
            depends = [path.split(".")[0] for path in operator.indices]
        elif isinstance(operator, Segment):
            depends = [] if index_set == "unit" else [index_set]
        else:
            depends = list(dict.fromkeys(name for value in inputs for name in value.depends))
        return self.writer.add(operator, index_set, shape, depends, origin)

    def _total(self, name: str, value: Value | None) -> Value:
        """The sum of the contributions to a gradient."""
        parts = [self.writer.values[part] for part in self.parts[name]]
        total = parts[0]
        for part in parts[1:]:
            operator = Elementwise(function="add", operands=(total.name, part.name), origin=part.origin)
            total = self._add(operator, part.index_set, part.shape, (value or part).origin)
        return total

    def _contribute(self, name: str, part: Value) -> None:
        self.parts.setdefault(name, []).append(part.name)

    def _propagate(self, value: Value, upstream: Value) -> None:
        """Hands a value's gradient on to its operands."""
        operator = value.operator
        match operator:
            case Gather():
                self._gather(value, operator, upstream)
            case Elementwise():
                self._elementwise(value, operator, upstream)
            case Contract():
                self._contract(value, operator, upstream)
            case Reduce():
                self._reduce(value, operator, upstream)
            case Segment():
                self._segment(value, operator, upstream)
            case Transpose():
                part = self._transposed(upstream, value.origin)
                index_set = self.writer.values[operator.operand].index_set
                self._contribute(operator.operand, self._sum_onto(part, index_set, value.origin))
            case Slice():
                self._slice(value, operator, upstream)
            case Concat():
                self._concat(value, operator, upstream)
            case Repeat():
                self._repeat(value, operator, upstream)
            case Reshape():
                shape = self.writer.values[operator.operand].shape
                self._hand(operator.operand, Reshape(operand=upstream.name, origin=value.origin), shape, value)

    def _transposed(self, value: Value, origin: Origin) -> Value:
        """A gradient with its last two dimensions exchanged: those of the products that it is a sum of, if it is."""
        shape = (*value.shape[:-2], value.shape[-1], value.shape[-2])
        if not is_of_products(value, self.writer.values):
            return self._add(Transpose(operand=value.name, origin=origin), value.index_set, shape, origin)
        inputs = () if isinstance(value.operator, Contract) else operands(value.operator)
        names = {name: self._transposed(self.writer.values[name], origin).name for name in inputs}
        return self._add(exchanged(value.operator, names), value.index_set, shape, value.origin)

    def _hand(self, name: str, operator: Operator, shape: Shape, value: Value) -> None:
        """A contribution of that operator to an operand; on a smaller set it is summed over the value's rows."""
        operand = self.writer.values[name]
        if name not in self.active:
            return
        part = self._add(operator, value.index_set, shape, value.origin)
        self._contribute(name, self._sum_onto(part, operand.index_set, value.origin))

    def _sum_onto(self, part: Value, index_set: str, origin: Origin) -> Value:
        """The part summed over all rows that read the same one of a smaller set: of what is in no set, or a triple."""
        if part.index_set == index_set:
            return part
        if CONTAINERS.get(part.index_set) is not None:
            part = self._segment_sum(part, self._step(part.index_set, CONTAINERS[part.index_set]), origin)
        if index_set == "unit" and part.index_set != "unit":
            part = self._segment_sum(part, self._step(part.index_set, "unit"), origin)
        return part

    def _step(self, domain: str, codomain: str) -> str:
        """The map that takes all rows of a set to one place, or each element of a container to it."""
        if (domain, codomain) not in self.steps:
            plain = f"all_{plural(domain)}" if codomain == "unit" else f"{domain}_{codomain}"
            name = self.steps[domain, codomain] = self.names.new(plain)
            self.maps[name] = IndexMap(name=name, domain=domain, codomain=codomain, origin=())
        return self.steps[domain, codomain]

    def _product(self, gather: Gather, domain: str) -> str:
        """The map that leads to a row of a tensor over several sets: `mu[e.src.ntype, e.etype]`."""
        key = domain, ",".join(gather.indices)
        if key not in self.steps:
            sets = self.tensors[gather.tensor].sets
            if sets not in self.products:
                self.products[sets] = self._set_name("_by_".join(sets))
            name = self.steps[key] = self.names.new("_".join(gather.indices).replace(".", "_"))
            self.maps[name] = IndexMap(
                name=name, domain=domain, codomain=self.products[sets], paths=gather.indices, origin=()
            )
        return self.steps[key]

    def _set_name(self, hint: str) -> str:
        """A name for a set which, like that of its arrays' extent, nothing has yet."""
        while True:
            name = self.names.new(hint)
            if (extent := str(count_name(name))) == self.names.new(extent):
                return name

    def _segment_sum(self, part: Value, step: str, origin: Origin) -> Value:
        segment = Segment(function="sum", operand=part.name, map=step, origin=origin)
        return self._add(segment, self.maps[step].codomain, part.shape, origin)

    def _sum_by(self, part: Value, path: str, origin: Origin) -> Value:
        """The part summed along a path of maps, one step after another."""
        for step in path.split("."):
            if step != part.index_set:
                part = self._segment_sum(self._sum_onto(part, self.maps[step].domain, origin), step, origin)
        return part

    def _gather(self, value: Value, gather: Gather, upstream: Value) -> None:
        if not (self._learnt(gather.tensor) or gather.tensor in self.active):
            return
        if not gather.indices:
            part = self._sum_onto(upstream, "unit", value.origin)
        elif len(gather.indices) == 1:
            part = self._sum_by(upstream, gather.indices[0], value.origin)
        else:
            part = self._segment_sum(upstream, self._product(gather, value.index_set), value.origin)
        self._contribute(gather.tensor, part)

    def _elementwise(self, value: Value, operator: Elementwise, upstream: Value) -> None:
        for position, name in enumerate(operator.operands):
            if name not in self.active or not changes_with(operator, position):
                continue
            factor = self._factor(value, operator, position)
            part = upstream if factor is None else self._times(upstream, factor, value)
            part = self._reduced(part, self.writer.values[name].shape, value.origin)
            self._contribute(name, self._sum_onto(part, self.writer.values[name].index_set, value.origin))

    def _factor(self, value: Value, operator: Elementwise, position: int) -> Value | None:
        """The partial derivative by one operand; None where it is 1."""
        steps = derivative(operator, position, value.name)
        if not steps:
            return None
        names: list[str] = []
        last: Value | None = None
        for step in steps:
            inputs = tuple(self._input(item, names, value) for item in step.operands)
            made = Elementwise(function=step.function, operands=inputs, parameter=step.parameter, origin=value.origin)
            shapes = [self.writer.values[name].shape for name in inputs]
            last = self._add(made, value.index_set, max(shapes, key=len), value.origin)
            names.append(last.name)
        return last

    def _input(self, item: str | float | int, names: list[str], value: Value) -> str:
        """A step's operand as a value's name; an int is the place of an earlier step."""
        if isinstance(item, int):
            return names[item]
        return self._constant(item, value) if isinstance(item, float) else item

    def _constant(self, number: float, value: Value) -> str:
        return self._add(Constant(value=number, origin=value.origin), "unit", (), value.origin).name

    def _times(self, upstream: Value, factor: Value, value: Value) -> Value:
        operator = Elementwise(function="mul", operands=(upstream.name, factor.name), origin=value.origin)
        return self._add(operator, value.index_set, value.shape, value.origin)

    def _reduced(self, part: Value, shape: Shape, origin: Origin) -> Value:
        """Summed over the last dimensions, down to the shape of an operand that was repeated along them."""
        while len(part.shape) > len(shape):
            operator = Reduce(function="sum", operand=part.name, origin=origin)
            part = self._add(operator, part.index_set, part.shape[:-1], origin)
        return part

    def _contract(self, value: Value, operator: Contract, upstream: Value) -> None:
        inputs, _, out = operator.signature.partition("->")
        left, _, right = inputs.partition(",")
        sides = ((operator.left, left, operator.right, right), (operator.right, right, operator.left, left))
        for name, own, other, others in sides:
            signature = f"{out},{others}->{own}"
            contract = Contract(signature=signature, left=upstream.name, right=other, origin=value.origin)
            self._hand(name, contract, self.writer.values[name].shape, value)

    def _reduce(self, value: Value, operator: Reduce, upstream: Value) -> None:
        operand = self.writer.values[operator.operand]
        slopes = {"norm1": "sign", "norm2": "div_or_zero", "max": "equal", "min": "equal"}
        part = upstream
        if operator.function == "mean":
            share = self._constant(1.0 / self.source.size(operand.shape[-1]), value)
            scaled = Elementwise(function="mul", operands=(upstream.name, share), origin=value.origin)
            part = self._add(scaled, value.index_set, upstream.shape, value.origin)
        if operator.function in ("sum", "mean"):
            spread = Elementwise(function="copy", operands=(part.name,), origin=value.origin)
            self._hand(operand.name, spread, operand.shape, value)
            return
        if operator.function == "product":
            if operand.name in self.active:
                self._product_of_others(value, operator, upstream)
            return
        function = slopes[operator.function]
        inputs = (operand.name,) if function == "sign" else (operand.name, value.name)
        slope = Elementwise(function=function, operands=inputs, origin=value.origin)
        factor = self._add(slope, value.index_set, operand.shape, value.origin)
        if function == "equal":
            ties = Reduce(function="sum", operand=factor.name, origin=value.origin)
            part = self._share(part, self._add(ties, value.index_set, value.shape, value.origin))
        product = Elementwise(function="mul", operands=(part.name, factor.name), origin=value.origin)
        self._hand(operand.name, product, operand.shape, value)

    def _share(self, upstream: Value, count: Value) -> Value:
        """What each of so many gets; nothing where there are none."""
        share = Elementwise(function="div_or_zero", operands=(upstream.name, count.name), origin=upstream.origin)
        return self._add(share, upstream.index_set, upstream.shape, upstream.origin)

    def _segment(self, value: Value, operator: Segment, upstream: Value) -> None:
        operand = self.writer.values[operator.operand]
        if operand.name not in self.active:
            return
        # A value of no set repeats on all elements.
        index_set, origin = self.maps[operator.map].domain, value.origin
        part = upstream
        if operator.function == "mean":
            one = self._constant(1.0, value)
            spread = self._add(Elementwise(function="copy", operands=(one,), origin=origin), index_set, (), origin)
            count = self._sum_by(spread, operator.map, origin)
            part = self._share(upstream, count)
        mask: Value | None = None
        if operator.function in ("max", "min"):
            best = self._back(value, operator.map, origin)
            chosen = Elementwise(function="equal", operands=(operand.name, best.name), origin=origin)
            mask = self._add(chosen, index_set, value.shape, origin)
            part = self._share(upstream, self._sum_by(mask, operator.map, origin))
        if operator.function == "product":
            self._product_of_others(value, operator, upstream)
            return
        handed = self._back(part, operator.map, origin)
        if mask is not None:
            product = Elementwise(function="mul", operands=(handed.name, mask.name), origin=origin)
            handed = self._add(product, index_set, value.shape, origin)
        self._contribute(operand.name, self._sum_onto(handed, operand.index_set, origin))

    def _back(self, whole: Value, along: str, origin: Origin) -> Value:
        """What is reduced along a map, at each element that it is reduced of."""
        entry = self.maps[along]
        operator: Operator = Gather(tensor=whole.name, indices=(along,), origin=origin)
        if containment(entry):  # whose elements read their container's as it is
            operator = Elementwise(function="copy", operands=(whole.name,), origin=origin)
        return self._add(operator, entry.domain, whole.shape, origin)

    def _product_of_others(self, value: Value, operator: Segment | Reduce, upstream: Value) -> None:
        """Each factor's slope is the product of the others: of those that are not 0, over its own; where one is 0, that
        one alone has a slope, and where several are, none has."""
        operand, origin = self.writer.values[operator.operand], value.origin
        index_set = self.maps[operator.map].domain if isinstance(operator, Segment) else value.index_set

        def made(function: str, *names: str) -> Value:
            elementwise = Elementwise(function=function, operands=names, origin=origin)
            return self._add(elementwise, index_set, operand.shape, origin)

        def back(whole: Value) -> str:
            """What is the same for all factors, for each of them."""
            if isinstance(operator, Reduce):
                return whole.name
            return self._back(whole, operator.map, origin).name

        def whole(function: str, factors: Value) -> Value:
            reduction = replace(operator, function=function, operand=factors.name, origin=origin)
            return self._add(reduction, value.index_set, value.shape, origin)

        zero = made("equal", operand.name, self._constant(0.0, value))
        filled = made("add", operand.name, zero.name)  # 1 in place of 0
        besides = made("sub", back(whole("sum", zero)), zero.name)  # how many of the others are 0
        rest = made("equal", besides.name, self._constant(0.0, value))
        others = made("div", back(whole("product", filled)), filled.name)
        handed = made("mul", back(upstream), made("mul", others.name, rest.name).name)
        self._contribute(operand.name, self._sum_onto(handed, operand.index_set, origin))

    def _slice(self, value: Value, operator: Slice, upstream: Value) -> None:
        operand = self.writer.values[operator.operand]
        width = self.source.size(operand.shape[-1])
        pieces: list[str] = []
        for before, count in ((True, operator.start), (False, width - operator.stop)):
            if not before:
                pieces.append(upstream.name)
            if count:
                zero = Elementwise(function="copy", operands=(self._constant(0.0, value),), origin=value.origin)
                shape = (*operand.shape[:-1], count)
                pieces.append(self._add(zero, value.index_set, shape, value.origin).name)
        self._hand(operand.name, Concat(operands=tuple(pieces), origin=value.origin), operand.shape, value)

    def _repeat(self, value: Value, operator: Repeat, upstream: Value) -> None:
        """The copies' gradients add up: a product with ones along the first dimension."""
        operand = self.writer.values[operator.operand]
        copy = Elementwise(function="copy", operands=(self._constant(1.0, value),), origin=value.origin)
        ones = self._add(copy, "unit", value.shape[:1], value.origin)
        letters = "bcdefghijklm"[: len(operand.shape)]
        signature = f"a,a{letters}->{letters}"
        contract = Contract(signature=signature, left=ones.name, right=upstream.name, origin=value.origin)
        self._hand(operand.name, contract, operand.shape, value)

    def _concat(self, value: Value, operator: Concat, upstream: Value) -> None:
        start = 0
        for name in operator.operands:
            shape = self.writer.values[name].shape
            stop = start + self.source.size(shape[-1])
            part = Slice(operand=upstream.name, start=start, stop=stop, origin=value.origin)
            self._hand(name, part, shape, value)
            start = stop


def _passing(operator: Operator) -> tuple[str, ...]:
    """The operands with which an operator's result changes."""
    if isinstance(operator, Elementwise):
        return tuple(name for place, name in enumerate(operator.operands) if changes_with(operator, place))
    return operands(operator)
