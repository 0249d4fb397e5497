"""A traced module's replacement, held against the module itself: results and all gradients, on other inputs."""

from __future__ import annotations

import torch
from torch.utils._pytree import tree_leaves, tree_map

CLOSE = 1e-5
LEAST = 0.1  # of the largest gradient, which is what rounds those that cancel


def redraw(module, seed):
    """Other parameters and statistics."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for tensor in (*module.parameters(), *module.buffers()):
            if tensor.is_floating_point():
                drawn = torch.randn(tensor.shape, generator=generator) / max(tensor.shape[-1:] or (1,)) ** 0.5
                tensor.copy_(drawn if tensor.requires_grad else drawn.abs() + 0.5)


def outcomes(module, arguments, upstream_seed=7):
    """The results by their number, and the gradients of their weighted sum by parameters and by inputs of floats."""
    given = tree_map(lambda a: a.detach().clone().requires_grad_() if _is_learnt(a) else a, list(arguments))
    results = [each for each in tree_leaves(module(*given)) if isinstance(each, torch.Tensor)]
    leaves = {name: each for name, each in module.named_parameters() if each.requires_grad}
    leaves |= {f"input {at}": each for at, each in enumerate(tree_leaves(given)) if _is_learnt(each)}
    generator = torch.Generator().manual_seed(upstream_seed)
    upstream = [torch.randn(result.shape, generator=generator) for result in results]
    found = torch.autograd.grad(results, list(leaves.values()), upstream, allow_unused=True)
    gradients = {name: _dense(leaf, g) for (name, leaf), g in zip(leaves.items(), found, strict=True)}
    return dict(enumerate(results)), gradients


def _dense(leaf, gradient):
    """A gradient, zeros where there is none; of a sparse matrix that of its nonzeros: some of eager's operators give
    those of all other places too."""
    if gradient is None:
        return torch.zeros(leaf.shape)
    if leaf.layout == torch.strided:
        return gradient
    return gradient.to_dense() * (leaf.detach().to_dense() != 0)


def _is_learnt(each):
    return isinstance(each, torch.Tensor) and each.is_floating_point()


def hold(module, replacement, arguments):
    """Raises AssertionError where they differ by more than 1e-5 of their largest number."""
    assert list(replacement.state_dict()) == list(module.state_dict())
    results, gradients = outcomes(module, arguments)
    want, got = {**results, **gradients}, {}
    for each in outcomes(replacement, arguments):
        got |= each
    assert got.keys() == want.keys()
    sizes = {name: float(tensor.detach().abs().max()) if tensor.numel() else 0.0 for name, tensor in want.items()}
    least = LEAST * max(sizes[name] for name in gradients)
    for name, tensor in want.items():
        assert got[name].shape == tensor.shape, name
        assert tensor.isfinite().all(), name
        size = max(sizes[name], least if name in gradients else 0.0) or 1.0
        torch.testing.assert_close(
            got[name] / size, tensor / size, rtol=0, atol=CLOSE, msg=lambda m, n=name: f"{n}: {m}"
        )
