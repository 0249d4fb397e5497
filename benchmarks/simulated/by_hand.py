"""Compiled programs beside those that a person wrote, on the simulated machine (Ember, Figure 19)."""

from __future__ import annotations

from typing import Any

from explorer.checkout import CHECKOUT
from explorer.runtime.run import RunRequest, execute

CASES = (
    ("SLS", "sls", ("RM1:L0", "RM2:L0", "RM3:L0")),
    ("MP", "mp", ("com-Youtube/500", "roadNet-CA/500", "web-Google/500", "wiki-Talk/500")),
)
"""The operation, its example, of which there is a `.dlc` too, and the data."""
PUBLISHED = "published, Ember's Figure 19: emb-opt3 has 99 % of the speed of ref-dae, the geometric mean of all classes"
UNLIKE = (
    "ref-dae itself is not to be had; Ember's is emb-opt3 with callbacks that cost up to 5 % less. The programs here go"
    " further: SLS has four rows side by side in a record, MP two, and MP takes a factor out of a sum."
)


def rows(only: str | None) -> list[dict[str, Any]]:
    """A row for each case of a group, or of all: the cycles of both programs, each checked against float64."""
    return [_row(group, name, data) for group, name, all_data in CASES if only in (None, group) for data in all_data]


def _row(group: str, name: str, data: str) -> dict[str, Any]:
    folder = CHECKOUT / "examples" / "embedding"
    model, program = ((folder / f"{name}.{ending}").read_text() for ending in ("emb", "dlc"))
    last = list(execute(RunRequest(text=model, on="dae", data=data, written=program)))[-1]
    right = bool(last.get("matches_reference"))
    ratio = last["speedup_over"]["compiled"] if right else None
    return {
        "operation": group,
        "data": data,
        "sizes": last.get("sizes", {}),
        "matches_reference": right,
        "source": "simulated",
        "by_hand_cycles": last["cycles"] if right else None,
        "compiled_cycles": last["cycles"] * ratio if right else None,
        "compiled_speed_of_by_hand": 1 / ratio if right else None,
    }


def table(found: list[dict[str, Any]]) -> str:
    """The rows, a line each."""
    lines = [
        "compiled beside written by hand (examples/embedding/*.dlc), simulated cycles",
        f"{'operation':10} {'data':16} {'sizes':10} {'compiled':>12} {'by hand':>12} {'speed of compiled':>18}",
    ]
    for row in found:
        sizes = ", ".join(f"{name} = {size}" for name, size in row["sizes"].items())
        figures = "WRONG"
        if row["matches_reference"]:
            speed = f"{row['compiled_speed_of_by_hand']:.0%} of by hand"
            figures = f"{row['compiled_cycles']:12,.0f} {row['by_hand_cycles']:12,.0f} {speed:>18}"
        lines.append(f"{row['operation']:10} {row['data']:16} {sizes:10} {figures}")
    return "\n".join([*lines, PUBLISHED, UNLIKE])
