"""What a reader takes away as a file: the page itself, which opens without a server and here again; a Python file."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

from playwright.sync_api import Page, expect

from tests.browser.conftest import OpenPage
from tests.browser.driving import DISTMULT, edit_of, editor_text, expect_edit_after, pane, run_on, write


def saved(page: Page, act: str, folder: Path) -> Path:
    page.get_by_role("button", name="Export", exact=True).click()
    with page.expect_download() as download:
        page.locator(f'[data-act="{act}"]').click()
    path = folder / download.value.suggested_filename
    download.value.save_as(path)
    return path


def test_the_page_is_saved_as_a_file_that_links_and_opens_again(open_page: OpenPage, tmp_path: Path) -> None:
    page = open_page()
    edit = edit_of(page)
    write(page, DISTMULT.replace("D = 8", "D = 24") + "# </script><b>kept</b>\n")
    expect_edit_after(page, edit)
    run_on(page, "dae", 64)
    expect(page.locator("#run-summary")).to_contain_text("cycles")
    path = saved(page, "export-page", tmp_path)
    assert path.name == "DistMult.html"

    offline = page.context.new_page()
    complaints: list[str] = []
    offline.on("console", lambda message: complaints.append(message.text))
    offline.on("pageerror", lambda error: complaints.append(str(error)))
    offline.on("request", lambda request: complaints.append(request.url) if "file:" not in request.url else None)
    offline.goto(path.as_uri())
    expect(offline.get_by_role("heading", name="Last run")).to_be_visible()
    expect(offline.locator(".run")).to_contain_text("cycles")
    assert offline.locator(".source").inner_text().count("</script>") == 1
    assert offline.locator(".saved").count() == page.locator("#panes > .pane").count()
    line = offline.locator(".saved [data-operations]:not([data-made])").first
    operation = (line.get_attribute("data-operations") or "").split()[0]
    line.hover()
    expect(offline.locator(f'.source [data-operations="{operation}"]')).to_have_class(re.compile(r"\blit\b"))
    line.click()
    offline.mouse.move(1, 1)
    expect(line).to_have_class(re.compile(r"\blit\b"))
    offline.set_viewport_size({"width": 390, "height": 844})
    assert offline.evaluate("document.documentElement.scrollWidth") <= 390
    assert complaints == []
    offline.close()

    other = open_page()
    other.locator("#open-file").set_input_files(path)
    expect(pane(other, "loops")).to_contain_text("D = 24")
    assert "D = 24" in editor_text(other)


def test_a_models_text_is_opened_and_any_other_file_is_told(open_page: OpenPage, tmp_path: Path) -> None:
    page = open_page()
    edit = edit_of(page)
    (tmp_path / "mine.emb").write_text(DISTMULT)
    page.locator("#open-file").set_input_files(tmp_path / "mine.emb")
    expect_edit_after(page, edit)
    expect(page.locator("#example-file")).to_have_text("mine.emb")
    assert editor_text(page).startswith("dim D = 8")
    for content in ("<p>hello</p>", '<script type="application/json" id="explorer-state">{"text": 3}</script>'):
        (tmp_path / "other.html").write_text(content)
        page.locator("#open-file").set_input_files(tmp_path / "other.html")
        expect(page.locator("#said")).to_contain_text("other.html was not saved by this page")
        page.locator("#said").evaluate("said => (said.textContent = '')")
    assert editor_text(page).startswith("dim D = 8")


def test_the_python_file_runs(open_page: OpenPage, tmp_path: Path) -> None:
    page = open_page()
    edit = edit_of(page)
    write(page, '# a "quote" and a back\\slash\n' + DISTMULT)
    expect_edit_after(page, edit)
    path = saved(page, "export-python", tmp_path)
    assert path.name == "distmult.py"
    ran = subprocess.run([sys.executable, path], capture_output=True, text=True, timeout=100, check=False)
    assert ran.returncode == 0, ran.stderr
    assert "matches the float64 reference: True" in ran.stdout


def test_all_stages_are_saved_as_json(open_page: OpenPage, tmp_path: Path) -> None:
    page = open_page()
    edit_of(page)
    found = json.loads(saved(page, "export", tmp_path).read_text())
    assert {stage["name"] for stage in found["stages"]} >= {"graph", "loops", "cuda"}
