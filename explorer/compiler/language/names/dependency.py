"""What a value may depend on."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Dependency:
    """A map, or the identity of a set under the set's name; `domain` is the set that it leads from.

    A map may have the name of a set: `bag` leads from the entries to the bags, and is the identity on the bags."""

    name: str
    domain: str
