"""What CONTRIBUTING.md shows works as it stands there."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

import numpy as np

from explorer.compiler.interpret import run_program
from explorer.compiler.ir.graph import Elementwise, verify_graph
from explorer.compiler.ir.node import operations_of
from explorer.compiler.ir.verify.kernels import verify_scheduled
from explorer.compiler.report import Report
from tests.compiler.models import compiled, draw_inputs
from tests.compiler.new_function import PAGE, ROOT


def test_a_function_is_added_by_the_edits_that_are_shown() -> None:
    """Through every interpreter, on CPU, machine and emulated GPU, forward and backward."""
    ran = subprocess.run(
        [sys.executable, "-m", "tests.compiler.new_function"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr


def test_the_pass_that_is_shown_does_what_it_says() -> None:
    (source,) = re.findall(r"```python\n(\"\"\"Drops.*?)```", PAGE, re.DOTALL)
    (text,) = re.findall(r"```\n(score Ones.*?)```", PAGE, re.DOTALL)
    names: dict[str, Any] = {"__name__": "times_one"}
    exec(compile(source, "CONTRIBUTING.md", "exec"), names)
    before, report = compiled(text).stages["graph"].program, Report.silent()
    after = names["times_one"](before, report)
    verify_graph(after)
    left = [value.operator.function for value in after.values if isinstance(value.operator, Elementwise)]
    assert left == ["add", "mul"]
    assert len(report.done) == 2
    origins = (operations_of(*(value.origin for value in graph.values)) for graph in (before, after))
    assert next(origins) == next(origins)


def test_the_strategy_that_is_shown_does_what_it_says() -> None:
    (source,) = re.findall(r"```python\n(\"\"\"A thread an iteration, of.*?)```", PAGE, re.DOTALL)
    names: dict[str, Any] = {"__name__": "threads"}
    exec(compile(source, "CONTRIBUTING.md", "exec"), names)
    (text,) = re.findall(r"```\n(score Bias.*?)```", PAGE, re.DOTALL)
    compilation = compiled(text)
    nest, inputs = compilation.stages["loops"].program, draw_inputs(compilation, batch=300)
    (made,) = names["schedule_threads"](nest, Report.silent())
    verify_scheduled(made)
    assert [line.split()[0] for line in made.schedule] == ["split", "bind", "bind"]
    np.testing.assert_allclose(run_program(made, inputs)[0], run_program(nest, inputs)[0], rtol=1e-6)
    (dot,) = re.findall(r'DOT = """(.*?)"""', PAGE, re.DOTALL)
    report = Report.silent()
    assert names["schedule_threads"](compiled(dot).stages["loops"].program, report) == ()
    assert any("more than scalars" in reason for reason in report.refusals)
