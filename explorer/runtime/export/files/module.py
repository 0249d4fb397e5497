"""A model as a module of PyTorch: its parameters, a forward pass by the operator `result`, and where the extension has
gradients a backward pass by its others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import torch
from torch import nn

from .indices import Indices, Tensor, aligned
from .maps import ComputedMap, DeclaredMap

Sizes = Mapping[str, int]
"""By set, the number of its elements."""
keeps_graph: Callable[[], bool] = getattr(torch._C._autograd, "_get_current_graph_task_keep_graph", lambda: True)
"""Whether the backward pass that runs now may run again (`retain_graph`); where PyTorch does not say, it may."""


@dataclass(frozen=True)
class Declared:
    """A tensor of the model: over these sets, then of these dimensions; `learnt` ones have a gradient, and `held` ones
    may be parameters of the module. Kernels compute in float32, whatever elements are `stored` in."""

    name: str
    sets: tuple[str, ...]
    dims: tuple[int, ...]
    learnt: bool
    held: bool
    stored: torch.dtype = torch.float32

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
    """Operators that belong together: `inspect` looks at a graph once, `run` makes the results, or all gradients where
    the backward pass is in one; `rest` makes them of what `run` has left. `follow` adds the indices that they read."""

    follow: Callable[[Indices, Sizes], None]
    inspect: Operator | None
    run: Operator
    rest: Operator | None = None


class Compiled(nn.Module):  # type: ignore[misc]
    """What all models have in common; a model's own class says the rest."""

    tensors: tuple[Declared, ...]
    maps: tuple[tuple[str, str], ...]  # what has ids, and the set that they are of
    declared: tuple[DeclaredMap, ...] = ()  # those that the text declares
    computed: tuple[ComputedMap, ...] = ()
    outputs: tuple[str, ...]  # the arrays of the results, of which one may be there twice
    output_sets: tuple[str, ...]
    result: Program
    gradients: Program | None
    upstreams: tuple[str, ...]
    slopes: Mapping[str, str]  # by tensor, the array that is its gradient

    def __init__(self, *, padding: Mapping[str, int] | None = None, check_indices: bool = True, **sizes: int) -> None:
        """`sizes` are those of the sets that parameters are over: a tensor whose sets all have one is a parameter,
        drawn at random; every other is given to each call by name. One that is called what every module has, as
        `forward`, is the attribute `forward_`; calls know it by its own name. A `padding` row of a set is drawn as
        zeros and has no gradient, in every learnt tensor over the set. Raises ValueError."""
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
                self.register_parameter(attribute, nn.Parameter(torch.empty(shape, dtype=tensor.stored)))
                self.attributes[tensor.name] = attribute
        self.padding = self._checked_padding(padding or {})
        for name, attribute in self.attributes.items():
            parameter = getattr(self, attribute)
            nn.init.normal_(parameter, std=parameter.shape[-1] ** -0.5 if parameter.ndim else 1.0)
            with torch.no_grad():
                self.pad(name, parameter)

    def _checked_padding(self, padding: Mapping[str, int]) -> dict[str, int]:
        sets = sorted({name for tensor in self.tensors if tensor.held for name in tensor.sets})
        for name, row in padding.items():
            if name not in sets:
                model, known = type(self).__name__, ", ".join(sets)
                raise ValueError(f"{model} has no parameter over {name} to pad: they are over {known}.")
            if not isinstance(row, int) or isinstance(row, bool) or not 0 <= row < self.set_sizes.get(name, row + 1):
                raise ValueError(f"the padding of {name} is one of its rows, not {row!r}.")
        return dict(padding)

    def pad(self, name: str, rows: Tensor) -> Tensor:
        """Those of a learnt tensor, or of its gradient, with zeros where they stand for nothing; changed in place."""
        for tensor in self.tensors:
            for place, index_set in enumerate(tensor.sets):
                if tensor.name == name and tensor.held and index_set in self.padding:
                    rows.select(place, self.padding[index_set]).zero_()
        return rows

    def sets(self) -> set[str]:
        """The sets whose sizes a module may be told."""
        return {name for tensor in self.tensors if tensor.held for name in tensor.sets}

    def prepare(self, **given: Any) -> Indices:
        """The indices of a call, for any number of calls."""
        raise NotImplementedError

    def extents(self, counts: Sizes) -> dict[str, int]:
        """The sizes that operators take, by their names."""
        raise NotImplementedError

    def forward(self, *indices: Any, **named: Any) -> Tensor | tuple[Tensor, ...]:
        """The result, a tuple of several: of `prepare`'s arguments or of what it returned, and of tensors by name."""
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
        if torch.is_grad_enabled():
            results: tuple[Tensor, ...] = _Run.apply(self, made, counts, tuple(tensors), *tensors.values())
        else:
            results = self.run(made, counts, tensors)
        return results[0] if len(results) == 1 else results

    def _read_off(self, tensors: Mapping[str, Tensor]) -> dict[str, dict[str, int]]:
        known = dict(self.set_sizes)
        for tensor in self.tensors:
            if tensor.name in tensors:
                known |= dict(zip(tensor.sets, tensors[tensor.name].shape, strict=False))
        return {"known": known}

    def _check(self, made: Indices, tensors: Mapping[str, Tensor]) -> dict[str, int]:
        """The sizes of all sets; raises ValueError where a tensor is missing or does not fit, or an id has no row."""
        counts, tables = dict(made.counts), dict[str, str]()
        for tensor in self.tensors:
            if tensor.name not in tensors:
                raise ValueError(f"There is no tensor for {tensor.name}.")
            given = tensors[tensor.name]
            wanted = [*(counts.get(name) for name in tensor.sets), *tensor.dims]
            if len(wanted) != given.ndim or any(
                size not in (None, had) for size, had in zip(wanted, given.shape, strict=True)
            ):
                raise ValueError(f"{tensor.name} has the shape {list(given.shape)}, not {wanted}.")
            if given.dtype != tensor.stored or given.device != made.device:
                had, stored = (str(each).removeprefix("torch.") for each in (given.dtype, tensor.stored))
                raise ValueError(f"{tensor.name} is {had} on {given.device}, not {stored} on {made.device}.")
            counts.update(zip(tensor.sets, given.shape, strict=False))
            tables |= {name: tables.get(name, tensor.name) for name in tensor.sets}
        for name, row in self.padding.items():
            if row >= counts[name]:
                raise ValueError(f"the padding of {name} is row {row:,}, but there are {counts[name]:,}.")
        told = set(counts)
        for name, codomain in self.maps:
            least, rows = made.highest.get(name, -1) + 1, counts.get(codomain, 0)
            if codomain in told and least > rows:
                table = tables.get(codomain, type(self).__name__)
                raise ValueError(f"{name} holds {least - 1:,}, but {table} has {rows:,} rows.")
            counts[codomain] = max(least, rows)
        for entry in self.computed:
            entry.check(counts, tables)
        return counts

    def run(self, made: Indices, counts: Sizes, tensors: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
        """The results alone."""
        arrays, sizes = self.arrays(self.result, made, counts, tensors)
        return self.returned(self.result.run(arrays, sizes), made)

    def returned(self, found: Mapping[str, Tensor], made: Indices) -> tuple[Tensor, ...]:
        """The results in the caller's order, each a tensor of its own, also where one is returned twice."""
        own = list[Tensor]()
        for place, (name, index_set) in enumerate(zip(self.outputs, self.output_sets, strict=True)):
            rows = found[name].clone() if name in self.outputs[:place] else found[name]
            own.append(made.leave(rows, index_set))
        return tuple(own)

    def arrays(
        self, program: Program, made: Indices, counts: Sizes, tensors: Mapping[str, Tensor]
    ) -> tuple[dict[str, Tensor], dict[str, int]]:
        """What a program's operators take: indices, tensors in the kernels' order, and what its inspector found."""
        program.follow(made, counts)
        sizes = self.extents(counts)
        sets = {tensor.name: tensor.first_set for tensor in self.tensors}
        sets |= zip(self.upstreams, self.output_sets, strict=False)  # no upstreams without a backward pass
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
    ) -> tuple[Tensor, ...]:
        given = dict(zip(names, tensors, strict=True))
        program, wanted = module.gradients, ctx.needs_input_grad[4:]
        learnt = {tensor.name for tensor in module.tensors if tensor.learnt}
        for name, needed in zip(names, wanted, strict=True):
            if needed and name not in learnt:
                raise ValueError(f"{name} is an input, which has no gradient: detach it.")
        ctx.module, ctx.made, ctx.counts, ctx.names = module, made, counts, names
        ctx.left, ctx.again = {}, ()
        if program is None or program.rest is None or not any(wanted):
            ctx.save_for_backward(*tensors)
            return module.run(made, counts, given)
        arrays, sizes = module.arrays(program, made, counts, given)
        found = program.run(arrays, sizes)
        results = module.returned(found, made)
        left = {name: each for name, each in found.items() if name in program.rest.arrays}
        # The caller's, who may change them: PyTorch keeps them, and looks.
        again = {name: each for name, each in zip(module.outputs, results, strict=True) if each is left.get(name)}
        ctx.left, ctx.again = {name: each for name, each in left.items() if name not in again}, tuple(again)
        ctx.save_for_backward(*tensors, *again.values())
        return results

    @staticmethod
    def backward(ctx: Any, *upstreams: Tensor) -> tuple[Tensor | None, ...]:
        saved = ctx.saved_tensors  # raises where one was changed in place
        given = dict(zip(ctx.names, saved, strict=False))
        with torch.no_grad():
            gradients = _Run.gradients(ctx, given, saved[len(given) :], upstreams)
        if not keeps_graph():  # as PyTorch lets go of saved tensors
            ctx.left = {}
        if torch.is_grad_enabled():  # create_graph=True
            found = _Once.apply(len(gradients), *gradients.values(), *given.values())
            gradients = dict(zip(gradients, found, strict=True))
        wanted = zip(ctx.names, ctx.needs_input_grad[4:], strict=True)
        return (None, None, None, None, *(gradients.get(name) if needed else None for name, needed in wanted))

    @staticmethod
    def gradients(
        ctx: Any, given: Mapping[str, Tensor], results: Sequence[Tensor], upstreams: Sequence[Tensor]
    ) -> dict[str, Tensor]:
        """Those of all learnt tensors; `results` are what the caller has and the rest of the program reads."""
        module, program = ctx.module, ctx.module.gradients
        if program is None:
            raise ValueError("this extension was exported without gradients")
        again = {name: each.detach() for name, each in zip(ctx.again, results, strict=True)}
        of_results = dict(zip(module.upstreams, upstreams, strict=True))
        arrays, sizes = module.arrays(program, ctx.made, ctx.counts, {**given, **of_results})
        last = program.run if program.rest is None else program.rest
        found = last({**arrays, **ctx.left, **again}, sizes)
        shapes = {name: each.shape for name, each in given.items()}
        gradients = module.shaped(found, ctx.made, shapes)
        # Summed in float32, and rounded once.
        return {name: module.pad(name, each.to(given[name].dtype)) for name, each in gradients.items()}


class _Once(torch.autograd.Function):  # type: ignore[misc]
    """Gradients that hang on tensors, and have no gradients of their own: who asks for them is told."""

    @staticmethod
    def forward(ctx: Any, count: int, *given: Tensor) -> tuple[Tensor, ...]:
        return given[:count]

    @staticmethod
    def backward(ctx: Any, *upstreams: Tensor) -> NoReturn:
        raise RuntimeError("Compiled gradients have no gradients themselves: what needs them is for eager PyTorch.")
