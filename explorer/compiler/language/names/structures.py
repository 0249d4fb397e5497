"""What the loops of a definition go over: the nodes and edges of a graph, bags and their entries, a matrix."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field

from explorer.compiler.frozen import dataclass, replace
from explorer.compiler.ir.graph import NODES, Ends, plural
from explorer.compiler.ir.set_maps import beside_edges, graph_maps
from explorer.compiler.language.diagnostics import with_article
from explorer.compiler.language.names.dependency import Dependency

LISTS = frozenset(
    ("ptr", "idx", "blocks", "weight", "rowptr", "row", "col", "value", "num_rows", "num_cols", "num_blocks")
)
"""The arrays and numbers that lists and matrices are given as."""
OF_BAGS = ("ptr", "idx", "weight", "num_rows")
"""Those of bags; of several, behind the name of each: `a_ptr`."""
FACTS = "facts"
"""The kind of a score's structure."""
GRAPH_KIND = "graph"
"""The kind of a layer's structure."""
BATCH = "batch"
"""The set of a score's facts: over it is what comes with each of them, as labels do."""
NEGATIVE = "negative"
"""The set of a score's negatives, of each fact as many."""
OF_NEGATIVES = f"{NEGATIVE}_{BATCH}"
"""The map from each of them to the fact that it is of."""


@dataclass(frozen=True)
class Structure:
    """Groups with their members: a node with its edges, a bag with its entries, a matrix's row with its nonzeros.

    Data stands on groups and members. `maps` lead from one set to another, `given` are the numbers that the structure
    brings for each element of a set, `parts` what can be asked of an element by name."""

    kind: str  # "graph", "bags", "csr", "coo" or "blocks"
    sets: tuple[str, ...]
    group: str
    member: str
    maps: Mapping[str, tuple[str, str]]
    given: Mapping[str, str]
    parts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    picks: str = ""
    """The map through which the variable of a loop over members is an index: `idx` in `T[i] for i in b`."""
    gives: str = ""
    """The number for each member that a loop's second variable stands for: `w` in `for i, w in b`."""
    each: str = "unit"
    """The set for whose elements the definition is called."""

    several: Mapping[str, Structure] = field(default_factory=dict)
    """Of several bags or graphs each one's own, by the parameter; what an element has is here, of all of them."""
    arrays: frozenset[str] = frozenset()
    """What a run gives the structure itself as, under whatever names its maps have."""
    by_set: Mapping[str, str] = field(default_factory=dict)
    """The maps from members that the sets' names stand for as well: `z.user` for `z.row` of a csr[user, item]."""
    map_names: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """The maps that parts of a set's elements are, where these have other names: ("q_edge", "src") is `q_src`."""
    made: tuple[str, ...] = ()
    """Those of its sets that only ids lead to which are computed of others."""
    others: tuple[str, ...] = ()
    """Further sets of groups that have the same members: the sources of a graph between two sets."""
    noun: str = ""
    """What a loop goes over, after "no": "graph and no node"."""
    reduced: str = ""
    """What a reduction goes over."""
    summed: str = ""
    """A sum over a group's members as statements, up to the name of the data."""

    @property
    def example(self) -> str:
        """A name for a group's element."""
        return self.summed.rpartition(" ")[2]

    @property
    def owner(self) -> str:
        """What messages call it."""
        known = {FACTS: "every score", "graph": "the graph", "csr": "the matrix", "coo": "the matrix"}
        return known.get(self.kind, f"the {self.kind}")

    @property
    def groups(self) -> tuple[str, ...]:
        """The sets of groups."""
        return (*self.others, self.group)

    @property
    def members(self) -> tuple[str, ...]:
        """The sets of members: of several bags or graphs, each has its own."""
        return tuple(each.member for each in self.several.values()) or (self.member,)

    @property
    def all_sets(self) -> tuple[str, ...]:
        """Those of its elements, those that a text names, and those that only its maps lead from."""
        domains = (domain for domain, _ in self.maps.values())
        return tuple(dict.fromkeys((*self.members, *self.groups, *self.sets, *domains)))

    @property
    def dependencies(self) -> tuple[Dependency, ...]:
        """What values may depend on, in the order in which it is shown."""
        found: list[Dependency] = []
        for index_set in self.all_sets:
            maps = [Dependency(name, domain) for name, (domain, _) in self.maps.items() if domain == index_set]
            own = Dependency(index_set, index_set)
            found += [*maps, own] if index_set in self.members else [own, *maps]
        return tuple(found)

    @property
    def ends(self) -> tuple[str, ...]:
        """The maps from members to groups."""
        return tuple(name for name, place in self.maps.items() if place == (self.member, self.group))

    @property
    def mapped(self) -> tuple[str, ...]:
        """The sets that maps which a text declares may lead from: those of a score's ids, and where maps lead from
        these; else those of its elements, and of what members pick."""
        if self.kind == FACTS:
            return tuple(index_set for index_set in self.sets if index_set != BATCH)
        lists = tuple(self.several.values()) or (self,)
        picked = (each.maps[each.picks][1] for each in lists if each.picks)
        return tuple(dict.fromkeys((*self.members, *self.groups, *picked)))

    @property
    def home(self) -> str:
        """The map from members to the group that has them side by side."""
        return self.ends[0]

    def home_of(self, member: str) -> str:
        """That of the members of a set, of several bags too."""
        return next((each.home for each in self.several.values() if each.member == member), self.home)

    def map_of(self, index_set: str, part: str) -> str:
        """The map that a part of a set's elements is: `src` of every edge, of a further graph's `q_src`."""
        return self.map_names.get((index_set, part), part)

    def called(self, index_set: str) -> str:
        """What messages call an element of a set: of several graphs, whose edge it is."""
        for name, graph in self.several.items() if self.kind == GRAPH_KIND else ():
            known = {graph.member: f"an edge of '{name}'", graph.led_to("etype"): f"a type of the edges of '{name}'"}
            if index_set in known:
                return known[index_set]
        return with_article(index_set)

    def led_to(self, part: str) -> str:
        """The set that a part of a graph's edges leads to."""
        return self.maps[self.map_of(self.member, part)][1]

    @property
    def words(self) -> str:
        """`nodes and edges`."""
        return " and ".join(map(plural, (*self.groups, *self.members)))


