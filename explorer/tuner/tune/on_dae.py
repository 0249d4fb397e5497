"""Tries points on the simulated machine: options that its program depends on, and the sizes of its queues.

A trial is a simulation, over a part of the data where all of it would take long, and every one is held against float64.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from contextlib import suppress
from itertools import product
from typing import Any

from explorer.compiler.decisions import Value
from explorer.compiler.options import OPT_LEVELS
from explorer.machine.assembly.assembly import AssemblyError
from explorer.machine.faults import ADVICE, MachineError
from explorer.machine.parameters import MachineParameters
from explorer.runtime.budget import own_time
from explorer.runtime.on_dae import MACHINE as DEVICE
from explorer.runtime.reference.compare import Check
from explorer.runtime.rehearsal import rehearse
from explorer.runtime.runs import basis
from explorer.runtime.runs.events import Event, progress
from explorer.runtime.runs.request import PREPARING, STEPS, Refused, Setup, how_far, sentence
from explorer.runtime.shares.spent import of_cycles
from explorer.runtime.targets import dae
from explorer.runtime.tuning import Tuning
from explorer.tuner.points import Gene, Points
from explorer.tuner.search import BudgetSpent, Trials
from explorer.tuner.tune.bench import MACHINE, OnTarget, Tried, given_options, machine_of, options_of
from explorer.tuner.tune.options import OF_MODELS, digest, switches
from explorer.tuner.tune.why_dae import Account, sentences

VECTORS = (4, 8, 16, 32, 64)
SIZES: dict[str, tuple[int, ...]] = {
    "queue_bytes": tuple(1 << power for power in range(9, 17)),
    "control_tokens": tuple(1 << power for power in range(5, 13)),
}
"""What is chosen from of the machine: how much the queue of data and that of tokens hold."""
BESIDE = ("address_streams", "store_streams", "accumulate_streams", "toggle_callbacks", "level_hints")
"""What is done beside the levels (Ember §7.3, §7.4)."""
ORDER = ("opt", "vlen", f"{MACHINE}queue_bytes", *OF_MODELS, *BESIDE, f"{MACHINE}control_tokens")
"""Of all that is varied, what matters first before the rest."""
MOST_POINTS = 20_000
"""Options that make more are left as they are, the last of ORDER first: a search thinks about every point each time."""
NEAR = 1.01
"""A larger queue must gain more than this to be chosen."""
APART = 16
"""Trials that are left for what is said of the fastest point: what it does without each option and at other levels, and
with smaller queues."""
NOTE = 120
"""Characters that say what is wrong with a trial, beyond its first clause."""
UNPREDICTED = "Nothing predicts cycles before they are simulated: the search learns from those that were."
Space = list[dict[str, tuple[Value, ...]]]
"""By level of optimisation the values of what varies there."""


def bench(setup: Setup, tuning: Tuning) -> Generator[Event, None, MachineBench]:
    """The machine, ready to have points tried. Raises Refused."""
    setup.program("dlc")  # or why there is none
    yield progress("loading the simulated machine", PREPARING, STEPS)
    rehearse("dae")  # or its first trial would be thought to be long, and end the search
    part = setup
    if setup.large:
        yield progress("taking a part of the data, to simulate it often", PREPARING, STEPS)
        part = setup.smaller()
    return MachineBench(part, tuning, setup)


class MachineBench(OnTarget):
    """The machine over data, or over the part of it that all trials are on."""

    metric = "cycles"
    device = DEVICE
    by = UNPREDICTED

    def __init__(self, setup: Setup, tuning: Tuning, whole: Setup) -> None:
        super().__init__(setup, tuning)
        self.whole = whole
        self.part = "" if setup is whole else "a part of the data"
        self.inputs: dict[str, Any] = {}
        end = own_time() + tuning.preparing
        self.points = points_of(setup, tuning, end)
        self.hurried = own_time() > end
        self.apart = min(APART, tuning.trials // 2)
        self.accounts: dict[int, Account] = {}
        self._seen: dict[tuple[Any, ...], tuple[int, Tried]] = {}

    def tried(self, point: int) -> Tried:
        """Simulates a point, but for one whose program and machine were simulated before."""
        choices = self.points.at(point)
        try:
            setup = self.setup.recompiled(options_of(choices))
            stage = setup.compilation.stages["dlc"]
            key = (stage.digest, *sorted(machine_of(choices).items()))
            if key in self._seen:
                return self._again(point, *self._seen[key])
            found = self._simulated(point, setup)
        except Refused as refused:
            return Tried(None, "invalid", str(refused))
        self._seen[key] = point, found
        return found

    def _again(self, point: int, other: int, before: Tried) -> Tried:
        if before.value is None:
            return before
        self.accounts[point] = self.accounts[other]
        return Tried(before.value, "same", "The program is that of a trial before.")

    def _simulated(self, point: int, setup: Setup) -> Tried:
        try:
            ran, check = self._run(setup, self.parameters(point))
        except ValueError as error:  # what the machine says of a record that is larger than its queue
            return Tried(None, "invalid", _brief(error))
        except (AssemblyError, MachineError) as error:
            return Tried(None, "faulted", _brief(error))
        if not setup.right(check):
            return Tried(None, "wrong", f"The result differs from that in float64{how_far(check)}.")
        self.accounts[point] = Account.of(ran.account)
        return Tried(float(ran.account["cycles"]))

    def _run(self, setup: Setup, parameters: MachineParameters) -> tuple[dae.DaeResult, Check]:
        """A simulation of a setup, with its check; that of its gradients is the setup's."""
        program = setup.program("dlc")
        ran = dae.simulate(program, setup.inputs(), parameters)
        got, gradients = setup.finished(ran.output, ran.gradients)
        check = setup.check(got)
        if check.matches and gradients:
            setup.check_gradients(gradients, lambda arrays: _outcome(dae.simulate(program, arrays, parameters)))
        return ran, check

    def parameters(self, point: int) -> MachineParameters:
        """The machine of a point."""
        return MachineParameters.of({**self.setup.request.machine, **machine_of(self.points.at(point))})

    def settled(self, trials: Trials) -> int:
        """The fastest point, with no other options than it needs and the smallest queues that were simulated to be
        within 1 % of it; no slower than the usual point."""
        points, before = self.points, trials.times[trials.best]
        chosen = self._plainest(trials, trials.best)
        with suppress(BudgetSpent):
            for level in range(OPT_LEVELS):
                self._take(trials, chosen, "opt", level)
            self._take(trials, chosen, f"{MACHINE}queue_bytes", SIZES["queue_bytes"][-1])
        if trials.times[trials.best] < before:
            chosen = self._plainest(trials, trials.best)
        most = min(NEAR * trials.times[trials.best], trials.times[points.usual])
        for place, gene in enumerate(points.genes):
            if gene.key.startswith(MACHINE):
                chosen = self._smallest(trials, chosen, place, most)
        return chosen

    def _plainest(self, trials: Trials, chosen: int) -> int:
        """The point with no larger queue than usual that does not gain enough, and with each option as usual that is no
        slower for it; as far as there are trials."""
        usual = self.points.at(self.points.usual)
        with suppress(BudgetSpent):
            most = min(NEAR * trials.times[chosen], trials.times[self.points.usual])
            for place, gene in enumerate(self.points.genes):
                if gene.key.startswith(MACHINE) and self._is_larger(chosen, place):
                    chosen = self._tried_with(trials, chosen, gene.key, usual[gene.key], most)
            for key, value in options_of(usual).items():
                if self.points.at(chosen).get(key, value) != value:
                    chosen = self._tried_with(trials, chosen, key, value, trials.times[chosen])
        return chosen

    def _is_larger(self, point: int, place: int) -> bool:
        """Whether a gene of a point is larger than usual."""
        return bool(self.points.ordinals[point, place] > self.points.ordinals[self.points.usual, place])

    def _tried_with(self, trials: Trials, point: int, key: str, value: Value, most: float) -> int:
        """The point that differs in one gene, if it takes so much at most. Raises BudgetSpent."""
        other = self._take(trials, point, key, value)
        return point if other is None or trials.times[other] > most else other

    def _take(self, trials: Trials, point: int, key: str, value: Value) -> int | None:
        """Tries the valid point that is like another but for one gene, or nearly; None where there is none such. Raises
        BudgetSpent."""
        places = [place for place, gene in enumerate(self.points.genes) if gene.key == key and value in gene.values]
        if not places:
            return None
        ordinals = self.points.ordinals[point].copy()
        ordinals[places[0]] = self.points.genes[places[0]].values.index(value)
        other = self.points.repaired(ordinals, self.points.ordinals[:, places[0]] == ordinals[places[0]])
        trials.take(other)
        return other

    def _smallest(self, trials: Trials, chosen: int, place: int, most: float) -> int:
        """The point with the smallest value of a gene that takes so much at most, by bisection: queues that hold more
        are taken to be no slower. Whatever it ends with, it has tried."""
        low, high = 0, int(self.points.ordinals[chosen, place])
        while low < high:
            middle = (low + high) // 2
            ordinals = self.points.ordinals[chosen].copy()
            ordinals[place] = middle
            point = self.points.find(ordinals)
            try:
                fits = point is not None and trials.take(point) <= most
            except BudgetSpent:
                return chosen
            if fits and point is not None:
                chosen, high = point, middle
            else:
                low = middle + 1
        return chosen

    def value_of(self, point: int, trials: Trials) -> float:
        """Its cycles: a simulation takes the same every time."""
        return trials.times[point]

    def result(self, chosen: int) -> dict[str, Any]:
        """Simulates the chosen point once more, for what is not kept of trials."""
        parameters = self.parameters(chosen)
        setup = self.setup.recompiled(options_of(self.points.at(chosen)))
        ran, check = self._run(setup, parameters)
        figures = ran.to_json()
        spent = of_cycles(ran.spent, figures).to_json(setup.compilation.operations)
        rests = {"basis": basis.of_run(parameters), "spent": spent}
        return {**setup.description(check, DEVICE), **figures, **rests}

    def why(self, chosen: int, trials: Trials) -> list[str]:
        """What the counts of the chosen point say beside those of the usual one."""
        return [*sentences(self.points, chosen, trials, self.accounts), *self._part()]

    def _part(self) -> list[str]:
        if self.setup is self.whole:
            return []
        part, rows = self.setup.want.size, self.whole.want.size
        return [f"All trials are on a part of the data, whose result has {part:,} elements instead of {rows:,}."]


