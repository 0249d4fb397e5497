"""The indices of a layer: a graph's edges sorted by (dst, etype, src), its pairs of nodes and types, and its degrees
(Hector §3.2.2)."""

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
    `graph = module.prepare(src, dst, etype)`. Maps that the text declares come by name, or behind ntype."""

    def sets(self) -> set[str]:
        """Those of a graph, whether or not a tensor is over them."""
        return super().sets() | {"node", "etype", "ntype"}

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
        made = encode(src, dst, etype, ntype, {"unit": 1, **sizes})
        add_declared(made, self.declared, found, self.check_indices)
        return made


def encode(src: Tensor, dst: Tensor, etype: Tensor, ntype: Tensor, counts: dict[str, int]) -> Indices:
    """The arrays of a graph whose ids are int32 and in range."""
    order = sorted_by(src, etype, dst)
    src, dst, etype = src[order], dst[order], etype[order]
    made = Indices(src.device, {"src": src, "dst": dst, "etype": etype, "ntype": ntype}, counts)
    made.order, made.ordered = order, "edge"
    first = starts(dst, etype)
    dst_pair = numbered(first)
    made.arrays |= {"dst_pair": dst_pair, "dst_pair_node": dst[first], "dst_pair_etype": etype[first]}
    counts["dst_pair"] = len(made.arrays["dst_pair_node"])
    by_pair = sorted_by(src, etype)
    kept = starts(etype[by_pair], src[by_pair])
    src_pair = torch.empty_like(src)
    src_pair[by_pair] = numbered(kept)
    first_of_pair = by_pair[kept]
    made.arrays |= {"src_pair": src_pair, "src_pair_node": src[first_of_pair], "src_pair_etype": etype[first_of_pair]}
    counts["src_pair"] = len(first_of_pair)
    alike = torch.bincount(dst_pair, minlength=counts["dst_pair"])[dst_pair.long()].to(torch.float32)
    made.arrays["norm"] = torch.ones_like(alike) / alike
    made.arrays["in_degree"] = torch.bincount(dst, minlength=counts["node"]).to(torch.float32)
    return made


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
