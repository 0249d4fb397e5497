"""The operators that a module calls, in their order: those on integers alone, and those on floats, which a text says.

A tape lies below autograd, so it sees the forward operators of ATen as they are run, whatever Python is around them.
What a float decides, what is drawn at random and what keeps its gradient back would be true of one call alone: it is
refused where it happens, with the line of the user's that asks for it.
"""

from __future__ import annotations

import linecache
import os
import sys
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from math import inf, isinf
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from explorer.runtime.trace.tapes.bags import are_bags, are_plain, bagged, bagged_by, bags_of, begins_of, rows_of_bags
from explorer.runtime.trace.tapes.columns import MOST_COLUMNS, Columns, columns_of, flattened, gathered, ids_read
from explorer.runtime.trace.tapes.matrices import Matrices, Unmade, is_sparse

_OURS = tuple(f"{folder}{os.sep}" for folder in (Path(torch.__file__).parent, Path(__file__).parents[1]))
_MAXIMA = {"aten::amax", "aten::amin", "aten::max", "aten::min", "aten::scatter_reduce", "aten::scatter_reduce_"}
_MAXIMA |= {"aten::index_reduce", "aten::index_reduce_"}
_MAXIMA |= {f"aten::{name}" for name in ("gt", "lt", "ge", "le", "eq", "ne", "sign", "floor")}
_MAXIMA |= {f"aten::new_{name}" for name in ("zeros", "ones", "full")}
_MAXIMA |= {f"aten::{name}_like" for name in ("zeros", "ones", "full")}
"""What may read a tensor that was kept from its gradient: the largest of some, which a softmax takes off again, as the
replacement's gradients are checked for; and what has no gradient anyway."""
_VIEWS = {f"aten::{name}" for name in ("view", "unsqueeze", "squeeze", "expand", "select", "alias", "detach")}
_NUMBERS = {"aten::_local_scalar_dense", "aten::item", "aten::is_nonzero", "aten::equal", "aten::allclose"}
"""Operators whose result is a number of Python's, which a branch may look at."""

_INDEXED = {"aten::index", "aten::index_put", "aten::index_put_"}

_TURNED = {
    torch.ops.aten.transpose_.default: torch.ops.aten.transpose.int,
    torch.ops.aten.t_.default: torch.ops.aten.t.default,
    torch.ops.aten.unsqueeze_.default: torch.ops.aten.unsqueeze.default,
    torch.ops.aten.squeeze_.default: torch.ops.aten.squeeze.default,
    torch.ops.aten.squeeze_.dim: torch.ops.aten.squeeze.dim,
}
"""What changes the shape of a tensor in place, as PyTorch's recurrent modules do, and the view that it is."""

_FILLED = {
    torch.ops.aten.masked_fill.Scalar: torch.ops.aten.masked_fill.Tensor,
    torch.ops.aten.masked_fill_.Scalar: torch.ops.aten.masked_fill_.Tensor,
}
"""What puts a number into the places of a mask, and the same of a tensor of one number."""

_RRELU = (1 / 8 + 1 / 3) / 2
"""The slope of a random leaky ReLU in evaluation, where none is given."""

PADDING = "is_padding"
"""Beside an embedding's arguments: which of its ids are those of the padding, whose row has no gradient."""

_UNSEEN = {"tolist", "numpy", "__array__", "__dlpack__"}
"""What takes numbers out of a tensor below the operators."""


@dataclass(frozen=True)
class Where:
    """A line of the user's: the innermost one that is neither PyTorch's nor the tracer's."""

    file: str
    line: int

    @property
    def source(self) -> str:
        """The line's text."""
        return linecache.getline(self.file, self.line).strip()

    def __str__(self) -> str:
        return f"{Path(self.file).name}, line {self.line}: {self.source}"


class TraceError(ValueError):
    """What cannot be said in the model language, with the user's line and what to do. `reached` is how many calls of a
    tape could be said before; less where another way of saying them tells more."""

    def __init__(self, message: str, where: Where | None = None, reached: float = inf) -> None:
        super().__init__(f"{message}\n  {where}" if where else message)
        self.where, self.reached = where, reached


