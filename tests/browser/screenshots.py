"""The main states of the page as pictures, in both themes and at four widths: `make screenshots`.

Each state is reached once, as a reader would, and the window then takes each width and theme in turn, so that all of
them take less than two minutes. They are for looking at, beside `shared/mock/`; nothing compares them. With `--readme`,
the pictures of the README are taken anew too.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.browser.conftest import FLAGS, serving
from tests.browser.driving import UP_TO_DATE, change, edit_of, expect_edit_after, pane, run_on, visit
from tests.browser.test_edited_stages import type_over, unlock, verdict

SIZES = ((1600, 1000), (1200, 900), (1024, 768), (390, 844))
THEMES = ("light", "dark")
PATIENCE = 60_000
README = {"tour": ("light", "page"), "story": ("light", "story"), "edited": ("dark", "edited")}
"""The pictures in the README: of which states, in which theme, and their names in `docs/`."""
README_SIZE = (1200, 780)
MOST_BYTES = 200_000
"""Of a picture in the README: it is in every clone for ever."""


def tour(page: Page) -> None:
    page.locator("#about [data-act=tour]").click()
    page.locator("#tour-next").click()
    expect(page.locator("#pane-0 .side").last).to_contain_text("after interchange")


def story(page: Page) -> None:
    pane(page, "graph").locator(".l", has_text="leaky_relu").first.click()
    page.keyboard.press("w")
    expect(page.locator("#story .told")).to_be_visible()
    expect(page.locator("#story")).not_to_have_attribute("aria-busy", "true")


def edited(page: Page) -> None:
    editor = unlock(page, "loops")
    type_over(page, editor, "u * p", "u + p")
    expect(verdict(page, "loops", "wrong")).to_contain_text("proven wrong")


def sides(page: Page) -> None:
    page.locator("#compare").click()
    page.locator("#vlen").fill("8")
    expect(pane(page, "slc.opt1").locator(".side")).to_have_count(2)
    page.locator("#dock-toggle").click()
    page.locator("#run-data").select_option("RM1:L0")
    page.get_by_role("button", name="Run A|B").click()
    expect(page.locator("#run-detail .verdict")).to_contain_text("simulated")


def machine(page: Page) -> None:
    page.locator("#dock-toggle").click()
    page.locator("#run-data").select_option("RM1:L0")
    page.locator("#run").click()
    expect(page.locator("#run-check")).to_contain_text("Matches")
    page.get_by_role("slider", name="Cycle under the cursor").focus()
    page.keyboard.press("ArrowRight")
    expect(pane(page, "dlc").locator(".slot").first).to_be_attached()


def run(page: Page) -> None:
    run_on(page, "cpu", 64)
    expect(page.locator("#run-check")).to_contain_text("Matches")


def tuning(page: Page) -> None:
    page.locator("#dock-toggle").click()
    page.locator("#run-data").select_option("RM1:L0")
    page.locator("#tune").click()
    expect(page.locator("#run-check")).to_contain_text("Matches")


def drawn(page: Page) -> None:
    pane(page, "graph").locator("[data-act=drawn]").click()
    expect(pane(page, "graph").locator(".nd").first).to_be_attached()


def backward(page: Page) -> None:
    edit = edit_of(page)
    page.locator("[data-option=grad]").click()
    expect_edit_after(page, edit)


def errors(page: Page) -> None:
    change(page, "+ R[r]", "+ Rr[r]")
    expect(page.locator("#problems")).to_contain_text("Rr")


@dataclass(frozen=True)
class State:
    """A state of the page, by its link and what is done there; `tab` is the part that a phone shows."""

    name: str
    path: str = "/"
    reach: Callable[[Page], None] = lambda page: None
    tab: str = "stages"


STATES = (
    State("opening"),
    State("tour", "/", tour),
    State("story", "/?example=rgnn/rgat", story),
    State("edited", "/?example=kge/transr", edited),
    State("sides", "/?example=embedding/sls", sides, tab="run"),
    State("machine", "/?example=embedding/sls", machine, tab="run"),
    State("run", "/?example=kge/transr", run, tab="run"),
    State("tuning", "/?example=embedding/sls", tuning, tab="run"),
    State("drawn", "/?example=rgnn/rgat", drawn),
    State("backward", "/?example=rgnn/rgat", backward),
    State("errors", "/?example=kge/transr", errors, tab="model"),
    State("projector", "/?example=kge/transr&projector=1"),
)


def take(browser: Browser, address: str, state: State, folder: Path, docs: Path | None) -> None:
    """All pictures of a state."""
    width, height = SIZES[0]
    context = browser.new_context(viewport={"width": width, "height": height})
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    visit(page, address + state.path)
    expect(page.locator("#status")).to_have_text(UP_TO_DATE)
    state.reach(page)
    page.evaluate("document.fonts.ready")
    if docs and state.name in README:
        theme, name = README[state.name]
        _take_for_readme(page, theme, docs / f"{name}.png")
    for width, height in SIZES:
        page.set_viewport_size({"width": width, "height": height})
        _stand_as_opened(page, width, state.tab)
        for theme in THEMES:
            page.emulate_media(color_scheme=theme, reduced_motion="reduce")
            page.wait_for_timeout(60)
            page.screenshot(path=folder / f"{state.name}-{width}-{theme}.png")
    context.close()


def _take_for_readme(page: Page, theme: str, file: Path) -> None:
    width, height = README_SIZE
    page.set_viewport_size({"width": width, "height": height})
    page.emulate_media(color_scheme="dark" if theme == "dark" else "light", reduced_motion="reduce")
    page.wait_for_timeout(60)
    picture = page.screenshot()
    if len(picture) > MOST_BYTES:
        sys.exit(f"{file} would have {len(picture):,} bytes, more than {MOST_BYTES:,}")
    file.write_bytes(picture)


def _stand_as_opened(page: Page, width: int, tab: str) -> None:
    """What the page decides as it opens, and a reader on a phone by a tab."""
    if 700 <= width < 1200:
        page.evaluate("for (const part of document.querySelectorAll('.model > details')) part.open = false")
    if width < 700:
        page.locator(f'[data-tab-to="{tab}"]').click()


def main(folder: Path, docs: Path | None) -> None:
    """Fill the folder anew, and where `docs` is given, the README's pictures in there."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if chromium is None:
        sys.exit("no Chromium on this machine: apt-get install chromium")
    expect.set_options(timeout=PATIENCE)
    began = time.monotonic()
    with serving() as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        for state in STATES:
            take(browser, address, state, folder, docs)
        browser.close()
    print(f"{len(list(folder.glob('*.png')))} pictures in {folder}/, {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main(Path("screenshots"), Path("docs") if "--readme" in sys.argv else None)
