"""The page: rendered here in whole once, then in pieces that htmx swaps.

The pieces are found by id. `POST /compile` answers an edit with everything that it changes, `POST /panes` shows the
last good text in other panes, `POST /late` brings the stages that take too long to make at every keystroke. Where
these two have a first form of such a stage, which its pane says, `POST /best` brings the best one.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from fastapi import APIRouter, Depends, FastAPI, HTTPException, Request
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response

from explorer.compiler.options import Options
from explorer.compiler.pipeline import STAGES
from explorer.runtime.targets.gpu import device as gpu_device
from explorer.store.database import StoreError
from explorer.store.store import Store
from explorer.web import settings
from explorer.web.compiling import Compiled, compile_cached
from explorer.web.edits.sent import MOST_PANES, Edit, SentEdit
from explorer.web.entrance.leaving import while_there
from explorer.web.entrance.students import Students
from explorer.web.examples import Example, examples
from explorer.web.guide.imported import imported
from explorer.web.guide.tour import DEFAULT_EXAMPLE, key_of
from explorer.web.instructor.classroom import Locks
from explorer.web.instructor.students import members_only
from explorer.web.keeping.messages import as_kept
from explorer.web.panes import code, decisions, given, views
from explorer.web.panes.forks import with_edits
from explorer.web.panes.patches import ShownTexts, in_patches
from explorer.web.panes.refusals import refused_by_option
from explorer.web.templates.environment import TEMPLATES, drawn
from explorer.web.templates.opened import OpenedExamples

router = APIRouter(include_in_schema=False, dependencies=[Depends(members_only)])

DEFAULT_PANES = ("graph", "loops", "slc", "cuda")
"""What a wide screen opens with; the page keeps the first two on a narrow one."""
OP_PANES = ("slc", "slc.opt1", "slc.opt2", "slc.opt3", "dlc")
"""The same for an embedding operation: Ember's four levels, and what the machine runs."""


@router.get("/", response_class=HTMLResponse)
async def page(request: Request, example: str = DEFAULT_EXAMPLE) -> HTMLResponse:
    """The whole page, with an example already compiled; 404 and the usual one for an example that there is not."""
    found = _find_example(example)
    return await _page(request, found, f"There is no example {example[:80]}. This is {DEFAULT_EXAMPLE}.")


async def draw_for_nobody(app: FastAPI) -> None:
    """Draw the page once, for what that loads and compiles to be there when somebody comes; and what each option would
    change, which takes a core for seconds and is asked for by the page."""
    nobody = {"type": "http", "scheme": "http", "app": app, "method": "GET", "path": "/", "query_string": b""}
    request = Request({**nobody, "headers": [], "client": ("127.0.0.1", 0)})
    await page(request)
    edit = Edit(_example(DEFAULT_EXAMPLE).text, 1, 1, {}, {}, (), "")
    compiled = await _compile(request, edit, _quick_stages())
    await _compile(request, replace(edit, data=compiled["data"]), [], flips=True)


@router.get("/s/{link}", response_class=HTMLResponse)
async def shared_page(request: Request, link: str) -> HTMLResponse:
    """The page with what a link leads to; 404 and the usual example for one that leads nowhere any more."""
    store: Store | None = request.app.state.keeper.store
    try:
        found = await store.link(link) if store is not None else None
    except StoreError as error:
        return await _page(request, None, f"{error} This is {DEFAULT_EXAMPLE}.", status=503)
    if found is None:
        return await _page(request, None, f"This link leads nowhere any more. This is {DEFAULT_EXAMPLE}.")
    return await _page(request, _example(DEFAULT_EXAMPLE), "", kept=json.dumps(as_kept(found)))


async def _page(
    request: Request, found: Example | None, missing: str, *, kept: str = "", status: int = 404
) -> HTMLResponse:
    """The page with an example, or the usual one and why; its scripts put what is `kept` in the example's place."""
    chosen = found or _example(DEFAULT_EXAMPLE)
    # A difference is asked for, since the answer decides at which pass the first pane has one.
    panes = tuple(views.PaneState(stage=stage, diff=stage == DEFAULT_PANES[0]) for stage in DEFAULT_PANES)
    edit = Edit(chosen.text, 1, 1, {}, {}, panes, "")
    compiled = await _compile(request, edit, _quick_stages())
    if compiled.get("family") == "op":
        edit = replace(edit, panes=tuple(views.PaneState(stage=stage) for stage in OP_PANES))
    else:
        edit = _at_last_change(edit, compiled)
    about = {
        "examples": examples(),
        "example": chosen,
        "kept": kept,
        "notice": "" if found else missing,
    }
    response = await asyncio.to_thread(_opened, request, edit, compiled, about, 200 if found else status)
    students: Students = request.app.state.students
    students.welcome(request, response)
    return response


