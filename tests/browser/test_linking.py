"""One operation lit everywhere, by mouse and by keyboard; and panes opened, stepped, compared, closed."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import OpenPage
from tests.browser.driving import DISTMULT, edit_of, expect_edit_after, operation, pane, point_at_model, reload, write

pytestmark = pytest.mark.browser

INK_AND_GROUND = {
    "light": ("rgb(24, 25, 27)", "rgb(244, 244, 242)"),
    "dark": ("rgb(231, 232, 234)", "rgb(13, 14, 16)"),
}
"""The colours of `--ink` and `--ground` in tokens.css."""
FOUR = ("graph", "loops", "slc", "cuda")


def expect_lit(page: Page, stage: str, number: str) -> None:
    """An operation's own lines are lit in a pane, those that it contributes to faintly, and no others."""
    expect(page.locator("[data-first]")).to_have_count(0)  # the best form of machine code comes behind the first
    own = f':is([data-operations="{number}"], [data-operations^="{number} "]):not([data-made])'
    mine, all_of_it = (pane(page, stage).locator(each) for each in (own, f'[data-operations~="{number}"]'))
    expect(mine).not_to_have_count(0)
    expect(pane(page, stage).locator(f".lit:not(.part){own}")).to_have_count(mine.count())
    expect(pane(page, stage).locator(f'.lit[data-operations~="{number}"]')).to_have_count(all_of_it.count())
    expect(pane(page, stage).locator(".lit.part")).to_have_count(all_of_it.count() - mine.count())
    expect(pane(page, stage).locator(f'.lit:not([data-operations~="{number}"])')).to_have_count(0)
    count = mine.count()
    expect(pane(page, stage).locator("[data-lit]")).to_have_text(f"{count} line{'s' if count > 1 else ''}")
    expect(page.locator(f'.st[data-open="{stage}"] .n')).to_have_text(str(count))


def test_pointing_at_an_operation_lights_it_in_four_panes(open_page: OpenPage) -> None:
    page = open_page()
    point_at_model(page, "@", "return norm")
    number = operation(page, "@")
    for stage in FOUR:
        expect_lit(page, stage, number)
    expect(page.locator(".cm-line .o-lit")).to_have_text("@")
    expect(page.locator(".cm-line .x-lit").first).to_be_visible()
    expect(page.locator("#operation-op")).to_have_text("bmv")
    page.mouse.move(800, 5)
    expect(page.locator(".l.lit")).to_have_count(0)


def test_a_lit_line_has_its_bar_whatever_ground_it_stands_on(open_page: OpenPage) -> None:
    page = open_page("/?example=rgnn/rgat")
    page.mouse.move(800, 5)
    ground = page.evaluate("""() => {
        const line = document.createElement("div");
        document.querySelector("#panes .code").append(line);
        const found = [];
        for (const own of ["", "ua", "ux", "add", "cut", "made", "none", "here"])
            for (const lit of ["lit", "lit part", "pin", "pin part"]) {
                line.className = `l ${own} ${lit}`;
                const style = getComputedStyle(line);
                const bar = style.backgroundImage.replace(/\\(.*/s, "");
                const isBare = style.backgroundColor === "rgba(0, 0, 0, 0)";
                found.push([lit.includes("part"), bar, style.backgroundSize, isBare]);
            }
        line.remove();
        return found;
    }""")
    of_part, of_own = ["repeating-linear-gradient", "4px 100%"], ["linear-gradient", "3px 100%"]
    for is_part, *bar, is_bare in ground:
        assert bar == (of_part if is_part else of_own)
        assert not is_bare


def test_a_text_is_as_high_before_it_is_scrolled_as_behind(open_page: OpenPage) -> None:
    page = open_page("/?example=rgnn/rgat")
    body = pane(page, "loops").locator(".body")
    rows, height = body.evaluate("body => [body.querySelectorAll('.l').length, body.scrollHeight]")
    assert rows > 100, "that is several chunks, of which the last is not full"
    assert rows * 20 <= height < rows * 20 + 20
    body.evaluate("body => body.scrollTo(0, body.scrollHeight)")
    expect(body.locator(".l").last).to_be_in_viewport()
    assert body.evaluate("body => body.scrollHeight") == height


