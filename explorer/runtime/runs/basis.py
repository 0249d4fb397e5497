"""What simulated figures rest on: "calibrated", "predicted, expected error x %", or "assumed"."""

from __future__ import annotations

from explorer.machine.parameters import CALIBRATED, MachineParameters

EXPECTED_ERROR = 0.06
"""Of a speed over opt0: the most by which the fit misses the sum of bags of a size that it was not shown
(`explorer bench calibrate`)."""
PREDICTED = f"predicted, expected error {EXPECTED_ERROR:.0%}"
ASSUMED_BASELINE = (
    "assumed baseline, not comparable with the paper's Figure 7, because it says neither how its code was compiled nor"
    " what a far row costs its core"
)


def of_speedup(parameters: MachineParameters) -> str:
    """What the speed over opt0 rests on: on the machine as calibrated, or on one that was changed."""
    described = parameters.describe()
    default = MachineParameters().describe()
    changed = [name for name, entry in described.items() if entry["value"] != default[name]["value"]]
    costs = [name for name in changed if default[name]["source"] == CALIBRATED]
    if costs:
        return f"assumed: {', '.join(costs)} set for this run, not calibrated"
    return f"{PREDICTED}, beside {', '.join(changed)} set for this run" if changed else PREDICTED


def of_run(parameters: MachineParameters) -> dict[str, str]:
    """By figure of a run, what it rests on."""
    return {
        "cycles": "assumed scale: nothing published fixes absolute cycles, only their ratios between levels",
        "opt0": of_speedup(parameters),
        "core_alone": ASSUMED_BASELINE,
    }
