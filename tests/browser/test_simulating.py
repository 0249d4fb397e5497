"""An embedding operation on the simulated machine: its levels, its queues, and what the machine's parameters do."""

from __future__ import annotations

import json
import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import OpenPage
from tests.browser.driving import change, edit_of, expect_edit_after, pane, reload, wait_until_kept

pytestmark = pytest.mark.browser

SLS = "/?example=embedding/sls"
LEVELS = ("slc", "slc.opt1", "slc.opt2", "slc.opt3")


def open_dock(page: Page, data: str = "RM1:L0") -> None:
    """The run panel with a data set chosen."""
    edit_of(page)
    page.locator("#dock-toggle").click()
    page.locator("#run-data").select_option(data)


def simulate(page: Page) -> None:
    """Press Run and wait for the result, which may be there at once: the one before it is wiped out first."""
    page.locator("#run-check").evaluate("element => { element.textContent = ''; }")
    page.locator("#run").click()
    expect(page.locator("#run-check")).to_contain_text("Matches the float64 reference")


def cycles(page: Page) -> int:
    """The headline figure."""
    expect(page.locator("#run-summary b")).to_contain_text("cycles")
    return int(re.sub(r"\D", "", page.locator("#run-summary b").inner_text()))


def test_an_op_opens_with_its_levels_side_by_side(open_page: OpenPage) -> None:
    page = open_page(SLS)
    assert [shown.get_attribute("data-stage") for shown in page.locator(".pane").all()] == [*LEVELS, "dlc"]
    for level, word in zip(LEVELS, ("slc.callback", "slcv.for<16>", "slcv.buf_str<16>", "index o"), strict=True):
        expect(pane(page, level)).to_contain_text(word)
    rail = page.locator('.st[data-open="slc.opt2"]')
    expect(rail).to_have_accessible_name(re.compile(r"^slc\.opt2"))
    expect(rail.locator("[aria-hidden]")).to_have_text(".opt2")
    expect(pane(page, "slc.opt1").locator(".k").first).to_be_visible()


def test_the_level_and_the_vector_length_reach_the_stages(open_page: OpenPage) -> None:
    page = open_page(SLS)
    edit = edit_of(page)
    page.locator('[data-level="1"]').click()
    expect_edit_after(page, edit)
    expect(page.locator('.st[data-open="slc.opt3"]')).to_have_class(re.compile("aside"))
    expect(page.locator('.st[data-open="slc.opt1"]')).not_to_have_class(re.compile("aside"))
    expect(pane(page, "dlc")).not_to_contain_text("d_end")
    page.locator("#vlen").fill("4")
    expect(pane(page, "slc.opt1")).to_contain_text("slcv.for<4>")
    expect(page.locator("#run-vlen")).to_have_value("4")
    # A reload keeps both.
    wait_until_kept(page, '"vlen":4')
    reload(page)
    expect(page.locator('[data-level="1"]')).to_have_attribute("aria-pressed", "true")
    expect(pane(page, "slc.opt1")).to_contain_text("slcv.for<4>")


def test_all_levels_are_run_and_compared(open_page: OpenPage) -> None:
    page = open_page(SLS)
    open_dock(page)
    simulate(page)
    expect(page.locator("#run-summary")).to_contain_text("fewer than opt0")
    page.locator("[data-act=compare-levels]").click()
    levels = page.locator(".levels:not(.by) tbody:has(.bar)")
    expect(levels).to_have_count(4)
    expect(levels.locator("th")).to_have_text(["opt0", "opt1", "opt2", "opt3"])
    expect(page.locator(".levels .me th")).to_have_text("opt3")
    ratios = [float(row.locator(".num").nth(1).inner_text().rstrip("×")) for row in levels.all()]
    assert ratios[0] == 1
    assert ratios == sorted(ratios)
    bar = levels.first.locator(".bar").first
    expect(bar).to_have_attribute("aria-label", re.compile(r"^access: busy [\d.]+ %, queue full [\d.]+ %"))
    points = page.locator("#run-plane circle")
    expect(points).to_have_count(4)
    expect(page.locator("#run-plane svg")).to_have_attribute("aria-label", re.compile("opt0 access .* opt3 access"))


