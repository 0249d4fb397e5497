"""Whether the rules of kernels find their mutants: one place changed (a guard dropped, an index one further, a loop
wider, a barrier gone or passed). Each mutant that the rules let through is run on the emulator, which must find nothing
either, but where a guard is gone: it may say who has a row that memory names, which the rules do not know.

    python tests/sweep/mutants.py --seconds 300 --seed 0 [--only rgcn]

Prints a line for each mutant that the emulator finds and the rules do not, and how many were found in all.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import explorer
from benchmarks.cases.checked import Case, all_cases, gradient_cases, layer_cases, op_cases
from benchmarks.gpu_check import CHECKS, Setting, check_gradients
from explorer.compiler.codegen.cuda.program import generate_cuda
from explorer.compiler.ir.bounds.lookups import given_facts
from explorer.compiler.ir.kernels import Barrier, Loop, ScheduledKernel, Statement, Where
from explorer.compiler.ir.loops import Index, Kernel, Load, Store
from explorer.compiler.ir.module import Module
from explorer.compiler.ir.node import VerificationError
from explorer.compiler.ir.print.kernels import print_step
from explorer.compiler.ir.verify.accesses import Extents
from explorer.compiler.ir.verify.kernels import verify_scheduled
from explorer.compiler.options import Options
from explorer.compiler.report import Report
from explorer.runtime.arrays import as_declared, check_inputs
from explorer.runtime.data.graphs import generate
from tests.emulator.conftest import FEW_EDGES, FEW_LISTS, launch
from tests.emulator.emulate import EmulatorFault, emulate

Body = tuple[Statement, ...]
Change = Callable[[Body, int], Iterator[tuple[str, Body]]]
NEW = "mutated"
"""The name of an index that mutants define."""


@dataclass(frozen=True)
class Mutant:
    """A program of which one kernel is changed, and how."""

    kernels: tuple[ScheduledKernel, ...]
    place: int
    what: str


def unguarded(body: Body, at: int) -> Iterator[tuple[str, Body]]:
    """What is done on a condition, done always, or once more often."""
    match body[at]:
        case Where(body=inner) as where:
            yield f"without {print_step(where)}", (*body[:at], *inner, *body[at + 1 :])
            if where.comparison == "<":
                yield f"<= in {print_step(where)}", _with(body, at, replace(where, comparison="<="))


def moved(body: Body, at: int) -> Iterator[tuple[str, Body]]:
    """An index one further, or the greater one of two."""
    statement = body[at]
    match statement:
        case Index(function="min" | "max" as function):
            other = {"min": "max", "max": "min"}[function]
            yield f"{other} in {print_step(statement)}", _with(body, at, replace(statement, function=other))
        case Load(indices=indices) | Store(indices=indices):
            for number, index in enumerate(indices):
                if isinstance(index, str):
                    one = Index(result=NEW, function="add", operands=(index, 1), origin=statement.origin)
                    changed = replace(statement, indices=(*indices[:number], NEW, *indices[number + 1 :]))
                    yield f"{index} + 1 in {print_step(statement)}", (*body[:at], one, changed, *body[at + 1 :])


def widened(body: Body, at: int) -> Iterator[tuple[str, Body]]:
    """A loop with an iteration more at either end."""
    match body[at]:
        case Loop() as loop:
            if isinstance(loop.extent, int):
                yield f"{loop.extent + 1} in {print_step(loop)}", _with(body, at, replace(loop, extent=loop.extent + 1))
            if isinstance(loop.extent, str) and not loop.bind:
                more = Index(result=NEW, function="add", operands=(loop.extent, 1), origin=loop.origin)
                yield (
                    f"{loop.extent} + 1 in {print_step(loop)}",
                    (*body[:at], more, replace(loop, extent=NEW), *body[at + 1 :]),
                )
            if isinstance(loop.lower, str):
                less = Index(result=NEW, function="sub", operands=(loop.lower, 1), origin=loop.origin)
                yield (
                    f"{loop.lower} - 1 in {print_step(loop)}",
                    (*body[:at], less, replace(loop, lower=NEW), *body[at + 1 :]),
                )


def unordered(body: Body, at: int) -> Iterator[tuple[str, Body]]:
    """No barrier, a narrower one, or one statement on its other side."""
    match body[at]:
        case Barrier() as barrier:
            yield f"without {print_step(barrier)} at {at}", (*body[:at], *body[at + 1 :])
            if barrier.level == "block" and not barrier.copies:
                yield f"barrier warp at {at}", _with(body, at, replace(barrier, level="warp"))
            for before, after in ((at, at + 1), (at - 1, at)):
                if before >= 0 and after < len(body):
                    yield (
                        f"{print_step(body[after])} before {print_step(body[before])}",
                        (*body[:before], body[after], body[before], *body[after + 1 :]),
                    )


CHANGES: tuple[Change, ...] = (unguarded, moved, widened, unordered)
KINDS = tuple(change.__name__ for change in CHANGES)  # type: ignore[attr-defined]


def _with(body: Body, at: int, statement: Statement) -> Body:
    return (*body[:at], statement, *body[at + 1 :])


def changed(body: Body) -> Iterator[tuple[str, str, Body]]:
    """All bodies that differ in one place: the kind of change, what it is, the body."""
    for at, statement in enumerate(body):
        for kind, change in zip(KINDS, CHANGES, strict=True):
            yield from ((kind, what, other) for what, other in change(body, at))
        if isinstance(statement, Loop | Where):
            for kind, what, inner in changed(statement.body):
                yield kind, what, _with(body, at, replace(statement, body=inner))


def mutants_of(kernels: Sequence[ScheduledKernel]) -> Iterator[tuple[str, Mutant]]:
    """All mutants of a program's kernels, by the kind of change."""
    for place, kernel in enumerate(kernels):
        for kind, what, body in changed(kernel.body):
            mutated = (*kernels[:place], replace(kernel, body=body), *kernels[place + 1 :])
            yield kind, Mutant(mutated, place, f"{kernel.name}: {what}")


