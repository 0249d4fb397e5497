"""The queues beside a program: what slots hold, the lines that they come from, and the strip of a narrow pane."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import OpenPage
from tests.browser.driving import edit_of, pane, run_on

pytestmark = pytest.mark.browser


def test_slots_name_what_they_hold_and_lead_to_their_lines(open_page: OpenPage) -> None:
    page = open_page("/?example=embedding/sls")
    edit_of(page)
    page.locator("#dock-toggle").click()
    page.locator('.seg [data-target="dae"]').click()
    page.locator("#run").click()
    dlc = pane(page, "dlc")
    slot = dlc.locator(".slot > button").first
    expect(slot).to_contain_text(re.compile(r"T\[\d+\]"))
    # The line that pushed last, in SLC as well: the callback of the same operations, in the same order.
    here = pane(page, "slc.opt3").locator(".l.here")
    expect(here).to_have_count(1)
    expect(here).to_contain_text("slcv.callback {")
    # The window opens around the cursor: the run is longer than what is told one by one.
    brush = page.get_by_role("slider", name="Window over the whole run")
    expect(brush).to_have_attribute("aria-valuetext", re.compile(r"cycles [\d,]+ to [\d,]+ of [\d,]+"))
    slot.click(position={"x": 8, "y": 8})
    line = dlc.locator(".unit").first.locator(".l.here")
    expect(line).to_contain_text(f"= {slot.get_attribute('data-token')}")
    expect(line).to_be_in_viewport()
    # And which entry of which bag picked that row, in the data that ran.
    row = re.search(r"T\[(\d+)\]", slot.inner_text())
    assert row
    told = re.compile(rf"row {row[1]} of T: bag \d+, entry \d+, idx\[\d+\] in RM1:L0")
    expect(dlc.locator(".source-of")).to_have_text(told)
    expect(page.locator("#said")).to_have_text(told)


def test_a_narrow_pane_keeps_the_queues_as_a_strip(open_page: OpenPage) -> None:
    page = open_page(width=900, height=900)
    page.locator("#pane-0 select[data-act=stage]").select_option("dlc")
    expect(pane(page, "dlc").locator(".unit")).to_have_count(2)
    run_on(page, "dae", 16)
    dlc = pane(page, "dlc")
    expect(dlc.locator(".slot > button").first).to_contain_text(re.compile(r"[A-Z]\[\d+"))
    strip = dlc.locator(".qs").bounding_box()
    assert strip
    assert strip["height"] < 60 < strip["width"]


def test_what_a_slot_of_the_strip_holds_takes_no_room_beside_it(open_page: OpenPage) -> None:
    page = open_page("/?example=embedding/sls", width=900, height=900)
    page.locator("#pane-0 select[data-act=stage]").select_option("dlc")
    expect(pane(page, "dlc").locator(".unit")).to_have_count(2)
    page.locator("#run").click()
    slot = pane(page, "dlc").locator(".slot > button").first
    expect(slot).to_contain_text(re.compile(r"T\[\d+\]"))
    slot.click(position={"x": 8, "y": 8})
    expect(page.locator("#said")).to_contain_text(re.compile(r"row \d+ of T"))
    assert page.locator("#panes").evaluate("(panes) => panes.scrollWidth - panes.clientWidth") == 0


def test_folded_sizes_say_what_the_data_fixes(open_page: OpenPage) -> None:
    page = open_page("/?example=embedding/sls", width=1024, height=800)
    told = page.locator("#sizes-told")
    expect(told).to_have_text("D = 32 from RM1:L0")
    expect(told).to_be_visible()
    page.locator(".szs > summary").click()
    expect(told).to_be_hidden()
    field = page.locator('[data-size="D"] .field')
    field.fill("48")
    expect(told).to_have_text("D = 48")
