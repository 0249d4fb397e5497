"""The list of a stage's passes: effects in a line, what is behind them, and any two points beside each other."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Route, expect

from tests.browser.conftest import OpenPage
from tests.browser.driving import edit_of, expect_edit_after, pane, reload, wait_until_kept

pytestmark = pytest.mark.browser


def test_effects_of_a_backward_pass_and_a_list_that_keeps_its_place(open_page: OpenPage) -> None:
    page = open_page("/?example=rgnn/rgat")
    edit = edit_of(page)
    page.locator("[data-option=grad]").click()
    expect_edit_after(page, edit)
    graph = pane(page, "graph")
    graph.locator("[data-act=passes]").click()
    compact = graph.locator("[data-name=compact]")
    expect(compact.locator(".effect")).to_contain_text(re.compile(r"MFLOP, −\d+ %.*rows, −\d+ %", re.DOTALL))
    expect(compact.locator("details li").last).to_be_hidden()
    compact.locator("summary").click()
    expect(compact.locator("details")).to_contain_text("it depends on src and etype alone")
    # A click on a pass makes the list anew: it stays where it was, with the focus and what was open.
    top = graph.locator(".passes ol").evaluate("list => (list.scrollTop = 60)")
    graph.locator("[data-name=divide_last] .pass").focus()
    top = graph.locator(".passes ol").evaluate("list => list.scrollTop")
    page.keyboard.press("Enter")
    expect(graph.locator(".pass[aria-current]")).to_contain_text("divide_last")
    expect(graph.locator("[data-name=divide_last] .pass")).to_be_focused()
    expect(compact.locator("details")).to_have_attribute("open", "")
    assert top > 0
    page.wait_for_function("top => document.querySelector('.passes ol').scrollTop === top", arg=top)
    # The next and the previous that changed something, by key.
    page.keyboard.press("j")
    expect(graph.locator(".pass[aria-current]")).to_contain_text("differentiate")
    page.keyboard.press("k")
    page.keyboard.press("k")
    expect(graph.locator(".pass[aria-current]")).to_contain_text("compact")
    graph.get_by_label("Passes whose name contains").fill("dead v")
    expect(graph.locator(".passes li:visible[data-name]")).to_have_count(1)
    page.keyboard.press("u")  # a letter in a field is no key
    expect(graph.locator(".passes li:visible[data-name]")).to_have_count(0)


def test_what_is_open_in_a_list_survives_an_answer_that_cannot_be_put_together(open_page: OpenPage) -> None:
    page = open_page("/?example=rgnn/rgat")
    edit_of(page)
    loops = pane(page, "loops")
    loops.locator("[data-act=passes]").click()
    fuse = loops.locator("[data-name=fuse]")
    fuse.locator("summary").click()
    answers: list[str] = []

    def forget_what_it_is_of(route: Route) -> None:
        answer = route.fetch()
        answers.append(answer.text())
        if len(answers) == 1:
            page.evaluate("document.querySelectorAll('#panes .body').forEach((body) => (body.dataset.text = 'none'))")
        route.fulfill(response=answer)

    page.route("**/panes", forget_what_it_is_of)
    loops.locator("[data-name=hoist] .pass").click()
    expect(loops.locator(".pass[aria-current]")).to_contain_text("hoist")
    expect(loops.locator(".body")).to_have_attribute("data-text", re.compile("..."))
    assert "data-from" in answers[0]
    assert len(answers) == 2
    expect(fuse.locator("details")).to_have_attribute("open", "")


def test_sls_from_level_0_to_3_in_one_difference_that_a_reload_keeps(open_page: OpenPage) -> None:
    page = open_page("/?example=embedding/sls")
    edit_of(page)
    last = pane(page, "slc.opt3")
    last.locator("[data-act=passes]").click()
    expect(last.locator("[data-name=align_queues] .effect")).to_contain_text("1 operand a row, −50 %")
    last.get_by_label("Compare with another point").select_option("slc 1")
    expect(last.locator(".dl").first).to_contain_text("after decouple, slc")
    expect(last.locator(".dl").last).to_contain_text("after align_queues, slc.opt3")
    expect(last.locator(".side").last).to_contain_text("slcv.buf_str<16>()")
    expect(last.locator(".side").first).not_to_contain_text("buf_str")
    wait_until_kept(page, '"versus":{"stage":"slc","at":1}')
    reload(page)
    expect(last.get_by_label("Compare with another point")).to_have_value("slc 1")
    expect(last.locator(".l.add")).not_to_have_count(0)
    last.get_by_label("Compare with another point").select_option("slc.opt3 1")
    expect(last.get_by_text("the same as after align_queues")).to_be_visible()
    last.get_by_label("Compare with another point").select_option("")
    expect(last.locator(".side")).to_have_count(0)


def test_a_fused_score_says_what_never_is_in_memory(open_page: OpenPage) -> None:
    page = open_page()
    loops = pane(page, "loops")
    loops.locator("[data-act=passes]").click()
    expect(loops.locator("[data-name=fuse] .effect")).to_contain_text("4 B in memory, −100 %1 nest")
    expect(loops.locator("[data-name=hoist] .effect")).to_contain_text("4,291 loads a row, −65 %")
    expect(loops.locator("[data-name=online] .effect")).to_have_count(0)


def test_a_pass_has_a_row_a_kernel_behind_its_effect(open_page: OpenPage) -> None:
    page = open_page("/?example=rgnn/rgat")
    edit_of(page)
    loops = pane(page, "loops")
    loops.locator("[data-act=passes]").click()
    hoist = loops.locator("[data-name=hoist]")
    expect(hoist.locator(".kernels")).to_be_hidden()
    hoist.locator("summary").click()
    rows = hoist.locator(".kernels tbody tr")
    expect(rows.first.locator("th")).to_have_text(re.compile(r"RGAT_\d"))
    expect(rows.first).to_contain_text(re.compile(r"[\d,]+ → [\d,]+ −\d+ %"))
    expect(hoist.locator(".kernels thead")).to_contain_text("bytes a row")
