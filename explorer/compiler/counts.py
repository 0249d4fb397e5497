"""How many rows each index set of a layer's graph or of an op's matrix has, for the passes that choose by cost and for
schedules: those of the data that the user means, or of an assumed graph."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import field
from types import MappingProxyType

from explorer.compiler.frozen import dataclass, replace

SETS = {
    "nodes": "node",
    "edges": "edge",
    "etypes": "etype",
    "ntypes": "ntype",
    "src_pairs": "src_pair",
    "dst_pairs": "dst_pair",
}
"""What a caller names of a graph, and the index set that it counts; a pair is a node with the type of an edge at it. A
graph that leads from one set to another has no nodes: its ends are called as the layer calls them, `users`, `items`."""
NODES = {"nodes": "node"}
"""The ends of edges where they are of one set."""
MATRIX_SETS = {"rows": "row", "cols": "col", "nonzeros": "nonzero"}
"""What a caller names of a matrix; the rows of one of nodes by nodes are `nodes`, and an op that calls its sets
otherwise names them so: `words`, `contexts`."""
LISTS = "entries"
"""What a caller names of lists, beside the op's own sets."""
OF_FURTHER = ("_edges", "_etypes")
"""What the names of those of a layer's further graphs end in, behind each one's own: `q_edges`."""
ALL_SETS = {**SETS, **MATRIX_SETS}
BATCH = "batch"
"""What a caller names of a score: the triples, or other facts, of a batch."""
BATCH_EXTENT = "B"
"""What loops call that number, where a text has nothing of that name."""
LARGEST = 10**12
DECLARED = 1_000
"""The rows that a set is taken to have which a text declares, as of times: no graph tells them."""


class CountError(Exception):
    """Counts that are those of no graph; the message is for the user."""


@dataclass(frozen=True)
class Counts:
    """The rows of every index set of a graph or of a matrix, and what messages call it; of a score the facts of its
    `batch`, None where it may be any number."""

    name: str
    rows: Mapping[str, int]
    estimated: bool = False  # whether the pairs are
    batch: int | None = None
    assumed: bool = False  # whether they are of no data
    ends: Mapping[str, str] = field(default_factory=lambda: NODES)
    """Of a layer's graph the sets that edges lead from and to, by what a caller and loops name their sizes."""
    beside: Mapping[str, str] = field(default_factory=dict)
    """Of a layer's further graphs likewise the sets of edges and of their types."""

    def __getitem__(self, index_set: str) -> int:
        return self.rows.get(index_set, DECLARED)

    def of(self, extent: str) -> int | None:
        """The rows of the set whose size loops call so; None where nobody knows."""
        named = {**ALL_SETS, **self.beside, **self.ends}
        return self.rows.get(named.get(extent, extent))

    def is_of_graph(self, extent: object) -> bool:
        """Whether loops call so how many elements a set has that a layer's graphs bring."""
        return extent in SETS or extent in self.ends or extent in self.beside

    def between(self, ends: Mapping[str, str], beside: Mapping[str, str]) -> Counts:
        """The same of a layer whose edges lead between these ends, with further graphs beside: as many edges of as many
        types, where they are not counted. Raises CountError where the ends are not counted, or others are."""
        further = {
            index_set: self.rows.get(name, self.rows["etype" if index_set.endswith("_etype") else "edge"])
            for name, index_set in beside.items()
        }
        of_first = {name: count for name, count in self.rows.items() if name not in beside}
        found = replace(self, rows=of_first)._of_one_graph(ends, beside)
        return replace(found, rows=MappingProxyType({**found.rows, **further}), beside=beside) if beside else found

    def _of_one_graph(self, ends: Mapping[str, str], further: Iterable[str]) -> Counts:
        counted = self.rows.keys() - {*SETS.values(), "unit"}
        if ends == NODES:
            _check_known(counted, (*SETS, *further))
            return self
        if self.assumed:
            own = dict.fromkeys(ends.values(), self.rows["node"])
        else:
            _check_there(self.rows, *ends)
            _check_known(counted, (*ends, *(name for name in SETS if name not in ("nodes", "ntypes")), *further))
            own = {index_set: self.rows[name] for name, index_set in ends.items()}
        pairs = zip(("src_pair", "dst_pair"), own.values(), strict=False)
        guesses = {} if self.assumed else {pair: _guess(self.rows, count) for pair, count in pairs}
        rows = {name: count for name, count in self.rows.items() if name not in {*counted, "node", "ntype"}}
        return replace(self, rows=MappingProxyType({**guesses, **rows, "ntype": 1, **own}), ends=ends)

    @property
    def about(self) -> str:
        """Its name with its sizes."""
        types = [(self["etype"], "edge type"), *([(self["ntype"], "node type")] if self["ntype"] > 1 else [])]
        pairs = f"{self['src_pair']:,} and {self['dst_pair']:,} pairs{', estimated' if self.estimated else ''}"
        ends = [(self[end], end) for end in self.ends.values()]
        further = [(self[edges], edges) for edges in self.beside.values() if not edges.endswith("_etype")]
        counted = [*ends, (self["edge"], "edge"), *types, *further]
        sizes = [f"{count:,} {noun}{'' if count == 1 else 's'}" for count, noun in counted]
        return f"{self.name} ({', '.join(sizes)}, {pairs})"


