"""The history of runs: what changed between them, brought back by a click and over a reload; and what stops a run."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import PATIENCE, OpenPage, serving
from tests.browser.driving import change, edit_of, editor_text, expect_edit_after, reload, run_on, visit

pytestmark = pytest.mark.browser


def rows(page: Page) -> list[str]:
    return page.locator("#run-history tr").all_inner_texts()


def test_runs_say_what_changed_come_back_and_outlive_the_page(open_page: OpenPage, tmp_path: Path) -> None:
    page = open_page()
    edit = edit_of(page)
    page.locator("#run-repeat").evaluate("field => field.value = 5")
    run_on(page, "cpu", 16)
    expect(page.locator("#run-history tr")).to_have_count(1)
    change(page, "D = 64", "D = 32")
    expect_edit_after(page, edit)
    run_on(page, "cpu", 32)
    expect(page.locator("#run-history tr")).to_have_count(2)
    newest = rows(page)[0]
    assert "text" in newest
    assert "D 64 → 32" in newest
    assert "batch 16 → 32" in newest
    reload(page)
    edit = edit_of(page)
    page.locator("#dock-toggle").click()
    expect(page.locator("#run-history tr")).to_have_count(2)
    page.locator("#run-history [data-again]").last.click()
    expect_edit_after(page, edit)
    assert "D = 64" in editor_text(page)
    expect(page.locator("#run-batch")).to_have_value("16")
    expect(page.locator('.seg [data-target="cpu"]')).to_have_attribute("aria-pressed", "true")
    for act, name in (("runs-csv", "runs.csv"), ("runs-json", "runs.json")):
        with page.expect_download() as download:
            page.locator(f'[data-act="{act}"]').click()
        download.value.save_as(tmp_path / name)
    table = list(csv.DictReader((tmp_path / "runs.csv").open()))
    kept = json.loads((tmp_path / "runs.json").read_text())
    assert [float(row["median_ms"]) for row in table] == [entry["median_ms"] for entry in kept]
    assert [row["source"] for row in table] == ["measured", "measured"]


def test_an_edit_that_changes_no_program_stops_no_run_and_a_stopped_one_keeps_its_repeats(open_page: OpenPage) -> None:
    page = open_page()
    edit = edit_of(page)
    page.locator("#dock-toggle").click()
    page.locator("#run-data").select_option("family.tsv")  # of four relations, whose matrices are large
    change(page, "D = 64, K = 64", "D = 512, K = 512")
    expect_edit_after(page, edit)
    edit = edit_of(page)
    page.locator("#run-repeat").evaluate("field => field.value = 1000")
    run_on(page, "cpu", 65_536)  # 34 TFLOP: no number of cores has done them before it is stopped
    expect(page.locator("#run-summary")).to_contain_text(" of 1000")
    change(page, "dim D = 512", "# Large matrices.\ndim D = 512")
    expect_edit_after(page, edit)
    expect(page.locator("#stop")).to_be_visible()
    page.locator("#stop").click()
    expect(page.locator("#run-main .unsteady").first).to_contain_text("The repeats until then are kept.")
    expect(page.locator("#run-main .big")).to_contain_text("ms median")
    expect(page.locator("#run-history tr").first).to_contain_text("of 1000 repeats")


def test_a_browser_that_has_forgotten_reads_the_runs_back_from_the_store(browser: Browser, tmp_path: Path) -> None:
    with serving("--store", str(tmp_path / "store.db")) as address:
        context = browser.new_context()
        context.set_default_timeout(PATIENCE)
        page = context.new_page()
        visit(page, f"{address}/?example=kge/transr")
        edit = edit_of(page)
        page.locator("#run-repeat").evaluate("field => field.value = 3")
        run_on(page, "cpu", 16)
        expect(page.locator("#run-history tr")).to_have_count(1)
        change(page, "D = 64", "D = 32")
        expect_edit_after(page, edit)
        run_on(page, "dae", 8)
        expect(page.locator("#run-history tr")).to_have_count(2)
        expect(page.locator("#run-history td:last-child").first).to_contain_text("cycles")
        was = rows(page)
        # A page that has its own runs takes none of them twice.
        reload(page)
        with page.expect_response("**/api/runs"):
            page.locator("#dock-toggle").click()
        page.wait_for_timeout(300)
        assert rows(page) == was
        page.evaluate("localStorage.clear()")
        page.close()
        other = context.new_page()
        visit(other, f"{address}/?example=embedding/sls")
        edit = edit_of(other)
        expect(other.locator("#run-history tr")).to_have_count(0)
        other.locator("#dock-toggle").click()
        expect(other.locator("#run-history tr")).to_have_count(2)
        assert rows(other) == was
        other.locator("#run-history [data-again]").last.click()
        expect_edit_after(other, edit)
        assert "D = 64" in editor_text(other)
        expect(other.locator("#run-batch")).to_have_value("16")
        context.close()