DRAG = """body => new Promise(done => {
    const bottom = body.scrollHeight - body.clientHeight;
    const { top, bottom: end } = body.getBoundingClientRect();
    const look = () => [...body.querySelectorAll(".chunk")].map(chunk => {
        const box = chunk.getBoundingClientRect();
        return [chunk.firstElementChild.checkVisibility(), box.top < end && box.bottom > top];
    });
    let at = 0;
    const step = () => {
        if (body.matches(".dragged")) return done(look());
        body.scrollTop = at++ % 2 ? 0 : bottom / 2;
        requestAnimationFrame(step);
    };
    step();
})"""
"""The scroll bar dragged to and fro, however slow the host, until the page takes it for that: of each chunk whether it
is laid out, and whether it is in sight."""


def test_while_a_text_is_dragged_only_what_is_seen_is_laid_out(open_page: OpenPage) -> None:
    page = open_page("/?example=rgnn/hgt")
    edit = edit_of(page)
    page.locator("[data-option=grad]").click()
    expect_edit_after(page, edit)
    body = pane(page, "cuda").locator(".body")
    expect(body.locator(".group")).not_to_have_count(0)  # of a thousand lines
    height = body.evaluate("body => body.scrollHeight")
    chunks = body.evaluate(DRAG)
    assert {is_seen for _, is_seen in chunks} == {True, False}
    assert all(is_laid_out == is_seen for is_laid_out, is_seen in chunks)
    expect(body).not_to_have_class(re.compile("dragged"))
    expect(body.locator(".chunk[style*=visibility]")).to_have_count(0)
    assert body.evaluate("body => body.scrollHeight") == height
    assert all(
        body.locator(".chunk > .l:first-child").evaluate_all("lines => lines.map(line => line.checkVisibility())")
    )


def test_pointing_at_a_line_lights_the_model_and_the_other_panes(open_page: OpenPage) -> None:
    page = open_page()
    pane(page, "graph").locator(".l", has_text="bmv").hover()
    number = operation(page, "@")
    for stage in FOUR:
        expect_lit(page, stage, number)
    expect(page.locator(".cm-line .o-lit")).to_have_text("@")


def test_a_line_of_no_operation_leads_to_the_pass_that_made_it(open_page: OpenPage) -> None:
    page = open_page()
    loops = pane(page, "loops")
    line = loops.locator(".l.made", has_text="parallel for b")
    line.hover()
    expect(page.locator(".l.lit")).to_have_count(0)
    maker = line.locator(".from button")
    expect(maker).to_have_text("loop over B")
    expect(maker).to_have_attribute("title", "no operation of its own: made by the pass fuse of loops")
    maker.click()
    expect(loops.locator(".pass[aria-current]")).to_contain_text("fuse")
    expect(loops.locator(".at b")).to_have_text("fuse")


def test_the_keyboard_moves_over_operations_and_pins_one(open_page: OpenPage) -> None:
    page = open_page()
    page.keyboard.press("Alt+ArrowDown")
    first = page.locator("#operation-label").inner_text()
    page.keyboard.press("Alt+ArrowDown")
    second = page.locator("#operation-label").inner_text()
    assert "" != first != second != ""
    for stage in FOUR:
        expect_lit(page, stage, operation(page, second))
    page.locator("#pane-1 .body").focus()
    page.keyboard.press("n")
    expect(page.locator("#pane-1 .l.at")).to_have_count(1)
    page.keyboard.press("p")
    page.locator("#pane-0 .l.none").first.hover()
    expect(page.locator("#panes .l.pin")).not_to_have_count(0)
    page.keyboard.press("Escape")
    expect(page.locator("#panes .l.pin")).to_have_count(0)


