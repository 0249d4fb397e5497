"""Tune beside Run: trials as they come, what one chose, the ways to have it, and what stop keeps."""

from __future__ import annotations

import csv
import json
import re
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, WebSocketRoute, expect

import explorer
from explorer.checkout import CHECKOUT
from explorer.runtime.runs import events
from explorer.tuner.space import widest
from tests.browser.conftest import OpenPage
from tests.browser.driving import A_MOMENT, DISTMULT, edit_of, expect_edit_after, reload, write
from tests.browser.test_accessibility import axe, violations

__all__ = ["axe"]
pytestmark = pytest.mark.browser

SLS = "/?example=embedding/sls"
SIDEWAYS = "element => element.scrollWidth - element.clientWidth"


def up_to_date(page: Page) -> None:
    """Small screens name no edit."""
    expect(page.locator("#status")).to_contain_text("Up to date")


def tune(page: Page, trials: int, search: str = "guided", target: str = "dae", data: str = "") -> None:
    """Set a tuning up and press Tune."""
    up_to_date(page)
    if page.locator("#dock-body").is_hidden():
        page.locator("#dock-toggle").click()
    if data:
        page.locator("#run-data").select_option(data)
        up_to_date(page)
    page.locator(f'.seg [data-target="{target}"]').click()
    page.locator("#tune-trials").fill(str(trials))
    page.locator("#tune-search").select_option(search)
    page.get_by_role("button", name="Tune", exact=True).click()


def ended(page: Page) -> None:
    expect(page.locator("#run-check")).to_contain_text("Matches the float64 reference")
    expect(page.locator("#run-summary")).to_contain_text("the best of")


def curve(page: Page) -> Locator:
    return page.get_by_role("slider", name="Best so far by trial")


def number(text: str) -> int:
    """The first number of a text, with its commas."""
    found = re.search(r"\d[\d,]*", text)
    assert found, text
    return int(found[0].replace(",", ""))


def headline(page: Page) -> int:
    return number(page.locator("#run-summary b").inner_text())


def simulated(page: Page) -> int:
    """The cycles of a run of what the page has now."""
    page.locator("#run-check").evaluate("element => { element.textContent = ''; }")
    page.locator("#run").click()
    expect(page.locator("#run-check")).to_contain_text("Matches the float64 reference")
    expect(page.locator("#run-summary")).not_to_contain_text("the best of")
    return headline(page)


def kept(page: Page) -> dict[str, Any]:
    """What the page has chosen, as a reload would find it."""
    page.evaluate(A_MOMENT)
    found: dict[str, Any] = json.loads(page.evaluate("sessionStorage.explorer"))
    return found


def test_what_a_tuning_finds_is_what_a_run_of_it_takes(open_page: OpenPage, axe: str) -> None:
    page = open_page(SLS)
    tune(page, 24)
    expect(page.locator("#run-source")).to_have_text("simulated")
    ended(page)
    best = headline(page)
    expect(curve(page)).to_have_accessible_name("Best so far by trial, simulated")
    expect(page.locator("#run-main .ch .label")).to_have_text("simulated")
    expect(page.locator("#run-detail")).to_contain_text("Nothing predicts cycles before they are simulated")
    expect(page.locator("#run-plane .label").first).to_have_text("chosen")
    expect(page.locator("#run-plane")).to_contain_text(f"{best:,} cycles")
    expect(page.locator("#run-plane li", has_text="The usual choice takes")).to_be_visible()
    changed = page.locator("#run-plane .chip.differs")
    expect(changed).not_to_have_count(0)
    assert violations(page, axe) == []
    assert kept(page)["options"] == {}, "a tuning alone changes nothing of the page"
    edit = edit_of(page)
    page.get_by_role("button", name="Use these").click()
    expect_edit_after(page, edit)
    words = changed.all_inner_texts()
    chosen = {word.split()[0]: word.split(" → ")[1] for word in words}
    options = {name: value for name, value in kept(page)["options"].items() if not name.startswith("machine.")}
    assert options.keys() == {name for name in chosen if not name.startswith("machine.")}
    for name, value in chosen.items():
        if name.startswith("machine."):
            expect(page.locator(f"#machine-{name.removeprefix('machine.')}")).to_have_value(value)
    assert simulated(page) == best


