"""Tries points on this processor: the model's options, where they change its loops.

A trial is timed by turns with the usual point, so that what slows the machine down slows both down alike, and its value
is as if the usual point's had been what it was at first. Results are held against float64 at every run.
"""

from __future__ import annotations

from collections.abc import Generator
from itertools import product
from time import perf_counter
from typing import Any

import numpy as np

from explorer.compiler.compilation import Compilation
from explorer.compiler.heat.predicted import predicted_costs
from explorer.runtime.budget import own_time
from explorer.runtime.on_cpu import Program, figures
from explorer.runtime.peers.turns import FINALS, Contender, by_turns, finals
from explorer.runtime.runs.events import Event, progress
from explorer.runtime.runs.request import PREPARING, STEPS, Refused, Setup
from explorer.runtime.targets import cpu
from explorer.runtime.targets.cpu_ceilings import ceilings
from explorer.runtime.times import ratio_of_medians
from explorer.runtime.tuning import Tuning
from explorer.tuner.points import Gene, Points
from explorer.tuner.search import Predicted, Trials
from explorer.tuner.tune.bench import OnTarget, Tried, given_options, is_told_apart, likely, options_of, too_few
from explorer.tuner.tune.options import OF_MODELS, switches
from explorer.tuner.tune.worth import shown, worth

REPEATS, TRIAL_S = 15, 0.4
"""Times of a trial, and as many of the usual point by turns with it: fewer where they take longer together, but
FEWEST."""
FEWEST = 3
WARM_UPS, WARM_UP_S = 2, 0.02
"""Runs before a point is timed: so many at least, and more while they are over in so long. Of two runs of microseconds
each may be the one that an interrupt or another process prolonged."""
FINAL_S = 3.0
"""How long the two best may be timed again, by turns with the usual point."""
SLOW = 3.0
"""A point whose warm-ups take so many times the best is not timed."""
COUNTED = (
    "Counted: the bytes and the operations of each of the model's operations, at the speeds that this host reaches in a"
    " copy and in multiply-adds. Caches and loops are not looked at, and what they alone change is predicted the same."
)
UNCOUNTED = "Nothing predicts these times: nobody knows the rows that the model's operations are done for."
HURRIED = "Nothing predicts these times: the time limit leaves none for counting what each choice does."


def bench(setup: Setup, tuning: Tuning) -> Generator[Event, None, ProcessorBench]:
    """The processor, ready to have points tried. Raises Refused and InputError."""
    setup.program("loops")
    yield progress("compiling the loops to machine code", PREPARING, STEPS)
    return ProcessorBench(setup, tuning)


