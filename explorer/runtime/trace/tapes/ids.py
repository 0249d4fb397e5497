"""The part of a tape that depends on integers alone: how the maps' ids come from a call's inputs.

It is run again for real on every call. Numbers that Python made of sizes are found by comparing two tapes, whose sets
have other sizes: a number that differs is a size of the same tape, or one and a constant.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from operator import ne
from typing import Any

import torch

from explorer.runtime.trace.tapes.tape import Call, Tape, TraceError, tensors_in
from explorer.runtime.trace.tapes.unions import put_behind

MOST_APART = 2
"""The constant that may be between a number and the size that it was made of: the largest id, and 1."""


@dataclass(frozen=True)
class Ref:
    """The tensor that an input is, "name", or that a call returned, its number and which of its results."""

    source: str | int
    place: int = 0


@dataclass(frozen=True)
class Size:
    """A number: a dimension of a tensor, or the number that a call returned where `dim` is None, so many times and a
    constant, as how many pairs of a node and a type there are."""

    of: Ref
    dim: int | None
    plus: int
    times: int = 1


@dataclass(frozen=True)
class Sum:
    """A number: the sum of sizes, as where the rows of a block begin behind those of others."""

    sizes: tuple[Size, ...]


@dataclass(frozen=True)
class _Unknown:
    """An argument that no input explains: refused where it is needed."""

    why: str


@dataclass(frozen=True, eq=False)
class _Step:
    """A call to run again; one that returns a number of Python's must return the same one, since the text may hold it,
    or a branch was taken on it, or the same size, or sum of sizes. `lengths` are those, by result and dimension, that
    depend on ids and must be the same too."""

    number: int
    call: Call
    arguments: Any
    named: Any
    must_be: bool | int | Size | Sum | None
    lengths: Mapping[tuple[int, int], int]

    @property
    def varies(self) -> bool:
        """Whether ids decide how long a result is, and do so otherwise in the two tapes."""
        dims = sum(tensor.dim() for tensor in tensors_in(self.call.returned))
        return torch.Tag.dynamic_output_shape in self.call.function.tags and len(self.lengths) < dims

    def hold(self, returned: Any, must_be: Any) -> None:
        """Raises ValueError where another call returned other numbers than the traced one, or than it `must_be`."""
        made = list(tensors_in(returned))
        if must_be is not None and returned != must_be:
            what = "branches" if isinstance(must_be, bool) else f"takes the number {must_be} out of ids"
            raise ValueError(
                f"the traced module {what} here, and these inputs go the other way: {self.call.where}. Trace it again "
                "with such inputs."
            )
        if any(made[place].shape[dim] != size for (place, dim), size in self.lengths.items()):
            raise ValueError(
                f"the traced module picks as many ids here as it was traced with, and of these inputs another number: "
                f"{self.call.where}. Trace it again with such inputs."
            )


@dataclass(frozen=True)
class Column:
    """The ids `along` a dimension of what `picks` leave of an input: dimensions, and the element of each."""

    source: str
    picks: tuple[tuple[int, int], ...]
    along: int | None = None

    def of(self, tensor: Any) -> Any:
        """Those of a call's input."""
        for dim, element in self.picks:
            tensor = tensor.select(dim, element)
        return read(tensor, self.along)


def _picked(step: _Step) -> list[tuple[tuple[int, int], ...]] | None:
    """What a step picks of its first argument, by result, where it does nothing else: `x[:, 0]`, `x.unbind(1)`."""
    if step.named or step.must_be is not None or step.lengths or not isinstance(step.arguments[0], Ref):
        return None
    rest = step.arguments[1:]
    if not all(isinstance(each, int) for each in rest):
        return None
    match step.call.operator, rest:
        case "select.int", (dim, element):
            return [((dim, element),)]
        case "slice.Tensor", (_, 0, end) if end >= sys.maxsize:
            return [()]
        case "unbind.int", _:
            dim = rest[0] if rest else 0
            return [((dim, place),) for place in range(len(step.call.returned))]
    return None


