"""The names of the strategies, and the decision which of them a nest gets."""

from __future__ import annotations

from explorer.compiler.decisions import Decision

CHUNKS = "chunks"
SHARED_LISTS = "shared_lists"
GEMM = "gemm"
GEMM_OF_SUMS = "gemm_of_sums"
CUT_PRODUCTS = "cut_products"
SPLIT_SUMS = "split_sums"
STAGES = "stages"
SPLIT_TERMS = "split_terms"
SPLIT_ROWS = "split_rows"
OUTER_PRODUCTS = "outer_products"
LONG_SUMS = "long_sums"
DOTS = "dots"
ROW_PIECES = "row_pieces"
NONZEROS = "nonzeros"
ROWS = "rows"
SPLIT_SEGMENTS = "split_segments"
SPLIT_ELEMENTS = "split_elements"
ELEMENTS = "elements"
SEGMENT_PARTS = "segment_parts"
WARPS = "warps"
FITS = {
    CHUNKS: "a score of a batch, or a part of its backward pass",
    SHARED_LISTS: "scores of facts that share lists of negatives, each a sum of pairs",
    GEMM: "a nest that starts with products of rows and matrices",
    GEMM_OF_SUMS: "a nest that starts with products of sums and matrices",
    CUT_PRODUCTS: "a nest with products inside that can be cut out",
    SPLIT_SUMS: "a nest whose iterations take sums over segments",
    STAGES: "a nest with a sum over a whole set, and what goes with it",
    SPLIT_TERMS: "a sum of several outer products",
    SPLIT_ROWS: "a nest of few iterations, whose sums are of rows",
    OUTER_PRODUCTS: "a sum of outer products",
    LONG_SUMS: "a sum over a whole set",
    DOTS: "dot products of rows that an element picks",
    ROW_PIECES: "sums over segments of edges or nonzeros",
    NONZEROS: "sums over segments of edges or nonzeros",
    ROWS: "sums over segments",
    SPLIT_ELEMENTS: "a nest of few iterations that go through all elements",
    ELEMENTS: "a nest of few iterations that go through all elements",
    SEGMENT_PARTS: "few rows of long segments, of data whose numbers are known",
    SPLIT_SEGMENTS: "a nest that takes sums over segments one after another",
    WARPS: "a nest whose rows a block has room for",
}
"""The strategies, and what each is for: why one that was asked for does not fit."""

STRATEGY = Decision(
    name="strategy",
    domain=tuple(FITS),
    why="what a block, a warp and a lane have of the nest; the first of these that fits is usual",
    source="cuKE §V and §VI, Hector §3.3.1, G-Sparse §III-B; measured on an H100",
)


def misfit(strategy: str) -> str:
    """Why a nest is not scheduled by a strategy that gives no kernels for it."""
    return f"it does not fit: {strategy} is for {FITS[strategy]}"