def _opened(request: Request, edit: Edit, compiled: Compiled, about: Mapping[str, Any], status: int) -> HTMLResponse:
    """The page with an example that is compiled, and what else it says."""
    state = request.app.state
    drawn_once: OpenedExamples = state.opened
    context = drawn_once.context(compiled, lambda: _context(edit, compiled))
    mine = {
        "links": state.keeper.store is not None,
        "dropped_refused": state.dropped.refused,
        "about_seen": request.cookies.get("about") == "seen",
        "panes": _patched(request, "page.html", _without_locked(request, context["panes"]), ()),
    }
    return drawn(request, "page.html", {**context, **about, **mine}, status)


def _at_last_change(edit: Edit, compiled: Compiled) -> Edit:
    """With the first pane at the last pass that changed something there, beside what it was given."""
    first, *others = edit.panes
    at = views.last_change(compiled, first.stage)
    return replace(edit, panes=(first.model_copy(update={"at": at, "diff": at is not None}), *others))


@router.post("/compile", response_class=HTMLResponse)
async def compile_edit(request: Request, edit: SentEdit) -> Response:
    """An edit's stages in the open panes, and all that changes with them; for a broken text only its problems."""
    state = request.app.state
    state.classroom.note_edit(state.students.of(request))
    return await while_there(request, _answer(request, "compiled.html", edit, _prompt_stages(edit)))


@router.post("/panes", response_class=HTMLResponse)
async def show_panes(request: Request, edit: SentEdit) -> Response:
    """The panes for an edit that compiled before, with all its stages: those made late are mostly made by now."""
    return await while_there(request, _answer(request, "panes.html", edit, _all_stages(edit), first=_shows_late(edit)))


@router.post("/late", response_class=HTMLResponse)
async def show_late(request: Request, edit: SentEdit) -> Response:
    """The stages that an edit left for later: their panes, and their share of the counts."""
    return await while_there(request, _answer(request, "late.html", edit, _all_stages(edit), first=_shows_late(edit)))


@router.post("/best", response_class=HTMLResponse)
async def show_best(request: Request, edit: SentEdit) -> Response:
    """The same stages in their best form."""
    return await while_there(request, _answer(request, "late.html", edit, _all_stages(edit)))


@router.post("/rest", response_class=HTMLResponse)
async def show_rest(request: Request, edit: SentEdit) -> Response:
    """The lines of the first pane's text behind those that it shows."""
    return await while_there(request, _answer_rest(request, edit))


async def _answer_rest(request: Request, edit: Edit) -> Response:
    compiled = await _compile(request, edit, _all_stages(edit))
    panes = views.build_panes(compiled, edit.panes[:1], shown=slice(code.MOST_LINES, None)) if compiled["ok"] else ()
    (pane,) = _without_locked(request, panes) or (None,)
    if pane is None or pane.code is None:
        raise HTTPException(404, "This text has no other lines.")
    return await asyncio.to_thread(TEMPLATES.TemplateResponse, request, "rest.html", {"code": pane.code})


@router.post("/effects")
async def show_effects(request: Request, edit: SentEdit) -> Response:
    """By option the stages that its other value would change: what takes a compilation an option, made among the late
    ones."""
    return await while_there(request, _answer_effects(request, edit))


async def _answer_effects(request: Request, edit: Edit) -> Response:
    found = await _compile(request, edit, [], flips=True)
    return JSONResponse({"edit": edit.number, "flips": found.get("flips")})


@router.post("/recordings")
async def show_recordings(request: Request, edit: SentEdit) -> Response:
    """The recorded spaces that are of the model, for where there is no GPU to tune on: a compilation for each."""
    return await while_there(request, _answer_recordings(request, edit))


async def _answer_recordings(request: Request, edit: Edit) -> Response:
    found = await _compile(request, edit, [], recordings=True)
    return JSONResponse({"edit": edit.number, "recordings": found.get("recordings")})


