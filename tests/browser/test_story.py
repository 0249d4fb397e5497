"""The story of one operation: by key and by click, what it leads to, and the link that opens it."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import OpenPage
from tests.browser.driving import DISTMULT, change, edit_of, expect_edit_after, pane, reload, run_on, write
from tests.browser.test_accessibility import axe, violations

__all__ = ["axe"]
pytestmark = pytest.mark.browser


def told(page: Page) -> None:
    expect(page.locator("#story .told")).to_be_visible()
    expect(page.locator("#story")).not_to_have_attribute("aria-busy", "true")


def test_a_story_is_told_by_key_led_away_from_and_opened_again_by_its_link(open_page: OpenPage) -> None:
    page = open_page()
    pane(page, "loops").locator(".l", has_text="y[k2] +=").click()
    page.keyboard.press("w")
    told(page)
    expect(page.locator("#story-label")).to_have_text("@")
    expect(page.locator(".scene.text .w")).to_have_text("@")
    loops = page.locator('[data-scene="loops"]')
    expect(loops.locator(".hop", has_text="interchange")).to_contain_text("walks the rows of P")
    expect(loops.locator(".l .t").last).to_have_text("s1 = y[k]")
    expect(page.locator('[data-cost="dae"]')).to_have_text("not run yet")
    page.keyboard.press("Alt+ArrowDown")
    expect(page.locator("#story-label")).to_have_text("P[r]")
    page.wait_for_function(
        "() => atob(location.hash.slice(3).replaceAll('-', '+').replaceAll('_', '/')).includes('\"story\":5')"
    )
    reload(page)
    told(page)
    expect(page.locator("#story-label")).to_have_text("P[r]")
    page.keyboard.press("Escape")
    expect(page.locator("#story")).to_be_hidden()
    expect(pane(page, "loops").locator(".l").first).to_be_attached()


def test_a_hop_opens_its_pass_and_a_refusal_its_operation(open_page: OpenPage) -> None:
    page = open_page("/?example=rgnn/rgat")
    graph = pane(page, "graph")
    graph.get_by_role("button", name="Passes").click()
    graph.locator(".of button", has_text="dot").click()
    told(page)
    expect(page.locator("#story-label")).to_have_text("dot")
    compact = page.locator(".hop", has_text="compact").first
    expect(compact.locator(".saved")).to_contain_text("rows −80 %")
    compact.locator(".by").click()
    expect(page.locator("#story")).to_be_hidden()
    expect(graph.locator(".pass[aria-current]")).to_contain_text("compact")
    expect(graph.locator(".diff")).to_be_visible()

    hint = page.locator("#aggregate-effect button")
    expect(hint).to_contain_text("refused")
    hint.click()
    told(page)
    expect(page.locator(".hop", has_text="aggregate_first").first).to_be_visible()


def test_a_story_ends_with_the_last_run_and_its_instructions(open_page: OpenPage) -> None:
    page = open_page()
    edit = edit_of(page)
    write(page, DISTMULT)
    expect_edit_after(page, edit)
    run_on(page, "dae", 64)
    expect(page.locator("#run-summary")).to_contain_text("cycles")
    graph = pane(page, "graph")
    graph.locator(".l", has_text="= mul").first.click()
    graph.locator("[data-lit]").click()
    told(page)
    expect(page.locator('[data-cost="dae"]')).to_contain_text(re.compile(r"execute unit [\d,]+, [\d.]+ % .*simulated"))
    page.locator('[data-act="story-machine-code"]').first.click()
    expect(page.locator(".mix")).to_be_visible()
    expect(page.locator('[data-scene="sass"] .l').first).to_contain_text("/*")


def test_two_sides_stand_beside_each_other(open_page: OpenPage) -> None:
    page = open_page()
    edit = edit_of(page)
    page.locator("#compare").click()
    page.locator('[data-option="interchange"]').click()
    expect_edit_after(page, edit)
    pane(page, "loops").locator(".side:last-child .l", has_text="= P[ir").click()
    page.keyboard.press("w")
    told(page)
    expect(page.locator("#story .ab-both")).to_be_visible()
    expect(page.locator('[data-scene="loops"] .sides > .side')).to_have_count(2)
    expect(page.locator('[data-scene="graph"]')).to_contain_text("A and B alike")
    hop = page.locator('[data-scene="loops"] .sides > .side').first.locator(".hop", has_text="interchange")
    expect(hop).to_have_count(1)


@pytest.mark.parametrize("width", [1600, pytest.param(1024, marks=pytest.mark.sweep), 390])
def test_axe_finds_nothing_in_a_story(open_page: OpenPage, axe: str, width: int) -> None:
    page = open_page("/?example=rgnn/rgat", width=width, height=900)
    page.keyboard.press("Alt+ArrowDown")
    page.keyboard.press("w")
    told(page)
    assert violations(page, axe) == []


def test_kernels_are_boxes_and_barriers_say_why(open_page: OpenPage, axe: str) -> None:
    page = open_page("/?example=rgnn/rgat")
    graph = pane(page, "graph")
    graph.locator("[data-act=drawn]").click()
    expect(graph.locator(".kn text")).to_have_text(["RGAT_0", "RGAT_1", "RGAT_2", "RGAT_3"])
    cut = graph.locator(".cut").first
    cut.focus()
    expect(cut).to_have_attribute("aria-label", re.compile("not fused: %.* is read through"))
    expect(graph.locator(".barriers").first).to_contain_text("In 4 kernels: ")
    page.keyboard.press("Enter")  # the edge leads to the story of its operation
    told(page)
    page.keyboard.press("Escape")
    listed = graph.locator("details.barriers")
    listed.locator("summary").click()
    expect(listed.locator("summary")).to_contain_text(re.compile(r"without fusion [\d.]+ [kMG]?B"))
    expect(listed.locator("li").first).to_contain_text(re.compile(r"%\w+ → %\w+ [\d.]+ [kMG]?B not fused: "))
    listed.locator("li button").first.click()
    told(page)
    page.keyboard.press("Escape")
    assert violations(page, axe) == []
    graph.locator(".nd", has_text="leaky_relu").click()
    page.keyboard.press("w")
    told(page)
    expect(page.locator(".predicted")).to_contain_text("FLOP")


def test_cuke_s_sixteen_gigabytes_stand_beside_the_graph(open_page: OpenPage, axe: str) -> None:
    page = open_page("/?example=kge/transr")
    edit = edit_of(page)
    change(page, "D = 64, K = 64", "D = 1024, K = 1024")
    expect_edit_after(page, edit)
    graph = pane(page, "graph")
    graph.locator("[data-act=drawn]").click()
    page.locator("#dock-toggle").click()
    page.locator("#run-batch").fill("4096")
    expect(graph.locator("details.barriers summary")).to_contain_text(
        re.compile(r"batch of 4,096 triples, without fusion 17\.\d GB .*the largest, %\w+, P\[r\], has 17\.2 GB")
    )
    graph.locator("details.barriers summary").click()
    expect(graph.locator("details.barriers")).to_contain_text("= 16GB")
    assert violations(page, axe) == []
