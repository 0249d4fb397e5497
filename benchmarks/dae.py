"""Ember's operations on the simulated machine, at every level (Ember, Figures 7, 16 and 18). Nothing here is measured.

`explorer bench dae [--only SLS] [--json]`. Cycles are simulated by one core with its access unit; every result is
checked against the float64 reference. Of the ratios, those of SLS with low locality are the ones that the machine's
costs are calibrated on; all others are predictions. Graphs are generated, and samples of rows, as their names say
(/100: one row in a hundred, whole), so their absolute cycles compare with nothing.

The core alone is an assumed baseline with a clock: vectorised code of 16 lanes at one end of the range, scalar code at
the other. What is published of such a core stands below the table, with what was fitted and what was held out.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.simulated import by_hand, core_alone
from explorer.machine.parameters import MachineParameters
from explorer.runtime.data.bags import BAG_PRESETS
from explorer.runtime.run import FAMILIES, RunRequest, compile_request
from explorer.runtime.runs import basis
from explorer.runtime.runs.request import Setup
from explorer.runtime.runs.simulate import CORES, decoupled
from explorer.runtime.targets import dae

CHECKOUT = Path(__file__).resolve().parents[1]
LEVELS = (0, 1, 2, 3)
DEVICE = "simulated machine: one core with an access unit (Ember Fig. 5)"
PUBLISHED: dict[str, tuple[float, ...]] = {
    "RM1:L0": (3.96, 5.65, 6.53),
    "RM2:L0": (5.38, 9.04, 11.88),
    "RM3:L0": (6.08, 13.56, 21.17),
}
"""Speed of opt1, opt2 and opt3 over opt0, from the figure scripts of Ember's artifact: what the costs are fitted to."""
FILTERED = (0.50, 0.65)
"""Ember §8.2: the share of accesses to the last-level cache that reading blocks by L2 filters, indices included."""


@dataclass(frozen=True)
class Case:
    """An example on data; `options` apply at the last level only, as a row of their own. `divided` is what caches and
    the table of pages are divided by, where a sample's table is so much smaller than the whole and fits them."""

    group: str
    example: str
    data: str
    options: dict[str, str | int | bool] = field(default_factory=dict)
    divided: int = 1

    @property
    def parameters(self) -> MachineParameters:
        """The machine that it runs on."""
        caches = ("l1_kib", "l2_kib", "llc_kib", "tlb_entries")
        whole = MachineParameters()
        least = {entry.name: entry.metadata["least"] for entry in fields(whole)}
        return replace(whole, **{n: max(least[n], round(getattr(whole, n) / self.divided)) for n in caches})