class ProcessorBench(OnTarget):
    """The processor, with the program of the usual point."""

    metric = "ms"

    def __init__(self, setup: Setup, tuning: Tuning) -> None:
        super().__init__(setup, tuning)
        self.device = cpu.device_name()
        end = own_time() + tuning.preparing
        self.points = points_of(setup, tuning, end)
        self.hurried = own_time() > end
        self.predicted, self.by = _predicted(setup, self.points, end)
        self.usual: Program
        self.usual_ms = np.inf
        self.best = np.inf
        self.finals: dict[int, Program] = {}
        self.samples: dict[int, list[float]] = {}
        self._seen: dict[str, Tried] = {}

    def tried(self, point: int) -> Tried:
        """Compiles a point, checks it, and times it by turns with the usual one."""
        try:
            setup = self.setup.recompiled(options_of(self.points.at(point)))
            digest = setup.compilation.stages["loops"].digest
            if digest in self._seen:
                return Tried(self._seen[digest].value, "same", "The loops are those of a trial before.")
            program = self._made(setup)
        except Refused as refused:
            return Tried(None, "invalid", str(refused))
        found = self._timed(program, point == self.points.usual)
        if found.value is not None:
            self._seen[digest] = found
            self.best = min(self.best, found.value)
        return found

    def _made(self, setup: Setup) -> Program:
        program = Program(setup)
        for _ in program.check_first():
            pass
        return program

    def _timed(self, program: Program, is_usual: bool) -> Tried:
        least = _warmed_up(program)
        if least is None:
            return Tried(None, "wrong", "The result differs from that in float64.")
        if is_usual:
            self.usual = program
            self.usual_ms = float(np.median(self._turns({0: program}, REPEATS, TRIAL_S)[0]))
            return Tried(self.usual_ms)
        if least > SLOW * self.best:
            told = f"The least of its first times, {shown(least)} ms, is over {SLOW:g} times the best."
            return Tried(None, "stopped", told, least)
        times = self._turns({0: self.usual, 1: program}, REPEATS, TRIAL_S)
        if not program.is_right:
            return Tried(None, "wrong", "A later result differs from that in float64.")
        return Tried(self.usual_ms * float(np.median(times[1]) / np.median(times[0])))

    def _turns(self, programs: dict[int, Program], repeat: int, seconds: float) -> dict[int, list[float]]:
        """Samples of some programs by turns, of as many turns as there is time for."""
        contenders = {key: Contender(str(key), program.measure) for key, program in programs.items()}
        until, turns = perf_counter() + seconds, 0
        while turns < min(FEWEST, repeat) or (turns < repeat and perf_counter() < until):
            turns += 1
            for _ in by_turns(list(contenders.values()), turns):
                pass
        return {key: contender.samples for key, contender in contenders.items()}

    def settled(self, trials: Trials) -> int:
        """The faster of the two best, timed again, where it is told apart from the usual point: the interval of how
        many times its median the other's is lies above 1."""
        points, usual = self.points, self.points.usual
        best = likely(trials, usual)
        self.finals = {usual: self.usual}
        for point in best:
            self.finals[point] = self._made(self.setup.recompiled(options_of(points.at(point))))
        contenders = [Contender(str(point), program.measure) for point, program in self.finals.items()]
        finals(contenders, self.setup.request.repeat, FINAL_S, self.tuning.timing_again)
        self.samples = {point: each.samples for point, each in zip(self.finals, contenders, strict=True)}
        ratios = {point: ratio_of_medians(self.samples[usual], self.samples[point]) for point in best}
        faster = [point for point in best if self.finals[point].is_right and is_told_apart(ratios[point])]
        return min(faster, key=lambda point: float(np.median(self.samples[point])), default=usual)

    def value_of(self, point: int, trials: Trials) -> float:
        """The median of the times that were taken last."""
        return float(np.median(self.samples[point]))

    def result(self, chosen: int) -> dict[str, Any]:
        """The figures of the chosen point, of the times that were taken last."""
        program = self.finals[chosen]
        described = program.setup.description(program.check, program.prepared.device)
        return {**described, **figures(program, self.samples[chosen])}

    def why(self, chosen: int, trials: Trials) -> list[str]:
        """What was measured of the chosen point beside the usual one."""
        usual = self.points.usual
        found = [self._bound("The usual choice", usual)]
        for point in self.finals.keys() - {usual}:
            ratio = ratio_of_medians(self.samples[usual], self.samples[point])
            if ratio["pairs"] < FINALS:
                found.append(too_few(len(self.samples[point])))
                continue
            told = f"{ratio['ratio']:.3f} times as fast (between {ratio['low']:.3f} and {ratio['high']:.3f}, 95 %)"
            whose = "What was chosen" if point == chosen else "Another choice"
            tail = "" if ratio["low"] > 1 else ", which cannot be told from the usual one"
            found.append(f"{whose} was {told} over {ratio['pairs']} repeats by turns{tail}.")
        if chosen == usual:
            return [*found, "No other choice was found to be faster."]
        found.append(self._bound("What was chosen", chosen))
        return [*found, *worth(self.points, chosen, trials, "ms", "measured")]

    def _bound(self, whose: str, point: int) -> str:
        """Which nest most of the time goes to."""
        spent = self.finals[point].spent()
        most = max(spent["kernels"], key=lambda kernel: float(kernel["amount"]))
        share, nests = most["amount"] / spent["whole"], len(spent["kernels"])
        median = shown(float(np.median(self.samples[point])))
        nest = "its one loop nest" if nests == 1 else f"{most['name']}, one of {nests} loop nests"
        return f"{whose} takes {median} ms, the median: {share:.0%} of a run is spent in {nest}."


def points_of(setup: Setup, tuning: Tuning, end: float) -> Points:
    """All combinations of the options that change the loops by themselves, of those that were looked at by the end."""
    given, own = given_options(setup, tuning), setup.compilation.options.to_json()
    varied = switches(setup, "loops", (name for name in OF_MODELS if name not in given and own_time() < end))
    every = [dict(zip(varied, values, strict=True)) for values in product(*varied.values())]
    genes = [Gene(name, values) for name, values in varied.items()]
    return Points.of(genes, every, {name: own[name] for name in varied})


def _warmed_up(program: Program) -> float | None:
    """Milliseconds of the shortest of a program's first runs; None where a result was wrong."""
    least, runs, until = np.inf, 0, perf_counter() + WARM_UP_S
    while runs < WARM_UPS or perf_counter() < until:
        ms = program.measure()
        if ms is None:
            return None
        least, runs = min(least, ms), runs + 1
    return least


def _predicted(setup: Setup, points: Points, end: float) -> tuple[Predicted, str]:
    """Seconds by what is counted, of a score for one triple, None where that is not known of each point; and what
    predicts, or why nothing does."""
    found: list[float] = []
    for point in range(len(points)):
        if own_time() > end:
            return None, HURRIED
        seconds = _seconds(setup.compiled_with(options_of(points.at(point))))
        if seconds is None:
            return None, UNCOUNTED
        found.append(seconds)
    return np.array(found), COUNTED


def _seconds(compilation: Compilation) -> float | None:
    costs, most = predicted_costs(compilation), ceilings()
    if costs is None:
        return None
    parts = (*costs.operations.values(), costs.rest)
    return sum(max(each.bytes / most["bytes_per_s"], each.flop / most["flop_per_s"]) for each in parts)
