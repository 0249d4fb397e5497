"""A stage's text as somebody has changed it: refused with a place, wrong with a value, or going on from there."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from time import process_time
from typing import Any

import pytest

import explorer
from explorer.compiler import interpret
from explorer.compiler.edited.lines import match
from explorer.compiler.edited.reading import EDITABLE, read_edited
from explorer.compiler.edited.verdict import EditedStage
from explorer.compiler.ir.node import Made
from explorer.compiler.stages import lines_of
from explorer.runtime.proof import prove
from explorer.runtime.run import RunRequest, execute

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
MODELS: dict[str, dict[str, Any]] = {
    "kge/transr": {},
    "embedding/sls": {"opt": 3},
    "rgnn/rgat": {"grad": True},
}


def compiled(name: str = "kge/transr", **options: Any) -> explorer.Compilation:
    return explorer.compile((EXAMPLES / f"{name}.emb").read_text(), options=options, on_demand=True)


def edited(compilation: explorer.Compilation, stage: str, *changes: tuple[str, str]) -> explorer.Compilation:
    """The compilation with a stage's text changed in these places, each of which is there."""
    text = compilation.stages[stage].text
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    return compilation.with_edited({stage: text})


def verdict(compilation: explorer.Compilation) -> EditedStage:
    (edit,) = compilation.edits
    return edit


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize(("changed", "status"), [("p * u", "matches"), ("u + p", "wrong")])
def test_an_edit_is_tried_with_negatives_that_triples_share(changed: str, status: str, grad: bool) -> None:
    found = edited(compiled(negatives="tail:3/4", grad=grad), "loops", ("u * p", changed))
    assert verdict(found).verdict.status == status


def test_an_edit_that_matches_is_what_all_stages_onward_are_made_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prove, "ENOUGH_SECONDS", 60.0)  # a slow host tries one input in the time that there is
    plain = compiled()
    found = edited(plain, "loops", ("u * p", "p * u"))
    edit = verdict(found)
    assert (edit.verdict.status, edit.changed, edit.line) == ("matches", 1, 24)
    assert edit.verdict.inputs > 1
    assert edit.verdict.error is not None
    assert 0 <= edit.verdict.error < 1e-5
    assert f"on {edit.verdict.inputs} small inputs" in edit.verdict.message
    assert found.stages["loops"].edited
    assert {name for name in found.stages if found.stages[name].fork} >= {"loops", "slc", "dlc", "kernels", "cuda"}
    assert found.stages["graph"] is plain.stages["graph"]
    assert found.stages["slc"].text != plain.stages["slc"].text
    assert plain.stages["slc"].fork == ""


def test_the_edit_is_one_more_pass_so_it_can_be_seen_beside_what_was_made() -> None:
    found = edited(compiled(), "loops", ("u * p", "p * u")).stages["loops"].passes[-1]
    assert found.name == "edited"
    assert found.changed
    assert [line.text for line in found.before if "u * p" in line.text]
    assert [line.text for line in found.after if "p * u" in line.text]


def test_a_wrong_edit_tells_the_first_value_and_its_operation() -> None:
    plain = compiled()
    found = edited(plain, "loops", ("u * p", "u + p"))
    edit = verdict(found)
    assert edit.verdict.status == "wrong"
    difference = edit.verdict.difference
    assert difference is not None
    assert (difference.output, difference.index) == ("result", (0,))
    assert difference.expected != difference.got
    labels = {operation.span: operation.label for operation in plain.operations}
    assert edit.operation is not None
    assert labels[edit.operation] == "@"
    assert not found.stages["dlc"].available
    assert "proven wrong" in found.stages["dlc"].reason
    assert found.stages["loops"].available


@pytest.mark.parametrize(
    ("changes", "line", "said"),
    [
        ((("acc s = 0.0", "acc s = "),), 11, "expected"),
        ((("u = e - e1", "u = e - nobody"),), 21, "nobody is used before its definition"),
        ((("size D = 64", "size D = 32"),), 2, "D is 64 in the model"),
        ((("param E[entity, D]", "param F[entity, D]"),), 6, "nothing gives the array F"),
        ((("    u2 = sqrt(s)\n", ""), ("    out[b] = u2\n", "    out[b] = q\n")), 30, "q is used before"),
    ],
)
def test_a_text_that_is_no_program_is_refused_where_it_is_wrong(changes: Any, line: int, said: str) -> None:
    plain = compiled()
    found = edited(plain, "loops", *changes)
    assert verdict(found).verdict.status == "refused"
    assert said in verdict(found).verdict.message
    assert verdict(found).line == line
    assert found.stages["dlc"].text == plain.stages["dlc"].text
    assert found.stages["loops"].fork == ""


