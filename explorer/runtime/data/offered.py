"""The names of data that a host lets others run on."""

from __future__ import annotations

from pathlib import Path

from explorer.runtime.data.graphs import GRAPH_PRESETS
from explorer.runtime.data.lists import available_lists
from explorer.runtime.data.triples import available


def offered_names(data_dir: Path | None) -> list[str]:
    """Those of the presets and of a folder's files. Raises InputError for a folder that cannot be read.

    They are the only ones to let through: a run would open any other as a path.
    """
    entries = [*available(data_dir), *available_lists(data_dir)]
    return list(dict.fromkeys([*(entry["name"] for entry in entries), *GRAPH_PRESETS]))
