"""Typing a model, breaking it, changing its sizes: the panes follow, the newest edit wins, nothing is lost."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.conftest import OpenPage
from tests.browser.driving import (
    DISTMULT,
    change,
    edit_of,
    editor_text,
    expect_edit_after,
    pane,
    reload,
    wait_until_kept,
    write,
)

SPMM = (Path(__file__).resolve().parents[2] / "examples" / "embedding" / "spmm.emb").read_text()

pytestmark = pytest.mark.browser


def test_a_typed_model_changes_every_pane(open_page: OpenPage) -> None:
    page = open_page()
    edit = edit_of(page)
    write(page, DISTMULT)
    expect_edit_after(page, edit)
    for stage in ("graph", "loops", "slc"):
        expect(pane(page, stage)).to_contain_text("DistMult")
    expect(pane(page, "cuda")).to_contain_text("&E[(long long)ih * D + d]")
    expect(page.locator('.st[data-open="ptx"] .n')).to_have_text("on demand")


def test_a_broken_model_is_marked_and_explained_and_the_stages_stay(open_page: OpenPage) -> None:
    page = open_page()
    edit = edit_of(page)
    loops = pane(page, "loops").locator(".code").inner_text()
    change(page, "+ R[r]", "+ Rr[r]")
    expect(page.locator(".cm-line .sq")).to_have_text("Rr")
    expect(page.locator(".diag")).to_contain_text("unknown name")
    expect(page.locator("#problems")).to_contain_text("Rr")
    expect(page.locator("#status")).to_contain_text(f"1 error in edit {edit + 1}. The stages show edit {edit}")
    expect(pane(page, "loops").locator("[data-old]")).to_have_text(f"stale, from edit {edit}")
    assert pane(page, "loops").locator(".code").inner_text() == loops
    expect(page.locator("#run")).to_be_disabled()
    expect(page.locator("#run-summary")).to_contain_text("Fix 1 error to run")


def test_the_words_of_an_op_stand_out(open_page: OpenPage) -> None:
    page = open_page()
    edit_of(page)
    write(page, "op SLS(b: bag of row):\n    param T[row, 4]\n    return sum(T[i] for i in b)\n")
    expect(page.locator(".cm-line .k").first).to_have_text("op")
    expect(page.locator(".cm-line .set.uniq")).to_have_text("bag")


def test_numbers_stand_beside_their_lines_below_a_problem(open_page: OpenPage) -> None:
    page = open_page()
    edit_of(page)
    change(page, "R[relation, K]", "R[relaton, K]")
    expect(page.locator(".diag")).to_be_visible()
    # The editor measures what stands between its lines in the next frame.
    page.wait_for_function(
        """() => {
            const all = (found) => [...document.querySelectorAll(found)];
            const line = all(".cm-line").find((each) => each.textContent.includes("return"));
            const number = all(".cm-lineNumbers .cm-gutterElement").find((each) => each.textContent === "10");
            return Math.abs(line.getBoundingClientRect().y - number.getBoundingClientRect().y) < 1;
        }"""
    )


def test_a_fix_mends_the_text(open_page: OpenPage) -> None:
    page = open_page()
    edit_of(page)
    change(page, "+ R[r]", "+ Rr[r]")
    page.locator(".diag button").first.click()
    edit_of(page)
    expect(page.locator(".diag")).to_have_count(0)
    expect(page.locator("#problems")).to_be_hidden()
    assert "+ R[r]" in editor_text(page)


def test_all_errors_are_shown_together(open_page: OpenPage) -> None:
    page = open_page()
    change(page, "(E[h] - E[t])", "(Eh[h] - Et[t])")
    expect(page.locator(".cm-line .sq")).to_have_text(["Eh", "Et"])
    page.keyboard.press("F8")
    page.keyboard.press("F8")
    expect(page.locator(".cm-activeLineGutter, .cm-editor.cm-focused")).not_to_have_count(0)


def test_an_older_answer_never_replaces_a_newer_one(open_page: OpenPage) -> None:
    page = open_page()
    edit = edit_of(page)
    held: list[Route] = []

    def hold_the_first(route: Route) -> None:
        held.append(route)
        if len(held) > 1:
            route.continue_()

    page.route("**/compile", hold_the_first)
    with page.expect_request("**/compile"):
        change(page, "TransR", "First")
    change(page, "First", "Second")
    expect(pane(page, "loops")).to_contain_text("kernel Second")
    held[0].continue_()
    page.wait_for_timeout(1_200)
    expect(pane(page, "loops")).to_contain_text("kernel Second")
    assert edit_of(page) == edit + 2


def test_a_size_is_set_by_field_and_slider_and_given_back(open_page: OpenPage) -> None:
    page = open_page()
    row = page.locator('[data-size="D"]')
    row.locator(".field").fill("33")
    expect(pane(page, "graph")).to_contain_text("D = 33")
    row.locator('input[type="range"]').focus()
    page.keyboard.press("End")
    expect(pane(page, "graph")).to_contain_text("D = 4096")
    row.locator("[data-act=size-reset]").click()
    expect(pane(page, "graph")).to_contain_text("D = 64")


def test_a_size_set_by_hand_holds_until_the_text_says_otherwise(open_page: OpenPage) -> None:
    page = open_page()
    page.locator('[data-size="D"] .field').fill("33")
    expect(pane(page, "graph")).to_contain_text("D = 33, K = 64")
    change(page, "TransR(", "Renamed(")
    expect(pane(page, "graph")).to_contain_text("Renamed")
    expect(pane(page, "graph")).to_contain_text("D = 33, K = 64")
    change(page, "dim D = 64", "dim D = 20")
    expect(pane(page, "graph")).to_contain_text("D = 20, K = 64")
    page.locator('[data-size="D"] .field').fill("33")
    expect(pane(page, "graph")).to_contain_text("D = 33")
    write(page, DISTMULT.replace("D", "F"))
    expect(pane(page, "graph")).to_contain_text("F = 8")


def test_a_level_that_no_pane_shows_waits_for_one(open_page: OpenPage) -> None:
    page = open_page()
    edit = edit_of(page)
    count = page.locator('.st[data-open="slc.opt2"] .n')
    expect(count).to_have_text(re.compile(r"^\d+$"))
    change(page, "TransR(", "Renamed(")
    expect_edit_after(page, edit)
    expect(count).to_have_text("on demand")
    page.locator('.st[data-open="slc.opt2"]').click()
    expect(pane(page, "slc.opt2")).to_contain_text("slc Renamed")
    expect(count).to_have_text(re.compile(r"^\d+$"))


def test_a_pane_opened_before_the_answer_does_not_lose_it(open_page: OpenPage) -> None:
    page = open_page()
    edit = edit_of(page)
    change(page, "TransR(", "Renamed(")
    page.locator('.st[data-open="dlc"]').click()
    expect(pane(page, "dlc")).to_contain_text("dlc Renamed")
    expect(pane(page, "loops")).to_contain_text("kernel Renamed")
    assert edit_of(page) == edit + 1


def test_options_change_the_stages(open_page: OpenPage) -> None:
    page = open_page()
    expect(pane(page, "loops")).to_contain_text("interchange")
    with_interchange = pane(page, "loops").locator(".code").inner_text()
    page.locator("[data-option=interchange]").click()
    expect(pane(page, "loops").locator(".code")).not_to_have_text(with_interchange)
    page.locator("#negatives").select_option("tail")
    expect(pane(page, "graph")).to_contain_text("negative")
    sharing = page.get_by_label("Triples in a row that share them")
    sharing.fill("32")
    sharing.press("Enter")
    expect(pane(page, "graph")).to_contain_text("sharing 32")
    wait_until_kept(page, '"negatives":"tail:64/32"')
    reload(page)
    expect(page.get_by_label("Triples in a row that share them")).to_have_value("32")
    expect(pane(page, "graph")).to_contain_text("sharing 32")


def test_a_precision_is_chosen_and_kept(open_page: OpenPage) -> None:
    page = open_page()
    edit_of(page)
    page.locator("#precision").select_option("tf32")
    expect(pane(page, "cuda")).to_contain_text("multiply_tf32<")
    wait_until_kept(page, '"precision":"tf32"')
    reload(page)
    expect(page.locator("#precision")).to_have_value("tf32")
    expect(pane(page, "cuda")).to_contain_text("multiply_tf32<")


@pytest.mark.sweep
def test_the_inspector_by_chunks_shows_their_sizes(open_page: OpenPage) -> None:
    page = open_page()
    edit_of(page)
    expect(page.locator("#inspect_edges")).to_be_hidden()
    page.locator("#inspect").select_option("chunks")
    expect(pane(page, "cuda")).to_contain_text("buf_idx")
    page.locator("#inspect_edges").select_option("32")
    expect(pane(page, "cuda")).to_contain_text("chunk * 32")
    wait_until_kept(page, '"inspect_edges":"32"')
    reload(page)
    expect(page.locator("#inspect_edges")).to_have_value("32")
    page.locator("#inspect").select_option("true")
    expect(page.locator("#inspect_edges")).to_be_hidden()
    expect(pane(page, "cuda")).not_to_contain_text("buf_idx")


def test_the_tiles_of_sums_are_set_where_there_are_sums(open_page: OpenPage) -> None:
    page = open_page()  # TransR
    edit_of(page)
    expect(page.locator("#sums")).to_be_hidden()
    write(page, SPMM)
    expect(pane(page, "graph")).to_contain_text("SpMM")
    effect = {name: page.locator(f"#{name}-effect") for name in ("chunk", "preload", "split")}
    expect(effect["chunk"]).to_have_text("would change kernels, cuda")  # beside all other options with an effect
    expect(effect["split"]).to_have_text("would change kernels, cuda")
    expect(page.locator("#preload")).to_be_hidden()
    page.locator("#split").select_option("rows")
    expect(effect["preload"]).to_have_text("would change kernels, cuda")
    expect(page.locator("#chunk")).to_be_hidden()
    page.locator("#preload").select_option("64")
    expect(pane(page, "cuda")).to_contain_text("col_tile[8][64]")
    wait_until_kept(page, '"preload":"64"')
    reload(page)
    expect(pane(page, "cuda")).to_contain_text("col_tile[8][64]")
    expect(page.locator("#preload")).to_have_value("64")
    expect(page.locator("#sums")).to_be_visible()


def test_a_reload_keeps_a_broken_text_and_the_settings(open_page: OpenPage) -> None:
    page = open_page()
    change(page, "+ R[r]", "+ Rr[r]")
    page.locator('[data-size="D"] .field').fill("48")
    expect(page.locator(".diag")).to_be_visible()
    wait_until_kept(page, '"D":48')
    reload(page)
    expect(page.locator(".diag")).to_contain_text("Rr")
    assert "+ Rr[r]" in editor_text(page)
    change(page, "Rr[r]", "R[r]")
    expect(pane(page, "graph")).to_contain_text("D = 48")


def test_a_script_tag_in_a_name_is_text(open_page: OpenPage) -> None:
    page = open_page()
    edit_of(page)
    change(page, "score TransR", "score TransR<script>alert(1)</script>")
    expect(page.locator("#problems")).to_be_visible()
    expect(page.locator(".cm-content")).to_contain_text("<script>alert(1)</script>")
    assert page.locator("script:not([src])").count() == 0


def test_a_text_that_is_too_long_is_refused_in_words_and_kept(open_page: OpenPage) -> None:
    page = open_page(complains=("Failed to load resource", "htmx:", "Response Status Error Code 413"))
    edit_of(page)
    write(page, "# " + "long " * 60_000)
    expect(page.locator("#status")).to_contain_text("larger than 256 KiB")
    expect(page.locator("#status")).to_contain_text("Your text is kept")
    page.wait_for_function("JSON.parse(sessionStorage.explorer).text.length == 300_002")


def test_an_example_replaces_the_text_and_undo_brings_it_back(open_page: OpenPage) -> None:
    page = open_page()
    before = editor_text(page)
    page.locator('[popovertarget="examples"]').click()
    page.locator('[data-example="kge/rescal"]').click()
    expect(pane(page, "loops")).to_contain_text("RESCAL")
    page.locator(".cm-content").click()
    page.keyboard.press("ControlOrMeta+z")
    expect(pane(page, "loops")).to_contain_text("TransR")
    assert editor_text(page) == before


def link_to(**kept: object) -> str:
    """A shared link's hash, as state.js writes it."""
    raw = json.dumps(kept).encode()
    return "#1." + base64.urlsafe_b64encode(raw).decode().rstrip("=")


