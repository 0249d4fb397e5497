"""Panes of a compilation that goes on from stages which somebody has edited."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from explorer.web.panes.editing import edits_of, forks_of, is_editable
from explorer.web.panes.views import Pane, labels_of


def with_edits(panes: Iterable[Pane], compiled: Mapping[str, Any]) -> tuple[Pane, ...]:
    """The panes, those whose text somebody has edited with what was found of it, and those that are made of it."""
    edits, forks = edits_of(compiled, labels_of(compiled)), forks_of(compiled)
    return tuple(
        replace(
            pane,
            editable=is_editable(pane.state.stage),
            edit=edits.get(pane.state.stage),
            fork=forks.get(pane.state.stage, ""),
        )
        for pane in panes
    )
