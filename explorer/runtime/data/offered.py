"""The data that a host lets others run on, and what each family of models usually runs on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from explorer.runtime.data.graphs import GRAPH_PRESETS, available_graphs
from explorer.runtime.data.lists import DEFAULT, DEFAULTS, available_lists, whole_matrices
from explorer.runtime.data.triples import available

AVAILABLE: Mapping[str, Callable[[Path | None], list[dict[str, Any]]]] = {
    "score": available,
    "layer": available_graphs,
    "op": available_lists,
}
"""What each family of definitions runs on."""
USUAL_GRAPH = "small"


def fitting(wanted: str, family: str, owner: str, data_dir: Path | None) -> str:
    """The data that is wanted, where it is offered to layers, or to ops whose lists belong to that `owner`; else what
    these usually run on. Raises InputError for a folder that cannot be read."""
    kind = "" if family == "layer" else owner if owner in DEFAULTS else "matrix"
    offered = [*AVAILABLE[family](data_dir), *(whole_matrices() if family == "op" else ())]
    if any(entry["name"] == wanted and entry.get("for", "") == kind for entry in offered):
        return wanted
    return USUAL_GRAPH if family == "layer" else DEFAULTS.get(kind, DEFAULT)


def offered_names(data_dir: Path | None) -> list[str]:
    """Those of the presets and of a folder's files. Raises InputError for a folder that cannot be read.

    They are the only ones to let through: a run would open any other as a path.
    """
    entries = [*available(data_dir), *available_lists(data_dir), *whole_matrices()]
    return list(dict.fromkeys([*(entry["name"] for entry in entries), *GRAPH_PRESETS]))
