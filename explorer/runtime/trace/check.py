"""The last word on a trace: on the example itself, the replacement has the module's result and gradients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from explorer.runtime.trace.tapes.arguments import Arguments
from explorer.runtime.trace.tapes.state import apart
from explorer.runtime.trace.tapes.tape import TraceError

RESULT = "the result"
CLOSE = 1e-4
"""How far the replacement may be from the module on the example, relative to the largest number: rounding."""
LEAST = 1e-2
"""Of the largest gradient, and for the result of the largest parameter or input up to 1: what cancels is rounded as
much as the large numbers that it is made of."""


def check(module: Any, replacement: Any, arguments: Arguments, inputs: Mapping[str, Any]) -> None:
    """Holds a replacement against its module. Raises TraceError where a result or a gradient differs, as what a tape
    does not show may have made it: `detach`, or a gradient that a module defines by itself."""
    try:
        wanted = _outcomes(apart(module), module, arguments, inputs)
    except RuntimeError as error:
        raise TraceError(f"the module has no gradients on the example: {str(error)[:400]}") from error
    found = _outcomes(replacement, module, arguments, inputs)
    sizes = {what: _size(want) for what, want in wanted.items()}
    least = LEAST * max([size for what, size in sizes.items() if what != RESULT], default=0.0)
    leaves = [each for each in (*module.parameters(), *inputs.values()) if each.is_floating_point()]
    smallest = LEAST * min(1.0, max(map(_size, leaves), default=1.0))
    for what, want in wanted.items():
        got = found[what]
        size = max(sizes[what], smallest if what == RESULT else least)
        same = got.shape == want.shape and got.dtype == want.dtype
        if not same or not bool(
            (got.isnan() & want.isnan() | (got == want) | ((got - want).abs() <= CLOSE * size)).all()
        ):
            raise TraceError(
                f"{what} is another than the module's on the example. A part of it is detached, or has a gradient of "
                "its own, which the language has no words for."
            )


def _size(tensor: Any) -> float:
    """The largest of a tensor's numbers, without those that are none."""
    finite = tensor.detach()[tensor.isfinite()].abs()
    return float(finite.max()) if finite.numel() else 0.0


def _outcomes(each: Any, module: Any, arguments: Arguments, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The result, and all gradients, of a module or its replacement, with copies of the module's parameters."""
    given = {name: _leaf(tensor) for name, tensor in inputs.items()}
    own = {name: _leaf(parameter) for name, parameter in module.named_parameters()}
    args, named = arguments.call(given)
    with torch.enable_grad():
        result = torch.func.functional_call(each, own, args, named)
        if result.dtype != torch.float32:
            raise TraceError(f"the module returns {result.dtype}: a text's result is of 32-bit floats.")
        leaves = {name: leaf for name, leaf in {**own, **given}.items() if leaf.requires_grad}
        if leaves and not result.requires_grad:
            raise TraceError("the module's result has no gradient, as it is detached: a text's has one.")
        upstream = torch.randn(result.shape, generator=torch.Generator().manual_seed(0))
        gradients = torch.autograd.grad(result, list(leaves.values()), upstream, allow_unused=True) if leaves else ()
    made = {RESULT: result.detach()}
    for (name, leaf), gradient in zip(leaves.items(), gradients, strict=True):
        made[f"the gradient of {name}"] = torch.zeros_like(leaf) if gradient is None else gradient
    return {name: tensor.detach() for name, tensor in made.items()}


def _leaf(tensor: Any) -> Any:
    return tensor.detach().clone().requires_grad_() if tensor.is_floating_point() else tensor
