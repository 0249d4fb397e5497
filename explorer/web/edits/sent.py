"""The edit that the page sends: a form with a text and how the reader looks at it, which all routes of pieces read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from fastapi import Depends, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from explorer.compiler.decisions import Value
from explorer.web import messages
from explorer.web.panes import views

MOST_PANES = 6
_read_sizes = TypeAdapter(messages.Sizes)
_read_schedule = TypeAdapter(messages.Schedule)
_read_edited = TypeAdapter(messages.Edited)
_read_options = TypeAdapter(messages.Options)
_read_panes = TypeAdapter(list[views.PaneState])
_read_shown = TypeAdapter(list[list[str]])
_read_against = TypeAdapter(views.Choices | None)


@dataclass(frozen=True)
class Edit:
    """What the page sends: a text under its sequence number, and how the reader looks at it.

    `good` is the newest edit that compiled, whose stages stay on show while a newer one does not; `against` are the
    choices of the side A that this edit, as B, is compared with. `schedule` is what to choose for kernels, of which
    `good_schedule` holds where that is refused. `sizes` were set since the data was chosen,
    and hold over what that fixes; `default_sizes` were set before, and hold where it fixes nothing.
    """

    text: str
    number: int
    good: int
    sizes: dict[str, int]
    options: dict[str, str | int | bool]
    panes: tuple[views.PaneState, ...]
    data: str  # what a layer or an op is compiled for and runs on
    against: views.Choices | None = None
    shown: tuple[tuple[str, ...], ...] = ()  # by pane the versions of the texts that the page has there
    default_sizes: Mapping[str, int] = field(default_factory=dict)
    schedule: Mapping[str, Value] = field(default_factory=dict)
    good_schedule: Mapping[str, Value] = field(default_factory=dict)
    edited: Mapping[str, str] = field(default_factory=dict)  # texts of stages in the place of the compiler's
    on: str = ""  # the target that the reader runs on


class Form(BaseModel):
    """The fields of the form, most of them JSON."""

    edit: int = Field(ge=0)
    text: str = ""
    good: int = Field(default=0, ge=0)
    sizes: str = "{}"
    options: str = "{}"
    panes: str = "[]"
    data: str = Field(default="", max_length=200)
    against: str = "null"
    default_sizes: str = "{}"
    schedule: str = "{}"
    good_schedule: str = "{}"
    edited: str = "{}"
    shown: str = Field(default="[]", max_length=2_000)
    on: str = Field(default="", max_length=20)


async def read_edit(request: Request) -> Edit:
    """The form as an edit. Raises 422 where a field is not what the page would send."""
    try:
        # An empty field is as none; of one that is sent twice the last holds.
        form = Form.model_validate({name: value for name, value in (await request.form()).items() if value})
    except ValidationError as error:
        raise RequestValidationError(error.errors(include_url=False)) from None
    try:
        return Edit(
            # A form ends its lines with CR LF; the language counts them once.
            form.text.replace("\r\n", "\n"),
            form.edit,
            form.good,
            _read_sizes.validate_json(form.sizes, strict=True),
            _read_options.validate_json(form.options, strict=True),
            tuple(_read_panes.validate_json(form.panes)[:MOST_PANES]),
            form.data,
            _read_against.validate_json(form.against, strict=True),
            tuple(map(tuple, _read_shown.validate_json(form.shown, strict=True))),
            _read_sizes.validate_json(form.default_sizes, strict=True),
            _read_schedule.validate_json(form.schedule, strict=True),
            _read_schedule.validate_json(form.good_schedule, strict=True),
            _read_edited.validate_json(form.edited, strict=True),
            form.on,
        )
    except ValidationError as error:
        raise HTTPException(422, str(error.errors(include_url=False, include_input=False)[0]["msg"])) from None


SentEdit = Annotated[Edit, Depends(read_edit)]