def test_a_link_pasted_into_the_page_opens(open_page: OpenPage) -> None:
    page = open_page()
    edit_of(page)
    link = link_to(text=DISTMULT, sizes={"D": 12}, options={}, panes=[{"stage": "dlc"}])
    page.evaluate("hash => { location.hash = hash; }", link)
    expect(pane(page, "dlc")).to_contain_text("dlc DistMult")
    expect(page.locator(".pane")).to_have_count(1)
    expect(page.locator('[data-size="D"] .field')).to_have_value("12")
    assert editor_text(page).strip() == DISTMULT.strip()
    page.evaluate("() => { location.hash = '#1.bm90aGluZw'; }")
    expect(page.locator("#said")).to_contain_text("damaged")


def test_a_damaged_link_opens_with_what_is_left_of_it(open_page: OpenPage) -> None:
    link = {"text": DISTMULT, "sizes": {"D": "wide", "K": 1e300}, "options": {"arch": [1], "interchange": 3, "x": "y"}}
    page = open_page("/" + link_to(panes=[{"stage": "loops", "at": -1}, 7], example=5, **link))
    expect(pane(page, "loops")).to_contain_text("kernel DistMult")
    expect(page.locator('[data-size="D"] .field')).to_have_value("8")


def test_a_text_that_is_no_longer_the_example_says_so(open_page: OpenPage) -> None:
    page = open_page()
    mark = page.locator(".pick [data-edited]")
    expect(mark).to_be_hidden()
    expect(page).to_have_title("transr.emb · Embedding Compiler Explorer")
    change(page, "R[r], 2)", "R[r], 1)")
    expect(mark).to_be_visible()
    expect(page.locator(".sec [data-edited]")).to_have_text(", edited")
    expect(page).to_have_title("transr.emb (edited) · Embedding Compiler Explorer")
    wait_until_kept(page, "R[r], 1)")
    reload(page)
    expect(mark).to_be_visible()
    change(page, "R[r], 1)", "R[r], 2)")
    expect(mark).to_be_hidden()