@pytest.mark.parametrize("stage", ["loops", "slc", "slc.opt1", "dlc", "kernels"])
def test_what_reads_outside_of_an_array_is_wrong_wherever_it_runs(stage: str) -> None:
    plain = compiled("embedding/sls")
    line = next(x for x in plain.stages[stage].text.split("\n") if "idx[" in x or "(idx, " in x)
    after = line.replace("idx[", "bag_ptr[", 1).replace("(idx, ", "(bag_ptr, ", 1)
    found = plain.with_edited({stage: plain.stages[stage].text.replace(line, after, 1)})
    assert verdict(found).verdict.status in ("wrong", "refused")


@pytest.mark.parametrize("step", ["- 1", "+ 2"])
def test_what_writes_beside_an_array_is_wrong_also_below_its_first_row(step: str) -> None:
    """NumPy would take that from the end."""
    changes = ("    begin =", f"    index at = b {step}\n    begin ="), ("out[b, d]", "out[at, d]")
    edit = verdict(edited(compiled("embedding/sls"), "loops", *changes))
    assert (edit.verdict.status, "outside of its array: out[" in edit.verdict.message) == ("wrong", True)


def test_an_endless_loop_is_stopped() -> None:
    began = process_time()
    edit = verdict(edited(compiled(), "loops", ("for d in 0..D", "for d in 0..1000000000000")))
    assert edit.verdict.status in ("refused", "wrong")
    edit = verdict(
        edited(compiled(), "loops", ("    ih = h[b]", "    for n in 0..1000000000000\n      v = 1.0\n    ih = h[b]"))
    )
    assert edit.verdict.status == "refused"
    assert "does not end within" in edit.verdict.message
    assert process_time() - began < 10 * prove.SECONDS, "two proofs, and the stages before"


@pytest.mark.parametrize("name", MODELS)
def test_unchanged_lines_keep_their_operations(name: str) -> None:
    """All is read anew, as if somebody had changed each program, and prints with the origins that it had."""
    plain = compiled(name, **MODELS[name])
    for stage in EDITABLE:
        made = plain.stages[stage]
        assert made.program is not None
        text = made.text.replace("\n\n", "\n \n") if stage == "graph" else made.text.replace("\n  ", "\n   ", 0)
        matched = match(made.lines, text.split("\n"))
        again = read_edited(text, made.program, matched)
        both = list(zip(lines_of(again), made.lines, strict=True))
        assert [one.text for one, _ in both] == [other.text for _, other in both]
        assert [one.origin for one, _ in both] == [other.origin for _, other in both]


@pytest.mark.parametrize("name", MODELS)
def test_a_line_more_keeps_the_operations_of_the_others(name: str) -> None:
    plain = compiled(name, **MODELS[name])
    for stage in ("loops", "slc.opt2", "dlc", "kernels"):
        made = plain.stages[stage]
        assert made.program is not None
        lines = made.text.split("\n")
        at = next(n for n, line in enumerate(lines) if line.startswith("  size "))
        spaced = [*lines[:at], lines[at].replace("  size ", "  size  "), *lines[at + 1 :]]
        matched = match(made.lines, spaced)
        again = lines_of(read_edited("\n".join(spaced), made.program, matched))
        lost = [a.text for a, b in zip(again, made.lines, strict=True) if b.origin and a.origin != b.origin]
        by_hand = [a for a in again if a.origin and a.origin[0] == Made("a line that was edited", "edit")]
        assert (lost, by_hand) == ([], []), stage


def test_the_kernels_of_a_module_that_nobody_touched_stay_the_compilers() -> None:
    plain = compiled("rgnn/rgat", grad=True)
    text = plain.stages["loops"].text
    found = plain.with_edited({"loops": text.replace("  size ", "  size  ", 1)})
    before, after = plain.stages["loops"].program, found.stages["loops"].program
    same = [new is old for new, old in zip(after.programs, before.programs, strict=True)]
    assert same.count(False) == 1


def test_what_the_compiler_makes_is_no_edit_and_cuda_is_not_read_back() -> None:
    plain = compiled()
    same = plain.with_edited({"loops": plain.stages["loops"].text})
    assert verdict(same).verdict.status == "same"
    assert "matches the reference on" in verdict(same).verdict.message
    assert same.stages["slc"] is plain.stages["slc"]


@pytest.mark.parametrize(("stage", "runs"), [("loops", "run_kernel"), ("slc", "run_slc"), ("dlc", "run_dlc")])
def test_of_an_edited_module_that_comes_to_the_same_one_program_is_run(
    stage: str, runs: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prove, "CASES", prove.CASES[:1])
    ran, run = list[str](), getattr(interpret, runs)

    def noted(program: Any, inputs: Any) -> Any:
        ran.append(program.name)
        return run(program, inputs)

    monkeypatch.setattr(interpret, runs, noted)
    plain = compiled("rgnn/rgat", grad=True)
    text = plain.stages[stage].text
    assert verdict(plain.with_edited({stage: text})).verdict.status == "same"
    whole, ran[:] = list(ran), []
    assert len(whole) > 5
    name = re.findall(r"^ +(\w+) = ", text, re.MULTILINE)[-1]  # of the last program that has such a line
    assert verdict(plain.with_edited({stage: re.sub(rf"\b{name}\b", "other_name", text)})).verdict.status == "matches"
    assert 0 < len(ran) < len(whole) / 2


