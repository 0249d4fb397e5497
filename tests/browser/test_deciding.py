"""The table of decisions beside the kernels: one is changed, refused, carried by the link, and reset."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import OpenPage
from tests.browser.driving import edit_of, pane, wait_until_kept

pytestmark = pytest.mark.browser
CHUNK = 'select[data-decision="SpMM_0.chunk"]'


def open_kernels(page: Page) -> None:
    edit_of(page)
    page.locator('.st[data-open="kernels"]').click()
    expect(page.locator(CHUNK)).to_have_value("32")


def test_a_changed_decision_changes_its_kernel_and_says_what_it_costs(open_page: OpenPage) -> None:
    page = open_page("/?example=embedding/spmm")
    open_kernels(page)
    page.locator(CHUNK).select_option("64")
    row = page.locator(".row", has=page.locator(CHUNK))
    expect(row).to_have_class(re.compile(r"\bset\b"))
    expect(pane(page, "kernels").locator(".code")).to_contain_text("chunk = 64")
    costs = page.locator(".costs li").first
    expect(costs).to_contain_text(re.compile(r"B → [\d.,]+ [MB]+ asked|MB → [\d.]+ MB asked"))
    expect(costs).to_contain_text("1,024 → 2,048 B shared")
    row.get_by_role("button", name="Reset chunk").click()
    expect(page.locator(".row.set")).to_have_count(0)
    expect(pane(page, "kernels").locator(".code")).to_contain_text("chunk = 32")


def test_a_link_carries_decisions_and_all_are_reset_at_once(open_page: OpenPage) -> None:
    page = open_page("/?example=embedding/spmm")
    open_kernels(page)
    page.locator(CHUNK).select_option("128")
    expect(page.locator(".row.set")).to_have_count(1)
    wait_until_kept(page, '"SpMM_0.chunk":128')
    shared = open_page(page.evaluate("location.pathname + location.hash"))
    expect(shared.locator(CHUNK)).to_have_value("128")
    expect(shared.locator(".row.set")).to_have_count(1)
    shared.locator('[data-act="decisions-reset"]').click()
    expect(shared.locator(CHUNK)).to_have_value("32")
    expect(shared.locator('[data-act="decisions-reset"]')).to_be_disabled()


def test_a_refused_decision_says_why_and_the_kernel_stays(open_page: OpenPage) -> None:
    page = open_page("/?example=embedding/spmm")
    open_kernels(page)
    page.locator(CHUNK).select_option("64")
    expect(page.locator(".row.set")).to_have_count(1)
    code = pane(page, "kernels").locator(".code")
    expect(code).to_contain_text("chunk = 64")
    before = code.inner_text()
    page.locator('select[data-decision="SpMM_0.strategy"]').select_option("gemm")
    expect(page.locator(".row .no")).to_contain_text("refused: strategy = gemm")
    page.locator(".row .no .why-of").click()
    expect(page.locator(".told")).to_be_visible()
    page.keyboard.press("Escape")
    assert code.inner_text() == before
    expect(page.locator('select[data-decision="SpMM_0.strategy"]')).to_have_value('"nonzeros"')
    expect(page.locator(CHUNK)).to_have_value("64")
