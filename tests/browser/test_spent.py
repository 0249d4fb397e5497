"""What a run spent: its table by operation and by kernel, what a click leads to, and the end of a story."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import OpenPage
from tests.browser.driving import edit_of, expect_edit_after, pane
from tests.browser.test_accessibility import axe, violations

__all__ = ["axe"]
pytestmark = pytest.mark.browser


def run(page: Page, target: str, button: str = "#run") -> None:
    edit_of(page)
    if page.locator("#dock-body").is_hidden():
        page.locator("#dock-toggle").click()
    page.locator(f'.seg [data-target="{target}"]').click()
    # As many as are told apart: fifty may take all the time that a run has, where other tests share the cores.
    page.locator("#run-repeat").evaluate("field => field.value = 5")
    page.locator(button).click()
    expect(page.locator("#run-check")).to_contain_text("Matches the float64 reference")


def shares(page: Page, column: int) -> float:
    """The rows of a column that are shown, together, in percent; those under 1 % are behind a disclosure."""
    cells = page.locator(".spent .by").first.locator(f"tbody td.num:nth-child({3 + 2 * column})").all_inner_texts()
    return sum(float(cell.rstrip(" %")) for cell in cells if cell)


def tell(page: Page) -> None:
    page.keyboard.press("w")
    expect(page.locator("#story .told")).to_be_visible()
    expect(page.locator("#story")).not_to_have_attribute("aria-busy", "true")


def test_cycles_stand_by_operation_and_a_row_leads_to_its_lines(open_page: OpenPage, axe: str) -> None:
    page = open_page("/?example=embedding/sls")
    run(page, "dae")
    spent = page.locator(".spent")
    expect(spent.locator("h3").first).to_have_text("Cycles by operation")
    expect(spent.locator(".label").first).to_have_text("simulated")
    assert 97 < shares(page, 0) <= 101
    assert 97 < shares(page, 1) <= 101
    button = spent.get_by_role("button", name="T[i]")
    button.focus()
    page.keyboard.press("Enter")
    expect(page.locator("#operation-label")).to_have_text("T[i]")
    expect(page.locator('[data-act="pin"]')).to_have_attribute("aria-pressed", "true")
    expect(pane(page, "dlc").locator(".l.lit", has_text="mem_str<16>(T").first).to_be_in_viewport()
    assert violations(page, axe) == []
    tell(page)
    cost = page.locator('[data-cost="dae"]')
    expect(cost).to_contain_text(re.compile(r"access unit [\d,]+ of [\d,]+ cycles, [\d.]+ %; execute unit [\d,]+, "))
    expect(cost).to_contain_text("simulated")
    expect(page.locator('[data-cost="cpu"]')).to_have_text("not run yet")
    assert page.evaluate("document.scrollingElement.scrollHeight") == page.viewport_size["height"]  # nothing sticks out


def test_time_on_the_processor_is_measured_by_kernel_and_apportioned(open_page: OpenPage, axe: str) -> None:
    page = open_page("/?example=rgnn/rgat")
    edit = edit_of(page)
    page.locator("[data-option=grad]").click()
    expect_edit_after(page, edit)
    run(page, "cpu")
    spent = page.locator(".spent")
    expect(spent.locator("h3")).to_have_text(["Time by operation", "By kernel"])
    expect(spent.locator(".ch .label")).to_have_text(["apportioned", "measured"])
    expect(page.locator("#run-plane")).to_contain_text("ceilings measured here")
    expect(page.locator("#run-plane svg")).to_have_attribute("aria-label", re.compile("FLOP/s at .* operations a byte"))
    tops = [page.locator(f"#{name}").evaluate("e => e.getBoundingClientRect().y") for name in ("run-main", "run-plane")]
    check = page.locator("#run-check").evaluate("e => e.getBoundingClientRect().y")
    assert tops[0] == tops[1] <= check < tops[0] + 60  # all columns are in one row
    kernels = spent.locator(".by").last.locator("tbody tr")
    assert kernels.count() > 4
    expect(kernels.first).to_contain_text("RGAT_0")
    assert violations(page, axe) == []
    operations = spent.locator(".by").first.locator("tbody tr:not(.rest) button")
    operations.first.click()  # whichever took long enough to be above the fold
    tell(page)
    expect(page.locator('[data-cost="cpu"]')).to_contain_text(re.compile(r"[\d.]+ ms of [\d.]+ ms, [\d.]+ %"))
    expect(page.locator('[data-cost="cpu"]')).to_contain_text("apportioned")


def test_rows_follow_their_operations_through_edits(open_page: OpenPage) -> None:
    page = open_page()
    run(page, "dae")
    row = page.locator(".spent button", has_text="P[r]")
    before = row.get_attribute("data-operation")
    edit = edit_of(page)
    page.locator(".cm-line", has_text="return norm").click()
    page.keyboard.press("Home")
    for _ in "return norm(":
        page.keyboard.press("ArrowRight")
    page.keyboard.type("R[r] - R[r] + ")
    expect_edit_after(page, edit)
    assert row.get_attribute("data-operation") != before
    row.click()
    expect(page.locator("#operation-label")).to_have_text("P[r]")


def test_both_sides_of_a_comparison_end_a_story(open_page: OpenPage) -> None:
    page = open_page("/?example=embedding/sls")
    edit = edit_of(page)
    page.locator("#compare").click()
    page.locator("#vlen").fill("8")
    expect_edit_after(page, edit)
    edit_of(page)
    page.locator("#dock-toggle").click()
    page.locator('.seg [data-target="dae"]').click()
    page.get_by_role("button", name="Run A|B").click()
    expect(page.locator("#run-detail .verdict")).to_contain_text("simulated")
    page.locator(".spent").get_by_role("button", name="T[i]").click()
    tell(page)
    both = re.compile(r"A\s*access unit .*B\s*access unit ", re.DOTALL)
    expect(page.locator('[data-cost="dae"]')).to_contain_text(both)
