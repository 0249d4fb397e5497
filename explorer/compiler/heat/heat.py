"""Where the time of a compilation goes, as JSON: by operation, and by instruction where that has been measured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import Any

from explorer.compiler.compilation import Compilation
from explorer.compiler.effects.figures import Predicted
from explorer.compiler.heat.measured import Measured, measured
from explorer.compiler.heat.predicted import counted_on, device_of, predicted_costs, target_of

Json = dict[str, Any]
MACHINE_CODE = "sass"
"""The stage whose lines samples are of."""


def heat_json(compilation: Compilation, stages: Collection[str] = ()) -> Json:
    """What each operation takes by published figures, by its number, and its share of all, one after another; None in
    the place of the figures where nobody knows how many rows there are. Where the machine code is among the `stages`,
    what was measured of its kernels as well; None where nothing was."""
    found = measured(compilation.stages[MACHINE_CODE].lines) if MACHINE_CODE in stages else None
    return {
        "counted": counted_on(compilation),
        "device": device_of(target_of(compilation)),
        "predicted": _predicted_json(compilation),
        "measured": _measured_json(compilation, found) if found else None,
    }


def _predicted_json(compilation: Compilation) -> Json | None:
    costs = predicted_costs(compilation)
    if costs is None:
        return None
    return {
        "seconds": costs.seconds,
        "operations": {
            str(operation.id): _cost_json(costs.operations[operation.span], costs.seconds)
            for operation in compilation.operations
        },
        "rest": _cost_json(costs.rest, costs.seconds),
    }


def _cost_json(cost: Predicted, whole: float) -> Json:
    return {
        "flop": cost.flop,
        "bytes": cost.bytes,
        "seconds": cost.seconds,
        "limit": cost.limit,
        "share": cost.seconds / whole if whole else 0.0,
    }


def _measured_json(compilation: Compilation, found: Measured) -> Json:
    """The samples by line of the machine code and by operation, with what they are shares of."""
    numbers = {operation.span: operation.id for operation in compilation.operations}
    own = {numbers[span]: reasons for span, reasons in found.operations.items() if span in numbers}
    return {
        "labels": list(dict.fromkeys(recording.label for _, recording in found.kernels)),
        "kernels": [kernel.symbol for kernel, _ in found.kernels],
        "samples": found.total,
        "operations": {str(number): _samples_json(reasons, found.total) for number, reasons in own.items()},
        "lines": {str(line): _samples_json(reasons, found.total) for line, reasons in found.lines.items()},
        "rest": _samples_json(found.rest, found.total),
    }


def _samples_json(reasons: Counter[str], whole: int) -> Json:
    count = reasons.total()
    return {"samples": count, "share": count / whole if whole else 0.0, "reasons": dict(reasons.most_common())}