def _brief(error: Exception) -> str:
    """What is wrong: the clauses that NOTE has room for, without advice, which is for who chose the queue."""
    text, *more = str(error).removesuffix(f": {ADVICE}").split("; ")
    for clause in more:
        if len(text) + len(clause) < NOTE:
            text += f"; {clause}"
    return sentence(ValueError(text))


def _outcome(ran: dae.DaeResult) -> tuple[Any, Mapping[str, Any]]:
    return ran.output, ran.gradients


def points_of(setup: Setup, tuning: Tuning, end: float) -> Points:
    """What there is to choose from: at each level of optimisation the options that change the program there, of those
    that were looked at by the end."""
    space = _space(setup, tuning, end)
    genes: dict[str, dict[Value, None]] = {}
    for level in space:
        for key, values in level.items():
            genes.setdefault(key, {}).update(dict.fromkeys(values))
    own = {**setup.compilation.options.to_json(), **_named(MachineParameters.of(setup.request.machine).values())}
    usual_level = next(level for level in space if own["opt"] in level.get("opt", (own["opt"],)))
    usual = {key: own[key] for key in usual_level}
    every = [dict(zip(level, values, strict=True)) for level in space for values in product(*level.values())]
    named = {key: Gene(key, tuple(sorted(genes[key]))) for key in sorted(genes, key=ORDER.index)}
    return Points.of(list(named.values()), every, usual)


