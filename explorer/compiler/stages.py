"""The stages of a compilation: each made by its passes from the one before, verified, and kept."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace
from functools import cached_property
from hashlib import sha256
from time import perf_counter
from typing import Any

from explorer.compiler.codegen.resources import Resources
from explorer.compiler.codegen.text import Code
from explorer.compiler.counts import Counts
from explorer.compiler.decisions import Policy
from explorer.compiler.frozen import dataclass
from explorer.compiler.ir.access.dlc import DlcProgram, verify_dlc
from explorer.compiler.ir.access.slc import SlcProgram, verify_slc
from explorer.compiler.ir.graph import Graph, print_graph, verify_graph
from explorer.compiler.ir.kernels import ScheduledKernel
from explorer.compiler.ir.loops import Kernel, verify_kernel
from explorer.compiler.ir.module import AnyProgram, Module, print_module, print_program
from explorer.compiler.ir.node import Line, VerificationError
from explorer.compiler.ir.verify.kernels import verify_scheduled
from explorer.compiler.ir.verify.module import verify_module
from explorer.compiler.kept import Kept
from explorer.compiler.pipeline import STAGES, Pass, StageSpec
from explorer.compiler.report import Report, ScheduledNest
from explorer.compiler.unsupported import OutOfBudget, Unsupported

CHOSEN = ("kernels", "cuda", "ptx", "sass")
"""The stages that decisions bear on: all others are the same with any schedule."""

Program = Graph | AnyProgram | Module | Code


@dataclass(frozen=True)
class PassReport:
    """What a pass did: `summary` says what changed, which `said` has by sentence, `refusals` why something did not.
    `heeded` are the options of a GPU's sums that it looked at (`schedule.unread` says what others are for). The
    programs, of which the texts are, are printed when somebody looks."""

    name: str
    ms: float
    summary: str
    refusals: tuple[str, ...]
    read: Program = field(repr=False)
    made: Program = field(repr=False)
    heeded: tuple[str, ...] = ()
    said: tuple[str, ...] = ()

    @cached_property
    def before(self) -> tuple[Line, ...]:
        """The text of what it was given."""
        return lines_of(self.read)

    @cached_property
    def after(self) -> tuple[Line, ...]:
        """The text of what it made."""
        return self.before if self.made is self.read else lines_of(self.made)

    @cached_property
    def changed(self) -> bool:
        """Whether it made another text."""
        return self.made is not self.read and [x.text for x in self.before] != [x.text for x in self.after]


@dataclass(frozen=True)
class Stage:
    """A stage of a compilation. Where it could not be made, `available` is false and `reason` a sentence; `stopped`
    is one that took more time or memory than the compilation may. `edited` is one whose program a person wrote, and
    `fork` the stage whose edited program this one is or is made of, "" where all is the compiler's."""

    name: str
    passes: tuple[PassReport, ...]
    ms: float
    program: Program | None
    reason: str = ""
    nests: tuple[ScheduledNest, ...] = field(default=(), repr=False)
    stopped: bool = False
    edited: bool = False
    fork: str = ""

    @cached_property
    def lines(self) -> tuple[Line, ...]:
        """The program as it is printed, when somebody first looks."""
        return () if self.program is None else lines_of(self.program)

    @property
    def available(self) -> bool:
        """Whether there is a program."""
        return self.program is not None

    @property
    def resources(self) -> tuple[Resources, ...]:
        """What each kernel takes of a GPU, where the stage has machine code."""
        return self.program.binary.resources if isinstance(self.program, Code) and self.program.binary else ()

    @property
    def text(self) -> str:
        """The lines, each ended by a newline."""
        return "".join(f"{line.text}\n" for line in self.lines)

    @property
    def digest(self) -> str:
        """What tells this text from any other, in 16 letters; "" where there is no program."""
        return sha256(self.text.encode()).hexdigest()[:16] if self.available else ""


