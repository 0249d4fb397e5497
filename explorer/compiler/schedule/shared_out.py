"""Whether a kernel's work is shared out: its blocks grow with the graph or the batch where its loops do."""

from __future__ import annotations

from explorer.compiler.counts import Counts
from explorer.compiler.ir.index_sets import few
from explorer.compiler.ir.kernels import Count, Loop, ScheduledKernel
from explorer.compiler.ir.node import Extent, walk

SOON_MERGED = 1 << 18
"""Pieces that one warp may merge: at most 1024 steps, if all are of one row."""


def is_shared_out(kernel: ScheduledKernel) -> bool:
    """Whether the blocks of a kernel grow, or nothing in it does."""
    nodes = [node for node in walk(kernel) if isinstance(node, Loop)]
    blocks = [node.extent for node in nodes if node.bind == "block"]
    bounds = [bound for node in nodes if node.bind != "block" for bound in (node.lower, node.extent)]
    return any(_grows(kernel, extent) for extent in blocks) or not any(_grows(kernel, bound) for bound in bounds)


def is_soon_merged(kernel: ScheduledKernel, counts: Counts) -> bool:
    """Whether a kernel merges pieces of which a graph that is given has so few that one warp may merge them all."""
    known = {name: counts.of(name) for _, count in kernel.counts for name in count.names}
    sizes = {name: size for name, size in known.items() if size is not None}
    if counts.assumed or kernel.template != "merge" or not kernel.counts or len(sizes) < len(known):
        return False
    return all(count.value(sizes) <= SOON_MERGED for _, count in kernel.counts)


def _grows(kernel: ScheduledKernel, extent: Extent | Count) -> bool:
    """Whether an extent grows with the graph or the batch; what a kernel computes may."""
    counts = dict(kernel.counts)
    if isinstance(extent, Count):
        return any(_grows(kernel, name) for name in extent.names)
    if extent in counts:
        return _grows(kernel, counts[str(extent)])
    return not few(extent) and extent not in dict(kernel.sizes)
