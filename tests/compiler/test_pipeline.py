"""The pipeline as a whole: every example through every stage."""

import re
from pathlib import Path

import numpy as np
import pytest

from explorer.compiler import stages as stages_module
from explorer.compiler.ir.node import operations_of
from explorer.compiler.options import OptionError, read_options
from explorer.compiler.pipeline import STAGES
from explorer.runtime.reference import evaluate as reference
from tests.compiler.models import EXAMPLES, TRANSR, compiled, draw_inputs

SIZES = [{}, {"D": 1, "K": 1}, {"D": 33, "K": 5}, {"D": 6, "K": 100}]
INTERPRETED = ("graph", "loops", "slc", "dlc")
STRUCTURE = re.compile(
    r"^\s*(kernel |slc \w|dlc \w|size |index |param |input |output |access$|execute$|while |\}|$)"
    r"|^\s*(score |dim |map )"
)


def test_there_are_the_seven_examples():
    assert [path.stem for path in EXAMPLES] == [
        "distmult",
        "rescal",
        "transe_l1",
        "transe_l2",
        "transf",
        "transh",
        "transr",
    ]


@pytest.mark.parametrize("negatives", ["none", "tail:3", "head:2"])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_stage_computes_what_the_reference_does(path, sizes, negatives):
    text = path.read_text()
    sizes = {name: size for name, size in sizes.items() if re.search(rf"\b{name}\b\s*=", text)}
    if sizes.get("D", 0) * sizes.get("K", sizes.get("D", 0)) > 600 and negatives != "none":
        sizes = {name: min(size, 9) for name, size in sizes.items()}
    sizes = sizes or dict.fromkeys(compiled(text, on_demand=True).sizes, 8)
    compilation = compiled(text, sizes=sizes, options={"negatives": negatives})
    inputs = draw_inputs(compilation, batch=2)
    want = reference.score(text, inputs, sizes=dict(compilation.sizes), negatives=negatives)
    for stage in INTERPRETED:
        np.testing.assert_allclose(compilation.run(inputs, on=stage), want, rtol=2e-5, atol=2e-5, err_msg=stage)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_line_that_computes_knows_its_operations(path):
    compilation = compiled(path.read_text())
    spans = {operation.span for operation in compilation.operations}
    for name in INTERPRETED:
        for line in compilation.stages[name].lines:
            assert line.origin or STRUCTURE.match(line.text), f"{name}: no origin: {line.text}"
            assert spans >= operations_of(line.origin), f"{name}: an origin that is no operation: {line.text}"


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_operation_is_seen_in_every_stage(path):
    compilation = compiled(path.read_text())
    for name in INTERPRETED:
        seen = operations_of(*(line.origin for line in compilation.stages[name].lines))
        for operation in compilation.operations:
            assert operation.span in seen, f"{operation.label} has no line in {name}"


def test_a_pass_has_one_name_everywhere():
    folder = Path(__file__).resolve().parents[2] / "explorer" / "compiler"
    for spec in STAGES:
        for step in spec.passes:
            module = Path(*step.__module__.split(".")[2:])
            assert (folder / module).with_suffix(".py").is_file()
            if module.parts[0] == "passes":
                assert module.name == step.__name__
    names = [report.name for report in compiled(TRANSR).stages["loops"].passes]
    assert names == ["fuse", "interchange", "online", "hoist", "share_rows", "pack", "pad"]


def test_the_compiler_knows_no_model_by_name():
    sources = list((Path(__file__).resolve().parents[2] / "explorer").rglob("*.py"))
    names = "|".join(sorted({path.stem.split("_")[0] for path in EXAMPLES}))
    layers = ("compiler", "machine", "runtime")
    for source in sources:
        if source.parts[-2] in layers or any(layer in source.parts for layer in layers):
            assert not re.search(rf"[\"']({names})[\"']", source.read_text(), re.IGNORECASE), source