def test_an_export_is_of_what_the_stages_show_while_the_text_is_broken(open_page: OpenPage) -> None:
    """The stages show RM1:L0, whose rows have 32 elements; the text says 128."""
    page = open_page(SLS)
    edit_of(page)
    expect(page.locator("#sizes .field")).to_have_value("32")
    change(page, "bag", "bog")
    expect(page.locator("#problems")).to_be_visible()
    with page.expect_download() as caught:
        page.get_by_role("button", name="Export", exact=True).click()
        page.locator("[data-act=export]").click()
    assert caught.value.suggested_filename == "SLS.json"
    exported = json.loads(caught.value.path().read_text(encoding="utf-8"))
    assert exported["ok"]
    assert exported["sizes"] == {"D": 32}


def test_a_smaller_queue_is_another_machine(open_page: OpenPage) -> None:
    page = open_page(SLS)
    open_dock(page)
    simulate(page)
    usual = cycles(page)
    slider = page.locator(".knob", has=page.locator("#machine-queue_bytes")).locator("input[type=range]")
    slider.focus()
    page.keyboard.press("Home")
    expect(page.locator("#machine-queue_bytes")).to_have_value("128")
    simulate(page)
    expect(page.locator("#run-traffic")).to_contain_text("of 128 B")
    assert cycles(page) > usual
    page.locator("#machine-queue_bytes").fill("60")
    page.locator("#run").click()
    expect(page.locator("#run-main .msg")).to_contain_text(re.compile("queue", re.IGNORECASE))
    page.locator("#machine-reset").click()
    expect(page.locator("#machine-queue_bytes")).to_have_value("8192")
    # Any other parameter waits in a list.
    page.locator("summary", has_text="all of the machine").click()
    page.locator("#machine-hbm_gbs").fill("1")
    simulate(page)
    assert cycles(page) > usual


def test_the_cursor_moves_by_keyboard_and_shows_what_is_queued(open_page: OpenPage) -> None:
    page = open_page(SLS)
    open_dock(page)
    simulate(page)
    cursor = page.get_by_role("slider", name="Cycle under the cursor")
    cursor.focus()
    page.keyboard.press("Home")
    expect(cursor).to_have_attribute("aria-valuenow", "0")
    page.keyboard.press("ArrowRight")
    first = int(cursor.get_attribute("aria-valuenow") or 0)
    assert first > 0
    expect(cursor).to_have_attribute("aria-valuetext", re.compile(r"cycle [\d,]+: [\d,]+ B in the data queue"))
    queue = pane(page, "dlc").locator(".qs")
    expect(queue.locator(".slot:not(.free)").first).to_contain_text("d_end")
    expect(pane(page, "dlc").locator(".l.here")).not_to_have_count(0)
    pane(page, "slc").locator(".body").focus()
    page.keyboard.press(".")
    expect(cursor).not_to_have_attribute("aria-valuenow", str(first))
    page.keyboard.press(",")
    expect(cursor).to_have_attribute("aria-valuenow", str(first))
    cursor.focus()
    page.keyboard.press("End")
    expect(queue).to_contain_text("the first 64 tokens")


def test_the_window_is_dragged_and_moved(open_page: OpenPage) -> None:
    page = open_page(SLS)
    open_dock(page)
    simulate(page)
    brush = page.get_by_role("slider", name="Window over the whole run")
    brush.press("Escape")
    expect(brush).to_have_attribute("aria-valuetext", re.compile(r"cycles 0 to ([\d,]+) of \1$"))
    whole = brush.get_attribute("aria-valuetext") or ""
    box = page.locator(".lane.whole .chart").bounding_box()
    assert box is not None
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] * 0.4, middle)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.6, middle, steps=4)
    page.mouse.up()
    expect(brush).not_to_have_attribute("aria-valuetext", whole)
    dragged = brush.get_attribute("aria-valuetext") or ""
    brush.focus()
    page.keyboard.press("ArrowRight")
    expect(brush).not_to_have_attribute("aria-valuetext", dragged)
    page.keyboard.press("Escape")
    expect(brush).to_have_attribute("aria-valuetext", whole)


