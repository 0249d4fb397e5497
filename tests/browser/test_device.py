"""Runs on a pretended GPU from the page: samples of ours and of PyTorch, limits, kernels, a kernel that breaks."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import ADDRESS, SERVE, OpenPage, wait_until_warm
from tests.browser.driving import edit_of
from tests.browser.test_accessibility import AXE, violations

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs PyTorch"),
]


@pytest.fixture(scope="module")
def address(data_dir: Path, root: Path) -> Iterator[str]:
    """Where `explorer serve` answers on a machine with a pretended GPU."""
    command = [*SERVE, "--port", "0", "--data-dir", str(data_dir)]
    folders = os.pathsep.join([str(root / "tests" / "fake_cuda"), str(root)])
    environment = {**os.environ, "PYTHONPATH": folders, "FAKE_CUDA_PEERS": "1", "FAKE_CUDA_BREAKS": "transe"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as server:
        try:
            assert server.stdout is not None
            found = ADDRESS.search(server.stdout.readline())
            assert found
            wait_until_warm(found[0].rstrip("/"))
            yield found[0].rstrip("/")
        finally:
            server.terminate()


def run_on_gpu(page: Page, data: str = "family.tsv", repeat: int = 6) -> None:
    edit_of(page)
    page.locator("#dock-toggle").click()
    page.locator("#run-data").select_option(data)
    edit_of(page)
    page.locator('.seg [data-target="gpu"]').click()
    if data == "family.tsv":
        page.locator("#run-batch").fill("4")
    page.locator("#run-repeat").fill(str(repeat))
    page.locator("#run").click()


def test_a_run_shows_times_peers_limits_and_kernels(open_page: OpenPage) -> None:
    page = open_page()
    run_on_gpu(page)
    expect(page.locator("#run-check")).to_contain_text("Matches the float64 reference")
    expect(page.locator("#run-source")).to_have_text("measured")
    expect(page.locator("#run-device")).to_contain_text("Pretended GPU")
    expect(page.locator("#run-main .big")).to_have_text(re.compile(r"[\d.]+ ms median"))
    rows = page.locator("#run-detail .tb tbody tr")
    expect(rows).to_have_count(3)
    expect(rows.nth(0)).to_contain_text("this kernel")
    expect(rows.nth(1)).to_contain_text("eager PyTorch")
    expect(rows.nth(1)).to_contain_text("×")
    expect(rows.nth(2)).to_contain_text("limit")
    expect(page.locator("#run-detail circle.dot")).to_have_count(12)
    expect(page.locator("#run-plane svg")).to_have_attribute("aria-label", re.compile("operations a byte"))
    page.locator("#run-traffic summary", has_text="product").click()
    expect(page.locator("#run-traffic details[open] tr", has_text="registers")).to_be_visible()
    expect(page.locator("#run-summary")).to_contain_text("of what is possible")
    expect(page.locator("#run-history")).to_contain_text("gpu")


@pytest.mark.sweep
def test_a_layer_shows_its_graph_and_axe_finds_nothing(open_page: OpenPage) -> None:
    page = open_page("/?example=rgnn/rgcn")
    run_on_gpu(page, "tiny", repeat=1)
    expect(page.locator("#run-check")).to_contain_text("Matches")
    expect(page.locator("#run-traffic")).to_contain_text("pairs of source and type")
    assert violations(page, AXE.read_text(encoding="utf-8")) == []


def test_a_kernel_that_breaks_leaves_the_server_as_it_was(open_page: OpenPage) -> None:
    page = open_page("/?example=kge/transe_l1")
    run_on_gpu(page)
    broken = "The GPU stopped the kernels: an illegal memory access was encountered."
    expect(page.locator("#run-main")).to_contain_text(broken)
    page.locator('.seg [data-target="cpu"]').click()
    page.locator("#run").click()
    expect(page.locator("#run-check")).to_contain_text("Matches the float64 reference")
