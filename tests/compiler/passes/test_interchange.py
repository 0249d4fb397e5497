"""The innermost loop walks matrices along their rows, or the report says why not."""

from tests.compiler.models import TRANSR, compiled


def test_a_row_times_a_matrix_is_interchanged(golden):
    stage = compiled(TRANSR).stages["loops"]
    assert "# interchanged" in stage.text
    golden(stage.text)


def test_it_says_what_it_did():
    report = compiled(TRANSR).stages["loops"].passes[1]
    assert report.changed
    assert report.summary == "d outside k: the innermost loop walks the rows of P"


def test_the_option_switches_it_off():
    stage = compiled(TRANSR, options={"interchange": "off"}).stages["loops"]
    report = stage.passes[1]
    assert not report.changed
    assert report.refusals == ("loops k and d stay: the option interchange is off",)
    assert "row " not in stage.text


def test_a_matrix_times_a_row_stays_as_it_is():
    report = compiled(TRANSR.replace("@ P[r]", "@ P[r].T").replace("D, K]", "K, D]")).stages["loops"].passes[1]
    assert not report.changed
    assert "d walks the rows of P already" in report.refusals[0]
