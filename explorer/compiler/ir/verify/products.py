"""The rules of products that a warp takes on tensor cores: whose the sums are, and what the operands look like."""

from __future__ import annotations

from explorer.compiler.ir.kernels import Loop, Multiply, ScheduledKernel, Tile, reads_of
from explorer.compiler.ir.node import walk
from explorer.compiler.ir.verify.sharing import (
    LANES,
    Path,
    Share,
    broken,
    dependences,
    iterations,
    shared_loops,
    size_of,
    statements,
)

TALL, PAIR, WIDE, DEEP = 16, 2, 16, 8
"""Rows, two of which a lane has, and columns that sums come in; elements of the depth that are summed at once."""
ROWS_OF_LANES = Share("lane", 0, TALL // PAIR, 1, TALL // PAIR, 4)
COLUMNS_OF_LANES = Share("lane", 0, WIDE, 4, WIDE // 4, 1)
SPREAD = (None, ROWS_OF_LANES, None, None, COLUMNS_OF_LANES)
"""How the sums are spread over lanes: by pairs of rows, and by vectors of 4 columns, as mma.m16n8k8 leaves them where
its first 8 rows are the even ones, and two of its tiles are the even and the odd columns."""

WARPS, STRIP, GRANULE, ROW = 4, 32, 8, 32
"""Warps that multiply together, the columns that each has sums of at a time, what rows come by, and the elements of a
swizzled row: a slab is as deep."""
MOST_ROWS = 256
GRANULES_OF_LANES = Share("lane", 0, GRANULE // PAIR, 1, GRANULE // PAIR, 1)
STRIP_OF_LANES = Share("lane", 0, STRIP, 4, STRIP // 4, 4)
SPREAD_OF_FOUR = (None, GRANULES_OF_LANES, None, None, STRIP_OF_LANES)
"""How the sums of four warps are spread over the lanes of each: as wgmma.m64nNk8 leaves them, whose rows are columns
here, each vector of 4 in two of its tiles, and whose N columns are rows, of which a lane has two of each 8."""


def spread_of(product: Multiply) -> tuple[Share | None, ...]:
    """How a product's sums are spread over lanes."""
    return SPREAD if product.warps == 1 else SPREAD_OF_FOUR


def verify_product(kernel: ScheduledKernel, product: Multiply, path: Path) -> None:
    """Raises VerificationError for a product that is not of whole tiles, or that not all of a warp come to."""
    tiles = {node.name: node for node in walk(kernel) if isinstance(node, Tile)}
    around = [loop for loop in shared_loops(path) if loop.bind in ("lane", "thread")]
    if around:
        raise broken(product, f"a warp multiplies together, in no loop over {around[0].bind}s")
    if product.warps > 1:
        _verify_together(kernel, product, path, tiles)
        return
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
        if operand.swizzled or (extents[1] + operand.padding) % PAIR:
            raise broken(product, f"a pair of {name} does not begin where one may")


def _verify_together(kernel: ScheduledKernel, product: Multiply, path: Path, tiles: dict[str, Tile]) -> None:
    """The rules of a product of four warps, to which all warps of a block come alike."""
    left, right = (_tile(tiles, product, name, "shared") for name in (product.left, product.right))
    warps = [loop for loop in shared_loops(path) if loop.bind == "warp"]
    every = len(warps) == 1 and (iterations(kernel, warps[0]) or 0) * LANES == kernel.threads
    if product.warps != WARPS or not every or kernel.threads % (WARPS * LANES):
        raise broken(product, f"each {WARPS} warps multiply together, in a loop over all warps of the block")
    depends = dependences(kernel)
    for block in path[path.index(warps[0]) + 1 :]:
        if isinstance(block, Loop) or any(warps[0].variable in depends.get(name, ()) for name in reads_of(block)):
            raise broken(product, "some of the warps that multiply together may not come there")
    around = next(place for node, place in statements(kernel) if isinstance(node, Tile) and node.name == product.left)
    own = any(loop.bind in ("warp", "lane", "thread") for loop in shared_loops(around))
    if own or any(warps[0].variable in depends.get(str(index), ()) for index in product.left_indices):
        raise broken(product, f"the warps that multiply together have different {product.left}")
    sizes = (product.rows, GRANULE), (product.columns, STRIP)
    if any(size <= 0 or size % by for size, by in sizes) or product.rows > MOST_ROWS or product.depth != ROW:
        raise broken(product, f"rows are a multiple of {GRANULE}, columns one of {STRIP}, and the depth is {ROW}")
    sums = _tile(tiles, product, product.target, "register")
    tall, *rest = (size_of(kernel, extent) or 0 for extent in sums.extents[len(product.indices) :])
    if rest != [GRANULE // PAIR, PAIR, product.columns // STRIP, STRIP] or tall * GRANULE < product.rows:
        raise broken(product, f"{product.target} is no tile of such sums")
    parts = [2] if product.precision == "tf32x3" else []
    *found, rows, depth = (size_of(kernel, extent) or 0 for extent in left.extents[len(product.left_indices) :])
    if found != parts or depth != ROW or rows < product.rows or rows % GRANULE or not left.swizzled:
        shape = f"{'2 parts x ' if parts else ''}rows x depth"
        raise broken(product, f"{product.left} is not {shape}, swizzled")
    extents = [size_of(kernel, extent) or 0 for extent in right.extents[len(product.right_indices) :]]
    if len(extents) != 2 or extents[0] < product.depth or extents[1] < product.columns or right.swizzled:
        raise broken(product, f"{product.right} is not of depth by {product.columns}")
    if (extents[1] + right.padding) % 4:
        raise broken(product, f"a vector of {product.right} does not begin where one may")


def _tile(tiles: dict[str, Tile], product: Multiply, name: str, memory: str) -> Tile:
    if name not in tiles or tiles[name].memory != memory or tiles[name].type != "f32":
        raise broken(product, f"{name} is no tile of numbers in {memory} memory")
    return tiles[name]
