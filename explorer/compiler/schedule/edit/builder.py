"""Writes the body of a scheduled kernel from top to bottom, with fresh names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import cast

from explorer.compiler.ir import kernels, loops
from explorer.compiler.ir.facts import Fact
from explorer.compiler.ir.index_functions import INDEX_FUNCTIONS
from explorer.compiler.ir.node import Atom, Extent, Names, Node, Origin, merge, walk
from explorer.compiler.ir.statements import rename
from explorer.compiler.schedule.edit.origins import around

ALL = 0
"""Unrolls all iterations of a loop."""


class Steps:
    """The statements of a kernel, appended in order; what they name is new in the kernel.

    All get the origin given here, but for those copied from the loops, which keep theirs, for what stores those values,
    and for what does nothing but serve them (`edit.origins`)."""

    def __init__(self, names: Names, origin: Origin) -> None:
        self.names = names
        self._origin = origin
        self._of: dict[Atom, Origin] = {}  # by name, what has been copied from the loops
        self._bodies: list[list[kernels.Statement]] = [[]]
        self.facts: list[Fact] = []
        self._log: dict[str, None] = {}

    @classmethod
    def over(cls, arrays: Iterable[loops.Buffer], origin: Origin, taken: Iterable[Extent] = ()) -> Steps:
        """The statements of a kernel of these arrays, none yet; nothing is named as these, their extents, or what else
        is `taken`."""
        names = {name for buffer in arrays for name in (buffer.name, *buffer.extents)} | {*taken}
        return cls(Names({name for name in names if isinstance(name, str)}), origin)

    def kernel(
        self,
        name: str,
        template: str,
        threads: int,
        arrays: Iterable[loops.Buffer],
        *said: str,
        sizes: tuple[tuple[str, int], ...] = (),
    ) -> kernels.ScheduledKernel:
        """The kernel of what has been written, which has those of the arrays that it accesses; its schedule is what has
        been noted, and then `said`."""
        accessed = self.arrays()
        return kernels.ScheduledKernel(
            name=name,
            template=template,
            sizes=sizes,
            buffers=tuple(buffer for buffer in arrays if buffer.name in accessed),
            threads=threads,
            schedule=(*self.log, *said),
            body=self.body,
            facts=tuple(self.facts),
            origin=self._origin,
        )

    @property
    def body(self) -> tuple[kernels.Statement, ...]:
        """What has been written."""
        return tuple(self._bodies[-1])

    def did(self, *lines: str) -> None:
        """Notes what is being written, a line of the kernel's schedule each; twice is once."""
        self._log |= dict.fromkeys(lines)

    @property
    def log(self) -> tuple[str, ...]:
        """What has been noted, in order."""
        return tuple(self._log)

    @contextmanager
    def of(self, origin: Origin) -> Iterator[None]:
        """What is written meanwhile has another origin."""
        before, self._origin = self._origin, origin
        yield
        self._origin = before

    def count(self, target: str, indices: Sequence[Atom], value: Atom) -> None:
        """Adds an index to an element of a tile of indices that is a thread's own."""
        self.accumulate(target, indices, "copy", value)

    def add(self, statement: kernels.Statement) -> None:
        """Appends a statement as it is."""
        self._bodies[-1].append(statement)

    def know(self, facts: Iterable[Fact]) -> None:
        """Notes facts, of arrays or of names that are defined here, which the kernel's bounds may rest on."""
        self.facts += facts

    @contextmanager
    def loop(
        self,
        hint: str,
        extent: Extent | kernels.Count,
        bind: kernels.Level = "",
        *,
        step: int = 1,
        unroll: int = 1,
        width: int = 0,
        apart: int = 0,
        lower: Extent = 0,
    ) -> Iterator[str]:
        """A loop, usually from 0; what is written inside is its body. Gives its variable."""
        variable = self.names.new(hint)
        self._bodies.append([])
        yield variable
        body, origin = around(self._bodies.pop(), self._origin)
        self.add(
            kernels.Loop(
                variable=variable,
                lower=lower,
                extent=extent,
                body=body,
                step=step,
                bind=bind,
                unroll=unroll,
                width=width,
                apart=apart,
                origin=origin,
            )
        )

    @contextmanager
    def all(self, hint: str, extent: int) -> Iterator[Extent]:
        """All of some iterations side by side; gives the variable, or 0 where there is only one, and so no loop."""
        if extent == 1:
            yield 0
            return
        with self.loop(hint, extent, unroll=ALL) as variable:
            yield variable

    @contextmanager
    def each(self, hint: str, extent: Extent, threads: int) -> Iterator[str]:
        """An element a thread, in as many blocks of `threads` as it takes. Gives the element."""
        blocks = kernels.Count(((extent, threads),))
        with self.loop("block", blocks, "block") as block, self.loop("thread", threads, "thread") as thread:
            element = self.index(hint, "add", self.index("first", "mul", block, threads), thread)
            with self.where(element, "<", extent):
                yield str(element)

    @contextmanager
    def segment(self, hint: str, lower: Extent, upper: Extent, unroll: int) -> Iterator[str]:
        """A loop over a segment, whose bounds are known at run time. Gives its variable."""
        with self.loop(hint, upper, lower=lower, unroll=unroll) as variable:
            yield variable

    @contextmanager
    def where(self, left: Atom, comparison: str, right: Atom, *, needed: bool = True) -> Iterator[None]:
        """A condition on what is written inside; none at all where it is not `needed`."""
        if not needed:
            yield
            return
        self._bodies.append([])
        yield
        body, origin = around(self._bodies.pop(), self._origin)
        self.add(kernels.Where(left=left, comparison=comparison, right=right, body=body, origin=origin))

    def index(self, hint: str, function: str, left: Extent, right: Extent) -> Extent:
        """Integer arithmetic; of numbers, and with 0 or 1 where that changes nothing, there is nothing to do."""
        if isinstance(left, int) and isinstance(right, int):
            return INDEX_FUNCTIONS[function](left, right)
        if (function, right) in (("add", 0), ("mul", 1), ("div", 1)):
            return left
        if (function, right) == ("mod", 1):
            return 0
        if (function, left) == ("add", 0):
            return right
        result = self.names.new(hint)
        self.add(loops.Index(result=result, function=function, operands=(left, right), origin=self._origin))
        return result

    def select(self, hint: str, chosen: Extent, own: Extent, other: Extent) -> Extent:
        """One index where the chosen one is not 0, else the other."""
        if isinstance(chosen, int):
            return own if chosen else other
        result = self.names.new(hint)
        self.add(loops.Index(result=result, function="select", operands=(chosen, own, other), origin=self._origin))
        return result

    def load(self, hint: str, buffer: str, *indices: Atom) -> str:
        """A load from a buffer or a tile; gives what it loads."""
        result = self.names.new(hint)
        self.add(loops.Load(result=result, buffer=buffer, indices=indices, origin=self._origin))
        return result

    def shuffle(self, hint: str, tile: str, *indices: Atom) -> str:
        """A load of an element of a register tile that another lane may hold; gives what it loads."""
        result = self.names.new(hint)
        self.add(kernels.ShuffledLoad(result=result, buffer=tile, indices=indices, origin=self._origin))
        return result

    def compute(self, hint: str, function: str, *operands: Atom) -> str:
        """A function of numbers; gives its value."""
        result = self.names.new(hint)
        self.add(loops.Compute(result=result, function=function, operands=operands, origin=self._origin))
        return result

    def search(self, hint: str, offsets: str, value: Atom, upper: Extent, lower: Extent = 0) -> str:
        """The last of the places `lower` to `upper` of ascending offsets that hold at most the value."""
        result = self.names.new(hint)
        self.add(
            kernels.Search(result=result, buffer=offsets, value=value, lower=lower, upper=upper, origin=self._origin)
        )
        return result

    def store(self, target: str, indices: Sequence[Atom], value: Atom) -> None:
        """A store of a value as it is."""
        primary = self._of.get(value, ())[:1]
        origin = merge(primary, self._origin) if {*primary} <= {*self._origin} else self._origin
        self.add(loops.Store(target=target, indices=tuple(indices), function="copy", operands=(value,), origin=origin))

    def accumulate(self, target: str, indices: Sequence[Atom], function: str, *operands: Atom) -> None:
        """Adds to an element or an accumulator."""
        self.add(
            loops.Accumulate(
                target=target,
                indices=tuple(indices),
                reduction="sum",
                function=function,
                operands=operands,
                origin=self._origin,
            )
        )

    def increase(self, target: str, place: Extent, more: Extent) -> None:
        """Adds to an integer that no other thread touches."""
        self.store(target, [place], self.index("sum", "add", self.load("before", target, place), more))

    def atomic(self, target: str, indices: Sequence[Atom], value: Atom, hint: str = "") -> str:
        """Adds to an element that other threads add to; gives what it held before, where that has a name."""
        result = self.names.new(hint) if hint else ""
        self.add(
            kernels.AtomicAccumulate(
                target=target,
                indices=tuple(indices),
                reduction="sum",
                function="copy",
                operands=(value,),
                result=result,
                origin=self._origin,
            )
        )
        return result

    def tile(
        self,
        hint: str,
        extents: Sequence[Extent],
        memory: kernels.Memory,
        *,
        padding: int = 0,
        type: kernels.ElementType = "f32",
        swizzled: bool = False,
    ) -> str:
        """A tile in registers or in shared memory."""
        name = self.names.new(hint)
        self.add(
            kernels.Tile(
                name=name,
                extents=tuple(extents),
                memory=memory,
                padding=padding,
                type=type,
                swizzled=swizzled,
                origin=self._origin,
            )
        )
        return name

    def copy_async(self, target: str, indices: Sequence[Atom], load: loops.Load, known: Mapping[str, Atom]) -> None:
        """A copy of what one of the loops' loads would bring, into shared memory."""
        exchanged = _exchange(load, {**known, load.result: load.result})
        assert isinstance(exchanged, loops.Load)
        self.add(
            kernels.Copy(
                target=target,
                indices=tuple(indices),
                buffer=exchanged.buffer,
                buffer_indices=exchanged.indices,
                origin=exchanged.origin,
            )
        )

    def barrier(self, *, copies: bool = False) -> None:
        """All threads of the block come this far, and their copies arrive."""
        self.add(kernels.Barrier(level="block", copies=copies, origin=self._origin))

    def copy(self, statements: Sequence[loops.Statement], known: Mapping[str, Atom]) -> dict[str, Atom]:
        """Straight-line statements of the loops, with `known` names exchanged and new ones for their results; gives
        what every name stands for after them."""
        names = dict(known)
        for statement in statements:
            result = loops.result_of(statement)
            if result is not None:
                name = names[result] = self.names.new(result)
                self._of[name] = statement.origin
            self.add(_exchange(statement, names))
        return names

    def arrays(self) -> set[str]:
        """The buffers and tiles that the statements access, at any depth."""
        return {name for statement in self.body for node in walk(statement) for name in arrays_of(node)}


def arrays_of(node: Node) -> tuple[str, ...]:
    """The buffers or tiles that a statement accesses."""
    match node:
        case loops.Load() | kernels.Search():
            return (node.buffer,)
        case kernels.Copy():
            return (node.target, node.buffer)
        case loops.Store() | loops.Accumulate():
            return (node.target,)
    return ()


def _exchange(statement: loops.Statement, names: Mapping[str, Atom]) -> kernels.Statement:
    """A statement that is no loop with atoms exchanged, among them names for numbers."""
    exchanged = rename(statement, cast(Mapping[str, str], names))  # it puts atoms of any kind in the place of names
    assert not isinstance(exchanged, (loops.For, loops.Row))
    return exchanged
