"""What PyTorch's and Python's lines are in the language: said of a line that does not parse, with the line to write."""

from __future__ import annotations

import re
from collections.abc import Sequence

from lark import Token

from explorer.compiler.ir.node import Span
from explorer.compiler.language.diagnostics import Fix
from explorer.compiler.language.parsing.tree import join, span_of

Description = tuple[str, Span, str, tuple[Fix, ...]]

MODULES = frozenset(("torch", "nn", "F", "functional", "np", "numpy", "math", "jnp", "tf"))
"""What functions are taken from elsewhere."""
TABLES = frozenset(("Embedding", "Linear", "Parameter", "EmbeddingBag"))
"""What a module makes its tensors with."""
OF_RELATIONS = ("rel", "r", "p")
"""How names of tables begin that have a row for each relation."""
HEADERS = (
    "A class is a definition: score X(h: entity, r: relation, t: entity): of triples, layer X(g: graph): of a graph, or"
    " op X(b: bag of row): of lists. Its forward is the body, and what __init__ makes is declared at its beginning."
    " Of a module of PyTorch, `explorer import model.py:example` writes the text."
)
METHODS = {
    "__init__": "What it makes is declared at the beginning of the definition, as in param E[entity, D].",
    "forward": "Its lines are the body of the definition.",
}
"""What becomes of a module's methods; of any other, a `def` of the language."""
CLASS, IMPORTS = "class", ("import", "from")
_PYTHON = re.compile(rf"^(?:{'|'.join((CLASS, *IMPORTS))}) |^ *def +\w+\( *self\b", re.MULTILINE)
"""How lines begin that Python has and the language has nowhere."""
BEFORE_VALUES = ("return", "in", "for")
"""Words behind which a bracket begins a value."""
METHOD = "A function stands before what it takes, as in sum(x), and its name has no dot."


def is_python(text: str) -> bool:
    """Whether a text that does not parse is Python's, such as a module that somebody pastes."""
    return _PYTHON.search(text) is not None


def describe_pasted(line: Sequence[Token], position: int) -> Description | None:
    """What a line of PyTorch or Python is here; None for any other line. The line ends with its _NEWLINE."""
    words = [str(token) for token in line[:-1]]
    whole = join(span_of(line[0]), span_of(line[-2])) if len(line) > 1 else span_of(line[0])
    if words[:1] == [CLASS]:
        return "the language has no classes", span_of(line[0]), HEADERS, ()
    if words[:1] and words[0] in IMPORTS:
        delete = Fix("Delete this line", whole, "")
        return "the language has no imports", span_of(line[0]), "All its functions are there.", (delete,)
    if words[:1] == ["def"] and "self" in words:
        detail = METHODS.get(words[1], "It is a def of its own, without self, before what calls it.")
        return f"'{words[1]}' is a method, and the language has no classes", span_of(line[1]), detail, ()
    if words[:3] == ["super", "(", ")"]:
        return "the language has no classes", whole, HEADERS, (Fix("Delete this line", whole, ""),)
    if words[:2] == ["self", "."] and len(words) > 4 and words[3] == "=" and TABLES.intersection(words[4:8]):
        return _of_table(words, whole)
    if position and line[position].type == "DIM" and words[position + 1 : position + 2] == ["="]:
        span = span_of(line[position])
        return "the dimension along which a function works is its axis", span, "", (Fix("Use axis", span, "axis"),)
    return _of_results(line, words) or _of_call(line, position, words)


def _of_table(words: Sequence[str], whole: Span) -> Description:
    """`self.E = nn.Embedding(n, d)`."""
    name = words[2]
    made = next(word for word in words[4:8] if word in TABLES)
    index_set = "relation" if name.lower().startswith(OF_RELATIONS) else "entity"
    extents = {"Embedding": f"{index_set}, D", "EmbeddingBag": "row, D", "Linear": "F, G"}.get(made, "D")
    declared = f"param {name}[{extents}]"
    detail = "Index sets, such as entity, come first, then sizes: dim D = 64 before the definitions."
    fix = Fix(f"Use {declared}", whole, declared)
    return f"what {made} makes is declared at the beginning of a definition: {declared}", whole, detail, (fix,)