@dataclass(frozen=True, eq=False)
class Call:
    """One operator: what it was called with, and the tensors or numbers that it returned."""

    operator: str
    arguments: tuple[Any, ...]
    named: dict[str, Any]
    returned: Any
    floating: bool
    of_ids: bool  # whether no float that was given comes in, so that it can be run again from ids
    where: Where
    function: Any

    @property
    def in_place(self) -> bool:
        """Whether it writes into its first argument."""
        return self.operator.partition(".")[0].endswith("_")

    def argument(self, position: int, name: str, otherwise: Any = None) -> Any:
        """An argument by its place or its name."""
        if position < len(self.arguments):
            return self.arguments[position]
        return self.named.get(name, otherwise)


def tensors_in(each: Any) -> Iterator[Any]:
    """The tensors of an argument or a result, in lists and tuples too."""
    if isinstance(each, torch.Tensor):
        yield each
    elif isinstance(each, list | tuple):
        for inner in each:
            yield from tensors_in(inner)


class Tape(TorchDispatchMode):  # type: ignore[misc]
    """Records while it is entered. `floating` are the tensors that depend on floats, of which the first are given;
    `sizes` are those of the inputs' index sets."""

    def __init__(self, given: list[Any], sizes: Collection[int] = ()) -> None:
        super().__init__()
        self._sizes = sizes
        self._flat: dict[int, Columns] = {}  # ids of two dimensions that were put one behind another
        self.calls: list[Call] = []
        self.floating = {id(tensor) for tensor in given if tensor.is_floating_point()}
        self._given_floats = set(self.floating)  # and what is made of them
        self._detached: set[int] = set()
        self._largest: set[int] = set()  # what maxima returned, which may be detached as what they are of
        self._given = tuple(given)
        self._matrices = Matrices(lambda func, *of, **named: self.__torch_dispatch__(func, (), of, named))
        self._kept = list(given)  # so that no other tensor takes the identity of one

    def kept_at(self, memory: int) -> list[Any]:
        """The tensors so far that lie in a piece of memory."""
        return [tensor for tensor in self._kept if tensor.untyped_storage().data_ptr() == memory]

    def given(self, tensor: Any) -> bool:
        """Whether a tensor was there before, or shares its memory with one that was."""
        memory = tensor.untyped_storage().data_ptr()
        return any(each.untyped_storage().data_ptr() == memory for each in self._given)

    def knows(self, tensor: Any) -> bool:
        """Whether a tensor was given or made."""
        return any(tensor is each for each in self._kept)

    def changed(self, tensor: Any) -> Where | None:
        """The line that changes a tensor in place, itself or a part of it; None where no operator did."""
        memory = tensor.untyped_storage().data_ptr()
        for call in self.calls:
            if call.in_place and call.arguments[0].untyped_storage().data_ptr() == memory:
                return call.where
        return None

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in _TURNED and not any(args[0] is each for each in self._given):
            return self._turned(func, args)
        named = dict(kwargs or {})
        read = [*tensors_in(args), *tensors_in(list(named.values()))]
        if is_sparse(func, read):
            return self._of_matrices(func, args, named)
        floating = any(id(tensor) in self.floating for tensor in read)
        of_ids = all(id(tensor) not in self._given_floats for tensor in read)
        where = _where(sys._getframe(1))
        name = func._schema.name
        if floating and name in _INDEXED:
            args = (args[0], [self._as_ids(each) for each in args[1]], *args[2:])
        if floating and (made := self._by_others(func, args, where)) is not None:
            return made
        if floating and name in _NUMBERS:
            raise TraceError(
                f"{func}: a number is taken out of a tensor of floats, which another input would make another. "
                "Leave the choice in the tensors, with torch.where, or trace the parts on either side.",
                where,
            )
        if torch.Tag.nondeterministic_seeded in func.tags:
            raise TraceError(
                f"{func}: what is drawn at random is not in the model language. Trace in module.eval(), or draw it "
                "outside and hand it in.",
                where,
            )
        cut = name == "aten::detach" and floating and args[0].requires_grad and id(args[0]) not in self._largest
        behind = any(id(tensor) in self._detached for tensor in read)
        if behind and name not in _MAXIMA | _VIEWS:
            raise TraceError(
                f"{func}: it reads a tensor that is detached, whose gradient a text would have. Leave detach out, or "
                "hand in what needs no gradient.",
                where,
            )
        padding = args[2] if name == "aten::embedding" and len(args) > 2 and not of_ids else -1
        if padding >= 0:
            is_padding = self.__torch_dispatch__(torch.ops.aten.eq.Scalar, (), (args[1], padding))
        returned = func(*args, **named)
        if padding >= 0:
            named[PADDING] = is_padding
        made = list(tensors_in(returned))
        self._detached |= {id(tensor) for tensor in made} if cut or (behind and name in _VIEWS) else set()
        floating = floating or any(tensor.is_floating_point() for tensor in made)
        in_place = name.split(".")[0].endswith("_")  # whose gradient the check of the replacement looks at
        if floating and not in_place and not torch.is_grad_enabled() and any(tensor.requires_grad for tensor in read):
            raise TraceError(
                f"{func}: it is run without gradients, in torch.no_grad() or a torch.autograd.Function of its own, "
                "whose gradient a text would not have. Write the forward pass with PyTorch's own operators.",
                where,
            )
        largest = name in _MAXIMA or (name in _VIEWS and id(args[0]) in self._largest)
        self._largest |= {id(tensor) for tensor in made} if largest else set()
        self._kept += made
        self.floating |= {id(tensor) for tensor in made} if floating else set()
        self._given_floats |= set() if of_ids else {id(tensor) for tensor in made}
        self.calls.append(Call(_short(func), args, named, returned, floating, of_ids, where, func))
        if not floating and (columns := flattened(name, args, returned, self._sizes)) is not None:
            self._flat[id(returned)] = columns
        return returned

    def _by_others(self, func: Any, args: tuple[Any, ...], where: Where) -> Any:
        """What an operator returns that the tape has as others; None of any that it has as it is."""
        name = func._schema.name
        if are_bags(name):
            return self._bagged(func, args, where)
        if func in _FILLED and isinf(args[2]):  # which a text has no number for, but a tensor may hold
            number = {"dtype": args[0].dtype, "device": args[0].device}
            filled = self.__torch_dispatch__(torch.ops.aten.full.default, (), ([], args[2]), number)
            return self.__torch_dispatch__(_FILLED[func], (), (*args[:2], filled))
        if name == "aten::rrelu_with_noise" and not any(args[4:5]):  # in evaluation, of the mean of the slopes
            slope = (args[2] + args[3]) / 2 if len(args) > 3 else _RRELU
            return self.__torch_dispatch__(torch.ops.aten.leaky_relu.default, (), (args[0], slope))
        by = ids_read(name, args)
        columns = None if by is None else self._flat.get(id(by[0])) or columns_of(by[0], self._sizes)
        if by is None or columns is None:
            return None
        return gathered(lambda each, *of: self.__torch_dispatch__(each, (), of), func, args, columns, by[1])

    def _of_matrices(self, func: Any, args: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
        """What an operator returns that makes or reads sparse matrices, by those that it is made of."""
        where = _where(sys._getframe(2))
        try:
            return self._matrices.returned(func, args, named)
        except LookupError:
            raise TraceError(
                f"{func}: it reads a sparse tensor that is no buffer or input: register_buffer makes it one, or hand "
                "it in as an argument.",
                where,
            ) from None
        except Unmade as error:
            raise TraceError(f"{func}: {error}", where) from None

    def _bagged(self, func: Any, args: tuple[Any, ...], where: Where) -> Any:
        """What an embedding bag returns, its rows by the operators that it is made of."""

        def run(each: Any, *of: Any, **named: Any) -> Any:
            return self.__torch_dispatch__(each, (), of, named)

        ids = rows_of_bags(args, self._flat.get(id(args[1])), fixed=id(args[2]) in constants(self))
        if ids is not None:
            made = bagged(run, args, ids)
        elif len(args[1]) == len(args[2]):
            raise TraceError(f"{func}: the example has as many ids as bags: trace with one whose counts differ.", where)
        elif len(args[2]) in self._sizes and are_plain(args):
            begins = begins_of(run, args)
            made = bagged_by(run, args, bags_of(run, args[1], begins), len(begins))
        else:
            raise TraceError(
                f"{func}: bags are neither [bags, ids of one], of {MOST_COLUMNS} ids or fewer, nor told by offsets, "
                "without padding. Hand in such offsets, or gather the rows and sum them by the bag of each id, as "
                "index_add of embedding(ids) does.",
                where,
            )
        return made, *func(*args)[1:]

    def _turned(self, func: Any, args: tuple[Any, ...]) -> Any:
        """Changes the shape of a tensor in place: it is a view of what it was, which calls so far are of."""
        now, was = args[0], torch.ops.aten.alias.default(args[0])

        def before(each: Any) -> Any:
            if isinstance(each, list | tuple):
                return type(each)(before(inner) for inner in each)
            return was if each is now else each

        self.calls = [
            replace(
                call,
                arguments=before(call.arguments),
                named={name: before(each) for name, each in call.named.items()},
                returned=before(call.returned),
            )
            for call in self.calls
        ]
        for known in (self.floating, self._given_floats, self._detached, self._largest):
            known |= {id(was)} if id(now) in known else set()
        if id(now) in self._flat:
            self._flat[id(was)] = self._flat.pop(id(now))
        self._kept.append(was)
        func(*args)
        view, floating = _TURNED[func], id(now) in self.floating
        of_ids, where = id(now) not in self._given_floats, _where(sys._getframe(2))
        self.calls.append(Call(_short(view), (was, *args[1:]), {}, now, floating, of_ids, where, view))
        return now

    def _as_ids(self, index: Any) -> Any:
        """A mask of rows that ids make as the ids that it picks, which is the same by definition."""
        if index is None or index.dtype != torch.bool or index.dim() != 1 or id(index) in self.floating:
            return index
        picked = self.__torch_dispatch__(torch.ops.aten.nonzero.default, (), (index,))
        return self.__torch_dispatch__(torch.ops.aten.squeeze.dim, (), (picked, 1))


class Unseen(TorchFunctionMode):  # type: ignore[misc]
    """Refuses, while it is entered, what takes numbers out of a tape's tensors without an operator."""

    def __init__(self, tape: Tape) -> None:
        super().__init__()
        self._tape = tape

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        if name in _UNSEEN and self._tape.knows(args[0]):
            raise TraceError(
                f"{name}: numbers are taken out of a tensor, which other inputs would make others. Leave them in the "
                "tensors.",
                _where(sys._getframe(1)),
            )
        return func(*args, **(kwargs or {}))


def constants(tape: Tape) -> set[int]:
    """The whole numbers that Python brought, by identity, and what was made of these alone, or of no tensor; but for
    those that lie where something is written, and what is made of them."""
    found = set[int]()
    written = {call.arguments[0].untyped_storage().data_ptr() for call in tape.calls if call.in_place}
    for call in tape.calls:
        read = [*tensors_in(call.arguments), *tensors_in(list(call.named.values()))]
        fresh = call.operator in ("lift_fresh", "lift_fresh_copy") and not tape.given(read[0])
        if not call.floating and not call.in_place and (fresh or all(id(each) in found for each in read)):
            found |= {id(t) for t in tensors_in(call.returned) if t.untyped_storage().data_ptr() not in written}
    return found


def attributes(tape: Tape) -> set[int]:
    """The whole numbers that pick elements within rows, and are neither given nor made by an operator, by identity; but
    for those that are written."""
    made, found = set[int](), dict[int, Any]()
    for call in tape.calls:
        within = call.operator == "index.Tensor" and call.arguments[1][0] is None
        found |= {id(each): each for each in tensors_in(call.arguments[1] if within else []) if id(each) not in made}
        made |= {id(each) for each in tensors_in(call.returned)}
    written = {call.arguments[0].untyped_storage().data_ptr() for call in tape.calls if call.in_place}
    outside = {key: each for key, each in found.items() if not tape.given(each)}
    return {key for key, each in outside.items() if each.untyped_storage().data_ptr() not in written}


def _short(function: Any) -> str:
    """`aten.sum.dim_IntList` as `sum.dim_IntList`, and a default overload without its name."""
    return str(function).removeprefix("aten.").removesuffix(".default")


def _where(frame: FrameType | None) -> Where:
    """The line that a call comes from."""
    while frame is not None and frame.f_code.co_filename.startswith(_OURS) and frame.f_back is not None:
        frame = frame.f_back
    return Where(frame.f_code.co_filename, frame.f_lineno) if frame else Where("", 0)
