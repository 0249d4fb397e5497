"""Sets of edges that became one, and rows of several kinds: which ids their maps are made of, and which tensors their
tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from explorer.runtime.trace.joins.kinds import Kinds
from explorer.runtime.trace.joins.rows import Row


@dataclass(frozen=True)
class Joined:
    """One set, the edges of several one after another. `maps` are by name, of those that lead from it, the parts' own;
    `numbers` the type of each part's edges, which the map `types` leads to. `stacks` are tables whose rows are tensors
    of the module, by name; `counts` are, by tensor, the map along which it counts an edge's like: edges of its type
    with the same end."""

    types: str
    numbers: tuple[int, ...]
    maps: Mapping[str, tuple[str, ...]]
    stacks: Mapping[str, tuple[Row, ...]] = field(default_factory=dict)
    counts: Mapping[str, str] = field(default_factory=dict)

    def made(self, ids: Mapping[str, Any]) -> dict[str, Any]:
        """The ids of the joined maps, of the parts' own, and the counts [edges] in 32-bit floats."""
        found = {name: torch.cat([ids[part].long() for part in parts]) for name, parts in self.maps.items()}
        first = next(iter(self.maps.values()))
        kinds = [
            torch.full((len(ids[part]),), number, dtype=torch.long, device=ids[part].device)
            for part, number in zip(first, self.numbers, strict=True)
        ]
        found[self.types] = torch.cat(kinds)
        for name, along in self.counts.items():
            keys = found[along] * (max(self.numbers) + 1) + found[self.types]
            _, place, count = torch.unique(keys, return_inverse=True, return_counts=True)
            found[name] = count[place].float()
        return found


@dataclass(frozen=True)
class Placed:
    """Rows of the set `of`, each of the kind that the map `types` leads to: the `numbers` of those `places`, one a map
    of ids, that name it, of which the last one counts. `stacks` are as for joined edges."""

    types: str
    numbers: tuple[int, ...]
    of: str
    places: tuple[str, ...]
    stacks: Mapping[str, tuple[Row, ...]] = field(default_factory=dict)

    def made(self, ids: Mapping[str, Any], rows: int) -> dict[str, Any]:
        """The kind of each row. Raises ValueError where one has none."""
        device = ids[self.places[0]].device
        kinds = torch.full((rows,), -1, dtype=torch.long, device=device)
        for place, number in zip(self.places, self.numbers, strict=True):
            kinds[ids[place].long()] = number
        if bool((kinds < 0).any()):
            raise ValueError("a row is of no kind, and the traced module puts nothing there that a text could say.")
        return {self.types: kinds}


@dataclass(frozen=True)
class Mixed:
    """One set, the edges of several one after another, whose sums are each of one of them. `maps` are by name, of those
    that lead from it, the parts' own, "" for a part without one; `own` are tensors that are 1 for a part's edges and 0
    for the others; `padded` are tensors with rows for all edges, by name, with the tensor and the part that they are
    of; `results` are, for each result, the part whose rows it has, None where these are nodes, or one of all."""

    maps: Mapping[str, tuple[str, ...]]
    own: Mapping[str, int]
    padded: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    results: tuple[int | None, ...] = ()

    def of_maps(self, alike: Mapping[str, str]) -> Mixed:
        """The same of the module's maps; `alike` are those by others that have the same ids."""
        return replace(self, maps={name: tuple(alike.get(of, of) for of in parts) for name, parts in self.maps.items()})

    def of_results(self, ids: Mapping[str, Any], results: Iterable[Any]) -> tuple[Any, ...]:
        """The rows of the results that the traced module has."""
        lengths = self._lengths(ids)
        pairs = zip(results, self.results, strict=True)
        return tuple(
            each if part is None else each.narrow(0, sum(lengths[:part]), lengths[part]) for each, part in pairs
        )

    def _lengths(self, ids: Mapping[str, Any]) -> list[int]:
        return [len(ids[part]) for part in next(iter(self.maps.values()))]

    def made(self, ids: Mapping[str, Any]) -> dict[str, Any]:
        """The ids of the joined maps, of the parts' own, and which edges are a part's [edges], in 32-bit floats."""
        lengths = self._lengths(ids)
        device = ids[next(iter(self.maps.values()))[0]].device
        found = {}
        for name, parts in self.maps.items():
            of = zip(parts, lengths, strict=True)
            none = torch.zeros(0, dtype=torch.long, device=device)
            found[name] = torch.cat([ids[part].long() if part else none.new_zeros(count) for part, count in of])
        for name, part in self.own.items():
            found[name] = torch.cat(
                [torch.full((count,), float(at == part), device=device) for at, count in enumerate(lengths)]
            )
        return found

    def with_rows(self, ids: Mapping[str, Any], tensors: Mapping[str, Any]) -> dict[str, Any]:
        """The padded tensors, of those that they are of: 0 for other edges."""
        lengths = self._lengths(ids)
        return {
            name: torch.cat(
                [
                    tensors[source] if at == part else tensors[source].new_zeros(count, *tensors[source].shape[1:])
                    for at, count in enumerate(lengths)
                ]
            )
            for name, (source, part) in self.padded.items()
        }


@dataclass(frozen=True)
class Fetched:
    """Tensors with a row for each edge or node, by name: the table that it is of, and the map that it is fetched by."""

    rows: Mapping[str, tuple[str, str]]

    def with_rows(self, ids: Mapping[str, Any], tensors: Mapping[str, Any]) -> dict[str, Any]:
        """The tensors, of those that they are of."""
        return {name: tensors[table][ids[along].long()] for name, (table, along) in self.rows.items()}


Typed = Joined | Placed | Mixed | Fetched | Kinds


def sources_of(each: Typed) -> dict[str, tuple[str, ...]]:
    """The tensors that are made of others' rows, with those: of all edges, of all nodes, and those that are fetched."""
    if isinstance(each, Kinds):
        return {name: tuple(filter(None, sources)) for name, (_, sources) in each.rows.items()}
    if isinstance(each, Joined | Placed):
        return {}
    made: Mapping[str, tuple[str, Any]] = each.padded if isinstance(each, Mixed) else each.rows
    return {name: (source,) for name, (source, _) in made.items()}


def stacks_of(typed: Iterable[Typed]) -> dict[str, tuple[Row, ...]]:
    """All tables whose rows are of the module, by name."""
    tables = (each for each in typed if isinstance(each, Joined | Placed | Kinds))
    return {name: rows for each in tables for name, rows in each.stacks.items()}
