"""The last word on a trace: on the example itself, the replacement has the module's result and gradients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from explorer.runtime.trace.tapes.arguments import Arguments
from explorer.runtime.trace.tapes.state import apart
from explorer.runtime.trace.tapes.tape import TraceError

CLOSE = 1e-4
"""How far the replacement may be from the module on the example, relative to the largest number: rounding."""


def check(module: Any, replacement: Any, arguments: Arguments, inputs: Mapping[str, Any]) -> None:
    """Holds a replacement against its module. Raises TraceError where a result or a gradient differs, as what a tape
    does not show may have made it: `detach`, or a gradient that a module defines by itself."""
    wanted, found = (_outcomes(each, module, arguments, inputs) for each in (apart(module), replacement))
    for what, want in wanted.items():
        got = found[what]
        size = max(1.0, float(want.abs().max())) if want.numel() else 1.0
        close = (got - want).abs() <= CLOSE * size
        same = got.isnan() & want.isnan() | (got == want) | close
        if got.shape != want.shape or not bool(same.all()):
            raise TraceError(
                f"{what} is another than the module's on the example. A part of it is detached, or has a gradient of "
                "its own, which the language has no words for."
            )


def _outcomes(each: Any, module: Any, arguments: Arguments, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The result, and all gradients, of a module or its replacement, with copies of the module's parameters."""
    given = {name: _leaf(tensor) for name, tensor in inputs.items()}
    own = {name: _leaf(parameter) for name, parameter in module.named_parameters()}
    args, named = arguments.call(given)
    with torch.enable_grad():
        result = torch.func.functional_call(each, own, args, named)
        leaves = {name: leaf for name, leaf in {**own, **given}.items() if leaf.requires_grad}
        upstream = torch.randn(result.shape, generator=torch.Generator().manual_seed(0))
        gradients = torch.autograd.grad(result, list(leaves.values()), upstream, allow_unused=True) if leaves else ()
    made = {"the result": result.detach()}
    for (name, leaf), gradient in zip(leaves.items(), gradients, strict=True):
        made[f"the gradient of {name}"] = torch.zeros_like(leaf) if gradient is None else gradient
    return {name: tensor.detach() for name, tensor in made.items()}


def _leaf(tensor: Any) -> Any:
    return tensor.detach().clone().requires_grad_() if tensor.is_floating_point() else tensor
