"""Rows that only a loop over a segment reads: they need no filling where the segment has no elements, as most of a
table's have in a batch of ids.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from explorer.compiler.ir.loops import For, Kernel, Row, Statement, reads_of
from explorer.compiler.ir.node import Node, walk
from explorer.compiler.ir.statements import written_in


def fills(kernel: Kernel) -> dict[int, For]:
    """By the id() of each loop that does nothing but fill such rows: the loop over the segment, right behind it or
    other such loops, which alone reads them."""
    rows = {node.name for node in walk(kernel) if isinstance(node, Row)}
    reads = _reads((kernel,))
    bodies = (kernel.body, *(node.body for node in walk(kernel) if isinstance(node, For)))
    return {id(fill): segment for body in bodies for fill, segment in _pairs(body, rows, reads)}


def _pairs(body: tuple[Statement, ...], rows: set[str], reads: Counter[str]) -> list[tuple[For, For]]:
    """The loops of a body that fill `rows`, each with the one that alone reads them; `reads` are all of the kernel."""
    found: list[tuple[For, For]] = []
    segment: For | None = None
    for statement in reversed(body):
        if isinstance(statement, Row):
            continue
        if not isinstance(statement, For):
            segment = None
        elif _is_segment(statement):
            segment = statement
        elif segment is not None and _only_for(segment, statement, rows, reads):
            found.append((statement, segment))
        else:
            segment = None
    return found


def _is_segment(loop: For) -> bool:
    return isinstance(loop.lower, str) and isinstance(loop.extent, str)


def _only_for(segment: For, fill: For, rows: set[str], reads: Counter[str]) -> bool:
    filled, inside = written_in(fill), _reads((segment,))
    return bool(filled) and filled <= rows and all(reads[row] == inside[row] for row in filled)


def _reads(nodes: Iterable[Node]) -> Counter[str]:
    """How often each name is read, at any depth."""
    return Counter(name for root in nodes for node in walk(root) for name in set(reads_of(node)))
