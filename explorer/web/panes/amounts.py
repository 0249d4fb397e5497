"""Numbers as the page says them: three digits, and the prefix of their unit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def short(number: int) -> str:
    """Three digits, with the prefix of the unit that follows: `2.48 M`."""
    for limit, letter in ((10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k")):
        if number >= limit:
            return f"{number / limit:.3g} {letter}"
    return f"{number} "


def time(seconds: float) -> str:
    """`1.24 µs`, `742 ns`; below ten nanoseconds two digits, `4.9 ns`, `41 ps`."""
    for limit, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if seconds >= limit:
            return f"{seconds / limit:.3g} {unit}"
    limit, unit = (1e-9, "ns") if seconds >= 1e-9 else (1e-12, "ps")
    return f"{seconds / limit:.0f} {unit}" if seconds >= 10 * limit else f"{seconds / limit:.2g} {unit}"


def cost(found: Mapping[str, Any]) -> str:
    """What an operation asks for, and the time that takes: `79.4 MFLOP and 2.48 MB to move: 742 ns, for its memory`; ""
    of what neither computes nor moves anything."""
    if not (found["flop"] or found["bytes"]):
        return ""
    asked = f"{short(found['flop'])}FLOP and {short(found['bytes'])}B to move"
    return f"{asked}: {time(found['seconds'])}, for its {found['limit']}"
