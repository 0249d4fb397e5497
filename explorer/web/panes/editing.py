"""What a pane says of the text of its stage that somebody has edited."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from explorer.compiler.edited.reading import EDITABLE


@dataclass(frozen=True)
class Edit:
    """What was found of an edited text: in a word and a sentence, where, and the operation that it belongs to."""

    status: str  # "same", "matches", "wrong" or "refused"
    message: str
    line: int
    column: int
    changed: int
    operation: int | None
    label: str

    @property
    def place(self) -> str:
        """Where a text is refused."""
        return f"line {self.line}, column {self.column}"


def is_editable(stage: str) -> bool:
    """Whether a stage's text is read back."""
    return stage in EDITABLE


def edits_of(compiled: Mapping[str, Any], labels: Mapping[int, str]) -> dict[str, Edit]:
    """By stage what was found of its text, where somebody has edited it."""
    return {
        found["stage"]: Edit(
            found["status"],
            found["message"],
            found["line"],
            found["column"],
            found["changed"],
            found["operation"],
            labels.get(found["operation"], ""),
        )
        for found in compiled.get("edited", ())
    }


def forks_of(compiled: Mapping[str, Any]) -> dict[str, str]:
    """By stage the edited one that it is made of, but for that one itself."""
    return {stage["name"]: stage["fork"] for stage in compiled["stages"] if stage["fork"] != stage["name"]}
