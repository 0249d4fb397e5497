"""What the JSON API answers. These models describe: workers make the JSON itself, which nobody reads a second time; the
tests hold it against them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from explorer.runtime.runs.events import FailureKind, Metric
from explorer.web import limits

Chosen = bool | int | str
Chosens = dict[str, Chosen]
Share = Annotated[float, Field(ge=0, le=1)]
Milliseconds = Annotated[float, Field(ge=0)]
Count = Annotated[int, Field(ge=0)]


class Answer(BaseModel):
    """What has these fields and no others."""

    model_config = ConfigDict(extra="forbid")


class Place(Answer):
    """A part of the text, by lines and columns from 1; null where it is none of the text's."""

    line: int | None
    column: int | None
    end_line: int | None
    end_column: int | None


class Fix(Place):
    """What would mend a problem: the text of a place, replaced."""

    label: str
    replacement: str


class Diagnostic(Place):
    """What is wrong with a text or a request, `source` being the line that it stands in."""

    message: str
    detail: str
    source: str
    fixes: list[Fix]
    severity: str


class Refusal(Answer):
    """A request that was not done: its diagnostics say why, in sentences."""

    ok: Literal[False]
    diagnostics: Annotated[list[Diagnostic], Field(min_length=1)]
    operations: Annotated[list[Any], Field(max_length=0)]
    stages: Annotated[list[Any], Field(max_length=0)]
    data: Literal[""]
    sizes_from: Annotated[dict[str, str], Field(max_length=0)]


class Operation(Place):
    """An operation of the text that is computed; `work` counts floating-point operations by the set that they are done
    for each row of."""

    id: Count
    label: str
    extent: Place
    op: str
    value: str
    depends: list[str]
    work: dict[str, int]


class Line(Answer):
    """A line of a stage; `origin` is a place in the stage's table of origins."""

    text: str
    unit: str
    origin: Count


class Made(Answer):
    """What a pass made for several operations."""

    name: str
    by: str


class Origin(Answer):
    """Where lines come from: operations by id, and parts of the text as line, column, end line, end column."""

    operations: list[int]
    made: Made | None
    spans: list[Annotated[list[int], Field(min_length=4, max_length=4)]]


class Effect(Answer):
    """A figure that a pass changed; `before` is null where what it read has no such figure."""

    what: str
    before: Count | None
    after: Count


class KernelFigure(Answer):
    """A figure of a kernel; null where that was not there before or is not after."""

    what: str
    before: Count | None
    after: Count | None


class KernelEffect(Answer):
    """What a pass changed of one kernel."""

    kernel: str
    figures: list[KernelFigure]


class PassReport(Answer):
    """What a pass did, in one `summary` and as what it `said` sentence by sentence, and its effect in figures; why it
    did not, which options it looked at, and the lines before and after it."""

    name: str
    changed: bool
    ms: Milliseconds
    summary: str
    said: list[str]
    effect: list[Effect] = []
    by_kernel: list[KernelEffect] = []
    refusals: list[str]
    heeded: list[str]
    before: list[Line] = []
    after: list[Line] = []


class Resources(Answer):
    """What a kernel takes of a GPU."""

    kernel: str
    arch: str
    registers: Count
    shared_bytes: Count
    stack_bytes: Count
    spill_store_bytes: Count
    spill_load_bytes: Count
    block_threads: Count
    occupancy_warps: Count
    occupancy_blocks: Count
    most_warps: Count
    limited_by: list[str]
    text: str


class Decision(Answer):
    """What may be chosen for a kernel: the value that it has, the usual one, all that fit, what was asked for, and why
    that was refused."""

    kernel: str
    name: str
    value: Chosen
    usual: Chosen
    values: list[Chosen]
    asked: Chosen | None
    refused: str
    why: str
    source: str


class Nest(Answer):
    """A loop nest, the kernels that are made of it, and what may be chosen for them."""

    name: str
    kernels: list[str]
    digest: str
    decisions: list[Decision]


class Stage(Answer):
    """A stage of a compilation; where it is not `available`, `reason` says why. `edited` is one whose text was given,
    and `fork` the edited stage that this one is or is made of, "" for what is the compiler's own."""

    name: str
    title: str
    ms: Milliseconds
    available: bool
    stopped: bool
    edited: bool
    fork: str
    reason: str
    text: str
    digest: str
    lines: list[Line]
    passes: list[PassReport]
    origins: list[Origin]
    resources: list[Resources]
    nests: list[Nest] = []
    unasked: Chosens = {}


class Difference(Answer):
    """The first value that is not the reference's; null for what is no number."""

    output: str
    index: list[int]
    expected: float | None
    got: float | None


class EditedStage(Answer):
    """What was found of a stage's text that was given: the same as the compiler's, refused at a line and a column,
    wrong at a value, or matching the reference on so many small `inputs`, which proves nothing of others. `lines` are
    the operations of the text's lines, those of unchanged lines as the compiler has them."""

    stage: str
    status: Literal["same", "matches", "wrong", "refused"]
    message: str
    line: int
    column: int
    changed: int
    operation: int | None
    lines: list[int | None]
    inputs: int
    max_relative_error: float | None
    difference: Difference | None
    ms: Milliseconds


class Counted(Answer):
    """What bytes and operations are counted for: its name, and its rows by index set; of a score, one triple."""

    on: str
    rows: dict[str, Count]


