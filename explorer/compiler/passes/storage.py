"""Decides which values of a graph are stored in memory, and which kernel computes each.

Everything else is computed where it is read, inside a kernel, and never leaves it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from explorer.compiler.ir.graph import Elementwise, Gather, Graph, IndexMap, Segment, Value, operands
from explorer.compiler.ir.index_sets import CONTAINERS, containment
from explorer.compiler.ir.work import elements
from explorer.compiler.passes.rows import sums
from explorer.compiler.passes.sets import THROUGH

SECTOR = 8
"""Floats that memory gives at a time: a value of more is a row, which costs as much to store as it does to load."""


@dataclass(frozen=True)
class KernelPlan:
    """A kernel over an index set, and the values that it stores: on the set, or on what its elements contain. One that
    `scatters` is over the elements that its one value sums, and adds each where it belongs."""

    index_set: str
    stores: tuple[str, ...]
    scatters: bool = False


def stored_values(graph: Graph) -> list[str]:
    """The values to store, in order: the result, what is read at another position than a loop has it, and what costs
    a loop and would be computed in several.

    A reader is either a kernel over its own set, or a loop along a map (an edge loop of a node), which has the
    value at the map's end at hand."""
    results = {graph.result, *(name for _, name in graph.gradients)}
    maps = {entry.name: entry for entry in graph.maps}
    readers: dict[str, list[Value]] = {value.name: [] for value in graph.values}
    for value in graph.values:
        for name in dict.fromkeys(operands(value.operator)):
            readers[name].append(value)
    places: dict[str, set[tuple[str, str]]] = {}  # (the loop's reader or "", the map that it goes along or "")
    stored: set[str] = set()
    for value in reversed(graph.values):
        found: set[tuple[str, str]] = set()
        elsewhere = value.name in results or graph.scatters(value)
        for reader in readers[value.name]:
            inside = {("", "")} if reader.name in stored else places[reader.name]
            match reader.operator:
                case Segment() as segment:
                    found.add((reader.name, "" if graph.scatters(reader) else segment.map))
                case Gather() as gather:
                    elsewhere |= not all(_at_hand(gather.indices, loop, stored, places) for loop in inside)
                    found.add((reader.name, "gather"))
                case _:
                    found |= inside
        elsewhere |= sums(value) and any(_each_of_many(value, maps.get(along)) for _, along in found)
        in_loops = any(along not in ("", "gather") for _, along in found)
        again = sums(value) or (bool(graph.gradients) and _costs_more(graph, value, {along for _, along in found}))
        if elsewhere or (again and len(found) > 1 and in_loops):
            stored.add(value.name)
        places[value.name] = found
    return [value.name for value in graph.values if value.name in stored]


def _costs_more(graph: Graph, value: Value, ways: set[str]) -> bool:
    """Whether computing a value where loops along so many maps reach it takes more loads than computing it once,
    storing it, and loading it there: of a backward pass's edge, what its logit and its node's softmax are, say."""
    if not isinstance(value.operator, Elementwise) or elements(graph, value) > SECTOR:
        return False
    loads = len(_loaded(graph, value))
    return len(ways) * loads > loads + 1 + len(ways)


def _loaded(graph: Graph, value: Value) -> set[str]:
    """What is gathered for a value, or costs a loop, and so may be stored."""
    found: set[str] = set()
    for name in operands(value.operator):
        operand = graph.value(name)
        if isinstance(operand.operator, Gather) or sums(operand):
            found.add(name)
        else:
            found |= _loaded(graph, operand)
    return found


def _each_of_many(value: Value, along: IndexMap | None) -> bool:
    """Whether a loop along a map would compute a container's value afresh for each element in it."""
    return along is not None and CONTAINERS.get(along.domain) == value.index_set != along.codomain


def _at_hand(
    indices: tuple[str, ...], loop: tuple[str, str], stored: set[str], places: dict[str, set[tuple[str, str]]]
) -> bool:
    """Whether a loop along a map is inside the iteration of the row to which the indices lead."""
    segment, along = loop
    if indices == (along,):
        return True
    if len(indices) != 1 or (along, indices[0]) not in THROUGH or segment in stored:
        return False
    rest = (THROUGH[along, indices[0]],)
    return all(_at_hand(rest, outer, stored, places) for outer in places[segment])


def plan_kernels(graph: Graph, stored: list[str]) -> list[KernelPlan]:
    """The kernels in order. A value joins the last kernel over its set, unless it needs what a later one stores."""
    values = {value.name: value for value in graph.values}
    kernel_of: dict[str, int] = {}
    plans: list[KernelPlan] = []
    for name in stored:
        value = values[name]
        over = CONTAINERS.get(value.index_set, value.index_set)
        first = max((kernel_of[n] + (not same) for n, same in _reads(graph, value, set(stored))), default=0)
        scatters = graph.scatters(value)
        fitting = [k for k in range(first, len(plans)) if plans[k].index_set == over and not plans[k].scatters]
        if scatters:
            over, fitting = _summed_set(graph, value), []
        if fitting:
            kernel_of[name] = fitting[0]
            plan = plans[fitting[0]]
            plans[fitting[0]] = replace(plan, stores=(*plan.stores, name))
        else:
            kernel_of[name] = len(plans)
            plans.append(KernelPlan(over, (name,), scatters))
    return plans


def _summed_set(graph: Graph, value: Value) -> str:
    """The set whose elements a sum adds up."""
    return next(e.domain for e in graph.maps if isinstance(value.operator, Segment) and e.name == value.operator.map)


def _reads(graph: Graph, value: Value, stored: set[str]) -> set[tuple[str, bool]]:
    """The stored values that computing a value reads, and whether it reads them at its own position only."""
    found: set[tuple[str, bool]] = set()
    inside = {entry.name for entry in graph.maps if containment(entry)}
    pending = [(name, _at_own(value, inside)) for name in operands(value.operator)]
    seen: set[tuple[str, bool]] = set()
    while pending:
        name, own = pending.pop()
        if (name, own) in seen:
            continue
        seen.add((name, own))
        if name in stored:
            found.add((name, own))
        else:
            inner = graph.value(name)
            pending += [(n, own and _at_own(inner, inside)) for n in operands(inner.operator)]
    return found


def _at_own(value: Value, inside: set[str]) -> bool:
    """Whether a value reads its operands in its own iteration; the maps `inside` stay in it."""
    match value.operator:
        case Segment() as segment:
            return segment.map in inside
        case Gather():
            return False
    return True
