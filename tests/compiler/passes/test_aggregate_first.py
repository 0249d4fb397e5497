"""Sums are taken before products where both commute."""

from tests.compiler.layers import layer, report


def test_a_sum_of_products_by_type_is_taken_by_pair_first():
    compilation = layer("rgcn")
    said = report(compilation, "aggregate_first")
    assert said.changed
    assert "161,260 rows" in said.summary
    assert "GFLOP" in said.summary


def test_it_needs_the_pairs():
    said = report(layer("rgcn", compact=False), "aggregate_first")
    assert not said.changed
    assert said.refusals == ("products come first: the option compact is off",)


def test_the_option_switches_it_off():
    said = report(layer("rgcn", aggregate=False), "aggregate_first")
    assert not said.changed
    assert said.refusals == ("products come first: the option aggregate is off",)