def test_a_trial_is_chosen_by_key_or_pointer_and_compared_with_the_usual(open_page: OpenPage) -> None:
    page = open_page("/?example=rgnn/rgcn")  # on a tiny graph: 12 in the server's time, whatever else is on its cores
    tune(page, 12, "random", data="tiny")
    ended(page)
    expect(page.locator("#run-main .signs")).to_contain_text("tried beside the best, ")
    expect(page.locator("#run-main .label", has_text="random search")).to_contain_text(
        "of the values that it has drawn"
    )
    expect(page.locator("#run-main path.ref.dash")).to_have_count(1)
    slider = curve(page)
    slider.focus()
    page.keyboard.press("Home")
    expect(slider).to_have_attribute("aria-valuenow", "0")
    expect(slider).to_have_attribute("aria-valuetext", re.compile(r"^trial 0: [\d,]+ cycles; the usual point$"))
    expect(page.locator("#run-plane h3")).to_have_text("Trial 0")
    expect(page.locator("#run-plane .chip.differs")).to_have_count(0)
    usual = number(page.locator("#run-plane p").first.inner_text())
    page.keyboard.press("End")
    expect(slider).to_have_attribute("aria-valuenow", "11")
    page.keyboard.press("Enter")
    expect(page.locator("#run-plane").get_by_role("button", name="Use these")).to_be_focused()
    # The table of all trials has the same, and a point of the drawing is clicked.
    page.locator("summary", has_text="all trials as a table").click()
    rows = page.locator(".trials tbody tr")
    expect(rows).to_have_count(12)
    expect(rows.first).to_contain_text(f"{usual:,}")
    rows.first.get_by_role("button", name="Trial 0").click()
    expect(page.locator("#run-plane h3")).to_have_text("Trial 0")
    ring = page.locator("#run-main circle.ring")
    slower = page.locator("#run-main path.dot, #run-main circle.dot").last
    slower.click()
    expect(page.locator("#run-plane h3")).not_to_have_text("Trial 0")
    expect(ring).to_have_count(1)
    # The last has another queue, which is no option; this one is of another level.
    rows.nth(1).get_by_role("button", name="Trial 1").click()
    edit = edit_of(page)
    page.get_by_role("button", name="Compare with the usual").click()
    expect_edit_after(page, edit)
    expect(page.locator("#sides")).to_be_visible()
    choices = kept(page)
    assert choices["against"]["options"] == {}
    assert choices["options"] != {}


def test_stop_keeps_what_was_found_and_a_taken_point_stops_nothing(open_page: OpenPage) -> None:
    page = open_page(SLS)
    tune(page, 512, "random", data="RM3:L2")  # a minute of one core's time
    expect(page.locator("#run-summary")).to_contain_text(re.compile(r"trial ([4-9]|\d\d+) of 512, best [\d,]+ cycles"))
    expect(page.locator("#run-plane .chip.differs")).not_to_have_count(0)
    edit = edit_of(page)
    page.get_by_role("button", name="Use these").click()
    expect_edit_after(page, edit)
    expect(page.locator("#stop")).to_be_visible()
    page.locator("#stop").click()
    expect(page.locator("#run-main .unsteady")).to_contain_text("What was found until then is kept.")
    expect(page.locator("#run-summary b")).to_contain_text("cycles")
    found = headline(page)
    expect(page.locator("#run-main .big")).to_contain_text(f"{found:,}")
    row = page.locator("#run-history tr").first
    expect(row.locator("button")).to_contain_text(re.compile("^tune · dae · RM3:L2"))
    expect(row).to_contain_text("cycles")
    page.locator("#tune-trials").fill("7")
    page.locator("#tune-search").select_option("guided")
    row.locator("button").click()
    expect(page.locator("#tune-trials")).to_have_value("512")
    expect(page.locator("#tune-search")).to_have_value("random")
    expect(page.locator("#run-plane")).to_contain_text(f"{found:,} cycles")
    page.get_by_role("button", name="Use these").click()
    assert simulated(page) == found


