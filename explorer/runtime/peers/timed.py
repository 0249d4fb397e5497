"""What a run on a GPU or a CPU is timed beside: the same model as its user would write it today, on the same data.

The model is compiled without what a user's text does not do (reordering, compaction, a derived backward pass), and its
graph evaluated operator by operator: see `peer_torch`. Gradients are PyTorch's own.
"""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from explorer.compiler.returned import for_each_returned
from explorer.runtime.encode.layers import upstream_names
from explorer.runtime.reference.compare import Check, worst
from explorer.runtime.runs.request import Outcome, Setup, how_far
from explorer.runtime.targets.gpu.timing import Times

AS_WRITTEN: Mapping[str, str | int | bool] = {"reorder": False, "compact": False, "grad": False}
"""Options under which the graph has the operators that the text has."""

OUT_OF_MEMORY = "out of memory"
EAGER = "eager PyTorch"


@dataclass
class Peer:
    """One peer: what launches it, what it gives, and its times; `reason` says why it has none, `compile_ms` what its
    first run took, where that compiles it."""

    name: str
    launch: Callable[[], None]
    outcome: Callable[[], Outcome]
    out_of_memory: type[BaseException] | tuple[type[BaseException], ...] = MemoryError
    reason: str = ""
    times: Times = field(default_factory=Times)
    compile_ms: float | None = None
    check: Check | None = None

    def measure(self, watch: Callable[[Callable[[], None]], float]) -> float | None:
        """One measurement; None where the peer has failed, now or before."""
        if self.reason:
            return None
        try:
            return watch(self.launch)
        except self.out_of_memory:
            self.reason = OUT_OF_MEMORY
            return None

    def checked(self, setup: Setup) -> Peer:
        """Itself, its result and its gradients held against the reference's; a wrong one is not timed."""
        try:
            got, gradients = setup.finished(*self.outcome())
        except self.out_of_memory:
            self.reason = OUT_OF_MEMORY
            return self
        self.check = setup.check(got)
        checks = {"result": self.check}
        if gradients and setup.sample is None:  # of sampled rows, PyTorch's own are taken as they are
            found = {"all": setup.together(gradients)} if setup.large else setup.checked(gradients)
            checks |= {f"gradient by {name}": check for name, check in found.items()}
        name = worst(checks)
        if not checks[name].matches:
            self.reason = f"its {name} differs from the reference's{how_far(checks[name])}"
        return self

    def to_json(self, ours: Sequence[float]) -> dict[str, Any]:
        """Its times, how many of ours its median takes, its error, and the reason where it has no times."""
        shown = self.times if not self.reason else Times()
        return {
            "name": self.name,
            "reason": self.reason,
            **shown.to_json(),
            "compile_ms": self.compile_ms,
            "ratio": shown.median / float(np.median(ours)) if shown.cold and ours else None,
            "max_relative_error": None if self.check is None else self.check.max_relative_error,
        }


def peers_of(setup: Setup, device: str = "cuda") -> list[Peer]:
    """The peers that this machine has for a run on its GPU or CPU: none without PyTorch, for CUDA where that is it."""
    return [eager(setup, device)] if _has_torch(device) else []


def all_peers_of(setup: Setup) -> list[Peer]:
    """Those and torch.compile's, which takes up to minutes to compile."""
    return [*peers_of(setup), eager(setup, "cuda", compiled=True)] if _has_torch("cuda") else []


def _has_torch(device: str) -> bool:
    if importlib.util.find_spec("torch") is None:
        return False
    import torch

    return device == "cpu" or bool(torch.cuda.is_available())


def eager(setup: Setup, device: str, compiled: bool = False) -> Peer:
    """Eager PyTorch on a device, or the same operations through torch.compile; checked."""
    return unchecked(setup, device, "torch.compile" if compiled else EAGER).checked(setup)


def unchecked(setup: Setup, device: str, name: str) -> Peer:
    """A peer of PyTorch on a device that has not run yet; under any other `name` than eager's it is compiled then."""
    import torch

    from explorer.runtime.peers.torch_code import TorchModel

    graph, written = setup.program("graph"), setup.recompiled(AS_WRITTEN)
    learnt = [tensor for tensor, _ in graph.gradients]
    given = upstream_names(graph)

    @functools.cache
    def on_device() -> tuple[TorchModel, list[torch.Tensor]]:
        """Made when the peer is checked, so that running out of memory here is told like any other."""
        # As the programs read them: the rows of a result over edges or entries are in their order.
        upstream = [torch.from_numpy(setup.inputs()[name]).to(device) for name in given]
        return TorchModel(written.program("graph"), written.inputs(), device, learnt, name != EAGER), upstream

    def launch() -> None:
        model, upstream = on_device()
        model.run(upstream)

    def outcome() -> Outcome:
        model, upstream = on_device()
        result, gradients = model.run(upstream)
        return for_each_returned(lambda each: each.numpy(force=True), result), {
            n: found.float().numpy(force=True) for n, found in gradients.items()
        }

    return Peer(name, launch, outcome, torch.OutOfMemoryError)