def _named(machine: Mapping[str, Any]) -> dict[str, Any]:
    return {f"{MACHINE}{name}": value for name, value in machine.items()}


def _space(setup: Setup, tuning: Tuning, end: float) -> Space:
    """By level what varies there, in order of what matters, as far as MOST_POINTS leave room."""
    given, own = given_options(setup, tuning), setup.compilation.options.to_json()
    levels = [own["opt"]] if "opt" in given else list(range(OPT_LEVELS))
    parts = [dict(_candidates(setup, given, {"opt": level}, end)) for level in levels]
    space: Space = [{"opt": (level,)} for level in levels]
    for key in sorted({key for part in parts for key in part}, key=ORDER.index):
        more = [{key: part[key]} if key in part else {} for part in parts]
        wider = [{**taken, **new} for taken, new in zip(space, more, strict=True)]
        if sum(_count(level) for level in wider) <= MOST_POINTS:
            space = wider
    return space


def _count(level: Mapping[str, tuple[Value, ...]]) -> int:
    found = 1
    for values in level.values():
        found *= len(values)
    return found


def _candidates(
    setup: Setup, given: set[str], at: Mapping[str, Value], end: float
) -> Iterator[tuple[str, tuple[Value, ...]]]:
    """What changes the machine, and what changes the program at a level, of what was looked at by the end: of each
    option that takes a compilation."""
    usual, machine = MachineParameters().values(), MachineParameters.of(setup.request.machine).values()
    for name, sizes in SIZES.items():
        if machine[name] == usual[name]:
            yield f"{MACHINE}{name}", tuple(sorted({*sizes, int(usual[name])}))
    if own_time() > end:
        return
    own = setup.compilation.options.to_json()
    here = digest(setup, "dlc", at)
    vectors = tuple(sorted({*VECTORS, int(own["vlen"])}))
    if "vlen" not in given and any(digest(setup, "dlc", {**at, "vlen": each}) != here for each in vectors):
        yield "vlen", vectors
    varied = (name for name in (*OF_MODELS, *BESIDE) if name not in given and own_time() < end)
    yield from switches(setup, "dlc", varied, at).items()
