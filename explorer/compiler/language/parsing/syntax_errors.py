"""What to say about a line that does not parse: where it goes wrong, and what was expected there."""

from __future__ import annotations

from lark import Token

from explorer.compiler.ir.node import Span
from explorer.compiler.language.diagnostics import Fix, suggestion
from explorer.compiler.language.parsing.pasted import describe_pasted
from explorer.compiler.language.parsing.tree import span_of

Description = tuple[str, Span, str, tuple[Fix, ...]]

OPERATORS = frozenset(["PLUS", "MINUS", "STAR", "SLASH", "DOUBLE_SLASH", "PERCENT", "DOUBLE_STAR", "AT", "COMPARE"])
KEYWORDS = frozenset(["DIM", "SCORE", "DEF", "PARAM", "INPUT", "RETURN", "LAYER", "OP", "FOR", "IN"])
SYMBOLS = {
    "_COLON": "':'", "_COMMA": "','", "EQUAL": "'='", "LPAR": "'('", "RPAR": "')'", "LSQB": "'['", "RSQB": "']'",
    "IN": "'in'", "NAME": "a name", "SCORE": "'score'", "LAYER": "'layer'", "OP": "'op'", "DEF": "'def'",
    "_NEWLINE": "the end of the line",
}  # fmt: skip
OUTSIDE_DEFINITIONS = "outside of definitions a text has 'dim', 'score', 'layer', 'op' and 'def'"
INSIDE_DEFINITIONS = "a definition has 'param', 'input', assignments, 'for' and 'return'"
BRANCHES = "the language has no branches: every row computes the same, and where(c, a, b) chooses"
FIRST_WORDS = {
    "if": BRANCHES,
    "else": BRANCHES,
    "while": "the language has no 'while': every row computes the same",
    "lambda": "the language has no 'lambda': a helper is a 'def'",
}
TRUTH = "the language has no truth values: a comparison is 0 or 1, c * d is both, max(c, d) either, 1 - c not"
INNER_WORDS = {**FIRST_WORDS, "and": TRUTH, "or": TRUTH, "not": TRUTH}
"""What Python has inside of expressions."""


def describe(line: list[Token], position: int, accepted: set[str]) -> Description:
    """The message, its span, the detail and fixes for the token of a line that the parser did not take.

    The line ends with its _NEWLINE; `accepted` are the terminals that the parser would have taken instead.
    """
    token = line[position]
    previous = line[position - 1] if position else None
    said = describe_pasted(line, position) or _describe_foreign(line, position, accepted)
    if said:
        return said
    if previous is None or (position == 1 and previous.type == "NAME" and "EQUAL" in accepted):
        return _describe_first(line, position, accepted)
    at_end = token.type == "_NEWLINE"
    span = span_of(previous) if at_end else span_of(token)
    found = "" if at_end else f", not {_show(token)}"
    if token.type in KEYWORDS and "NAME" in accepted:
        return f"'{token}' is a word of the language and cannot be a name", span, "", ()
    if {"NAME", "NUMBER"} <= accepted:
        place = "inside" if previous.type in ("LPAR", "LSQB") and token.type in ("RPAR", "RSQB") else "after"
        return f"expected an expression {place} {_show(previous)}{found}", span, "", ()
    if token.type in ("RPAR", "RSQB") and not accepted & {"RPAR", "RSQB"}:
        return f"'{token}' has no bracket that it closes", span, "", ()
    if accepted & OPERATORS and token.type in {"NAME", "NUMBER", "LPAR", "STRING", *KEYWORDS}:
        expected = "',' or an operator" if "_COMMA" in accepted else "an operator"
        return f"expected {expected} between {_show(previous)} and {_show(token)}", span, "", ()
    expected = _expected(accepted)
    if expected:
        return f"expected {expected} after {_show(previous)}{found}", span, "", ()
    return f"{_show(token)} cannot stand here", span, "", ()


