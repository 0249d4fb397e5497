"""What was made before, to be had again: for the same text where only a decision of one kernel has changed since, and
for the next one where a nest of it is still the same."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

MOST_KEYS = 1_024
"""Nests of a text that are kept: more than one has that a page compiles in its time."""
MOST_VERSIONS = 8
"""Versions of each, so that values can be tried in turn."""

Made = TypeVar("Made")


@dataclass
class Kept(Generic[Made]):
    """By key the latest versions of something, which `fits` tells apart; how many were `made` and `reused`."""

    made: int = 0
    reused: int = 0
    most_keys: int = MOST_KEYS
    _versions: OrderedDict[Hashable, list[Made]] = field(default_factory=OrderedDict, repr=False)

    def get(self, key: Hashable, fits: Callable[[Made], bool]) -> Made | None:
        """The version that fits, the latest first."""
        found = next(filter(fits, reversed(self._versions.get(key, []))), None)
        if found is not None:
            self.reused += 1
            self._versions.move_to_end(key)
        return found

    def put(self, key: Hashable, version: Made) -> None:
        """Keeps another version, and gives up the oldest where there are too many."""
        versions = self._versions.setdefault(key, [])
        versions.append(version)
        del versions[:-MOST_VERSIONS]
        self._versions.move_to_end(key)
        if len(self._versions) > self.most_keys:
            self._versions.popitem(last=False)
