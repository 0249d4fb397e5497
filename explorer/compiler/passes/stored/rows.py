"""Decides which values of a graph get a row of their own when the nest is fused."""

from __future__ import annotations

from explorer.compiler.ir.functions import COSTLY
from explorer.compiler.ir.graph import (
    Concat,
    Contract,
    Elementwise,
    Graph,
    Reduce,
    Segment,
    Value,
    operands,
)


def values_in_rows(graph: Graph, stored: set[str]) -> set[str]:
    """The names of the values to keep in rows inside a kernel; `stored` are those that have a buffer instead.

    - A concatenation, whose elements come from several places.
    - A vector that lives on the batch and is read by a value of the negatives: computed once, shared by all.
    - A segment's vector, which all its elements add to.
    - A reduction with free indices that a loop over other indices would recompute, or that several loops read.
    - In a backward pass, a vector of quotients or the like that a product would compute afresh for each of its rows.
    """
    costly = _costly_vectors(graph, stored) if graph.gradients else set()
    readers: dict[str, list[Value]] = {value.name: [] for value in graph.values}
    for value in graph.values:
        for name in dict.fromkeys(operands(value.operator)):
            readers[name].append(value)
    rows: set[str] = set()
    loops_reading: dict[str, set[str]] = {}
    for value in reversed(graph.values):
        kept = rows | stored
        places = {place for reader in readers[value.name] for place in _places(value, reader, kept, loops_reading)}
        loops_reading[value.name] = places or {"result"}
        again = any(place.startswith("again ") for place in loops_reading[value.name])
        wanted = _wants_row(value, readers[value.name], loops_reading[value.name])
        if value.name not in stored and (wanted or (again and value.name in costly)):
            rows.add(value.name)
            loops_reading[value.name] = {value.name}
    return rows


def _costly_vectors(graph: Graph, stored: set[str]) -> set[str]:
    """Vectors each of whose elements costs a division or a function, in its own operator or those that it reads."""
    found: set[str] = set()
    for value in graph.values:
        operator = value.operator
        if not isinstance(operator, Elementwise) or len(value.shape) != 1 or value.name in stored:
            continue
        if operator.function in COSTLY or not found.isdisjoint(operator.operands):
            found.add(value.name)
    return found


def _wants_row(value: Value, readers: list[Value], places: set[str]) -> bool:
    if not value.shape:
        return False
    if isinstance(value.operator, (Concat, Segment)):
        return True
    shared = value.index_set == "batch" and any(reader.index_set == "negative" for reader in readers)
    if shared and len(value.shape) == 1:
        return True
    return sums(value) and (len(places) > 1 or any(place.startswith("again ") for place in places))


def sums(value: Value) -> bool:
    """Whether one element costs a loop."""
    match value.operator:
        case Reduce() | Segment():
            return True
        case Contract() as contract:
            inputs, _, out = contract.signature.partition("->")
            return any(letter not in out for letter in inputs if letter != ",")
    return False


def _places(value: Value, reader: Value, rows: set[str], loops_reading: dict[str, set[str]]) -> set[str]:
    """The loops in which a reader asks for the value's elements; "again" marks one that asks for each repeatedly."""
    match reader.operator:
        case Reduce() | Segment():
            places = {reader.name}
        case Contract() as contract:
            inputs, _, out = contract.signature.partition("->")
            left, _, right = inputs.partition(",")
            letters = set(inputs + out) - {","}
            sides = [side for side, name in ((left, contract.left), (right, contract.right)) if name == value.name]
            if any(letters - set(side) for side in sides):
                return {f"again {reader.name}"}
            places = {reader.name} if letters - set(out) else loops_reading[reader.name]
        case Elementwise():
            places = loops_reading[reader.name]
        case _:
            return {f"again {reader.name}"}
    return {reader.name} if reader.name in rows else places