def test_a_text_that_shares_no_definition_with_the_example_is_the_readers_own(open_page: OpenPage) -> None:
    page = open_page()
    mark, file = page.locator(".pick [data-edited]"), page.locator("#example-file")
    write(page, DISTMULT)
    expect(file).to_have_text("DistMult.emb")
    expect(page.locator("#example-group")).to_have_text("own /")
    expect(page.locator("#model-file")).to_have_text("DistMult.emb")
    expect(mark).to_be_hidden()
    expect(page).to_have_title("DistMult.emb · Embedding Compiler Explorer")
    graph = pane(page, "graph")
    expect(graph).to_contain_text("score DistMult")
    assert graph.get_attribute("data-at") == graph.get_attribute("data-last")  # no pass of the model before
    assert graph.get_attribute("data-diff") is None
    wait_until_kept(page, "DistMult")
    reload(page)
    expect(file).to_have_text("DistMult.emb")
    page.locator("#editor .cm-content").focus()
    write(page, "nothing that is a model")
    expect(file).to_have_text("untitled.emb")
    write(page, "import torch\n\nclass Net(torch.nn.Module):\n    def __init__(self):\n        pass\n")
    expect(file).to_have_text("Net.emb")  # and not the name of a method
    write(page, "score TransR(h: entity, r: relation, t: entity):\n    return 1\n")
    expect(file).to_have_text("transr.emb")
    expect(mark).to_be_visible()


