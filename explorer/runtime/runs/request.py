"""What a run is asked, and what it is once it is set up: a model with its data and the result that it must give.

A family of models says how a run is set up, a target what is done with it: this is all that they know of each other.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from explorer.compiler.compilation import Compilation
from explorer.compiler.counts import CountError
from explorer.compiler.decisions import ScheduleTextError
from explorer.compiler.ir.graph import Graph
from explorer.compiler.kept import ByContent, Kept, content
from explorer.compiler.language.diagnostics import Diagnostic
from explorer.compiler.returned import as_returned, each_returned
from explorer.runtime import compiling
from explorer.runtime.encode.layers import upstream_names
from explorer.runtime.proof.coarse import coarser_of
from explorer.runtime.reference.compare import Check, compare, of_several, worst
from explorer.runtime.reference.evaluate import Meaning
from explorer.runtime.reference.numbers.arithmetic import BOUNDED, FLOAT32, ONE_BY_ONE, UNFLUSHED, Arithmetic
from explorer.runtime.reference.numbers.bounds import Bounded
from explorer.runtime.reference.sampling import Sample
from explorer.runtime.reference.text import said_to_mean
from explorer.runtime.runs.events import GIVEN, OF_TEXT, Event, failed
from explorer.runtime.runs.footprint import MEMORY_LIMIT
from explorer.runtime.targets.table import TARGETS, TargetName

Floats = npt.NDArray[np.float32]
Result = Floats | tuple[Floats, ...]
Outcome = tuple[Result, Mapping[str, Floats]]
"""The result, and gradients by tensor."""
Run = Callable[[Mapping[str, Any]], Outcome]
"""Runs the prepared program on the arrays that it reads."""

DEFAULT_DATA = "FB15k-237"
DEFAULT_BATCH = 1_024
DEFAULT_REPEAT = 20

STEPS = 7
"""Steps that a run's progress counts to; the first five are the set-up's, and CHECKING and RUNNING the target's."""
PREPARING, CHECKING, RUNNING = 5, 6, 6

BEYOND_FLOAT32 = (
    "float32 cannot hold this model's intermediate values: what float64 can hold overflows or vanishes, so no time is"
    " shown. Scale the model's values."
)
FAULT = "This is a fault in the explorer."
BY_HAND = "A stage was edited by hand: what was right on small inputs is not on these."
OUTSIDE = "The program, which was edited by hand, reads or writes outside of an array on this data."
TOGETHER = "(all together)"
"""What the check of all gradients along one direction is called."""
RESULTS = {"score": "scores", "layer": "layer's results", "op": "op's results"}
"""What the results of each family are called."""
NO_NUMBER = (
    "The model's result is no number for some of these inputs, as where it divides by a sum of nothing, so gradients"
    " cannot be checked, and no time is shown. Keep it a number, as in x / max(total, 0.000001)."
)


@dataclass(frozen=True, kw_only=True)
class ModelRequest:
    """A model to compile, and the data that it is compiled for; all of it fits in JSON.

    `sizes` hold over those that the data fixes, `default_sizes` where neither those nor the data say anything, over
    the text. `schedule` is what to choose for kernels of a GPU, `edited` texts of stages in the place of those that the
    compiler prints. `data` is a preset or a file: the name of one in `data_dir`, or any path where that is None.
    `batch` is how many triples a score gets at a time, None where it may get any number.
    """

    text: str
    name: str | None = None
    sizes: Mapping[str, int] = field(default_factory=dict)
    default_sizes: Mapping[str, int] = field(default_factory=dict)
    options: Mapping[str, str | int | bool] = field(default_factory=dict)
    schedule: Mapping[str, str | int | bool] = field(default_factory=dict)
    edited: Mapping[str, str] = field(default_factory=dict)
    data: str = ""
    data_dir: str | None = None
    batch: int | None = None

    @property
    def folder(self) -> Path | None:
        """Where the names of files are looked up."""
        return None if self.data_dir is None else Path(self.data_dir)


