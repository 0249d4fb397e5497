"""A module run on an example, with its tape: what was given, and what it returned."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch.backends import mkldnn
from torch.nn.attention import SDPBackend, sdpa_kernel

from explorer.runtime.trace.tapes.arguments import Arguments
from explorer.runtime.trace.tapes.examples import sizes_of
from explorer.runtime.trace.tapes.nested import put_together, taken_apart
from explorer.runtime.trace.tapes.state import apart, changed, only_set, state
from explorer.runtime.trace.tapes.tape import Tape, TraceError, Unseen
from explorer.runtime.trace.texts.names import identifier, tensor_names

TOGETHER = " and "
"""Between the paths of parameters whose rows are one table, one behind another."""
ROWS = " rows "
"""Between the path of a parameter and the places that some of its rows are between."""
RESULT = "the result"
"""The place of what a module returns; of the second of several it is `the result.1`."""


@dataclass(frozen=True)
class Given:
    """A tensor that the module has or is called with: its name in a text, its path in the module or the argument that
    it is, and a `kind`: param, buffer or input."""

    name: str
    path: str
    kind: str
    tensor: Any

    @property
    def place(self) -> str:
        """Where it is at a call: its path, or the place of an argument, which may be called as a parameter is."""
        return place_of(self.path) if self.kind == "input" else self.path


def place_of(argument: str) -> str:
    """The place of an argument, which no path of a module is."""
    return f"argument {argument}"


@dataclass(frozen=True)
class Recorded:
    """One run: its tape, what it was given, the tensors that it returned, by their places, and what these were in."""

    tape: Tape
    given: tuple[Given, ...]
    results: Mapping[str, Any]
    form: Any

    @property
    def whole(self) -> dict[str, Any]:
        """What ids are made of, by place: the inputs, of floats for their sizes, and buffers of integers."""
        taken = (each for each in self.given if each.kind == "input" or not each.tensor.is_floating_point())
        return {each.place: each.tensor for each in taken}

    def copied(self, own: Mapping[str, Any]) -> dict[int, Any]:
        """By the identity of its copy, each of the module's `own` parameters and buffers, as they were before: PyTorch
        leaves copies in a module that has two names."""
        return {id(each.tensor): own[each.path] for each in self.given if each.kind != "input"}

    @property
    def inputs(self) -> dict[str, Any]:
        """The tensors that the module was called with, by argument."""
        return {each.path: each.tensor for each in self.given if each.kind == "input"}


def record(module: Any, inputs: Mapping[str, Any], arguments: Arguments, others: bool) -> Recorded:
    """Runs a copy of a module on copies of its parameters and buffers, or on `others`, of other numbers: what Python
    takes out of one where no operator is seen is then another. Raises TraceError for what the module changes, and where
    it returns no tensor. A flag that it sets is as it stays in the second run."""
    module = apart(module)
    before, own = state(module, {}), own_of(module)[1]
    first = _recorded(module, inputs, arguments, others)
    if not (after := changed(before, (held := state(module, first.copied(own))))):
        return first
    if only_set(before, held):
        second = _recorded(module, inputs, arguments, others)
        if not changed(held, state(module, second.copied(own))):
            return second
    raise TraceError(
        f"forward changes what the module holds, {after[0].removeprefix('.')}: a text only computes, and keeps nothing "
        "for the next call. Do it outside of forward, as without cached=True."
    )


def _recorded(module: Any, inputs: Mapping[str, Any], arguments: Arguments, others: bool) -> Recorded:
    """One run of this very module."""
    held, tensors = own_of(module)
    own = {path: _copied(each, others) for path, each in tensors.items()}
    names = tensor_names(list(own), [identifier(argument) for argument in inputs])
    params = {path for path, _ in module.named_parameters()}
    given = [Given(names[path], path, "param" if path in params else "buffer", each) for path, each in own.items()]
    taken = set(names.values())
    for argument, tensor in inputs.items():
        name = identifier(argument)
        given.append(Given(f"{name}_" if name in taken else name, argument, "input", tensor))
    before = {each.name: (each.tensor.data_ptr(), each.tensor._version) for each in given}
    tape = Tape([each.tensor for each in given], sizes_of(inputs.values()))
    numbers = arguments.with_numbers(inputs)
    try:
        with torch.enable_grad(), sdpa_kernel(SDPBackend.MATH), _without_onednn(), tape:
            args, named = arguments.call(numbers)
            called = {path: put_together(each, own) for path, each in held.items()}
            given_own = dict(called)
            with Unseen(tape):
                result = torch.func.functional_call(module, called, args, named)
    except TraceError:
        raise
    except Exception as error:
        shapes = ", ".join(f"{name} {list(tensor.shape)}" for name, tensor in inputs.items())
        raise TraceError(
            f"the module raises {type(error).__name__} on inputs like the example's, of other sizes and ids "
            f"({shapes}): {str(error)[:400]}"
        ) from error
    for each in given:
        if (each.tensor.data_ptr(), each.tensor._version) != before[each.name]:
            raise TraceError(
                f"the module's {each.kind} {each.path} is changed in place: a text only computes. Make a new tensor of "
                "it, or do it outside of forward.",
                tape.changed(each.tensor),
            )
    for path, tensor in given_own.items():
        if called[path] is not tensor:  # as functional_call tells
            raise TraceError(f"forward makes {path} another tensor: a text only computes. Do it outside of forward.")
    form, results = taken_apart(RESULT, result)
    if not results:
        raise TraceError(f"the module returns a {type(result).__name__} without a tensor: there is nothing to compile.")
    return Recorded(tape, tuple(given), results, form)


def _copied(tensor: Any, other: bool) -> Any:
    made = tensor.detach().clone()
    if other and tensor.is_floating_point():
        made.mul_(1.2371).add_(0.1173)  # of which no usual number stays the same
    return made.requires_grad_(tensor.requires_grad)


def own_of(module: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """A module's parameters and buffers by their paths, as `taken_apart` does it, and the tensors in them."""
    held, tensors = dict[str, Any](), dict[str, Any]()
    for path, each in (*module.named_parameters(), *module.named_buffers()):
        held[path], found = taken_apart(path, each)
        tensors |= found
    return held, tensors


@contextmanager
def in_mode(module: Any, training: bool) -> Iterator[None]:
    """The module in training or in evaluation, and then in the modes that it was in."""
    modes = {each: each.training for each in module.modules()}
    module.train(training)
    try:
        yield
    finally:
        for each, mode in modes.items():
            each.training = mode


@contextmanager
def _without_onednn() -> Iterator[None]:
    """Recurrent modules as operators that are each one function, not as one of oneDNN's."""
    before, mkldnn.enabled = mkldnn.enabled, False
    try:
        yield
    finally:
        mkldnn.enabled = before
