"""What the page fetches when a reader asks for it: the tour, the papers' figures, models imported from PyTorch,
the sheet of the language, the meaning of its words."""

from __future__ import annotations

import json

from fastapi import APIRouter, Depends, HTTPException, Request
from fastapi.responses import HTMLResponse, Response

from explorer.web.guide import language, papers, tour, words
from explorer.web.guide.imported import imported
from explorer.web.instructor.students import members_only
from explorer.web.panes.highlight import highlight
from explorer.web.templates.environment import TEMPLATES

router = APIRouter(include_in_schema=False, dependencies=[Depends(members_only)])

FOR_GOOD = "public, max-age=31536000, immutable"


@router.get("/guide/words")
async def all_words(v: str = "") -> Response:
    """What passes, options and words mean; under the address with its version it may be kept for good."""
    kept = FOR_GOOD if v == words.version() else "no-cache"
    return Response(words.as_json(), media_type="application/json", headers={"Cache-Control": kept})


@router.get("/guide/tour")
async def all_stops() -> Response:
    """The stops of the tour."""
    stops = [stop.to_json() for stop in tour.STOPS]
    return Response(json.dumps(stops), media_type="application/json", headers={"Cache-Control": "no-cache"})


@router.get("/guide/papers", response_class=HTMLResponse)
async def all_figures(request: Request) -> HTMLResponse:
    """The papers' figures, with links to the page as it stands for each."""
    return TEMPLATES.TemplateResponse(request, "guide/papers.html", {"gallery": papers.GALLERY})


@router.get("/guide/imported", response_class=HTMLResponse)
async def all_imported(request: Request) -> HTMLResponse:
    """The models that were imported from PyTorch."""
    return TEMPLATES.TemplateResponse(request, "guide/imported.html", {"imported": imported()})


@router.get("/guide/imported/{name}", response_class=HTMLResponse)
async def imported_source(request: Request, name: str) -> HTMLResponse:
    """The source of one, each line with those of the text that compute what it asks for."""
    found = next((each for each in imported() if each.example.name == name), None)
    if found is None:
        raise HTTPException(404, "No model of that name was imported.")
    lines = list(zip(highlight("python", found.source.rstrip("\n")), found.links(), strict=True))
    context = {"name": name, "text": found.example.text, "lines": lines}
    return TEMPLATES.TemplateResponse(request, "guide/source.html", context)


@router.get("/guide/language", response_class=HTMLResponse)
async def language_sheet(request: Request) -> HTMLResponse:
    """The language on one screen."""
    snippets = [(snippet, highlight("model", snippet.text.rstrip("\n"))) for snippet in language.SNIPPETS]
    context = {"snippets": snippets, "functions": language.functions(), "sets": language.SETS, "words": words.WORDS}
    return TEMPLATES.TemplateResponse(request, "guide/language.html", context)


TEMPLATES.env.globals.update(key_of=tour.key_of, menu=tour.menu, words_version=words.version)
