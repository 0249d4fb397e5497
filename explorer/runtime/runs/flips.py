"""What each option would change of a model, if it were another: found by compiling it so, and comparing the stages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from explorer.compiler.compilation import Compilation
from explorer.compiler.options import (
    BLOCK_COLUMNS,
    BLOCK_ROWS,
    CHUNKS,
    DECOUPLED,
    EDGES,
    ENCODINGS,
    LANE_VECTORS,
    LANE_WIDTHS,
    OF_SUMS,
    PRECISIONS,
    PRELOADS,
    SCHEDULED,
    SPLITS,
    Options,
)
from explorer.compiler.pipeline import STAGES
from explorer.compiler.unsupported import OutOfBudget

Value = str | int | bool
MACHINE = ("slc", "slc.opt1", "slc.opt2", "slc.opt3", "dlc")
PROMPT = tuple(spec.name for spec in STAGES if not spec.on_demand)
READ_BY = {
    **dict.fromkeys(DECOUPLED, MACHINE),
    **dict.fromkeys(SCHEDULED, tuple(name for name in PROMPT if name not in (*MACHINE, "graph", "loops"))),
}
"""The stages that an option can change; of one that is not here, all."""
OTHERS: Mapping[str, tuple[Value, ...]] = {
    "negatives": ("none", "tail:64"),
    "edges": tuple(EDGES),
    "precision": tuple(PRECISIONS),
    "inspect": ("true", "chunks", "false"),
    "opt": (3, 0),
    "vlen": (16, 8),
    "split": SPLITS,
    "encoding": tuple(ENCODINGS),
    "chunk": CHUNKS,
    "lanes": LANE_WIDTHS,
    "lane_vectors": LANE_VECTORS,
    "block_rows": BLOCK_ROWS,
    "block_columns": BLOCK_COLUMNS,
    "preload": PRELOADS,
}
"""Values that tell whether an option which is no switch has an effect."""


def flips_json(compilation: Compilation) -> dict[str, list[str]]:
    """By option the stages that would be others with its other value; of an option with several, with any of them. An
    option whose other value the model does not take changes nothing, nor does one of sums that no kernel is made by:
    that takes no compilation. Raises OutOfBudget where a stage was stopped, of which nothing is known then."""
    own = compilation.options.to_json()
    asked = {**{name: value for name, value in own.items() if isinstance(value, bool)}, **dict.fromkeys(OTHERS)}
    unread = set(OF_SUMS) - _heeded(compilation)
    return {name: [] if name in unread else _changed(compilation, name) for name in asked}


def _heeded(compilation: Compilation) -> set[str]:
    """The options of sums that the model's kernels are made by."""
    return {name for stage in PROMPT for report in compilation.stages[stage].passes for name in report.heeded}


def _changed(compilation: Compilation, name: str) -> list[str]:
    found: set[str] = set()
    for value in _other_values(compilation.options, name):
        other = compilation.with_options(**{name: value})
        if other.ok:
            found |= set(_differing(compilation, other, READ_BY.get(name, PROMPT)))
        if found:
            break
    return [stage for stage in PROMPT if stage in found]


def _other_values(options: Options, name: str) -> list[Value]:
    now = options.to_json()[name]
    return [not now] if isinstance(now, bool) else [value for value in OTHERS[name] if value != now]


def _differing(one: Compilation, other: Compilation, stages: tuple[str, ...]) -> Iterator[str]:
    for name in stages:
        each = one.stages[name], other.stages[name]
        for stage in each:
            if stage.stopped:
                raise OutOfBudget(stage.reason)
        if each[0].digest != each[1].digest:
            yield name