class Stages(Mapping[str, Stage]):
    """The stages by name, in the pipeline's order; those on demand are made when they are first asked for. Once one is
    stopped, no other is made.

    Nests that were scheduled are kept in the report, and `steps` are passes that nothing was chosen in, by name with
    what they made: another schedule of the same text takes both. A `fork` has the program of one stage from somebody
    else: what is not made of it is as in the `plain` stages that it was taken from."""

    def __init__(self, graph: Graph, report: Report, on_demand: bool) -> None:
        self._graph = graph
        self._report = report  # what that of each pass is like
        self._steps: dict[str, tuple[PassReport, Program]] = {}
        self._made: dict[str, Stage] = {}
        self._shared: dict[str, Stage] = {}  # those that are the same with any schedule
        self.stopped_by: OutOfBudget | MemoryError | None = None
        self._over = ""  # why no more is made
        self._plain: Stages | None = None
        self._own: Stage | None = None  # the stage of a fork that is edited
        self._refused = ""  # why nothing is made of it
        for spec in STAGES:
            if not (on_demand or spec.on_demand):
                self.__getitem__(spec.name)

    def with_policy(self, policy: Policy) -> Stages:
        """The same model's stages where something else is chosen for a GPU, each when it is first asked for."""
        if self._plain is not None and self._own is not None:
            return self._plain.with_policy(policy).forked(self._own, self._refused)
        stages = Stages(self._graph, replace(self._report, policy=policy), on_demand=True)
        stages._steps, stages._shared, stages._over = self._steps, self._shared, self._over
        return stages

    def with_counts(self, counts: Counts) -> Stages:
        """The same model's stages with costs counted on other sizes, each when it is first asked for."""
        return Stages(self._graph, replace(self._report, counts=counts), on_demand=True)

    def forked(self, own: Stage, refused: str = "") -> Stages:
        """The same with another stage in the place of the one of its name, and what follows it made of that, or of
        nothing, where it is `refused`: a sentence."""
        stages = Stages(self._graph, self._report, on_demand=True)
        stages._plain, stages._own, stages._refused = self, own, refused
        return stages

    @property
    def checked(self) -> Graph:
        """The model as it was checked, before any pass."""
        return self._graph

    @property
    def kept(self) -> Kept[Any]:
        """The nests that were scheduled."""
        return self._report.kept or Kept()

    def first_form(self) -> Stages:
        """The stages, with those after the CUDA still to be made, in their first form."""
        if self._plain is not None and self._own is not None:
            first = self._plain.first_form().forked(self._own, self._refused)
            first._made = {name: self[name] for name in ("kernels", "cuda")}
            return first
        stages = Stages(self._graph, replace(self._report, first=True), on_demand=True)
        stages._steps, stages._shared, stages._over = self._steps, self._shared, self._over
        stages._made = {spec.name: self[spec.name] for spec in STAGES if not spec.on_demand and spec.name in CHOSEN}
        return stages

    def __getitem__(self, name: str) -> Stage:
        if self._plain is not None and not self._is_after(name):
            return self._plain[name]
        made = self._made if name in CHOSEN else self._shared
        if name not in made:
            specs = [spec for spec in STAGES if spec.name == name]
            if not specs:
                raise KeyError(name)
            made[name] = self._make(specs[0])
        return made[name]

    def __contains__(self, name: object) -> bool:
        return any(spec.name == name for spec in STAGES)

    def __iter__(self) -> Iterator[str]:
        return (spec.name for spec in STAGES)

    def __len__(self) -> int:
        return len(STAGES)

    def stop(self, name: str, error: OutOfBudget | MemoryError) -> Stage:
        """The stage of this name is not made for this reason, nor is what was not made before."""
        self.stopped_by = error
        if isinstance(error, OutOfBudget):
            error.heeded = True
        if self._plain is not None and not self._is_after(name):
            stage = self._plain.stop(name, error)
            self._over = stage.reason
            return stage
        said = str(error) if isinstance(error, OutOfBudget) else "There is not enough memory."
        self._over = f"{said} The stage {name} was being made then: try again, or make the model smaller."
        stage = Stage(name, (), 0.0, None, self._over, stopped=True)
        (self._made if name in CHOSEN else self._shared)[name] = stage
        return stage

    def stop_first_of(self, names: Iterable[str], error: OutOfBudget | MemoryError) -> None:
        """As `stop`, the first of these that is not made."""
        self.stop(next((name for name in names if name not in self._made), "sass"), error)

    def _is_after(self, name: str) -> bool:
        """Whether a stage is a fork's own, or made of it."""
        specs = {spec.name: spec for spec in STAGES}
        while name and name in specs:
            if self._own is not None and name == self._own.name:
                return True
            name = specs[name].source_of(self._report.options)
        return False

    def _make(self, spec: StageSpec) -> Stage:
        if self._own is not None:
            return self._own if spec.name == self._own.name else self._make_of_fork(spec, self._own.name)
        return self._make_of_source(spec)

    def _make_of_fork(self, spec: StageSpec, fork: str) -> Stage:
        """A stage of an edited program, which the passes may not be ready for: what they make of it is verified as
        always, and where they fail the stage says so."""
        if self._refused:
            return Stage(spec.name, (), 0.0, None, self._refused, fork=fork)
        try:
            return replace(self._make_of_source(spec), fork=fork)
        except (OutOfBudget, MemoryError):
            raise
        except Exception as error:
            kind = "" if isinstance(error, VerificationError) else f"{type(error).__name__}: "
            said = f"The passes cannot go on from {fork} as it was edited: {kind}{error}"[:300]
            return Stage(spec.name, (), 0.0, None, said, fork=fork)

    def _make_of_source(self, spec: StageSpec) -> Stage:
        if self._over:
            return Stage(spec.name, (), 0.0, None, self._over)
        if not spec.follows:
            return self._run(spec, self._graph)
        source = self[spec.source_of(self._report.options)]
        if source.program is None:
            return Stage(spec.name, (), 0.0, None, source.reason)
        return self._run(spec, source.program)

    def _run(self, spec: StageSpec, program: Program) -> Stage:
        """Runs a stage's passes; each result is verified."""
        begin = perf_counter()
        passes: list[PassReport] = []
        nests: tuple[ScheduledNest, ...] = ()
        try:
            for step in spec.passes:
                done = self._steps.get(step.__name__)
                if done is None:
                    said = self._report.like(self._report.policy)
                    done = _run_pass(step, program, said)
                    nests = tuple(said.scheduled)
                if spec.name in CHOSEN and step is not spec.passes[-1]:
                    self._steps[step.__name__] = done
                report, program = done
                passes.append(report)
        except Unsupported as error:
            return Stage(spec.name, tuple(passes), _ms_since(begin), None, str(error))
        except (OutOfBudget, MemoryError) as error:
            return replace(self.stop(spec.name, error), passes=tuple(passes), ms=_ms_since(begin))
        return Stage(spec.name, tuple(passes), _ms_since(begin), program, nests=nests)