def read_counts(given: Mapping[str, int], name: str = "") -> Counts:
    """Counts from numbers by the names of SETS, of a graph, or of MATRIX_SETS, of a matrix, called `name`.

    `nodes`, or what a layer calls both ends of its edges, and `edges` must be there, types are 1 and pairs are
    estimated where they are not; of a matrix `nonzeros` and `rows`, `nodes` or what an op calls its rows; of lists
    `entries`, `a_entries` of several bags; of a score the `batch`, and all else is assumed. Raises CountError.
    """
    if BATCH in given:
        return _of_batch(given)
    lists = any(key == LISTS or key.endswith(f"_{LISTS}") for key in given)
    matrix = "nonzeros" in given or ("edges" not in given and not given.keys().isdisjoint(MATRIX_SETS))
    of_op = lists or matrix  # a graph may lead between sets that are called as a matrix's are
    own = given.keys() - ALL_SETS.keys()
    two_sets = "edges" in given and "nodes" not in given and bool(given.keys() - SETS.keys())
    for key, value in given.items():
        if key in own and not (of_op or two_sets or key.endswith(OF_FURTHER)):
            _check_known((key,), ALL_SETS)
        _check_number(key, value)
    if of_op:
        owner = () if own else ("nodes",) if "nodes" in given else ("rows",)
        _check_there(given, *owner, *(() if lists else ("nonzeros",)))
        named = {ALL_SETS.get(key, key): number for key, number in given.items()}
        return Counts(name or "the given matrix", MappingProxyType(named))
    _check_there(given, *(() if two_sets else ("nodes",)), "edges")
    rows = {"etype": 1, "ntype": 1, **{SETS.get(key, key): value for key, value in given.items()}}
    if not two_sets:
        rows = {**dict.fromkeys(("src_pair", "dst_pair"), _guess(rows, rows["node"])), **rows}
    rows["unit"] = 1
    return Counts(name or "the given graph", MappingProxyType(rows), not {"src_pairs", "dst_pairs"} <= given.keys())


def _guess(rows: Mapping[str, int], nodes: int) -> int:
    """How many pairs of a type and one of so many nodes edges may have."""
    return min(rows["edge"], nodes * rows["etype"], round(_ASSUMED_SHARE * rows["edge"]))


def _of_batch(given: Mapping[str, int]) -> Counts:
    """The counts of a score's batch."""
    if others := [key for key in given if key != BATCH]:
        raise CountError(f"of a score the {BATCH} alone is counted, not {', '.join(others)}")
    _check_number(BATCH, given[BATCH])
    return replace(ASSUMED, batch=given[BATCH], assumed=False)


def _check_number(key: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= LARGEST:
        raise CountError(f"the count of {key} is a whole number from 0 to {LARGEST:,}, not {value!r}")


def fitting(counts: Counts, family: str, ends: Mapping[str, str], beside: Mapping[str, str]) -> Counts:
    """The counts as those of a definition, of a layer between these ends, with graphs beside. Raises CountError where a
    layer is to be counted on a matrix, what is no score on a batch, or a layer on a graph between other sets."""
    if family != "score" and counts.batch is not None:
        raise CountError(f"the counts of a {family} are not of a {BATCH}: scores have one")
    if family != "layer":
        return counts
    if "edge" not in counts.rows:
        raise CountError("the counts of a layer are of nodes and edges, not of a matrix")
    return counts.between(ends, beside)


def _check_known(given: Iterable[str], known: Collection[str]) -> None:
    for key in given:
        if key not in known:
            raise CountError(f"there is nothing called '{key}' to count: counts are of {', '.join(known)}")


def _check_there(given: Mapping[str, int], *needed: str) -> None:
    if missing := [key for key in needed if key not in given]:
        raise CountError(f"the counts lack {' and '.join(missing)}")


_ASSUMED_ROWS = {
    "node": 14_541,
    "edge": 620_232,
    "etype": 474,
    "ntype": 1,
    "src_pair": 161_260,
    "dst_pair": 161_260,
    "unit": 1,
}
"""FB15k-237 with inverse triples, which Hector calls fb15k."""
_ASSUMED_SHARE = _ASSUMED_ROWS["src_pair"] / _ASSUMED_ROWS["edge"]

ASSUMED = Counts("assumed sizes", MappingProxyType(_ASSUMED_ROWS), assumed=True)
"""Where no graph is given."""