@dataclass(frozen=True, kw_only=True)
class RunRequest(ModelRequest):
    """What to run, on what, over which data; all of it fits in JSON.

    `compiled` is what a reader has been shown: the digest of the `program` of the target's stage, and the `sizes` and
    `options` of its compilation. A run of any other program is refused; where there is none, nothing was shown.
    `machine` sets parameters of the simulated machine by name. `peers` times PyTorch beside a run on a GPU or a CPU,
    None on a GPU alone, and `compile_seconds` torch.compile too, which may compile for so long, None for not.
    `written` is the text of a DLC program that "dae" runs in the place of the compiled one, `memory` the most bytes
    that the run's arrays may take, None where it is what there is. `expected` is a text that must give the same results
    (`expected.py`). `against` are the `sizes`, `options` and `schedule` of side A of a comparison, of which this is
    side B (`against.py`). `tune` makes of the run a search for what is faster than what it asks (`tuning.py` has its
    fields).
    """

    on: TargetName
    data: str = DEFAULT_DATA
    compiled: Mapping[str, Any] | None = None
    batch: int = DEFAULT_BATCH
    repeat: int = DEFAULT_REPEAT
    seed: int = 0
    machine: Mapping[str, int | float] = field(default_factory=dict)
    peers: bool | None = None
    compile_seconds: float | None = None
    written: str = ""
    expected: str = ""
    against: Mapping[str, Any] | None = None
    tune: Mapping[str, Any] | None = None
    memory: int | None = MEMORY_LIMIT

    @property
    def beside_peers(self) -> bool:
        """Whether PyTorch is timed beside it."""
        return self.on == "gpu" if self.peers is None else self.peers

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> RunRequest:
        return cls(**fields)


class Refused(Exception):
    """The run cannot be done as asked; carries its last event."""

    def __init__(self, event: Event) -> None:
        super().__init__(event["message"])
        self.event = event


