"""Why a point is chosen on the simulated machine: what its account says beside that of the usual point."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from explorer.compiler.decisions import Value, printed_value
from explorer.machine.summary import share
from explorer.tuner.points import Points
from explorer.tuner.search import Trials
from explorer.tuner.tune.bench import MACHINE
from explorer.tuner.tune.worth import worth

COSTS = {
    "token": "popping tokens and branching on them",
    "pop": "popping scalars",
    "scalar": "scalar instructions",
    "divide": "divisions and roots",
    "transcendental": "functions such as exp",
    "vector": "instructions on vectors",
    "unbuffered": "vectors that come with a token of their own",
    "misaligned": "vectors that cross a line of the queue",
    "traversal": "dispatch at the ends of traversals",
}
"""What the core's classes of costs are."""
STALLS = {
    "queue_full": "the access unit waits for room in the queue",
    "storage": "the access unit waits for room for lines",
    "mshrs": "the access unit has as many misses in flight as it may",
    "memory": "the access unit waits for memory",
}
WORKS, STARVES = "the access unit works", "the core waits for the queue to fill"
NAMED = 0.02
"""Changes of less than this share of the usual point's cycles are not told."""


@dataclass(frozen=True)
class Account:
    """Of a simulation: its cycles, by what each unit did with them, and the most that its queue held."""

    cycles: float
    access: Mapping[str, float]
    core: Mapping[str, float]
    peak_bytes: int
    elements: int

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> Account:
        """Of a simulation's whole account."""
        access, execute = found["access"], found["execute"]
        costs = {COSTS[name]: each["total_cycles"] for name, each in execute["costs"].items()}
        stalls = {STALLS[name]: cycles for name, cycles in access["stalls"].items()}
        return cls(
            float(found["cycles"]),
            {WORKS: access["busy"], **stalls},
            {STARVES: execute["stalls"]["queue_empty"], **costs},
            int(found["queues"]["data"]["peak_bytes"]),
            (access["payload_bytes"] + access["stored_bytes"]) // 4,
        )

    def most(self, unit: str) -> tuple[str, float]:
        """What a unit spends most on, and its share of all cycles."""
        what, cycles = max(getattr(self, unit).items(), key=lambda each: float(each[1]))
        return what, share(cycles, self.cycles)


def sentences(points: Points, chosen: int, trials: Trials, accounts: Mapping[int, Account]) -> list[str]:
    """In sentences: what bounds the usual point, what is less in the chosen one, and what levels and queues tell."""
    usual, own = accounts[points.usual], accounts[chosen]
    found = [_bound("The usual choice", usual)]
    if chosen == points.usual:
        found.append("No trial took fewer cycles.")
    else:
        found += [*_changes(usual, own), _bound("What was chosen", own)]
    options = worth(points, chosen, trials, "cycles", "simulated")
    levels = _levels(points, trials)
    return [*found, *options, *levels, *_queues(points, chosen, trials, accounts)]


def _bound(whose: str, account: Account) -> str:
    """What both units spend most on."""
    (core, of_core), (access, of_access) = account.most("core"), account.most("access")
    return (
        f"{whose} takes {account.cycles:,.0f} cycles: of these, the core spends most on {_noun(core)} ({of_core:.0%}),"
        f" and for {of_access:.0%} {access}."
    )


def _noun(what: str) -> str:
    return "waiting for the queue to fill" if what == STARVES else what


def _changes(usual: Account, own: Account) -> list[str]:
    """What the core spends less on, and more, in shares of the usual point's cycles."""
    differences = {what: own.core[what] - usual.core[what] for what in usual.core}
    told = sorted(
        (each for each in differences.items() if abs(each[1]) > NAMED * usual.cycles), key=lambda each: each[1]
    )
    less = [f"{_noun(what)} {-by:,.0f}" for what, by in told if by < 0]
    more = [f"{_noun(what)} {by:,.0f}" for what, by in told if by > 0]
    found = []
    if less:
        found.append(f"Of the core's cycles it saves: {', '.join(less)}.")
    if more:
        found.append(f"It spends more on: {', '.join(more)}.")
    return found


def _levels(points: Points, trials: Trials) -> list[str]:
    """The fastest that was simulated at each level."""
    least: dict[Value, float] = {}
    for point in trials.order:
        if "opt" in (at := points.at(point)) and np.isfinite(trials.times[point]):
            least[at["opt"]] = min(least.get(at["opt"], np.inf), trials.times[point])
    if len(least) < 2:
        return []
    shown = ", ".join(f"opt {printed_value(level)} {cycles:,.0f}" for level, cycles in sorted(least.items()))
    return [f"The fewest cycles that were simulated at each level: {shown}."]


def _queues(points: Points, chosen: int, trials: Trials, accounts: Mapping[int, Account]) -> list[str]:
    """What other sizes of the queues take, all else being as it was chosen."""
    found, own, usual = [], points.at(chosen), points.at(points.usual)
    for key in (gene.key for gene in points.genes if gene.key.startswith(MACHINE)):
        name, size = key.removeprefix(MACHINE), own[key]
        others = {each: cycles for each, cycles in _beside(points, chosen, trials, key).items() if each != size}
        told = f"{name} stays {size:,}" if size == usual[key] else f"{name} is {size:,} instead of {usual[key]:,}"
        if others:
            told += ", the smallest simulated that costs at most 1 % of the cycles: "
            told += ", ".join(f"{each:,} takes {cycles:,.0f}" for each, cycles in sorted(others.items()))
        held = f" The data queue held {accounts[chosen].peak_bytes:,} bytes at the most." if "bytes" in name else ""
        found.append(f"{told}.{held}")
    return found


def _beside(points: Points, chosen: int, trials: Trials, key: str) -> dict[Value, float]:
    """By value of a gene what was simulated to take so many cycles, all else being as it was chosen."""
    own, found = points.at(chosen), dict[Value, float]()
    for point in trials.order:
        at = points.at(point)
        if at.keys() == own.keys() and all(at[other] == own[other] for other in own if other != key):
            found[at[key]] = trials.times[point]
    return {value: cycles for value, cycles in found.items() if np.isfinite(cycles)}
