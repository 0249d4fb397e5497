"""How many rows each index set of a layer's graph or of an op's matrix has, for the passes that choose by cost and for
schedules: those of the data that the user means, or of an assumed graph."""

from __future__ import annotations

from collections.abc import Mapping
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
"""What a caller names of a graph, and the index set that it counts; a pair is a node with the type of an edge at it."""
MATRIX_SETS = {"rows": "row", "cols": "col", "nonzeros": "nonzero"}
"""What a caller names of a matrix; the rows of one of nodes by nodes are `nodes`, and an op that calls its sets
otherwise names them so: `words`, `contexts`."""
LISTS = "entries"
"""What a caller names of lists, beside the op's own sets."""
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

    def __getitem__(self, index_set: str) -> int:
        return self.rows.get(index_set, DECLARED)

    def of(self, extent: str) -> int | None:
        """The rows of the set whose size loops call so; None where nobody knows."""
        return self.rows.get(ALL_SETS.get(extent, extent))

    @property
    def about(self) -> str:
        """Its name with its sizes."""
        types = [(self["etype"], "edge type"), *([(self["ntype"], "node type")] if self["ntype"] > 1 else [])]
        pairs = f"{self['src_pair']:,} and {self['dst_pair']:,} pairs{', estimated' if self.estimated else ''}"
        counted = [(self["node"], "node"), (self["edge"], "edge"), *types]
        sizes = [f"{count:,} {noun}{'' if count == 1 else 's'}" for count, noun in counted]
        return f"{self.name} ({', '.join(sizes)}, {pairs})"


def read_counts(given: Mapping[str, int], name: str = "") -> Counts:
    """Counts from numbers by the names of SETS, of a graph, or of MATRIX_SETS, of a matrix, called `name`.

    `nodes` and `edges` must be there, types are 1 and pairs are estimated where they are not; of a matrix `nonzeros`
    and `rows`, `nodes` or what an op calls its rows; of lists `entries`, `a_entries` of several bags; of a score the
    `batch`, and all else is assumed. Raises CountError.
    """
    if BATCH in given:
        return _of_batch(given)
    lists = any(key == LISTS or key.endswith(f"_{LISTS}") for key in given)
    of_op = lists or not given.keys().isdisjoint(MATRIX_SETS)
    own = given.keys() - ALL_SETS.keys()
    for key, value in given.items():
        if key in own and not of_op:
            raise CountError(f"there is nothing called '{key}' to count: counts are of {', '.join(ALL_SETS)}")
        _check_number(key, value)
    if of_op:
        owner = () if own else ("nodes",) if "nodes" in given else ("rows",)
        _check_there(given, *owner, *(() if lists else ("nonzeros",)))
        named = {ALL_SETS.get(key, key): number for key, number in given.items()}
        return Counts(name or "the given matrix", MappingProxyType(named))
    _check_there(given, "nodes", "edges")
    rows = {"etype": 1, "ntype": 1, **{SETS[key]: value for key, value in given.items()}}
    guess = min(rows["edge"], rows["node"] * rows["etype"], round(_ASSUMED_SHARE * rows["edge"]))
    rows = {"src_pair": guess, "dst_pair": guess, **rows, "unit": 1}
    return Counts(name or "the given graph", MappingProxyType(rows), not {"src_pairs", "dst_pairs"} <= given.keys())


def _of_batch(given: Mapping[str, int]) -> Counts:
    """The counts of a score's batch."""
    if others := [key for key in given if key != BATCH]:
        raise CountError(f"of a score the {BATCH} alone is counted, not {', '.join(others)}")
    _check_number(BATCH, given[BATCH])
    return replace(ASSUMED, batch=given[BATCH])


def _check_number(key: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= LARGEST:
        raise CountError(f"the count of {key} is a whole number from 0 to {LARGEST:,}, not {value!r}")


def check_family(counts: Counts, family: str) -> None:
    """Raises CountError where a layer is to be counted on a matrix, or what is no score on a batch."""
    if family != "score" and counts.batch is not None:
        raise CountError(f"the counts of a {family} are not of a {BATCH}: scores have one")
    if family == "layer" and "edge" not in counts.rows:
        raise CountError("the counts of a layer are of nodes and edges, not of a matrix")


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

ASSUMED = Counts("assumed sizes", MappingProxyType(_ASSUMED_ROWS))
"""Where no graph is given."""