class Ids:
    """Makes the ids of maps, numbers that depend on ids alone, and how many elements sets have, out of a call's
    inputs."""

    def __init__(
        self,
        steps: Sequence[_Step],
        maps: Mapping[str, tuple[Ref, int | None]],
        counts: Mapping[str, Size | Sum],
        alike: Sequence[tuple[Size, ...]],
    ) -> None:
        self._steps, self._maps, self._counts, self._alike = steps, maps, counts, alike

    @cached_property
    def columns(self) -> Mapping[str, Column] | None:
        """By map, the column of an input that its ids are; None where steps make any otherwise."""
        found: dict[Ref, Column] = {}

        def column_of(ref: Ref) -> Column | None:
            return Column(ref.source, ()) if isinstance(ref.source, str) else found.get(ref)

        for step in self._steps:
            picked = _picked(step)
            of = column_of(step.arguments[0]) if picked is not None else None
            if picked is None or of is None:
                return None
            found |= {Ref(step.number, place): replace(of, picks=of.picks + each) for place, each in enumerate(picked)}
        columns = {name: (column_of(ref), dim) for name, (ref, dim) in self._maps.items()}
        if any(each is None for each, _ in columns.values()):
            return None
        return {name: replace(each, along=dim) for name, (each, dim) in columns.items() if each}

    def of(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """By map, its ids, and the numbers and counts by their names. Raises ValueError where Python took another
        branch in the calls that were traced."""
        results: dict[Ref, Any] = {Ref(name): each for name, each in inputs.items()}
        device = next((each.device for each in inputs.values() if each.dim()), None)
        with torch.no_grad():
            for step in self._steps:
                arguments, named = (_filled(each, results, device) for each in (step.arguments, step.named))
                returned = step.call.function(*arguments, **named)
                step.hold(returned, _filled(step.must_be, results, device))
                made = list(tensors_in(returned)) or [returned]
                results |= {Ref(step.number, place): each for place, each in enumerate(made)}
        for sizes in self._alike:
            _hold_alike([_filled(size, results, device) for size in sizes])
        found = {name: read(results[ref], dim) for name, (ref, dim) in self._maps.items()}
        return found | {name: torch.tensor(_filled(each, results, device)) for name, each in self._counts.items()}


def _hold_alike(sizes: Sequence[int]) -> None:
    """Raises ValueError where a call has several numbers of what was as many in the example."""
    if len(set(sizes)) > 1:
        raise ValueError(
            f"arguments that say how many rows there are said the same in the traced example, and say {sizes} here: "
            "trace again with an example where they differ."
        )


def read(tensor: Any, dim: int | None) -> Any:
    """The ids along a dimension of a tensor; of no dimension, all its numbers, in 32-bit floats."""
    return tensor.float() if dim is None else column(tensor, dim)


def column(ids: Any, dim: int) -> Any:
    """The ids along a dimension, which are the same all along the others."""
    return ids if ids.dim() == 1 else ids.movedim(dim, 0).flatten(1)[:, 0]


def _filled(each: Any, results: Mapping[Ref, Any], device: Any) -> Any:
    """An argument of a call that is run again, on the device of its inputs."""
    if isinstance(each, Ref):
        return results[each]
    if isinstance(each, Size):
        found = results[each.of]
        return int(found if each.dim is None else found.shape[each.dim]) * each.times + each.plus
    if isinstance(each, Sum):
        return sum(_filled(size, results, device) for size in each.sizes)
    if isinstance(each, list | tuple):
        return type(each)(_filled(inner, results, device) for inner in each)
    if isinstance(each, dict):
        return {name: _filled(inner, results, device) for name, inner in each.items()}
    if isinstance(each, torch.Tensor):
        return each.to(device)
    return device if isinstance(each, torch.device) else each


def ids_of(
    tapes: tuple[Tape, Tape],
    inputs: tuple[Mapping[str, Any], Mapping[str, Any]],
    maps: Mapping[str, tuple[Any, int | None]],
    counts: Mapping[str, tuple[int, int]],
    counted: Sequence[tuple[int, int]],
) -> Ids:
    """How ids are made. `maps` are tensors of the first tape, and the dimension that ids go along; None for numbers, of
    which all are taken. `counts` are by name what is to be known too, a number of each tape. `counted` are, in both
    tapes, the sizes that arguments say by a number, or by the largest of ids."""
    numbers = any(dim is None for _, dim in maps.values())
    return _Comparison(tapes, inputs, numbers, counted).ids(maps, counts)


class _Comparison:
    """Two tapes of the same module, call by call: those on integers, and on the floats that are made of these where
    `numbers` are asked for."""

    def __init__(
        self,
        tapes: tuple[Tape, Tape],
        inputs: tuple[Mapping[str, Any], Mapping[str, Any]],
        numbers: bool,
        counted: Sequence[tuple[int, int]],
    ) -> None:
        self._counted = tuple(dict.fromkeys(counted))
        self._by_ids = {(one - less, other - less) for one, other in counted for less in range(MOST_APART)}
        self._calls = [
            [call for call in tape.calls if not call.floating or (numbers and call.of_ids)] for tape in tapes
        ]
        self._read = {id(t) for call in tapes[0].calls for t in tensors_in([call.arguments, *call.named.values()])}
        names = [[call.operator for call in calls] for calls in self._calls]
        if names[0] != names[1]:
            at = next((i for i, (a, b) in enumerate(zip(*names, strict=False)) if a != b), min(map(len, names)) - 1)
            raise TraceError(
                "another number of ids makes the module do other things with them, so one text cannot say both.",
                self._calls[0][max(at, 0)].where if self._calls[0] else None,
            )
        self._refs: list[dict[int, Ref]] = [{id(t): Ref(name) for name, t in each.items()} for each in inputs]
        self._sizes: list[tuple[Size, int, int]] = []
        self._behind = _behind(*tapes)
        for name in inputs[0]:
            pair = inputs[0][name], inputs[1][name]
            whole = all(each.dim() == 0 and not each.is_floating_point() for each in pair)
            self._measured(Ref(name), *(map(int, pair) if whole else pair))

    def _measured(self, ref: Ref, one: Any, other: Any) -> None:
        """Learns the sizes of a tensor, or a number, that differ between the tapes."""
        if isinstance(one, torch.Tensor):
            for dim, (a, b) in enumerate(zip(one.shape, other.shape, strict=True)):
                if a != b:
                    self._sizes.append((Size(ref, dim, 0), a, b))
        elif isinstance(one, int) and not isinstance(one, bool) and one != other:
            self._sizes.append((Size(ref, None, 0), one, other))

    def ids(self, maps: Mapping[str, tuple[Any, int | None]], counts: Mapping[str, tuple[int, int]]) -> Ids:
        """The steps that make these tensors and counts."""
        steps = [self._step(number, *pair) for number, pair in enumerate(zip(*self._calls, strict=True))]
        found = {}
        for name, (tensor, dim) in maps.items():
            if id(tensor) not in self._refs[0]:
                raise TraceError("ids come from a tensor that is no input and was not made of one.", reached=-1)
            found[name] = self._refs[0][id(tensor)], dim
        counted = {name: self._count(*pair) for name, pair in counts.items()}
        needed = {ref.source for ref, _ in found.values()}
        alike = [tuple(self._alike(*pair)) for pair in self._counted]
        needed |= {each.of.source for each in _leaves([*counted.values(), *alike])}
        kept = []
        for step in reversed(steps):
            if step.number in needed or step.must_be is not None or step.lengths or self._writes(step.call, needed):
                for each in _leaves((step.arguments, step.named, step.must_be)):
                    if isinstance(each, _Unknown):
                        raise TraceError(each.why, step.call.where)
                    if isinstance(each, Ref | Size):
                        needed.add((each.of if isinstance(each, Size) else each).source)
                kept.append(step)
            if step.varies and not any(id(each) in self._read for each in tensors_in(step.call.returned)):
                raise TraceError(
                    f"{step.call.operator}: how many ids are picked is all that is used of them, in a branch or as a "
                    "number, and other ids make it another. Leave the choice in the tensors.",
                    step.call.where,
                )
        return Ids(kept[::-1], found, counted, alike)

    def _alike(self, one: int, other: int) -> Iterator[Size]:
        """All that says a number of rows which an argument says: rows of inputs, and numbers."""
        for size, a, b in self._sizes:
            for plus in range(MOST_APART):
                if (a + plus, b + plus) == (one, other) and (isinstance(size.of.source, str) or size.dim is None):
                    yield replace(size, plus=plus)

    def _count(self, one: int, other: int) -> Size | Sum:
        """How many elements a set has."""
        found = self._number(one, other)
        if found is None:
            raise TraceError(
                f"how many rows there are in a set of {one} is told by no input: hand the number in as an argument of "
                "forward, or a tensor with a row for each.",
                reached=-1,
            )
        return found

    def _writes(self, call: Call, needed: set[str | int]) -> bool:
        """Whether a call changes memory that one of the needed calls returned."""
        if not call.in_place:
            return False
        memory = call.arguments[0].untyped_storage().data_ptr()
        results = (self._calls[0][source].returned for source in needed if isinstance(source, int))
        return any(tensor.untyped_storage().data_ptr() == memory for each in results for tensor in tensors_in(each))

    def _step(self, number: int, one: Call, other: Call) -> _Step:
        arguments, named = (
            self._argument(a, b, one) for a, b in ((one.arguments, other.arguments), (one.named, other.named))
        )
        results = [list(tensors_in(call.returned)) or [call.returned] for call in (one, other)]
        for place, pair in enumerate(zip(*results, strict=True)):
            self._measured(Ref(number, place), *pair)
            for refs, each in zip(self._refs, pair, strict=True):
                if isinstance(each, torch.Tensor):
                    refs.setdefault(id(each), Ref(number, place))
        must_be: bool | int | Size | Sum | None = one.returned if isinstance(one.returned, int) else None
        told = must_be is not None and (one.returned, other.returned) in self._by_ids
        if must_be is not None and must_be != other.returned:
            must_be = None if told or isinstance(must_be, bool) else self._told(number, one.returned, other.returned)
        if isinstance(one.returned, int) and must_be is None and not told:
            raise TraceError(
                "Python branches on ids, which go one way in some examples and another in others."
                if isinstance(one.returned, bool)
                else f"{one.operator}: a number is taken out of ids, which other ids make another. Leave it in the "
                "tensors, or hand it in as an argument that is no tensor.",
                one.where,
            )
        lengths = _lengths(*results) if torch.Tag.dynamic_output_shape in one.function.tags else {}
        return _Step(number, one, arguments, named, must_be, lengths)

    def _told(self, number: int, one: int, other: int) -> Size | Sum | None:
        """What a number that a call takes out of ids must be: a sum of sizes, or a size, but for the call's own."""
        if (found := self._sum(one, other)) is not None:
            return found
        return next((size for size, a, b in self._sizes if (a, b) == (one, other) and size.of.source != number), None)

    def _argument(self, one: Any, other: Any, call: Call) -> Any:
        """An argument as the two tapes had it: a reference, a size, or the same in both."""
        if isinstance(one, torch.Tensor):
            same = id(one) in self._refs[0] or torch.equal(one, other)
            return self._refs[0].get(id(one), one) if same else _Unknown("ids are made of numbers outside of PyTorch.")
        if isinstance(one, list | tuple):
            return type(one)(self._argument(a, b, call) for a, b in zip(one, other, strict=True))
        if isinstance(one, dict):
            return {name: self._argument(each, other[name], call) for name, each in one.items()}
        if one == other:
            return one
        return self._number(one, other) or _Unknown(
            f"{call.operator}: the number {one} comes from the example, and is no size of its inputs."
        )

    def _number(self, one: Any, other: Any) -> Size | Sum | None:
        """A number that differs as sizes do; None where it is none of them."""
        for plus in sorted(range(-MOST_APART, MOST_APART + 1), key=abs):
            for size, a, b in self._sizes:
                if (a + plus, b + plus) == (one, other):
                    return replace(size, plus=plus)
        return self._sum(one, other) or self._multiple(one, other)

    def _multiple(self, one: Any, other: Any) -> Size | None:
        """A number as a size several times."""
        if not isinstance(one, int) or not isinstance(other, int):
            return None
        for size, a, b in self._sizes:
            if a > 0 and one % a == 0 and one // a * b == other:
                return replace(size, times=one // a)
        return None

    def _sum(self, one: Any, other: Any) -> Sum | None:
        """A number as where a block begins, of those that a call puts one behind another, or of several rows of them;
        None where it is none."""
        if not isinstance(one, int) or not isinstance(other, int):
            return None
        for sizes, others in self._behind:
            times, rest = divmod(one, sum(sizes))
            for count in range(len(sizes)):
                if sum(sizes[:count]) == rest and times * sum(others) + sum(others[:count]) == other:
                    found = [self._size(*pair) for pair in zip(sizes, others, strict=True)]
                    if None not in found:
                        return Sum(tuple(each for each in [*found * times, *found[:count]] if each is not None))
        return None

    def _size(self, one: int, other: int) -> Size | None:
        return next((size for size, a, b in self._sizes if (a, b) == (one, other)), None)


def _behind(one: Tape, other: Tape) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """The sizes of what is put one behind another in both tapes, where all of them are others in the second."""
    pairs = zip(put_behind(one), put_behind(other), strict=False)
    return [(a, b) for a, b in dict.fromkeys(pairs) if len(a) == len(b) and all(map(ne, a, b))]


def _lengths(one: list[Any], other: list[Any]) -> dict[tuple[int, int], int]:
    """The lengths that the results of one call have in both tapes, by result and dimension."""
    return {
        (place, dim): size
        for place, (a, b) in enumerate(zip(one, other, strict=True))
        for dim, size in enumerate(a.shape)
        if size == b.shape[dim]
    }


def _leaves(each: Any) -> Iterator[Any]:
    """What lists, tuples and dictionaries hold, and sums."""
    if isinstance(each, Sum):
        yield from each.sizes
    elif isinstance(each, list | tuple | dict):
        for inner in each.values() if isinstance(each, dict) else each:
            yield from _leaves(inner)
    else:
        yield each
