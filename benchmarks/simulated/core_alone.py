"""The core alone beside what Ember publishes of such a core: Figure 3, which it is fitted to, and Figures 4 and 6,
which are held out. Nothing here is measured.

Sparse times dense products of 256 columns on one core, one vector of 16 lanes a step. Rows have the degrees of samples
of the four graphs; columns have the reuse that follows from Figures 3c and 3d: of the lines that loads ask for, the
share that the memory does not bring, within as many rows as a megabyte holds.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from explorer.checkout import CHECKOUT
from explorer.compiler.ir.access.dlc import DlcProgram
from explorer.compiler.ir.module import Module
from explorer.machine.parameters import LINE_WORDS, MachineParameters
from explorer.runtime.data.locality import stack_mix
from explorer.runtime.data.matrices import matrix
from explorer.runtime.run import RunRequest, compile_request
from explorer.runtime.runs.simulate import GENERAL, VECTORISED, decoupled
from explorer.runtime.targets import dae

EXAMPLE = CHECKOUT / "examples" / "embedding" / "spmm.emb"
WIDTH = 256
COLUMNS = 32_768
"""So that the table, of 32 MiB, is far larger than the caches and the pages that are known."""
SAMPLES = {"arxiv": 40, "mag": 600, "products": 2000, "proteins": 1200}
"""One row in so many, which leaves about 30 thousand entries each."""

IN_FLIGHT = {"arxiv": 10.0, "mag": 12.0, "products": 19.0, "proteins": 10.0}
"""Fig. 3b: requests of a core."""
LINES_A_CYCLE = {"arxiv": 0.06, "mag": 0.05, "products": 0.05, "proteins": 0.11}
"""Fig. 3c, in hundredths."""
MEMORY_PERCENT = {"arxiv": 1.8, "mag": 2.0, "products": 2.4, "proteins": 1.4}
"""Fig. 3d: of 300 GB/s."""
DOUBLED = 1.12
"""Fig. 4: the most that doubling the reorder buffer, the load-store queue and the miss registers gains."""
DECOUPLED = {"arxiv": 5.9, "mag": 6.7, "products": 8.3, "proteins": 3.1}
"""Fig. 6b: requests a second and watt of a core with an access unit, which takes 2 % more power, over one without."""

WALKS = tuple(range(200, 401, 10))
PREFETCHES = (0, 1, 2, 4, 8)


def reuse_of(graph: str) -> float:
    """The share of lines that caches bring, by Figures 3c and 3d at 2.4 GHz."""
    asked = LINES_A_CYCLE[graph] * 64 * 2.4
    return 1 - MEMORY_PERCENT[graph] / 100 * 300 / asked


@cache
def inputs(graph: str) -> dict[str, Any]:
    """The arrays of the product."""
    random = np.random.default_rng(zlib.crc32(graph.encode()))
    rows = matrix(graph, SAMPLES[graph], COLUMNS)
    return {
        "row_ptr": rows.ptr,
        "col": stack_mix(random, rows.num_entries, COLUMNS, reuse_of(graph)),
        "value": np.ones(rows.num_entries, np.float32),
        "X": np.ones((COLUMNS, WIDTH), np.float32),
    }


@cache
def program(level: int) -> DlcProgram | Module:
    """The product as it is at a level."""
    options = {**GENERAL, **VECTORISED, "opt": level}
    request = RunRequest(text=EXAMPLE.read_text(), on="dae", data="arxiv/100", sizes={"D": WIDTH}, options=options)
    return decoupled(compile_request(request))


def simulated(graph: str, parameters: MachineParameters) -> dict[str, float]:
    """Figures 3b and 3c of the core alone on a graph, the memory's share (3d), and its cycles."""
    found = dae.simulate(program(1), inputs(graph), parameters, core_alone=True).account["core_alone"]
    cycles = found["cycles"]
    lines = len(inputs(graph)["col"]) * WIDTH / LINE_WORDS
    return {
        "in_flight": found["miss_cycles"] / cycles,
        "lines_a_cycle": lines / cycles,
        "memory_percent": 100 * found["hbm_bytes"] / cycles * parameters.core_ghz / 300,
        "cycles": cycles,
    }


def longer(graph: str) -> dict[str, float]:
    """Figure 3a: loads of the core alone that take over so many times the L1D's latency, over the lines that rows have;
    what is added to lies in the L1D."""
    found = dae.simulate(program(1), inputs(graph), MachineParameters(), core_alone=True).account["core_alone"]
    lines = len(inputs(graph)["col"]) * WIDTH / LINE_WORDS
    return {times: count / lines for times, count in found["longer"].items()}


