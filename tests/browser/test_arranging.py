"""Panes are resized and moved by pointer and key, stages opened by letters; a projector's page; small screens."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import OpenPage
from tests.browser.driving import A_FRAME, edit_of, expect_edit_after, pane, reload, wait_until_kept, write
from tests.browser.test_accessibility import AXE, violations
from tests.web.guide.texts import MANY, long_text

pytestmark = pytest.mark.browser


def stages(page: Page) -> list[str | None]:
    return [each.get_attribute("data-stage") for each in page.locator("#panes > .pane").all()]


def test_panes_are_resized_and_moved_and_stay_so(open_page: OpenPage) -> None:
    page = open_page()
    edit_of(page)
    before = pane(page, "graph").bounding_box()
    split = page.locator("#splits [aria-orientation=vertical]")
    split.focus()
    for _ in range(4):
        page.keyboard.press("ArrowRight")
    after = pane(page, "graph").bounding_box()
    assert before
    assert after
    assert after["width"] == pytest.approx(before["width"] + 96, abs=3)
    pane(page, "graph").locator(".body").focus()
    page.keyboard.press("}")
    expect(page.locator("#pane-1")).to_have_attribute("data-stage", "graph")
    assert stages(page) == ["loops", "graph", "slc", "cuda"]
    page.locator("#pane-3 .at b").hover()  # once it stands still
    target = page.locator("#pane-0 .body").bounding_box()
    assert target
    page.mouse.down()
    page.mouse.move(target["x"] + 60, target["y"] + 60, steps=3)
    page.mouse.up()
    expect(page.locator("#pane-0")).to_have_attribute("data-stage", "cuda")
    wait_until_kept(page, '"panes":[{"stage":"cuda"')
    reload(page)
    expect(page.locator("#pane-0")).to_have_attribute("data-stage", "cuda")
    kept = page.locator("#pane-0").bounding_box()
    assert kept
    assert kept["width"] == pytest.approx(after["width"], abs=4)


def test_a_smaller_window_refits_panes_and_keeps_the_active_one(open_page: OpenPage) -> None:
    page = open_page("/?example=embedding/sls")
    edit_of(page)
    page.locator("#splits [aria-orientation=vertical]").first.focus()
    page.keyboard.press("ArrowRight")
    pane(page, "dlc").locator(".body").first.click()
    page.set_viewport_size({"width": 1024, "height": 768})
    expect(page.locator("#splits [aria-orientation=vertical]")).to_have_count(0)
    whole = page.locator("#panes").bounding_box()
    assert whole
    for stage in ("slc", "dlc"):
        box = pane(page, stage).bounding_box()
        assert box
        assert box["width"] == pytest.approx(whole["width"], abs=1)
    page.locator("#dock-toggle").click()
    expect(pane(page, "dlc")).to_be_visible()
    page.set_viewport_size({"width": 1600, "height": 1000})
    expect(page.locator("#panes > .pane:visible")).to_have_count(5)
    expect(page.locator("#splits [aria-orientation=vertical]")).to_have_count(2)


def test_panes_beside_differences_leave_no_place_over(open_page: OpenPage) -> None:
    page = open_page("/?example=rgnn/rgat")
    edit = edit_of(page)
    pane(page, "loops").locator("[data-act=passes]").click()
    listed = pane(page, "loops").locator(".passes")
    expect(listed).to_be_visible()
    width = pane(page, "loops").evaluate("pane => pane.querySelector('.body').clientWidth / pane.clientWidth")
    assert width > 0.95, "the list of passes leaves a narrow pane's text its width"
    listed.locator("[data-act=pass]").nth(1).click()  # not the last: A|B compares the end of a stage alone
    page.locator("#compare").click()
    expect_edit_after(page, edit)
    expect(pane(page, "slc")).to_have_attribute("data-shows", "alike")
    assert pane(page, "loops").get_attribute("data-shows") == "code"
    widths = page.locator("#panes").evaluate("panes => [...panes.children].map((pane) => pane.clientWidth)")
    assert max(widths) - min(widths) <= 1, widths


def test_the_model_and_the_way_to_a_story_are_in_sight_on_a_laptop(open_page: OpenPage) -> None:
    page = open_page("/?example=kge/transh", width=1440, height=900)
    edit_of(page)
    expect(page.locator(".opts")).to_contain_text("more that change")
    expect(page.locator(".cm-line", has_text="return").last).to_be_in_viewport(ratio=1)
    page.locator("#dock-toggle").click()
    pane(page, "graph").locator(".l", has_text="norm").first.click()
    page.locator(".opn [data-act=story]").click()
    expect(page.locator("#story .told")).to_be_visible()


@pytest.mark.parametrize("height", [768, 600])
def test_panes_keep_a_useful_height_beside_an_open_run_panel(open_page: OpenPage, height: int) -> None:
    page = open_page("/?example=kge/transr", width=1366, height=height)
    edit_of(page)
    if page.locator("#dock-toggle").get_attribute("aria-expanded") == "false":
        page.locator("#dock-toggle").click()
    expect(page.locator(".dock.open")).to_be_visible()
    page.evaluate(A_FRAME)
    heights = page.locator("#panes .body").evaluate_all("bodies => bodies.map((body) => body.clientHeight)")
    assert len(heights) >= 4
    assert min(heights) >= 96, "a head, and four lines below it"
    hidden = page.locator("#panes").evaluate("panes => panes.scrollHeight - panes.clientHeight")
    assert hidden == 0 if height == 768 else hidden > 0, (
        "of a low window all rows are in sight, of a lower one they scroll"
    )
    page.locator("#panes > .pane").last.scroll_into_view_if_needed()
    expect(page.locator("#panes > .pane").last.locator(".ph")).to_be_in_viewport(ratio=1)
    split = page.locator('[role=separator][data-axis="rows"]')
    assert split.count() == (height == 768)
    if height == 768:
        split.focus()
        for _ in range(8):
            page.keyboard.press("ArrowUp")
        heights = page.locator("#panes > .pane").evaluate_all("panes => panes.map((pane) => pane.clientHeight)")
        assert 128 <= min(heights) < max(heights)


def test_what_is_too_long_for_its_place_says_so_and_the_rest_is_whole(open_page: OpenPage) -> None:
    page = open_page("/?example=kge/transr")
    page.set_viewport_size({"width": 1366, "height": 768})
    edit_of(page)
    made = pane(page, "cuda").locator(".from button", has_text="group the rows").first
    ends = made.evaluate("(made) => [made, made.parentElement].map((part) => part.getBoundingClientRect().right)")
    assert ends[0] <= ends[1]  # so that its own three dots show
    shown = pane(page, "graph").locator(".seg > :visible")
    expect(shown).to_have_text("drawn")
    expect(shown).to_have_css("border-left-width", "0px")
    page.set_viewport_size({"width": 1024, "height": 768})
    name = page.locator(".ed > .sec > .dim")
    assert name.evaluate("(part) => part.scrollWidth <= part.clientWidth")
    page.locator("#editor .cm-content").focus()
    expect(page.locator(".leave")).to_be_visible()


def test_stages_open_by_letters_and_nothing_moves_on_hover(open_page: OpenPage) -> None:
    page = open_page()
    edit_of(page)
    page.locator("#pane-0 .body").focus()
    page.keyboard.press("g")
    page.keyboard.press("k")
    expect(page.locator("#pane-0")).to_have_attribute("data-stage", "kernels")
    options = page.locator(".opts")
    expect(options).to_contain_text("more that change")  # what each would change has come, and folded some
    before = options.bounding_box()
    page.locator("#pane-1 .l[data-operations]").nth(3).hover()
    expect(page.locator("#operation-label")).not_to_be_empty()
    assert options.bounding_box() == before
    page.locator(".cm-content").focus()
    page.keyboard.press("Escape")
    page.keyboard.press("Tab")
    assert not page.evaluate("document.querySelector('.cm-editor').contains(document.activeElement)")


TOOLS = ".ph .tools .ib:visible"


def test_the_head_of_a_narrow_pane_names_its_pass_and_keeps_its_tools(open_page: OpenPage) -> None:
    page = open_page("/?example=embedding/sls", width=1200, height=900)
    edit_of(page)
    name = pane(page, "slc.opt1").locator(".at b")
    assert name.evaluate("name => name.scrollWidth <= name.clientWidth")
    before = page.locator(TOOLS).evaluate_all("tools => tools.map(tool => tool.getBoundingClientRect().x)")
    pane(page, "slc.opt1").locator(".l[data-operations]").nth(3).hover()
    lit = pane(page, "slc.opt1").locator("[data-lit]")
    expect(lit).to_have_text(re.compile(r"\d+ lines"))
    after = page.locator(TOOLS).evaluate_all("tools => tools.map(tool => tool.getBoundingClientRect().x)")
    assert after == before


def test_what_is_looked_for_is_found_behind_the_first_thousands(open_page: OpenPage) -> None:
    page = open_page()
    edit = edit_of(page)
    write(page, long_text())
    expect_edit_after(page, edit)
    graph = pane(page, "graph")
    expect(graph.locator(".more")).to_contain_text("5,000 of")
    graph.locator(".body").focus()
    page.keyboard.press("/")
    page.keyboard.type(f"a{MANY - 1}[")
    expect(graph.locator(".find output")).to_have_text("1 of 1")
    expect(graph.locator(".more")).to_have_count(0)


def test_a_projector_is_kept_in_the_address(open_page: OpenPage) -> None:
    page = open_page()
    edit_of(page)
    page.locator(".top > [data-act=projector]").click()
    expect(page).to_have_url(re.compile("projector=1"))
    reload(page)
    expect(page.locator("html")).to_have_attribute("data-projector", "")
    size = page.evaluate("document.querySelector('.pane .l').getBoundingClientRect().height")
    assert size == pytest.approx(40, abs=1)
    page.locator("#pane-0 .body").first.focus()
    page.keyboard.press("v")
    expect(page).not_to_have_url(re.compile("projector"))


def test_a_projector_of_1024_pixels_shows_the_run_or_the_stages(open_page: OpenPage) -> None:
    page = open_page("/?example=embedding/sls&projector=1", width=1024, height=768)
    expect(page.locator("#status")).to_contain_text("Up to date")
    page.locator("#dock-toggle").click()
    dock, queues = page.locator("#dock").bounding_box(), page.locator("#dock .main-col").bounding_box()
    assert dock
    assert queues
    assert dock["y"] >= 80, "below the bar at the top"
    assert dock["y"] + dock["height"] <= 769
    assert queues["y"] < 300, "before the set-up"
    expect(page.locator("#stages")).to_be_hidden()
    page.locator("#dock-toggle").click()
    expect(page.locator("#stages")).to_be_visible()


def test_the_menu_of_exports_opens_below_its_button(open_page: OpenPage) -> None:
    page = open_page(width=1440, height=900)
    edit_of(page)
    opens = page.locator(".top > [popovertarget=exports]")
    opens.click()
    button, menu = opens.bounding_box(), page.locator("#exports").bounding_box()
    assert button
    assert menu
    assert menu["x"] <= button["x"] <= menu["x"] + menu["width"]
    assert page.locator("#exports").evaluate("menu => menu.scrollWidth <= menu.clientWidth")


@pytest.mark.parametrize("width", [pytest.param(1024, marks=pytest.mark.sweep), 390])
def test_all_actions_are_there_on_small_screens(open_page: OpenPage, width: int) -> None:
    page = open_page("/", width=width, height=844)
    expect(page.locator("#status")).to_contain_text("Up to date")
    page.locator("[popovertarget=actions]").click()
    for action in ("share", "compare", "help", "projector"):
        expect(page.locator(f"#actions [data-press={action}]")).to_be_visible()
    expect(page.locator("#actions [popovertarget=exports]")).to_be_visible()
    assert violations(page, Path(AXE).read_text(encoding="utf-8")) == []
    page.locator("#actions [data-press=help]").click()
    expect(page.locator("#help")).to_be_visible()
