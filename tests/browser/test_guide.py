"""The first minutes: the line, the tour, what options would change, hints, the sheet, and somewhere to begin."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Route, expect

from tests.browser.conftest import OpenPage
from tests.browser.driving import A_MOMENT, DISTMULT, change, edit_of, editor_text, expect_edit_after, reload, write
from tests.browser.test_accessibility import AXE, violations

pytestmark = pytest.mark.browser

RENAMED = DISTMULT.replace("DistMult", "Mine")


def test_a_tour_sets_example_panes_and_options_and_gives_the_text_back(open_page: OpenPage) -> None:
    page = open_page("/")
    edit_of(page)
    change(page, "0.2)", "0.3)")
    expect(page.locator("[data-edited]").first).to_be_visible()
    page.locator("#about [data-act=tour]").click()
    expect(page.locator("#tour-at")).to_have_text("1 of 9")
    expect(page.locator("#example-file")).to_have_text("distmult.emb")
    page.locator("#tour-next").click()
    expect(page.locator("#panes > .pane")).to_have_count(2)
    expect(page.locator("#pane-0 .side").last).to_contain_text("after interchange")
    reload(page)
    expect(page.locator("#tour-at")).to_have_text("2 of 9")
    page.locator("#tour-before").click()
    expect(page.locator("#example-file")).to_have_text("distmult.emb")
    for _ in range(8):
        page.locator("#tour-next").click()
    expect(page.locator("#tour-at")).to_have_text("9 of 9")
    expect(page.locator("[data-option=grad]")).to_have_attribute("aria-checked", "true")
    page.locator("#tour-next").click()
    expect(page.locator("#guide")).to_be_hidden()
    expect(page.locator("#example-file")).to_have_text("rgat.emb")  # over the reload, and without being asked for
    expect(page.locator("#editor")).to_contain_text("0.3)")
    reload(page)
    expect(page.locator("#guide")).to_be_hidden()


def test_an_example_of_the_tour_that_was_worked_on_stays(open_page: OpenPage) -> None:
    page = open_page("/")
    edit_of(page)
    change(page, "0.2)", "0.3)")
    page.locator("#about [data-act=tour]").click()
    expect(page.locator("#example-file")).to_have_text("distmult.emb")
    change(page, "dim D = 64", "dim D = 32")
    page.locator("[data-act=about-close]").click()
    expect(page.locator("#guide")).to_be_hidden()
    expect(page.locator("#editor")).to_contain_text("dim D = 32")


def test_the_tour_waits_while_another_text_is_in_its_place_and_loses_none(open_page: OpenPage) -> None:
    page = open_page("/")
    edit_of(page)
    look, onward = page.locator("#tour-look"), page.locator("#tour-next")
    page.locator("#about [data-act=tour]").click()
    onward.click()
    expect(page.locator("#tour-at")).to_have_text("2 of 9")
    said = look.inner_text()
    write(page, RENAMED)
    expect(look).to_have_text("The tour waits here while you look at another text.")
    expect(page.locator("#tour-before")).to_be_hidden()
    reload(page)
    expect(onward).to_have_text("Back to the tour")
    onward.click()
    expect(look).to_have_text(said)
    expect(onward).to_have_text("Next")
    page.locator("#tour-back").click()
    expect(page.locator("#guide")).to_be_hidden()
    expect(page.locator("#editor")).to_contain_text("score Mine")


def test_a_pasted_text_is_given_back_after_the_tour(open_page: OpenPage) -> None:
    page = open_page("/")
    edit_of(page)
    write(page, RENAMED)
    expect(page.locator("#example-group")).to_have_text("own /")
    page.locator("#about [data-act=tour]").click()
    expect(page.locator("#example-file")).to_have_text("distmult.emb")
    page.locator("#guide [data-act=about-close]").click()
    expect(page.locator("#editor")).to_contain_text("score Mine")


def test_options_do_not_move_under_the_pointer(open_page: OpenPage) -> None:
    page = open_page()
    page.locator("[data-option=grad]").hover()
    expect(page.locator("#grad-effect")).to_have_text(re.compile("would change graph"))
    expect(page.locator("[data-option=online]")).to_be_visible()
    page.mouse.move(800, 500)
    expect(page.locator("[data-option=online]")).to_be_hidden()


def test_options_fold_to_what_has_an_effect_and_words_are_explained(open_page: OpenPage) -> None:
    page = open_page()
    edit_of(page)
    more = page.locator("#more-options")
    expect(more).to_have_text(re.compile(r"\d+ more that change nothing here"))
    expect(page.locator("[data-option=online]")).to_be_hidden()
    expect(page.locator("#grad-effect")).to_have_text(re.compile("would change graph"))
    expect(page.locator("#interchange-effect")).to_have_text(re.compile("changes loops"))
    more.click()
    expect(page.locator("[data-option=online]")).to_be_visible()
    page.locator("[data-option=grad]").focus()
    page.keyboard.press("Tab")
    expect(page.locator("#hint")).to_be_visible()
    page.keyboard.press("Escape")
    page.locator("#pane-1 .k", has_text="parallel").hover()
    expect(page.locator("#hint")).to_have_text(re.compile("parallel The iterations"))
    page.locator("#pane-1 .body").focus()
    page.keyboard.press("i")
    expect(page.locator("#sheet-body")).to_contain_text("An accumulator")
    page.keyboard.press("Escape")
    page.locator("[data-act=language]").click()
    expect(page.locator("#sheet-body article")).to_have_count(17)
    assert violations(page, Path(AXE).read_text(encoding="utf-8")) == []


def test_what_options_would_change_of_another_model_is_not_told_of_this_one(open_page: OpenPage) -> None:
    page = open_page()
    effect = page.locator("#grad-effect")
    expect(effect).to_have_text(re.compile("would change graph"))
    page.route("**/effects", lambda route: None)  # a server that takes its time
    write(page, DISTMULT)
    expect(effect).to_have_text("graph onward")
    expect(page.locator("#more-options")).to_be_hidden()
    page.unroute("**/effects")
    page.locator('[data-size="D"] .field').fill("16")
    expect(effect).to_have_text(re.compile("would change graph"))
    expect(page.locator("#more-options")).to_be_visible()


def test_what_options_would_change_is_not_asked_while_somebody_types(open_page: OpenPage) -> None:
    """It takes a compilation an option; who turns to the options asks for it."""
    page = open_page()
    expect(page.locator("#grad-effect")).to_have_text(re.compile("would change graph"))
    page.locator("#editor").hover()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if request.url.endswith("/effects") else None)
    edit = edit_of(page)
    page.locator('[data-size="D"] .field').fill("16")
    page.wait_for_function(f"() => JSON.parse(document.getElementById('facts').dataset.facts).edit > {edit}")
    page.wait_for_timeout(2_000)
    assert asked == []
    with page.expect_request("**/effects"):
        page.locator("#options").hover()
    expect(page.locator("#grad-effect")).to_have_text(re.compile("would change graph"))


def test_what_a_busy_server_did_not_tell_of_options_is_asked_again(open_page: OpenPage) -> None:
    page = open_page()
    effect = page.locator("#grad-effect")
    expect(effect).to_have_text(re.compile("would change graph"))
    stopped = '{"edit": 2, "flips": null}'
    answers: list[str] = []

    def answer(route: Route) -> None:
        answers.append(route.request.url)
        if len(answers) > 1:
            route.continue_()
        else:
            route.fulfill(status=200, content_type="application/json", body=stopped)

    page.route("**/effects", answer)
    page.locator("#options").hover()
    write(page, DISTMULT)
    expect(effect).to_have_text("graph onward")
    expect(effect).to_have_text(re.compile("would change graph"), timeout=60_000)
    assert len(answers) > 1


def test_what_is_asked_of_an_older_text_is_given_up(open_page: OpenPage) -> None:
    """It would hold one of the six connections that a browser has to a server, and the seventh edit would wait."""
    page = open_page()
    expect(page.locator("#grad-effect")).to_have_text(re.compile("would change graph"))
    page.route("**/effects", lambda route: None)  # a server that takes its time
    page.locator("#options").hover()
    field = page.locator('[data-size="D"] .field')
    with page.expect_request("**/effects"):
        field.fill("16")
    for size in ("17", "18"):
        given_up = page.expect_event("requestfailed", lambda request: request.url.endswith("/effects"))
        with given_up, page.expect_request("**/effects"):
            field.fill(size)


def test_errors_make_room_and_an_empty_editor_offers_a_beginning(open_page: OpenPage) -> None:
    page = open_page()
    edit = edit_of(page)
    options = page.locator(".model > details.opts")
    write(page, editor_text(page).replace("P[r]", "Q[r]"))
    expect(page.locator("#problems")).to_contain_text("Q")
    assert options.get_attribute("open") is None
    expect(page.locator(".diag").first).to_be_in_viewport()
    write(page, "# none\n" * 5)
    write(page, DISTMULT)
    expect(page.locator("#problems li")).to_have_count(0)
    write(page, DISTMULT.replace("R[r]", "Q[r]") + "# one of many lines\n" * 200)
    expect(page.locator(".diag").first).to_be_in_viewport(ratio=1)
    write(page, "\n")
    page.locator("#offer button").first.click()
    expect(page.locator("#example-file")).to_have_text("distmult.emb")
    expect_edit_after(page, edit)
    expect(page.locator("#offer")).to_be_hidden()
    expect(options).to_have_attribute("open", "")


def test_a_figure_of_a_paper_opens_what_it_is_about(open_page: OpenPage) -> None:
    page = open_page()
    page.locator("[popovertarget=examples]").first.click()
    page.locator("[data-act=papers]").click()
    expect(page.locator("#sheet .gallery a")).not_to_have_count(0)
    page.locator("#sheet .gallery a", has_text="Algorithm 2").click()
    expect(page.locator("#sheet")).to_be_hidden()
    expect(page.locator("#example-file")).to_have_text("spmm.emb")
    expect(page.locator(".pane")).to_have_count(2)
    expect(page.locator("#pane-0")).to_have_attribute("data-stage", "kernels")
    expect(page.locator("#pane-0")).to_contain_text("sort the rows by how many elements")
    expect(page.locator("[data-option=balance]")).to_be_checked()


def test_a_pasted_module_is_told_how_it_is_imported(open_page: OpenPage) -> None:
    page = open_page(width=1280, height=720)
    edit_of(page)
    write(page, Path("examples/pytorch/transe.py").read_text(encoding="utf-8"))
    told = page.get_by_role("group", name="From Python")
    expect(told).to_be_in_viewport(ratio=1)
    expect(told).to_contain_text("explorer import model.py:example")
    told.get_by_role("button", name="How").click()
    expect(page.locator("#sheet")).to_contain_text("returns the module and its inputs")
    page.keyboard.press("Escape")
    write(page, DISTMULT.replace("R[r]", "Q[r]"))
    expect(page.locator("#problems")).to_contain_text("Q")
    expect(told).to_have_count(0)


def test_what_moves_under_a_resting_pointer_is_not_explained(open_page: OpenPage) -> None:
    page = open_page("/", width=1280, height=720)
    edit_of(page)
    box = page.locator(".opts > summary").bounding_box()
    assert box
    at = (box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.click(*at)
    page.wait_for_function("([x, y]) => document.elementFromPoint(x, y).closest('.op')", arg=at)
    for _ in range(3):
        page.evaluate(A_MOMENT)
    expect(page.locator("#hint")).to_be_hidden()
    page.mouse.move(at[0], at[1] - 34)  # to another option
    expect(page.locator("#hint")).to_be_visible()


def test_names_have_room_in_the_menu_on_a_projector_and_where_stages_are_stale(open_page: OpenPage) -> None:
    page = open_page("/", width=1280, height=720)
    edit_of(page)
    page.locator(".pick").click()
    boxes = [page.locator(of).first.bounding_box() for of in ("#examples h2 .btn", "#examples a")]
    assert boxes[0]
    assert boxes[1]
    assert boxes[0]["y"] + boxes[0]["height"] <= boxes[1]["y"]
    page.keyboard.press("Escape")
    is_cut = "(element) => element.scrollWidth > element.clientWidth"
    page.locator(".top > [data-act=projector]").click()
    assert page.locator("#example-file").evaluate(is_cut) is False
    page.keyboard.press("v")
    change(page, "return", "retrn")
    expect(page.locator("#problems li")).to_have_count(1)
    for pill in page.locator("#panes [data-old]").all():
        assert pill.evaluate(is_cut) is False
