"""Decides which values of a graph are stored in memory, and which kernel computes each.

Everything else is computed where it is read, inside a kernel, and never leaves it.
"""

from __future__ import annotations

from dataclasses import replace

from explorer.compiler.frozen import dataclass
from explorer.compiler.ir.graph import (
    Contract,
    Elementwise,
    Gather,
    Graph,
    IndexMap,
    Reduce,
    Segment,
    Value,
    operands,
)
from explorer.compiler.ir.index_sets import CONTAINERS, containment
from explorer.compiler.ir.set_maps import THROUGH
from explorer.compiler.ir.work import elements
from explorer.compiler.passes.stored.inner_products import inner_products
from explorer.compiler.passes.stored.rows import sums

MOST_COMPUTED = 40
"""Operations of a value that loops compute again, each for itself."""
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
    """The values to store, in order: the results, what is read at another position than a loop has it, and what costs
    a loop, or many loads, and would be computed in several.

    A reader is either a kernel over its own set, or a loop along a map (an edge loop of a node), which has the
    value at the map's end at hand."""
    readers: dict[str, list[Value]] = {value.name: [] for value in graph.values}
    for value in graph.values:
        for name in dict.fromkeys(operands(value.operator)):
            readers[name].append(value)
    stored, places = _stored(graph, readers, set())
    products = inner_products(graph, places) - stored if graph.family != "score" else set[str]()
    # a batch's products are split off where its sums are scattered
    if chosen := products | _computed_often(graph, stored, places):
        stored, places = _stored(graph, readers, chosen)
    if graph.family == "layer" and graph.gradients:
        chosen |= _loaded_often(graph, readers, places)
        stored, _ = _stored(graph, readers, chosen)
    while compared := _compared(graph, stored):  # with more in memory, some that was need not be
        chosen |= compared
        stored, _ = _stored(graph, readers, chosen)
    return [value.name for value in graph.values if value.name in stored]


def _stored(
    graph: Graph, readers: dict[str, list[Value]], chosen: set[str]
) -> tuple[set[str], dict[str, set[tuple[str, str]]]]:
    """The values to store, those chosen already among them, and where each is read: the loop's reader, and the map
    that it goes along, each "" where there is none."""
    results = {*graph.outputs, *chosen}
    maps, whole = {entry.name: entry for entry in graph.maps}, _of_whole_sets(graph)
    places: dict[str, set[tuple[str, str]]] = {}
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
                    elsewhere |= value.name in whole and reader.index_set != value.index_set
                    found |= inside
        elsewhere |= sums(value) and any(_each_of_many(value, maps.get(along)) for _, along in found)
        if elsewhere or (sums(value) and len(found) > 1 and any(along not in ("", "gather") for _, along in found)):
            stored.add(value.name)
        places[value.name] = found
    return stored, places


def _of_whole_sets(graph: Graph) -> set[str]:
    """The values of no set that are made of sums over one: the loop of each element of a set would sum it afresh."""
    found: set[str] = set()
    for value in graph.values:
        if value.index_set == "unit":
            summed = isinstance(value.operator, Segment)
            if summed or not found.isdisjoint(operands(value.operator)):
                found.add(value.name)
    return found


def _computed_often(graph: Graph, stored: set[str], places: dict[str, set[tuple[str, str]]]) -> set[str]:
    """What several loops would compute, each in more than MOST_COMPUTED operations. Without this, every loop of a long
    chain of loops would begin at the chain's start, so that their texts and their work grew with its square."""
    chosen: set[str] = set()
    needed: dict[str, frozenset[str] | None] = {}  # what a loop computes for a value; None: too much to be counted
    for value in graph.values:
        inside = () if isinstance(value.operator, (Gather, Segment)) else operands(value.operator)
        parts = [needed[name] for name in inside]
        within = None if None in parts else frozenset((value.name,)).union(*filter(None, parts))
        many = within is None or len(within) > MOST_COMPUTED
        if many and len(places[value.name]) > 1:
            chosen.add(value.name)
        known = value.name in stored or value.name in chosen
        needed[value.name] = frozenset() if known else None if many else within
    return chosen - stored


UNROUNDED = ("copy", "abs", "neg", "min", "max", "relu", "sign")
"""Functions whose result is exactly one of their operands, or of few numbers."""


def _compared(graph: Graph, stored: set[str]) -> set[str]:
    """What is compared with its maximum in a backward pass, where computing it twice may give two numbers: another
    kernel adds up in another order, or takes a product and a sum for one operation. The gradient would be lost."""
    roundings: dict[str, int] = {}  # since a value was in memory, of which one gives the same number anywhere
    for value in graph.values:
        below = max((roundings[name] for name in operands(value.operator)), default=0)
        roundings[value.name] = 0 if value.name in stored else below if _is_exact(value) else below + 1 + sums(value)
    equal = [value.operator for value in graph.values if _is_equal(value)]
    pending = [name for operator in equal for name in operands(operator)]
    seen: set[str] = set()
    while pending:
        name = pending.pop()
        if roundings[name] > 1 and name not in seen:
            seen.add(name)
            pending += operands(graph.value(name).operator) if _is_exact(graph.value(name)) else ()
    return {name for name in seen if not _is_exact(graph.value(name))}


def _is_equal(value: Value) -> bool:
    return isinstance(value.operator, Elementwise) and value.operator.function == "equal"


