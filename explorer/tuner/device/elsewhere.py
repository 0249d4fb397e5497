"""Measures points in a process of its own, once a kernel has broken this one's context on the device: another such
kernel then costs that process alone."""

from __future__ import annotations

import multiprocessing
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from explorer.runtime.run import set_up
from explorer.runtime.runs.request import RunRequest
from explorer.runtime.targets.gpu.device import DeviceFault
from explorer.tuner.device.recipes import make
from explorer.tuner.device.trials import Choices, Fields, OnDevice


class NoOtherProcess(DeviceFault):
    """Nothing more can be measured here."""


CANNOT = "A kernel broke this process's context on the device, and no other process can be started here."


class Elsewhere:
    """What `OnDevice` does, in another process, which compiles for itself. It is started when it is first needed, and
    anew after a fault: each sets the model up again."""

    def __init__(self, request: RunRequest, usual: Choices, sizes: dict[str, int]) -> None:
        self._told = request.to_json(), dict(usual), sizes
        self._pool: ProcessPoolExecutor | None = None

    def timed(self, choices: Choices, best: float, seconds: float | None) -> Fields:
        """As `OnDevice.timed`. Raises DeviceFault."""
        return dict(self._asked("timed", seconds, dict(choices), best))

    def finals(self, points: Sequence[Choices], repeat: int, seconds: float, most: float) -> list[Fields]:
        """As `OnDevice.finals`. Raises DeviceFault."""
        return list(self._asked("finals", None, [dict(choices) for choices in points], repeat, seconds, most))

    def body(self, choices: Choices) -> Fields:
        """As `OnDevice.body`. Raises DeviceFault."""
        return dict(self._asked("body", None, dict(choices)))

    def close(self) -> None:
        """Ends the process."""
        if self._pool is not None:
            for process in list((self._pool._processes or {}).values()):
                process.kill()
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None

    def _asked(self, what: str, seconds: float | None, *given: Any) -> Any:
        try:
            if self._pool is None:
                context = multiprocessing.get_context("spawn")
                self._pool = ProcessPoolExecutor(1, context, initializer=_begin, initargs=self._told)
            return self._pool.submit(_do, what, given).result(seconds)
        except DeviceFault:
            self.close()
            raise
        except (BrokenProcessPool, TimeoutError) as error:
            self.close()
            raise DeviceFault(f"The process that measured it ended, or took too long: {error}".rstrip(": ")) from None
        except OSError:
            self.close()
            raise NoOtherProcess(CANNOT) from None


_HERE: dict[str, Any] = {}


def _begin(request: dict[str, Any], usual: dict[str, Any], sizes: dict[str, int]) -> None:
    """Sets the model up in the process that measures."""
    bench = OnDevice(set_up(RunRequest.from_json(request)))
    _HERE.update(bench=bench, sizes=sizes)
    bench.check_usual(_program(usual), usual)


def _program(choices: Choices) -> Any:
    made = make(_HERE["bench"].recipe, choices, _HERE["sizes"])
    if made.program is None:
        raise ValueError(made.error)
    return made.program


def _do(what: str, given: tuple[Any, ...]) -> Any:
    bench: OnDevice = _HERE["bench"]
    if what == "timed":
        choices, best = given
        return bench.timed(_program(choices), choices, best)
    if what == "finals":
        points, repeat, seconds, most = given
        return bench.finals([(_program(choices), choices) for choices in points], repeat, seconds, most)
    return bench.body(*given)
