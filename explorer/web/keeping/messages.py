"""What the store's part of the API takes and answers."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from explorer.store.store import Item
from explorer.web import messages
from explorer.web.panes.views import Choices, PaneState


class ShareMessage(BaseModel):
    """The body of `POST /api/share`: a text, and what the page shows of it."""

    model_config = ConfigDict(strict=True, extra="forbid")

    text: str
    sizes: messages.Sizes = {}
    default_sizes: messages.Sizes = {}
    options: messages.Options = {}
    schedule: messages.Schedule = {}
    edited: messages.Edited = {}
    data: messages.Name = ""
    panes: Annotated[list[PaneState], Field(max_length=6)] = []
    against: Choices | None = None
    story: Annotated[int, Field(ge=0)] | None = None
    example: Annotated[str, Field(max_length=200)] = ""
    heat: bool = False
    layout: Annotated[dict[messages.Name, Annotated[list[int], Field(max_length=6)]], Field(max_length=12)] = {}


class Shared(BaseModel):
    """A link: its id, and its path on this server."""

    id: str
    path: str


class Entry(BaseModel):
    """A text of a student's history, or a run: when, in seconds since 1970, and what became of a run."""

    id: str
    at: float
    state: str
    text: str
    body: dict[str, Any]

    @classmethod
    def of(cls, item: Item) -> Entry:
        """An item as it is answered."""
        return cls(id=item.id, at=item.at, state=item.state, text=item.text, body=item.body)


class Entries(BaseModel):
    """Those of a student, the newest first."""

    entries: list[Entry]


def settings_of(shared: ShareMessage) -> dict[str, Any]:
    """What a link keeps beside its text."""
    return shared.model_dump(exclude={"text"})


def as_kept(link: Item) -> dict[str, Any]:
    """A link as the page keeps a text with its settings in its address."""
    settings = {name: value for name, value in link.body.items() if name != "default_sizes"}
    return {**settings, "text": link.text, "defaultSizes": link.body["default_sizes"]}
