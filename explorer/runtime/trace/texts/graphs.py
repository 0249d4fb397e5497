"""A trace's sets of nodes and edges as one graph: kinds of nodes united, sets of edges joined or mixed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from explorer.runtime.trace.joins.alike import NotAlike
from explorer.runtime.trace.joins.fetch import fetch
from explorer.runtime.trace.joins.join import Joining, join
from explorer.runtime.trace.joins.joined import Mixed, Typed
from explorer.runtime.trace.joins.kinds import Kinds
from explorer.runtime.trace.joins.mix import mix
from explorer.runtime.trace.joins.split import split
from explorer.runtime.trace.joins.unite import unite
from explorer.runtime.trace.tapes.examples import set_dim
from explorer.runtime.trace.tapes.recorded import Given
from explorer.runtime.trace.tapes.tape import TraceError
from explorer.runtime.trace.texts.written import Rows
from explorer.runtime.trace.translate import Map, Translation
from explorer.runtime.trace.values.expressions import Node, walk
from explorer.runtime.trace.values.tensors import NO_ROWS


@dataclass(frozen=True)
class OneGraph:
    """The results of one set of nodes and one of edges, where they could be brought to that; `why` says what was not.
    `typed` is what was made of the module's own sets, `maps` are those that the results go along, `read` those that
    sets of edges were made one of too, `given` all tensors; `sizes` are, by set that kinds of nodes or edges are,
    where it is told how many rows it has."""

    result: Node
    typed: tuple[Typed, ...]
    maps: list[Map]
    read: list[Map]
    given: Mapping[str, Given]
    why: str
    sizes: Mapping[str, tuple[Rows, ...]] = field(default_factory=dict)


def one_graph(translation: Translation, result: Node, mixed: bool) -> OneGraph:
    """One graph of a translation's, whose results are together; `mixed` says whether sets of edges may be one that are
    not alike. Raises TraceError."""
    united = _united(translation, result)
    nodes, read = translation.nodes, {each.name: each for each in united.read}
    alike: Mapping[str, str] = {}
    if mixed:
        ends = {name for name, each in read.items() if leads_to_nodes(each, translation.homes)}
        apart = split(nodes, united.result, read, ends)
        alike = {name: of for name, (of, _) in apart.maps.items()}
        read |= {name: replace(read[of], name=name, domain=part) for name, (of, part) in apart.maps.items()}
        joining = mix(nodes, apart.result, read, united.given, translation.homes)
    else:
        joining = join(nodes, united.result, read, united.given)
    typed = tuple(each.of_maps(alike) if isinstance(each, Mixed) else each for each in joining.typed)
    maps = list(_maps_of(joining.result, read, joining)) if typed else united.read
    given = {**united.given, **joining.given}
    found = replace(
        united,
        result=joining.result if typed else united.result,
        typed=(*united.typed, *typed),
        maps=maps,
        given=given,
        why=joining.why,
    )
    return _fetched(translation, found) if mixed else found


def _united(translation: Translation, result: Node) -> OneGraph:
    """One set of nodes."""
    maps = {each.name: each for each in translation.maps.values()}
    given = {**translation.given, **translation.numbers}
    try:
        uniting = unite(translation.nodes, result, maps, given, translation.homes, translation.unions)
    except NotAlike as error:
        what = "rows of several kinds of nodes, or of edges"
        raise TraceError(f"{what}, are no one set of typed ones: {error}.") from None
    if uniting.kinds is None:
        return OneGraph(result, (), list(maps.values()), list(maps.values()), given, "")
    maps |= {name: Map(name, of, None, 0, set(to)) for name, (of, to) in uniting.maps.items()}
    along = _along(uniting.result)
    read = [_led(each, uniting.home) for name, each in maps.items() if name in along]
    translation.homes.add(uniting.home)
    sizes = _sizes(translation, uniting.kinds)
    return OneGraph(uniting.result, (uniting.kinds,), read, read, {**given, **uniting.given}, "", sizes)


def _fetched(translation: Translation, graph: OneGraph) -> OneGraph:
    """One graph whose edges and nodes have one type each, rows of other tables being fetched."""
    ends = {each.name for each in graph.maps if leads_to_nodes(each, translation.homes)}
    last, fetched, new = fetch(translation.nodes, graph.result, graph.maps, ends, graph.given)
    typed = (*graph.typed, fetched) if fetched.rows else graph.typed
    left = {node.data[0] for node in walk((last,)) if node.operator == "gather"}
    maps = [each for each in graph.maps if each.name in {*ends, *left}]
    return replace(graph, result=last, typed=typed, maps=maps, given={**graph.given, **new})


def _maps_of(result: Node, maps: Mapping[str, Map], joining: Joining) -> Iterable[Map]:
    """The maps of a result whose sets were joined: those that are left, the joined ones, and the edges' types."""
    for name in sorted(_along(result)):
        if name in maps:
            yield maps[name]
        else:
            of, leads = joining.maps[name]
            yield Map(name, of, None, 0, set(leads))


def _sizes(translation: Translation, kinds: Kinds) -> dict[str, tuple[Rows, ...]]:
    """By the sets that kinds of nodes or edges are, where it is told how many rows they have."""
    spread = (each.of for each in kinds.leads.values() if len(each.of) > 1)  # the ids of one block are counted
    blocks = {
        *kinds.kinds,
        *(of for each in spread for of in each),
        *(of for each in kinds.leads.values() for of in each.to),
    }
    blocks |= {of for each in kinds.types.values() for of in each}
    blocks |= {of for each in (*kinds.rows.values(), *kinds.own.values()) for of in each[0]}
    found = defaultdict(list)
    for each in translation.given.values():
        dim = set_dim(each.tensor) if each.kind == "input" else None
        if dim is not None:
            found[each.tensor.shape[dim]].append(Rows(each.place, dim))
        elif each.name in translation.tables.nodes:
            found[len(each.tensor)].append(Rows(each.place, 0))
        elif each.kind == "input" and not each.tensor.is_floating_point():
            found[int(each.tensor)].append(Rows(each.place, NO_ROWS))
    for each in translation.given.values():
        for end in range(2) if each.kind == "input" and set_dim(each.tensor) == 1 else ():
            found[int(each.tensor[end].max()) + 1].append(Rows(each.place, 1, end))
    told = {of: _told(found[translation.unions.lengths[of]]) for of in blocks}
    if not all(told.values()):
        raise TraceError(
            "rows of several kinds are told apart by the inputs that have a row for each, or their number, and how "
            "many there are of one kind is computed of ids alone: hand in their number, or trace the parts apart."
        )
    return told


def _told(places: Iterable[Rows]) -> tuple[Rows, ...]:
    """Those by sizes and numbers, or where there are none by ids, of which the last row may have none."""
    places = tuple(places)
    return tuple(rows for rows in places if rows.end is None) or places


def _along(result: Node) -> set[str]:
    """The maps that a result goes along."""
    gathers = {str(node.data[0]) for node in walk((result,)) if node.operator == "gather"}
    return gathers | {str(node.data[1]) for node in walk((result,)) if node.operator == "reduce"}


def _led(each: Map, home: str) -> Map:
    """A map to a set of nodes as one to all."""
    tables = {of for of in each.codomains if of.startswith("rows of ")}
    return replace(each, codomains=tables or {home})


def leads_to_nodes(each: Map, homes: set[str]) -> bool:
    """Whether a map leads to nodes, not to a table's rows."""
    return any(of in homes or not of.startswith("rows of ") for of in each.codomains)
