"""What passes over the WebSocket `/ws`, and line by line as the answer to a run: orders in, events out."""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, TypeAdapter

from explorer.runtime.runs.events import FailureKind, Metric, TrialStatus
from explorer.runtime.targets.table import Source, TargetName
from explorer.web import limits
from explorer.web.description.answers import (
    Answer,
    Chosen,
    Chosens,
    Count,
    Diagnostic,
    Milliseconds,
    ReplayedFigures,
    RunFigures,
)
from explorer.web.messages import CancelOrder, ResumeOrder, RunOrder

DIALECT = "https://json-schema.org/draft/2020-12/schema"


class Event(Answer):
    """What is said of a run: over a WebSocket with the `run` and `edit` of its order, where that could be understood,
    and, where a queue keeps the run, the `at` that a `resume` gives back."""

    run: int = 0
    edit: int = 0
    at: str = ""


class Queued(Event):
    """The run waits behind `position` - 1 others."""

    event: Literal["queued"]
    position: Annotated[int, Field(ge=0)]
    message: str


class Started(Event):
    """Work has begun."""

    event: Literal["started"]
    target: TargetName
    device: str
    source: Source


class Progress(Event):
    """`done` of `total` steps of `what`."""

    event: Literal["progress"]
    what: str
    done: int
    total: int


class Repeated(Event):
    """The run begins anew: what was said of it before counts no more."""

    event: Literal["repeated"]
    message: str


class TimedSample(Event):
    """The time of one repeat, or of one `of` a peer."""

    event: Literal["sample"]
    index: int
    ms: Milliseconds
    of: str = ""


class MachineSample(Event):
    """The simulated machine's state at one cycle: its queue, and the share of time that its units worked and waited."""

    model_config = ConfigDict(extra="allow")

    event: Literal["sample"]
    cycle: float


class Gene(Answer):
    """What a search varies: an option of the model, a decision of a kernel, or a parameter of the machine."""

    key: str
    values: list[Chosen]
    usual: Chosen | None


class Space(Event):
    """What a search chooses from, and how many trials it may take. `by` says what predicts the points, or why nothing
    does; `expected` is what random search is expected to have after each trial, by these predictions, as shares of the
    usual point, which comes first. `part` is what trials are on, where that is not all of the data."""

    event: Literal["space"]
    points: Count
    genes: list[Gene]
    metric: Metric
    source: Source
    predicted: bool
    expected: list[Annotated[float, Field(ge=0, le=1)]] | None
    by: str
    budget: Count
    part: str


class Trial(Event):
    """A point that a search has tried; the first, of number 0, is the usual one. Without a `value` it cannot be chosen,
    which its `note` says why. `best` is the best value until then. What was not `searched` was tried for what is said
    of the best."""

    event: Literal["trial"]
    number: Count
    choices: Chosens
    value: Annotated[float, Field(ge=0)] | None
    predicted: Annotated[float, Field(ge=0)] | None
    status: TrialStatus
    note: str
    searched: bool
    best: Annotated[float, Field(ge=0)]


class Result(RunFigures):
    """The run's result; its last event, or `failed` is."""

    event: Literal["result"]
    run: int = 0
    edit: int = 0
    at: str = ""
    repeated: bool = False


class ReplayedResult(ReplayedFigures):
    """The last event of a search of a recorded space."""

    event: Literal["result"]
    run: int = 0
    edit: int = 0
    at: str = ""
    repeated: bool = False


class Failed(Event):
    """Why there is no result, and what to do; or why a message was no order."""

    event: Literal["failed"]
    kind: FailureKind
    message: str
    hint: str
    diagnostics: list[Diagnostic] = Field(default_factory=list)
    repeated: bool = False


class Sent(Answer):
    """A text that the instructor offers, at `/class/sent/` and its number."""

    number: int
    name: str


class Assigned(Answer):
    """An assignment, whose text is at `/class/assignment/` and its number."""

    number: int
    title: str


class Locked(Answer):
    """What may not be used until the assignment is over."""

    options: list[str]
    stages: list[str]


class ClassNotice(Answer):
    """What is new in the class; of no run."""

    event: Literal["class"]
    paused: bool
    sent: Sent | None
    assignment: Assigned | None
    locked: Locked


Order = Annotated[RunOrder | ResumeOrder | CancelOrder, Field(discriminator="type")]
AnyResult = Result | ReplayedResult
AnyEvent = Queued | Started | Progress | Repeated | TimedSample | MachineSample | Space | Trial | AnyResult | Failed
PageEvent = AnyEvent | ClassNotice


@cache
def messages() -> dict[str, Any]:
    """The JSON Schema of what passes over `/ws`: an order from a page, or an event from the server."""
    kinds = [("orders", "validation", TypeAdapter(Order)), ("events", "validation", TypeAdapter(PageEvent))]
    made, shared = TypeAdapter.json_schemas(kinds, ref_template="#/$defs/{model}")  # type: ignore[arg-type]
    orders, events = made["orders", "validation"], made["events", "validation"]
    about = f"A page sends orders, each a text of at most {limits.BODY_BYTES:,} bytes, and is sent events."
    return {
        "$schema": DIALECT,
        "title": "Messages of the WebSocket /ws",
        "description": about,
        "$defs": {**shared["$defs"], "Order": orders, "Event": events},
        "anyOf": [{"$ref": "#/$defs/Order"}, {"$ref": "#/$defs/Event"}],
    }
