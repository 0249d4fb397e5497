"""The calibrated parameters of the simulated machine, fitted anew. Nothing here is measured.

`explorer bench calibrate [--json]`. The sum of bags is compiled at every level and simulated on the sizes of Ember's
Table 3 with uniform lookups; `explorer.machine.calibration` says what is fitted to which published numbers. What the
core alone is assumed to do besides is fitted to Ember's Figure 3 (`benchmarks.simulated.core_alone`). The parameters
printed are those that explorer/machine/parameters.py carries: after a change to the machine or to the programs, copy
them there.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.dae import prepared
from benchmarks.simulated import core_alone
from explorer.compiler.ir.access.dlc import DlcProgram
from explorer.compiler.ir.module import Module
from explorer.machine.calibration import PUBLISHED, Calibration, Cases, calibrate
from explorer.machine.parameters import MachineParameters
from explorer.runtime.run import RunRequest, compile_request
from explorer.runtime.runs.simulate import decoupled

EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "embedding" / "sls.emb"
LEVELS = (0, 1, 2, 3)


def main(argv: Sequence[str]) -> int:
    """Prints the table, or with --json one object."""
    parser = argparse.ArgumentParser(prog="explorer bench calibrate", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args(argv)
    found = calibrate(cases(), MachineParameters())
    core = core_alone.fit(MachineParameters())
    shown = f"{table(found)}\n\n{core_table(core)}"
    print(json.dumps(figures(found) | {"core_alone": core}) if arguments.json else shown)
    return 0


def cases() -> Cases:
    """The programs of all levels, on the bags of the three models with low locality."""
    made = {}
    for model in PUBLISHED:
        run = prepared(RunRequest(text=EXAMPLE.read_text(), on="dae", data=f"{model}:L0"))
        for level in LEVELS:
            compilation = compile_request(replace(run.request, options={"opt": level}))
            made[(model, level)] = (_only(decoupled(compilation)), run.inputs())
    return made


def _only(program: DlcProgram | Module) -> DlcProgram:
    """The one kernel of the op."""
    programs = (program,) if isinstance(program, DlcProgram) else program.programs
    (kernel,) = programs
    assert isinstance(kernel, DlcProgram)
    return kernel


def figures(found: Calibration) -> dict[str, Any]:
    """What was fitted, and how well."""
    return {
        "source": "simulated",
        "parameters": found.parameters,
        "published": PUBLISHED,
        "ratios": found.ratios,
        "errors": _spread(found, found.ratios),
        "left_out": found.left_out,
        "left_out_errors": _spread(found, found.left_out),
    }


def _spread(found: Calibration, ratios: Mapping[str, Sequence[float]]) -> dict[str, float]:
    errors = [abs(error) for error in found.errors(ratios)]
    return {"mean": sum(errors) / len(errors), "max": max(errors)}


def core_table(found: Mapping[str, float]) -> str:
    """The parameters of the core alone that are fitted to Ember's Figure 3."""
    carried = MachineParameters().values()
    rows = [f"{name:<20} {value:<9g} {carried[name]:g}" for name, value in found.items()]
    return "\n".join(["core alone           fitted    carried", *rows])


def table(found: Calibration) -> str:
    """The parameters, then the ratios beside the published ones."""
    carried = MachineParameters().values()
    lines = ["parameter            fitted    carried"]
    lines += [f"{name:<20} {value:<9g} {carried[name]:g}" for name, value in found.parameters.items()]
    lines += ["", "speed over opt0      published  fitted  without it"]
    for model, want in PUBLISHED.items():
        for level, (published, got, predicted) in enumerate(
            zip(want, found.ratios[model], found.left_out[model], strict=True), start=1
        ):
            lines.append(
                f"{model} opt{level}             {published:>9.2f} {got:>7.2f} {got / published - 1:+.1%} "
                f"{predicted:>7.2f} {predicted / published - 1:+.1%}"
            )
    for name, ratios in (("fitted", found.ratios), ("one model left out", found.left_out)):
        spread = _spread(found, ratios)
        lines.append(f"{name}: mean {spread['mean']:.2%}, max {spread['max']:.2%}")
    return "\n".join(lines)
