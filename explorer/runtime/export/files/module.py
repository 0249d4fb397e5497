"""A model as a module of PyTorch: its parameters, a forward pass by the operator `result`, and where the extension has
gradients a backward pass by its others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from .indices import Indices, Tensor, aligned

Sizes = Mapping[str, int]
"""By set, the number of its elements."""


@dataclass(frozen=True)
class Declared:
    """A tensor of the model: over these sets, then of these dimensions; `learnt` ones have a gradient, and `held` ones
    may be parameters of the module."""

    name: str
    sets: tuple[str, ...]
    dims: tuple[int, ...]
    learnt: bool
    held: bool

    @property
    def first_set(self) -> str:
        return self.sets[0] if self.sets else ""


@dataclass(frozen=True)
class Operator:
    """An operator of the extension: the arrays and sizes that it takes, in their order, and the arrays it returns."""

    call: Callable[..., list[Tensor]]
    arrays: tuple[str, ...]
    sizes: tuple[str, ...]
    made: tuple[str, ...]

    def __call__(self, arrays: Mapping[str, Tensor], sizes: Mapping[str, int]) -> dict[str, Tensor]:
        found = self.call(*(arrays[name] for name in self.arrays), *(sizes[name] for name in self.sizes))
        return dict(zip(self.made, found, strict=True))


@dataclass(frozen=True)
class Program:
    """Operators that belong together: `inspect` looks at a graph once, `run` makes the result, or all gradients where
    the backward pass is in one; `rest` makes them of what `run` has left. `follow` adds the indices that they read."""

    follow: Callable[[Indices, Sizes], None]
    inspect: Operator | None
    run: Operator
    rest: Operator | None = None


class Compiled(nn.Module):  # type: ignore[misc]
    """What all models have in common; a model's own class says the rest."""

    tensors: tuple[Declared, ...]
    maps: tuple[tuple[str, str], ...]  # what has ids, and the set that they are of
    output: str
    output_set: str
    result: Program
    gradients: Program | None
    upstream: str
    slopes: Mapping[str, str]  # by tensor, the array that is its gradient

    def __init__(self, *, check_indices: bool = True, **sizes: int) -> None:
        """`sizes` are those of the sets that parameters are over: a tensor whose sets all have one is a parameter,
        drawn at random; every other is given to each call by name. One that is called what every module has, as
        `forward`, is the attribute `forward_`; calls know it by its own name."""
        super().__init__()
        if unknown := sizes.keys() - self.sets():
            known = ", ".join(sorted(self.sets()))
            raise ValueError(f"{type(self).__name__} is not told how many {min(unknown)} there are, but {known}.")
        self.check_indices, self.set_sizes = check_indices, sizes
        self.attributes: dict[str, str] = {}  # by tensor
        for tensor in self.tensors:
            if tensor.held and all(name in sizes for name in tensor.sets):
                shape, attribute = [*(sizes[name] for name in tensor.sets), *tensor.dims], tensor.name
                while hasattr(self, attribute):
                    attribute += "_"
                self.register_parameter(attribute, nn.Parameter(torch.empty(shape)))
                self.attributes[tensor.name] = attribute
        for parameter in self.parameters():
            nn.init.normal_(parameter, std=parameter.shape[-1] ** -0.5 if parameter.ndim else 1.0)

    def sets(self) -> set[str]:
        """The sets whose sizes a module may be told."""
        return {name for tensor in self.tensors if tensor.held for name in tensor.sets}

    def prepare(self, **given: Any) -> Indices:
        """The indices of a call, for any number of calls."""
        raise NotImplementedError

    def extents(self, counts: Sizes) -> dict[str, int]:
        """The sizes that operators take, by their names."""
        raise NotImplementedError

    def forward(self, *indices: Any, **named: Any) -> Tensor:
        """The result: of `prepare`'s arguments or of what it returned, and of tensors by name."""
        known = {tensor.name for tensor in self.tensors}
        held = {name: getattr(self, attribute) for name, attribute in self.attributes.items()}
        tensors = {**held, **{name: each for name, each in named.items() if name in known}}
        rest = {name: each for name, each in named.items() if name not in known}
        if indices and isinstance(indices[0], Indices):
            if rest or len(indices) > 1:
                raise ValueError(f"a call takes what is prepared or {', '.join(rest) or 'indices'}, not both.")
            made = indices[0]
        else:
            made = self.prepare(*indices, **self._read_off(tensors), **rest)
        counts = self._check(made, tensors)
        tensors = {tensor.name: tensors[tensor.name] for tensor in self.tensors}
        if not torch.is_grad_enabled():
            return self.run(made, counts, tensors)
        found: Tensor = _Run.apply(self, made, counts, tuple(tensors), *tensors.values())
        return found

    def _read_off(self, tensors: Mapping[str, Tensor]) -> dict[str, dict[str, int]]:
        known = dict(self.set_sizes)
        for tensor in self.tensors:
            if tensor.name in tensors:
                known |= dict(zip(tensor.sets, tensors[tensor.name].shape, strict=False))
        return {"known": known}

    def _check(self, made: Indices, tensors: Mapping[str, Tensor]) -> dict[str, int]:
        """The sizes of all sets; raises ValueError where a tensor is missing or does not fit, or an id has no row."""
        counts = dict(made.counts)
        for tensor in self.tensors:
            if tensor.name not in tensors:
                raise ValueError(f"There is no tensor for {tensor.name}.")
            given = tensors[tensor.name]
            wanted = [*(counts.get(name) for name in tensor.sets), *tensor.dims]
            if len(wanted) != given.ndim or any(
                size not in (None, had) for size, had in zip(wanted, given.shape, strict=True)
            ):
                raise ValueError(f"{tensor.name} has the shape {list(given.shape)}, not {wanted}.")
            if given.dtype != torch.float32 or given.device != made.device:
                raise ValueError(f"{tensor.name} is {given.dtype} on {given.device}, not float32 on {made.device}.")
            counts.update(zip(tensor.sets, given.shape, strict=False))
        for name, codomain in self.maps:
            rows = counts.setdefault(codomain, made.highest.get(name, -1) + 1)
            if made.highest.get(name, -1) >= rows:
                raise ValueError(f"{name} holds {made.highest[name]:,}, but there are {rows:,} rows.")
        return counts

    def run(self, made: Indices, counts: Sizes, tensors: Mapping[str, Tensor]) -> Tensor:
        """The result alone."""
        arrays, sizes = self.arrays(self.result, made, counts, tensors)
        return made.leave(self.result.run(arrays, sizes)[self.output], self.output_set)

    def arrays(
        self, program: Program, made: Indices, counts: Sizes, tensors: Mapping[str, Tensor]
    ) -> tuple[dict[str, Tensor], dict[str, int]]:
        """What a program's operators take: indices, tensors in the kernels' order, and what its inspector found."""
        program.follow(made, counts)
        sizes = self.extents(counts)
        sets = {tensor.name: tensor.first_set for tensor in self.tensors} | {self.upstream: self.output_set}
        entered = {name: aligned(made.enter(each.detach(), sets[name])) for name, each in tensors.items()}
        return {**made.arrays, **entered, **_inspected(program, made, sizes)}, sizes

    def shaped(self, found: Mapping[str, Tensor], made: Indices, shapes: Mapping[str, Any]) -> dict[str, Tensor]:
        """Gradients by tensor, in its shape and the caller's order."""
        sets = {tensor.name: tensor.first_set for tensor in self.tensors}
        return {name: made.leave(found[array].reshape(shapes[name]), sets[name]) for name, array in self.slopes.items()}