@dataclass(frozen=True, eq=False, kw_only=True)
class Setup(ABC):
    """A compiled model with its data, its tensors, and the result that they must give.

    `graph` is that of the compilation, `bounds` the result with what float32 may differ by, a tuple of several;
    `gradients` is filled in when they are checked. `sizes_from` says by dim where its size is from, where data may fix
    it, and `against` is side A of a comparison. Where there is a `sample`, `bounds` has the rows that are checked,
    which `part` gives: the model on what they depend on. `rounding` is what tables that are stored in 16 bits change
    of the result."""

    request: RunRequest
    compilation: Compilation
    graph: Graph
    tensors: Mapping[str, npt.NDArray[Any]]
    bounds: Bounded | tuple[Bounded, ...]
    gradients: dict[str, Check] = field(default_factory=dict)
    wanted: dict[str, Bounded] = field(default_factory=dict)  # gradients, once they have been computed
    sizes_from: Mapping[str, str] = field(default_factory=dict)
    sample: Sample | None = None
    part: Meaning | None = None
    against: Setup | None = None
    rounding: Mapping[str, Any] | None = None

    renews = False
    """Whether every run is of a new batch, so that checking and grouping its ids belongs to a run's time."""
    compared = False
    """Whether the simulated machine is also run on the program unoptimised, as Ember's figures do with its ops."""

    @abstractmethod
    def inputs(self) -> dict[str, Any]:
        """What the programs read, by name."""

    @abstractmethod
    def finished(self, got: Result, gradients: Mapping[str, Floats]) -> Outcome:
        """What the programs give in the order and the shapes that the reference has."""

    @property
    @abstractmethod
    def meaning(self) -> Meaning:
        """The model and its data as the reference takes them."""

    @property
    @abstractmethod
    def large(self) -> bool:
        """Whether the reference's gradients would take too long or too much memory, so that a part's are checked."""

    @abstractmethod
    def smaller(self) -> Setup:
        """Of a large run, a part that its gradients are checked on."""

    @abstractmethod
    def recompiled(self, options: Mapping[str, str | int | bool]) -> Setup:
        """The same data and tensors with the model compiled with other options. Raises Refused."""

    @abstractmethod
    def describe(self, check: Check) -> dict[str, Any]:
        """What the result says of the data, the pre-processing and the limits."""

    @property
    def learnt(self) -> list[str]:
        """The tensors that gradients are by."""
        return [name for name, _ in self.graph.gradients]

    @property
    def upstream(self) -> Result:
        """The gradient of the result, a tuple of those of several."""
        return as_returned(self.tensors[name] for name in upstream_names(self.graph))

    @property
    def want(self) -> npt.NDArray[np.float64]:
        """The result that the model must give, of several the first."""
        return each_returned(self.bounds)[0].value

    def check(self, got: Result) -> Check:
        """Holds a result, or each of several, against what the model must give."""
        taken, meaning = got if self.sample is None else self.sample.taken(got), self.part or self.meaning
        evaluated = cache(partial(result_of, meaning))

        def of_one(place: int, rows: Floats, bounds: Bounded) -> Check:
            plain = self._plain(lambda arithmetic: each_returned(evaluated(arithmetic))[place])
            return compare(rows, bounds, plain, lambda: each_returned(evaluated(UNFLUSHED))[place], meaning.overflows)

        pairs = zip(each_returned(taken), each_returned(self.bounds), strict=True)
        return of_several([of_one(place, rows, bounds) for place, (rows, bounds) in enumerate(pairs)])

    def check_gradients(self, gradients: Mapping[str, Floats], run: Run) -> None:
        """Fills in the check of each gradient; of a large run, of all together, and of those that `run` gives for a
        part of it, which of a sampled one is all."""
        part, found = self, gradients
        if self.large:
            if self.sample is None:
                self.gradients[TOGETHER] = self.together(gradients)
            part = self.smaller()
            found = part.finished(*run(part.inputs()))[1]
        self.gradients.update(part.checked(found))

    def together(self, gradients: Mapping[str, Floats]) -> Check:
        """Holds all gradients along one random direction against how the results change along it, whatever the size.

        The products of both are added up in float64. A gradient that adds up n terms one by one is off by sqrt(n) of
        itself more than the change tells."""
        direction, change = self._along
        upstream = [np.asarray(each, np.float64) for each in each_returned(self.upstream)]
        along = {name: gradients[name] * direction[name] for name in self.learnt}
        summed = np.sqrt(
            sum(each.size for each in upstream) * sum(float(np.sum(np.square(part))) for part in along.values())
        )
        pairs = list(zip(upstream, each_returned(change), strict=True))
        scale = sum(float(np.sum(np.abs(each) * moved.error)) for each, moved in pairs) + summed
        want = Bounded(np.array([sum(np.sum(each * moved.value) for each, moved in pairs)]), 0.0, scale)
        found = np.array([sum(float(part.sum()) for part in along.values())])
        return compare(found, want, overflows=self.meaning.overflows)

    @cached_property
    def _along(self) -> tuple[dict[str, npt.NDArray[np.float64]], Any]:
        """A random direction of all that is learnt, and how the result, or each of several, changes along it."""
        random = np.random.default_rng(self.request.seed)
        direction = {name: random.standard_normal(self.tensors[name].shape) for name in self.learnt}
        return direction, self.meaning.change(direction)

    def checked(self, gradients: Mapping[str, Floats]) -> dict[str, Check]:
        """Holds gradients against those that the model must give, element by element."""
        if not self.wanted:
            self.wanted.update(self.meaning.gradients(self.upstream, self.learnt))
        made: dict[Arithmetic, Mapping[str, Any]] = {}

        def evaluated(arithmetic: Arithmetic, name: str) -> Any:
            if arithmetic not in made:
                made[arithmetic] = self.meaning.gradients(self.upstream, self.learnt, arithmetic)
            return made[arithmetic][name]

        def check(name: str) -> Check:
            return compare(
                gradients[name],
                self.wanted[name],
                self._plain(lambda arithmetic: evaluated(arithmetic, name)),
                lambda: evaluated(UNFLUSHED, name),
                lambda: self.meaning.overflows(self.upstream, self.learnt),
            )

        return {name: check(name) for name in gradients}

    def _plain(self, evaluated: Callable[[Arithmetic], Any]) -> list[Callable[[], Any]]:
        """What a result's mean error is held against: none where products are coarser than float32 on purpose."""
        if self.meaning.coarser > 1:
            return []
        return [lambda: np.asarray(evaluated(FLOAT32)), lambda: np.asarray(evaluated(ONE_BY_ONE))]

    @property
    def gradients_match(self) -> bool:
        """Whether all gradients that were checked are right."""
        return all(check.matches for check in self.gradients.values())

    def right(self, check: Check) -> bool:
        """Whether the result, of this check, and the gradients are."""
        return check.matches and self.gradients_match

    def compiled_with(self, options: Mapping[str, str | int | bool]) -> Compilation:
        """The model, as the compiler has it for this data, with other options. Raises Refused."""
        compiled, options = self.compilation, {**self.request.options, **options}
        asked = replace(self.request, sizes=compiled.sizes, options=options, edited={})
        return compile_request(asked, compiled.counts, compiled.counted_on)

    def program(self, name: str) -> Any:
        """The program of a stage that a target runs. Raises Refused."""
        stage = self.compilation.stages[name]
        if not stage.available:
            raise Refused(failed("refused", f"There is no {name} program to run: {stage.reason}"))
        return stage.program

    def why_not(self, check: Check) -> str:
        """A sentence or two about a result or gradients that are not the reference's: what differs, and how far."""
        checks = {"": check} | {name: found for name, found in self.gradients.items() if not found.matches}
        if not all(np.isfinite(each.value).all() for each in each_returned(self.bounds)) and check.matches:
            return NO_NUMBER
        if check.matches:
            del checks[""]
        if all(found.beyond_float32 for found in checks.values()):
            return BEYOND_FLOAT32
        name, fault = worst(checks), BY_HAND if self.compilation.edits else FAULT
        by = "" if name == TOGETHER else f" by {name}"
        of = f"gradients{by}" if name else RESULTS[self.compilation.family]
        if not name and check.each:
            wrong = [str(place) for place, each in enumerate(check.each, 1) if not each.matches]
            of += f", result {' and '.join(wrong)} of {len(check.each)},"
        return f"The {of} differ from the float64 reference{how_far(checks[name])}, so no time is shown. {fault}"

    def description(self, check: Check, device: str) -> dict[str, Any]:
        """The part of a result that every target has: what ran, on what, and whether it was right."""
        right = self.right(check)
        return {
            "matches_reference": right,
            **check.to_json(),
            "rows_checked": check.rows,
            "rounding": self.rounding,
            "reference_on": "gpu" if each_returned(self.bounds)[0].computed_on == "cuda" else "cpu",
            "message": "" if right else self.why_not(check),
            "gradients": {name: found.to_json() for name, found in self.gradients.items()},
            "name": self.compilation.name,
            "family": self.compilation.family,
            "target": self.request.on,
            "device": device,
            "source": TARGETS[self.request.on].source,
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "rows": check.rows if self.sample is None else self.sample.of,
            "sampled": None if self.sample is None else self.sample.to_json(),
            "seed": self.request.seed,
            "sizes": dict(self.compilation.sizes),
            "sizes_from": dict(self.sizes_from or sources(self.request, self.compilation)),
            "options": self.compilation.options.to_json(),
            "edited": [edit.stage for edit in self.compilation.edits],
            **self.describe(check),
        }