def _describe_foreign(line: list[Token], position: int, accepted: set[str]) -> Description | None:
    """About characters and words that the language has no use for, or not yet."""
    token = line[position]
    span = span_of(token)
    previous = line[position - 1] if position else None
    if (
        token.type == "COMPARE"
        and "COMPARE" not in accepted
        and any(part.type == "COMPARE" for part in line[:position])
    ):
        return (
            f"a comparison has two sides: '{token}' cannot follow another",
            span,
            "Both at once are (a < b) * (b < c).",
            (),
        )
    if previous is not None and token.type == "FOR":
        detail = "As in sum(x[e.src] for e in n.incoming_edges()) or stack(W[k] for k in 0..K)."
        message = "a 'for' stands in the brackets of sum, mean, prod, min, max, logsumexp, stack or concat"
        return message, span, detail, ()
    if previous is not None and token.type == "EQUAL" and previous.type in OPERATORS:
        return f"the language has no '{previous}='", span, "It has '+=', '-=', '*=' and '/='.", ()
    if previous is not None and token.type == "UPDATE":
        return f"'{token}' stands behind a name or data, as in x {token} y", span, "", ()
    if previous is not None and (previous.type, token.type) == ("LSQB", "RSQB") and line[0].type in ("PARAM", "INPUT"):
        fix = Fix(f"Use {line[position - 2]}", Span(*span_of(previous)[:2], *span_of(token)[2:]), "")
        return "a number of its own is declared without brackets", span_of(line[position - 2]), "", (fix,)
    if (
        token.type == "_COLON"
        and previous is not None
        and previous.type == "RSQB"
        and line[0].type in ("PARAM", "INPUT")
    ):
        return "all tensors are of 32-bit floats: none has a type of its own", span, "", ()
    if token.type != "FOREIGN":
        return None
    if token in "\"'":
        detail = "A string opens a definition's body, in double quotes, and stands nowhere else."
        message = "this string is never closed" if token == '"' else "strings stand in double quotes"
        return message, span, detail, ()
    if token.isidentifier() and token.isascii():
        message = f"'{token}' is a word of Python and cannot be a name"
        words = INNER_WORDS if position else FIRST_WORDS
        declared = "NAME" in accepted and "NUMBER" not in accepted
        return message if position and declared else words.get(str(token), message), span, "", ()
    if token.isascii() and token.isprintable():
        return f"the language has no character '{token}'", span, "", ()
    shown = f"'{token}' (U+{ord(token):04X})" if token.isprintable() else f"U+{ord(token):04X}"
    return f"the language has no character {shown}: names are of ASCII letters, digits and '_'", span, "", ()


def _describe_first(line: list[Token], position: int, accepted: set[str]) -> Description:
    """About a line whose first word begins no statement."""
    first = line[0]
    span = span_of(first)
    inside = "RETURN" in accepted or "_DEDENT" in accepted or position == 1
    statements = ("param", "input", "return") if inside else ("dim", "score", "layer", "op", "def")
    if first.type == "NAME" and line[min(1, len(line) - 1)].type == "NAME":
        hint, fixes = suggestion(str(first), span, statements)
        if fixes:
            return f"no line begins with '{first}'{hint}", span, "", fixes
    if not inside:
        return f"{_show(first)} cannot stand here: {OUTSIDE_DEFINITIONS}", span, "", ()
    if position == 1 and line[1].type != "_NEWLINE":
        return f"expected '=' after '{first}', not {_show(line[1])}", span_of(line[1]), "", ()
    return f"{_show(first)} begins no statement: {INSIDE_DEFINITIONS}", span, "", ()


def _expected(accepted: set[str]) -> str:
    """What could stand there, where that is short enough to say."""
    if "IN" in accepted:  # one variable is the rule, a second behind ',' the exception
        accepted = {"IN"}
    shown = [SYMBOLS[kind] for kind in SYMBOLS if kind in accepted]
    if "_NEWLINE" in accepted and len(shown) > 1:
        shown.remove(SYMBOLS["_NEWLINE"])
        if accepted & OPERATORS:
            return SYMBOLS["_NEWLINE"]
    if not 1 <= len(shown) <= 4:
        return ""
    return " or ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)


def _show(token: Token) -> str:
    """A token as a message names it."""
    if token.type == "_NEWLINE":
        return "the end of the line"
    return f"'{token}'" if len(token) <= 40 else f"'{token[:37]}…'"
