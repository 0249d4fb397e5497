"""What a run spent, as its result says it on every target: by kernel, and by operation of the model.

    {"unit": "cycles", "source": "simulated", "how": ..., "whole": 1000, "columns": ["access unit", "execute unit"],
     "kernels": [{"name": "sls", "amount": 1000}],
     "operations": [{"id": 2, "label": "sum", "line": 6, "amounts": [600, 300]}, {"id": null, ...}],
     "rest": [{"what": "waits for the other", "amounts": [400, 700]}]}

Each column's operations and rest are together the whole, and so are the kernels with what is between them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from explorer.compiler.compilation import Operation
from explorer.compiler.ir.node import Made, Span
from explorer.machine.spent import SpentCycles

Amounts = tuple[float, ...]
Whose = Span | Made | None
MOST_ROWS = 100
"""Of operations; the others stand together in one row."""
NOBODY = "no operation"
SIMULATED = (
    "Each clock advances at an instruction, and is counted for the operation that the instruction computes; "
    "of operands that are pushed together, the wait is counted for the one that comes last. Tokens, with the branches "
    "that turn where loops end, are of no operation, and a unit that has ended waits for the other and for the memory."
)


@dataclass(frozen=True)
class Spent:
    """Amounts of a unit, a number for each of the columns."""

    unit: str
    source: str
    how: str
    whole: float
    columns: tuple[str, ...]
    kernels: tuple[tuple[str, float], ...]
    by_operation: Mapping[Whose, Amounts]
    rest: Mapping[str, Amounts]

    def to_json(self, operations: Sequence[Operation]) -> dict[str, Any]:
        """As above, the operations that most was spent on first, by the numbers that a compilation gives them."""
        rows = self._rows({operation.span: operation for operation in operations})
        shown, others = rows[:MOST_ROWS], rows[MOST_ROWS:]
        rest = [{"what": what, "amounts": list(amounts)} for what, amounts in self.rest.items() if any(amounts)]
        if others:
            sums = [sum(amounts) for amounts in zip(*(row["amounts"] for row in others), strict=True)]
            rest.insert(0, {"what": f"{len(others)} other operations", "amounts": sums})
        return {
            **{name: getattr(self, name) for name in ("unit", "source", "how", "whole")},
            "columns": list(self.columns),
            "kernels": [{"name": name, "amount": amount} for name, amount in self.kernels],
            "operations": shown,
            "rest": rest,
        }

    def _rows(self, by_span: Mapping[Span, Operation]) -> list[dict[str, Any]]:
        """Those of an operation, of what a pass made, and of neither, which have no number."""
        found: dict[tuple[int | None, str, int | None], list[float]] = {}
        for whose, amounts in self.by_operation.items():
            operation = by_span.get(whose) if isinstance(whose, Span) else None
            made = f"{whose.name} ({whose.by})" if isinstance(whose, Made) else NOBODY
            label = operation.label if operation else made
            key = (operation.id, label, operation.span.line) if operation else (None, label, None)
            row = found.setdefault(key, [0.0] * len(self.columns))
            for column, amount in enumerate(amounts):
                row[column] += amount
        rows = [{"id": id_, "label": label, "line": line, "amounts": row} for (id_, label, line), row in found.items()]
        return sorted(rows, key=lambda row: -max(row["amounts"]))


def of_cycles(spent: SpentCycles, figures: Mapping[str, Any]) -> Spent:
    """What a simulated run has spent, of whose figures are the cycles of all and of each kernel."""
    return Spent(
        "cycles",
        "simulated",
        SIMULATED,
        figures["cycles"],
        ("access unit", "execute unit"),
        tuple((kernel["name"], kernel["cycles"]) for kernel in figures["kernels"]),
        spent.by_operation,
        spent.rest,
    )