def refused(mutant: Mutant, nests: Sequence[Kernel]) -> str:
    """Why the rules do not let a mutant through; empty where they do."""
    try:
        verify_scheduled(mutant.kernels[mutant.place])
    except VerificationError as error:
        return str(error)
    extents = Extents(given_facts(nests))
    for kernel in mutant.kernels:
        if missing := extents.unproved(kernel):
            return str(missing[0])
    return ""


class Emulated:
    """A case with what it is run on, whose kernels may be other ones."""

    def __init__(self, case: Case) -> None:
        self.case, kept = case, list[Any]()

        def launched(compilation: explorer.Compilation, inputs: dict[str, Any]) -> Any:
            kept[:] = compilation, inputs
            return launch(compilation, inputs)

        outcome = check_case(Setting(launched, 1, generate("few edges", FEW_EDGES), FEW_LISTS), case)
        assert outcome["agrees"], (case, outcome)
        compilation, inputs = kept
        self.program, self.module = compilation.stages["loops"].program, compilation.stages["kernels"].program
        self.kernels = getattr(self.module, "programs", (self.module,))
        self.nests = getattr(self.program, "programs", (self.program,))
        self.arrays, self.extents = check_inputs(self.program, inputs)

    def run(self, kernels: tuple[ScheduledKernel, ...]) -> None:
        """Raises EmulatorFault."""
        module = replace(self.module, programs=kernels) if isinstance(self.module, Module) else kernels[0]
        code = as_declared(generate_cuda(module, Report(Options())), self.program)
        emulate(code, self.arrays, self.extents, 1, set())


def check_case(setting: Setting, case: Case) -> dict[str, Any]:
    """A case forward, or with its gradients."""
    if case.options.get("grad") == "true":
        return check_gradients(setting, case)
    return CHECKS[explorer.compile(case.text, on_demand=True).family](setting, case)


@dataclass
class Tally:
    """Of each kind of change: how many the rules refuse, how many are harmless on the emulator, how many it finds; and
    of how many it finds that they read what nothing has written, of which the rules say something for indices alone."""

    refused: Counter[str] = field(default_factory=Counter)
    harmless: Counter[str] = field(default_factory=Counter)
    missed: Counter[str] = field(default_factory=Counter)
    unwritten: Counter[str] = field(default_factory=Counter)


def hunt(
    emulated: Emulated, random: Random, most: int, until: float, tally: Tally, kinds: Collection[str] = KINDS
) -> Iterator[str]:
    """Tries mutants, `most` that the rules let through on the emulator; a line for each that it finds."""
    mutants = [each for each in mutants_of(emulated.kernels) if each[0] in kinds]
    random.shuffle(mutants)
    for kind, mutant in mutants:
        if time.monotonic() > until or most == 0:
            return
        try:
            why = refused(mutant, emulated.nests)
        except (KeyError, AssertionError) as error:
            yield f"{kind} {mutant.what}: the rules fail: {error!r}"
            continue
        if why:
            tally.refused[kind] += 1
            continue
        most -= 1
        try:
            emulated.run(mutant.kernels)
            tally.harmless[kind] += 1
        except EmulatorFault as fault:
            if "nothing has written" in str(fault):
                tally.unwritten[kind] += 1
                continue
            tally.missed[kind] += 1
            yield f"{kind} {mutant.what}\n    {fault}"


def main() -> int:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--seconds", type=float, default=300)
    asked.add_argument("--seed", type=int, default=0)
    asked.add_argument("--most", type=int, default=8, help="mutants of a case that the emulator runs")
    asked.add_argument("--only", default="", help="a definition's name has this")
    given = asked.parse_args()
    random, until = Random(given.seed), time.monotonic() + given.seconds
    cases = [c for make in (layer_cases, op_cases, all_cases, gradient_cases) for c in make((8, 33, 64))]
    cases = [case for case in cases if given.only.lower() in case.text.lower()]
    random.shuffle(cases)
    tally = Tally()
    for case in cases:
        if time.monotonic() > until:
            break
        emulated = Emulated(case)
        print(emulated.kernels[0].name, case.size, case.options, flush=True)
        for line in hunt(emulated, random, given.most, until, tally):
            print(" ", line, flush=True)
    for kind in KINDS:
        found, missed, harmless = (each[kind] for each in (tally.refused, tally.missed, tally.harmless))
        unwritten = tally.unwritten[kind]
        print(f"{kind:10} {found:6} refused, {missed:4} missed, {unwritten:4} unwritten, {harmless:4} harmless")
    return 0


if __name__ == "__main__":
    sys.exit(main())
