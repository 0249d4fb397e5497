"""What the page opens with. A class opens the same examples at once, and a tab that comes back opens one again: the
panes of each are drawn once."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

Compiled = dict[str, Any]
"""A compilation's JSON, as `explorer.web.compiling` has it."""
KEPT = 40
"""Examples at most: all of ours, and some that were compiled again meanwhile."""


@dataclass
class OpenedExamples:
    """What templates show of an example that nobody has edited, by its compilation: that object, which is kept with it,
    since an equal one may be of other data."""

    _kept: OrderedDict[int, tuple[Compiled, dict[str, Any]]] = field(default_factory=OrderedDict)
    _lock: Lock = field(default_factory=Lock)

    def context(self, compiled: Compiled, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """What was made for this compilation, or is made now. It is shared: read it, never change it."""
        with self._lock:
            found = self._kept.get(id(compiled))
            if found is not None:
                self._kept.move_to_end(id(compiled))
                return found[1]
        made = make()
        with self._lock:
            self._kept[id(compiled)] = compiled, made
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return made
