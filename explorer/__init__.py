"""The Embedding Compiler Explorer: `compile` a model text, or `trace` a module of PyTorch to one, and look into or run
the `Compilation`; or `gcompile` a graph of another library. `explain` says what it runs of a `torch.compile`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, overload

from explorer.compiler.compilation import Compilation
from explorer.runtime import compiling
from explorer.runtime.gcompile import gcompile

if TYPE_CHECKING:
    from explorer.runtime.dynamo.explained import Explanation
    from explorer.runtime.trace.trace import Traced

__all__ = ["Compilation", "compile", "explain", "gcompile", "trace"]
Code = TypeVar("Code", bound=Callable[..., Any])


@overload
def compile(text: str, **options: Any) -> Compilation: ...


@overload
def compile(text: Code, **options: Any) -> Code: ...


def compile(text: Any, **options: Any) -> Any:
    """Compiles a model text through every stage, or those that are asked for: `explorer.runtime.compiling.compile` says
    which `options` there are.

    `@explorer.compile` before a function, or a class of PyTorch's modules, runs it by `torch.compile` with the
    explorer's backend, for any sizes: what the tracer's table has, by the explorer, and the rest as it was. `options`
    are `torch.compile`'s then."""
    if isinstance(text, str) or not callable(text):
        return compiling.compile(text, **options)
    from explorer.runtime.dynamo.decorator import compiled

    return compiled(text, **options)


def explain(function: Any, *args: Any, **named: Any) -> Explanation:
    """Calls a module or function of PyTorch as `torch.compile(..., backend="explorer", dynamic=True)` does, and returns
    and prints which of its graphs the explorer runs, with their texts, and why the others run as they were."""
    from explorer.runtime.dynamo.explained import explain as explained

    return explained(function, *args, **named)


def trace(module: Any, *example_inputs: Any, **named_inputs: Any) -> Traced:
    """A module of PyTorch as a text of the model language: its `text`, `tensors`, `maps` and `compilation`, and
    `module()`, which takes its place with the same parameters, results and gradients.

    The module is run on inputs like the examples, of other sizes and ids, and what it computes is written down operator
    by operator; docs/TRACE.md says what can be. Raises a ValueError with the operator, the user's line and what to do
    for all else, and never computes something else silently."""
    from explorer.runtime.trace.trace import trace as traced

    return traced(module, *example_inputs, **named_inputs)
