"""Layers on the page: their options, the graphs to run them on, and what a run of one shows."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import OpenPage
from tests.browser.driving import edit_of, expect_edit_after, pane, reload

pytestmark = pytest.mark.browser


def test_switching_compact_off_changes_the_graph(open_page: OpenPage) -> None:
    page = open_page("/?example=rgnn/rgat")
    expect(pane(page, "graph")).to_contain_text("src_pair")
    edit = edit_of(page)
    page.locator("[data-option=compact]").click()
    expect_edit_after(page, edit)
    expect(pane(page, "graph").locator(".code").last).not_to_contain_text("src_pair")


def test_costs_are_counted_on_the_chosen_graph(open_page: OpenPage) -> None:
    page = open_page("/?example=rgnn/rgat")
    edit_of(page)
    pane(page, "graph").locator("[data-act=passes]").click()
    passes = pane(page, "graph").locator(".passes")
    expect(passes).to_contain_text("counted on small (400 nodes, 3,000 edges")
    edit = edit_of(page)
    page.locator("#dock-toggle").click()
    page.locator("#run-data").select_option("aifb")
    expect_edit_after(page, edit)
    expect(passes).to_contain_text("counted on aifb (7,262 nodes, 48,810 edges")
    reload(page)
    expect(page.locator("#run-data")).to_have_value("aifb")


def test_the_backward_pass_is_shown_when_asked_for(open_page: OpenPage) -> None:
    page = open_page("/?example=rgnn/gcn")
    expect(page.locator("[data-option=grad]")).to_have_attribute("aria-checked", "false")
    page.locator("[data-option=grad]").click()
    expect(pane(page, "graph")).to_contain_text("gradient W")


def test_a_layer_runs_on_a_graph(open_page: OpenPage) -> None:
    page = open_page("/?example=rgnn/gcn")
    edit_of(page)
    page.locator("#dock-toggle").click()
    expect(page.locator("#run-data")).to_have_value("small")
    expect(page.locator("#data-about")).to_contain_text("400 nodes of 3 types, 3,000 edges of 8 types")
    expect(page.locator("#run-batch")).to_be_hidden()
    page.locator("#run-data").select_option("tiny")
    for target, figure in (("dae", "cycles"), ("cpu", "ms")):
        page.locator(f'.seg [data-target="{target}"]').click()
        page.locator("#run").click()
        expect(page.locator("#run-summary")).to_contain_text(figure)
        expect(page.locator("#run-check")).to_contain_text("Matches the float64 reference")
        expect(page.locator("#run-check")).to_contain_text("12 nodes, 30 edges of 6 types")
        detail = page.locator("#run-detail" if target == "cpu" else "#run-traffic")
        expect(detail).to_contain_text("pairs of source and type")


def test_the_data_follow_the_family(open_page: OpenPage) -> None:
    page = open_page("/?example=rgnn/gcn")
    expect(page.locator("#run-data optgroup").last.locator("option").first).to_have_text("tiny (generated)")
    edit = edit_of(page)
    page.locator("button.pick").click()
    page.locator('[data-example="kge/transr"]').click()
    expect_edit_after(page, edit)
    expect(page.locator("#run-data optgroup").last.locator("option").first).to_have_text("FB15k (generated)")
