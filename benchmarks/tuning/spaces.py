"""The spaces that `benchmarks.record` measures whole: a model each, which of its decisions vary, and two inputs.

What varies was chosen so that a space has 500 to 4,000 points: how iterations are shared out among warps and lanes, how
much each fetches ahead, and how products are tiled. The second input of each has another number of features, another
size or another skew, so that what is best for one need not be for the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from explorer.checkout import CHECKOUT
from explorer.compiler.decisions import Value

ZIPF = 0.8
"""How skewed generated columns and ids are: the k-th busiest as likely as k ** -ZIPF."""


@dataclass(frozen=True)
class Made:
    """Lists that are drawn: `lists` of them with `mean` entries each in the mean, which pick among `picked` rows. With
    `skew`, lengths and picks follow a power law, as in a graph; else they are all alike, as bags and their ids."""

    lists: int
    mean: int
    picked: int
    skew: float = 0.0

    def arrays(self) -> dict[str, Any]:
        """The arrays that a file of such lists has: those of a matrix, or of bags."""
        random, entries = np.random.default_rng(0), self.lists * self.mean
        lengths = np.full(self.lists, self.mean)
        picks = random.integers(0, self.picked, entries)
        if self.skew:
            lengths = np.bincount(_power_law(random, entries, self.lists, self.skew), minlength=self.lists)
            picks = _power_law(random, entries, self.picked, self.skew)
        ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        if not self.skew:
            return {"ptr": ends, "idx": picks.astype(np.int32), "num_rows": np.int32(self.picked)}
        value = random.random(entries, np.float32)
        return {"rowptr": ends, "col": picks.astype(np.int32), "value": value, "num_cols": np.int32(self.picked)}

    def saved(self, folder: Path) -> str:
        """The path of a file that has them, in a folder."""
        words = [str(each) for each in (self.lists, self.mean, self.picked)] + ["skewed"] * bool(self.skew)
        path = folder / f"lists-{'-'.join(words)}.npz"
        if not path.exists():
            np.savez(path, **self.arrays())
        return str(path)


def _power_law(random: np.random.Generator, draws: int, count: int, exponent: float) -> np.ndarray[Any, Any]:
    shares = np.arange(1, count + 1) ** -exponent
    ids = random.permutation(count)[np.searchsorted(np.cumsum(shares / shares.sum()), random.random(draws))]
    return np.asarray(np.minimum(ids, count - 1))


@dataclass(frozen=True)
class Input:
    """What a space is measured on: data of a preset, or that is made, the model's sizes, and a score's batch."""

    name: str
    data: str | Made
    sizes: Mapping[str, int] = field(default_factory=dict)
    batch: int = 0

    def source(self, folder: Path) -> str:
        """The data's name, or a file's in a folder, which is made where it is not there."""
        return self.data if isinstance(self.data, str) else self.data.saved(folder)


@dataclass(frozen=True)
class RecordedSpace:
    """A model, by its file or its text, the decisions that vary with their values (none for all), and its inputs."""

    name: str
    model: str
    inputs: tuple[Input, Input]
    varied: Mapping[str, tuple[Value, ...]]
    options: Mapping[str, Value] = field(default_factory=dict)
    vary_options: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The model's text."""
        return self.model if "\n" in self.model else (CHECKOUT / "examples" / f"{self.model}.emb").read_text()


TUCKER = """\
dim D = 128, K = 32

score TuckER(h: entity, r: relation, t: entity):
    param E[entity, D], R[relation, K]
    param W[K, D]
    return dot(R[r] @ W, E[h] * E[t])
"""
"""Balazevic et al. 2019 with a core tensor that is diagonal in the entities: a matrix that all triples share."""
GAT = """\
dim F = 64, G = 64

layer GAT(g: graph):
    input x[node, F]
    param W[F, G], s[G], d[G]
    for n in g.nodes():
        n["z"] = x[n] @ W
    for e in g.edges():
        e["a"] = leaky_relu(dot(e.src["z"], s) + dot(e.dst["z"], d), 0.2)
    edge_softmax(g, "a")
    for n in g.nodes():
        n["h"] = sum(e["a"] * e.src["z"] for e in n.incoming_edges())
    return n["h"]
"""
HOPS = """\
dim D = 64

op TwoHops(A: csr[node, node]):
    param x[node, D]
    for v in A.rows():
        v["y"] = sum(a * x[u] for u, a in A.row(v))
    for v in A.rows():
        v["z"] = sum(a * u["y"] for u, a in A.row(v))
    return v["z"]
"""

