"""Two sides of a comparison: their chips, changed in place and swapped, and both run by turns."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import OpenPage
from tests.browser.driving import edit_of

pytestmark = pytest.mark.browser


def test_either_side_is_changed_swapped_and_both_are_run_in_one_run(open_page: OpenPage) -> None:
    page = open_page("/?example=embedding/sls")
    edit_of(page)
    page.locator("#dock-toggle").click()
    page.locator("#run-data").select_option("RM1:L0")
    edit_of(page)
    page.locator("#compare").click()
    sides = page.locator("#sides")
    sides.get_by_label("Change an option of side A").select_option("opt")
    level = sides.get_by_label("opt of side A")
    for _ in range(20):  # an answer that comes just then draws the chip anew
        level.fill("0")
        if level.input_value() == "0":
            break
    level.press("Enter")
    expect(page.locator('.pane[data-stage="dlc"] .diff')).to_be_visible()
    sides.get_by_label("Change an option of side B").select_option("compact")
    expect(sides.get_by_label("compact of side B")).to_have_attribute("aria-pressed", "false")
    expect(page.locator('[data-option="compact"]')).to_have_attribute("aria-checked", "false")
    expect(page.locator(".pane .dl").first).to_contain_text("compact on")  # as its chip has it
    sides.get_by_label("compact of side B").click()
    expect(page.locator('[data-option="compact"]')).to_have_attribute("aria-checked", "true")

    page.get_by_role("button", name="Run A|B").click()
    simulated = re.compile(r"B takes 0\.\d+× the cycles of A; simulated")
    expect(page.locator("#run-detail .verdict")).to_contain_text(simulated)
    page.locator('.seg [data-target="cpu"]').click()
    page.locator("#run-repeat").fill("40")
    page.get_by_role("button", name="Run A|B").click()
    expect(page.locator("#run-detail .verdict")).to_contain_text("40 pairs, taken by turns; measured")
    expect(page.locator("#run-detail .verdict")).to_contain_text(re.compile(r"95 % interval [\d.]+× to [\d.]+×"))
    expect(page.locator("#run-detail .tb").first.locator("tbody tr")).to_have_count(2)

    page.get_by_role("button", name="Swap").click()
    expect(sides.get_by_label("opt of side B")).to_have_value("0")
    expect(sides.get_by_label("opt of side A")).to_have_value("3")
    expect(page.locator('[data-level="0"]')).to_have_attribute("aria-pressed", "true")
    page.locator("#compare").click()
    expect(sides).to_have_count(0)
