"""Points of a model measured on a GPU, one after another, on the same arrays and against the same result."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from math import inf
from time import perf_counter
from typing import Any

import numpy as np

from explorer.compiler.decisions import Value
from explorer.compiler.returned import each_returned
from explorer.runtime import on_gpu
from explorer.runtime.arrays import check_inputs
from explorer.runtime.peers.turns import Contender, finals
from explorer.runtime.runs.request import Setup
from explorer.runtime.targets.gpu.device import DeviceFault, cupy_module, current_device, faults
from explorer.runtime.targets.gpu.program import BoundProgram, GpuProgram
from explorer.runtime.targets.gpu.timing import Stopwatch
from explorer.tuner.device.recipes import Recipe

WARM_UPS, REPEAT, FEWEST = 2, 10, 3
"""Calls before the clock runs, the second of which records the graph of launches; then samples of a trial with cold
caches (G-Sparse §III-D takes one and ten), and the fewest where they would take MOST_MS."""
MOST_MS = 120.0
TOLERANCE = 1e-4
"""How far a result may be from the usual schedule's, relative to the largest value: sums in another order."""
SLOW = 3.0
"""A point that takes so many times the best is not timed again."""

Fields = dict[str, Any]
Choices = Mapping[str, Value]
"""Of a point: options of the model, and decisions of kernels."""


