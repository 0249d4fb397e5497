"""Small inputs drawn from a model: with rows that nothing picks, lists and nodes of nothing, and ids that repeat."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from explorer.compiler.compilation import Compilation
from explorer.compiler.frozen import dataclass
from explorer.compiler.ir.graph import NODES, Graph, Tensor
from explorer.compiler.ir.index_sets import is_given, is_of_fact, number_of
from explorer.compiler.ir.set_maps import beside_of, listed_in
from explorer.compiler.stored import rounded
from explorer.runtime.encode.bags import form_of_bag
from explorer.runtime.encode.declared import declared_in, made_sizes

Inputs = dict[str, Any]
"""What a caller gives a model, by name."""


@dataclass(frozen=True)
class Case:
    """How large an input is: of its `lengths`, one a list or node, each says how many entries or edges that has; a
    score has a triple for each of those. There are `rows` to pick from, and `types` of relations, edges and nodes."""

    lengths: tuple[int, ...]
    rows: int
    types: int
    seed: int

    @property
    def entries(self) -> int:
        return sum(self.lengths)


CASES = (
    Case((2, 0), rows=3, types=2, seed=1),
    Case((1, 0, 4, 0), rows=4, types=3, seed=5),
    Case((0, 0, 1), rows=3, types=1, seed=2),
    Case((4, 1, 0, 2, 0), rows=5, types=2, seed=3),
    Case((0, 3), rows=2, types=4, seed=4),
)
"""The first is tried in any case, and the others while there is time: lists and nodes of nothing between others, at the
beginning and at the end; one entry; types, relations and rows that nothing picks."""


def draw(compilation: Compilation, case: Case) -> Inputs:
    """What the model takes, float32 in [-1, 1] and int32: the same for the same case."""
    graph = compilation.stages["graph"].program
    assert isinstance(graph, Graph)
    random = np.random.default_rng(case.seed)
    structure, counts = {"score": _triples, "layer": _edges, "op": _lists}[graph.family](compilation, case, random)
    given = {
        tensor.name: _values(graph, tensor, counts, random)
        for tensor in graph.tensors
        if tensor.kind in ("param", "input")
    }
    return {**given, **structure}


def draw_upstream(shape: tuple[int, ...], case: Case, place: int = 0) -> npt.NDArray[np.float32]:
    """The gradient of the result at a place of those that are returned: of each another."""
    return np.random.default_rng(case.seed + 100 * (place + 1)).uniform(-1, 1, shape).astype(np.float32)


def _values(graph: Graph, tensor: Tensor, counts: dict[str, int], random: np.random.Generator) -> Any:
    shape = [counts[name] for name in tensor.sets] + [graph.size(extent) for extent in tensor.dims]
    drawn = random.uniform(-1, 1, shape).astype(np.float32)
    return rounded(drawn * 127 if tensor.storage == "i8" else drawn, tensor.storage)


def _triples(compilation: Compilation, case: Case, random: np.random.Generator) -> tuple[Inputs, dict[str, int]]:
    graph, negatives = compilation.stages["graph"].program, compilation.options.negatives
    assert isinstance(graph, Graph)
    counts = {entry.codomain: case.rows for entry in graph.maps} | {"relation": case.types, "batch": case.entries}
    lists, count = (-(-case.entries // negatives.sharing), negatives.count) if negatives else (case.entries, 0)
    shapes = {"batch": (case.entries,), "negative": (lists, count)}
    given = (entry for entry in graph.maps if is_given(entry) and is_of_fact(entry))
    maps = {e.name: random.integers(0, counts[e.codomain], shapes[e.domain]).astype(np.int32) for e in given}
    maps |= _declared(graph, case, counts, random)
    return maps, counts | made_sizes(graph.maps, counts)


def _edges(compilation: Compilation, case: Case, random: np.random.Generator) -> tuple[Inputs, dict[str, int]]:
    graph = compilation.stages["graph"].program
    assert isinstance(graph, Graph)
    nodes, edges, (source, destination) = len(case.lengths), case.entries, graph.ends
    counts = {source: case.rows, destination: nodes, "edge": edges, "etype": case.types}
    into = np.repeat(np.arange(nodes), case.lengths).astype(np.int32)
    arrays: Inputs = {
        "src": random.integers(0, counts[source], edges).astype(np.int32),
        "dst": random.permutation(into),
        "etype": random.integers(0, case.types, edges).astype(np.int32),
    }
    if graph.ends == NODES:
        arrays["ntype"], counts["ntype"] = random.integers(0, case.types, nodes).astype(np.int32), case.types
    numbers = {number_of(name): count for name, count in counts.items() if name != "edge"}
    counts |= {name: case.types if name.endswith("_etype") else max(0, edges - 1) for name in beside_of(graph).values()}
    arrays |= _declared(graph, case, counts, random)
    counts |= made_sizes(graph.maps, counts)
    return {**arrays, **numbers}, counts


def _declared(graph: Graph, case: Case, counts: dict[str, int], random: np.random.Generator) -> Inputs:
    """Ids for each map that the text declares, and the sizes of the sets that they lead to."""
    found: Inputs = {}
    for entry in declared_in(graph):
        size = counts.setdefault(entry.codomain, case.rows)
        found[entry.name] = random.integers(0, max(1, size), counts[entry.domain]).astype(np.int32)
    return found


def _lists(compilation: Compilation, case: Case, random: np.random.Generator) -> tuple[Inputs, dict[str, int]]:
    graph = compilation.stages["graph"].program
    assert isinstance(graph, Graph)
    (home, pick), *beside = listed_in(graph)
    lists, entries = len(case.lengths), case.entries
    rows = lists if home.codomain == pick.codomain else case.rows
    owners = np.repeat(np.arange(lists), case.lengths).astype(np.int32)
    picks = random.integers(0, rows, entries).astype(np.int32)
    ends = np.concatenate([[0], np.cumsum(case.lengths)]).astype(np.int32)
    weights = random.uniform(0.5, 1.5, entries).astype(np.float32)
    shuffled = random.permutation(entries)
    arrays: dict[str, Inputs] = {
        "bags": {"ptr": ends, "idx": picks, "num_rows": rows, "weight": weights},
        "blocks": {"ptr": ends, "blocks": picks, "num_blocks": rows},
        "csr": {"rowptr": ends, "col": picks, "num_cols": rows, "value": weights},
        "coo": {
            "row": owners[shuffled],
            "col": picks,
            "num_rows": lists,
            "num_cols": rows,
            "value": weights,
        },
    }
    counts = {pick.codomain: rows, home.codomain: lists, home.domain: entries}
    if beside:
        arrays["bags"] = _bags(graph, case, random)
        counts |= {bag.domain: entries for bag, _ in beside} | {picked.codomain: rows for _, picked in beside}
    declared = _declared(graph, case, counts, random)
    counts |= made_sizes(graph.maps, counts)
    return {**arrays[graph.structure], **declared}, counts


def _bags(graph: Graph, case: Case, random: np.random.Generator) -> Inputs:
    """Of an op that has several bags the arrays of all, each with the case's lengths in an order of its own."""
    arrays: Inputs = {}
    for home, _ in listed_in(graph):
        form, lengths = form_of_bag(home.name), random.permutation(case.lengths)
        arrays[form.lists] = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        arrays[form.picks] = random.integers(0, case.rows, case.entries).astype(np.int32)
        arrays[form.value] = random.uniform(0.5, 1.5, case.entries).astype(np.float32)
        arrays[form.num_picked] = case.rows
    return arrays
