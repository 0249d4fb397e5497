"""Parts of the page whose markup is kept: an answer is the one that is made without what was kept before."""

from __future__ import annotations

import json
import re

from fastapi.testclient import TestClient
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import Markup

from explorer.web import limits
from explorer.web.panes.views import RailStage
from explorer.web.templates import environment
from explorer.web.templates.environment import TEMPLATES

TEXT = """dim D = 64
score S(h: entity, r: relation, t: entity):
    param E[entity, D]
    param R[relation, D]
    return 0.5 * sum(E[h] * R[r] * E[t])
"""
TEXTS = [TEXT, TEXT.replace("S(", "Renamed("), TEXT.replace("0.5 * ", ""), TEXT.replace("* E[t]", "+ E[t]")]
VIEWS = [
    [{"stage": "graph"}, {"stage": "loops"}, {"stage": "slc"}, {"stage": "cuda"}],
    [{"stage": "graph", "drawn": True}, {"stage": "kernels"}, {"stage": "dlc", "passes": True}],
    [{"stage": "graph", "diff": True, "at": 0}, {"stage": "kernels", "decisions": False}],
]
OPTIONS = [{}, {"grad": True}]


def answer(client: TestClient, text: str, panes: object, options: object) -> str:
    """An edit's answer but for the versions of its texts, of which each has its own."""
    form = {"text": text, "edit": 2, "panes": json.dumps(panes), "options": json.dumps(options)}
    found = client.post("/compile", data=form)
    assert found.status_code == 200
    return re.sub(r'data-text="[^"]*"', "", found.text)


def test_an_answer_is_the_same_with_what_was_kept_of_others(client: TestClient) -> None:
    asked = [(text, panes, options) for text in TEXTS for panes in VIEWS for options in OPTIONS]
    with_kept = [answer(client, *each) for each in asked]
    assert environment._KEPT.nbytes > 0
    for each, kept in zip(asked, with_kept, strict=True):
        environment._KEPT.clear()
        assert answer(client, *each) == kept


stages = st.builds(
    RailStage,
    name=st.sampled_from(["graph", "cuda", "slc.opt1"]),
    title=st.sampled_from(["a", "<b>"]),
    summary=st.just("s"),
    total=st.none() | st.integers(0, 2),
    open=st.booleans(),
    aside=st.booleans(),
    fork=st.sampled_from(["", "graph", "loops"]),
    own=st.lists(st.tuples(st.integers(0, 1), st.integers(1, 2)), max_size=2, unique_by=lambda pair: pair[0]).map(
        tuple
    ),
)


@given(stages)
def test_a_stage_of_the_rail_is_as_its_macro_makes_it(stage: RailStage) -> None:
    made = TEMPLATES.env.get_template("kept.html").module.rail_stage(stage)  # type: ignore[attr-defined]
    assert environment._once("rail_stage", stage) == made


SWITCH = st.none() | st.booleans()


@given(st.tuples(SWITCH, SWITCH, SWITCH, st.booleans(), st.booleans(), st.booleans()))
def test_the_tools_of_a_pane_are_as_their_macro_makes_them(switches: tuple[bool | None, ...]) -> None:
    made = TEMPLATES.env.get_template("kept.html").module.pane_tools(*switches)  # type: ignore[attr-defined]
    assert environment._once("pane_tools", *switches) == made


def test_what_is_kept_has_its_bound() -> None:
    for number in range(4_000):
        environment._once("pass_steps", f"{number}{'x' * 1_000}", True, False)
        assert environment._KEPT.nbytes <= limits.KEPT_MARKUP_BYTES
    assert isinstance(environment._once("pass_steps", "<b>", True, False), Markup)
    assert "&lt;b&gt;" in environment._once("pass_steps", "<b>", True, False)
