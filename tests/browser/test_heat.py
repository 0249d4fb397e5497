"""The column of times beside the lines: by key and by button, asked for only while it is shown, and never over code."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.conftest import OpenPage, Theme
from tests.browser.driving import DISTMULT, edit_of, expect_edit_after, operation, pane, reload, wait_until_kept, write
from tests.browser.test_accessibility import axe, violations

__all__ = ["axe"]
pytestmark = pytest.mark.browser


def asked(page: Page) -> list[str]:
    """The bodies of what the page asks for its times, from now on."""
    bodies: list[str] = []
    page.on("request", lambda request: bodies.append(request.post_data or "") if "/heat" in request.url else None)
    return bodies


def lefts(page: Page, part: str) -> float:
    """Where a part of the loops' first line begins."""
    box = pane(page, "loops").locator(f".l {part}").first.bounding_box()
    assert box
    return box["x"]


def test_a_key_shows_the_time_of_each_line_s_operation(open_page: OpenPage) -> None:
    page = open_page()
    bodies = asked(page)
    before = lefts(page, ".t")
    assert pane(page, "loops").locator(".heat").count() == 0
    page.keyboard.press("h")
    line = pane(page, "loops").locator(".l", has_text="= P[ir").first
    expect(line.locator(".heat")).to_have_text("4.9 ns")
    expect(line.locator(".heat")).to_have_attribute(
        "title", re.compile(r"^predicted: 0 FLOP and 16.4 kB to move: 4.9 ns, for its memory; 9\d % of all operations$")
    )
    expect(page.locator('.top [data-act="heat"]')).to_have_attribute("aria-pressed", "true")
    cell, code = line.locator(".heat").bounding_box(), line.locator(".t").bounding_box()
    assert cell
    assert code
    assert cell["x"] + cell["width"] <= code["x"]
    assert len(bodies) == 1
    wait_until_kept(page, '"heat":true')
    page.keyboard.press("h")
    expect(page.locator(".heat")).to_have_count(0)
    assert lefts(page, ".t") == before
    assert len(bodies) == 1


@pytest.mark.parametrize("width", [1600, 390])
def test_the_panel_says_it_in_words_by_keyboard_alone(open_page: OpenPage, width: int) -> None:
    page = open_page(width=width)
    page.keyboard.press("h")
    expect(pane(page, "graph").locator(".heat").first).to_be_attached()
    page.keyboard.press("Alt+ArrowDown")
    expect(page.locator("#operations .facts:not([hidden]) .heat-words").last).to_be_visible()
    expect(page.locator("#operations .facts:not([hidden]) .heat-words").last).to_contain_text("predicted: ")


def test_an_edit_has_its_own_times_and_is_not_slowed_while_they_are_hidden(open_page: OpenPage) -> None:
    page = open_page()
    bodies, held = asked(page), list[Route]()
    edit = edit_of(page)
    write(page, DISTMULT)
    expect_edit_after(page, edit)
    page.locator('.top [data-act="heat"]').click()
    loaded = pane(page, "loops").locator(".l", has_text="= E[ih").first.locator(".heat")
    expect(loaded).to_have_text("9.6 ps")  # eight floats
    assert len(bodies) == 1
    edit = edit_of(page)
    page.route("**/heat", lambda route: held.append(route))
    write(page, DISTMULT.replace("D = 8", "D = 800"))
    expect_edit_after(page, edit)
    expect(page.locator(".heat")).to_have_count(0)  # those of the older text are gone
    while not held:
        page.wait_for_timeout(50)
    held[0].continue_()
    expect(loaded).to_have_text("955 ps")
    assert len(bodies) == 2


def test_a_link_opens_with_the_times(open_page: OpenPage) -> None:
    page = open_page("/?example=rgnn/rgat")
    edit = edit_of(page)
    page.locator('[data-option="grad"]').click()
    expect_edit_after(page, edit)
    page.keyboard.press("h")
    wait_until_kept(page, '"heat":true')
    reload(page)
    for stage in ("graph", "loops", "slc", "cuda"):
        expect(pane(page, stage).locator(".heat").first).to_be_attached()
    product = operation(page, "@")
    words = page.locator(f'#operations [data-operation="{product}"] dd.heat-words').text_content()
    own = f'.l:is([data-operations="{product}"], [data-operations^="{product} "])'
    expect(pane(page, "graph").locator(f"{own} > .heat").first).to_have_attribute("title", words or "")
    assert re.match(r"predicted: [\d.]+ [kMG]FLOP and [\d.]+ [kMG]?B to move: ", words or "")


def test_an_operation_of_lists_has_its_times_at_every_level(open_page: OpenPage) -> None:
    page = open_page("/?example=embedding/sls")
    page.keyboard.press("h")
    for stage in ("slc", "slc.opt3", "dlc"):
        expect(pane(page, stage).locator(".heat").first).to_be_attached()


def test_samples_of_the_machine_code_stand_at_its_instructions(open_page: OpenPage) -> None:
    page = open_page("/?example=embedding/sls")
    label = "measured on a device of this test with ncu 0, 2026-01-02, at RM1:L0"
    figures = {
        str(line): {"short": f"{share:.0%}", "share": share, "words": f"{label}: {share:.0%}"}
        for line, share in ((8, 0.25), (9, 0.5))
    }
    answer = {"operations": {}, "lines": figures, "basis": label}
    bodies = asked(page)
    page.route("**/heat", lambda route: route.fulfill(json=answer))
    page.keyboard.press("g")
    page.keyboard.press("a")
    expect(pane(page, "sass").locator(".l").first).to_be_attached()
    page.keyboard.press("h")
    cells = pane(page, "sass").locator(".l > .heat")
    expect(cells).to_have_text(["25%", "50%"])
    expect(cells.first).to_have_attribute("title", f"{label}: 25%")
    expect(pane(page, "sass").locator(".l", has=page.locator(".heat")).first.locator(".g")).to_have_text("8")
    bars = cells.evaluate_all("cells => cells.map((cell) => cell.style.getPropertyValue('--share'))")
    assert bars == ["0.5", "1"]  # beside the busiest line
    assert "sass" in bodies[0]
    # Lines of the first form have other numbers.
    pane(page, "sass").evaluate("pane => pane.setAttribute('data-first', '')")
    page.keyboard.press("h")
    page.keyboard.press("h")
    expect(page.locator(".top [data-act=heat]")).to_have_attribute("aria-pressed", "true")
    expect(cells).to_have_count(0)


def test_what_has_no_times_says_why(open_page: OpenPage) -> None:
    page = open_page()
    edit = edit_of(page)
    page.locator('[data-option="grad"]').click()
    expect_edit_after(page, edit)
    page.keyboard.press("h")
    expect(page.locator("#said")).to_contain_text("No times: how many rows")
    expect(page.locator(".heat")).to_have_count(0)


LATER = pytest.mark.sweep


@pytest.mark.parametrize("theme", ["light", pytest.param("dark", marks=LATER)])
@pytest.mark.parametrize("width", [1600, pytest.param(1024, marks=LATER), 390])
def test_axe_finds_nothing_beside_the_times(open_page: OpenPage, axe: str, width: int, theme: Theme) -> None:
    page = open_page("/?example=rgnn/rgat", width=width, height=900, theme=theme)
    page.keyboard.press("h")
    expect(page.locator(".heat").first).to_be_attached()
    assert violations(page, axe) == []