def _is_exact(value: Value) -> bool:
    """Whether a value's elements are elements of its operands, or exact functions of them."""
    match value.operator:
        case Elementwise() as elementwise:
            return elementwise.function in UNROUNDED
        case Reduce() | Segment() as reduction:
            return reduction.function in ("min", "max")
    return not isinstance(value.operator, Contract)


def _loaded_often(graph: Graph, readers: dict[str, list[Value]], places: dict[str, set[tuple[str, str]]]) -> set[str]:
    """Scalars that loops along several maps would compute, with more loads in all than to compute each once, store it
    and load it there: in a backward pass an edge's weight in a softmax, and the gradient of its logit. One that a
    single other scalar is made of is left to that one."""
    chosen: set[str] = set()
    for value in graph.values:
        ways = {along for _, along in places[value.name]} - {"gather"}
        if not isinstance(value.operator, Elementwise) or elements(graph, value) > SECTOR or len(ways) < 2:
            continue
        (reader, *others) = readers[value.name]
        if not others and isinstance(reader.operator, Elementwise) and elements(graph, reader) <= SECTOR:
            continue
        loads = len(_loaded(graph, value, chosen))
        if len(ways) * loads > loads + 1 + len(ways):
            chosen.add(value.name)
    return chosen


def _loaded(graph: Graph, value: Value, chosen: set[str]) -> set[str]:
    """What is loaded to compute a value: what is gathered for it, and what costs a loop or is stored besides."""
    found: set[str] = set()
    for name in operands(value.operator):
        operand = graph.value(name)
        if name in chosen or isinstance(operand.operator, Gather) or sums(operand):
            found.add(name)
        else:
            found |= _loaded(graph, operand, chosen)
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


def plan_kernels(graph: Graph, stored: list[str], apart: bool) -> list[KernelPlan]:
    """The kernels in order. A value joins the last kernel over its set, unless it needs what a later one stores; with
    `apart` what needs the gradients of the results joins no kernel of what does not."""
    later = _needing_upstreams(graph) if apart else set[str]()
    kernel_of: dict[str, int] = {}
    plans: list[KernelPlan] = []
    for name in _in_order(graph, stored):
        value = graph.value(name)
        over = CONTAINERS.get(value.index_set, value.index_set)
        first = max((kernel_of[n] + (not same) for n, same in _reads(graph, value, set(stored))), default=0)
        scatters = graph.scatters(value)
        fitting = [k for k in range(first, len(plans)) if plans[k].index_set == over and not plans[k].scatters]
        fitting = [k for k in fitting if (plans[k].stores[0] in later) == (name in later)]
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


def _needing_upstreams(graph: Graph) -> set[str]:
    """The values that are made of the results' gradients."""
    upstreams = {tensor.name for tensor in graph.tensors if tensor.kind == "upstream"}
    found: set[str] = set()
    for value in graph.values:
        given = isinstance(value.operator, Gather) and value.operator.tensor in upstreams
        if given or not found.isdisjoint(operands(value.operator)):
            found.add(value.name)
    return found


def _in_order(graph: Graph, stored: list[str]) -> list[str]:
    """The stored values, each behind what it needs, those of edges as early as that allows: what is summed over edges
    then has all that it needs when the first kernel over its set is planned."""
    needs = {name: {other for other, _ in _reads(graph, graph.value(name), set(stored))} for name in stored}
    pending, order = list(stored), list[str]()
    while pending:
        ready = [name for name in pending if needs[name] <= set(order)]
        (first, *_) = [name for name in ready if graph.value(name).index_set == "edge"] or ready
        pending.remove(first)
        order.append(first)
    return order


def _summed_set(graph: Graph, value: Value) -> str:
    """The set whose elements a sum adds up."""
    return next(e.domain for e in graph.maps if isinstance(value.operator, Segment) and e.name == value.operator.map)


def _reads(graph: Graph, value: Value, stored: set[str]) -> set[tuple[str, bool]]:
    """The stored values that computing a value reads, and whether it reads them at its own position only."""
    found: set[tuple[str, bool]] = set()
    inside = {entry.name for entry in graph.maps if containment(entry)}
    place = _read_from(value, OWN, inside, graph.results)
    pending = [(name, place) for name in operands(value.operator)]
    seen: set[tuple[str, str]] = set()
    while pending:
        name, place = pending.pop()
        if (name, place) in seen:
            continue
        seen.add((name, place))
        if name in stored:
            found.add((name, place == OWN))
        else:
            inner = graph.value(name)
            further = _read_from(inner, place, inside, graph.results)
            pending += [(n, further) for n in operands(inner.operator)]
    return found


OWN, ELSEWHERE = ".", ""
"""Where an iteration reads a value: at its own position, or at any other. A loop along a map has the map's name."""


def _read_from(value: Value, place: str, inside: set[str], results: tuple[str, ...]) -> str:
    """Where a value that is computed at a place reads its operands; the maps `inside` stay in the iteration, and a
    gather along a loop's own map comes back to it. A pass backward is kept out of a result's own kernel."""
    match value.operator:
        case Segment() as segment:
            return place if segment.map in inside else segment.map if place == OWN else ELSEWHERE
        case Gather() as gather:
            return OWN if gather.indices == (place,) and gather.tensor not in results else ELSEWHERE
    return place
