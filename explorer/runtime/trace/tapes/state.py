"""What a module holds beside its parameters and buffers: a forward that changes it does more than a text says."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any
from weakref import ReferenceType

import torch

from explorer.runtime.trace.tapes.tape import TraceError

State = dict[str, Any]
"""By path, what is there: objects to be the same ones, numbers and texts to be equal."""
_VALUES = bool, int, float, complex, str, bytes
_OPAQUE = type, FunctionType, BuiltinFunctionType, ModuleType, torch.dtype, torch.device


def apart(module: Any) -> Any:
    """A copy of a module, with the same parameters and buffers, whose state nobody else has. Raises TraceError."""
    shared = {id(each): each for each in (*module.parameters(), *module.buffers())}
    try:
        return copy.deepcopy(module, shared)
    except Exception as error:
        raise TraceError(
            f"the module cannot be copied, so it cannot be run without changing it: {type(error).__name__}: "
            f"{str(error)[:200]}"
        ) from error


def state(module: Any, copies: Mapping[int, Any]) -> State:
    """What a module and all that it refers to hold. `copies` are, by identity, what stands in the place of tensors of
    its own while it is run, with those: PyTorch leaves them in a recurrent module's list of weights."""
    return dict(_held("", module, set(), copies))


def changed(before: State, after: State) -> list[str]:
    """The paths at which two states differ."""
    paths = dict.fromkeys((*before, *after))
    return [p for p in paths if p not in before or p not in after or not _same(before[p], after[p])]


def only_set(before: State, after: State) -> bool:
    """Whether two states differ in flags alone, that are true or false."""
    return all(isinstance(after.get(path), bool) for path in changed(before, after))


def _same(one: Any, other: Any) -> bool:
    """Whether two are the same; lists are where what they hold is, which has paths of its own."""
    alike = type(one) is type(other)
    return one is other or (alike and (isinstance(one, list) or (isinstance(one, _VALUES) and one == other)))


def _held(path: str, each: Any, seen: set[int], copies: Mapping[int, Any]) -> Iterator[tuple[str, Any]]:
    each = each() if isinstance(each, ReferenceType) else each
    each = copies.get(id(each), each)
    yield path, each
    if isinstance(each, (*_VALUES, *_OPAQUE)) or id(each) in seen:
        return
    seen.add(id(each))
    if isinstance(each, torch.Tensor):
        yield f"{path} in place", each._version
    elif isinstance(each, dict):
        for name, inner in each.items():
            yield from _held(f"{path}[{name!r}]", inner, seen, copies)
    elif isinstance(each, list | tuple):
        for at, inner in enumerate(each):
            yield from _held(f"{path}[{at}]", inner, seen, copies)
    elif isinstance(each, set | frozenset):
        yield f"{path} in all", len(each)
    elif isinstance(inside := getattr(each, "__dict__", None), dict):  # objects of C may say anything there
        for name, inner in inside.items():
            yield from _held(f"{path}.{name}", inner, seen, copies)