def test_a_long_name_leaves_the_status_its_place_on_a_phone(open_page: OpenPage) -> None:
    page = open_page(width=390, height=844)
    page.locator('[data-tab-to="model"]').click()
    write(page, DISTMULT.replace("DistMult", "ATranslationWhoseNameIsLongerThanAnyPhone"))
    expect(page.locator("#example-file")).to_have_text("ATranslationWhoseNameIsLongerThanAnyPhone.emb")
    expect(page.locator("#status")).to_contain_text("Up to date")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.locator("#status").evaluate("status => status.scrollWidth <= status.clientWidth")


def test_an_opened_file_stays_the_readers_own_over_a_reload(open_page: OpenPage) -> None:
    """Also where its definition is called as one of the example that the server draws."""
    page = open_page()
    page.locator("#open-file").set_input_files(
        {"name": "mine.emb", "mimeType": "text/plain", "buffer": DISTMULT.replace("DistMult", "TransR").encode()}
    )
    expect(page.locator("#example-file")).to_have_text("mine.emb")
    wait_until_kept(page, "E[h] * R[r]")
    reload(page)
    expect(page.locator("#example-group")).to_have_text("own /")
    expect(page.locator("#example-file")).to_have_text("TransR.emb")


def test_a_link_to_an_example_opens_it(open_page: OpenPage) -> None:
    page: Page = open_page("/?example=kge/transh")
    expect(page.locator(".cm-content")).to_contain_text("TransH")
    expect(pane(page, "graph")).to_contain_text("TransH")


