"""A stage's text edited in its pane: proven wrong, refused, matching, compared, shared, run, undone."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import OpenPage
from tests.browser.driving import change as change_model
from tests.browser.driving import edit_of, pane, reload, run_on, wait_until_kept
from tests.browser.test_accessibility import axe, violations  # noqa: F401

pytestmark = pytest.mark.browser

SELECT = """([editor, old]) => {
    const lines = [...editor.querySelectorAll(".cm-line")];
    const walker = document.createTreeWalker(lines.find((l) => l.textContent.includes(old)), NodeFilter.SHOW_TEXT);
    for (let node; (node = walker.nextNode()); ) {
        const at = node.data.indexOf(old);
        if (at < 0) continue;
        const range = document.createRange();
        range.setStart(node, at);
        range.setEnd(node, at + old.length);
        getSelection().removeAllRanges();
        getSelection().addRange(range);
        return;
    }
}"""


def unlock(page: Page, stage: str) -> Locator:
    """The editor of a stage's text."""
    pane(page, stage).locator('[data-act="edit-stage"]').click()
    editor = pane(page, stage).locator(".editing .cm-content")
    expect(editor).to_be_focused()
    return editor


def type_over(page: Page, editor: Locator, old: str, new: str) -> None:
    """Select a piece of an edited stage's text and type another."""
    editor.focus()
    page.evaluate(SELECT, [editor.element_handle(), old])
    page.wait_for_function("old => getSelection().toString() === old", arg=old)
    page.keyboard.type(new)


def verdict(page: Page, stage: str, status: str) -> Locator:
    return pane(page, stage).locator(f".verdict.{status}")


def test_loops_are_edited_until_they_match_and_the_link_has_them(
    open_page: OpenPage,
    axe: str,  # noqa: F811
) -> None:
    page = open_page("/?example=kge/transr")
    edit_of(page)
    slc = pane(page, "slc").locator(".code").inner_text()
    editor = unlock(page, "loops")
    editor.locator(".cm-line", has_text="u * p").hover()
    expect(pane(page, "graph").locator(".l.lit")).to_contain_text("bmv")
    expect(editor.locator(".lit-line", has_text="u * p")).to_have_count(1)
    page.mouse.move(5, 5)
    type_over(page, editor, "u * p", "u + p")
    wrong = verdict(page, "loops", "wrong")
    expect(wrong).to_contain_text(re.compile(r"proven wrong: result\[0\] is [\d.]+, where the reference has [\d.]+"))
    expect(wrong.locator('[data-act="edit-operation"]')).to_have_text("@")
    expect(pane(page, "slc")).to_contain_text("Not made: loops, as it was edited, is proven wrong")
    expect(page.locator('.st[data-open="slc"] .n')).to_have_text("none")
    expect(editor.locator(".diag")).to_contain_text("result[0]")
    expect(editor).to_be_focused()
    assert violations(page, axe) == []

    type_over(page, editor, "u + p", "u +")
    refused = verdict(page, "loops", "refused")
    expect(refused).to_contain_text(re.compile(r"line 24, column \d+:"))
    expect(pane(page, "slc").locator(".code")).to_have_text(slc, use_inner_text=True)

    page.keyboard.type(" p")  # where it stands: an answer took nothing of the editor
    expect(verdict(page, "loops", "wrong")).to_have_count(1)
    type_over(page, editor, "u + p", "p * u")
    expect(verdict(page, "loops", "matches")).to_contain_text(re.compile(r"on \d small inputs, largest error"))
    expect(pane(page, "slc").locator(".ph")).to_contain_text("from loops, edited")
    expect(page.locator('.st[data-open="loops"]')).to_contain_text("edited")
    expect(page.locator('.st.forked[data-open="dlc"]')).to_have_count(1)
    expect(page.locator('.st.forked[data-open="graph"]')).to_have_count(0)
    assert violations(page, axe) == []

    pane(page, "loops").locator('[data-act="edit-compare"]').click()
    expect(pane(page, "loops").locator(".side")).to_have_count(2)
    expect(pane(page, "loops").locator(".side .add")).to_contain_text("p * u")
    wait_until_kept(page, '"diff":true')
    shared = open_page(page.evaluate("location.pathname + location.hash"))
    expect(verdict(shared, "loops", "matches")).to_have_count(1)
    expect(pane(shared, "loops").locator(".side .add")).to_contain_text("p * u")
    reload(shared)
    expect(verdict(shared, "loops", "matches")).to_have_count(1)

    shared.locator('[data-act="edit-undo"]').click()
    expect(shared.locator(".verdict")).to_have_count(0)
    expect(shared.locator(".st.forked")).to_have_count(0)
    expect(pane(shared, "slc").locator(".code")).to_have_text(slc, use_inner_text=True)


def test_a_run_is_of_the_edit_and_a_model_that_it_does_not_fit_loses_nothing(open_page: OpenPage) -> None:
    page = open_page("/?example=kge/transr")
    edit_of(page)
    editor = unlock(page, "loops")
    type_over(page, editor, "u * p", "p * u")
    expect(verdict(page, "loops", "matches")).to_have_count(1)
    run_on(page, "dae", 16)
    expect(page.locator("#run-check")).to_contain_text("Matches the float64 reference")

    change_model(page, "D = 64, K = 64", "D = 32, K = 64")
    expect(verdict(page, "loops", "refused")).to_contain_text("D is 32 in the model")
    expect(editor).to_contain_text("p * u")
    expect(pane(page, "slc").locator(".code")).to_contain_text("slc.for")
    change_model(page, "D = 32, K = 64", "D = 64, K = 64")
    expect(verdict(page, "loops", "matches")).to_have_count(1)


def test_by_keyboard_alone_and_on_a_narrow_screen(open_page: OpenPage) -> None:
    page = open_page("/?example=embedding/sls", width=390, height=800)
    expect(page.locator("#status")).to_contain_text("Up to date")
    page.locator('[data-tab-to="stages"]').click()
    stage = page.locator(".pane").first.get_attribute("data-stage") or ""
    page.locator(".pane .body").first.focus()
    page.keyboard.press("e")
    editor = pane(page, stage).locator(".editing .cm-content")
    expect(editor).to_be_focused()
    expect(verdict(page, stage, "same")).to_contain_text("what the compiler makes")
    page.keyboard.press("Tab")  # leaves the editor
    expect(editor).not_to_be_focused()
    pane(page, stage).locator('[data-act="edit-stage"]').focus()
    page.keyboard.press("Enter")
    expect(page.locator(".verdict")).to_have_count(0)
