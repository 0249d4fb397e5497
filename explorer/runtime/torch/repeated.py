"""Calls like an earlier one, on a GPU: what was found of that one is used again.

Of a batch of the same shapes, and of tensors of the same shapes on the same graph, all is known but where they lie, so
that little is left to do but to launch: looking at a call takes longer than a small one runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from explorer.runtime.arrays import Extents
from explorer.runtime.torch.cuda import Bound, OnCuda, address_of
from explorer.runtime.torch.device_ids import ID_BYTES, Checked, Layout, device_ids, readable
from explorer.runtime.torch.programs import TensorProgram
from explorer.runtime.torch.streams import current, is_capturing
from explorer.runtime.torch.structure import Structure, Tensor, aligned


@dataclass(frozen=True, eq=False)
class Begun:
    """A call whose results are there: where all lies that its second part may read, what holds that memory, and the
    places of the results that it `reads`."""

    addresses: list[int]
    held: tuple[Any, ...]
    reads: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Repeated:
    """What such calls have in common: phases that are bound to where ids lie, or what is known of a graph, and behind
    that the tensors."""

    executor: OnCuda
    device: Any
    bound: tuple[Bound, ...]

    @classmethod
    def of(
        cls, executor: OnCuda, device: Any, names: Sequence[str], tensors: Sequence[str], extents: Extents, grad: bool
    ) -> Repeated | None:
        """That of a program whose arrays of these names are there before the tensors. None where it reads others, or
        cannot make the results before their gradients are there."""
        if grad and not executor.divided:
            return None
        read = executor.reads_first if grad else executor.reads
        if len({*executor.results}) < len(executor.results) or not read <= {*names, *tensors}:
            return None
        return cls(executor, device, executor.bound([*names, *tensors], extents, device, grad))

    @property
    def reads(self) -> tuple[int, ...]:
        """The places of the results that the last phase reads, behind another that makes them."""
        return tuple(at for at, name in enumerate(self.executor.results) if name in self.bound[-1].plan.arrays)


@dataclass(frozen=True, eq=False)
class Batches:
    """Calls of a score with other ids, which lie in a layout."""

    common: Repeated
    layout: Layout
    checks: bool

    @classmethod
    def of(
        cls,
        program: TensorProgram,
        ids: Mapping[str, Tensor],
        rows: Mapping[str, int],
        counts: Mapping[str, int],
        tensors: Mapping[str, Tensor],
        checks: bool,
    ) -> Batches | None:
        """Those like one with these ids, for which there are so many `rows` each, which they are held to if it
        `checks`. None where kernels read what is made of ids, or look at a batch before."""
        device = next(iter(ids.values())).device
        executor = program.executor(device)
        if not isinstance(executor, OnCuda) or executor.phases.once.launches:
            return None
        common = Repeated.of(executor, device, [*ids], [*tensors], program.extents(counts), program.grad)
        layout = Layout.of([readable(each) for each in ids.values()], [rows[name] for name in ids])
        return cls(common, layout, checks) if common else None

    def call(self, ids: Mapping[str, Tensor]) -> RepeatedCall:
        """A call with other ids, which are checked while all else is queued. Raises DeviceFault."""
        given, device = [readable(each) for each in ids.values()], self.common.device
        with current(device) as stream:
            memory, checked = device_ids(device.index).narrow_as(self.layout, given, stream, self.checks)
        first = memory.data_ptr()
        return RepeatedCall(self.common, [first + ID_BYTES * start for *_, start in self.layout.maps], memory, checked)


@dataclass(frozen=True, eq=False)
class OnStructure:
    """Calls with other tensors on the same graph or matrix."""

    common: Repeated
    addresses: tuple[int, ...]
    held: Any
    read: tuple[Tensor, ...]

    @classmethod
    def of(
        cls, program: TensorProgram, structure: Structure, counts: Mapping[str, int], tensors: Mapping[str, Tensor]
    ) -> OnStructure | None:
        """Those on this structure. None where it has the rows of tensors in an order of its own."""
        executor = program.executor(structure.device)
        sets = (*program.result_sets, *(program.first_sets[name] for name in tensors))
        if not isinstance(executor, OnCuda) or any(map(structure.sorts, sets)):
            return None
        reads = executor.reads_first if program.grad else executor.reads
        arrays, extents = program.arrays(structure, counts, tensors, reads)
        found = executor.inspected(arrays, extents)
        fixed = {name: each for name, each in arrays.items() if name not in tensors}
        addresses = {name: address_of(name, each) for name, each in fixed.items()} | found.addresses
        common = Repeated.of(executor, structure.device, [*addresses], [*tensors], extents, program.grad)
        # The sizes too, by whose identity this is kept.
        held = fixed, found.memory, counts
        return cls(common, tuple(addresses.values()), held, structure.read) if common else None

    def call(self) -> RepeatedCall:
        """A call with other tensors."""
        return RepeatedCall(self.common, [*self.addresses], self.held, read=self.read)


@dataclass(frozen=True, eq=False)
class RepeatedCall:
    """One of them: where all lies that is no tensor, what holds it, what will be said of its ids, and those of the
    caller's own indices that are read where they are."""

    common: Repeated
    addresses: list[int]
    held: Any
    checked: Checked | None = None
    read: tuple[Tensor, ...] = ()

    def results(self, tensors: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
        """The results alone, of tensors in the order of the first call's."""
        return self._launched({name: aligned(each) for name, each in tensors.items()})[0]

    def start(self, frozen: frozenset[str], tensors: Mapping[str, Tensor]) -> tuple[tuple[Tensor, ...], Begun]:
        """The results, and what goes on with them."""
        # Their memory alone is held: a parameter has other once it is moved, and a result will know what made it.
        given = {name: aligned(each.detach()) for name, each in tensors.items()}
        results, arena = self._launched(given)
        held = self.held, arena, *given.values(), *(each.detach() for each in results)
        return results, Begun(self.addresses, held, self.common.reads)

    def gradients(
        self, frozen: frozenset[str], begun: Any, tensors: Mapping[str, Tensor], upstreams: Sequence[Tensor]
    ) -> dict[str, Tensor]:
        """The gradients by tensor, where those of the results are `upstreams`."""
        common, executor, given = self.common, self.common.executor, [aligned(each) for each in upstreams]
        own = [address_of(name, each) for name, each in zip(executor.upstreams, given, strict=True)]
        made, _ = executor.launch(common.bound[1], begun.addresses + own, common.device)
        found = executor.gradients_of(made)
        return {name: _in_shape(each, tensors[name].shape) for name, each in found.items()}

    def _launched(self, tensors: Mapping[str, Tensor]) -> tuple[tuple[Tensor, ...], Tensor | None]:
        """The results, and the memory of what nobody gets, of tensors that are `aligned`."""
        common = self.common
        self.addresses.extend([address_of(name, each) for name, each in tensors.items()])
        made, arena = common.executor.launch(common.bound[0], self.addresses, common.device)
        return common.executor.results_of(made), arena


def _in_shape(tensor: Tensor, shape: Any) -> Tensor:
    """The tensor in a shape: PyTorch takes longer to find that it is in it."""
    return tensor if tensor.shape == shape else tensor.reshape(shape)


def repeats_on(device: Any) -> bool:
    """Whether calls are repeated on a device: on a GPU, where nothing is captured, of which nothing is to be kept."""
    return device.type == "cuda" and not is_capturing()
