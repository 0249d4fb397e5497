"""Calls of a module as PyTorch's autograd sees them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import torch

Tensor = Any
"""A torch.Tensor."""
# AOTAutograd asks it as well; where a PyTorch has it not, what a run has left stays as long as its graph.
keeps_graph: Callable[[], bool] = getattr(torch._C._autograd, "_get_current_graph_task_keep_graph", lambda: True)
"""Whether the backward pass that runs now may run again (`retain_graph`)."""


class Differentiable(torch.autograd.Function):  # type: ignore[misc]
    """One call: the compiled forward pass, and the compiled backward pass when its gradient comes."""

    @staticmethod
    def forward(ctx: Any, module: Any, call: Any, names: tuple[str, ...], *tensors: Tensor) -> tuple[Tensor, ...]:
        wanted = ctx.needs_input_grad[3:]
        for name, needed in zip(names, wanted, strict=True):
            if needed and name not in module.learnt:
                raise ValueError(f"{name} is an input, which has no gradient: declare it as a param, or detach it.")
        ctx.module, ctx.call, ctx.names, ctx.run = module, call, names, None
        given = dict(zip(names, tensors, strict=True))
        results: tuple[Tensor, ...]
        if not any(wanted):
            results = call.results(given)
            return results
        ctx.frozen = module.learnt.difference(name for name, needed in zip(names, wanted, strict=True) if needed)
        results, ctx.run = call.start(ctx.frozen, given)
        reads = () if ctx.run is None else ctx.run.reads
        # The caller may change all of these: PyTorch looks whether that was so.
        ctx.save_for_backward(*tensors, *[results[place] for place in reads], *call.read)
        return results

    @staticmethod
    def backward(ctx: Any, *upstreams: Tensor) -> tuple[Tensor | None, ...]:
        tensors = dict(zip(ctx.names, ctx.saved_tensors, strict=False))  # raises where one was changed in place
        with torch.no_grad():
            gradients = ctx.call.gradients(ctx.frozen, ctx.run, tensors, upstreams)
            found = {n: ctx.module.pad(n, _rounded(each, tensors[n].dtype)) for n, each in gradients.items()}
        if not keeps_graph():  # as PyTorch lets go of saved tensors, for a loss that is summed up keeps its graph
            ctx.run = None
        if torch.is_grad_enabled():  # create_graph=True
            found = dict(zip(found, _Once.apply(len(found), *found.values(), *tensors.values()), strict=True))
        wanted = zip(ctx.names, ctx.needs_input_grad[3:], strict=True)
        return (None, None, None, *(found.get(name) if needed else None for name, needed in wanted))


class _Once(torch.autograd.Function):  # type: ignore[misc]
    """Gradients that hang on tensors, and have no gradients of their own: who asks for them is told. PyTorch's
    `once_differentiable` tells only where the results' gradients want some, and else leaves them out of a sum."""

    @staticmethod
    def forward(ctx: Any, count: int, *given: Tensor) -> tuple[Tensor, ...]:
        return given[:count]

    @staticmethod
    def backward(ctx: Any, *upstreams: Tensor) -> NoReturn:
        raise RuntimeError("Compiled gradients have no gradients themselves: what needs them is for eager PyTorch.")


def _rounded(gradient: Tensor, dtype: Any) -> Tensor:
    """A gradient in the type of its tensor: summed in float32, and rounded once."""
    return gradient if gradient.dtype == dtype else gradient.to(dtype)