class OnDevice:
    """A model made ready on the device for its data: its arrays lie there, and results are held against the usual
    one's."""

    def __init__(self, setup: Setup) -> None:
        self.watch = Stopwatch(current_device())
        self.setup = setup
        self.recipe = Recipe.of(setup.compilation)
        self._arrays: dict[tuple[tuple[str, Value], ...], tuple[Fields, Mapping[Any, int]]] = {}
        self.usual: BoundProgram | None = None
        self._right: Choices | None = None

    @property
    def sizes(self) -> dict[str, int]:
        """The size of every extent that launches are counted by."""
        return {str(name): int(size) for name, size in self.arrays_of({})[1].items() if isinstance(name, str)}

    def arrays_of(self, options: Mapping[str, Value]) -> tuple[Fields, Mapping[Any, int]]:
        """What programs with some options changed read, on the device, and the sizes of extents."""
        key = tuple(options.items())
        if key not in self._arrays:
            setup = self.setup.recompiled(options) if options else self.setup
            arrays, extents = check_inputs(setup.program("loops"), setup.inputs())
            cupy = cupy_module()
            self._arrays[key] = {name: cupy.asarray(array) for name, array in arrays.items()}, extents
        return self._arrays[key]

    def bind(self, program: GpuProgram, values: Mapping[str, Value]) -> BoundProgram:
        """A point's kernels on the input's arrays."""
        return program.bind(*self.arrays_of({key: value for key, value in values.items() if "." not in key}))

    def check_usual(self, program: GpuProgram, values: Mapping[str, Value]) -> None:
        """Holds the usual schedule's result against float64; the others are held against it. Raises ValueError."""
        self.usual = self.bind(program, values)
        if wrong := self.wrong(self.setup, program, self.usual):
            raise ValueError(wrong)
        self._right = dict(values)

    def wrong(self, setup: Setup, program: GpuProgram, bound: BoundProgram) -> str:
        """Why a program's result, or its gradients, are not those in float64; "" where they are."""
        got, gradients = setup.finished(*bound.run())
        check, loops = setup.check(got), setup.program("loops")
        if gradients and check.matches:
            setup.check_gradients(gradients, lambda arrays: program.bind(*check_inputs(loops, arrays)).run())
        return "" if setup.right(check) else setup.why_not(check)

    def agrees(self, bound: BoundProgram) -> bool:
        """Whether a program gives what the usual one does, but for the order in which it adds up."""
        assert self.usual is not None
        with faults():
            return _agree(bound, self.usual)

    def warmed(self, bound: BoundProgram) -> tuple[float, int]:
        """Milliseconds of the last warm-up, and how many samples there is time for."""
        for _ in range(WARM_UPS):
            first = self.watch.warm(bound.launch)
        return first, max(FEWEST, min(REPEAT, int(MOST_MS / 2 / max(first, 1e-3))))

    def cold(self, bound: BoundProgram) -> float:
        """Milliseconds with cold caches: lines that kernels asked the L2 cache to keep longest would outlive the
        flush."""
        driver = _driver()
        if driver is not None and driver.cuCtxResetPersistingL2Cache():
            raise DeviceFault("the L2 cache's lines cannot be made ordinary ones")
        return self.watch.cold(bound.launch)

    def timed(self, program: GpuProgram, choices: Choices, best: float) -> Fields:
        """A point's median time with cold caches as `ms`, unless it is wrong or far slower than the best: then that is
        its `status`, with a `note`. Raises DeviceFault."""
        bound = self.bind(program, choices)
        first, repeat = self.warmed(bound)
        if first > SLOW * best:
            return _stopped(first, "warm")
        if not self.agrees(bound):
            return {"status": "wrong", "note": "The result differs from that of the usual schedule."}
        samples = [self.cold(bound)]
        if samples[0] > SLOW * best:
            return _stopped(samples[0], "cold")
        samples += [self.cold(bound) for _ in range(repeat - 1)]
        return {"status": "timed", "ms": float(np.median(samples))}

    def finals(
        self, programs: Sequence[tuple[GpuProgram, Choices]], repeat: int, seconds: float, most: float = inf
    ) -> list[Fields]:
        """Some points by turns, with cold caches, as `turns.finals` does, each held against float64 first, but for the
        usual one, which was: their `samples`, and what is `wrong`. Raises DeviceFault."""
        began = perf_counter()
        found: list[Fields] = []
        contenders: list[Contender] = []
        for program, choices in programs:
            setup, bound = self.chosen(choices), self.bind(program, choices)
            with faults():
                found.append({"wrong": "" if choices == self._right else self.wrong(setup, program, bound)})
            self.warmed(bound)
            contenders.append(Contender("", partial(self.cold, bound)))
        finals(contenders, repeat, seconds, most - (perf_counter() - began))
        return [each | {"samples": contender.samples} for each, contender in zip(found, contenders, strict=True)]

    def chosen(self, choices: Choices) -> Setup:
        """The setup with a point's options and schedule. Raises Refused."""
        schedule = {key: value for key, value in choices.items() if "." in key}
        request = replace(self.setup.request, schedule={**self.setup.request.schedule, **schedule}, peers=False)
        options = {key: value for key, value in choices.items() if "." not in key}
        return replace(self.setup, request=request, gradients={}).recompiled(options)

    def body(self, choices: Choices) -> Fields:
        """What a run of a point comes to, as any run on the device does: checked, timed, and with its kernels. Raises
        DeviceFault and Refused."""
        *_, last = on_gpu.run(self.chosen(choices))
        if last["event"] != "result":
            raise DeviceFault(last["message"])
        return {key: value for key, value in last.items() if key != "event"}


def _stopped(ms: float, caches: str) -> Fields:
    note = f"One run took {ms:.4g} ms with {caches} caches, over {SLOW:g} times the best."
    return {"status": "stopped", "note": note, "about": ms}


def _agree(bound: BoundProgram, usual: BoundProgram) -> bool:
    """Whether two schedules give the same, but for the order in which they add up."""
    (own, gradients), (other, of_other) = bound.results(), usual.results()
    pairs = [
        *zip(each_returned(own), each_returned(other), strict=True),
        *((gradients[name], of_other[name]) for name in gradients),
    ]
    return all(_near(one, two) for one, two in pairs)


def _near(one: Any, two: Any) -> bool:
    absolute = cupy_module().abs
    return bool(absolute(one - two).max() <= TOLERANCE * float(absolute(two).max()))  # False for what is no number


@lru_cache(maxsize=1)
def _driver() -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
