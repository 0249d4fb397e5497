"""Whether a kernel's work is shared out: its blocks grow with the graph or the batch where its loops do."""

from __future__ import annotations

from explorer.compiler.ir.index_sets import few
from explorer.compiler.ir.kernels import Count, Loop, ScheduledKernel
from explorer.compiler.ir.node import Extent, walk


def is_shared_out(kernel: ScheduledKernel) -> bool:
    """Whether the blocks of a kernel grow, or nothing in it does."""
    nodes = [node for node in walk(kernel) if isinstance(node, Loop)]
    blocks = [node.extent for node in nodes if node.bind == "block"]
    bounds = [bound for node in nodes if node.bind != "block" for bound in (node.lower, node.extent)]
    return any(_grows(kernel, extent) for extent in blocks) or not any(_grows(kernel, bound) for bound in bounds)


def _grows(kernel: ScheduledKernel, extent: Extent | Count) -> bool:
    """Whether an extent grows with the graph or the batch; what a kernel computes may."""
    counts = dict(kernel.counts)
    if isinstance(extent, Count):
        return any(_grows(kernel, name) for name in extent.names)
    if extent in counts:
        return _grows(kernel, counts[str(extent)])
    return not few(extent) and extent not in dict(kernel.sizes)
