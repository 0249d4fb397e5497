"""Twice the text takes at most 2.5 times the work: Python's calls are counted, which no other process disturbs."""

from cProfile import Profile
from pstats import Stats

import pytest

import explorer
from benchmarks.cases.growing import GROWING
from explorer.compiler.ir.loops import Row
from explorer.compiler.ir.node import walk
from explorer.compiler.ir.verify import accesses, kernels
from explorer.compiler.schedule.lanes.mapping import nest_of_any
from explorer.compiler.schedule.lanes.output_rows import sums_in_rows

MOST = 2.5
CHEAP = ("chain", "sum_of_rows", "functions", "products", "gates", "concatenations", "params", "stored")
CHEAP_GRADIENTS = ("bags",)


VERDICTS = (accesses._SHOWN, kernels._RIGHT)


def calls(text, **options):
    """How many functions, Python's own among them, a compilation calls that knows of no kernel that it keeps the rules:
    the longer text's have those of the shorter."""
    for kept in VERDICTS:
        kept.clear()
    profile = Profile()
    profile.enable()
    compilation = explorer.compile(text, options=options)
    profile.disable()
    assert compilation.ok, [each.message for each in compilation.diagnostics]
    return Stats(profile).total_calls


def ratio(name, count, **options):
    text, _ = GROWING[name]
    calls(text(4), **options)  # what is kept from one compilation to the next
    return calls(text(2 * count), **options) / calls(text(count), **options)


@pytest.mark.parametrize("name", CHEAP)
def test_twice_the_text_takes_about_twice_the_calls(name):
    assert ratio(name, GROWING[name][1] // 4) < MOST


@pytest.mark.parametrize("name", CHEAP_GRADIENTS)
def test_its_gradients_do_too(name):
    assert ratio(name, GROWING[name][1] // 4, grad=True) < MOST


@pytest.mark.swept(3)
@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("name", GROWING)
def test_twice_a_long_text_takes_about_twice_the_calls(name, grad):
    assert ratio(name, GROWING[name][1] // 2, grad=grad) < MOST


def test_rows_for_all_outputs_of_a_nest_are_found_together():
    text, _ = GROWING["bags"]
    counted = []
    for count in (20, 40):
        module = explorer.compile(text(count), options={"grad": True}, on_demand=True).stages["loops"].program
        nests = [nest_of_any(kernel) for kernel in module.programs]
        profile = Profile()
        held = profile.runcall(lambda nests=nests: [sums_in_rows(nest) for nest in nests])
        rows = sum(isinstance(node, Row) for nest in held for node in walk(nest.loop))
        assert rows >= count
        counted.append(Stats(profile).total_calls)
    assert counted[1] < MOST * counted[0]


def test_a_chain_of_softmaxes_is_not_begun_anew_by_each():
    text, _ = GROWING["softmaxes"]
    sizes = []
    for count in (16, 32):
        module = explorer.compile(text(count), on_demand=True).stages["loops"].program
        sizes.append(sum(len(list(walk(program))) for program in module.programs))
    assert sizes[1] < MOST * sizes[0]