def test_a_text_is_printed_when_somebody_looks(monkeypatch):
    printed = []

    def lines_of(program):
        printed.append(type(program).__name__)
        return print_lines(program)

    print_lines = stages_module.lines_of
    monkeypatch.setattr(stages_module, "lines_of", lines_of)
    compilation = compiled(TRANSR, on_demand=True)
    assert compilation.stages["cuda"].text
    assert printed == ["Code"]
    assert compilation.stages["kernels"].text
    assert compilation.stages["kernels"].lines is compilation.stages["kernels"].lines
    assert printed == ["Code", "ScheduledKernel"]
    assert [step.changed for step in compilation.stages["kernels"].passes][-1]


def test_a_broken_text_has_diagnostics_and_no_stages():
    import explorer

    compilation = explorer.compile(TRANSR.replace("R[r]", "Rr[r]"))
    assert not compilation.ok
    assert not compilation.stages
    assert "did you mean 'R'" in compilation.diagnostics[0].message
    with pytest.raises(ValueError, match="errors"):
        compilation.run({}, on="graph")


def test_an_option_that_does_not_exist_is_a_diagnostic():
    import explorer

    compilation = explorer.compile(TRANSR, options={"inspector": "off"})
    assert [d.message for d in compilation.diagnostics] == [
        "there is no option 'inspector': the options are negatives, grad, apart, reorder, compact, edges, aggregate, "
        "interchange, online, pack, pad, inspect, inspect_edges, inspect_cached, inspect_block, inspect_group, "
        "inspect_reload, inspect_shuffle, precision, arch, split, chunk, lanes, lane_vectors, block_rows, "
        "block_columns, preload, balance, popular, encoding, opt, vlen, address_streams, store_streams, "
        "level_hints, accumulate_streams, toggle_callbacks"
    ]


def test_inspection_takes_its_words_and_those_of_a_switch():
    said = [read_options({"inspect": word}).inspect for word in ("off", "on", False, True, 1, "Chunks")]
    assert said == ["false", "true", "false", "true", "true", "chunks"]
    for name, wrong in (("inspect", "yes"), ("inspect_edges", 5), ("inspect_cached", 9), ("inspect_block", 48)):
        with pytest.raises(OptionError, match=name):
            read_options({name: wrong})
    with pytest.raises(OptionError, match="inspect_group is one of 1, 2, 4, 8, 16, 32, 64, 128, not '256'"):
        read_options({"inspect_group": "256"})


def test_a_precision_that_does_not_exist_is_a_diagnostic():
    import explorer

    compilation = explorer.compile(TRANSR, options={"precision": "half"})
    said = "precision is one of float32, tf32x3, tf32, not 'half'"
    assert [d.message for d in compilation.diagnostics] == [said]


def test_the_longest_chain_of_operations_compiles():
    steps = "".join(f"    x{n + 1} = x{n} * 0.5 + E[h]\n" for n in range(240))
    text = f"dim D = 2\nscore Chain(h: entity, r: relation, t: entity):\n    param E[entity, D]\n    x0 = E[t]\n{steps}"
    compilation = compiled(text + "    return sum(x240)\n")
    inputs = draw_inputs(compilation)
    np.testing.assert_allclose(compilation.run(inputs, on="dlc"), compilation.run(inputs, on="graph"), rtol=1e-4)


def test_the_longest_sum_in_a_line_compiles():
    terms = " + ".join(["E[h]", "E[t]"] * 240)
    head = "dim D = 2\nscore Sum(h: entity, r: relation, t: entity):\n    param E[entity, D]\n"
    text = f"{head}    return sum({terms})\n"
    compilation = compiled(text)
    inputs = draw_inputs(compilation)
    want = reference.score(text, inputs, sizes={})
    for stage in INTERPRETED:
        np.testing.assert_allclose(compilation.run(inputs, on=stage), want, rtol=1e-4, err_msg=stage)


@pytest.mark.parametrize("on", ["gpu", "nope", "cuda"])
def test_running_on_what_does_not_run_is_a_value_error(on):
    compilation = compiled(TRANSR)
    with pytest.raises(ValueError, match=r"stage or target|interpreter|no GPU to run on"):
        compilation.run(draw_inputs(compilation), on=on)
    assert "nope" not in compilation.stages
    with pytest.raises(KeyError):
        compilation.stages["nope"]
