"""Names of the model as names of the generated code: what the target language has taken is never used."""

from __future__ import annotations

import re
from collections.abc import Callable

from explorer.compiler.ir.kernels import ScheduledKernel, result_of
from explorer.compiler.ir.loops import Kernel, fixed_names
from explorer.compiler.ir.node import Names, walk

UNFIT = re.compile(r"[^A-Za-z0-9_]|^(?=[0-9_])|_(?=_)")
"""What a name of the target language may not have, or not there."""


class TargetNames:
    """The kernel's names in the target language, and fresh names that collide with none of them."""

    def __init__(
        self, kernel: Kernel | ScheduledKernel, taken: frozenset[str], refused: Callable[[str], bool] = bool
    ) -> None:
        """`taken` are the names that the generated code itself uses; `refused` says which others may not be."""
        self._refused = refused
        self._allocator = Names(set(taken))
        self._of: dict[str, str] = {}
        for name in self._declared(kernel):
            if name not in self._of:
                self._of[name] = self.new(name)

    @staticmethod
    def _declared(kernel: Kernel | ScheduledKernel) -> list[str]:
        buffers = [buffer.name for buffer in kernel.buffers]
        extents = sorted(fixed_names(kernel.sizes, kernel.buffers))
        known = kernel.counts if isinstance(kernel, ScheduledKernel) else ()
        # A kernel that only counts reads no array of the set whose size it needs.
        counts = [*(name for name, _ in known), *(part for _, count in known for part in count.names)]
        return [*buffers, *extents, *counts, *(name for node in walk(kernel) if (name := result_of(node)))]

    def __getitem__(self, name: str) -> str:
        return self._of[name]

    def new(self, hint: str) -> str:
        """A name that nothing else has: the hint where possible."""
        plain = UNFIT.sub("v", hint)
        return self._allocator.new(f"v_{plain}" if self._refused(plain) else plain)
