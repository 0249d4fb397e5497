"""Which options of a model change what runs on a target: whose other value makes another text of its stage."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from explorer.compiler.decisions import Value
from explorer.runtime.runs.request import Refused, Setup

OF_MODELS = ("compact", "reorder", "aggregate", "interchange", "online")
"""The model's own options, each a switch: those of the passes on the graph and on the loops."""


def digest(setup: Setup, stage: str, options: Mapping[str, Value]) -> str:
    """What tells a stage's text from any other; "" where there is none with these options."""
    try:
        return setup.compiled_with(options).stages[stage].digest
    except Refused:
        return ""


def switches(
    setup: Setup, stage: str, names: Iterable[str], at: Mapping[str, Value] | None = None
) -> dict[str, tuple[Value, ...]]:
    """Of these options those that change a stage, where the others are as usual or as `at` says, with their values."""
    around = dict(at or {})
    usual, own = digest(setup, stage, around), setup.compilation.options.to_json()
    found = ((name, digest(setup, stage, {**around, name: not own[name]})) for name in names)
    return {name: (False, True) for name, other in found if other not in ("", usual)}
