"""The operator instances of a module of loops, one a kernel: Hector's intra-operator IR (§3.3) as a table.

An instance names its template, the set whose rows it makes, how it reads each operand (`x GATHER(src)`: the row that
the map gives; `own`: the row of this iteration), what it stores, and its schedule.
"""

from __future__ import annotations

from explorer.compiler.ir.loops import For, Index, Kernel, Load
from explorer.compiler.ir.node import Line, merge, once, walk


def print_instances(kernels: tuple[Kernel, ...]) -> tuple[Line, ...]:
    """A line an instance, as comments: readers of the text skip them, since the kernels say it all."""
    rows = [_row(kernel) for kernel in kernels]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))] if rows else []
    lines = []
    for kernel, row in zip(kernels, rows, strict=True):
        cells = "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True))
        lines.append(Line(f"# {cells}".rstrip(), merge(kernel.origin)))
    return tuple(lines)


@once
def _row(kernel: Kernel) -> tuple[str, ...]:
    loops = [node for node in walk(kernel) if isinstance(node, For)]
    outputs = ", ".join(buffer.name for buffer in kernel.buffers if buffer.kind == "output")
    outer = next((loop for loop in loops if loop.parallel), loops[0] if loops else None)
    notes = [loop.note for loop in loops if loop.note == "interchanged"]
    schedule = "once"
    if outer is not None:
        schedule = f"parallel {outer.variable}" if outer.parallel else f"{outer.variable} in order"
    schedule += f", {len(notes)} interchanged" if notes else ""
    over = f"over {outer.extent}" if outer is not None else ""
    reads = ", ".join(_accesses(kernel))
    return kernel.name, kernel.template, over, f"reads {reads}", f"stores {outputs}", schedule


def _accesses(kernel: Kernel) -> list[str]:
    """How the kernel picks the rows of what it reads, each once."""
    kinds = {buffer.name: buffer.kind for buffer in kernel.buffers}
    loads = [node for node in walk(kernel) if isinstance(node, Load)]
    maps = {load.result: load for load in loads if kinds.get(load.buffer) == "index"}
    quotients = [node for node in walk(kernel) if isinstance(node, Index) and node.function == "div"]
    maps |= {node.result: maps[str(node.operands[0])] for node in quotients if node.operands[0] in maps}
    found: dict[str, None] = {}
    for load in loads:
        if kinds.get(load.buffer) in ("param", "input", "structure", "temporary", "upstream"):
            found[f"{load.buffer} {_access(load, maps)}"] = None
    return list(found)


def _access(load: Load, maps: dict[str, Load]) -> str:
    first = load.indices[0] if load.indices else ""
    path: list[str] = []
    while isinstance(first, str) and first in maps:
        path.insert(0, maps[first].buffer)
        first = maps[first].indices[0]
    return f"GATHER({'.'.join(path)})" if path else "own"