def test_the_reuse_distances_of_the_data_are_drawn(open_page: OpenPage) -> None:
    page = open_page(SLS)
    open_dock(page, "RM1:L2")
    figure = page.locator("#reuse-figure svg")
    expect(figure).to_have_attribute("aria-label", re.compile(r"9\d % of 8,192 accesses"))
    page.locator("#run-data").select_option("RM1:L0")
    expect(figure).not_to_have_attribute("aria-label", re.compile(r"9\d % of 8,192"))


def test_the_data_follow_the_kind_of_op(open_page: OpenPage) -> None:
    page = open_page("/?example=embedding/spmm")
    edit_of(page)
    own, preset = page.locator("#run-data option").first, page.locator("#run-data option:checked")
    expect(own).to_have_text("family.tsv (triples as a matrix)")  # a file of the server's, before what is generated
    expect(preset).to_contain_text("vertices")
    page.locator("button.pick").click()
    page.locator('[data-example="embedding/spattn"]').click()
    expect(preset).to_contain_text("BigBird")


def test_two_option_sets_are_compared(open_page: OpenPage) -> None:
    page = open_page(SLS)
    edit_of(page)
    page.locator("#compare").click()
    expect(pane(page, "slc")).to_contain_text("the same: change a size or an option")
    page.locator("#vlen").fill("8")
    opt1 = pane(page, "slc.opt1")
    expect(opt1.locator(".side")).to_have_count(2)
    expect(opt1.locator(".dl").first).to_contain_text("vlen 16")
    expect(opt1.locator(".dl").last).to_contain_text("vlen 8")
    expect(opt1.locator(".l.add .w").first).to_have_text(re.compile("8"))
    expect(opt1.locator(".l.add").first).to_be_in_viewport()
    expect(pane(page, "slc")).to_contain_text("the same with vlen 16 as with vlen 8")
    page.locator("#compare").click()
    expect(page.locator(".side")).to_have_count(0)


CURSOR = """() => {
    const [at, chart] = [".lanes .at", ".lanes .chart"].map(each => document.querySelector(each));
    const [line, box] = [at.getBoundingClientRect(), chart.getBoundingClientRect()];
    const [from, to] = document.querySelector(".brush").ariaValueText.replaceAll(",", "").match(/\\d+/g).map(Number);
    const share = (Number(at.ariaValueNow) - from) / (to - from);
    return Math.abs((line.left - box.left) / box.width - share) < 0.01;
}"""


def test_the_cursor_of_the_queues_stays_at_its_cycle_in_another_window(open_page: OpenPage) -> None:
    page = open_page(SLS)
    open_dock(page)
    simulate(page)
    for width, columns in ((1600, 5), (1024, 2), (1200, 4), (1360, 5)):
        page.set_viewport_size({"width": width, "height": 900})
        page.wait_for_function(CURSOR)
        widths = page.locator("#dock-body").evaluate("body => getComputedStyle(body).gridTemplateColumns")
        assert len(widths.split()) == columns, width
        beyond = page.locator("#dock-body > .col").evaluate_all(
            "parts => parts.map(part => part.scrollWidth - part.clientWidth)"
        )
        assert max(beyond) <= 0, width
    # Of two columns that share a place none lies on the other, and those beside them stay where they are.
    page.set_viewport_size({"width": 1200, "height": 900})
    page.wait_for_function(CURSOR)
    plane, result = (page.locator(part).bounding_box() for part in ("#run-plane", ".col.result"))
    assert plane
    assert result
    assert plane["y"] + plane["height"] <= result["y"]
    before = page.locator("#run-main").bounding_box()
    page.locator("#run-check").scroll_into_view_if_needed()
    expect(page.locator("#run-check")).to_be_in_viewport()
    assert page.locator("#run-main").bounding_box() == before
