"""The last word on a trace: on the example itself, the replacement has the module's results and gradients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from explorer.runtime.trace.tapes.arguments import Arguments
from explorer.runtime.trace.tapes.nested import taken_apart
from explorer.runtime.trace.tapes.recorded import RESULT
from explorer.runtime.trace.tapes.state import apart
from explorer.runtime.trace.tapes.tape import TraceError

CLOSE = 1e-4
"""How far the replacement may be from the module on the example, relative to the largest number: rounding."""
LEAST = 1e-2
"""Of the largest gradient, and for the result of the largest parameter or input up to 1: what cancels is rounded as
much as the large numbers that it is made of."""


def check(module: Any, replacement: Any, arguments: Arguments, inputs: Mapping[str, Any]) -> None:
    """Holds a replacement against its module. Raises TraceError where a result or a gradient differs, as what a tape
    does not show may have made it: `detach`, or a gradient that a module defines by itself."""
    try:
        results, gradients = _outcomes(apart(module), module, arguments, inputs)
    except RuntimeError as error:
        raise TraceError(f"the module has no gradients on the example: {str(error)[:400]}") from error
    made_results, made_gradients = _outcomes(replacement, module, arguments, inputs)
    least = LEAST * max(map(_size, gradients.values()), default=0.0)
    leaves = [each for each in (*module.parameters(), *inputs.values()) if each.is_floating_point()]
    smallest = LEAST * min(1.0, max(map(_size, leaves), default=1.0))
    found = {**made_results, **made_gradients}
    for what, want in {**results, **gradients}.items():
        got = found[what]
        size = max(_size(want), smallest if what in results else least)
        same = got.shape == want.shape and got.dtype == want.dtype
        if not same or not bool(
            (got.isnan() & want.isnan() | (got == want) | ((got - want).abs() <= CLOSE * size)).all()
        ):
            raise TraceError(f"{what} is another than the module's on the example. {_why(what in results)}")


def _why(is_result: bool) -> str:
    """What may have made a result another, or a gradient."""
    if is_result:
        return (
            "It may go another way there than on larger inputs, as by a branch on how many rows there are: trace the "
            "ways apart, or with an example as large as those that it is for."
        )
    return "A part of it is detached, or has a gradient of its own, which the language has no words for."


def _size(tensor: Any) -> float:
    """The largest of a tensor's numbers, without those that are none."""
    finite = tensor.detach()[tensor.isfinite()].abs()
    return float(finite.max()) if finite.numel() else 0.0


def _outcomes(
    each: Any, module: Any, arguments: Arguments, inputs: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The results, and all gradients of their weighted sum, of a module or its replacement, with copies of the module's
    parameters."""
    given = {name: _leaf(tensor) for name, tensor in inputs.items()}
    own = {name: _leaf(parameter) for name, parameter in module.named_parameters()}
    args, named = arguments.call(arguments.with_numbers(given))
    with torch.enable_grad():
        results = taken_apart(RESULT, torch.func.functional_call(each, own, args, named))[1]
        for what, result in results.items():
            if result.dtype != torch.float32:
                raise TraceError(f"the module returns {result.dtype} as {what}: a text's are of 32-bit floats.")
        brought = {f"the argument {name}" if name in own else name: leaf for name, leaf in given.items()}
        leaves = {name: leaf for name, leaf in {**own, **brought}.items() if leaf.requires_grad}
        gradients = _gradients(results, list(leaves.values()))
    return {what: result.detach() for what, result in results.items()}, {
        f"the gradient of {name}": gradient for name, gradient in zip(leaves, gradients, strict=True)
    }


def _gradients(results: Mapping[str, Any], leaves: list[Any]) -> list[Any]:
    """By leaves, the gradients of the sum of all results, each weighted by random numbers of its own."""
    if not leaves:
        return []
    for what, result in results.items():
        if not result.requires_grad:
            raise TraceError(f"{what} of the module has no gradient, as it is detached: a text's has one.")
    generator = torch.Generator().manual_seed(0)
    upstream = [torch.randn(result.shape, generator=generator) for result in results.values()]
    found = torch.autograd.grad(list(results.values()), leaves, upstream, allow_unused=True)
    pairs = zip(leaves, found, strict=True)
    return [torch.zeros_like(leaf) if gradient is None else gradient.detach() for leaf, gradient in pairs]


def _leaf(tensor: Any) -> Any:
    return tensor.detach().clone().requires_grad_() if tensor.is_floating_point() else tensor