def graph_between(ends: Ends) -> Structure:
    """`g: graph[user, item]`: edges from one set to another; of one set, `g: graph`, whose elements have types.
    `e.norm` is 1 over the in-edges of `e.dst` that have `e`'s type. The pairs of an end and a type of its edges are a
    set that loops go over and nothing is declared over."""
    source, destination = ends
    types = ("ntype",) if ends == NODES else ()
    beside = {} if types else {source: ("id",)}
    return Structure(
        kind=GRAPH_KIND,
        sets=tuple(dict.fromkeys((*ends, "edge", "etype", *types))),
        group=destination,
        member="edge",
        maps=graph_maps(ends),
        given={"norm": "edge", "in_degree": destination},
        parts={
            "edge": ("src", "dst", "etype", "id", "norm"),
            **beside,
            destination: (*types, "id", "in_degree"),
            "etype": ("id",),
        },
        others=() if types else (source,),
        noun=f"graph and no {source}" if types else f"graph, no {source} and no {destination}",
        reduced=f"the edges of {with_article(destination)}, or over all {plural(destination)} or edges",
        summed="for n in g.dst_nodes(): for e in n.incoming_edges(): n",
    )


GRAPH = graph_between(NODES)
"""A layer's graph of one set of nodes."""


def graph_beside(name: str, ends: Ends) -> Structure:
    """`q: graph` behind another graph: edges of its own, `q_edge`, with types of their own, over the same nodes."""
    source, destination = ends
    edge, etype = beside_edges(name)
    return replace(
        graph_between(ends),
        sets=(edge, etype),
        member=edge,
        maps={f"{name}_src": (edge, source), f"{name}_dst": (edge, destination), f"{name}_etype": (edge, etype)},
        given={},
        parts={edge: ("src", "dst", "etype", "id"), etype: ("id",)},
        others=() if source == destination else (source,),
        map_names={(edge, part): f"{name}_{part}" for part in ("src", "dst", "etype")},
    )


