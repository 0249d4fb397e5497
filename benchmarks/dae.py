"""Ember's operations on the simulated machine, at every level (Ember, Figures 7 and 16). Nothing here is measured.

`explorer bench dae [--only SLS] [--json]`. Cycles are simulated by one core with its access unit; every result is
checked against the float64 reference. Of the ratios, those of SLS with low locality are the ones that the machine's
costs are calibrated on; all others are predictions. Graphs are generated and scaled down, as their names say (/500: a
500th of the vertices and edges), so their absolute cycles compare with nothing.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks import _dae_written
from explorer.machine.parameters import MachineParameters
from explorer.runtime import dae
from explorer.runtime.bags import BAG_PRESETS
from explorer.runtime.dae_run import decoupled
from explorer.runtime.run import RunRequest, compile_request, execute
from explorer.runtime.run_op import prepare

CHECKOUT = Path(__file__).resolve().parents[1]
LEVELS = (0, 1, 2, 3)
DEVICE = "simulated machine: one core with an access unit (Ember Fig. 5)"
PUBLISHED: dict[str, tuple[float, ...]] = {
    "RM1:L0": (3.96, 5.65, 6.53),
    "RM2:L0": (5.38, 9.04, 11.88),
    "RM3:L0": (6.08, 13.56, 21.17),
}
"""Speed of opt1, opt2 and opt3 over opt0, from the figure scripts of Ember's artifact: what the costs are fitted to."""


@dataclass(frozen=True)
class Case:
    """An example on data; `options` apply at the last level only, as a row of their own."""

    group: str
    example: str
    data: str
    options: dict[str, str | int | bool] = field(default_factory=dict)


MP_GRAPHS = ("com-Youtube/500", "roadNet-CA/500", "web-Google/500", "wiki-Talk/500")
GNN_GRAPHS = ("arxiv/100", "mag/1000", "products/5000", "proteins/1000")
BLOCKS = ("BigBird:1", "BigBird:2", "BigBird:4", "BigBird:8")
CASES = (
    *(Case("SLS", "sls", data) for data in BAG_PRESETS),
    *(Case("MP", "mp", data) for data in MP_GRAPHS),
    *(Case("SpMM", "spmm", data) for data in GNN_GRAPHS),
    Case("KG", "kg_lookup", "BioKG"),
    *(Case("SpAttn", "spattn", data, {"store_streams": True, "level_hints": True}) for data in BLOCKS),
)


def main(argv: Sequence[str]) -> int:
    """Prints a table, or with --json one object; status 1 where a result is wrong."""
    parser = argparse.ArgumentParser(prog="explorer bench dae", description=__doc__)
    parser.add_argument("--only", choices=sorted({case.group for case in CASES}), help="one group of operations")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args(argv)
    cases = [case for case in CASES if arguments.only in (None, case.group)]
    rows = [row for case in cases for row in simulate(case)]
    figures = {"source": "simulated", "device": DEVICE, "date": datetime.now(UTC).date().isoformat(), "cases": rows}
    written = _dae_written.rows(arguments.only)
    if arguments.json:
        print(json.dumps({**figures, "written": written, "published": _dae_written.PUBLISHED}))
    else:
        print("\n\n".join([table(figures), *([_dae_written.table(written)] if written else [])]))
    return 0 if all(row["matches_reference"] for row in (*rows, *written)) else 1


def simulate(case: Case) -> list[dict[str, Any]]:
    """The rows of a case: its levels, and where it has options a second one with them."""
    text = (CHECKOUT / "examples" / "embedding" / f"{case.example}.emb").read_text()
    request = RunRequest(text=text, on="dae", data=case.data)
    if compile_request(request).family == "score":
        return [_row(case, *_score_cycles(request))]
    simulated = _OpOnMachine(request)
    cycles = {f"opt{level}": simulated.cycles(opt=level) for level in LEVELS}
    core_alone = simulated.core_alone
    rows = [_row(case, cycles, core_alone, simulated.right)]
    if case.options:
        own = simulated.cycles(opt=LEVELS[-1], **case.options)
        shown = replace(case, group=f"{case.group} + {' + '.join(case.options)}")
        rows.append(_row(shown, {**cycles, f"opt{LEVELS[-1]}": own}, core_alone, simulated.right))
    return rows


class _OpOnMachine:
    """An op on lists, with what it must give: simulated as often as asked."""

    def __init__(self, request: RunRequest) -> None:
        steps = prepare(request, compile_request(request))
        try:
            while True:
                next(steps)
        except StopIteration as prepared:
            self.run = prepared.value
        self.inputs = self.run.inputs()
        self.right = True
        self.core_alone = 0.0

    def cycles(self, **options: str | int | bool) -> float:
        """The cycles with these options; remembers this program on the core alone, and whether all were right."""
        compilation = compile_request(replace(self.run.request, options=options))
        found = dae.simulate(decoupled(compilation), self.inputs, MachineParameters(), core_alone=True)
        self.right &= self.run.check(self.run.finished(found.output, {})[0]).matches
        account = found.to_json()
        self.core_alone = account["core_alone"]["cycles"]
        return float(account["cycles"])


def _score_cycles(request: RunRequest) -> tuple[dict[str, float], float | None, bool]:
    """The cycles of a batch of triples at each level; the core alone where the run tells it."""
    cycles: dict[str, float] = {}
    alone, right = None, True
    for level in LEVELS:
        last = list(execute(replace(request, options={"opt": level})))[-1]
        right &= bool(last.get("matches_reference"))
        cycles[f"opt{level}"] = float(last.get("cycles") or 0.0)
        alone = (last.get("core_alone") or {}).get("cycles")
    return cycles, alone, right


def _row(case: Case, cycles: dict[str, float], core_alone: float | None, right: bool) -> dict[str, Any]:
    last = cycles[f"opt{LEVELS[-1]}"]
    return {
        "operation": case.group,
        "data": case.data,
        "matches_reference": right,
        "cycles": cycles,
        "speedup_over_opt0": {name: round(cycles["opt0"] / value, 2) for name, value in cycles.items() if value},
        "speedup_over_core_alone": round(core_alone / last, 2) if core_alone and last else None,
        "basis": "calibrated" if case.data in PUBLISHED else "prediction",
        "published": PUBLISHED.get(case.data),
    }


def table(figures: dict[str, Any]) -> str:
    """The rows, a line each."""
    lines = [
        f"{figures['source']} on {figures['device']}, {figures['date']}",
        f"{'operation':38} {'data':16} {'cycles at opt0':>14} {'opt1':>6} {'opt2':>6} {'opt3':>6} {'alone':>6}",
    ]
    for row in figures["cases"]:
        ratios = row["speedup_over_opt0"]
        shown = " ".join(f"{ratios.get(f'opt{level}', 0):6.2f}" for level in LEVELS[1:])
        alone = row["speedup_over_core_alone"]
        published = f" (published: {', '.join(map(str, row['published']))})" if row["published"] else ""
        lines.append(
            f"{row['operation']:38} {row['data']:16} {row['cycles']['opt0']:14,.0f} {shown}"
            f" {'' if alone is None else f'{alone:.2f}':>6}  {row['basis']}{published}"
            f"{'' if row['matches_reference'] else '  WRONG'}"
        )
    return "\n".join([*lines, "opt1 to opt3: speed over opt0; alone: speed of opt3 over the core without access unit"])
