"""A class from its code to a hand-in, in two browsers: the student's and the instructor's."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, expect

from tests.browser.conftest import ADDRESS, PATIENCE, SERVE, wait_until_warm
from tests.browser.driving import DISTMULT, editor_text, write
from tests.browser.test_accessibility import AXE, violations

pytestmark = pytest.mark.browser

OTHER = DISTMULT.replace("E[h] * R[r] * E[t]", "E[t] * E[h] * R[r]").replace("DistMult", "Other")
NAME = "<script>Anna</script>"
REFUSED = "the server responded with a status of 403"


@pytest.fixture(scope="module")
def addresses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Where a server for a class answers, and its instructor's page with the token."""
    folder = tmp_path_factory.mktemp("hand-ins")
    options = ["--port", "0", "--class-code", "teapot", "--hand-ins", str(folder)]
    with subprocess.Popen([*SERVE, *options], stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            found = [ADDRESS.search(server.stdout.readline()) for _ in range(2)]
            assert found[0]
            assert found[1]
            address = found[0][0].rstrip("/")
            wait_until_warm(address)
            yield address, found[1][0]
        finally:
            server.terminate()


def opened(browser: Browser, complaints: list[str]) -> Page:
    context = browser.new_context(viewport={"width": 1500, "height": 1000})
    context.set_default_timeout(PATIENCE)
    expect.set_options(timeout=PATIENCE)
    page = context.new_page()
    page.on("console", lambda message: complaints.extend(_complaint(message)))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    return page


def _complaint(message: ConsoleMessage) -> list[str]:
    return [f"{message.text} {message.location['url']}"] if message.type in ("error", "warning") else []


def test_a_class_from_its_code_to_a_hand_in(browser: Browser, addresses: tuple[str, str]) -> None:
    address, desk_address = addresses
    complaints: list[str] = []
    axe = Path(AXE).read_text(encoding="utf-8")
    desk, page = opened(browser, complaints), opened(browser, complaints)
    desk.goto(desk_address)
    expect(desk).to_have_url(f"{address}/instructor")
    live, does = (desk.locator(part).bounding_box() for part in ("#live", ".does"))
    assert live
    assert does
    assert live["y"] == does["y"]  # side by side
    assert live["x"] < does["x"]
    page.goto(f"{address}/?example=kge/distmult#x")
    assert violations(page, axe) == []
    page.fill("[name=code]", "teapot")
    page.fill("[name=name]", NAME)
    page.get_by_role("button", name="Join").click()
    page.wait_for_selector(".cm-content")
    # The address is the one that was asked for, with what its # holds, until the page puts its own there.
    expect(page).to_have_url(re.compile(r"/\?example=kge/distmult#"))
    expect(desk.locator(".who")).to_contain_text(NAME)
    own = editor_text(page)

    form = desk.locator("form[hx-post='/instructor/send']")
    form.locator("[name=name]").fill("a <b>model</b>")
    form.locator("[name=text]").fill(DISTMULT)
    form.get_by_role("button", name="Send").click()
    expect(page.locator("#class-name")).to_have_text("a <b>model</b>")
    expect(desk.locator("#said")).to_have_text("Sent 'a <b>model</b>'. Students open it when they like.")
    assert editor_text(page) == own
    page.get_by_role("button", name="Open", exact=True).click()
    expect(page.locator(".cm-content")).to_contain_text("score DistMult(h")
    expect(page.locator("#class-shown")).to_contain_text("a <b>model</b> is open; your own text is kept.")
    page.get_by_role("button", name="Back to mine").click()
    expect(page.locator("#class")).to_be_hidden()
    assert editor_text(page) == own

    desk.get_by_role("button", name="Pause runs").click()
    expect(page.locator("#class-paused")).to_be_visible()
    page.locator("#run").click()
    expect(page.locator("#dock")).to_contain_text("The instructor has paused runs")
    desk.get_by_role("button", name="Stop", exact=True).click()
    expect(page.locator("#dock")).to_contain_text("The instructor stopped this run.")
    desk.get_by_role("button", name="Resume").click()
    expect(page.locator("#class")).to_be_hidden()

    form = desk.locator("form[hx-post='/instructor/assign']")
    form.locator("[name=title]").fill("Write it otherwise")
    form.locator("[name=text]").fill(DISTMULT)
    form.locator("[name=reference]").fill(DISTMULT)
    form.get_by_text("Options that keep").click()
    form.get_by_label("reorder").check()
    form.get_by_text("Stages that nobody sees").click()
    form.get_by_label("cuda", exact=True).check()
    if page.locator("[data-option=reorder]").is_hidden():  # it changes nothing here
        page.locator("#more-options").click()
    page.locator("[data-option=reorder]").click()
    expect(page.locator("[data-option=reorder]")).to_have_attribute("aria-checked", "false")
    form.get_by_role("button", name="Set").click()
    expect(page.locator("[data-option=reorder]")).to_be_disabled()
    expect(page.locator("[data-option=reorder]")).to_have_attribute("aria-checked", "true")
    expect(page.locator(".pane[data-stage=cuda]")).to_contain_text("The instructor has locked this stage")
    expect(desk.locator("#live")).to_contain_text("the reference runs")
    for text in (OTHER, OTHER.replace("* R[r]", "+ R[r]")):
        write(page, text)
        page.get_by_role("button", name="Hand in").click()
        page.get_by_role("dialog").get_by_role("button", name="Hand in").click()
        expect(page.locator("#said")).to_contain_text("Handed in as <script>Anna</script>")
    rows = desk.locator("section[aria-labelledby='handed-title'] tbody tr")
    expect(rows.nth(1)).to_contain_text("passed")
    expect(rows.nth(0)).to_contain_text("The results differ from what is expected")
    desk.get_by_role("button", name="End it").click()
    expect(page.locator("[data-option=reorder]")).to_be_enabled()
    expect(page.locator(".pane[data-stage=cuda]")).to_contain_text("__global__")
    with desk.expect_download() as download:
        desk.get_by_role("link", name="All as a zip").click()
    assert Path(download.value.path()).read_bytes()[:2] == b"PK"
    assert violations(page, axe) + violations(desk, axe) == []
    size = desk.viewport_size
    assert size
    desk.set_viewport_size({"width": 390, "height": 844})
    assert desk.evaluate("document.documentElement.scrollWidth") <= 390
    widths = rows.locator(".wraps").evaluate_all("(cells) => cells.map((cell) => cell.clientWidth)")
    assert min(widths) > 150  # what is said of a hand-in is read in lines, not in letters
    desk.set_viewport_size(size)
    desk.goto(f"{address}/instructor/projector")
    assert violations(desk, axe) == []

    desk.goto(f"{address}/instructor")
    assert complaints == []
    desk.get_by_role("button", name="Remove").click()
    page.wait_for_selector("[name=code]")  # the page came again, and asks for the code
    # What the page, not the desk, asked for between its removal and the word of it was refused, which a browser logs.
    assert [said for said in complaints if REFUSED not in said or "/instructor" in said] == []
    for context in (desk.context, page.context):
        context.close()
