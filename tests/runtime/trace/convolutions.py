"""The convolutions of torch_geometric, each made with a width that fits, and the arguments that it is called with."""

from __future__ import annotations

import torch
import torch_geometric
from torch_geometric import nn as pyg

F, G, TYPES = 4, 3, 3
torch_geometric.backend.use_segment_matmul = False  # docs/TRACE.md: which RGCNConv would else guess from the ids


def network(inner=F, outer=G):
    return torch.nn.Sequential(torch.nn.Linear(inner, 5), torch.nn.ReLU(), torch.nn.Linear(5, outer))


def graph(nodes, edges, seed):
    """A random graph's tensors: among its edges are loops and some twice, and a node that no edge leads to."""
    generator = torch.Generator().manual_seed(seed)

    def ids(most, *shape):
        return torch.randint(0, most, shape, generator=generator)

    def numbers(*shape):
        return torch.randn(shape, generator=generator)

    return {
        "x": numbers(nodes, F),
        "edges": ids(nodes - 1, 2, edges),
        "types": ids(TYPES, edges),
        "weights": numbers(edges).abs() + 0.1,
        "features": numbers(edges, F),
        "node_types": ids(TYPES, nodes),
        "position": numbers(nodes, 3),
        "normals": numbers(nodes, 3),
        "pseudo": numbers(edges, 2).sigmoid(),
        "first": numbers(nodes, F),
        "history": numbers(nodes, 2, F),
        "negative": ids(nodes, 2, edges + 4),
        "authors": numbers(nodes + 3, F),
        "wide": numbers(nodes + 3, F + 1),
        "writes": torch.stack([ids(nodes + 3, edges + 2), ids(nodes, edges + 2)]),
        "incidence": torch.stack([ids(nodes, edges), torch.arange(edges) % (nodes + 2)]),
        "hyperedge_weights": numbers(min(edges, nodes + 2)).abs() + 0.1,
        "hyperedges": numbers(min(edges, nodes + 2), F),
        "by": torch.stack([ids(nodes, edges // 2), ids(nodes + 2, edges // 2)]),
    }


CITES, LIKES = ("paper", "cites", "paper"), ("paper", "likes", "paper")
KINDS = (["paper"], [CITES, LIKES])


def relations(tensors):
    """Two kinds of edges, in dictionaries."""
    return [{"paper": tensors["x"]}, {CITES: tensors["edges"], LIKES: tensors["negative"]}]


WRITES, BY = ("author", "writes", "paper"), ("paper", "by", "author")
BOTH = (["paper", "author"], [CITES, WRITES, BY])


def kinds(tensors, authors="authors"):
    """Two kinds of nodes, and edges within one of them and between both."""
    edges = {CITES: tensors["edges"], WRITES: tensors["writes"], BY: tensors["by"]}
    return [{"paper": tensors["x"], "author": tensors[authors]}, edges]


CONVOLUTIONS = {
    "AGNNConv": (lambda: pyg.AGNNConv(), "x edges"),
    "APPNP": (lambda: pyg.APPNP(2, 0.1), "x edges"),
    "ARMAConv": (lambda: pyg.ARMAConv(F, G, num_stacks=2, num_layers=2), "x edges"),
    "AntiSymmetricConv": (lambda: pyg.AntiSymmetricConv(F), "x edges"),
    "CGConv": (lambda: pyg.CGConv(F, dim=F), "x edges features"),
    "ChebConv": (lambda: pyg.ChebConv(F, G, K=3), "x edges"),
    "ClusterGCNConv": (lambda: pyg.ClusterGCNConv(F, G), "x edges"),
    "DNAConv": (lambda: pyg.DNAConv(F), "history edges"),
    "DirGNNConv": (lambda: pyg.DirGNNConv(pyg.SAGEConv(F, G)), "x edges"),
    "EGConv": (lambda: pyg.EGConv(F, 8, num_heads=2, num_bases=2), "x edges"),
    "EdgeConv": (lambda: pyg.EdgeConv(network(2 * F)), "x edges"),
    "FAConv": (lambda: pyg.FAConv(F, dropout=0.0), "x first edges"),
    "FastRGCNConv": (lambda: pyg.FastRGCNConv(F, G, TYPES), "x edges types"),
    "FeaStConv": (lambda: pyg.FeaStConv(F, G, heads=2), "x edges"),
    "FiLMConv": (lambda: pyg.FiLMConv(F, G), "x edges"),
    "FiLMConv of types": (lambda: pyg.FiLMConv(F, G, num_relations=TYPES), "x edges types"),
    "GATConv": (lambda: pyg.GATConv(F, G, heads=2), "x edges"),
    "GATConv with edges": (lambda: pyg.GATConv(F, G, heads=2, edge_dim=F, add_self_loops=False), "x edges features"),
    "GATv2Conv": (lambda: pyg.GATv2Conv(F, G, heads=2), "x edges"),
    "GCN2Conv": (lambda: pyg.GCN2Conv(F, alpha=0.1, theta=0.5, layer=1), "x first edges"),
    "GCNConv": (lambda: pyg.GCNConv(F, G), "x edges"),
    "GCNConv with weights": (lambda: pyg.GCNConv(F, G, add_self_loops=False), "x edges weights"),
    "GENConv": (lambda: pyg.GENConv(F, G, norm="layer"), "x edges"),
    "GINConv": (lambda: pyg.GINConv(network(), train_eps=True), "x edges"),
    "GINEConv": (lambda: pyg.GINEConv(network()), "x edges features"),
    "GMMConv": (lambda: pyg.GMMConv(F, G, dim=2, kernel_size=2), "x edges pseudo"),
    "GPSConv": (lambda: pyg.GPSConv(F, pyg.GCNConv(F, F), heads=2, norm=None), "x edges"),
    "GatedGraphConv": (lambda: pyg.GatedGraphConv(F, 2), "x edges"),
    "GeneralConv": (lambda: pyg.GeneralConv(F, G), "x edges"),
    "GraphConv": (lambda: pyg.GraphConv(F, G), "x edges"),
    "GraphConv with weights": (lambda: pyg.GraphConv(F, G, aggr="mean"), "x edges weights"),
    "GraphConv of the largest": (lambda: pyg.GraphConv(F, G, aggr="max"), "x edges"),
    "HANConv": (lambda: pyg.HANConv(F, 6, KINDS, heads=2), relations),
    "HANConv of kinds": (
        lambda: pyg.HANConv({"paper": F, "author": F + 1}, 6, BOTH, heads=2),
        lambda tensors: kinds(tensors, "wide"),
    ),
    "HEATConv": (lambda: pyg.HEATConv(F, G, TYPES, TYPES, 2, F, 3), "x edges node_types types features"),
    "HGTConv": (lambda: pyg.HGTConv(F, 6, KINDS, heads=2), relations),
    "HGTConv of kinds": (lambda: pyg.HGTConv(F, F, BOTH, heads=2), kinds),
    "HGTConv of widths": (
        lambda: pyg.HGTConv({"paper": F, "author": F + 1}, 6, BOTH, heads=2),
        lambda tensors: kinds(tensors, "wide"),
    ),
    "HeteroConv": (lambda: pyg.HeteroConv({CITES: pyg.SAGEConv(F, G), LIKES: pyg.SAGEConv(F, G)}), relations),
    "HeteroConv of others": (
        lambda: pyg.HeteroConv({CITES: pyg.GATConv(F, G, add_self_loops=False), LIKES: pyg.GCNConv(F, G)}, aggr="max"),
        relations,
    ),
    "HeteroConv of kinds": (
        lambda: pyg.HeteroConv({each: pyg.SAGEConv((F, F), G) for each in BOTH[1]}),
        kinds,
    ),
    "HypergraphConv": (lambda: pyg.HypergraphConv(F, G), "x incidence"),
    "HypergraphConv with attention": (
        lambda: pyg.HypergraphConv(F, G, use_attention=True, heads=2),
        "x incidence hyperedge_weights hyperedges",
    ),
    "LEConv": (lambda: pyg.LEConv(F, G), "x edges"),
    "LGConv": (lambda: pyg.LGConv(), "x edges"),
    "MFConv": (lambda: pyg.MFConv(F, G), "x edges"),
    "MixHopConv": (lambda: pyg.MixHopConv(F, G), "x edges"),
    "NNConv": (lambda: pyg.NNConv(F, G, network(F, F * G)), "x edges features"),
    "PANConv": (lambda: pyg.PANConv(F, G, 2), "x edges"),
    "PDNConv": (lambda: pyg.PDNConv(F, G, F, 5, normalize=False, add_self_loops=False), "x edges features"),
    "PNAConv": (
        lambda: pyg.PNAConv(F, 6, ["mean", "max"], ["identity", "amplification"], torch.tensor([1, 3, 2, 1])),
        "x edges",
    ),
    "PPFConv": (lambda: pyg.PPFConv(network(F + 4)), "x position normals edges"),
    "PointNetConv": (lambda: pyg.PointNetConv(network(F + 3)), "x position edges"),
    "PointGNNConv": (lambda: pyg.PointGNNConv(network(F, 3), network(F + 3, F), network(F, F)), "x position edges"),
    "PointTransformerConv": (lambda: pyg.PointTransformerConv(F, G), "x position edges"),
    "RGATConv": (lambda: pyg.RGATConv(F, G, TYPES), "x edges types"),
    "RGCNConv": (lambda: pyg.RGCNConv(F, G, TYPES), "x edges types"),
    "RGCNConv of bases": (lambda: pyg.RGCNConv(F, G, TYPES, num_bases=2, aggr="add"), "x edges types"),
    "RGCNConv of blocks": (lambda: pyg.RGCNConv(F, 6, TYPES, num_blocks=2), "x edges types"),
    "ResGatedGraphConv": (lambda: pyg.ResGatedGraphConv(F, G), "x edges"),
    "SAGEConv": (lambda: pyg.SAGEConv(F, G), "x edges"),
    "SAGEConv of the largest": (lambda: pyg.SAGEConv(F, G, aggr="max", project=True, normalize=True), "x edges"),
    "SGConv": (lambda: pyg.SGConv(F, G, K=2), "x edges"),
    "SSGConv": (lambda: pyg.SSGConv(F, G, alpha=0.1, K=2), "x edges"),
    "SignedConv": (lambda: pyg.SignedConv(F, G, first_aggr=True), "x edges negative"),
    "SignedConv of two parts": (lambda: pyg.SignedConv(2, G, first_aggr=False), "x edges negative"),
    "SimpleConv": (lambda: pyg.SimpleConv("mean"), "x edges"),
    "SuperGATConv": (lambda: pyg.SuperGATConv(F, G, heads=2), "x edges"),
    "TAGConv": (lambda: pyg.TAGConv(F, G, K=2), "x edges"),
    "TransformerConv": (lambda: pyg.TransformerConv(F, G, heads=2), "x edges"),
    "TransformerConv with edges": (lambda: pyg.TransformerConv(F, G, edge_dim=F, beta=True), "x edges features"),
    "WLConvContinuous": (lambda: pyg.WLConvContinuous(), "x edges"),
}
"""By name: how one is made, and the graph's tensors that it takes, or what is made of them."""


def arguments(name, tensors):
    """Those of a call, of a graph's tensors."""
    takes = CONVOLUTIONS[name][1]
    return [tensors[each] for each in takes.split()] if isinstance(takes, str) else takes(tensors)
