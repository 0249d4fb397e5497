"""Which values an option takes, and which stages read it: what the covering arrays are made of."""

from collections import defaultdict
from itertools import combinations
from pathlib import Path

import pytest

import explorer
from explorer.compiler import stages as stages_module
from explorer.compiler.options import DECOUPLED, SCHEDULED, VALUES, OptionError, Options, read_options
from explorer.compiler.pipeline import STAGES
from explorer.compiler.report import Report
from tests.compiler.option_pairs import covering_array, levels, reaching, settings

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
USUAL = Options().to_json()
SIDES = {"decoupled": DECOUPLED, "scheduled": SCHEDULED}


def test_every_option_is_a_switch_or_has_its_values():
    switches = {name for name, value in USUAL.items() if isinstance(value, bool)}
    assert switches | VALUES.keys() | {"negatives"} == USUAL.keys()
    assert not switches & VALUES.keys()


@pytest.mark.parametrize("name", USUAL)
def test_an_option_takes_each_of_its_values_and_no_other(name):
    assert levels(name)[0] == USUAL[name]
    for value in VALUES.get(name, levels(name)):
        assert read_options({name: value}).to_json()[name] == value
    with pytest.raises(OptionError, match=name):
        read_options({name: "another"})


def test_no_stage_reads_an_option_of_the_other_side(monkeypatch):
    """What is called an option of the machine, or of a GPU, is read there alone."""
    read = defaultdict(set)

    class Recording:
        def __init__(self, options, stage):
            self.__dict__.update(options=options, stage=stage)

        def __getattr__(self, name):
            read[self.stage].add(name)
            return getattr(self.options, name)

    stage = []
    run, run_pass = stages_module.Stages._run, stages_module._run_pass

    def named(stages, spec, *arguments):
        stage.append(spec.name)
        return run(stages, spec, *arguments)

    def recorded(step, program, report):
        return run_pass(step, program, Report(Recording(report.options, stage[-1]), report.counts))

    monkeypatch.setattr(stages_module.Stages, "_run", named)
    monkeypatch.setattr(stages_module, "_run_pass", recorded)
    sides = {"slc": "decoupled", "dlc": "decoupled", "kernels": "scheduled", "cuda": "scheduled"}
    for model in ("kge/transr", "rgnn/rgat", "embedding/spmm"):
        made = explorer.compile((EXAMPLES / f"{model}.emb").read_text(), options={"grad": True}, on_demand=True)
        for spec in STAGES[:-2]:
            assert made.stages[spec.name].available
    for name, found in read.items():
        side = sides.get(name.split(".")[0])
        for other, options in SIDES.items():
            assert other == side or not found & set(options), name
    assert {"vlen", "split", "reorder", "interchange"} <= set().union(*read.values())


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("family", ["score", "layer"])
def test_any_two_values_meet(side, family):
    made = settings(side, family)
    assert len(made) < 60
    options = reaching(side)
    assert options.keys() - {"grad", "negatives"} <= made[0].keys()
    for one, two in combinations(made[0], 2):
        met = {(setting[one], setting[two]) for setting in made}
        assert len(met) == len(options[one]) * len(options[two]), (one, two)


def test_a_covering_array_is_far_smaller_than_all_settings():
    made = covering_array({f"o{n}": (0, 1, 2) for n in range(13)})
    assert len(made) < 30  # of 1,594,323; the least is known to be 15
