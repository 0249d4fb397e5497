"""What a module is called with: tensors, by the names of its forward's parameters, in dictionaries and lists by what
they are called there; and everything else as it was."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch

from explorer.runtime.trace.tapes.examples import Counting, rows_told, set_dim
from explorer.runtime.trace.tapes.nested import Leaf, matrices_in, put_together, taken_apart
from explorer.runtime.trace.tapes.tape import TraceError

Form = tuple[tuple[int | None, ...], bool]
"""A tensor's shape, None for the dimension that its rows are, and whether it is of floats."""


@dataclass(frozen=True)
class Arguments:
    """How calls are made, and read: `forms` are the shapes and kinds of the tensors of the traced call, `held` its
    arguments with the places of tensors in them, `numbers` the whole numbers that are tensors without dimensions.
    `counted` are by argument how many rows of a set it says that there are: a number of Python's, which is a tensor
    without dimensions here, or ids, by the largest of them."""

    signature: inspect.Signature
    forms: Mapping[str, Form]
    held: Mapping[str, Any]
    numbers: Mapping[str, int]
    counted: Mapping[Counting, int] = field(default_factory=dict)

    @classmethod
    def of(cls, module: Any, args: tuple[Any, ...], named: Mapping[str, Any]) -> tuple[Arguments, dict[str, Any]]:
        """Of a call, with its tensors. Raises TraceError for what is not understood."""
        signature = inspect.signature(module.forward)
        try:
            bound = _bound(signature, args, named)
        except TypeError as error:
            raise TraceError(f"{type(module).__name__}.forward is not called so: {error}.") from None
        held, tensors = _apart(bound)
        for name, tensor in tensors.items():
            _check(name, tensor)
        forms = {name: _form(tensor, set_dim(tensor)) for name, tensor in tensors.items()}
        numbers = {name: int(each) for name, each in tensors.items() if forms[name] == ((), False)}
        for each in matrices_in(held):
            if tensors[each.values.name].shape[0] in {int(tensors[size]) for size in each.sizes}:
                raise TraceError(
                    "the example has a sparse matrix with as many nonzeros as rows or columns: trace with one whose "
                    "counts differ."
                )
        return cls(signature, forms, held, numbers), tensors

    def counting(self, name: Counting, count: int) -> Arguments:
        """The same where one more argument says how many rows of a set there are."""
        counted = {**self.counted, name: count}
        if isinstance(name, tuple):
            return replace(self, counted=counted)
        if name in self.forms:
            numbers = {other: each for other, each in self.numbers.items() if other != name}
            return replace(self, counted=counted, numbers=numbers)
        forms, held = {**self.forms, name: ((), False)}, {**self.held, name: Leaf(name)}
        return replace(self, forms=forms, held=held, counted=counted)

    @cached_property
    def numbered(self) -> frozenset[str]:
        """The numbers of Python's among those that say how many rows there are."""
        names = (name for name in self.counted if not isinstance(name, tuple))
        return frozenset(name for name in names if self.forms[name] == ((), False))

    def said(self, tensors: Mapping[str, Any]) -> list[int]:
        """How many rows each of `counted` says that there are, of these tensors."""
        return [rows_told(tensors, key) for key in self.counted]

    @cached_property
    def of_matrices(self) -> tuple[tuple[str, str], ...]:
        """By sparse matrix, the tensors that are how many rows and columns it has."""
        return tuple(each.sizes for each in matrices_in(dict(self.held)))

    def with_numbers(self, tensors: Mapping[str, Any]) -> dict[str, Any]:
        """The tensors of a call, and numbers of Python's for those that are such ones there."""
        whole = self.numbered.union(*self.of_matrices)
        return {name: int(each) if name in whole else each for name, each in tensors.items()}

    def call(self, tensors: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of a call with these tensors, or numbers."""
        bound = inspect.BoundArguments(self.signature, dict[str, Any]())
        for name in self.signature.parameters:
            if name in self.held:
                bound.arguments[name] = put_together(self.held[name], tensors)
        return bound.args, bound.kwargs

    @cached_property
    def _in_places(self) -> tuple[str, ...]:
        """The parameters, where all may be given without their names."""
        kinds = {each.kind for each in self.signature.parameters.values()}
        return tuple(self.signature.parameters) if kinds == {inspect.Parameter.POSITIONAL_OR_KEYWORD} else ()

    @cached_property
    def _plain(self) -> bool:
        """Whether all that is given is tensors, each for itself, of which no numbers are taken."""
        return not self.numbers and all(self.held.get(name) == Leaf(name) for name in self._in_places)

    @cached_property
    def _expected(self) -> tuple[tuple[Form, int | None], ...]:
        """The forms in the order of the parameters, with the dimension that is of any size."""
        forms = [self.forms[name] for name in self._in_places]
        return tuple((form, form[0].index(None) if None in form[0] else None) for form in forms)

    def tensors(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, Any]:
        """The tensors of a call. Raises ValueError for one that the trace is not of."""
        # As most calls are: to bind takes longer than a kernel.
        if args and not named and len(args) == len(self._in_places):
            if self._plain and all(map(_is_such, args, self._expected)):
                return dict(zip(self._in_places, args, strict=True))
            bound = dict(zip(self._in_places, args, strict=True))
        else:
            bound = _bound(self.signature, args, named)
        numbers = {name: torch.tensor(bound[name]) for name in self.numbered if type(bound.get(name)) is int}
        held, tensors = _apart({**bound, **numbers})
        if tensors.keys() != self.forms.keys() or held != self.held:
            others = {name: each for name, each in self.held.items() if not isinstance(each, Leaf)}
            raise ValueError(f"this was traced with the tensors {', '.join(self.forms)} and {others}.")
        for name, tensor in tensors.items():
            expected = self.forms[name]
            form = _form(tensor, expected[0].index(None) if None in expected[0] else None)
            if form != expected:
                raise ValueError(f"{name} is {_said(form)}, but this was traced with {_said(expected)}.")
        for name, number in self.numbers.items():
            if int(tensors[name]) != number:
                raise ValueError(f"{name} is {int(tensors[name])}, but this was traced with {number}: trace it again.")
        return tensors


def _apart(bound: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Arguments with the places of the tensors in them, and the tensors."""
    held, tensors = {}, dict[str, Any]()
    for name, each in bound.items():
        held[name], found = taken_apart(name, each)
        tensors |= found
    return held, tensors


def _form(tensor: Any, rows: int | None) -> Form:
    return tuple(None if dim == rows else size for dim, size in enumerate(tensor.shape)), tensor.is_floating_point()


def _is_such(each: Any, expected: tuple[Form, int | None]) -> bool:
    (sizes, floating), rows = expected
    if not isinstance(each, torch.Tensor) or each.dim() != len(sizes) or each.is_floating_point() != floating:
        return False
    if each.layout != torch.strided:
        return False
    if rows is None:
        return bool(each.shape == sizes)
    return len(sizes) == 1 or all(at == rows or size == sizes[at] for at, size in enumerate(each.shape))


def _said(form: Form) -> str:
    sizes = ", ".join("any" if size is None else str(size) for size in form[0])
    return f"[{sizes}] of {'floats' if form[1] else 'whole numbers'}"


def _bound(signature: inspect.Signature, args: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, Any]:
    bound = signature.bind(*args, **named)
    bound.apply_defaults()
    return dict(bound.arguments)


def _check(name: str, tensor: Any) -> None:
    if tensor.device.type != "cpu":
        raise TraceError(f"{name} is on {tensor.device}: trace on the CPU; what comes out runs on either.")
    if tensor.is_inference():
        raise TraceError(f"{name} was made in torch.inference_mode(), which no gradient passes: hand in a clone of it.")
    if tensor.is_floating_point() and tensor.dtype != torch.float32:
        raise TraceError(f"{name} is of {tensor.dtype}: the language computes in 32-bit floats.")
    if tensor.is_complex() or tensor.layout != torch.strided:
        raise TraceError(
            f"{name} is complex, or sparse but no matrix of numbers in COO or CSR, which the language has no words for."
        )