def attempt(request: ModelRequest, counts: Mapping[str, int] | None = None, counted_on: str = "") -> Compilation:
    """The request's model, its costs counted on a graph of these sizes, and of its stages those that are asked for.

    The latest models are kept without a schedule and without machine code: of another schedule only what it changes is
    made."""
    key = _key(request, counts, counted_on)
    found = _LATEST.pop(key, None) or _compiled(request, counts, counted_on)
    _LATEST[key] = found
    if len(_LATEST) > MOST_KEPT:
        del _LATEST[next(iter(_LATEST))]
    if not found.ok:
        return found
    try:
        return found.with_schedule(request.schedule).with_edited(request.edited)
    except ScheduleTextError as error:
        return replace(found, stages={}, operations=(), diagnostics=(Diagnostic(message=str(error), span=None),))


def _key(request: ModelRequest, counts: Mapping[str, int] | None, counted_on: str) -> tuple[str, str]:
    sizes = {**request.default_sizes, **request.sizes}
    given = (sorted(sizes.items()), sorted(request.options.items()), request.name, counts, counted_on)
    return request.text, repr(given)  # 1 and True are equal, but not as options


def _compiled(request: ModelRequest, counts: Mapping[str, int] | None, counted_on: str) -> Compilation:
    """The request's model; where it was just read to find out what it is, it is not read again for its data."""
    plain = None if counts is None else _LATEST.get(_key(request, None, ""))
    if counts is not None and plain is not None and plain.ok:
        with suppress(CountError):  # which is a diagnostic below
            return plain.with_counts(counts, counted_on)
    return compiling.compile(
        request.text,
        sizes={**request.default_sizes, **request.sizes},
        options=request.options,
        name=request.name,
        counts=counts,
        counted_on=counted_on,
        on_demand=True,
        kept=_NESTS,
    )


