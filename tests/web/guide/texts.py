"""Texts that the tests of the guide share."""

from __future__ import annotations

MANY = 5_300


def long_text() -> str:
    """A score whose graph has more lines than a pane shows at first: one for each of its parameters."""
    params = ", ".join(f"a{number}[D]" for number in range(MANY))
    header = "score Long(h: entity, r: relation, t: entity):"
    return f"dim D = 4\n\n{header}\n    param E[entity, D], {params}\n    return dot(E[h], E[t])\n"
