"""The rules of products that a warp takes on tensor cores: whose the sums are, and what the operands look like."""

from __future__ import annotations

from explorer.compiler.ir.kernels import Multiply, ScheduledKernel, Tile
from explorer.compiler.ir.node import walk
from explorer.compiler.ir.sharing import Path, Share, broken, shared_loops, size_of

TALL, PAIR, WIDE, DEEP = 16, 2, 16, 8
"""Rows, two of which a lane has, and columns that sums come in; elements of the depth that are summed at once."""
ROWS_OF_LANES = Share("lane", 0, TALL // PAIR, 1, TALL // PAIR, 4)
COLUMNS_OF_LANES = Share("lane", 0, WIDE, 4, WIDE // 4, 1)
SPREAD = (None, ROWS_OF_LANES, None, None, COLUMNS_OF_LANES)
"""How the sums are spread over lanes: by pairs of rows, and by vectors of 4 columns, as mma.m16n8k8 leaves them where
its first 8 rows are the even ones, and two of its tiles are the even and the odd columns."""


def verify_product(kernel: ScheduledKernel, product: Multiply, path: Path) -> None:
    """Raises VerificationError for a product that is not of whole tiles, or that not all of a warp come to."""
    tiles = {node.name: node for node in walk(kernel) if isinstance(node, Tile)}
    around = [loop for loop in shared_loops(path) if loop.bind in ("lane", "thread")]
    if around:
        raise broken(product, f"a warp multiplies together, in no loop over {around[0].bind}s")
    sizes = (product.rows, TALL), (product.columns, WIDE), (product.depth, DEEP)
    if any(size <= 0 or size % by for size, by in sizes):
        raise broken(product, f"rows, columns and depth are multiples of {TALL}, {WIDE} and {DEEP}")
    sums = _tile(tiles, product, product.target, "register")
    tall, *rest = (size_of(kernel, extent) or 0 for extent in sums.extents[len(product.indices) :])
    if rest != [TALL // PAIR, PAIR, product.columns // WIDE, WIDE] or tall * TALL < product.rows:
        raise broken(product, f"{product.target} is no tile of such sums")
    for name, indices, across in (
        (product.left, product.left_indices, product.rows),
        (product.right, product.right_indices, product.columns),
    ):
        operand = _tile(tiles, product, name, "shared")
        extents = [size_of(kernel, extent) or 0 for extent in operand.extents[len(indices) :]]
        if len(extents) != 2 or extents[0] < product.depth or extents[1] < across:
            raise broken(product, f"{name} is not of depth by {across}")
        if (extents[1] + operand.padding) % PAIR:
            raise broken(product, f"a pair of {name} does not begin where one may")


def _tile(tiles: dict[str, Tile], product: Multiply, name: str, memory: str) -> Tile:
    if name not in tiles or tiles[name].memory != memory or tiles[name].type != "f32":
        raise broken(product, f"{name} is no tile of numbers in {memory} memory")
    return tiles[name]