ARXIV = Input("arxiv-128", "arxiv", {"D": 128})
DENSE = Made(40_000, 100, 40_000, ZIPF)
SPARSE = Made(200_000, 6, 200_000, ZIPF)
SHARED_OUT: Mapping[str, tuple[Value, ...]] = {"strategy": (), "chunk": (), "lanes": (), "loads": (), "warps": ()}
TILED: Mapping[str, tuple[Value, ...]] = {"strategy": (), "columns": (), "across": (), "depth": (), "along": ()}
DOTS: Mapping[str, tuple[Value, ...]] = {
    **{"strategy": (), "lanes": (), "loads": (), "in_flight": (8, 32), "unroll": (), "elements": (), "block_rows": ()},
}
HOP: Mapping[str, tuple[Value, ...]] = {"strategy": ("rows", "nonzeros"), "lanes": (), "chunk": (32, 64, 128, 256)}
A_WARP: Mapping[str, tuple[Value, ...]] = {
    "strategy": (),
    "lanes": (),
    "warps": (),
    "loads": (),
    "rounds": (1, 2, 4, 8),
}

SPACES: tuple[RecordedSpace, ...] = (
    RecordedSpace("SpMM", "embedding/spmm", (ARXIV, Input("dense-32", DENSE, {"D": 32})), SHARED_OUT),
    RecordedSpace(
        "SpMM max",
        "embedding/spmm_max",
        (Input("arxiv-64", "arxiv", {"D": 64}), Input("dense-16", DENSE, {"D": 16})),
        {f"SpMMMax_0.{name}": values for name, values in SHARED_OUT.items()},
    ),
    RecordedSpace("SDDMM", "embedding/sddmm", (ARXIV, Input("dense-41", DENSE, {"D": 41})), DOTS),
    RecordedSpace("MP", "embedding/mp", (ARXIV, Input("sparse-48", SPARSE, {"D": 48})), SHARED_OUT),
    RecordedSpace(
        "SLS",
        "embedding/sls",
        (
            Input("bags-of-64", Made(8_448, 64, 16_384), {"D": 32}),
            Input("bags-of-4", Made(65_536, 4, 1_000_000), {"D": 64}),
        ),
        {"strategy": (), "lanes": (), "loads": (), "block_rows": (), "preload": ()},
    ),
    RecordedSpace(
        "SpAttn",
        "embedding/spattn",
        (Input("BigBird:2", "BigBird:2"), Input("BigBird:8", "BigBird:8")),
        A_WARP | {"kept": ()},
    ),
    RecordedSpace("TwoHops", HOPS, (Input("arxiv-64", "arxiv"), Input("sparse-128", SPARSE, {"D": 128})), HOP),
    RecordedSpace(
        "KGLookup",
        "embedding/kg_lookup",
        (Input("16384", "FB15k-237", {"D": 512}, 16_384), Input("131072", "BioKG", {"D": 64}, 131_072)),
        A_WARP | {"kept": (), "resident": (0, 4, 8)},
    ),
    RecordedSpace(
        "TransE tail:64",
        "kge/transe_l2",
        (Input("1024", "FB15k-237", {"D": 512}, 1_024), Input("4096", "WN18", {"D": 100}, 4_096)),
        A_WARP | {"kept": ()},
        {"negatives": "tail:64"},
    ),
    RecordedSpace(
        "TransR",
        "kge/transr",
        (
            Input("4096", "FB15k-237", {"D": 256, "K": 256}, 4_096),
            Input("16384", "WN18", {"D": 128, "K": 64}, 16_384),
        ),
        TILED | {"neighbours": (), "stages": (), "resident": (3, 4, 6, 8)},
    ),
    RecordedSpace(
        "TuckER",
        TUCKER,
        (Input("8192", "FB15k-237", {}, 8_192), Input("65536", "WN18", {"D": 256, "K": 64}, 65_536)),
        TILED | {"neighbours": (), "stages": (), "resident": (3, 4, 6, 8)},
    ),
    RecordedSpace(
        "RGCN",
        "rgnn/rgcn",
        (Input("aifb-64", "aifb", {"F": 64, "G": 64}), Input("bgs-64", "bgs", {"F": 64, "G": 64})),
        {
            **{"RGCN_0.edges": (), "RGCN_0.cache": (), "RGCN_0_product.columns": (), "RGCN_0_product.across": ()},
            **{"RGCN_0_rows_product.columns": (), "RGCN_0_rows_product.across": ()},
        },
    ),
    RecordedSpace(
        "RGAT",
        "rgnn/rgat",
        (Input("fb15k-64", "fb15k", {"F": 64, "G": 64}), Input("bgs-32", "bgs", {"F": 32, "G": 32})),
        {
            **{"RGAT_3.chunk": (), "RGAT_3.lanes": (), "RGAT_3.loads": (), "RGAT_2.lanes": ()},
            **{"RGAT_2.block_rows": (64, 256)},
        },
    ),
    RecordedSpace(
        "GAT with gradients",
        GAT,
        (Input("aifb-64", "aifb"), Input("bgs-128", "bgs", {"F": 128, "G": 128})),
        {
            **{"GAT_2.chunk": (128,), "GAT_2.lanes": (), "GAT_2.loads": (), "GAT_3.lanes": ()},
            **{"GAT_4_sums0.chunk": ()},
        },
        {"grad": True},
    ),
)
"""All that are recorded."""