def test_a_pin_stays_with_its_operation_and_goes_with_it(open_page: OpenPage) -> None:
    page = open_page()
    edit = edit_of(page)
    point_at_model(page, "@", "return norm")
    before = operation(page, "@")
    page.locator("[data-act=pin]").click()
    point_at_model(page, "(E[h]", "return norm")
    page.mouse.down()
    page.mouse.up()
    page.keyboard.press("Home")
    for _ in "return norm(":
        page.keyboard.press("ArrowRight")
    page.keyboard.type("R[r] * R[r] + ")
    expect_edit_after(page, edit)
    after = operation(page, "@")
    assert after != before
    expect(page.locator(".cm-line .o-pin, .cm-line .o-lit")).to_contain_text(["@"])
    page.mouse.move(800, 5)
    expect(pane(page, "graph").locator(".l.pin")).to_contain_text("bmv")
    edit = edit_of(page)
    write(page, DISTMULT)
    expect_edit_after(page, edit)
    expect(page.locator("#panes .l.pin")).to_have_count(0)


def test_a_difference_of_nothing_says_so(open_page: OpenPage) -> None:
    page = open_page()
    graph = pane(page, "graph")
    graph.locator("[data-act=diff]").click()
    expect(graph).to_contain_text("dead_values changed nothing here")
    expect(graph.locator(".body")).to_have_count(1)


@pytest.mark.parametrize("width", [1440, 1600])
def test_stage_names_are_whole_beside_a_difference(open_page: OpenPage, width: int) -> None:
    page = open_page(width=width, height=900)
    pane(page, "loops").locator("[data-act=diff]").click()
    pane(page, "loops").get_by_text(re.compile("^Compare ")).click()
    expect(pane(page, "loops").locator(".side")).to_have_count(2)
    point_at_model(page, "@", "return norm")
    for header in page.locator(".pane .ph").all():
        assert header.evaluate("element => element.scrollWidth <= element.clientWidth")
        assert header.locator("select").evaluate("element => element.scrollWidth <= element.clientWidth")


def test_panes_open_at_a_whole_line(open_page: OpenPage) -> None:
    page = open_page()
    for at in range(4):
        top = page.locator(f"#pane-{at} .body").evaluate("element => element.scrollTop")
        assert top == 0 or top % 20 == 4


def test_a_pane_opens_ptx_on_demand_and_links_it(open_page: OpenPage) -> None:
    page = open_page()
    page.locator("#pane-0 .body").click()
    page.locator('.st[data-open="ptx"]').click()
    expect(pane(page, "ptx")).to_contain_text(".visible .entry")
    point_at_model(page, "@", "return norm")
    expect_lit(page, "ptx", operation(page, "@"))


def test_sass_is_made_for_its_pane_and_linked_and_kernels_show_what_they_take(open_page: OpenPage) -> None:
    page = open_page()
    taken = re.compile(r"sm_90 · 3 kernels, at most \d+ registers, no spills · \d+ of 64 warps")
    expect(page.locator('.st[data-open="sass"] .n')).to_have_text("on demand")
    page.locator("#pane-0 .body").click()
    page.locator('.st[data-open="sass"]').click()
    expect(pane(page, "cuda").locator(".meta")).to_have_text(taken)
    expect(pane(page, "sass")).to_contain_text("FFMA")
    expect(pane(page, "sass").locator(".meta")).to_have_text(taken)
    expect(page.locator('.st[data-open="sass"] .n')).to_have_text(re.compile(r"^\d+$"))
    point_at_model(page, "@", "return norm")
    expect_lit(page, "sass", operation(page, "@"))


def test_passes_are_listed_stepped_and_compared(open_page: OpenPage) -> None:
    page = open_page()
    loops = pane(page, "loops")
    loops.locator("[data-act=passes]").click()
    expect(loops.locator(".pass", has_text="interchange")).to_be_visible()
    names = loops.locator(".pass .nm").all_inner_texts()
    loops.locator("[data-act=diff]").click()
    loops.locator(".pass", has_text="interchange").click()
    expect(loops.locator(".pass[aria-current]")).to_contain_text("interchange")
    expect(loops.locator(".side")).to_have_count(2)
    expect(loops.locator(".l.add")).not_to_have_count(0)
    loops.locator("[data-act=pass-before]").click()
    expect(loops.locator(".at b")).to_have_text(names[names.index("interchange") - 1])


