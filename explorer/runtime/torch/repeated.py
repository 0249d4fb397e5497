"""Calls of a score that are like an earlier one, on a GPU: what was found of that one is used again.

Of a batch of the same shapes all is known but where ids and tensors lie, so that little is left to do but to launch:
looking at a call takes longer than a small one runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from explorer.runtime.arrays import Extents
from explorer.runtime.torch.cuda import Bound, OnCuda, address_of
from explorer.runtime.torch.device_ids import ID_BYTES, Checked, Layout, device_ids, readable
from explorer.runtime.torch.programs import Executor
from explorer.runtime.torch.streams import current, is_capturing
from explorer.runtime.torch.structure import Tensor, aligned


@dataclass(frozen=True, eq=False)
class Begun:
    """A call whose results are there: where all lies that its second part may read, what holds that memory, and the
    places of the results that it `reads`."""

    addresses: list[int]
    held: tuple[Any, ...]
    reads: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Repeated:
    """What such calls have in common: the executor, whose phases are bound to the ids, which lie in their layout, and
    the tensors; `reads` are the places of the results that the second phase reads."""

    executor: OnCuda
    device: Any
    layout: Layout
    bound: tuple[Bound, ...]
    reads: tuple[int, ...]

    @classmethod
    def of(
        cls,
        executor: Executor,
        ids: Mapping[str, Tensor],
        rows: Mapping[str, int],
        tensors: Mapping[str, Tensor],
        extents: Extents,
        grad: bool,
    ) -> Repeated | None:
        """Those like a call with these ids, for which there are so many `rows` each. None where kernels read what is
        made of ids, or look at a batch before, or cannot make the results before their gradients are there."""
        if not isinstance(executor, OnCuda) or executor.phases.once.launches or (grad and not executor.divided):
            return None
        read = executor.reads_first if grad else executor.reads
        if len({*executor.results}) < len(executor.results) or not read <= ids.keys() | tensors.keys():
            return None
        layout = Layout.of([readable(each) for each in ids.values()], [rows[name] for name in ids])
        device = next(iter(ids.values())).device
        bound = executor.bound([*ids, *tensors], extents, device, grad)
        places = enumerate(executor.results if grad else ())
        reads = tuple(place for place, name in places if name in bound[-1].plan.arrays)
        return cls(executor, device, layout, bound, reads)

    def call(self, ids: Mapping[str, Tensor]) -> RepeatedCall:
        """A call with other ids, which are checked while all else is queued. Raises DeviceFault."""
        with current(self.device) as stream:
            narrow = device_ids(self.device.index).narrow_as
            return RepeatedCall(self, *narrow(self.layout, [readable(each) for each in ids.values()], stream))


@dataclass(frozen=True, eq=False)
class RepeatedCall:
    """One of them: its narrowed ids, and what will be said of them."""

    common: Repeated
    ids: Tensor
    checked: Checked

    def results(self, tensors: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
        """The results alone, of tensors in the order of the first call's."""
        return self._launched(tensors)[0]

    def start(self, frozen: frozenset[str], tensors: Mapping[str, Tensor]) -> tuple[tuple[Tensor, ...], Begun]:
        """The results, and what goes on with them."""
        results, addresses, held = self._launched(tensors)
        # Their memory alone: a result will know what made it, and a parameter has other memory once it is moved.
        return results, Begun(addresses, (*held, *(each.detach() for each in results)), self.common.reads)

    def gradients(
        self, frozen: frozenset[str], begun: Any, tensors: Mapping[str, Tensor], upstreams: Sequence[Tensor]
    ) -> dict[str, Tensor]:
        """The gradients by tensor, where those of the results are `upstreams`."""
        common, executor, given = self.common, self.common.executor, [aligned(each) for each in upstreams]
        own = [address_of(name, each) for name, each in zip(executor.upstreams, given, strict=True)]
        made, _ = executor.launch(common.bound[1], begun.addresses + own, common.device)
        return {name: gradient.reshape(tensors[name].shape) for name, gradient in executor.gradients_of(made).items()}

    def _launched(self, tensors: Mapping[str, Tensor]) -> tuple[tuple[Tensor, ...], list[int], tuple[Any, ...]]:
        """The results, where all lies, and what holds that memory."""
        common, first = self.common, self.ids.data_ptr()
        given = {name: aligned(each.detach()) for name, each in tensors.items()}
        addresses = [first + ID_BYTES * begin for *_, begin in common.layout.maps]
        addresses += [address_of(name, each) for name, each in given.items()]
        made, arena = common.executor.launch(common.bound[0], addresses, common.device)
        return common.executor.results_of(made), addresses, (self.ids, arena, *given.values())


def are_on_gpu(ids: Mapping[str, Any]) -> bool:
    """Whether the ids of a call are a GPU's, and nothing is captured there, which would not be looked at."""
    return all(each.is_cuda for each in ids.values()) and not is_capturing()
