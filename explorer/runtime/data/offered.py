"""The data that a host lets others run on, and what each family of models usually runs on."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from explorer.runtime.data import lists, triples
from explorer.runtime.data.graphs import GRAPH_PRESETS, as_graph, available_graphs
from explorer.runtime.data.lists import DEFAULT, DEFAULTS, available_lists, form_in, whole_matrices
from explorer.runtime.data.triples import InputError, available, reading

AVAILABLE: Mapping[str, Callable[[Path | None], list[dict[str, Any]]]] = {
    "score": available,
    "layer": available_graphs,
    "op": available_lists,
}
"""What each family of definitions runs on."""
USUAL_GRAPH = "small"
MOST_MEMBERS = 64
"""Of an archive that anyone may bring."""


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


def offers_of(path: Path, most_bytes: int) -> dict[str, dict[str, Any]]:
    """By family the entry of one file that anyone may have brought: that of its lists for ops, or those of its triples
    for all. It is read as a run would read it, with at most so many bytes once unpacked, which an archive declares
    before anything of it is. Raises InputError."""
    with reading(path.name):
        if path.name.endswith(".npz"):
            _check_archive(path, most_bytes)
            if form_in(path) is not None:
                return {"op": lists.summary_of(path)}
    found = triples.summary_of(path)
    return {"score": found, "layer": as_graph(found), "op": lists.summary_of(path)}


def _check_archive(path: Path, most_bytes: int) -> None:
    """Raises InputError for an archive of too many arrays, or of too large ones."""
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
    if len(members) > MOST_MEMBERS:
        raise InputError(f"{path.name}: it holds {len(members):,} arrays, more than {MOST_MEMBERS}")
    unpacked = sum(member.file_size for member in members)
    if unpacked > most_bytes:
        told = f"{unpacked / 2**20:,.0f} MiB once unpacked, more than {most_bytes >> 20} MiB"
        raise InputError(f"{path.name}: it says that it is {told}")
