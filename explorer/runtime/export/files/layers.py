"""The indices of a layer: a graph's edges sorted by one end, type and the other, its pairs of nodes and types, and its
degrees (Hector §3.2.2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from .indices import Indices, Tensor, highest, narrow, one_device
from .maps import add_declared
from .module import Compiled


class Layer(Compiled):
    """A layer of a relational graph: `module(src, dst, etype, x=x)`, or `module(graph, x=x)` with
    `graph = module.prepare(src, dst, etype)`. Maps that the text declares come by name, or behind ntype. Kernels see
    edges sorted by the end `edges`."""

    edges: str  # "dst" or "src"
    ends: tuple[str, str] = ("node", "node")  # the sets that edges lead from and to; nodes of one set have types
    counted: Mapping[str, str] = {"num_nodes": "node", "num_etypes": "etype", "num_ntypes": "ntype"}
    """The numbers that a call may give, each with the set that it is of."""
    beside: tuple[str, ...] = ()  # the further graphs over the same ends, whose edges are maps that the text declares

    def sets(self) -> set[str]:
        """Those of a graph, whether or not a tensor is over them."""
        return super().sets() | set(self.counted.values())

    def _check(self, made: Indices, tensors: Mapping[str, Tensor]) -> dict[str, int]:
        """As of all models; raises ValueError for a graph that was prepared with its edges by the other end too."""
        if made.edges != self.edges:
            raise ValueError(f"This graph was prepared with its edges by {made.edges}, not by {self.edges}.")
        return super()._check(made, tensors)

    @property
    def _one_set(self) -> bool:
        return self.ends[0] == self.ends[1]

    def prepare(self, *ids: Tensor, known: Mapping[str, int] | None = None, **named: Any) -> Indices:
        """The graph, encoded. Types that are not given are all 0; the numbers of `counted` are as given, or what
        tensors have rows for, or the least that holds the ids."""
        arrays = ("src", "dst", "etype", *(("ntype",) if self._one_set else ()))
        further = tuple(entry.name for entry in self.declared)
        given = {**dict(zip((*arrays, *further), ids, strict=False)), **named}
        told = {**self.set_sizes, **(known or {})}
        told |= {index_set: int(given.pop(name)) for name, index_set in self.counted.items() if name in given}
        if not {"src", "dst"} <= given.keys() <= {*arrays, *further} or len(ids) > len((*arrays, *further)):
            types_beside = [f"{graph}_etype" for graph in self.beside]
            takes = ", ".join(("src", "dst", *(name for name in further if name not in types_beside)))
            types = " and ".join((*arrays[2:], *types_beside))
            raise ValueError(f"{type(self).__name__} takes {takes}, and {types} where there are types.")
        found = {name: narrow(each, name, True) for name, each in given.items()}
        one_device(found)
        for before in ("", *(f"{graph}_" for graph in self.beside if f"{graph}_src" in found)):
            found.setdefault(f"{before}etype", torch.zeros_like(found[f"{before}src"]))
        if not found["src"].shape == found["dst"].shape == found["etype"].shape or found["src"].ndim != 1:
            raise ValueError("src, dst and etype are lists of one length.")
        sizes = self._sizes(found, told)
        own = {name: found[name] for name in arrays}
        made = encode(own, {"unit": 1, **sizes}, self.ends, self.edges)
        add_declared(made, self.declared, found, self.check_indices)
        return made

    def _sizes(self, found: dict[str, Tensor], told: Mapping[str, int]) -> dict[str, int]:
        """How many elements the graph's sets have; types of nodes that are not given are added to what is `found`.
        Raises ValueError for ids beyond."""
        src, dst, etype = found["src"], found["dst"], found["etype"]
        least = {self.ends[0]: highest(src, True) + 1}
        least[self.ends[1]] = max(highest(dst, True) + 1, least.get(self.ends[1], 0))
        for entry in self.declared:
            if entry.domain in [f"{graph}_edge" for graph in self.beside] and entry.codomain in least:
                least[entry.codomain] = max(highest(found[entry.name], True) + 1, least[entry.codomain])
        if self._one_set and "ntype" in found:
            least["node"] = len(found["ntype"])
        sizes = {**least, "edge": len(src), "etype": highest(etype, True) + 1}
        sizes |= {name: size for name, size in told.items() if name in sizes and name != "edge"}
        limits = {"src": sizes[self.ends[0]], "dst": sizes[self.ends[1]], "etype": sizes["etype"]}
        for name, limit in limits.items():
            if highest(found[name], True) >= limit:
                raise ValueError(f"{name} holds ids that are not in 0 to {limit - 1}.")
        if self._one_set:
            nodes = sizes["node"]
            ntype = found.setdefault("ntype", torch.zeros(nodes, dtype=torch.int32, device=src.device))
            sizes["ntype"] = told.get("ntype", highest(ntype, True) + 1)
            if len(ntype) != nodes or highest(ntype, True) >= sizes["ntype"]:
                raise ValueError(f"ntype is a type below {sizes['ntype']} for each of the {nodes:,} nodes.")
        return sizes | {name: told[name] for name in (f"{graph}_etype" for graph in self.beside) if name in told}


def encode(given: Mapping[str, Tensor], counts: dict[str, int], sets: tuple[str, str], edges: str) -> Indices:
    """The arrays of a graph between two sets whose ids are int32 and in range, its edges sorted by the end `edges`."""
    other = "src" if edges == "dst" else "dst"
    order = sorted_by(given[other], given["etype"], given[edges])
    ends, etype = {end: given[end][order] for end in ("src", "dst")}, given["etype"][order]
    made = Indices(etype.device, {**given, **ends, "etype": etype}, counts)
    made.order, made.ordered, made.edges = order, "edge", edges
    first = starts(ends[edges], etype)
    add_pairs(made, edges, numbered(first), torch.nonzero(first).flatten())
    by_pair = sorted_by(ends[other], etype)
    kept = starts(etype[by_pair], ends[other][by_pair])
    own = torch.empty_like(ends[other])
    own[by_pair] = numbered(kept)
    add_pairs(made, other, own, by_pair[kept])
    dst_pair = made.arrays["dst_pair"]
    alike = torch.bincount(dst_pair, minlength=counts["dst_pair"])[dst_pair.long()].to(torch.float32)
    made.arrays["norm"] = torch.ones_like(alike) / alike
    made.arrays["in_degree"] = torch.bincount(ends["dst"], minlength=counts[sets[1]]).to(torch.float32)
    return made


def add_pairs(made: Indices, end: str, own: Tensor, first: Tensor) -> None:
    """The maps of an end's pairs: each edge's own pair, and the node and type of each pair's first edge."""
    node, etype = made.arrays[end][first], made.arrays["etype"][first]
    made.arrays |= {f"{end}_pair": own, f"{end}_pair_node": node, f"{end}_pair_etype": etype}
    made.counts[f"{end}_pair"] = len(first)


def sorted_by(*keys: Tensor) -> Tensor:
    """The elements by the last key, those alike in it by the one before, and so on, those alike in all as they are."""
    order = torch.arange(len(keys[0]), device=keys[0].device)
    for key in keys:
        order = order[torch.sort(key[order], stable=True).indices]
    return order


def starts(*columns: Tensor) -> Tensor:
    """Which rows of sorted columns differ from the row before."""
    first = torch.zeros(len(columns[0]), dtype=torch.bool, device=columns[0].device)
    first[:1] = True
    for column in columns:
        first[1:] |= column[1:] != column[:-1]
    return first


def numbered(first: Tensor) -> Tensor:
    """Which run of equal rows each row is in, counting from 0."""
    return (torch.cumsum(first, 0) - 1).to(torch.int32)
