"""axe-core finds nothing to complain of (WCAG 2.2 A and AA) in the page's main states, in either theme."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from explorer.checkout import CHECKOUT
from tests.browser.conftest import OpenPage, Theme
from tests.browser.driving import change, edit_of, pane, run_on

pytestmark = pytest.mark.browser

AXE = CHECKOUT / "node_modules" / "axe-core" / "axe.min.js"
LEVELS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
THEMES: tuple[Theme, ...] = ("light", "dark")


@pytest.fixture(scope="module")
def axe() -> str:
    """The checker itself. It is handed to the page by the debugger: the page's policy lets no such script in."""
    return Path(AXE).read_text(encoding="utf-8")


def violations(page: Page, axe: str) -> list[str]:
    """What axe finds in either theme: the rule, and the first elements that break it."""
    page.evaluate(axe)
    return [found for theme in THEMES for found in _violations_in(page, theme)]


def _violations_in(page: Page, theme: Theme) -> list[str]:
    page.emulate_media(color_scheme=theme)
    found: dict[str, Any] = page.evaluate(
        "async (tags) => axe.run(document, { runOnly: tags, resultTypes: ['violations'] })", LEVELS
    )
    return [
        f"{theme}: {rule['id']}: {[node['html'][:160] for node in rule['nodes'][:3]]}"
        f" {rule['nodes'][0]['failureSummary'][:300]}"
        for rule in found["violations"]
    ]


@pytest.mark.parametrize("width", [1600, *(pytest.param(width, marks=pytest.mark.sweep) for width in (1024, 390))])
def test_the_page_as_it_opens(open_page: OpenPage, axe: str, width: int) -> None:
    page = open_page(width=width, height=900)
    expect(page.locator("#status")).to_contain_text("Up to date")
    assert violations(page, axe) == []


def test_passes_a_difference_and_a_pinned_operation(open_page: OpenPage, axe: str) -> None:
    page = open_page()
    edit_of(page)
    loops = pane(page, "loops")
    loops.locator("[data-act=passes]").click()
    loops.locator("[data-act=diff]").click()
    loops.locator(".pass", has_text="interchange").click()
    expect(loops.locator(".side")).to_have_count(2)
    page.keyboard.press("Alt+ArrowDown")
    page.locator("[data-act=pin]").click()
    expect(page.locator("#panes .l.lit, #panes .l.pin")).not_to_have_count(0)
    assert violations(page, axe) == []


def test_a_broken_model(open_page: OpenPage, axe: str) -> None:
    page = open_page()
    edit_of(page)
    change(page, "+ R[r]", "+ Rr[r]")
    expect(page.locator("#problems")).to_contain_text("Rr")
    assert violations(page, axe) == []


@pytest.mark.parametrize("target", ["dae", pytest.param("cpu", marks=pytest.mark.sweep)])
def test_a_run(open_page: OpenPage, axe: str, target: str) -> None:
    page = open_page("/?example=kge/transe_l2")
    edit_of(page)
    run_on(page, target, 64)
    expect(page.locator("#run-check")).to_contain_text("Matches")
    assert violations(page, axe) == []


@pytest.mark.sweep
def test_an_operation_with_its_levels_compared(open_page: OpenPage, axe: str) -> None:
    page = open_page("/?example=embedding/sls")
    edit_of(page)
    page.locator("#dock-toggle").click()
    page.locator("#run-data").select_option("RM1:L0")
    page.locator("[data-act=run]").click()
    expect(page.locator("[data-act=compare-levels]")).to_be_visible()
    page.locator("[data-act=compare-levels]").click()
    expect(page.locator(".levels:not(.by) tbody:has(.bar)")).to_have_count(4)
    expect(page.locator("#run")).to_be_visible()
    expect(page.locator("#reuse-figure svg")).to_be_visible()
    assert violations(page, axe) == []


def test_two_option_sets_and_a_search(open_page: OpenPage, axe: str) -> None:
    page = open_page("/?example=embedding/sls")
    edit_of(page)
    page.locator("#compare").click()
    page.locator("#vlen").fill("8")
    expect(pane(page, "slc.opt1").locator(".side")).to_have_count(2)
    pane(page, "slc.opt1").locator(".body").last.click()
    page.keyboard.press("/")
    page.keyboard.type("slcv")
    expect(page.locator(".find output")).to_contain_text("1 of")
    assert violations(page, axe) == []


@pytest.mark.sweep
def test_a_drawn_graph(open_page: OpenPage, axe: str) -> None:
    page = open_page("/?example=rgnn/rgat")
    edit_of(page)
    pane(page, "graph").locator("[data-act=drawn]").click()
    pane(page, "graph").locator(".nd[data-operations]").first.click()
    expect(page.locator(".nd.lit, .nd.pin")).not_to_have_count(0)
    assert violations(page, axe) == []


def test_the_list_of_keys(open_page: OpenPage, axe: str) -> None:
    page = open_page()
    page.keyboard.press("?")
    expect(page.locator("#help")).to_be_visible()
    assert violations(page, axe) == []