class Compilation(Answer):
    """A text compiled; without `ok` it is no model, and its diagnostics say why. `stopped` names the stage that took
    more than it may, `sizes_from` says of each dim where its size is from."""

    ok: bool
    name: str
    family: Literal["", "score", "layer", "op"]
    sizes: dict[str, int]
    options: Chosens
    schedule: Chosens
    edited: list[EditedStage]
    counted: Counted
    ms: Milliseconds
    first: bool
    stopped: str
    diagnostics: list[Diagnostic]
    operations: list[Operation]
    stages: list[Stage]
    data: str
    sizes_from: dict[str, str]


class RunFailure(Answer):
    """Why there is no result of a run, and what to do."""

    ok: Literal[False]
    kind: FailureKind
    message: str
    hint: str
    diagnostics: Annotated[list[Diagnostic], Field(min_length=1)]
    repeated: bool = False


class Checked(BaseModel):
    """How far what was computed is from the float64 reference, in bounds on rounding; null where it is no number."""

    error_over_bound: float | None
    root_mean_square: float | None
    plain_root_mean_square: float | None
    max_relative_error: float | None


class Rounding(BaseModel):
    """What tensors that are stored in 16 bits change of the result, as a share of it, against tables of float32; null
    where that is no number."""

    tensors: dict[str, str]
    root_mean_square: float | None


class Tuned(Answer):
    """What a search has found: the value of the usual point and of the one that was chosen, how many times as fast that
    is, the `choices` that differ in it, those of `options` and of the `machine` apart, and why it was chosen. Where any
    differ, the `schedule` has all decisions that were chosen from, so that the heuristics choose none of them. `kept`
    is what later runs on this computer use."""

    usual: Annotated[float, Field(ge=0)]
    best: Annotated[float, Field(ge=0)]
    gain: Annotated[float, Field(ge=1)]
    metric: Metric
    choices: Chosens
    options: Chosens
    schedule: Chosens
    machine: dict[str, int | float]
    why: list[str]
    trials: Count
    points: Count
    kept: bool
    part: str


class RunFigures(Checked):
    """What a run came to: what ran, whether it was right, and its times; of several `results` how far each is from
    the reference, where the figures without a name are those of the worst. Which further figures there are depends on
    the target, the family and the data."""

    model_config = ConfigDict(extra="allow")

    matches_reference: bool
    message: str
    results: list[Checked] | None = None
    rows_checked: Count
    rounding: Rounding | None = None
    reference_on: Literal["cpu", "gpu"]
    rows: Count
    gradients: dict[str, Checked]
    name: str
    family: Literal["score", "layer", "op"]
    target: Literal["cpu", "dae", "gpu"]
    device: str
    source: str
    date: str
    seed: Count
    sizes: dict[str, int]
    sizes_from: dict[str, str]
    options: Chosens
    tuned: Tuned | None = None


class ReplayedFigures(Answer):
    """What a search of a recorded space came to, of which nothing ran: the recording's name, its device and date, the
    text, sizes and options that it is of."""

    matches_reference: Literal[True]
    message: str
    name: str
    target: Literal["recording"]
    device: str
    source: Literal["replayed"]
    date: str
    sizes: dict[str, int]
    options: Chosens
    text: str
    tuned: Tuned


class ReplayedResult(ReplayedFigures):
    """What a search of a recorded space came to."""

    ok: Literal[True]
    repeated: bool = False


class RunResult(RunFigures):
    """A run's result, as `explorer run --json` prints it."""

    ok: Literal[True]
    repeated: bool = False


class StageInfo(Answer):
    """A stage of the pipeline, and which targets run its program."""

    name: str
    title: str
    summary: str
    source: str
    targets: list[str]


class ExampleInfo(Answer):
    """An example model."""

    name: str
    folder: str
    text: str


class DataInfo(Answer):
    """A data set: triples for scores, a graph for layers, or lists for the kind of ops that `for` names."""

    model_config = ConfigDict(extra="allow")

    name: str
    label: str
    generated: bool
    """Whether it is drawn at random, to sizes that are published."""


class DroppedInfo(Answer):
    """A file that was dropped: its `name` for runs, what its student calls it, and by family its entry in the list."""

    name: str
    label: str
    offers: dict[Literal["score", "layer", "op"], DataInfo]


class ReuseDistances(Answer):
    """The share of `accesses` whose row was picked before, with at most `x` other rows since: a distribution."""

    accesses: Count
    distinct: Count
    first_accesses: Share
    within_1000: Share
    x: list[Count]
    share: list[Share]


class Health(Answer):
    """The server answers; `warm` says whether a process for runs is there."""

    status: Literal["ok"]
    warm: bool


class Readiness(Answer):
    """Whether to send work here."""

    status: Literal["ready", "starting", "stopping"]
    store: str = ""
    """What is wrong with the store, or "ok"; not there where there is no store."""


Responses = dict[int | str, dict[str, Any]]


def refused(status: int, when: str) -> Responses:
    """A status that means that nothing was done, and when that is."""
    return {status: {"model": Refusal, "description": when}}


ELSEWHERE = refused(403, "The request is for a name that this server does not go by, or from a page of another site.")
"""What every route may answer; those that take a body also what follows."""
BODIES = {
    **ELSEWHERE,
    **refused(408, f"The body took more than {limits.BODY_SECONDS:.0f} s to arrive."),
    **refused(413, f"The body has more than {limits.BODY_BYTES:,} bytes."),
}
LEFT: Responses = {499: {"description": "The client went away; nobody reads this."}}