@router.post("/costs", response_class=HTMLResponse)
async def show_costs(request: Request, edit: SentEdit) -> Response:
    """What kernels take that an edit's schedule has changed, beside what they took before, and what all ask memory
    for: fetched at once after a change, apart from the stages that are made late."""
    return await while_there(request, _answer_costs(request, edit))


async def _answer_costs(request: Request, edit: Edit) -> HTMLResponse:
    sides = edit, replace(edit, schedule=edit.good_schedule)
    stages = _prompt_stages(edit)
    compiled, before = [await _compile(request, side, stages) for side in sides]
    context: dict[str, Any] = {"costs": {}, "panes": []}
    if compiled["ok"] and before["ok"]:
        changed = decisions.changed_kernels(compiled, before)
        found = [await _costs(request, side, changed) for side in sides]
        if all(each["ok"] for each in found):
            context["costs"] = decisions.costs(found[0]["costs"], found[1]["costs"])
        else:
            context["costs"] = {kernel: decisions.Cost(reason=_first_problem(found)) for kernel in changed}
        context["panes"] = _with_decisions(views.build_panes(compiled, edit.panes), compiled, {})
    response = TEMPLATES.TemplateResponse(request, "costs.html", context)
    response.headers["X-Edit"] = str(edit.number)
    response.headers["HX-Reswap"] = "none"
    return response


def _first_problem(answers: Iterable[Compiled]) -> str:
    return next(str(answer["diagnostics"][0]["message"]) for answer in answers if not answer["ok"])


@router.get("/examples/{folder}/{name}", response_class=PlainTextResponse)
async def example_text(folder: str, name: str) -> PlainTextResponse:
    """An example's text."""
    return PlainTextResponse(_example(f"{folder}/{name}").text)


def _example(key: str) -> Example:
    example = _find_example(key)
    if example is None:
        raise HTTPException(404, "There is no example of that name.")
    return example


def _find_example(key: str) -> Example | None:
    known = (*examples(), *(each.example for each in imported()))
    return next((example for example in known if key_of(example) == key), None)


async def _costs(request: Request, edit: Edit, kernels: Iterable[str]) -> Compiled:
    """What an edit's kernels cost, those named in registers as well."""
    return await _compile(request, edit, [], costs=tuple(kernels))


async def story_of(request: Request, edit: Edit, operation: int, with_machine_code: bool) -> Compiled:
    """The story of an operation of an edit, through all stages but machine code, or with it."""
    return await _compile(
        request, edit, [spec.name for spec in STAGES] if with_machine_code else _quick_stages(), story=operation
    )


async def heat_of(request: Request, edit: Edit, with_machine_code: bool) -> Compiled:
    """Where the time of an edit goes, by operation, and by line of the machine code where that is asked for."""
    return await _compile(request, edit, [spec.name for spec in STAGES] if with_machine_code else [], heat=True)


async def _compile(
    request: Request,
    edit: Edit,
    stages: Iterable[str],
    first: bool = False,
    costs: tuple[str, ...] | None = None,
    flips: bool = False,
    recordings: bool = False,
    story: int | None = None,
    heat: bool = False,
) -> Compiled:
    """The edit compiled for its data, or for what its family usually runs on where that is data of another family; in
    its `first` form, where that is asked for and the best takes long; with `costs`, in the place of its stages what its
    kernels cost, in registers those named; with `flips`, what each option would change; with `recordings`, which
    recorded spaces are of it; with `story`, that of an operation; with `heat`, where its time goes."""
    locks: Locks = request.app.state.classroom.locks
    stages = locks.open_stages(stages)
    return await compile_cached(
        request.app,
        edit.text,
        sizes=edit.sizes,
        default_sizes=edit.default_sizes,
        options={**_device_options(), **locks.open_options(edit.options)},
        schedule=edit.schedule,
        edited=edit.edited,
        stages=stages,
        snapshots=sorted(views.snapshots(edit.panes)),
        effects=sorted({pane.stage for pane in edit.panes if pane.passes}),
        data=edit.data,
        or_usual=True,
        costs=costs,
        flips=flips,
        recordings=recordings,
        story=story,
        heat=heat,
        first=first,
        session=request.app.state.students.of(request),
    )


def _device_options() -> dict[str, str | int | bool]:
    """Where nobody has chosen, kernels are for the GPU that is here, which runs them."""
    return {} if gpu_device.missing() else {"arch": gpu_device.current_device().compile_for}


def _quick_stages() -> list[str]:
    """The stages that take no longer than an edit may."""
    return [spec.name for spec in STAGES if not spec.on_demand]


