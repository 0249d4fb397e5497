"""What the tests of the language share: a header to write bodies under, and places in short form."""

from explorer.compiler.ir.graph import Contract, Elementwise, Graph, Reshape, Value
from explorer.compiler.language.check import check as check_program
from explorer.compiler.language.diagnostics import DiagnosticsError
from explorer.compiler.language.elaborate.result import CheckResult
from explorer.compiler.language.parsing.parse import parse

HEADER = """dim D = 8, K = 4, H = 2
score f(h: entity, r: relation, t: entity):
    param E[entity, D], R[relation, K], P[relation, D, K], b[relation], M[entity, relation, D]
    param heads[relation, H, K], mats[relation, H, K, D], w0[D, K]
"""
FIRST_LINE = 5
"""Where a body under HEADER begins."""


def check_body(body: str, **arguments) -> CheckResult:
    """Checks a body (without indentation) under HEADER."""
    return check(model(body), **arguments)


def model(body: str) -> str:
    """A body under HEADER, as a text."""
    return HEADER + "".join(f"    {line}\n" for line in body.strip().split("\n"))


def check(text: str, sizes=None, negatives=None, name=None) -> CheckResult:
    """Parses and checks a text, with errors of both kinds."""
    try:
        program = parse(text)
    except DiagnosticsError as error:
        return CheckResult(None, error.diagnostics, ())
    return check_program(program, text, sizes or {}, negatives, name)


def graph_of(body: str, **arguments) -> Graph:
    """The graph of a body that must be right."""
    result = check_body(body, **arguments)
    assert result.graph is not None, [entry.message for entry in result.diagnostics]
    return result.graph


def value_of(expression: str) -> Value:
    """The value of an expression that has a shape, in a score that reduces it away."""
    graph = graph_of(f"x = {expression}\nreturn sum(reshape(x, -1)) + b[r]")
    reshapes = [value.operator for value in graph.values if isinstance(value.operator, Reshape)]
    return graph.value(reshapes[-1].operand)


def shape_of(expression: str) -> tuple[str | int, ...]:
    """The shape of an expression, by name."""
    return value_of(expression).shape


def signature_of(expression: str) -> str:
    """The signature of a product, or the function of an elementwise operation."""
    operator = value_of(expression).operator
    if isinstance(operator, Contract):
        return operator.signature
    assert isinstance(operator, Elementwise)
    return operator.function


def found(result: CheckResult) -> list[tuple[str, str]]:
    """Each diagnostic as `line:column-end` and message."""
    return [(place(entry.span), entry.message) for entry in result.diagnostics]


def place(span) -> str:
    """A span in short: `5:12-16`, or `5:12-6:3` over lines; empty for none."""
    if span is None:
        return ""
    end = f"{span.end_column}" if span.line == span.end_line else f"{span.end_line}:{span.end_column}"
    return f"{span.line}:{span.column}-{end}"


def errors_of(body: str) -> list[tuple[str, str]]:
    """The diagnostics of a body under HEADER; line 1 is the body's first."""
    result = check_body(body)
    assert result.graph is None
    assert result.operations == ()
    places = []
    for entry in result.diagnostics:
        assert entry.span is not None
        column = f"{entry.span.column - 4}-{entry.span.end_column - 4}"
        places.append((f"{entry.span.line - FIRST_LINE + 1}:{column}", entry.message))
    return places
