"""Kernels that compute again what another one has: left out, and what they would have made read from there.

The backward pass needs some sums for more than one gradient, each in the nest of that gradient. Split off, the sums of
two nests are the same kernel up to its names.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from explorer.compiler.ir import loops
from explorer.compiler.ir.node import Extent, walk
from explorer.compiler.ir.statements import renamed

Key = tuple[tuple[tuple[str, int], ...], tuple[tuple[Extent, ...], ...], frozenset[str], tuple[loops.Statement, ...]]
"""What a kernel is, whatever it calls things: sizes, its outputs' extents, what it reads, its statements."""


@dataclass
class Repeated:
    """The kernels of a module so far, by what they are; `wanted` are the arrays that other kernels know by name.

    An array is written by one kernel, so what an equal kernel has made of the same arrays is still there."""

    wanted: frozenset[str]
    made: dict[Key, tuple[str, ...]] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, kernels: Iterable[loops.Kernel]) -> Repeated:
        """None yet, of a module of these kernels."""
        return cls(frozenset(buffer.name for kernel in kernels for buffer in kernel.buffers))

    def reading(self, kernel: loops.Kernel) -> loops.Kernel:
        """The kernel with what was left out read from where it is."""
        buffers = {self.names.get(b.name, b.name): b for b in kernel.buffers}
        if not any(buffer.name in self.names for buffer in kernel.buffers):
            return kernel
        known = tuple(replace(buffer, name=name) for name, buffer in buffers.items())
        return replace(kernel, buffers=known, body=renamed(kernel.body, self.names))

    def leaves_out(self, kernel: loops.Kernel) -> bool:
        """Whether another kernel has computed what this one would, and nobody knows its outputs by name."""
        outputs = tuple(buffer.name for buffer in kernel.buffers if buffer.kind == "output")
        made = self.made.setdefault(_key(kernel), outputs)
        if made == outputs or self.wanted & set(outputs):
            return False
        self.names |= dict(zip(outputs, made, strict=True))
        return True


def _key(kernel: loops.Kernel) -> Key:
    outputs = [buffer for buffer in kernel.buffers if buffer.kind == "output"]
    names = {buffer.name: f"output {place}" for place, buffer in enumerate(outputs)}
    for statement in kernel.body:
        for node in walk(statement):
            name = node.variable if isinstance(node, loops.For) else loops.result_of(node)
            if name is not None:
                names.setdefault(name, f"name {len(names)}")
    body = renamed(kernel.body, names)
    read = frozenset(buffer.name for buffer in kernel.buffers if buffer.kind != "output")
    return kernel.sizes, tuple(buffer.extents for buffer in outputs), read, body