def _prompt_stages(edit: Edit) -> list[str]:
    """Of these the ones that are made at once for an edit: all but those that no pane shows and that the reader does
    not run. Where a stage was edited by hand, the rail says of each whether it is made of that."""
    shown = {pane.stage for pane in edit.panes} | views.snapshots(edit.panes)
    shown |= {spec.name for spec in STAGES if edit.on in spec.targets}
    left = set() if edit.edited else {spec.name for spec in STAGES if spec.when_shown and spec.name not in shown}
    return [name for name in _quick_stages() if name not in left]


def _all_stages(edit: Edit) -> list[str]:
    """The same with those made on demand that a pane shows, and what these are made of."""
    shown = {pane.stage for pane in edit.panes}
    made_of = {spec.follows for spec in STAGES if spec.name in shown}
    prompt = _prompt_stages(edit)
    return [spec.name for spec in STAGES if spec.name in prompt or (spec.on_demand and spec.name in shown | made_of)]


def _shows_late(edit: Edit) -> bool:
    """Whether a first form has a pane to be shown in; what is compared is in its best form."""
    shown = {pane.stage for pane in edit.panes}
    return edit.against is None and any(spec.on_demand and spec.name in shown for spec in STAGES)


async def _answer(request: Request, name: str, edit: Edit, stages: list[str], first: bool = False) -> HTMLResponse:
    """A piece of the page for an edit, or its problems; beside side A where the reader compares."""
    edit, compiled, refused = await _compile_what_fits(request, edit, stages, first)
    other, changed = None, []
    if compiled["ok"]:
        if name == "compiled.html":
            _note_text(request, edit)
        changed = await _changed_kernels(request, edit, compiled)
        if edit.against is not None:
            other = await _compile(request, replace(edit, **edit.against.model_dump()), stages)
    # Differences of long texts take seconds: in a thread they leave the loop to others.
    return await asyncio.to_thread(_rendered, request, name, edit, compiled, refused, other, changed)


def _note_text(request: Request, edit: Edit) -> None:
    settings = {"sizes": edit.sizes, "default_sizes": dict(edit.default_sizes), "options": edit.options}
    settings |= {"schedule": dict(edit.schedule), "data": edit.data}
    request.app.state.keeper.note_text(request.app.state.students.of(request), edit.text, settings)


def _rendered(
    request: Request,
    name: str,
    edit: Edit,
    compiled: Compiled,
    refused: dict[str, decisions.Refusal],
    other: Compiled | None,
    changed: list[str],
) -> HTMLResponse:
    if not compiled["ok"]:
        name = "broken.html"
    context = _context(edit, compiled, other if other and other["ok"] else None, refused, changed) | {"swapped": True}
    if compiled["ok"]:
        context["panes"] = _patched(request, name, _without_locked(request, context["panes"]), edit.shown)
    response = TEMPLATES.TemplateResponse(request, name, context)
    response.headers["X-Edit"] = str(edit.number)
    if name in ("broken.html", "late.html"):
        # Only out-of-band pieces: the panes keep what they show.
        response.headers["HX-Reswap"] = "none"
    return response


async def _compile_what_fits(
    request: Request, edit: Edit, stages: list[str], first: bool
) -> tuple[Edit, Compiled, dict[str, decisions.Refusal]]:
    """An edit compiled; where a choice is refused, with what held before it, so that the last good kernel stays, and
    why it was refused."""
    compiled = await _compile(request, edit, stages, first)
    refused = decisions.refusals(compiled)
    if not refused:
        return edit, compiled, {}
    before = {key: edit.good_schedule[key] for key in refused if key in edit.good_schedule}
    fitting = {key: value for key, value in edit.schedule.items() if key not in refused} | before
    edit = replace(edit, schedule=fitting)
    compiled = await _compile(request, edit, stages, first)
    left = decisions.refusals(compiled)  # what held before another choice
    if left:
        edit = replace(edit, schedule={key: value for key, value in fitting.items() if key not in left})
        compiled = await _compile(request, edit, stages, first)
    return edit, compiled, left | refused


async def _changed_kernels(request: Request, edit: Edit, compiled: Compiled) -> list[str]:
    """The kernels that the last change of the schedule has changed."""
    if edit.schedule == edit.good_schedule:
        return []
    before = await _compile(request, replace(edit, schedule=edit.good_schedule), _prompt_stages(edit))
    return decisions.changed_kernels(compiled, before) if before["ok"] else []


