"""The backend: each graph of Dynamo's is traced at its first call, and what is not traced runs as it was."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from explorer.runtime.dynamo.graphs import Piece, has_sizes, piece_of
from explorer.runtime.trace.tapes.tape import TraceError
from explorer.runtime.trace.trace import Traced, trace

MOST = 8
"""Traces of one graph, each for other numbers of Python's."""


@dataclass(frozen=True)
class Outcome:
    """What became of a graph of so many operators: its text, or the reason why it runs as it was."""

    operators: int
    text: str = ""
    reason: str = ""


Told = Callable[[Outcome], None]


def warned(outcome: Outcome) -> None:
    """Says that a graph runs as it was."""
    if outcome.reason:
        warnings.warn(
            f"explorer: a graph of {outcome.operators} operators runs as it was: {outcome.reason}", stacklevel=2
        )


class Compiled:
    """A graph of Dynamo's, to be called in its place."""

    def __init__(self, graph_module: Any, tell: Told) -> None:
        self._graph, self._tell = graph_module, tell
        self._found: list[tuple[Piece, Any]] = []
        self._refused = False
        self._operators = sum(node.op.startswith("call_") for node in graph_module.graph.nodes)

    def __call__(self, *args: Any) -> Any:
        """The graph's results."""
        found = next((pair for pair in self._found if pair[0].like(args)), None)
        if found is None and not self._refused and len(self._found) < MOST:
            found = self._traced(args)
        if found is None:
            return self._graph(*args)
        piece, replacement = found
        try:
            return _called(piece, replacement, args)
        except ValueError as error:  # a branch on ids that goes another way, or ids without a row
            self._tell(Outcome(self._operators, reason=f"in this call. {error}"))
            return self._graph(*args)

    def _traced(self, args: Sequence[Any]) -> tuple[Piece, Any] | None:
        try:
            piece = piece_of(self._graph, args)
        except TraceError as error:
            self._refuse(str(error))
            return None
        try:
            traced: Traced = trace(piece.module, *(_example(args[place]) for place in piece.inputs))
        except TraceError as error:
            line = piece.users_line(error.where)
            self._refuse(f"{str(error).partition(chr(10) + '  ')[0]}\n  {line}" if line else str(error))
            return None
        except ValueError as error:
            self._refuse(str(error))
            return None
        self._tell(Outcome(self._operators, text=traced.text))
        self._found.append((piece.for_numbers(args, traced.numbers), traced.module()))
        return self._found[-1]

    def _refuse(self, reason: str) -> None:
        self._refused = True
        if not has_sizes(self._graph):
            reason += "\n  Its sizes are those of this call: say torch.compile(..., dynamic=True)."
        self._tell(Outcome(self._operators, reason=reason))


def _example(value: Any) -> Any:
    return value.detach().cpu() if isinstance(value, torch.Tensor) else value


def _called(piece: Piece, replacement: Any, args: Sequence[Any]) -> Any:
    """The replacement's results, with the parameters that the call brings: another module may have the same graph."""
    inputs = tuple(args[place] for place in piece.inputs)
    own = {name: args[place] for name, place in piece.own.items()}
    held = {**replacement._parameters, **replacement._buffers}
    if all(held[name] is each for name, each in own.items()):
        return replacement(*inputs)
    return torch.func.functional_call(replacement, own, inputs)


def backend(graph_module: Any, example_inputs: Any) -> Compiled:
    """For `torch.compile(model, backend="explorer")`, which finds it under that name where explorer is installed."""
    return Compiled(graph_module, warned)