def _inspected(program: Program, made: Indices, sizes: Mapping[str, int]) -> dict[str, Tensor]:
    """What the inspector finds of a graph: what it found before on this stream, where nothing is recorded just now."""
    if program.inspect is None:
        return {}
    if made.device.type == "cuda":
        if torch.cuda.is_current_stream_capturing():
            return program.inspect(made.arrays, sizes)
        stream = torch.cuda.current_stream(made.device).cuda_stream
    else:
        stream = 0
    key = id(program), stream, *(sizes[name] for name in program.inspect.sizes)
    if key not in made.found:
        made.found[key] = program.inspect(made.arrays, sizes)
    return made.found[key]


class _Run(torch.autograd.Function):  # type: ignore[misc]
    """One call: the compiled forward pass, and the compiled backward pass when its gradient comes."""

    @staticmethod
    def forward(
        ctx: Any, module: Compiled, made: Indices, counts: Sizes, names: tuple[str, ...], *tensors: Tensor
    ) -> Tensor:
        given = dict(zip(names, tensors, strict=True))
        program, wanted = module.gradients, ctx.needs_input_grad[4:]
        learnt = {tensor.name for tensor in module.tensors if tensor.learnt}
        for name, needed in zip(names, wanted, strict=True):
            if needed and name not in learnt:
                raise ValueError(f"{name} is an input, which has no gradient: detach it.")
        ctx.module, ctx.made, ctx.counts, ctx.names = module, made, counts, names
        left: dict[str, Tensor] = {}
        again: tuple[str, ...] = ()
        if program is None or program.rest is None or not any(wanted):
            result = module.run(made, counts, given)
        else:
            arrays, sizes = module.arrays(program, made, counts, given)
            left, first = program.run(arrays, sizes), program.run.made[0]
            result = made.leave(left[first], module.output_set)
            left = {name: each for name, each in left.items() if name in program.rest.arrays}
            if result is left.get(first):  # the caller's, who may change it: PyTorch keeps it, and looks
                del left[first]
                again = (first,)
        ctx.left, ctx.again = left, again
        ctx.save_for_backward(*tensors, *(result for _ in again))
        return result

    @staticmethod
    @torch.autograd.function.once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        module, program = ctx.module, ctx.module.gradients
        if program is None:
            raise ValueError("this extension was exported without gradients")
        saved = ctx.saved_tensors  # raises where one was changed in place
        given = dict(zip(ctx.names, saved, strict=False))
        again = {name: each.detach() for name, each in zip(ctx.again, saved[len(given) :], strict=True)}
        arrays, sizes = module.arrays(program, ctx.made, ctx.counts, {**given, module.upstream: upstream})
        last = program.run if program.rest is None else program.rest
        found = last({**arrays, **ctx.left, **again}, sizes)
        shapes = {name: each.shape for name, each in given.items()}
        gradients = module.shaped(found, ctx.made, shapes)
        wanted = zip(ctx.names, ctx.needs_input_grad[4:], strict=True)
        return (None, None, None, None, *(gradients.get(name) if needed else None for name, needed in wanted))