def _without_locked(request: Request, panes: Iterable[views.Pane]) -> tuple[views.Pane, ...]:
    """The panes, those of stages that the instructor has locked with a sentence in their place."""
    locks: Locks = request.app.state.classroom.locks
    reason = "The instructor has locked this stage for the assignment."
    return tuple(
        views.Pane(pane.index, pane.state, reason=reason) if pane.state.stage in locks.stages else pane
        for pane in panes
    )


def _patched(
    request: Request, name: str, panes: Iterable[views.Pane], shown: Sequence[Sequence[str]]
) -> tuple[views.Pane, ...]:
    """The panes that a piece of the page has, their texts as what differs from those that the page shows there."""
    texts: ShownTexts = request.app.state.shown_texts
    left_out = set(_quick_stages()) if name == "late.html" else ()
    versions = dict(enumerate(shown))
    return tuple(
        pane if pane.state.stage in left_out else in_patches(pane, versions.get(pane.index, ()), texts)
        for pane in panes
    )


def _with_decisions(
    panes: Iterable[views.Pane], compiled: Compiled, refused: Mapping[str, decisions.Refusal]
) -> tuple[views.Pane, ...]:
    """The panes, those of the kernels with what may be chosen for them."""
    nests, unasked = decisions.table(compiled, refused), decisions.unasked(compiled)
    return tuple(
        replace(pane, nests=nests, unasked=unasked) if decisions.is_of(compiled, pane.state.stage) else pane
        for pane in panes
    )


def _context(
    edit: Edit,
    compiled: Compiled,
    other: Compiled | None = None,
    refused: Mapping[str, decisions.Refusal] | None = None,
    changed: Iterable[str] = (),
) -> dict[str, Any]:
    """What templates show of an edit, its panes beside those of another one where that is given; with the decisions
    that were `refused`, and the kernels that the last one has `changed`."""
    usual = Options().to_json() | _device_options()
    context: dict[str, Any] = {
        "edit": edit,
        "compiled": compiled,
        "facts": json.dumps(_facts(edit, compiled) | {"against": _side(other)}),
        "options": usual | edit.options,
        "usual_options": usual,
    }
    if not compiled["ok"]:
        return context | {
            "panes": _empty_panes(edit),
            "rail": views.build_rail(NOTHING, edit.panes, {}),
            "operations": [],
            "source": None,
        }
    own = views.own_lines(compiled)
    panes = _with_decisions(views.build_panes(compiled, edit.panes, other), compiled, refused or {})
    return context | {
        "kernel_costs": decisions.known_costs(compiled, changed),
        "panes": with_edits(panes, compiled),
        "rail": views.build_rail(compiled, edit.panes, own),
        "operations": views.operation_facts(compiled, own),
        "idle_sizes": settings.idle_sizes(edit.text, compiled),
        "source": views.source_line(edit.text, compiled),
    }


NOTHING: Mapping[str, Any] = {"operations": [], "stages": []}
"""What a text that does not compile has."""


def _empty_panes(edit: Edit) -> tuple[views.Pane, ...]:
    reason = "The model does not compile yet; its problems are listed on the left."
    return tuple(views.Pane(index, state, reason=reason) for index, state in enumerate(edit.panes))


def _side(other: Compiled | None) -> dict[str, Any] | None:
    """What the page's scripts need to know of side A of a comparison, where there is one that compiles."""
    if other is None:
        return None
    return {key: other[key] for key in ("sizes", "options", "schedule")} | {"programs": views.programs(other)}


def _facts(edit: Edit, compiled: Compiled) -> dict[str, Any]:
    """What the page's scripts need to know of a compilation: where things stand in the text."""
    keys = ["ok", "name", "family", "ms", "sizes", "sizes_from", "data"]
    keys += ["options", "schedule", "edited", "diagnostics", "operations"]
    effects = settings.effects(compiled) if compiled["ok"] else {}
    heeded = settings.heeded(compiled) if compiled["ok"] else []
    refused = refused_by_option(compiled) if compiled["ok"] else {}
    own = {"edit": edit.number, "effects": effects, "refused": refused, "heeded": heeded}
    own |= {"lists": views.kind_of_lists(compiled), "programs": views.programs(compiled)}
    return own | {key: compiled[key] for key in keys if key in compiled}


given.give(MOST_PANES)