def _run_pass(step: Pass, program: Program, report: Report) -> tuple[PassReport, Program]:
    begin = perf_counter()
    changed: Program = step(program, report)
    ms = _ms_since(begin)
    if changed is not program:
        verify(changed)
    return (
        PassReport(
            name=step.__name__,
            ms=ms,
            summary="; ".join(report.done),
            refusals=tuple(report.refusals),
            read=program,
            made=changed,
            heeded=tuple(sorted(report.heeded)),
            said=tuple(report.done),
        ),
        changed,
    )


def lines_of(program: Program) -> tuple[Line, ...]:
    """A program as it is printed."""
    match program:
        case Graph():
            return print_graph(program)
        case Module():
            return print_module(program)
        case Code():
            return program.lines
        case _:
            return print_program(program)


def verify(program: Program) -> None:
    """Raises VerificationError for a program that breaks a rule of its IR."""
    match program:
        case Graph():
            verify_graph(program)
        case Kernel():
            verify_kernel(program)
        case ScheduledKernel():
            verify_scheduled(program)
        case SlcProgram():
            verify_slc(program)
        case DlcProgram():
            verify_dlc(program)
        case Module():
            for inner in program.programs:
                verify(inner)
            verify_module(program)


def _ms_since(begin: float) -> float:
    return (perf_counter() - begin) * 1e3