def _of_results(line: Sequence[Token], words: Sequence[str]) -> Description | None:
    """`return a, b,` and `e["a"], e["b"] = f(x)`, which are almost several values."""
    tokens = [token for token, word in zip(line, words, strict=False) if word.strip()]
    if tokens and tokens[-1].type == "_COMMA" and (words[0] == "return" or "=" in words):
        return "nothing stands behind the last comma", span_of(tokens[-1]), "", ()
    equal = words.index("=") if "=" in words else 0
    depth = 0
    for token, word in zip(line[:equal], words, strict=False):
        depth += (word in "([") - (word in ")]")
        if token.type == "_COMMA" and not depth and "[" in words[:equal]:
            detail = "Give the values names first, and then the data: a, b = f(x)."
            return "of several values, names stand left of '='", span_of(token), detail, ()
    return None


def _of_call(line: Sequence[Token], position: int, words: Sequence[str]) -> Description | None:
    """`torch.norm(x)`, `self.E(h)` and `x.sum()`, at their bracket."""
    if position < 3 or words[position : position + 1] != ["("] or words[position - 2] != ".":
        return None
    called, first = line[position - 1], position - 3
    while first >= 2 and words[first - 1] == ".":
        first -= 2
    path = join(span_of(line[first]), span_of(called))
    if words[first] == "self":
        closing = _closing(words, position)
        inner = "".join(words[position + 1 : closing])
        indexed = f"{called}[{inner}]"
        fixes = (Fix(f"Use {indexed}", join(path, span_of(line[closing])), indexed),) if inner.isidentifier() else ()
        return f"the language has no 'self': rows of a table are taken as in {called}[i]", path, "", fixes
    if words[first] in MODULES:
        return (
            f"functions stand without their module: {called}(...)",
            path,
            "",
            (Fix(f"Use {called}", path, str(called)),),
        )
    return "the language has no methods", span_of(called), METHOD, _of_method(line, position, words)


def _of_method(line: Sequence[Token], position: int, words: Sequence[str]) -> tuple[Fix, ...]:
    """The fix of `x.sum(...)`: the function before what it takes."""
    name, start = words[position - 1], _begin(words, position - 3)
    if start is None:
        return ()
    base, more = _text(line[start : position - 2]), "" if words[position + 1] == ")" else ", "
    span = join(span_of(line[start]), span_of(line[position]))
    return (Fix(f"Use {name}({base if len(base) <= 24 else '...'})", span, f"{name}({base}{more}"),)


def _begin(words: Sequence[str], end: int) -> int | None:
    """Where the value begins that ends at a word: a name, a bracket with all in it, and what these are behind."""
    place = end
    while place >= 0:
        if words[place] in (")", "]"):
            depth = 0
            while place >= 0:
                depth += (words[place] in ")]") - (words[place] in "([")
                if not depth:
                    break
                place -= 1
            before = words[place - 1] if place > 0 else ""
            if (before.isidentifier() and before not in BEFORE_VALUES) or before in (")", "]"):
                place -= 1
                continue
            return place if place >= 0 else None
        return place if words[place].isidentifier() and (place == 0 or words[place - 1] != ".") else None
    return None


def _closing(words: Sequence[str], opening: int) -> int:
    """Where a bracket closes, or the last word."""
    depth = 0
    for place in range(opening, len(words)):
        depth += (words[place] in "([") - (words[place] in ")]")
        if not depth:
            return place
    return len(words) - 1


def _text(tokens: Sequence[Token]) -> str:
    """Tokens as they stand in the text, but for their line ends."""
    found = ""
    for before, token in zip((None, *tokens), tokens, strict=False):
        apart = before is not None and span_of(token)[:2] != span_of(before)[2:]
        found += f" {token}" if apart else str(token)
    return found
