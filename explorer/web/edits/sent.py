"""The edit that the page sends: a form with a text and how the reader looks at it, which all routes of pieces read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from fastapi import Depends, Form, HTTPException
from pydantic import TypeAdapter, ValidationError

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


async def read_edit(
    edit: Annotated[int, Form(ge=0)],
    text: Annotated[str, Form()] = "",
    good: Annotated[int, Form(ge=0)] = 0,
    sizes: Annotated[str, Form()] = "{}",
    options: Annotated[str, Form()] = "{}",
    panes: Annotated[str, Form()] = "[]",
    data: Annotated[str, Form(max_length=200)] = "",
    against: Annotated[str, Form()] = "null",
    default_sizes: Annotated[str, Form()] = "{}",
    schedule: Annotated[str, Form()] = "{}",
    good_schedule: Annotated[str, Form()] = "{}",
    edited: Annotated[str, Form()] = "{}",
    shown: Annotated[str, Form(max_length=2_000)] = "[]",
) -> Edit:
    """The form as an edit. Raises 422 where a field is not what the page would send.

    It waits for nothing: what is not `async` would have a thread for it."""
    try:
        return Edit(
            # A form ends its lines with CR LF; the language counts them once.
            text.replace("\r\n", "\n"),
            edit,
            good,
            _read_sizes.validate_json(sizes, strict=True),
            _read_options.validate_json(options, strict=True),
            tuple(_read_panes.validate_json(panes)[:MOST_PANES]),
            data,
            _read_against.validate_json(against, strict=True),
            tuple(map(tuple, _read_shown.validate_json(shown, strict=True))),
            _read_sizes.validate_json(default_sizes, strict=True),
            _read_schedule.validate_json(schedule, strict=True),
            _read_schedule.validate_json(good_schedule, strict=True),
            _read_edited.validate_json(edited, strict=True),
        )
    except ValidationError as error:
        raise HTTPException(422, str(error.errors(include_url=False, include_input=False)[0]["msg"])) from None


SentEdit = Annotated[Edit, Depends(read_edit)]
