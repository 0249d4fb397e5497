"""A gallery of the papers' figures: each opens the model, the options and the panes that it is about."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from explorer.web.examples import examples
from explorer.web.guide.tour import View, key_of


@dataclass(frozen=True)
class Shown:
    """A figure, table or listing with what to look at, and how the page then stands. `bench` is what `explorer bench
    papers` makes of it; options are as the page has them, words but for switches and the numbers of a level."""

    figure: str
    look: str
    example: str
    panes: tuple[View, ...]
    options: Mapping[str, str | int | bool] = field(default_factory=dict)
    data: str = ""
    bench: str = ""

    def kept(self) -> dict[str, Any]:
        """What the page keeps of itself in a link."""
        (text,) = (example.text for example in examples() if key_of(example) == self.example)
        panes = [view.to_json() for view in self.panes]
        shown = {"text": text, "options": dict(self.options), "data": self.data, "panes": panes}
        return {**shown, "example": self.example}

    @property
    def link(self) -> str:
        """The address of the page as it then stands, as "Share" makes it."""
        return f"/#1.{base64.urlsafe_b64encode(json.dumps(self.kept()).encode()).decode().rstrip('=')}"


CHUNKS: Mapping[str, str | int | bool] = {"inspect": "chunks", "inspect_edges": "16", "inspect_group": "128"}
"""cuKE's C and p; its D and C1 are the usual ones here."""
ROWS: Mapping[str, str | int | bool] = {"split": "rows", "preload": "64"}

GALLERY: dict[str, tuple[Shown, ...]] = {
    "cuKE": (
        Shown("Figure 2", "TransR as a graph of batched operators.", "kge/transr", (View("graph"), View("loops"))),
        Shown(
            "Listings 2 to 8",
            "A block takes 16 edges: rows and matrices that several choose are staged in shared memory once.",
            "kge/transr",
            (View("kernels"), View("cuda")),
            CHUNKS,
            bench="cuke fig9",
        ),
        Shown(
            "Figures 7 and 8",
            "The inspector: sorted, is_uniq, buf_idx; before it, edges sorted by relation in groups of 128 chunks.",
            "kge/rescal",
            (View("loops"), View("kernels")),
            CHUNKS,
            bench="cuke fig8",
        ),
        Shown(
            "§VII-C",
            "The backward pass of TransR: bmv_t and bov_t, which the paper writes by hand.",
            "kge/transr",
            (View("graph", "differentiate"), View("kernels")),
            {"grad": True},
        ),
        Shown(
            "Figure 10",
            "Negatives of a triple share its head and relation, which are read once.",
            "kge/transf",
            (View("loops"), View("kernels")),
            {"negatives": "tail:64"},
            bench="cuke fig10",
        ),
    ),
    "Hector and PIGEON": (
        Shown(
            "Figure 6",
            "reorder multiplies the weights W and w_t first, once an edge type.",
            "rgnn/rgat",
            (View("graph", "reorder"), View("loops")),
            bench="hector table5-rgat-inference",
        ),
        Shown(
            "Figure 7",
            "compact moves messages from edges to pairs of source and edge type.",
            "rgnn/rgat",
            (View("graph", "compact"), View("loops")),
            bench="hector fig10",
        ),
        Shown(
            "Algorithms 1 and 2",
            "A product by GEMM, its rows gathered on the fly; and traversals with sums over a node's edges.",
            "rgnn/rgat",
            (View("kernels"), View("cuda")),
        ),
        Shown(
            "PIGEON §3.3.5",
            "The source of an edge, whose edges are by source: GetSrcId as a binary search of CSR, where COO reads it.",
            "rgnn/gcn",
            (View("loops"), View("kernels")),
            {"edges": "src", "encoding": "compressed"},
        ),
        Shown("Figure 2", "HGT, by node and by edge type.", "rgnn/hgt", (View("graph"), View("kernels"))),
    ),
    "G-Sparse": (
        Shown(
            "Algorithm 1",
            "Indices and values of a row in shared memory, 64 at a time, with the bounds that were inferred.",
            "embedding/spmm",
            (View("loops"), View("kernels")),
            ROWS,
            bench="gsparse tiles",
        ),
        Shown(
            "Algorithm 2",
            "Rows bound through a buffer that has the longest first.",
            "embedding/spmm",
            (View("kernels"), View("cuda")),
            {"split": "rows", "balance": True},
            bench="gsparse balance",
        ),
        Shown(
            "Algorithm 3",
            "SDDMM: eight lanes share a dot product, and add their parts up by shuffles.",
            "embedding/sddmm",
            (View("kernels"), View("cuda")),
            {"lanes": "8"},
        ),
    ),
    "Ember": (
        Shown(
            "Figure 10",
            "SLS as dataflow code of the access unit, and the loop of the execute unit.",
            "embedding/sls",
            (View("loops"), View("dlc")),
            {"opt": 0},
            bench="ember table4",
        ),
        Shown(
            "Figure 13",
            "From loops to SLC: what is read only becomes streams, the rest goes into a callback.",
            "embedding/sls",
            (View("loops"), View("slc", "decouple")),
        ),
        Shown(
            "Figures 14 and 15",
            "Vectors, then one record a row, then no positions in the queue.",
            "embedding/sls",
            (
                View("slc"),
                View("slc.opt1", "vectorize"),
                View("slc.opt2", "bufferize"),
                View("slc.opt3", "align_queues"),
            ),
        ),
        Shown(
            "Figures 16 and 17",
            "RM3 with low locality at the highest level: Run it on dae, and again with opt at 0.",
            "embedding/sls",
            (View("slc.opt3"), View("dlc")),
            {"opt": 3},
            "RM3:L0",
            bench="ember fig16",
        ),
        Shown(
            "Figure 18",
            "Blocks of keys that go past the core: store streams, and hints of which cache to read from.",
            "embedding/spattn",
            (View("slc"), View("dlc")),
            {"store_streams": True, "level_hints": True},
            "BigBird:8",
            bench="ember fig18",
        ),
        Shown(
            "Table 1, MP",
            "Message passing: the workspace loop stays with the execute unit.",
            "embedding/mp",
            (View("loops"), View("slc", "decouple")),
            bench="ember table1",
        ),
    ),
}
