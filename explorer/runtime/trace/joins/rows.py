"""The rows of tables that are made of a module's own tensors, at each call anew."""

from __future__ import annotations

from typing import Any, NamedTuple


class Row(NamedTuple):
    """A tensor of the module, by its name in the text, or what is in it at a number, or at several."""

    name: str
    at: int | tuple[int, ...] | None = None

    def of(self, tensor: Any) -> Any:
        """The row, of the tensor."""
        return tensor if self.at is None else tensor[list(self.at) if isinstance(self.at, tuple) else self.at]
