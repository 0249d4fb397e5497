"""What the machine is made of, each number with its unit and where it comes from.

"Ember Fig. 5" marks what the paper states; "assumed" what it does not, chosen as plausible for such a core and meant
to be changed; "calibrated" what `explorer.machine.calibration` fits to nine published ratios and two unit constants;
"fitted to Ember Fig. 3" what the core alone is fitted with.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from explorer.compiler.ir.access.dlc import QUEUE_BYTES

FIG_5 = "Ember Fig. 5"
ASSUMED = "assumed"
CALIBRATED = "calibrated"
FIG_3 = "fitted to Ember Fig. 3"


class ParameterError(ValueError):
    """A parameter that does not exist or a value that it cannot take; the message is a sentence for the user."""


def _parameter(default: float, unit: str, source: str, meaning: str, least: float, most: float) -> Any:
    note = {"unit": unit, "source": source, "meaning": meaning, "least": least, "most": most}
    return field(default=default, metadata=note)


def _cost(default: float, source: str, meaning: str) -> Any:
    return _parameter(default, "core cycles", source, meaning, 0.0, 1e6)


@dataclass(frozen=True, kw_only=True)
class MachineParameters:
    """Cores, each with its access unit and the queues between them, and the memory below."""

    cores: int = _parameter(1, "cores", ASSUMED, "cores at work, each on its slice of the outermost loop", 1, 8)
    core_ghz: float = _parameter(2.4, "GHz", FIG_5, "clock of the execute unit, a core", 1e-3, 1e3)
    access_ghz: float = _parameter(1.0, "GHz", FIG_5, "clock of the access unit", 1e-3, 1e3)
    queue_bytes: int = _parameter(QUEUE_BYTES, "B", FIG_5, "capacity of the data queue", 0, 1 << 26)
    control_tokens: int = _parameter(2048, "tokens", ASSUMED, "capacity of the control queue", 0, 1 << 20)
    storage_bytes: int = _parameter(8192, "B", FIG_5, "lines held by the access unit until marshalled", 64, 1 << 26)
    mshrs: int = _parameter(256, "lines", FIG_5, "misses that the access unit keeps in flight", 1, 1 << 20)
    start_cycles: float = _parameter(
        11.05, "access cycles", CALIBRATED, "from a traversal's first request to the next one's", 0.0, 1e6
    )
    request_cycles: float = _parameter(1.0, "access cycles", ASSUMED, "from one line request to the next", 0.0, 1e6)
    marshal_bytes: float = _parameter(64.0, "B/access cycle", ASSUMED, "width of the path into the queues", 1.0, 1e9)
    l1_kib: int = _parameter(64, "KiB", FIG_5, "L1D of the core, which holds its rows and outputs", 1, 1 << 20)
    l1_ways: int = _parameter(4, "ways", FIG_5, "associativity of the L1D", 1, 64)
    l1_cycles: float = _parameter(2.0, "core cycles", FIG_5, "latency of a hit in the L1D", 0.0, 1e6)
    l1_mshrs: int = _parameter(32, "lines", FIG_5, "misses that the core alone keeps in flight", 1, 1 << 20)
    l2_kib: int = _parameter(512, "KiB", FIG_5, "L2 of the core", 1, 1 << 20)
    l2_ways: int = _parameter(8, "ways", FIG_5, "associativity of the L2", 1, 64)
    l2_ns: float = _parameter(3.3, "ns", ASSUMED, "latency of a hit in the L2", 0.0, 1e6)
    llc_kib: int = _parameter(
        1024, "KiB a core", FIG_5, "a core's slice of the last-level cache; all share all", 1, 1 << 20
    )
    llc_ways: int = _parameter(16, "ways", FIG_5, "associativity of the last-level cache", 1, 64)
    llc_ns: float = _parameter(13.3, "ns", ASSUMED, "latency of a hit in the last-level cache", 0.0, 1e6)
    hbm_ns: float = _parameter(100.0, "ns", ASSUMED, "latency of the memory, unloaded", 0.0, 1e6)
    hbm_gbs: float = _parameter(
        37.5, "GB/s a core", FIG_5, "an eighth of 300 GB/s; the cores at work share theirs", 1e-3, 1e9
    )
    rob_entries: int = _parameter(224, "instructions", FIG_5, "that the core alone has in flight", 1, 1 << 20)
    lsq_entries: int = _parameter(
        96, "instructions", FIG_5, "loads that the core alone has in flight, and as many stores", 1, 1 << 20
    )
    prefetch_lines: int = _parameter(4, "lines", FIG_3, "that the core alone fetches behind a miss", 0, 64)
    tlb_entries: int = _parameter(1280, "pages", ASSUMED, "that the core alone knows without a walk", 5, 1 << 20)
    page_bytes: int = _parameter(4096, "B", ASSUMED, "a page", 64, 1 << 30)
    walk_cycles: float = _parameter(
        290.0, "core cycles", FIG_3, "on the core alone, a walk of the table of pages, one at a time", 0.0, 1e6
    )
    predicted_steps: int = _parameter(
        16, "iterations", ASSUMED, "of a loop whose end a core foresees, if its bounds were not loaded", 0, 1 << 20
    )
    issue_width: int = _parameter(4, "instructions/core cycle", ASSUMED, "that the core alone begins", 1, 64)
    token_cycles: float = _cost(0.7832, CALIBRATED, "popping a token and branching on it")
    pop_cycles: float = _cost(0.7832, CALIBRATED, "popping a scalar")
    scalar_cycles: float = _cost(0.7832, CALIBRATED, "a scalar operation, load, store or loop step")
    unbuffered_cycles: float = _cost(6.474, CALIBRATED, "a vector that comes with a token of its own, beside the rest")
    misaligned_cycles: float = _cost(
        2.877, CALIBRATED, "64 bytes of a vector that cross a line of the queue, beside the rest"
    )
    vector_cycles: float = _cost(0.1404, CALIBRATED, "64 bytes of a vector popped, loaded, stored, added, multiplied")
    traversal_cycles: float = _cost(32.75, CALIBRATED, "the end of an innermost traversal, or a token from outside one")
    divide_cycles: float = _cost(5.0, ASSUMED, "f32 division or square root, 64 bytes of a vector alike")
    transcendental_cycles: float = _cost(20.0, ASSUMED, "exp, tanh, sin and the like, 64 bytes of a vector alike")
    float_cycles: float = _cost(4.0, ASSUMED, "on the core alone, latency of f32 arithmetic but for division")
    mispredict_cycles: float = _cost(12.0, ASSUMED, "on the core alone, from a wrong branch's end to what follows")

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
"""A cache line, what one request brings, and the width of the core's vector unit."""
WORD_BYTES = 4
"""An element, i32 or f32, in memory and in the data queue."""
LINE_WORDS = LINE_BYTES // WORD_BYTES