def test_what_the_compiler_makes_is_called_wrong_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    run = interpret.run_kernel
    monkeypatch.setattr(interpret, "run_kernel", lambda *given: {name: 2 * a for name, a in run(*given).items()})
    plain = compiled()
    found = verdict(plain.with_edited({"loops": plain.stages["loops"].text})).verdict
    assert found.status == "same"
    assert "what the compiler makes, and it is proven wrong: result[0] is" in found.message
    assert found.difference is not None


def test_what_kernels_came_to_before_is_no_answer_for_other_arrays() -> None:
    """Of kernels, too, the others are not run again; and a wrong one is found behind those that were kept."""
    plain = compiled("rgnn/rgat", grad=True)
    text = plain.stages["kernels"].text
    assert verdict(plain.with_edited({"kernels": text})).verdict.status == "same"
    assert text.count("0.2") > 1
    wrong = text[: text.rindex("0.2")] + "0.3" + text[text.rindex("0.2") + 3 :]
    assert verdict(plain.with_edited({"kernels": wrong})).verdict.status == "wrong"
    assert verdict(plain.with_edited({"kernels": text})).verdict.status == "same"
    assert verdict(plain.with_edited({"cuda": "int main"})).verdict.status == "refused"
    assert verdict(plain.with_edited({"nowhere": ""})).verdict.status == "refused"


def test_two_stages_may_be_edited_the_later_on_top_of_the_earlier() -> None:
    plain = compiled()
    loops = plain.stages["loops"].text.replace("u * p", "p * u")
    kernels = plain.stages["kernels"].text.replace("threads 256", "threads 128")
    found = plain.with_edited({"kernels": kernels, "loops": loops})
    assert [edit.stage for edit in found.edits] == ["loops", "kernels"]
    assert found.stages["dlc"].fork == "loops"


def test_a_schedule_and_options_leave_the_edit() -> None:
    found = edited(compiled(), "loops", ("u * p", "p * u"))
    assert found.with_schedule({}).stages["loops"].edited
    assert found.with_options(opt=1).edits[0].verdict.status == "matches"


def test_what_the_passes_cannot_go_on_from_is_said_in_the_words_of_the_stage() -> None:
    found = edited(compiled("embedding/sls", opt=3), "slc.opt3", ("for d in 0..D step 16", "for d in 0..D step 8"))
    assert found.edits[0].verdict.status == "matches"
    assert found.stages["dlc"].reason == (
        "The passes cannot go on from slc.opt3 as it was edited: "
        "d_end pushes (16 x f32) each 16 and pops (8 x f32) each 8"
    )


@pytest.mark.parametrize("on", ["cpu", "dae"])
def test_a_run_is_of_the_edited_program_and_refuses_what_is_wrong(on: str) -> None:
    plain = compiled()
    text = plain.stages["loops"].text

    def last(loops: str) -> dict[str, Any]:
        request = RunRequest(text=plain.text, on=on, batch=16, repeat=1, edited={"loops": loops})  # type: ignore[arg-type]
        return list(execute(request))[-1]

    right = last(text.replace("u * p", "p * u"))
    assert (right["event"], right["matches_reference"], right["edited"]) == ("result", True, ["loops"])
    wrong = last(text.replace("u * p", "u + p"))
    assert (wrong["event"], wrong["kind"]) == ("failed", "refused")
    assert "The edited loops cannot be run: result[0] is" in wrong["message"]


def test_an_edited_program_runs_with_checks_on_the_processor() -> None:
    """Right on all the small inputs, which have no more than five lists, and outside of its array on a larger one."""
    plain = compiled("embedding/sls")
    text = plain.stages["loops"].text
    line = next(x for x in text.split("\n") if x.strip().startswith("end ="))
    pad = line[: len(line) - len(line.lstrip())]
    far = f"{pad}index far = b // 6\n{pad}index past = far * 1000000\n{pad}index at = b + past\n"
    found = plain.with_edited({"loops": text.replace(line, f"{far}{line}").replace("out[b, d]", "out[at, d]")})
    assert verdict(found).verdict.status == "matches"
    request = RunRequest(text=plain.text, on="cpu", data="RM1:L0", sizes={"D": 128}, repeat=1)
    request = replace(request, edited={"loops": found.edits[0].text})
    last = list(execute(request))[-1]
    assert (last["event"], "outside of an array" in last["message"]) == ("failed", True)
