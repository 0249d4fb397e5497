"""The gallery of models imported from PyTorch: they compile, open by their keys, and each line leads to the other."""

from __future__ import annotations

import re

import pytest
from fastapi.testclient import TestClient

import explorer
from explorer.web.examples import examples
from explorer.web.guide.imported import Imported, imported
from explorer.web.guide.tour import key_of

ALL = imported()


def test_all_are_listed_and_none_is_an_example_of_the_menu(client: TestClient) -> None:
    page = client.get("/guide/imported").text
    assert re.findall(r'data-example="([^"]+)"', page) == [key_of(each.example) for each in ALL]
    assert len(ALL) >= 8
    assert not {key_of(each.example) for each in ALL} & {key_of(each) for each in examples()}


@pytest.mark.parametrize("each", ALL, ids=lambda each: each.example.name)
def test_a_text_compiles_and_is_served_with_its_source(each: Imported, client: TestClient) -> None:
    assert explorer.compile(each.example.text, on_demand=True).ok
    assert client.get(f"/examples/{key_of(each.example)}").text == each.example.text
    assert re.fullmatch(r"\w[\w ]*: [^\n]+\. .+, \w+ \d{4}\.", each.about)
    page = client.get(f"/guide/imported/{each.example.name}").text
    assert page.count('class="g"') == len(each.source.splitlines())


def test_a_line_of_the_source_knows_the_lines_of_the_text(client: TestClient) -> None:
    (rgcn,) = (each for each in ALL if each.example.name == "rgcn")
    source, text = rgcn.source.splitlines(), rgcn.example.text.splitlines()
    for number, links in enumerate(rgcn.links(), start=1):
        assert all(number in rgcn.asked[at - 1] for at in links)
    (at,) = (number for number, line in enumerate(source, start=1) if "linear(total" in line)
    assert ["relations[e.etype]" in text[line - 1] for line in list(rgcn.links())[at - 1]] == [True]
    button = re.search(
        rf'<button[^>]*data-asks="([\d ]+)"[^>]*><span class="g">{at}</span>', client.get("/guide/imported/rgcn").text
    )
    assert button
    assert button[1] == " ".join(map(str, list(rgcn.links())[at - 1]))


def test_what_was_not_imported_is_not_there(client: TestClient) -> None:
    assert client.get("/guide/imported/none").status_code == 404
    assert client.get("/examples/pytorch/none").status_code == 404
    assert 'data-example="pytorch/rgcn"' in client.get("/?example=pytorch/rgcn").text
