"""What the machine is made of, each number with its unit and where it comes from.

Nothing here is fitted to a published result. "Ember Fig. 5" marks what the paper states; "assumed" marks what it does
not, chosen as plausible for such a core and meant to be changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

FIG_5 = "Ember Fig. 5"
ASSUMED = "assumed"


class ParameterError(ValueError):
    """A parameter that does not exist or a value that it cannot take; the message is a sentence for the user."""


def _parameter(default: float, unit: str, source: str, meaning: str, least: float, most: float) -> Any:
    note = {"unit": unit, "source": source, "meaning": meaning, "least": least, "most": most}
    return field(default=default, metadata=note)


@dataclass(frozen=True, kw_only=True)
class MachineParameters:
    """One core, its access unit, the queues between them, and its share of the memory."""

    core_ghz: float = _parameter(2.4, "GHz", FIG_5, "clock of the execute unit, a core", 1e-3, 1e3)
    access_ghz: float = _parameter(1.0, "GHz", FIG_5, "clock of the access unit", 1e-3, 1e3)
    queue_bytes: int = _parameter(8192, "B", FIG_5, "capacity of the data queue", 0, 1 << 26)
    control_tokens: int = _parameter(2048, "tokens", ASSUMED, "capacity of the control queue", 0, 1 << 20)
    storage_bytes: int = _parameter(8192, "B", FIG_5, "lines held by the access unit until marshalled", 64, 1 << 26)
    mshrs: int = _parameter(256, "lines", FIG_5, "misses that the access unit keeps in flight", 1, 1 << 20)
    evaluate_cycles: float = _parameter(
        1.0, "access cycles", ASSUMED, "evaluation of a stream, a position included; pipelined", 0.0, 1e6
    )
    marshal_bytes: float = _parameter(64.0, "B/access cycle", ASSUMED, "width of the path into the queues", 1.0, 1e9)
    token_bytes: int = _parameter(4, "B", ASSUMED, "width of a token on that path", 0, 64)
    l2_kib: int = _parameter(512, "KiB", FIG_5, "L2 of the core", 1, 1 << 20)
    l2_ways: int = _parameter(8, "ways", FIG_5, "associativity of the L2", 1, 64)
    l2_ns: float = _parameter(3.3, "ns", ASSUMED, "latency of a hit in the L2", 0.0, 1e6)
    llc_kib: int = _parameter(1024, "KiB", FIG_5, "the core's slice of the last-level cache", 1, 1 << 20)
    llc_ways: int = _parameter(16, "ways", FIG_5, "associativity of the last-level cache", 1, 64)
    llc_ns: float = _parameter(13.3, "ns", ASSUMED, "latency of a hit in the last-level cache", 0.0, 1e6)
    hbm_ns: float = _parameter(100.0, "ns", ASSUMED, "latency of the memory, unloaded", 0.0, 1e6)
    hbm_gbs: float = _parameter(37.5, "GB/s", FIG_5, "the core's eighth of 300 GB/s", 1e-3, 1e9)
    token_cycles: float = _parameter(2.0, "core cycles", ASSUMED, "popping a token and branching on it", 0.0, 1e6)
    pop_cycles: float = _parameter(1.0, "core cycles", ASSUMED, "popping an operand", 0.0, 1e6)
    index_cycles: float = _parameter(1.0, "core cycles", ASSUMED, "integer operation on an index", 0.0, 1e6)
    loop_cycles: float = _parameter(1.0, "core cycles", ASSUMED, "step of a workspace loop", 0.0, 1e6)
    arithmetic_cycles: float = _parameter(1.0, "core cycles", ASSUMED, "f32 add, subtract, multiply, compare", 0.0, 1e6)
    divide_cycles: float = _parameter(5.0, "core cycles", ASSUMED, "f32 division or square root", 0.0, 1e6)
    transcendental_cycles: float = _parameter(20.0, "core cycles", ASSUMED, "exp, tanh, sin and the like", 0.0, 1e6)
    row_cycles: float = _parameter(1.0, "core cycles", ASSUMED, "load or store of a row or the output, in L1", 0.0, 1e6)

    def __post_init__(self) -> None:
        for entry in fields(self):
            value = getattr(self, entry.name)
            whole = isinstance(entry.default, int)
            if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
                kind = "a whole number" if whole else "a number"
                raise ParameterError(f"{entry.name} is {value!r}, but must be {kind}")
            least, most = entry.metadata["least"], entry.metadata["most"]
            if not least <= value <= most:
                raise ParameterError(f"{entry.name} is {value:,}, but must lie between {least:,} and {most:,}")

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> MachineParameters:
        """The parameters with some changed by name; raises ParameterError for a name or value that cannot be."""
        known = {entry.name for entry in fields(cls)}
        for name in values:
            if name not in known:
                raise ParameterError(f"the machine has no parameter {name!r}: it has {', '.join(sorted(known))}")
        return cls(**values)

    def describe(self) -> dict[str, dict[str, Any]]:
        """Name to value, unit, source and meaning, for JSON. A value that was changed says so as its source."""
        described = {}
        for entry in fields(self):
            value = getattr(self, entry.name)
            source = entry.metadata["source"] if value == entry.default else "set for this run"
            described[entry.name] = {
                "value": value,
                "unit": entry.metadata["unit"],
                "source": source,
                "meaning": entry.metadata["meaning"],
            }
        return described

    def values(self) -> dict[str, float]:
        """Name to value."""
        return asdict(self)

    @property
    def access_ns(self) -> float:
        """Length of an access cycle."""
        return 1.0 / self.access_ghz

    @property
    def core_ns(self) -> float:
        """Length of a core cycle."""
        return 1.0 / self.core_ghz


LINE_BYTES = 64
"""A cache line, and what one request brings."""
WORD_BYTES = 4
"""An element, i32 or f32, in memory and in the data queue."""
