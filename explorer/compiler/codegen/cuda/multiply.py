"""The lines that call for products on tensor cores."""

from __future__ import annotations

from typing import TYPE_CHECKING

from explorer.compiler.codegen.cuda.tensor_cores.fragments import multiply
from explorer.compiler.codegen.cuda.tensor_cores.wgmma import multiply_together
from explorer.compiler.ir.kernels import Multiply
from explorer.compiler.ir.verify.products import STRIP, TALL, WIDE

if TYPE_CHECKING:
    from explorer.compiler.codegen.cuda.expressions import Expressions


def multiply_line(text: Expressions, statement: Multiply) -> str:
    """The call in which a warp adds a product to its lanes' sums, or four warps each do."""
    together = statement.warps > 1
    rows, precision = statement.rows, statement.precision
    functions = multiply_together(precision, rows) if together else multiply(precision)
    for name, lines in functions.items():
        text.helpers.use(name, lines, text.origin)
    call = _by_four_warps(text, statement) if together else _by_a_warp(text, statement)
    sums = text.element(statement.target, statement.indices, text.registers[statement.target].width)
    left, right = text.tiles[statement.left], text.tiles[statement.right]
    first = (*statement.left_indices, *(0,) * (len(left.extents) - len(statement.left_indices)))
    places = first, (*statement.right_indices, 0, statement.column)
    operands = [
        f"&{text.array(tile.name)}[{text.offset(tile.name, place)}]"
        for tile, place in zip((left, right), places, strict=True)
    ]
    return f"{call}({sums}, {', '.join(operands)});"


def _by_a_warp(text: Expressions, statement: Multiply) -> str:
    tiles = [text.tiles[name] for name in (statement.left, statement.right)]
    lengths = [f"{text.atom(tile.extents[-1])} + {tile.padding}" for tile in tiles]
    sizes = [statement.rows // TALL, statement.columns // WIDE, statement.depth, *lengths]
    return f"multiply_{statement.precision}<{', '.join(map(str, sizes))}>"


def _by_four_warps(text: Expressions, statement: Multiply) -> str:
    left, right = text.tiles[statement.left], text.tiles[statement.right]
    sizes = [str(statement.columns // STRIP), f"{text.atom(right.extents[-1])} + {right.padding}"]
    if statement.precision == "tf32x3":
        sizes.append(" * ".join(text.atom(extent) for extent in left.extents[-2:]))
    return f"multiply_rows_{statement.precision}<{', '.join(sizes)}>"
