"""torch.compile beside a run, on a server that offers it."""

from __future__ import annotations

import importlib.util
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import OpenPage, serving
from tests.browser.driving import edit_of

TOLD = re.compile(r"torch\.compile (took [\d.]+ s to compile, which is not|has no time: it was still compiling)")

NOTE_SUMMARIES = """() => {
    const summary = document.querySelector("#run-summary");
    window.told = [];
    const note = () => window.told.push(summary.textContent);
    new MutationObserver(note).observe(summary, { childList: true, characterData: true, subtree: true });
}"""

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(
        importlib.util.find_spec("torch") is None or shutil.which("g++") is None, reason="needs PyTorch and g++"
    ),
]


@pytest.fixture(scope="module")
def address(data_dir: Path) -> Iterator[str]:
    """Where a server answers whose runs may start compilers."""
    with serving("--data-dir", str(data_dir), "--compile-peers") as address:
        yield address


@pytest.mark.sweep
def test_it_is_chosen_by_key_compiles_in_sight_and_takes_its_turns(open_page: OpenPage) -> None:
    page = open_page()
    edit_of(page)
    page.locator("#dock-toggle").click()
    page.locator("#run-data").select_option("family.tsv")
    edit_of(page)
    page.locator('.seg [data-target="cpu"]').click()
    page.locator("#run-batch").fill("4")
    page.locator("#run-repeat").fill("6")
    page.locator("#run-cpu-peers").focus()
    page.keyboard.press("Space")
    page.keyboard.press("Tab")
    expect(page.locator("#run-cpu-compiled")).to_be_focused()
    page.keyboard.press("Space")
    expect(page.locator("#run-gpu-compiled")).to_be_hidden()
    page.evaluate(NOTE_SUMMARIES)
    page.locator("#run").click()
    told = "compiling with torch.compile (at most 60 s)"  # for a second, on a fast host
    page.wait_for_function("told => window.told.some((text) => text.includes(told))", arg=told)
    table = page.locator("#dock table.tb", has_text="eager PyTorch")
    expect(table).to_be_visible()
    # A busy host may not be done within the server's minute: then that is said, and the run has its result as ever.
    expect(page.locator("#dock").get_by_text(TOLD)).to_be_visible()
    expect(page.locator("#run-history")).to_contain_text("family.tsv")