MP_GRAPHS = {"com-Youtube/100": 100, "roadNet-CA/100": 1, "web-Google/100": 100, "wiki-Talk/100": 100}
"""What is near in roadNet-CA is a neighbour by number, as near in a sample as in the whole."""
GNN_GRAPHS = {"arxiv/20": 20, "mag/200": 200, "products/300": 300, "proteins/50": 50}
SAMPLED = (
    "graphs are samples: the machine's cycles an edge are the whole's to 0.1 % (arxiv whole; MP's /100 against /20)."
    " The core alone takes 6 % more than on the whole of arxiv, and an estimated 20 to 33 % more on com-Youtube"
)
"""What `benchmarks/NOTES.md` has under "Samples of graphs"."""
BLOCKS = ("BigBird:1", "BigBird:2", "BigBird:4", "BigBird:8")
CASES = (
    *(Case("SLS", "sls", data) for data in BAG_PRESETS),
    *(Case("MP", "mp", data, divided=divided) for data, divided in MP_GRAPHS.items()),
    *(Case("SpMM", "spmm", data, divided=divided) for data, divided in GNN_GRAPHS.items()),
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
    statements = core_alone.statements(MachineParameters())
    figures = {
        "source": "simulated",
        "device": DEVICE,
        "date": datetime.now(UTC).date().isoformat(),
        "cases": rows,
        "core_alone": {"basis": basis.ASSUMED_BASELINE, "statements": statements},
    }
    written = by_hand.rows(arguments.only)
    if arguments.json:
        print(json.dumps({**figures, "written": written, "published": by_hand.PUBLISHED}))
    else:
        print("\n\n".join([table(figures), *([by_hand.table(written)] if written else [])]))
    return 0 if all(row["matches_reference"] for row in (*rows, *written)) else 1


def simulate(case: Case) -> list[dict[str, Any]]:
    """The rows of a case: its levels, and where it has options a second one with them."""
    machine = set_up(case)
    codes = {options["opt"] for options in CORES.values()}
    accounts = {f"opt{level}": machine.account({"opt": level}, alone=level in codes) for level in LEVELS}
    alone = {name: accounts[f"opt{options['opt']}"]["core_alone"]["cycles"] for name, options in CORES.items()}
    rows = [_row(case, accounts, alone, machine.right)]
    if case.options:
        own = machine.account({"opt": LEVELS[-1], **case.options})
        shown = replace(case, group=f"{case.group} + {' + '.join(case.options)}")
        rows.append(_row(shown, {**accounts, f"opt{LEVELS[-1]}": own}, alone, machine.right))
    return rows


def set_up(case: Case) -> OnMachine:
    """A case before its first simulation."""
    text = (CHECKOUT / "examples" / "embedding" / f"{case.example}.emb").read_text()
    return OnMachine(RunRequest(text=text, on="dae", data=case.data), case.parameters)


def prepared(request: RunRequest) -> Setup:
    """A run that is set up: what the programs read, and what they must give."""
    compilation = compile_request(request)
    steps = import_module(f"explorer.runtime.runs.{FAMILIES[compilation.family]}").prepare(request, compilation)
    try:
        while True:
            next(steps)
    except StopIteration as done:
        setup: Setup = done.value
        return setup


class OnMachine:
    """A model on data, with what it must give: simulated as often as asked; remembers whether all were right."""

    def __init__(self, request: RunRequest, parameters: MachineParameters) -> None:
        self.run = prepared(request)
        self.inputs = self.run.inputs()
        self.right = True
        self._parameters = parameters

    def account(
        self, options: Mapping[str, str | int | bool], *, alone: bool = False, throughput: bool = False
    ) -> dict[str, Any]:
        """The account with these options, `alone` with that of a core alone, `throughput` as `dae.simulate`."""
        compilation = compile_request(replace(self.run.request, options=dict(options)))
        found = dae.simulate(
            decoupled(compilation), self.inputs, self._parameters, core_alone=alone, throughput=throughput
        )
        self.right &= self.run.check(self.run.finished(found.output, {})[0]).matches
        return found.to_json()


def _row(
    case: Case, accounts: Mapping[str, Mapping[str, Any]], alone: Mapping[str, float], right: bool
) -> dict[str, Any]:
    cycles = {name: float(account["cycles"]) for name, account in accounts.items()}
    last = cycles[f"opt{LEVELS[-1]}"]
    return {
        "operation": case.group,
        "data": case.data,
        "matches_reference": right,
        "cycles": cycles,
        "speedup_over_opt0": {name: round(cycles["opt0"] / value, 2) for name, value in cycles.items()},
        "speedup_over_core_alone": {name: round(value / last, 2) for name, value in alone.items()},
        "l3_accesses_per_kiloelement": accounts[f"opt{LEVELS[-1]}"]["rates"]["l3_accesses_per_kiloelement"],
        "basis": "calibrated" if case.data in PUBLISHED else basis.PREDICTED,
        "published": PUBLISHED.get(case.data),
    }


def table(figures: dict[str, Any]) -> str:
    """The rows, a line each, then what they rest on."""
    lines = [
        f"{figures['source']} on {figures['device']}, {figures['date']}",
        f"{'operation':36} {'data':16} {'cycles at opt0':>14} {'opt1':>6} {'opt2':>6} {'opt3':>6} {'over a core':>14}",
    ]
    for row in figures["cases"]:
        ratios, alone = row["speedup_over_opt0"], row["speedup_over_core_alone"]
        shown = " ".join(f"{ratios[f'opt{level}']:6.2f}" for level in LEVELS[1:])
        published = f" (published: {', '.join(map(str, row['published']))})" if row["published"] else ""
        lines.append(
            f"{row['operation']:36} {row['data']:16} {row['cycles']['opt0']:14,.0f} {shown}"
            f" {' to '.join(f'{ratio:.2f}' for ratio in alone.values()):>14}  {row['basis']}{published}"
            f"{'' if row['matches_reference'] else '  WRONG'}"
        )
    lines.append("opt1 to opt3: speed over opt0, of what the last column says")
    lines.append(f"over a core: speed of opt3 over vectorised and over scalar code on a core: {basis.ASSUMED_BASELINE}")
    lines.append(SAMPLED)
    return "\n".join(
        [*lines, *_filter_table(figures["cases"]), "", *core_alone.table(figures["core_alone"]["statements"])]
    )


def _filter_table(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """What reading blocks by L2 filters (Fig. 18), by block size."""
    plain = {row["data"]: row["l3_accesses_per_kiloelement"] for row in rows if row["operation"] == "SpAttn"}
    hinted = {
        row["data"]: row["l3_accesses_per_kiloelement"] for row in rows if row["operation"].startswith("SpAttn +")
    }
    if not plain:
        return []
    lines = ["", "accesses to the last-level cache per kilo-element of Ember's result, which holds a key once a query"]
    for data, accesses in plain.items():
        copies = int(data.partition(":")[2])
        lines.append(
            f"{data:16} {accesses / copies:7.2f} without hints, {hinted[data] / copies:6.2f} with:"
            f" {1 - hinted[data] / accesses:.0%} filtered (published: {FILTERED[0]:.0%} to {FILTERED[1]:.0%}, held out)"
        )
    return lines