def test_an_edit_changes_only_the_lines_that_differ(open_page: OpenPage) -> None:
    page = open_page()
    edit = edit_of(page)
    page.evaluate("document.querySelectorAll('#panes .l').forEach((line) => (line.isOld = true))")
    body = pane(page, "loops").locator(".body")
    body.evaluate("body => (body.scrollTop = 60)")
    change(page, "R[r], 2)", "R[r], 1)")
    expect_edit_after(page, edit)
    kept, fresh = page.evaluate(
        """() => {
            const lines = [...document.querySelectorAll(".pane[data-stage=loops] .l")];
            return [lines.filter((line) => line.isOld).length, lines.filter((line) => !line.isOld).length];
        }"""
    )
    assert kept > 5 * fresh > 0, (kept, fresh)
    assert body.evaluate("body => body.scrollTop") == 60
    # What was put together is what a page has that was given the text at once.
    shown = page.locator("#panes .body").all_inner_texts()
    page.evaluate("document.querySelectorAll('#panes .body').forEach((body) => delete body.dataset.text)")
    pane(page, "graph").get_by_role("button", name="Passes (l)").click()
    expect(pane(page, "graph").locator(".passes")).to_be_visible()
    assert page.locator("#panes .body").all_inner_texts() == shown


LINES = "[...document.querySelectorAll('#panes .body .l')].map((line) => line.textContent)"


def test_a_difference_stays_as_it_is_scrolled_and_gets_the_lines_that_differ(open_page: OpenPage) -> None:
    page = open_page("?example=rgnn/rgat")
    page.evaluate("document.querySelectorAll('#panes .diff .l').forEach((line) => (line.isOld = true))")
    sides = page.locator("#panes .diff .body")
    expect(sides).to_have_count(2)
    sides.first.evaluate("body => (body.scrollTop = 40)")
    for old, new in (("0.2)", "0.25)"), ("0.25)", "0.25) + 1.0"), (") + 1.0", ")")):
        edit = edit_of(page)
        change(page, old, new)
        expect_edit_after(page, edit)
        assert sides.evaluate_all("sides => sides.map((body) => body.scrollTop)") == [40, 40]
        assert page.evaluate("[...document.querySelectorAll('#panes .diff .l')].some((line) => line.isOld)")
        shown = page.evaluate(LINES)
        page.evaluate("document.querySelectorAll('#panes .body').forEach((body) => delete body.dataset.text)")
        with page.expect_response("**/panes"):
            pane(page, "loops").get_by_role("button", name="Passes (l)").click()
        with page.expect_response("**/panes"):
            pane(page, "loops").get_by_role("button", name="Passes (l)").click()
        expect(pane(page, "loops").locator(".passes")).to_have_count(0)
        assert page.evaluate(LINES) == shown
        page.evaluate("document.querySelectorAll('#panes .diff .l').forEach((line) => (line.isOld = true))")


def test_a_patch_of_a_text_that_is_gone_is_fetched_whole(open_page: OpenPage) -> None:
    page = open_page()
    edit = edit_of(page)
    page.evaluate(
        "document.body.addEventListener('htmx:beforeSwap', () =>"
        " document.querySelector('.pane[data-stage=loops] .code').remove(), { once: true })"
    )
    change(page, "R[r], 2)", "R[r], 1)")
    expect_edit_after(page, edit)
    expect(pane(page, "loops").locator(".body .l").nth(20)).to_be_attached()