_LATEST: dict[tuple[str, str], Compilation] = {}
MOST_KEPT = 4
_NESTS = Kept[Any](most_keys=64)
"""Of the texts that were compiled last: who types changes a nest or two of ten."""
"""A text for its data, once without it, and as much again for side A of a comparison."""


def compile_request(
    request: ModelRequest, counts: Mapping[str, int] | None = None, counted_on: str = ""
) -> Compilation:
    """The same of a request that must be a model. Raises Refused."""
    compilation = attempt(request, counts, counted_on)
    if not compilation.ok:
        diagnostics = [diagnostic.to_json(request.text) for diagnostic in compilation.diagnostics]
        first = diagnostics[0]["message"] if diagnostics else "it has no definition to run"
        more = f" (and {len(diagnostics) - 1} more)" if len(diagnostics) > 1 else ""
        said = f"The model does not compile: {first}{more}"
        said += "" if said.endswith("?") else "."
        raise Refused(failed("error", said, "Correct the model.", diagnostics))
    return compilation


def sources(request: ModelRequest, compilation: Compilation) -> dict[str, str]:
    """By dim whether the request gives its size or the text does."""
    given = {**request.default_sizes, **request.sizes}
    return {dim: GIVEN if dim in given else OF_TEXT for dim in compilation.sizes}


def how_far(check: Check) -> str:
    """How far a result is from what it must be, to stand behind "differ"."""
    if check.drifts and check.ratio <= 1:
        times = check.root / (check.plain_root or np.inf)
        return f" by {times:.3g} times what float32 makes plainly, in the root mean square"
    if not np.isfinite(check.ratio):
        return ", where they are no numbers or no zeros"
    return f" by up to {check.ratio:.3g} times what rounding may make"


def coarser(compilation: Compilation, on: TargetName) -> float:
    """How much coarser than float32 the target's products are: only a GPU's may be, where its kernels say so."""
    return coarser_of(compilation.stages["kernels"].program) if on == "gpu" else 1.0


def meaning_of(
    request: RunRequest, compilation: Compilation, inputs: Mapping[str, Any], negatives: str = "none"
) -> Meaning:
    """A run's model on inputs as the reference takes them, which may be computed on the GPU that the run is on."""
    coarse, device = coarser(compilation, request.on), "cuda" if request.on == "gpu" else ""
    return Meaning(request.text, inputs, compilation.sizes, compilation.name, negatives, coarse, device=device)


MOST_MEANING_BYTES = 96 << 20
_ARITHMETICS = (BOUNDED, FLOAT32, ONE_BY_ONE, UNFLUSHED)
_MEANINGS = ByContent[Any](MOST_MEANING_BYTES, lambda result: sum(map(_bytes_of, each_returned(result))))
"""The results of the latest models on their data, as the reference has them."""


def result_of(meaning: Meaning, arithmetic: Arithmetic = BOUNDED) -> Any:
    """What a model must give, computed once for texts that say the same on the same inputs: runs at another level, on
    another target, or of whoever else has this model have it too. What a device computes takes no longer than to see
    whether it is known."""
    if meaning.device or arithmetic not in _ARITHMETICS:
        return meaning.result(arithmetic)
    said = said_to_mean(meaning.text, meaning.name)
    given = (said, meaning.inputs, meaning.sizes, meaning.negatives, meaning.coarser)
    key = content(given, meaning.rows, _ARITHMETICS.index(arithmetic))
    return _MEANINGS.made(key, lambda: meaning.result(arithmetic))


def _bytes_of(result: Any) -> int:
    parts = (result.value, result.own, result.shared) if isinstance(result, Bounded) else (result,)
    return 64 + sum(np.asarray(part).nbytes for part in parts)


def worse(one: Check, other: Check) -> Check:
    """The check that is wrong, or the one with the larger error."""
    return max(one, other, key=lambda check: (not check.matches, check.ratio))


def sentence(error: Exception) -> str:
    """An error's message with a capital, unless it begins with a file's name, and a full stop."""
    text = str(error)
    if text.split(" ")[0].isalpha():
        text = text[:1].upper() + text[1:]
    return text if text.endswith(".") else text + "."
