"""A compilation that goes on from an edited stage: read, judged, and put in the place of what the compiler made."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from time import perf_counter

from explorer.compiler.edited.lines import Matched, match
from explorer.compiler.edited.reading import EDITABLE, read_edited
from explorer.compiler.edited.verdict import EditedStage, EditRefused, Read, Verdict
from explorer.compiler.frozen import replace
from explorer.compiler.stages import PassReport, Program, Stage, Stages

Judge = Callable[[str, Read], tuple[Program, Verdict]]
"""The program of a stage, once it is read, and what is found of it. Raises EditRefused."""


def fork(stages: Stages, name: str, text: str, judge: Judge) -> tuple[EditedStage, Stages]:
    """What is found of a stage's edited text, and the stages with it in its place; the same where it is refused."""
    began = perf_counter()
    if name not in EDITABLE:
        told = f"the text of {name[:40]} is not read back: that of {', '.join(EDITABLE)} is"
        return EditedStage(name, text, Verdict("refused", told), 1, 1, 0), stages
    made = stages[name]
    if made.program is None:
        return EditedStage(name, text, Verdict("refused", made.reason), 1, 1, 0), stages
    matched = match(made.lines, text.rstrip().split("\n"))
    line, column, program = matched.first + 1, 1, made.program
    if not matched.changed:
        verdict = _of_own(name, made.program, judge)
    else:
        try:
            program, verdict = judge(name, partial(read_edited, text, made.program, matched))
        except EditRefused as error:
            verdict, line, column = Verdict("refused", error.message), error.line or line, error.column
    ms = (perf_counter() - began) * 1e3
    edit = EditedStage(name, text, verdict, line, column, matched.changed, matched.operation, matched.operations, ms)
    return edit, stages.forked(_stage(made, program, matched, ms), edit.why_not_onward) if edit.stands else stages


def _of_own(name: str, program: Program, judge: Judge) -> Verdict:
    """What is found of what the compiler makes, which is run before anybody edits it: then it need not be for an edit
    of another of its kernels."""
    try:
        _, found = judge(name, lambda: program)
    except EditRefused:
        return Verdict("same", "this is what the compiler makes")
    told = f"and it is proven wrong: {found.message}" if found.status == "wrong" else f"and it {found.message}"
    return replace(found, status="same", message=f"this is what the compiler makes, {told}")


def _stage(made: Stage, program: Program, matched: Matched, ms: float) -> Stage:
    """The stage as it was made, and behind its passes the edit as one more: so it can be seen beside what was made."""
    lines = f"{matched.changed} line{'s' * (matched.changed != 1)} edited by hand"
    assert made.program is not None
    edit = PassReport("edited", ms, lines, (), read=made.program, made=program)
    return Stage(made.name, (*made.passes, edit), made.ms + ms, program, edited=True, fork=made.name)