def test_a_layer_is_tuned_on_the_processor(open_page: OpenPage, axe: str) -> None:
    page = open_page("/?example=rgnn/rgcn")
    tune(page, 6, target="cpu", data="tiny")
    ended(page)
    expect(page.locator("#run-source")).to_have_text("measured")
    expect(curve(page)).to_have_accessible_name("Best so far by trial, measured")
    expect(page.locator("#run-main .big")).to_contain_text(re.compile("ms (best|at the end)"))
    expect(page.locator("#run-plane")).to_contain_text(re.compile(r"[\d.]+ ms; "))
    expect(page.locator("#run-detail")).to_contain_text("Counted: the bytes and the operations")
    scatter = page.get_by_role("slider", name="Predicted against measured")
    timed = number(page.locator("#run-detail .label", has_text="on the line").inner_text())
    assert timed > 1
    expect(scatter.locator("circle:not(.ring)")).to_have_count(timed)
    scatter.focus()
    page.keyboard.press("Home")
    expect(scatter).to_have_attribute(
        "aria-valuetext", re.compile(r"^trial 0: ([\d.]+) ms; the usual point; predicted \1$")
    )
    expect(page.locator("#run-main path.ref.dash")).to_have_count(1)
    expect(page.locator("#run-main .label", has_text="random search")).to_contain_text("by the predictions")
    expect(page.locator("#run-history tr").first.locator("button")).to_contain_text("tune · cpu · tiny")
    assert violations(page, axe) == []


def test_a_search_without_a_number_of_trials_does_not_begin(open_page: OpenPage) -> None:
    page = open_page(SLS)
    tune(page, 1)
    expect(page.locator("#said")).to_have_text("The number of trials must be a whole number from 2 to 512.")
    expect(page.locator("#stop")).to_be_hidden()


@pytest.mark.parametrize(
    ("width", "height", "path"),
    [
        pytest.param(1024, 768, "", marks=pytest.mark.sweep),
        (1200, 900, ""),
        (390, 844, ""),
        (1600, 1000, "&projector=1"),
    ],
)
def test_a_tuning_fits_where_the_page_does(open_page: OpenPage, axe: str, width: int, height: int, path: str) -> None:
    page = open_page(SLS + path, width=width, height=height)
    up_to_date(page)
    if width < 700:
        page.locator('[data-tab-to="run"]').click()
    tune(page, 8)
    ended(page)
    page.locator("#run-plane").get_by_role("button", name="Use these").scroll_into_view_if_needed()
    for part in ("html", "#dock", "#run-main", "#run-plane", "#run-detail"):
        assert page.locator(part).evaluate(SIDEWAYS) <= 0, part
    assert violations(page, axe) == []


def test_tune_says_what_it_does_and_nothing_moves_on_hover(open_page: OpenPage) -> None:
    page = open_page(SLS)
    tune(page, 8)
    ended(page)
    places = (
        "[...document.querySelectorAll('#dock *')].map(each => Object.values(each.getBoundingClientRect().toJSON()))"
    )
    page.mouse.move(700, 60)
    before = page.evaluate(places)
    page.locator("#tune").hover()
    expect(page.locator("#hint")).to_contain_text("Nothing of the page changes until you use what it has found.")
    page.locator("#run-plane .chip").first.hover()
    page.locator("#run-main .picker").hover()
    assert page.evaluate(places) == before


