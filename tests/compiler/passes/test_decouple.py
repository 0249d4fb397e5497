"""Which loops go to the access unit, and which stay (Ember §6.2)."""

from tests.compiler.models import TRANSR, compiled


def test_lookups_become_streams_and_compute_becomes_callbacks(golden):
    golden(compiled(TRANSR).stages["slc"].text)


def test_loops_that_work_on_rows_stay_with_the_execute_unit():
    report = compiled(TRANSR).stages["slc"].passes[0]
    assert report.refusals == ("loop k1 stays with the execute unit: it loads nothing, it works on rows",)


def test_every_line_belongs_to_a_unit():
    lines = compiled(TRANSR).stages["slc"].lines
    body = lines[next(n for n, line in enumerate(lines) if "slc.for" in line.text) :]
    assert {line.unit for line in body} == {"access", "execute"}
