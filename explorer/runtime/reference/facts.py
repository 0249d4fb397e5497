"""Scores for the reference: a row a fact, and reductions over the negatives that a fact has of its own."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from explorer.runtime.reference.evaluator import Binding, Evaluator, Handle, Index
from explorer.runtime.reference.graph import reduce_runs
from explorer.runtime.reference.numbers.primitives import Array, Carrier, Numbers, pick, spread
from explorer.runtime.reference.text import Definition, Model

OF_NEGATIVES = "negatives["
"""How the annotation of `n: negatives of entity` begins."""


@dataclass(frozen=True)
class Negatives(Handle):
    """`n: negatives of entity`: the ids of each fact, [facts, negatives]."""

    ids: npt.NDArray[np.integer]


class FactEvaluator(Evaluator):
    """Evaluates one score; `links` are the ids that its own maps have for each element of their sets."""

    def __init__(
        self, model: Model, definition: Definition, inputs: Mapping[str, npt.NDArray[np.generic]], *others: Any
    ) -> None:
        super().__init__(model, definition, inputs, *others)
        self.links = {name: np.asarray(inputs[name], dtype=np.int64) for name, _ in definition.maps}

    def operand(self, node: ast.expr, scope: dict[str, Binding]) -> Binding:
        """Also what is reduced over negatives, and where a map leads: `h.kind`, or `h.E` for `E[h]`."""
        match node:
            case ast.Attribute(value=ast.Name() | ast.Attribute() as base, attr=name) if isinstance(
                picked := self.expression(base, scope), Index
            ):
                return Index(self.links[name][picked.ids]) if name in self.links else self._row(name, picked)
            case ast.Call(
                func=ast.Name(id=name),
                args=[
                    ast.GeneratorExp(
                        elt=element,
                        generators=[ast.comprehension(target=ast.Name(id=letter), iter=ast.Name(id=over))],
                    )
                ],
            ) if isinstance(scope.get(over), Negatives):
                return self.reduced(name, element, letter, scope[over].ids, scope)
        return super().operand(node, scope)

    def _row(self, name: str, picked: Index) -> Binding:
        """An element's row of a tensor that is called as a part of it is."""
        return self.gather(self.tables[name], ast.Name("_"), {"_": picked})

    def reduced(self, function: str, element: ast.expr, letter: str, ids: Numbers, scope: dict[str, Binding]) -> Array:
        """A reduction of what an expression is for each of a fact's negatives: these are rows of their own."""
        facts, negatives = ids.shape
        owners = np.repeat(np.arange(facts), negatives)
        inner = {name: _at(bound, owners) for name, bound in scope.items() if not isinstance(bound, Negatives)}
        values = self.value(element, {**inner, letter: Index(ids.reshape(-1))})
        values = spread(values, (len(owners), *values.shape[1:]))
        return self.kept(reduce_runs(function, values, owners, facts))


def _at(bound: Binding, owners: Numbers) -> Binding:
    """What a fact has, at each of its negatives."""
    match bound:
        case Index(ids=ids):
            return Index(ids[owners])
        case np.ndarray() | Carrier() if len(bound) != 1:  # one row stands for all
            return pick(bound, (owners,))
    return bound