def test_decisions_of_kernels_are_taken_over_and_compared(open_page: OpenPage, axe: str) -> None:
    """A GPU is not needed: what it makes the server say is said here, of real points."""
    page = open_page("/?example=embedding/spmm")
    text = (CHECKOUT / "examples" / "embedding" / "spmm.emb").read_text(encoding="utf-8")
    points = widest(explorer.compile(text), 200)
    tried = [points.usual, *(point for point in range(0, len(points), 9) if point != points.usual)]
    usual = points.at(points.usual)
    genes = [{"key": gene.key, "values": gene.values, "usual": usual.get(gene.key)} for gene in points.genes]

    def answer(socket: WebSocketRoute) -> None:
        def told(message: str | bytes) -> None:
            order = json.loads(message)
            if order["type"] != "run":
                return
            labels = {"run": order["run"], "edit": order["edit"]}
            about = "Made up.", [1.0, 0.8, 0.7], "a part of the data"
            said = [events.space(len(points), genes, "ms", "measured", len(tried) + 4, *about)]
            for number, point in enumerate(tried):
                value = 2.0 / (1 + number)
                said.append(events.trial(number, points.at(point), value, "timed", value, predicted=value * 1.1))
            for event in said:
                socket.send(json.dumps({**event, **labels}))

        socket.on_message(told)

    page.route_web_socket("**/ws", answer)
    reload(page)
    up_to_date(page)
    page.locator('.st[data-open="kernels"]').click()
    page.locator('.seg [data-target="gpu"]').evaluate("button => { button.disabled = false; }")
    tune(page, 64, target="gpu")
    expect(page.locator("#run-summary")).to_contain_text(f"trial {len(tried)} of ")
    expect(page.locator("#run-detail")).to_contain_text("Pearson's r of their logarithms 1.00")
    best = points.schedule_at(tried[-1])
    changed = {key for key, value in best.items() if usual.get(key) != value}
    expect(page.locator("#run-plane .chip.differs")).to_have_count(len(changed))
    page.locator("#stop").click()
    expect(page.locator("#run-main .unsteady")).to_contain_text("What was found until then is kept.")
    expect(page.locator("#run-summary")).to_contain_text("the usual's speed, on a part of the data in single trials")
    expect(page.locator("#run-summary")).to_contain_text("not timed again")
    expect(page.locator("#run-history tr").first).to_contain_text("a single trial")
    assert violations(page, axe) == []
    edit = edit_of(page)
    page.get_by_role("button", name="Compare with the usual").click()
    expect_edit_after(page, edit)
    expect(page.locator("#sides .bad")).to_have_count(0)
    assert (kept(page)["schedule"], kept(page)["against"]["schedule"]) == (best, {})
    edit = edit_of(page)
    page.get_by_role("button", name="Use these").click()
    expect_edit_after(page, edit)
    expect(page.locator("#sides")).to_have_count(0)
    assert kept(page)["schedule"] == best
    for key in changed:
        expect(page.locator(f'[data-decision="{key}"]:is(select, input)')).to_have_value(json.dumps(best[key]))
    expect(page.locator(".decisions .no")).to_have_count(0)


def test_without_a_gpu_a_recording_is_searched_and_says_so(open_page: OpenPage) -> None:
    page = open_page(SLS)
    up_to_date(page)
    if page.locator("#dock-body").is_hidden():
        page.locator("#dock-toggle").click()
    recordings = page.get_by_role("combobox", name="tune on")
    expect(page.locator("#recordings-told")).to_have_text("2 recordings of this model")
    names = [option.get_attribute("value") for option in recordings.locator("option").all()]
    assert names == ["", "sls/bags-of-4", "sls/bags-of-64"]
    recordings.select_option(recording := names[-1])
    tune(page, 16)
    expect(page.locator("#run-source")).to_have_text("replayed")
    expect(page.locator("#run-device")).to_contain_text("recorded on NVIDIA H")
    expect(page.locator("#run-check")).to_contain_text("Nothing ran now")
    expect(page.locator("#run-summary")).to_contain_text("the best of 16 trials")
    expect(curve(page)).to_have_accessible_name("Best so far by trial, replayed")
    expect(page.locator("#run-detail")).to_contain_text("without this one")
    expect(page.locator("#run-main .label", has_text="random search")).to_contain_text("by the recorded times")
    expect(page.locator("#run-main path.ref.dash")).to_have_count(1)
    expect(page.get_by_role("button", name="Use these")).to_have_count(0)
    rows = page.locator("#run-history tr")
    expect(rows.first.locator("button")).to_have_text(re.compile(f"^tune · gpu · {recording}, replayed · "))
    recordings.select_option("")
    tune(page, 4)
    expect(page.locator("#run-source")).to_have_text("simulated")
    ended(page)
    expect(rows.first.locator("button")).to_contain_text(f"recording {recording} → usual")
    expect(rows.nth(1).locator("button")).to_contain_text(f"{recording}, replayed")
    with page.expect_download() as download:
        page.get_by_role("button", name="CSV").click()
    with open(download.value.path(), encoding="utf-8") as file:
        assert [row["data"] for row in csv.DictReader(file)] == ["RM1:L0", f"{recording}, replayed"]


def test_recordings_of_other_models_are_not_offered(open_page: OpenPage) -> None:
    page = open_page(SLS)
    up_to_date(page)
    if page.locator("#dock-body").is_hidden():
        page.locator("#dock-toggle").click()
    recordings = page.get_by_role("combobox", name="tune on")
    recordings.select_option("sls/bags-of-4")
    write(page, DISTMULT)
    expect(page.locator("#recordings-told")).to_have_text("no recording is of this model")
    expect(recordings.locator("option")).to_have_text(["the target"])
    expect(recordings).to_have_value("")