def memory_percent_decoupled(graph: str) -> float:
    """The share of the memory that a core with an access unit uses, which Figure 6c has over Figure 3d."""
    rates = dae.simulate(program(3), inputs(graph), MachineParameters()).account["rates"]
    return float(100 * rates["hbm_gbs"] / 300)


def fit_error(parameters: MachineParameters) -> float:
    """Root mean square of the logarithms of Figures 3b and 3c over those simulated."""
    logarithms = []
    for graph in SAMPLES:
        found = simulated(graph, parameters)
        logarithms.append(math.log(found["in_flight"] / IN_FLIGHT[graph]))
        logarithms.append(math.log(found["lines_a_cycle"] / LINES_A_CYCLE[graph]))
    return math.sqrt(sum(error * error for error in logarithms) / len(logarithms))


def fit(base: MachineParameters) -> dict[str, float]:
    """The walk and the prefetched lines, of WALKS and PREFETCHES, with the least error; all else is as in `base`."""

    def error(walk: int, lines: int) -> float:
        return fit_error(replace(base, walk_cycles=float(walk), prefetch_lines=lines))

    best = {lines: _least(lambda walk, lines=lines: error(walk, lines)) for lines in PREFETCHES}  # type: ignore[misc]
    lines = min(best, key=lambda lines: error(best[lines], lines))
    return {"walk_cycles": float(best[lines]), "prefetch_lines": lines}


def _least(error: Any) -> int:
    """The walk of the least error, where it falls and then rises."""
    errors: dict[int, float] = {}

    def at(place: int) -> float:
        return errors.setdefault(place, error(WALKS[place]))

    low, high = 0, len(WALKS) - 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if at(middle) <= at(middle + 1) else (middle + 1, high)
    return WALKS[low]


def statements(parameters: MachineParameters) -> list[dict[str, Any]]:
    """What is published of the core, and what is simulated: by graph, with how it was used."""
    cores = {graph: simulated(graph, parameters) for graph in SAMPLES}
    doubled = replace(
        parameters,
        rob_entries=2 * parameters.rob_entries,
        lsq_entries=2 * parameters.lsq_entries,
        l1_mshrs=2 * parameters.l1_mshrs,
    )
    gains = {graph: cores[graph]["cycles"] / simulated(graph, doubled)["cycles"] for graph in SAMPLES}
    units = {graph: dae.simulate(program(3), inputs(graph), parameters).account["cycles"] for graph in SAMPLES}
    speeds = {graph: cores[graph]["cycles"] / units[graph] for graph in SAMPLES}
    most = dict.fromkeys(SAMPLES, DOUBLED)
    return [
        _statement("Fig. 3b, requests in flight", "fitted", IN_FLIGHT, _column(cores, "in_flight")),
        _statement("Fig. 3c, lines a cycle", "fitted", LINES_A_CYCLE, _column(cores, "lines_a_cycle")),
        _statement("Fig. 3d, % of the memory", "gives the reuse", MEMORY_PERCENT, _column(cores, "memory_percent")),
        _statement("Fig. 4, doubled, at most", "held out", most, gains),
        _statement("Fig. 6b, over the core alone", "held out", DECOUPLED, speeds),
    ]


def _column(cores: Mapping[str, Mapping[str, float]], name: str) -> dict[str, float]:
    return {graph: core[name] for graph, core in cores.items()}


def _statement(name: str, use: str, published: Mapping[str, float], found: Mapping[str, float]) -> dict[str, Any]:
    return {
        "statement": name,
        "use": use,
        "published": dict(published),
        "simulated": {graph: round(value, 4) for graph, value in found.items()},
        "errors": {graph: round(found[graph] / published[graph] - 1, 3) for graph in published},
        "source": "simulated",
    }


def table(rows: list[dict[str, Any]]) -> list[str]:
    """A line for each statement: by graph, published, simulated, error."""
    lines = [f"{'the core alone (one core, SpMM 256 wide)':40} {'use':16} " + "".join(f"{g:>24}" for g in SAMPLES)]
    for row in rows:
        cells = "".join(
            f"{row['published'][g]:>9g} {row['simulated'][g]:>7.3g} {row['errors'][g]:>+6.0%}" for g in SAMPLES
        )
        lines.append(f"{row['statement']:40} {row['use']:16} {cells}")
    return [*lines, "by graph: published, simulated, error; columns have the reuse that follows from Fig. 3c and 3d"]