def several_graphs(graphs: Mapping[str, Ends]) -> Structure:
    """`g: graph, q: graph`: the first has the maps and sets of every graph, and the others theirs under their names."""
    (first, ends), *others = graphs.items()
    own = graph_between(ends)
    several = {first: own, **{name: graph_beside(name, between) for name, between in others}}
    beside = tuple(several[name] for name, _ in others)
    return replace(
        own,
        sets=(*own.sets, *(index_set for each in beside for index_set in each.sets)),
        maps={**own.maps, **{name: place for each in beside for name, place in each.maps.items()}},
        parts={**own.parts, **{index_set: parts for each in beside for index_set, parts in each.parts.items()}},
        map_names={place: name for each in beside for place, name in each.map_names.items()},
        several=several,
    )


def facts_of(sets: Iterable[str]) -> Structure:
    """A score's: a batch of facts, each an element of every set that the header has. Reductions go over the negatives
    of a fact, where it has some."""
    reduced = "the negatives of a fact: sum(E[k] for k in n), where the header has n: negatives of entity"
    return Structure(FACTS, (*dict.fromkeys(sets), BATCH), "", "", {}, {}, noun="set of negatives", reduced=reduced)


def bags_of(rows: str, prefix: str = "") -> Structure:
    """`b: bag of row`: entries in bags, each picking a row. Of several bags the names of each have a prefix, but that
    all are in the same bags."""
    entry, home, picks, weight = (f"{prefix}{name}" for name in ("entry", "bag", "idx", "weight"))
    maps = {home: (entry, "bag"), picks: (entry, rows)}
    given = {weight: entry}
    sets = (rows, "bag", entry)
    reduced = "the entries of a bag: sum(T[i] for i in b)"
    return Structure(
        *("bags", sets, "bag", entry, maps, given),
        picks=picks,
        gives=weight,
        each="bag",
        arrays=LISTS,
        noun="bag",
        reduced=reduced,
        summed="for i in b: b",
    )


def several_bags(rows: Mapping[str, str]) -> Structure:
    """`a: bag of item, b: bag of user`: of each bag the entries of every parameter, `a_entry` and `b_entry`, with the
    maps `a_idx` and `b_idx` to the rows that they pick."""
    bags = {name: bags_of(picked, f"{name}_") for name, picked in rows.items()}
    name, first = next(iter(bags.items()))
    return replace(
        first,
        sets=tuple(dict.fromkeys(index_set for each in bags.values() for index_set in each.sets)),
        maps={name: ends for each in bags.values() for name, ends in each.maps.items()},
        given={name: entry for each in bags.values() for name, entry in each.given.items()},
        summed=f"for i in {name}: {name}",
        arrays=LISTS | {f"{name}_{array}" for name in bags for array in OF_BAGS},
        several=bags,
    )


def blocks_of(blocks: str) -> Structure:
    """`q: blocks of row`: for each query, the ids of the blocks that it attends to."""
    maps = {"query": ("entry", "query"), "idx": ("entry", blocks)}
    reduced = "the blocks that a query attends to: sum(K[j] for j in q)"
    return Structure(
        *("blocks", (blocks, "query", "entry"), "query", "entry", maps, {}),
        picks="idx",
        each="query",
        arrays=LISTS,
        noun="query",
        reduced=reduced,
        summed="for j in q: q",
    )


def matrix(kind: str, rows: str, columns: str, *further: str) -> Structure:
    """`A: csr[I, J]` or `A: coo[I, J]`: nonzeros, each in a row and a column; of a tensor, `X: coo[I, J, K]`, in an
    element of further sets too, to which maps of these sets' names lead."""
    known = {"row": "row", "col": "col", "value": "value"}
    by_set = {index_set: name for index_set, name in ((rows, "row"), (columns, "col")) if index_set not in known}
    return Structure(
        kind,
        tuple(dict.fromkeys((rows, columns, "nonzero", *further))),
        rows,
        "nonzero",
        {"row": ("nonzero", rows), "col": ("nonzero", columns), **{each: ("nonzero", each) for each in further}},
        {"value": "nonzero"},
        {"nonzero": (*known, *further)},
        by_set=by_set if rows != columns else {},
        picks="col",
        gives="value",
        arrays=LISTS,
        noun="matrix",
        reduced="the nonzeros of a row: sum(a * X[j] for j, a in A.row(i)), in a loop for i in A.rows()",
        summed="for i in A.rows(): for j, a in A.row(i): i",
    )
