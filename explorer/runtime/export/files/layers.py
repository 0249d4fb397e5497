"""The indices of a layer: a graph's edges sorted by one end, type and the other, its pairs of nodes and types, and its
degrees (Hector §3.2.2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from .indices import Indices, Tensor, highest, narrow, one_device
from .maps import add_declared
from .module import Compiled

NAMES = ("src", "dst", "etype", "ntype")


class Layer(Compiled):
    """A layer of a relational graph: `module(src, dst, etype, x=x)`, or `module(graph, x=x)` with
    `graph = module.prepare(src, dst, etype)`. Maps that the text declares come by name, or behind ntype. Kernels see
    edges sorted by the end `edges`."""

    edges: str  # "dst" or "src"

    def sets(self) -> set[str]:
        """Those of a graph, whether or not a tensor is over them."""
        return super().sets() | {"node", "etype", "ntype"}

    def _check(self, made: Indices, tensors: Mapping[str, Tensor]) -> dict[str, int]:
        """As of all models; raises ValueError for a graph that was prepared with its edges by the other end too."""
        if made.edges != self.edges:
            raise ValueError(f"This graph was prepared with its edges by {made.edges}, not by {self.edges}.")
        return super()._check(made, tensors)

    def prepare(self, *ids: Tensor, known: Mapping[str, int] | None = None, **named: Any) -> Indices:
        """The graph, encoded. Types that are not given are all 0; `num_nodes`, `num_etypes` and `num_ntypes` are as
        given, or what tensors have rows for, or the least that holds the ids."""
        names = (*NAMES, *(entry.name for entry in self.declared))
        given = {**dict(zip(names, ids, strict=False)), **named}
        numbers = {f"num_{name}s": size for name, size in {**self.set_sizes, **(known or {})}.items()}
        numbers |= {name: int(given.pop(name)) for name in ("num_nodes", "num_etypes", "num_ntypes") if name in given}
        if not {"src", "dst"} <= given.keys() <= {*names} or len(ids) > len(names):
            further = "".join(f", {name}" for name in names[len(NAMES) :])
            raise ValueError(
                f"{type(self).__name__} takes src, dst{further}, and etype and ntype where there are types."
            )
        found = {name: narrow(each, name, True) for name, each in given.items()}
        device = one_device(found)
        src, dst = found["src"], found["dst"]
        etype = found.get("etype", torch.zeros_like(src))
        if not src.shape == dst.shape == etype.shape or src.ndim != 1:
            raise ValueError("src, dst and etype are lists of one length.")
        least = max(highest(src, True), highest(dst, True)) + 1
        nodes = numbers.get("num_nodes", len(found["ntype"]) if "ntype" in found else least)
        ntype = found.get("ntype", torch.zeros(nodes, dtype=torch.int32, device=device))
        sizes = {
            "node": nodes,
            "edge": len(src),
            "etype": numbers.get("num_etypes", highest(etype, True) + 1),
            "ntype": numbers.get("num_ntypes", highest(ntype, True) + 1),
        }
        for name, array, limit in (("src and dst", src, nodes), ("etype", etype, sizes["etype"])):
            if (least if array is src else highest(array, True) + 1) > limit:
                raise ValueError(f"{name} hold ids that are not in 0 to {limit - 1}.")
        if len(ntype) != nodes or highest(ntype, True) >= sizes["ntype"]:
            raise ValueError(f"ntype is a type below {sizes['ntype']} for each of the {nodes:,} nodes.")
        made = encode(src, dst, etype, ntype, {"unit": 1, **sizes}, self.edges)
        add_declared(made, self.declared, found, self.check_indices)
        return made


def encode(src: Tensor, dst: Tensor, etype: Tensor, ntype: Tensor, counts: dict[str, int], edges: str) -> Indices:
    """The arrays of a graph whose ids are int32 and in range, its edges sorted by the end `edges`."""
    other = "src" if edges == "dst" else "dst"
    ends = {"src": src, "dst": dst}
    order = sorted_by(ends[other], etype, ends[edges])
    ends, etype = {end: ids[order] for end, ids in ends.items()}, etype[order]
    made = Indices(src.device, {**ends, "etype": etype, "ntype": ntype}, counts)
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
    made.arrays["in_degree"] = torch.bincount(ends["dst"], minlength=counts["node"]).to(torch.float32)
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