def test_panes_are_added_chosen_and_closed(open_page: OpenPage) -> None:
    page = open_page()
    page.locator("[data-act=add]").click()
    expect(page.locator(".pane")).to_have_count(5)
    page.locator("#pane-4 select").select_option("dlc")
    expect(pane(page, "dlc")).to_contain_text("while ((token = ctrlQ.pop()) != done)")
    expect(pane(page, "dlc").locator(".unit")).to_have_count(2)
    page.locator("#pane-4 select").select_option("loops")
    expect(page.locator("#pane-4")).to_have_attribute("data-stage", "loops")
    for left in (4, 3, 2, 1):
        page.locator("#pane-0 [data-act=close]").click()
        expect(page.locator(".pane")).to_have_count(left)


@pytest.mark.parametrize(
    ("width", "height", "theme"),
    [
        (1600, 1000, "light"),
        (1440, 900, "dark"),
        pytest.param(1024, 768, "light", marks=pytest.mark.sweep),
        (390, 844, "light"),
        pytest.param(390, 844, "dark", marks=pytest.mark.sweep),
    ],
)
def test_nothing_overflows_in_either_theme(open_page: OpenPage, width: int, height: int, theme: str) -> None:
    page = open_page(width=width, height=height, theme=theme)
    for tab in ("stages", "model", "run") if width < 700 else ("stages",):
        if width < 700:
            page.locator(f'[data-tab-to="{tab}"]').click()
        assert page.evaluate("document.documentElement.scrollWidth") == width
        assert page.evaluate("document.body.scrollWidth") == width
    ink, ground = INK_AND_GROUND[theme]
    expect(page.locator("body")).to_have_css("color", ink)
    expect(page.locator("body")).to_have_css("background-color", ground)


def test_the_theme_is_switched_and_kept(open_page: OpenPage) -> None:
    page = open_page(theme="light")
    page.keyboard.press("t")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    reload(page)
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")


def test_help_lists_the_keys(open_page: OpenPage) -> None:
    page = open_page()
    page.keyboard.press("?")
    expect(page.locator("#help")).to_be_visible()
    expect(page.locator("#help")).to_contain_text("next problem")
    page.keyboard.press("Escape")
    expect(page.locator("#help")).to_be_hidden()


SCROLL = """(body) => new Promise(done => {
    const of = line => line.dataset.operations.split(" ")[0];
    const own = [...body.querySelectorAll(".l[data-operations]:not([data-made])")];
    const from = own.find(line => line.matches(":hover"));
    const to = own.find(line => of(line) !== of(from) && line.offsetTop > from.offsetTop);
    const lit = () => [...document.querySelectorAll("#panes .l.lit")].map(of).join();
    const before = lit(), seen = new Set(), top = body.scrollTop;
    // No time passes while it scrolls, however far a busy host's frames are apart: timers end once it has.
    const timers = new Map(), { setTimeout: set, clearTimeout: clear } = window;
    window.setTimeout = (act) => (timers.set(-1 - seen.size - timers.size, act), [...timers.keys()].at(-1));
    window.clearTimeout = (timer) => timers.delete(timer) || clear(timer);
    let frame = 0;
    const step = () => {
        frame += 1;
        body.scrollTop = frame < 30 ? top + 24 * frame : top + to.offsetTop - from.offsetTop;
        seen.add(lit());
        if (frame < 32) return requestAnimationFrame(step);
        Object.assign(window, { setTimeout: set, clearTimeout: clear });
        for (const act of timers.values()) act();
        done([before, [...seen], of(to)]);
    };
    requestAnimationFrame(step);
})"""


def test_what_passes_under_the_pointer_while_a_pane_scrolls_is_not_lit_but_what_it_rests_on_is(
    open_page: OpenPage,
) -> None:
    page = open_page()
    number = operation(page, "@")
    body = pane(page, "cuda").locator(".body")
    body.locator(f'.l[data-operations^="{number}"]:not([data-made])').first.hover()
    expect_lit(page, "cuda", number)
    before, seen, rested = body.evaluate(SCROLL)
    assert seen == [before]
    assert rested != number
    expect_lit(page, "cuda", rested)
