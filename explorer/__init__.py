"""The Embedding Compiler Explorer: `compile` a model text, or `trace` a module of PyTorch to one, and look into or run
the `Compilation`; or `gcompile` a graph of another library."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from explorer.compiler.compilation import Compilation
from explorer.runtime.compiling import compile
from explorer.runtime.gcompile import gcompile

if TYPE_CHECKING:
    from explorer.runtime.trace.trace import Traced

__all__ = ["Compilation", "compile", "gcompile", "trace"]


def trace(module: Any, *example_inputs: Any, **named_inputs: Any) -> Traced:
    """A module of PyTorch as a text of the model language: its `text`, `tensors`, `maps` and `compilation`, and
    `module()`, which takes its place with the same parameters, results and gradients.

    The module is run on inputs like the examples, of other sizes and ids, and what it computes is written down operator
    by operator; docs/TRACE.md says what can be. Raises a ValueError with the operator, the user's line and what to do
    for all else, and never computes something else silently."""
    from explorer.runtime.trace.trace import trace as traced

    return traced(module, *example_inputs, **named_inputs)
