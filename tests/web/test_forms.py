"""Two forms of machine code: the first, to look at at once, and the best, which takes its place and is all that counts.

NVRTC itself makes both; where a test needs the best one to be late, it is held back."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Iterator
from html import unescape
from pathlib import Path
from typing import Any

import httpx
import pytest

import explorer
from explorer.compiler.codegen.binary import nvrtc
from explorer.compiler.codegen.text import Code
from explorer.runtime.runs import fitting
from explorer.runtime.runs.fitting import fit
from explorer.runtime.runs.request import ModelRequest
from explorer.web.app import create_app
from explorer.web.compiling import CompileService
from tests.web.held import Held, InThisProcess, hold_best

STAGES = ["cuda", "ptx", "sass"]
HEADERS = {"HX-Request": "true", "origin": "http://testserver"}


@pytest.fixture
def held(tmp_path: Path) -> Iterator[Held]:
    with hold_best(tmp_path) as held:
        yield held


def with_page(test: Callable[[httpx.AsyncClient], Awaitable[None]]) -> None:
    """The app without processes of its own, in one loop for all requests of a test."""

    async def main() -> None:
        app = create_app(hosts=frozenset({"testserver"}))
        app.state.compiler = CompileService(InThisProcess(), 2)
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://testserver", headers=HEADERS) as client:
            await test(client)

    asyncio.run(main())


def transr(root: Path) -> str:
    return (root / "examples" / "kge" / "transr.emb").read_text()


def instructions(stage: Any) -> int:
    return sum("*/" in line.text and "NOP" not in line.text for line in stage.lines)


@pytest.mark.parametrize("name", ["kge/transr", "embedding/spmm"])
def test_the_first_form_has_the_same_kernels_and_its_own_code(root: Path, name: str) -> None:
    best = explorer.compile((root / "examples" / f"{name}.emb").read_text())
    first = best.first_form()
    assert (first.first, best.first) == (True, False)
    assert first.stages["cuda"] is best.stages["cuda"]
    assert instructions(first.stages["sass"]) < instructions(best.stages["sass"])
    assert first.stages["ptx"].passes[-1].summary == "compiled for sm_90, the first form"
    assert best.stages["ptx"].passes[-1].summary == "compiled for sm_90"
    kernels = [[taken.kernel for taken in each.stages["sass"].resources] for each in (first, best)]
    assert kernels[0] == kernels[1] != []
    program = first.stages["ptx"].program
    assert isinstance(program, Code)
    assert program.launches == best.stages["cuda"].program.launches  # type: ignore[union-attr]
    known = {operation.span for operation in best.operations}
    lit = [{span for line in each.stages["sass"].lines for span in line.origin} & known for each in (first, best)]
    assert lit[0] == lit[1] != set()


def test_the_first_form_comes_before_the_best_and_only_where_that_takes_long(root: Path, held: Held) -> None:
    fitted = fit(ModelRequest(text=transr(root)))
    assert [body["first"] for body in fitted.forms(["graph", "cuda"])] == [False]
    forms = fitted.forms(STAGES)
    first = next(forms)  # while the best is held
    assert first["first"]
    assert all(stage["available"] for stage in first["stages"])
    held.may_end.set()
    (best,) = forms
    assert not best["first"]
    assert best["stages"][0]["text"] == first["stages"][0]["text"]
    assert best["stages"][2]["text"] != first["stages"][2]["text"]
    assert [body["first"] for body in fit(ModelRequest(text=transr(root))).forms(STAGES)] == [False]  # it is kept
    assert sorted(held.compiled) == ["best", "first"]


def test_a_best_form_that_is_there_soon_needs_no_first(root: Path, held: Held, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fitting, "SOON", 60.0)  # which it is on any host
    held.may_end.set()
    (best,) = fit(ModelRequest(text=transr(root))).forms(STAGES)
    assert not best["first"]
    assert held.compiled == ["best"]


def test_without_a_first_form_the_best_is_waited_for(root: Path, held: Held, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with an NVRTC that does not know the option."""
    monkeypatch.setattr(nvrtc, "FAST", ("--no-such-option",))
    monkeypatch.setattr(fitting, "SOON", 0.0)
    held.may_end.set()
    (best,) = fit(ModelRequest(text=transr(root))).forms(["ptx"])
    assert not best["first"]
    assert best["stages"][0]["available"]


def form(text: str, *stages: str) -> dict[str, str]:
    panes = json.dumps([{"stage": stage} for stage in stages])
    return {"text": text, "edit": "7", "good": "7", "panes": panes}


def pane_of(html: str, stage: str) -> str:
    found = re.search(rf'<section class="pane"[^>]*data-stage="{stage}".*?</section>', html, re.DOTALL)
    assert found
    return found[0]


def count_of(html: str, stage: str) -> str:
    found = re.search(rf'data-open="{stage}".*?data-total="(\d*)"', html, re.DOTALL)
    assert found
    return found[1]


@pytest.mark.parametrize("path", ["/late", "/panes"])
def test_the_page_shows_the_first_form_with_its_name_and_then_the_best(root: Path, held: Held, path: str) -> None:
    sent = form(transr(root), "cuda", "sass")

    async def test(client: httpx.AsyncClient) -> None:
        early = (await client.post(path, data=sent)).text
        assert "data-first" in pane_of(early, "sass")
        assert "first form" in pane_of(early, "sass")
        code = unescape(re.sub("<[^>]+>", "", pane_of(early, "sass")))
        assert "FFMA" in code
        # Nothing is said of the best form's figures before they are known.
        assert count_of(early, "ptx") == count_of(early, "sass") == ""
        assert not re.search(r'id="meta-0"[^>]*title="TransR', early)
        held.may_end.set()
        late = (await client.post("/best", data=sent)).text
        assert "first form" not in late
        assert "data-first" not in late
        assert unescape(re.sub("<[^>]+>", "", pane_of(late, "sass"))) != code
        assert int(count_of(late, "sass")) > 1_000
        assert re.search(r'id="meta-0"[^>]*title="TransR', late)
        assert "first form" not in (await client.post(path, data=sent)).text
        assert sorted(held.compiled) == ["best", "first"]

    with_page(test)


def test_who_has_no_pane_for_it_compares_or_asks_by_the_api_waits_for_the_best(
    root: Path, transe: str, held: Held
) -> None:
    held.may_end.set()

    async def test(client: httpx.AsyncClient) -> None:
        late = await client.post("/late", data=form(transr(root), "cuda"))
        assert count_of(late.text, "ptx") == count_of(late.text, "sass") == ""
        beside = {**form(transe, "ptx"), "against": json.dumps({"options": {"grad": True}})}
        assert "data-first" not in (await client.post("/late", data=beside)).text
        asked = {"text": transe, "sizes": {"D": 32}, "stages": ["ptx"]}
        assert (await client.post("/api/compile", json=asked)).json()["first"] is False
        assert set(held.compiled) == {"best"}

    with_page(test)
