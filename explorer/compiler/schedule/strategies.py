"""The names of the strategies, and the decision which of them a nest gets."""

from __future__ import annotations

from explorer.compiler.decisions import Decision

CHUNKS = "chunks"
GEMM = "gemm"
GEMM_OF_SUMS = "gemm_of_sums"
CUT_PRODUCTS = "cut_products"
SPLIT_SUMS = "split_sums"
STAGES = "stages"
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
STRATEGY = Decision(
    name="strategy",
    domain=(
        *(CHUNKS, GEMM, GEMM_OF_SUMS, CUT_PRODUCTS, SPLIT_SUMS, STAGES, SPLIT_ROWS),
        *(OUTER_PRODUCTS, LONG_SUMS, DOTS, ROW_PIECES, NONZEROS, ROWS, SPLIT_ELEMENTS, ELEMENTS),
        *(SEGMENT_PARTS, SPLIT_SEGMENTS, WARPS),
    ),
    why="what a block, a warp and a lane have of the nest; the first of these that fits is usual",
    source="cuKE §V and §VI, Hector §3.3.1, G-Sparse §III-B; measured on an H100",
)
