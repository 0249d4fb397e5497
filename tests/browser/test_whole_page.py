"""The page as a whole: by keys alone, two tabs, a slow server, a failing one, and the same screen after a reload."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from playwright.sync_api import APIResponse, Page, Route, expect

from explorer.checkout import CHECKOUT
from tests.browser.conftest import PATIENCE, OpenPage
from tests.browser.driving import (
    A_MOMENT,
    DISTMULT,
    change,
    edit_of,
    editor_text,
    expect_edit_after,
    pane,
    reload,
    wait_until_kept,
    write,
)
from tests.browser.test_edited_stages import type_over, unlock

pytestmark = pytest.mark.browser

TRANSR = (CHECKOUT / "examples" / "kge" / "transr.emb").read_text(encoding="utf-8")
MOST_TABS = 40

NOTE_POINTERS = """() => {
    window.pointers = 0;
    for (const name of ["pointerdown", "pointermove", "mousedown", "mousemove"])
        addEventListener(name, () => { window.pointers += 1; }, true);
}"""

ABORT_IN_NAME_ONLY = """() => {
    XMLHttpRequest.prototype.abort = function () { this.onabort(); };
}"""
"""The page takes a request for ended, but its answer comes all the same."""

SCREEN = """() => {
    const texts = (found) => [...document.querySelectorAll(found)].map((each) => each.textContent.trim());
    const panes = document.querySelector("#panes");
    return {
        model: texts("#editor .cm-line"),
        panes: [...panes.children].map((pane) => ({
            ...pane.dataset,
            pressed: [...pane.querySelectorAll(".ph [aria-pressed=true]")].map((each) => each.dataset.act),
            passes: [...pane.querySelectorAll(".pass")].map((each) => [each.dataset.pass, each.ariaCurrent]),
            edited: [...pane.querySelectorAll(".editing .cm-line")].map((each) => each.textContent),
            code: pane.querySelector(".code")?.textContent.replace(/\\s+/g, " "),
        })),
        grid: [panes.style.gridTemplateColumns, panes.style.gridTemplateRows].map((tracks) =>
            [...tracks.matchAll(/([\\d.]+)fr/g)].map(([, part]) => Math.round(part))),
        options: [...document.querySelectorAll("[data-option]")].map((each) => [each.dataset.option, each.ariaChecked]),
        levels: texts("[data-level][aria-pressed=true]"),
        numbers: [...document.querySelectorAll("[data-number], [data-size]")].map((each) => each.value),
        verdicts: texts(".verdict p"),
        rail: [...document.querySelectorAll(".st")].map((each) =>
            [each.className.replace(/ (lit|pin)\\b/g, ""), each.ariaPressed]),
        story: document.querySelector("#story:not([hidden])") ? texts("#story-label, #story .told h4") : null,
    };
}"""


def tab_to(page: Page, selector: str) -> None:
    """Press Tab until an element has the focus."""
    for _ in range(MOST_TABS):
        if page.evaluate("selector => document.activeElement.matches(selector)", selector):
            return
        page.keyboard.press("Tab")
    pytest.fail(f"{MOST_TABS} times Tab do not reach {selector}")


def test_by_keys_alone_from_a_pasted_model_to_its_result(open_page: OpenPage) -> None:
    page = open_page("/?example=kge/distmult")
    edit = edit_of(page)
    page.evaluate(NOTE_POINTERS)
    page.keyboard.press("F6")
    expect(page.locator("#editor .cm-content")).to_be_focused()
    write(page, TRANSR)
    expect_edit_after(page, edit)
    page.keyboard.press("Escape")
    page.keyboard.press("Tab")
    expect(page.locator("#editor .cm-content")).not_to_be_focused()

    page.keyboard.press("g")
    page.keyboard.press("d")
    expect(pane(page, "dlc").locator(".code").first).to_contain_text("TransR")
    page.keyboard.press("Alt+ArrowDown")
    page.keyboard.press("w")
    expect(page.locator("#story .told")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#story")).to_be_hidden()

    page.keyboard.press("r")
    page.keyboard.press("F6")
    page.keyboard.press("F6")
    tab_to(page, '.seg [data-target="cpu"]')
    page.keyboard.press("Enter")
    tab_to(page, "#run-batch")
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.type("16")
    page.keyboard.press("ControlOrMeta+Enter")
    expect(page.locator("#run-check")).to_contain_text("Matches the float64 reference")
    expect(page.locator("#run-check")).to_contain_text("all 16 rows")
    assert page.evaluate("window.pointers") == 0


def test_two_tabs_do_not_disturb_each_other(open_page: OpenPage) -> None:
    one, other = open_page("/?example=rgnn/gcn"), open_page("/?example=embedding/sls")
    first, second = edit_of(one), edit_of(other)
    one.locator("[data-option=grad]").click()
    other.locator('[data-level="1"]').click()
    expect_edit_after(one, first)
    expect_edit_after(other, second)
    for page, target, data in ((one, "cpu", "small"), (other, "dae", "RM1:L0")):
        page.locator("#dock-toggle").click()
        page.locator(f'.seg [data-target="{target}"]').click()
        page.locator("#run-data").select_option(data)
        edit_of(page)
        # Fifty may take all the time that a run has, where other tests share the cores.
        page.locator("#run-repeat").evaluate("field => field.value = 3")
    for page in (one, other):
        page.locator("#run").click()
    for page in (one, other):
        expect(page.locator("#run-check")).to_contain_text("Matches the float64 reference")
    wait_until_kept(one, '"grad":true')
    wait_until_kept(other, "RM1:L0")
    for page, name, option, state in (
        (one, "layer GCN", '[data-option="grad"]', "aria-checked"),
        (other, "op SLS", '[data-level="1"]', "aria-pressed"),
    ):
        reload(page)
        edit_of(page)
        assert name in editor_text(page)
        expect(page.locator(option)).to_have_attribute(state, "true")


def test_answers_of_a_slow_server_come_out_of_order(open_page: OpenPage) -> None:
    page = open_page("/?example=rgnn/rgat")
    edit = edit_of(page)
    page.evaluate(ABORT_IN_NAME_ONLY)
    held: list[tuple[Route, APIResponse]] = []

    def hold_the_first(route: Route) -> None:
        if "Newer" in (route.request.post_data or ""):
            route.continue_()
        else:
            held.append((route, route.fetch()))

    page.route("**/compile", hold_the_first)
    page.locator("[data-option=grad]").click()
    while not held:  # the answer is there, and the page has not got it
        page.wait_for_timeout(50)
    change(page, "layer RGAT", "layer Newer")
    expect(pane(page, "graph")).to_contain_text("layer Newer")
    newer = edit_of(page)
    assert newer == edit + 2
    before = page.evaluate(SCREEN)
    (route, answer), *_ = held
    with page.expect_response("**/compile"):
        route.fulfill(response=answer)
    page.wait_for_timeout(300)
    assert edit_of(page) == newer
    assert page.evaluate(SCREEN) == before


@pytest.mark.parametrize("status", [None, 503])
def test_after_a_failure_the_same_edit_is_sent_again(open_page: OpenPage, status: int | None) -> None:
    page = open_page(complains=("Failed to load", "htmx:", "Response Status Error Code 503"))
    edit = edit_of(page)
    sent: list[Any] = []

    def fail(route: Route) -> None:
        sent.append(route.request.post_data)
        if len(sent) > 2:
            route.continue_()
        elif status is None:
            route.abort()
        else:
            route.fulfill(status=status, body=json.dumps({"detail": "too many are here"}))

    page.route("**/compile", fail)
    write(page, DISTMULT)
    again = page.locator("#status").get_by_role("button", name="Try again")
    expect(again).to_be_visible()
    expect(page.locator("#status")).to_contain_text("Your text is kept")
    again.focus()
    with page.expect_request("**/compile"):
        page.keyboard.press("Enter")
    expect(again).to_be_focused()
    page.keyboard.press("Enter")
    expect_edit_after(page, edit)
    expect(pane(page, "graph")).to_contain_text("DistMult")
    expect(again).to_have_count(0)
    assert sent[0] == sent[1] == sent[2]


def same_after_reload(page: Page, open_page: OpenPage) -> None:
    """The link in another tab, and a reload of that, give the same screen."""
    page.mouse.move(0, 0)
    before = page.evaluate(SCREEN)
    page.evaluate(A_MOMENT)
    other = open_page(page.evaluate("location.pathname + location.hash"))
    _expect_screen(other, before)
    reload(other)
    _expect_screen(other, before)


def _expect_screen(page: Page, screen: dict[str, Any]) -> None:
    edit_of(page)
    end = time.monotonic() + PATIENCE / 1000
    while _steady(page.evaluate(SCREEN)) != _steady(screen) and time.monotonic() < end:
        page.wait_for_timeout(100)
    assert _steady(page.evaluate(SCREEN)) == _steady(screen)


def _steady(screen: dict[str, Any]) -> dict[str, Any]:
    """Less what a text is called between the page and the server."""
    panes = [{key: value for key, value in each.items() if key != "text"} for each in screen["panes"]]
    return {**screen, "panes": panes}


def test_the_link_to_rgat_with_backward_gives_the_same_screen(open_page: OpenPage) -> None:
    page = open_page("/?example=rgnn/rgat")
    edit = edit_of(page)
    page.locator("[data-option=grad]").click()
    expect_edit_after(page, edit)
    loops = pane(page, "loops")
    loops.locator("[data-act=passes]").click()
    loops.locator(".pass", has_text="interchange").click()
    expect(loops.locator(".pass[aria-current]")).to_contain_text("interchange")
    loops.locator("[data-act=diff]").click()
    pane(page, "cuda").locator("[data-act=close]").click()
    expect(page.locator("#panes > .pane")).to_have_count(3)
    page.locator("#splits .split").first.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    pane(page, "slc").locator(".l[data-operations]:not([data-made])").first.click()
    expect(page.locator("[data-act=pin]")).to_have_text("Unpin Esc")
    page.keyboard.press("w")
    expect(page.locator("#story .told")).to_be_visible()
    expect(page.locator("#story")).not_to_have_attribute("aria-busy", "true")
    _, rows = page.evaluate(SCREEN)["grid"]  # two differences and what is left: one column of three rows
    assert len(set(rows)) > 1
    same_after_reload(page, open_page)


def test_the_link_to_sls_at_opt3_gives_the_same_screen(open_page: OpenPage) -> None:
    page = open_page("/?example=embedding/sls")
    edit = edit_of(page)
    page.locator("#vlen").fill("8")
    expect_edit_after(page, edit)
    editor = unlock(page, "slc.opt3")
    type_over(page, editor, "o += 1", "o += 2")
    expect(page.locator(".verdict.wrong")).to_contain_text("proven wrong")
    page.locator("#splits .split").first.focus()
    page.keyboard.press("ArrowRight")
    same_after_reload(page, open_page)
