"""The account of several programs, one run after another, and the rates that follow from one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

ALIKE = frozenset({"capacity", "capacity_bytes", "machine", "source"})
PEAKS = frozenset({"peak", "peak_bytes"})
"""In the account of several programs these are the same for all, or the largest of all; the rest is summed."""


def summary(accounts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Everything counted, of all programs together, with hit rates and rates a second."""
    total = _together(accounts)
    times = total.pop("alone_ns", None)
    nanoseconds = 1000 * total["microseconds"]
    rates = _rates(total, nanoseconds)
    total |= {"hit_rates": _hit_rates(total["memory"]), "rates": rates}
    if times is not None:
        payload = total["access"]["payload_bytes"] + total["access"]["stored_bytes"]
        alone = {f"{unit}_alone": share(payload, time) for unit, time in times.items()}
        total["throughput"] = {**alone, "achieved": rates["payload_gbs"]}
    return total


def _together(accounts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    both: dict[str, Any] = {}
    for key in dict.fromkeys(key for account in accounts for key in account):
        values = [account[key] for account in accounts if key in account]
        if isinstance(values[0], dict) and key not in ALIKE:
            both[key] = _together(values)
        elif isinstance(values[0], list) and key == "cores":
            both[key] = [_together(cores) for cores in zip(*values, strict=True)]
        elif key in ALIKE or not isinstance(values[0], int | float):
            both[key] = values[0]
        else:
            both[key] = max(values) if key in PEAKS else sum(values)
    return both


def _hit_rates(memory: dict[str, Any]) -> dict[str, float]:
    """Of all requests of the access unit, the share that each level answered."""
    found = {"l2": memory["l2_hits"], "llc": memory["llc_hits"], "memory": memory["misses"]}
    return {level: share(hits, memory["requests"]) for level, hits in found.items()}


def _rates(account: dict[str, Any], nanoseconds: float) -> dict[str, float]:
    memory, access = account["memory"], account["access"]
    payload = access["payload_bytes"] + access["stored_bytes"]
    return {
        "payload_gbs": share(payload, nanoseconds),
        "hbm_gbs": share(memory["hbm_bytes"], nanoseconds),
        "requests_per_second": 1e9 * share(memory["requests"], nanoseconds),
        "l3_accesses_per_kiloelement": 1000 * share(memory["llc_lookups"], payload / 4),
    }


def share(part: float, whole: float) -> float:
    """The part of the whole; nothing of nothing is 0."""
    return float(part / whole) if whole > 0 else 0.0
