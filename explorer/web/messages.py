"""What clients may send, and the sentences that say what is wrong with what they sent."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, ValidationError, WithJsonSchema

from explorer.compiler import decisions, options
from explorer.compiler.edited.reading import EDITABLE
from explorer.compiler.pipeline import STAGES
from explorer.machine.parameters import MachineParameters
from explorer.runtime.targets.table import TargetName
from explorer.runtime.tuning import DEFAULT_TRIALS, FEWEST_TRIALS, MOST_TRIALS, SearchName
from explorer.web import limits

Name = Annotated[str, StringConstraints(max_length=200)]
Text = Annotated[str, StringConstraints(max_length=limits.BODY_BYTES)]
"""A text has less than the body that it comes in; of what is longer than a program may be, the compiler says so."""
StageName = Annotated[Name, WithJsonSchema({"type": "string", "enum": [stage.name for stage in STAGES]})]
Options = Annotated[dict[Name, bool | int | Name], Field(max_length=len(fields(options.Options)))]
"""Of every option one value: what a compilation answers is taken back. The compiler says which names it knows."""
MOST_CHOICES = 2_000
"""Ten times what the largest example has."""
Sizes = dict[Name, int]
"""As many as a text declares: the body's length is their bound."""


Schedule = Annotated[
    dict[Name, bool | Annotated[int, Field(ge=-decisions.LARGEST_VALUE, le=decisions.LARGEST_VALUE)] | Name],
    Field(max_length=MOST_CHOICES),
]
"""Values by kernel and decision. The compiler says which of them it knows."""


def _of_stages(texts: dict[str, str]) -> dict[str, str]:
    """Raises ValueError for a text of what is no stage."""
    known = [stage.name for stage in STAGES]
    for name in texts:
        if name not in known:
            raise ValueError(f"there is no stage '{name}'; there are {', '.join(known)}")
    return texts


Edited = Annotated[dict[StageName, Text], Field(max_length=len(EDITABLE)), AfterValidator(_of_stages)]
"""Texts by stage, in the place of those that the compiler prints; together they have less than the body."""


class _Message(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")


class CompileMessage(_Message):
    """The body of `POST /api/compile`."""

    text: Text
    name: Name | None = None
    sizes: Sizes = {}
    default_sizes: Sizes = {}
    options: Options = {}
    schedule: Schedule = {}
    edited: Edited = {}
    stages: Annotated[list[StageName], Field(max_length=len(STAGES))] | None = None
    data: Name = ""


class Shown(_Message):
    """What a compilation answered and a reader was shown: the digest of the program that the target runs, and the sizes
    and options that it was made of, which say what differs where another one would run."""

    program: Name
    sizes: Sizes = {}
    options: Options = {}


class Side(_Message):
    """Side A of a comparison, whose side B is the run: the same text and data, and what else was chosen. `compiled` as
    in a run."""

    sizes: Sizes = {}
    options: Options = {}
    schedule: Schedule = {}
    compiled: Shown | None = None


class TuneMessage(_Message):
    """That a run is a search for what is faster: how many points it may try, which search says which, and the seed of
    what that draws. With `replay` a recorded space of that name is searched, whatever the text is."""

    trials: Annotated[int, Field(ge=FEWEST_TRIALS, le=MOST_TRIALS)] = DEFAULT_TRIALS
    search: SearchName = "guided"
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 0
    replay: Name = ""


class RunMessage(_Message):
    """The body of `POST /api/run`, and what a `run` message on the WebSocket adds to its own two fields."""

    text: Text
    on: TargetName
    name: Name | None = None
    sizes: Sizes = {}
    default_sizes: Sizes = {}
    options: Options = {}
    schedule: Schedule = {}
    edited: Edited = {}
    data: Name = "FB15k-237"
    compiled: Shown | None = None
    batch: Annotated[int, Field(ge=1, le=limits.MAX_BATCH)] = 1_024
    repeat: Annotated[int, Field(ge=1, le=limits.MAX_REPEAT)] = 20
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 0
    machine: Annotated[dict[Name, int | float], Field(max_length=len(fields(MachineParameters)))] = {}
    peers: bool | None = None
    torch_compile: bool = False
    against: Side | None = None
    tune: TuneMessage | None = None


class RunOrder(RunMessage):
    """WebSocket: run a model. `run` names the run in what comes back, `edit` the text's sequence number."""

    type: Literal["run"]
    run: int
    edit: int = 0


class ResumeOrder(_Message):
    """WebSocket: go on with a run that a queue has kept, after the event that came with this `at`."""

    type: Literal["resume"]
    run: int
    edit: int = 0
    at: Name


class HandInMessage(_Message):
    """The body of `POST /class/hand-in`: a text with its settings, for the assignment of a number."""

    assignment: int
    name: Annotated[str, StringConstraints(max_length=limits.NAME_LENGTH)] = ""
    text: Text
    sizes: Sizes = {}
    default_sizes: Sizes = {}
    options: Options = {}
    schedule: Schedule = {}
    data: Name = ""


class CancelOrder(_Message):
    """WebSocket: stop a run."""

    type: Literal["cancel"]
    run: int


class MessageError(Exception):
    """A message cannot be understood; the text is a sentence for whoever wrote the client."""


M = TypeVar("M", bound=BaseModel)


def parse_body(body: bytes, kind: type[M]) -> M:
    """A request's JSON body as a message. Raises MessageError."""
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise MessageError(
            f"The request is not UTF-8 text: byte 0x{body[error.start]:02x} at offset {error.start}."
        ) from None
    return parse_fields(_load(text), kind)


def parse_order(text: str) -> RunOrder | ResumeOrder | CancelOrder:
    """A WebSocket message. Raises MessageError."""
    fields = _load(text)
    kind = fields.get("type")
    if kind == "run":
        return parse_fields(fields, RunOrder)
    if kind == "cancel":
        return parse_fields(fields, CancelOrder)
    if kind == "resume":
        return parse_fields(fields, ResumeOrder)
    raise MessageError("A message's 'type' is either 'run', 'resume' or 'cancel'.")


def parse_fields(fields: dict[str, Any], kind: type[M]) -> M:
    """Checked fields as a message. Raises MessageError."""
    try:
        return kind.model_validate(fields)
    except ValidationError as error:
        raise MessageError(_sentence(error)) from None


def _load(text: str) -> dict[str, Any]:
    try:
        fields = json.loads(text)
        json.dumps(fields, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        raise MessageError("The request holds half of a surrogate pair, which is no text.") from None
    except RecursionError:
        raise MessageError("The request's JSON is nested too deeply.") from None
    except ValueError as error:
        raise MessageError(f"The request is not JSON: {error}.") from None
    if not isinstance(fields, dict):
        raise MessageError("The request is not a JSON object.")
    return fields


def _sentence(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    where = ".".join(str(part) for part in first["loc"])[:100]
    what = first["msg"][:1].lower() + first["msg"][1:]
    return f"The field '{where}' is wrong: {what}."
